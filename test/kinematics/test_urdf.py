"""Valid robot descriptions are loaded, and errors name the mistake in invalid ones."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from kinematics.descriptions import ALL_TYPES, FOLLOWERS, LIMIT, chain_urdf, joint, random_urdf

from eim_ros import Sampler
from eim_ros.core.errors import RobotError
from eim_ros.kinematics import Robot, share_path

HINGE = '<axis xyz="0 0 1"/>' + LIMIT
SIMPLE = chain_urdf(joint("a", "revolute", "l0", "l1", HINGE), joint("b", "revolute", "l1", "l2", HINGE))


def test_path_text_and_string_path_give_the_same_robot(tmp_path: Path) -> None:
    path = tmp_path / "robot.urdf"
    path.write_text(SIMPLE, encoding="utf-8-sig")  # some editors write a byte order mark at the start
    robots = [Robot(source) for source in (SIMPLE, path, str(path), "\n  " + SIMPLE)]
    robots.append(Robot(path))
    assert {robot.fingerprint for robot in robots} == {robots[0].fingerprint}


def test_the_encoding_of_a_file_is_the_one_it_declares(tmp_path: Path) -> None:
    for encoding in ("ISO-8859-1", "UTF-16", "UTF-8"):
        path = tmp_path / f"{encoding}.urdf"
        text = f'<?xml version="1.0" encoding="{encoding}"?><!-- Gelenk für Bärte -->' + SIMPLE
        path.write_text(text, encoding=encoding)
        assert Robot(path).fingerprint == Robot(text).fingerprint


def test_base_and_tip_default_to_root_and_only_leaf() -> None:
    robot = Robot(ALL_TYPES)
    assert (robot.base_link, robot.tip_link, robot.name) == ("l0", "l6", "test")
    assert robot.joint_names == ("turn", "slide", "hinge", "hinge2")
    assert robot.continuous.tolist() == [True, False, False, False]
    np.testing.assert_array_equal(robot.lower, [-np.pi, -0.3, -2, -2])
    np.testing.assert_array_equal(robot.upper, [np.pi, 0.6, 1.5, 1.5])


def tree_of(*joints: str) -> str:
    """Return a URDF from joints such as "a > b" (revolute) or "a - b" (fixed), with the parent first."""
    words = [line.split() for line in joints]
    links = dict.fromkeys(link for parent, _, child in words for link in (parent, child))
    parts = [f'<link name="{link}"/>' for link in links]
    for parent, sign, child in words:
        turns = sign == ">"
        parts.append(joint(f"{child}_joint", "revolute" if turns else "fixed", parent, child, HINGE * turns))
    return f'<robot name="tree">{"".join(parts)}</robot>'


@pytest.mark.parametrize(
    ("joints", "expected"),
    [
        (("a > b", "b > c", "c - flange", "flange - tool0", "c - ee_link", "a - base"), "tool0"),
        (("a > b", "b > c", "c - hand", "hand - hand_tcp", "hand > left_finger", "hand > right_finger"), "hand_tcp"),
        (("a > b", "b > roll", "roll - gripper", "gripper > jaw"), "gripper"),
        (("a > front_wheel", "a > b", "b > c", "c - imu_link", "c - end_effector"), "end_effector"),
        (("a > b", "b > c", "c - d", "c - camera", "a > e"), "d"),  # no tool: end of the longest chain
        (("a > finger1", "finger1 > finger2", "finger2 - finger_tip"), "finger_tip"),  # finger joints are the arm
        (("a > left1", "left1 > left_wrist", "a > right1", "right1 > right_wrist"), "left_wrist"),  # first arm
        (("a > b", "b - hand_link", "hand_link - gripper_base", "gripper_base - left_gripper"), "left_gripper"),
        (("a > roll", "roll > gripper_yaw", "gripper_yaw - nub"), "gripper_yaw"),  # link of the last joint
        (("a > b", "b - ee", "b - hand", "hand > f0", "hand > m0", "hand > r0", "f0 > f1"), "ee"),  # other finger names
        (("a > b", "b > Wrist", "Wrist > Fixed_Jaw", "Fixed_Jaw - Fixed_Jaw_tip"), "Wrist"),
        (("a > b", "b > c", "c - base", "base - thumb_base"), "base"),  # a finger is not the tip of an arm
        (("a > b", "b > link7", "link7 - link7_sc", "link7 - link8"), "link8"),  # link7_sc is a part of link7
        (("a > b", "b > wrist", "wrist - /ee_arm", "/ee_arm - /ee_gripper"), "/ee_gripper"),
    ],
)
def test_default_tip_is_the_one_that_users_name(joints: tuple[str, ...], expected: str) -> None:
    assert Robot(tree_of(*joints)).tip_link == expected


def test_joint_of_a_wrist_moves_the_arm_also_where_its_link_is_a_jaw() -> None:
    text = tree_of("a > b", "b > c", "c > Fixed_Jaw", "Fixed_Jaw - Fixed_Jaw_tip", "Fixed_Jaw > Moving_Jaw")
    robot = Robot(text.replace("Fixed_Jaw_joint", "Wrist_Roll"))
    assert (robot.tip_link, robot.dof) == ("Fixed_Jaw_tip", 3)


def test_gripper_next_to_the_frame_of_a_tool_is_no_part_of_the_arm() -> None:
    text = tree_of("a > b", "b > c", "c > gripper", "c - gripper_tcp", "gripper - gripper_tcp2")
    assert Robot(text.replace("gripper_joint", "joint_6")).tip_link == "gripper_tcp"


def test_default_tip_avoids_followers_of_another_branch() -> None:
    text = tree_of("base > right_finger", "base > left_finger")
    follower = text.replace(
        '"right_finger"/>' + HINGE, '"right_finger"/>' + HINGE + '<mimic joint="left_finger_joint"/>'
    )
    assert follower != text
    assert (Robot(text).tip_link, Robot(follower).tip_link) == ("right_finger", "left_finger")


def test_follower_of_a_follower_moves_as_composed() -> None:
    twice = FOLLOWERS.replace('<mimic joint="lead" multiplier="0.2"', '<mimic joint="shadow" multiplier="0.2"')
    offset = float(twice.partition('multiplier="0.2" offset="')[2].partition('"')[0])
    # with shadow = -lead / 2 + 0.3, rail = 0.2 * shadow + offset = -lead / 10 + 0.06 + offset
    once = twice.replace(
        f'<mimic joint="shadow" multiplier="0.2" offset="{offset}"',
        f'<mimic joint="lead" multiplier="-0.1" offset="{0.06 + offset}"',
    )
    assert once != twice
    q = Robot(once).random(20, seed=0)
    np.testing.assert_allclose(Robot(twice).fk(q), Robot(once).fk(q), atol=1e-12)  # for rounding


def test_commas_separate_numbers() -> None:
    robot = Robot(SIMPLE.replace('xyz="0 0 1"', 'xyz="0, 0, 1"'))
    np.testing.assert_array_equal(robot.fk([0.4, 0.2]), Robot(SIMPLE).fk([0.4, 0.2]))


def test_undeclared_prefix_is_read() -> None:
    text = SIMPLE.replace("<limit ", '<limit drake:acceleration="2" ').replace("</robot>", "<drake:group/></robot>")
    assert text.count("drake:") > 1
    assert Robot(text).urdf == Robot(SIMPLE).urdf


def test_revolute_joint_with_the_limits_of_gazebo_is_continuous() -> None:
    robot = Robot(SIMPLE.replace(HINGE, '<axis xyz="0 0 1"/><limit lower="-999999" upper="1e+16" velocity="0"/>'))
    assert robot.continuous.all()
    assert Sampler(robot).solve(robot.fk(robot.random(seed=0)), seed=0)


def test_only_the_chain_counts() -> None:
    robot = Robot(random_urdf(3, 6), "l6", base="l0")
    assert not any("branch" in name for name in robot.joint_names)
    floating = SIMPLE.replace("</robot>", '<link name="x"/>' + joint("f", "floating", "l1", "x") + "</robot>")
    assert Robot(floating, "l2", base="l0").dof == 2


def test_meshes_need_not_exist_and_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    Robot(random_urdf(4, 7), "l7", base="l0")
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""


def test_names_that_pinocchio_reserves_are_fine() -> None:
    text = SIMPLE.replace("l0", "universe").replace('joint name="a"', 'joint name="universe"')
    robot = Robot(text)
    assert robot.base_link == "universe"
    assert robot.joint_names == ("universe", "b")


def test_limits_of_a_follower_narrow_its_leader() -> None:
    robot = Robot(FOLLOWERS.replace('lower="-9" upper="9"', 'lower="-0.2" upper="0.8"'))
    # limits of `lead`: [-1, 1] from shadow = -lead / 2 + 0.3 in [-0.2, 0.8], and [-0.5, 4.5] from rail = lead / 5 - 0.1
    np.testing.assert_allclose((robot.lower[0], robot.upper[0]), (-0.5, 1.0))
    with pytest.raises(RobotError, match="no value of joint 'lead' .* limits and those of its mimic joint 'shadow'"):
        Robot(FOLLOWERS.replace('lower="-9" upper="9"', 'lower="8" upper="9"'))


def test_a_continuous_joint_with_a_sliding_follower_is_bounded() -> None:
    def geared(multiplier: float, kind: str) -> Robot:
        follower = f'<axis xyz="0 0 1"/>{LIMIT}<mimic joint="a" multiplier="{multiplier}"/>'.replace("1.5", "99")
        return Robot(
            chain_urdf(
                joint("a", "continuous", "l0", "l1", '<axis xyz="0 0 1"/>'),
                joint("b", kind, "l1", "l2", follower.replace("-2", "-99")),
            )
        )

    assert geared(0.1, "prismatic").continuous.tolist() == [False]
    assert geared(0.5, "continuous").continuous.tolist() == [False]
    assert geared(-2.0, "continuous").continuous.tolist() == [True]
    assert geared(0.5, "continuous").upper.tolist() == [np.pi]


def changed(old: str, new: str, text: str = SIMPLE) -> str:
    assert old in text
    return text.replace(old, new)


LOOP = chain_urdf(joint("a", "revolute", "l1", "l2", HINGE), joint("b", "revolute", "l2", "l1", HINGE), n_links=3)
REFUSED = {
    "unknown_tip": (SIMPLE, None, "hand", "has no tip link 'hand'; its links are 'l0', 'l1', 'l2'"),
    "unknown_base": (SIMPLE, "world", None, "has no base link 'world'"),
    "same_link": (SIMPLE, "l1", "l1", "the same link 'l1'"),
    "exchanged": (SIMPLE, "l2", "l0", "'l2' is not an ancestor of 'l0'.*exchange them"),
    "several_roots": (SIMPLE.replace("</robot>", '<link name="x"/></robot>'), None, "l2", "this one has 2: 'l0', 'x'"),
    "loop": (LOOP, "l0", "l1", "form a loop"),
    "two_parents": (
        chain_urdf(joint("a", "revolute", "l0", "l2", HINGE), joint("b", "revolute", "l1", "l2", HINGE)),
        "l0",
        "l2",
        "'l2' is the child of more than one joint",
    ),
    "floating": (changed('"b" type="revolute"', '"b" type="floating"'), None, None, "'b' .* type 'floating'"),
    "planar": (changed('"b" type="revolute"', '"b" type="planar"'), None, None, "'b' .* type 'planar'"),
    "misspelt": (
        changed('"b" type="revolute"', '"b" type="revolut"'),
        None,
        None,
        "the supported types are revolute, continuous",
    ),
    "no_movable": (chain_urdf(joint("a", "fixed", "l0", "l1")), None, None, "no movable joint below link 'l0'"),
    "no_limit": (changed(LIMIT, ""), None, None, "revolute joint 'a' needs a <limit>"),
    "empty_limits": (changed('lower="-2"', 'lower="2"'), None, None, "lower limit 2.0 above its upper limit 1.5"),
    "text_limit": (changed('lower="-2"', 'lower="low"'), None, None, "joint 'a': lower='low' is not 1 finite number"),
    "nan_limit": (changed('lower="-2"', 'lower="nan"'), None, None, "lower='nan' is not 1 finite number"),
    "zero_axis": (changed('xyz="0 0 1"', 'xyz="0 0 0"'), None, None, "axis of joint .* is the zero vector"),
    "short_axis": (changed('xyz="0 0 1"', 'xyz="0 1"'), None, None, "xyz='0 1' is not 3 finite number"),
    "outside_leader": (FOLLOWERS, "l1", "l4", "'shadow' mimics 'lead', which is not an independent joint of the chain"),
    "leaders_in_a_circle": (
        FOLLOWERS.replace('joint="lead" multiplier="-0.5"', 'joint="rail" multiplier="-0.5"').replace(
            'joint="lead" multiplier="0.2"', 'joint="shadow" multiplier="0.2"'
        ),
        None,
        "l4",
        "'shadow' mimics 'shadow'",
    ),
    "unknown_child": (changed('child link="l2"', 'child link="l9"'), None, None, "child link 'l9' of joint 'b'"),
    "no_parent": (changed('<parent link="l1"/>', ""), None, None, "'b' needs a <parent>"),
    "nameless_joint": (changed('joint name="b"', "joint"), None, None, "a joint .* no attribute 'name'"),
    "repeated_joint": (changed('"b"', '"a"'), None, None, "joint name 'a' is used more than once"),
    "repeated_link": (changed('link name="l1"', 'link name="l0"'), None, None, "link name 'l0' is used more than"),
    "broken_xml": (SIMPLE[:-4], None, None, "not well-formed XML"),
    "mjcf": ("<mujoco/>", None, None, "MJCF cannot be given as a text"),
    "no_robot": ("<sdf/>", None, None, "must start with <robot>, but it starts with <sdf>"),
    "no_links": ("<robot name='r'/>", None, None, "has no links"),
    "xacro_text": (
        SIMPLE.replace("<robot", '<robot xmlns:xacro="http://ros.org/wiki/xacro"').replace(
            "</robot>", '<xacro:include filename="x"/></robot>'
        ),
        None,
        None,
        "expand it with xacro",
    ),
    "xacro_expression": (changed('lower="-2"', 'lower="${-pi}"'), None, None, "expand it with xacro"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_serial_chain_is_refused_and_named(case: str) -> None:
    text, base, tip, message = REFUSED[case]
    with pytest.raises(RobotError, match=message):
        Robot(text, tip, base=base)


@pytest.mark.parametrize(
    ("name", "meant"), [("Franka", "panda"), ("kuka_iiwa", "iiwa14"), ("UR5_arm", "ur5"), ("ur5e_robot", "ur5e")]
)
def test_unknown_name_suggests_the_included_robot(name: str, meant: str) -> None:
    with pytest.raises(RobotError, match=rf"did you mean {meant}\?$"):
        Robot(name)


def test_unreadable_files_are_refused_and_named(tmp_path: Path) -> None:
    binary = tmp_path / "binary.urdf"
    binary.write_bytes(b"\xff\xfe\x00\x80")
    for source, message in (
        (tmp_path / "missing.urdf", "missing.urdf.*No such file"),
        (tmp_path, "directory"),
        (binary, "not well-formed XML"),
        (tmp_path / "arm.urdf.xacro", "xacro cannot expand .*arm.urdf.xacro"),
        ("a\0b", "null byte"),
        ("", "directory"),
    ):
        with pytest.raises(RobotError, match=message):
            Robot(source)
    with pytest.raises(RobotError, match="no included robot 'iiwa7', only .*iiwa14, panda.*did you mean iiwa14"):
        Robot("iiwa7")


@pytest.mark.parametrize("found_by", ["manifest", "folder"])
def test_xacro_finds_packages_near_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found_by: str) -> None:
    pytest.importorskip("xacro")
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path / "sourced"))
    shapes = tmp_path / "src" / "repository" / "shapes"
    own = tmp_path / "src" / "arm_description"
    for folder, name in ((shapes, "arm_shapes"), (own, "arm_description")):
        (folder / "urdf").mkdir(parents=True)
        if found_by == "manifest":
            (folder / "package.xml").write_text(f"<package><name>{name}</name></package>")
    other = "arm_shapes" if found_by == "manifest" else "arm_description"
    macros = (shapes if found_by == "manifest" else own) / "urdf" / "joints.xacro"
    namespace = 'xmlns:xacro="http://ros.org/wiki/xacro"'
    macros.write_text(SIMPLE.replace("<robot", f"<robot {namespace}"))
    file = own / "urdf" / "arm.urdf.xacro"
    include = f'<xacro:include filename="$(find {other})/urdf/joints.xacro"/>'
    file.write_text(f'<robot name="test" {namespace}>{include}</robot>')
    assert Robot(file).fingerprint == Robot(SIMPLE).fingerprint
    file.write_text(file.read_text().replace(other, "elsewhere"))
    with pytest.raises(RobotError, match="package 'elsewhere' is not found: source the workspace"):
        Robot(file)


def test_xacro_file_is_expanded(tmp_path: Path) -> None:
    path = tmp_path / "arm.urdf.xacro"
    macro = '<xacro:property name="half" value="${pi/2}"/>'
    text = changed('lower="-2"', 'lower="${-half}"').replace(
        '<robot name="', '<robot xmlns:xacro="http://www.ros.org/wiki/xacro" name="'
    )
    path.write_text(text.replace("<link", macro + "<link", 1))
    assert Robot(path).lower[0] == -np.pi / 2
    path.write_text(text)
    with pytest.raises(RobotError, match="xacro cannot expand .*half.*file: 'arm.urdf.xacro NAME:=VALUE'"):
        Robot(path)
    path.write_text(
        text.replace("<link", '<xacro:arg name="half" default="1"/><link', 1).replace("-half", "-1 * $(arg half)")
    )
    assert (Robot(path).lower[0], Robot(f"{path} half:=1.5").lower[0]) == (-1.0, -1.5)


def test_without_xacro_its_files_are_refused_with_the_cure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xacro", None)
    with pytest.raises(RobotError, match="pip install xacro"):
        Robot(tmp_path / "arm.xacro")


def test_a_name_of_robot_descriptions_is_the_file_it_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real package downloads its files, so the test uses an imitation that contains its file."""
    package = tmp_path / "robot_descriptions"
    package.mkdir()
    (tmp_path / "arm.urdf").write_text(SIMPLE)
    (package / "__init__.py").write_text("")
    (package / "arm_description.py").write_text(f"URDF_PATH = {str(tmp_path / 'arm.urdf')!r}")
    (package / "beast_mj_description.py").write_text("MJCF_PATH = 'beast.xml'")
    (package / "bare_description.py").write_text("")
    (package / "far_description.py").write_text("raise OSError('no network')")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.partition(".")[0] == package.name]:
        monkeypatch.delitem(sys.modules, name)  # the real package, if another test has imported it
    assert Robot("arm_description").fingerprint == Robot(SIMPLE).fingerprint
    for name, words in (
        ("beast_mj_description", "cannot read robot description 'beast.xml'"),
        ("bare_description", "no URDF, xacro or MJCF"),
        ("far_description", "no network"),
        ("arms", "no included"),
    ):
        with pytest.raises(RobotError, match=words):
            Robot(name)


