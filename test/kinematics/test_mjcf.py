"""MJCF files are converted with MuJoCo. MuJoCo's kinematics are the oracle."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eim_ros.core.arrays import FloatArray
from eim_ros.core.errors import MeshError, RobotError, RobotWarning
from eim_ros.ik import Sampler
from eim_ros.kinematics import Robot, body_poses, drawable_shapes
from eim_ros.kinematics.collision import collisions

mujoco: Any = pytest.importorskip("mujoco", reason="`make setup` brings it, colcon does not")

DEFAULTS = """
<mujocoinclude>
  <default>
    <joint axis="0 0 1"/>
    <default class="upper">
      <joint range="-100 80"/>
      <geom type="capsule" size="0.03" group="3"/>
    </default>
    <default class="looks"><geom contype="0" conaffinity="0" type="mesh" group="2"/></default>
  </default>
</mujocoinclude>
"""
ARM = """
<mujoco model="small arm">
  <compiler angle="degree" meshdir="parts"/>
  <include file="defaults.xml"/>
  <asset><mesh file="corner.obj" scale="0.1 0.2 0.3" refpos="0.5 0 0"/></asset>
  <worldbody>
    <geom name="floor" type="plane" size="1 1 1"/>
    <body name="base" pos="0.1 0.2 0.3" euler="10 20 90">
      <body name="shoulder" pos="0 0 0.2" quat="0.5 0.5 0.5 0.5" childclass="upper">
        <joint name="turn"/>
        <joint name="lift" axis="0 1 0.5" pos="0.01 0.02 0.03"/>
        <geom fromto="0 0 0 0 0 0.3"/>
        <geom class="looks" mesh="corner" pos="0.01 0.02 0.03" euler="0 0 30"/>
        <body name="forearm" pos="0 0 0.3">
          <joint name="elbow" axis="1 0 0" ref="30"/>
          <geom fromto="0 0 0 0.2 0 0.2"/>
          <body name="wrist" pos="0.2 0 0.2">
            <geom type="sphere" size="0.01" contype="0" conaffinity="0"/>
            <joint name="roll" range="-360000 360000" limited="false"/>
            <joint name="reach" type="slide" axis="1 0 0" range="-0.1 0.3" ref="0.05"/>
            <body name="coupled" pos="0 0.1 0">
              <joint name="follow" axis="0 1 0" range="-30 40"/>
              <geom size="0.02" fromto="0 0 0 0 0 0.1"/>
              <site name="tool_tip" pos="0 0 0.1" euler="0 90 0"/>
              <body name="left" pos="0 0.02 0.1">
                <joint name="open" type="slide" range="0 0.04"/><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>
              </body>
              <body name="right" pos="0 -0.02 0.1">
                <joint name="shut" type="slide" range="0 0.04"/><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>
              </body>
            </body>
          </body>
        </body>
      </body>
    </body>
  </worldbody>
  <equality>
    <joint joint1="follow" joint2="elbow" polycoef="0.1 -0.5 0 0 0"/>
    <joint joint1="shut" joint2="open"/>
  </equality>
</mujoco>
"""
JOINTS = ("turn", "lift", "elbow", "roll", "reach")


def arm_file(folder: Path, text: str = ARM) -> Path:
    (folder / "parts").mkdir(exist_ok=True)
    (folder / "parts" / "corner.obj").write_text(
        "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4"
    )
    (folder / "defaults.xml").write_text(DEFAULTS)
    file = folder / "arm.xml"
    file.write_text(text)
    return file


def small(folder: Path, inside: str, around: str = "") -> Path:
    file = folder / "small.xml"
    file.write_text(f"<mujoco><worldbody>{inside}</worldbody>{around}</mujoco>")
    return file


@pytest.fixture
def arm(tmp_path: Path) -> Path:
    return arm_file(tmp_path)


def quiet(file: Path, *ends: str, **more: str) -> Robot:
    return Robot.quietly(file, *ends, **more)


def simulated(file: Path, robot: Robot, q: FloatArray) -> FloatArray:
    """Return MuJoCo's poses (n, 4, 4) of the tip, which is a body or a site. Equality constraints are satisfied."""
    model = mujoco.MjModel.from_xml_path(str(file))
    data, poses = mujoco.MjData(model), []
    followers = {model.eq_obj1id[i]: i for i in range(model.neq) if model.eq_type[i] == mujoco.mjtEq.mjEQ_JOINT}
    for row in q:
        data.qpos[:] = model.qpos0
        for name, value in zip(robot.joint_names, row, strict=True):
            data.joint(name).qpos = value
        for joint, equality in followers.items():
            source, adr = model.eq_obj2id[equality], model.jnt_qposadr
            shift = data.qpos[adr[source]] - model.qpos0[adr[source]]
            polynomial = np.polynomial.polynomial.polyval(shift, model.eq_data[equality, :5])
            data.qpos[adr[joint]] = model.qpos0[adr[joint]] + polynomial
        mujoco.mj_kinematics(model, data)
        is_site = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SITE, robot.tip_link) >= 0
        frame = data.site(robot.tip_link) if is_site else data.body(robot.tip_link)
        pose = np.eye(4)
        pose[:3, :3], pose[:3, 3] = frame.xmat.reshape(3, 3), frame.xpos
        poses.append(pose)
    return np.array(poses)


