"""Tests of the default chain, and of warnings about URDFs with probable mistakes."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pinocchio
import pytest
from kinematics.descriptions import LIMIT, chain_urdf, joint

from eim_ros import Sampler
from eim_ros.core.errors import RobotError, RobotWarning
from eim_ros.kinematics import SHIPPED_ROBOTS, Robot

AXIS, UP = '<axis xyz="0 1 0"/>', '<origin xyz="0.02 0 0.3"/>'
HINGE = f"{UP}{AXIS}{LIMIT}"
ROUNDING = 1e-12  # rounding error of a few joints with links below 1 m


def slide(lower: float, upper: float, mimic: str = "") -> str:
    follows = f'<mimic joint="{mimic}" multiplier="-1"/>' if mimic else ""
    return f'{AXIS}<limit lower="{lower}" upper="{upper}" effort="1" velocity="1"/>{follows}'


def arm_with(*ends: str, links: tuple[str, ...]) -> str:
    """Return the URDF of an arm with three joints up to the link `wrist`, followed by other joints and links."""
    names = "".join(f'<link name="{name}"/>' for name in ("base", "upper", "fore", "wrist", *links))
    turns = zip(("base", "upper", "fore"), ("upper", "fore", "wrist"), strict=True)
    body = [joint(f"j{i}", "revolute", parent, child, HINGE) for i, (parent, child) in enumerate(turns)]
    return f'<robot name="arm">{names}{"".join(body)}{"".join(ends)}</robot>'


GRIPPERS = {
    "siblings": (
        joint("j7", "prismatic", "wrist", "p", slide(0.0, 0.035)),
        joint("j8", "prismatic", "wrist", "q", slide(-0.035, 0.0)),
    ),
    "behind_fixed_frames": (
        joint("m", "fixed", "wrist", "mount"),
        joint("j7", "prismatic", "mount", "p", slide(0.0, 0.05)),
        joint("j8", "prismatic", "wrist", "q", slide(0.0, 0.05)),
    ),
    "follower": (
        joint("j7", "prismatic", "wrist", "p", slide(0.0, 0.044)),
        joint("j8", "prismatic", "wrist", "q", slide(-9.0, 9.0, mimic="j7")),
    ),
    "tips_of_fingers": (
        joint("j7", "prismatic", "wrist", "p", slide(0.0, 0.035)),
        joint("j8", "prismatic", "wrist", "q", slide(0.0, 0.035)),
        joint("f", "fixed", "p", "pad"),
    ),
}
LINKS = ("p", "q", "mount", "pad")


def gripper_urdf(kind: str, *frames: str) -> str:
    ends = [*GRIPPERS[kind], *(joint(f"to_{frame}", "fixed", "wrist", frame) for frame in frames)]
    used = [link for link in LINKS if any(f'child link="{link}"' in end for end in ends)]
    return arm_with(*ends, links=(*used, *frames))


@pytest.mark.parametrize("kind", GRIPPERS)
def test_short_slides_at_one_body_are_fingers(kind: str) -> None:
    with pytest.warns(
        RobotWarning, match="tip of robot 'arm' is link '(wrist|mount)', because the sliding joints 'j7'"
    ):
        robot = Robot(gripper_urdf(kind))
    assert robot.joint_names == ("j0", "j1", "j2")
    assert robot.tip_link in ("wrist", "mount")


@pytest.mark.parametrize("frame", ["ee_gripper_link", "tcp", "tool0"])
def test_frame_of_a_tool_next_to_finger_slides_is_the_tip(frame: str) -> None:
    with pytest.warns(RobotWarning, match=frame):
        robot = Robot(gripper_urdf("siblings", "camera_link", frame))
    assert (robot.tip_link, robot.dof) == (frame, 3)


NO_GRIPPERS = {
    "one_slide": (joint("z", "prismatic", "wrist", "p", slide(0.0, 0.1)),),
    "long_slides": (
        joint("y", "prismatic", "wrist", "p", slide(0.0, 0.5)),
        joint("z", "prismatic", "wrist", "q", slide(0.0, 0.5)),
    ),
    "telescope": (
        joint("y", "prismatic", "wrist", "p", slide(0.0, 0.08)),
        joint("z", "prismatic", "p", "q", slide(-0.08, 0.0, mimic="y")),
    ),
    "slides_that_carry_a_joint": (
        joint("y", "prismatic", "wrist", "p", slide(0.0, 0.05)),
        joint("z", "prismatic", "wrist", "q", slide(0.0, 0.05)),
        joint("roll", "revolute", "p", "pad", HINGE),
    ),
}


@pytest.mark.parametrize("kind", NO_GRIPPERS)
def test_other_slides_belong_to_the_arm(kind: str) -> None:
    ends = NO_GRIPPERS[kind]
    used = [link for link in LINKS if any(f'child link="{link}"' in end for end in ends)]
    robot = Robot(arm_with(*ends, links=tuple(used)))  # a warning would be an error
    assert robot.dof > 3


def test_given_tip_may_be_a_finger_and_is_not_mentioned() -> None:
    assert Robot(gripper_urdf("siblings"), "p").joint_names == ("j0", "j1", "j2", "j7")


def test_gripper_alone_is_a_robot() -> None:
    text = gripper_urdf("siblings")
    assert Robot(text, base="wrist").joint_names in (("j7",), ("j8",))


EARLY = chain_urdf(
    joint("yaw", "revolute", "l0", "l1", f'<axis xyz="0 0 1"/>{LIMIT}'),
    joint("early", "revolute", "l1", "l2", f'{HINGE}<mimic joint="late" multiplier="-1" offset="0.1"/>'),
    joint("late", "revolute", "l2", "l3", HINGE),
    joint("last", "revolute", "l3", "l4", HINGE),
)


def test_follower_may_come_before_the_joint_that_it_follows() -> None:
    robot = Robot(EARLY)
    assert (robot.tip_link, robot.joint_names) == ("l4", ("yaw", "late", "last"))
    model = pinocchio.buildModelFromXML(EARLY)
    data = model.createData()
    for q in robot.random(5, seed=0):
        values = dict(zip(robot.joint_names, q.tolist(), strict=True))
        values["early"] = 0.1 - values["late"]
        full = np.array([values[name] for name in list(model.names)[1:]])
        pinocchio.framesForwardKinematics(model, data, full)
        expected = data.oMf[model.getFrameId("l4")].homogeneous
        np.testing.assert_allclose(robot.fk(q), expected, rtol=0, atol=ROUNDING)
        assert Sampler(robot).solve(robot.fk(q), seed=0)


def floating(kind: str = "floating") -> str:
    return chain_urdf(
        joint("root", kind, "l0", "l1", UP),
        joint("mount", "fixed", "l1", "l2", UP),
        joint("a", "revolute", "l2", "l3", HINGE),
        joint("b", "revolute", "l3", "l4", HINGE),
    )


@pytest.mark.parametrize("kind", ["floating", "planar"])
def test_default_base_is_below_the_floating_joint_of_the_root(kind: str) -> None:
    robot = Robot(floating(kind))
    assert (robot.base_link, robot.tip_link, robot.joint_names) == ("l1", "l4", ("a", "b"))
    assert robot.fingerprint == Robot(floating(kind), base="l1").fingerprint
    with pytest.raises(RobotError, match=rf"'root' .* type '{kind}'.*such as 'l1' \(base=, --base or the parameter"):
        Robot(floating(kind), base="l0")


DEGREES = EARLY.replace('lower="-2" upper="1.5"', 'lower="-170" upper="170"')


def test_one_warning_names_all_joints_with_limits_in_degrees() -> None:
    with pytest.warns(RobotWarning) as caught:
        robot = Robot(DEGREES)
    (told,) = (str(each.message) for each in caught)
    assert "joints 'yaw', 'late', 'last' may turn more than 8 times (-170 to 170 rad)" in told
    assert "convert them to radians" in told
    assert robot.remarks == (told,)
    assert caught[0].filename == __file__  # the warning points to the line that loads the robot


def test_one_warning_names_all_joints_that_cannot_move() -> None:
    text = chain_urdf(
        *(
            joint(name, "revolute", f"l{i}", f"l{i + 1}", UP + AXIS + '<limit effort="9"/>')
            for i, name in enumerate("ab")
        ),
        joint("c", "revolute", "l2", "l3", HINGE),
        joint("d", "revolute", "l3", "l4", UP + AXIS + '<limit lower="0.3" upper="0.3"/>'),  # both limits are 0.3
    )
    with pytest.warns(RobotWarning, match="^joints 'a', 'b' cannot move, because both limits are 0") as caught:
        Robot(text)
    assert len(caught) == 1


def test_warnings_are_not_repeated_for_parts_of_the_robot() -> None:
    robot = Robot.quietly(DEGREES)
    assert len(robot.remarks) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        robot.with_tip("l3").with_tool([0.0, 0.0, 0.1])
        Sampler(robot).with_tip("l3")


@pytest.mark.parametrize("name", SHIPPED_ROBOTS)
def test_included_robots_need_no_remark(name: str) -> None:
    assert Robot(name).remarks == ()


def test_command_line_prints_each_warning_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "arm.urdf"
    file.write_text(DEGREES)
    words = [sys.executable, "-m", "eim_ros.cli.main", "solve", "--robot", str(file), "--pose", "0.1", "0", "0.9"]
    run = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert run.stderr.count("warning: joints 'yaw', 'late', 'last' may turn") == 1
    assert "RobotWarning" not in run.stderr
    assert "Traceback" not in run.stderr


XACRO = 'xmlns:xacro="http://www.ros.org/wiki/xacro"'
DEFINITIONS = {
    "property": '<xacro:property name="width" value="${2 * 0.1}"/>',
    "argument": '<xacro:arg name="prefix" default=""/>',
    "macro": '<xacro:macro name="m" params="p"><link name="${p}_l"/><xacro:include filename="x"/></xacro:macro>',
}


@pytest.mark.parametrize("kind", DEFINITIONS)
def test_definitions_of_xacro_that_nothing_uses_are_ignored(kind: str, tmp_path: Path) -> None:
    text = EARLY.replace("<robot", f"<robot {XACRO}").replace("<link", DEFINITIONS[kind] + "<link", 1)
    file = tmp_path / "arm.urdf"
    file.write_text(text)
    for source in (text, file):
        assert Robot(source).fingerprint == Robot(EARLY).fingerprint


USES = {
    "expression": EARLY.replace('upper="1.5"', 'upper="${1.3 + width}"'),
    "argument": EARLY.replace('xyz="0.02 0 0.3"', 'xyz="$(arg x) 0 0.3"'),
    "call": EARLY.replace("</robot>", '<xacro:m p="x"/></robot>'),
    "include": EARLY.replace("</robot>", '<xacro:include filename="other.xacro"/></robot>'),
}


@pytest.mark.parametrize("kind", USES)
def test_urdf_file_that_uses_xacro_is_refused_and_not_evaluated(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "arm.urdf"
    file.write_text(USES[kind].replace("<robot", f"<robot {XACRO}"))
    with pytest.raises(
        RobotError, match=r"expand it with xacro FILE > robot.urdf, or give a file whose name ends in .xacro"
    ):
        Robot(file)