def test_a_processed_xacro_loads() -> None:
    declared = SIMPLE.replace("<robot", '<robot xmlns:xacro="http://ros.org/wiki/xacro"')
    assert Robot(declared).fingerprint == Robot(SIMPLE).fingerprint


def test_collision_primitives_survive_stripping() -> None:
    text = share_path("urdf/panda.urdf").read_text()
    assert Robot(text).urdf.count("<collision") == text.count("<collision") > 0


def long_chain(n: int, kind: str = "revolute") -> str:
    """Return a chain of n joints of one kind, except the last joint, which is revolute."""
    links = "".join(f'<link name="l{i}"/>' for i in range(n + 1))
    joints = "".join(
        f'<joint name="j{i}" type="{kind if i + 1 < n else "revolute"}"><parent link="l{i}"/><child link="l{i + 1}"/>'
        '<origin xyz="0 0 0.1"/><axis xyz="0 0 1"/><limit lower="-1" upper="1" effort="1" velocity="1"/></joint>'
        for i in range(n)
    )
    return f'<robot name="long">{links}{joints}</robot>'


def test_chains_of_up_to_64_movable_joints_are_read() -> None:
    robot = Robot(long_chain(64))
    assert robot.dof == 64
    assert robot.fk(np.zeros(64))[2, 3] == pytest.approx(6.4, rel=1e-12)
    for n in (65, 500):
        with pytest.raises(RobotError, match=f"has {n} movable joints, but at most 64 are supported: choose a base or"):
            Robot(long_chain(n))
    assert Robot(long_chain(500), "l500", base="l436").dof == 64


def test_descriptions_of_up_to_2000_links_are_read() -> None:
    """The parser of pinocchio also recurses into fixed links, so a chain of fixed joints is the worst case."""
    assert Robot(long_chain(1999, "fixed")).dof == 1
    for n in (2000, 5000):
        with pytest.raises(RobotError, match=f"has {n + 1} links, but at most 2000 are supported: keep only the links"):
            Robot(long_chain(n))
    joint = long_chain(1).partition("<joint")[2].partition("</joint>")[0]
    with pytest.raises(RobotError, match="has 2001 joints, but at most 2000"):
        Robot('<robot name="r"><link name="a"/>' + f"<joint{joint}</joint>" * 2001 + "</robot>")


def test_deeply_nested_shapes_are_read_without_recursion() -> None:
    nested = "<geometry>" * 5000 + '<sphere radius="1"/>' + "</geometry>" * 5000
    text = SIMPLE.replace('<link name="l1"/>', f'<link name="l1"><collision>{nested}</collision></link>')
    assert nested in text
    assert Robot(text).dof == Robot(SIMPLE).dof