def test_arm_has_the_joints_and_limits_of_mujoco(arm: Path) -> None:
    robot = quiet(arm)
    assert (robot.name, robot.base_link, robot.tip_link) == ("small arm", "world", "tool_tip")
    assert robot.joint_names == JOINTS
    assert robot.continuous.tolist() == [False, False, False, True, False]
    degree = np.deg2rad(1.0)
    lowest = 30.0 * degree + (0.1 - 40.0 * degree) / 0.5  # at this value, `follow` is at its upper limit
    np.testing.assert_allclose((robot.lower[2], robot.upper[2]), (lowest, 80.0 * degree), atol=1e-12)
    np.testing.assert_allclose(robot.lower[[0, 1, 4]], [-100.0 * degree, -100.0 * degree, -0.1], atol=1e-12)
    np.testing.assert_allclose(robot.upper[[0, 1, 4]], [80.0 * degree, 80.0 * degree, 0.3], atol=1e-12)


@pytest.mark.parametrize("tip", ["tool_tip", "coupled", "wrist", "forearm", "shoulder"])
def test_kinematics_are_those_of_mujoco(arm: Path, tip: str) -> None:
    robot = quiet(arm, tip)
    q = robot.random(1000, seed=0)
    np.testing.assert_allclose(robot.fk(q), simulated(arm, robot, q), rtol=0.0, atol=1e-12)


def test_follower_satisfies_the_equality_of_mujoco(arm: Path) -> None:
    """MuJoCo's residual of the equality is zero. This also checks the reference positions of both joints."""
    robot = quiet(arm)
    row = robot.links[[link for link in range(len(robot.links) - 1) if robot.links[link, 14] != 1.0]]
    assert len(row) == 1
    model = mujoco.MjModel.from_xml_path(str(arm))
    data = mujoco.MjData(model)
    data.joint("elbow").qpos = 0.7
    data.joint("follow").qpos = row[0, 14] * 0.7 + row[0, 15]
    mujoco.mj_forward(model, data)
    residuals = data.efc_pos[data.efc_type == mujoco.mjtConstraint.mjCNSTR_EQUALITY]
    np.testing.assert_allclose(residuals, 0.0, atol=1e-12)


def test_gripper_is_not_part_of_the_arm(arm: Path) -> None:
    assert not {"open", "shut"} & set(quiet(arm).joint_names)
    assert quiet(arm, "left").joint_names == (*JOINTS, "open")


def test_solutions_reach_the_pose_in_mujoco(arm: Path) -> None:
    robot = quiet(arm)
    target = robot.fk(robot.random(seed=1))
    solutions = Sampler(robot).sample(target, 8, seed=0)
    assert len(solutions)
    np.testing.assert_allclose(
        simulated(arm, robot, solutions.q), np.broadcast_to(target, (len(solutions), 4, 4)), atol=1e-5
    )


@pytest.mark.parametrize(
    "turned", ['refpos="0.5 0 0" scale="0.1 0.2 0.3"', 'refpos="1 2 3" refquat="1 2 3 4" scale="0.1 0.1 0.1"']
)
def test_meshes_lie_where_mujoco_has_them(tmp_path: Path, turned: str) -> None:
    """MuJoCo moves vertices to the centre of mass and adapts the pose of the geom. This package does neither."""
    arm = arm_file(tmp_path, ARM.replace('scale="0.1 0.2 0.3" refpos="0.5 0 0"', turned))
    robot = quiet(arm)
    body, pose, mesh = next(found for found in drawable_shapes(robot, arm) if isinstance(found[2], tuple))
    vertices = mesh[0] @ pose[:3, :3].T + pose[:3, 3]

    q = np.zeros(robot.dof)
    placed = body_poses(robot, q[None])[0, body]
    found = vertices @ placed[:3, :3].T + placed[:3, 3]
    model = mujoco.MjModel.from_xml_path(str(arm))
    data = mujoco.MjData(model)
    data.qpos[:] = model.qpos0
    for name in JOINTS:
        data.joint(name).qpos = 0.0
    mujoco.mj_kinematics(model, data)
    (geom,) = np.flatnonzero(model.geom_type == mujoco.mjtGeom.mjGEOM_MESH)
    expected = model.mesh_vert @ data.geom_xmat[geom].reshape(3, 3).T + data.geom_xpos[geom]
    for corner in expected:  # MuJoCo may change the order of vertices, and stores single precision
        assert np.abs(found - corner).max(axis=1).min() < 1e-6


def test_collisions_are_those_of_the_capsules(arm: Path) -> None:
    robot = quiet(arm)
    assert collisions(robot, np.zeros(robot.dof)) == []
    assert robot.urdf.count("<capsule") == 3
    assert "corner.obj" not in robot.urdf  # the visual mesh is left out


def test_what_a_urdf_cannot_express_is_said(tmp_path: Path) -> None:
    inside = (
        '<body name="a"><joint name="j"/><geom type="ellipsoid" size="1 1 2"/><site name="tip" pos="1 0 0"/></body>'
    )
    with pytest.warns(RobotWarning, match="cannot express them: 1 ellipsoids"):
        Robot(small(tmp_path, inside))


TWO = """
<body name="a">
  <joint name="j"/>
  <body name="b" pos="1 0 0"><joint name="k"/><site name="t" pos="1 0 0"/>{}</body>
</body>
"""


def test_nonlinear_equality_is_left_out_with_a_warning(tmp_path: Path) -> None:
    around = '<equality><joint joint1="k" joint2="j" polycoef="0 0 1 0 0"/></equality>'
    with pytest.warns(RobotWarning, match="equality of joints 'k', 'j' is ignored, because it is not linear"):
        assert Robot(small(tmp_path, TWO.format(""), around)).dof == 2


def test_closed_loop_warns_only_arms_with_its_joints(tmp_path: Path) -> None:
    loop = '<body name="c"><joint name="c1"/></body><body name="d"><joint name="d1"/></body>'  # a gripper
    around = '<equality><connect body1="c" body2="d" anchor="0 0 0"/></equality>'
    file = small(tmp_path, TWO.format(loop), around)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Robot(file, "t").dof == 2
    assert quiet(file).tip_link == "t"  # the tip does not depend on a joint of the loop
    with pytest.warns(RobotWarning, match="bodies 'c', 'd' close a loop"):
        Robot(file, "c")


def test_joint_held_by_an_equality_is_fixed(tmp_path: Path) -> None:
    file = small(tmp_path, TWO.format(""), '<equality><joint joint1="j" polycoef="0.5 0 0 0 0"/></equality>')
    robot = quiet(file)
    assert robot.joint_names == ("k",)
    np.testing.assert_allclose(robot.fk([0.0])[:3, 3], [2.0 * np.cos(0.5), 2.0 * np.sin(0.5), 0.0], atol=1e-12)


def test_free_root_is_dropped(tmp_path: Path) -> None:
    file = small(tmp_path, f'<body name="trunk" pos="0 0 1"><freejoint/>{TWO.format("")}</body>')
    robot = quiet(file)
    assert (robot.base_link, robot.joint_names) == ("trunk", ("j", "k"))


def test_ball_joint_is_refused(tmp_path: Path) -> None:
    file = small(tmp_path, TWO.format("").replace('name="k"', 'name="k" type="ball"'))
    with pytest.raises(RobotError, match="joint 'k' .* is of type 'ball'"):
        Robot(file, "t")


def test_missing_mesh_is_reported_where_it_is_needed(tmp_path: Path) -> None:
    file = arm_file(tmp_path)
    (tmp_path / "parts" / "corner.obj").unlink()
    robot = quiet(file)
    assert collisions(robot, np.zeros(robot.dof)) == []
    with pytest.raises(MeshError, match="corner.obj"):
        drawable_shapes(robot, file)


def test_broken_file_is_refused_with_the_words_of_mujoco(tmp_path: Path) -> None:
    with pytest.raises(RobotError, match="MuJoCo cannot compile .*small.xml"):
        Robot(small(tmp_path, '<body name="a"><joint type="hing"/></body>'))


def test_text_is_not_read_because_it_may_include_files() -> None:
    with pytest.raises(RobotError, match="MJCF cannot be given as a text"):
        Robot("<mujoco/>")


def test_without_mujoco_the_extra_is_named(arm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(RobotError, match=r"needs MuJoCo: pip install '\.\[mjcf\]'"):
        Robot(arm)
