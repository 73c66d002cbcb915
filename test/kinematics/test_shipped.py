"""Included robots have correct kinematics and collision capsules, and their files are found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest

from eim_ros.core.errors import RobotError
from eim_ros.kinematics import SHIPPED_ROBOTS, Robot, catalogue, share_path
from eim_ros.planar.arm import planar_urdf

DEGREE = np.pi / 180


def test_iiwa_is_upright_at_zero_with_the_maker_s_limits() -> None:
    robot = Robot("iiwa14")
    expected = np.eye(4)
    expected[2, 3] = 0.36 + 0.42 + 0.40 + 0.126
    np.testing.assert_allclose(robot.fk(np.zeros(7)), expected, rtol=0, atol=1e-15)
    limits = np.array([170, 120, 170, 120, 170, 120, 175]) * DEGREE
    np.testing.assert_allclose(robot.upper, limits, rtol=1e-15)
    np.testing.assert_array_equal(robot.lower, -robot.upper)
    assert robot.tip_link == "tool0"
    # the elbow axis is -y, so a right angle at the elbow turns forearm and hand to -x
    bent = robot.fk([0, 0, 0, np.pi / 2, 0, 0, 0])
    np.testing.assert_allclose(bent[:3, 3], [-0.526, 0, 0.78], rtol=0, atol=1e-15)


def test_panda_follows_its_denavit_hartenberg_table() -> None:
    robot = Robot("panda")
    a, d = [0, 0, 0, 0.0825, -0.0825, 0, 0.088], [0.333, 0, 0.316, 0, 0.384, 0, 0]
    alpha = np.array([0, -1, 1, 1, -1, 1, 1]) * np.pi / 2
    for q in robot.random(20, np.random.default_rng(0)):
        pose = np.eye(4)
        for i in range(7):
            (ct, st), (ca, sa) = ((np.cos(x), np.sin(x)) for x in (q[i], alpha[i]))
            pose = pose @ [
                [ct, -st, 0, a[i]],
                [st * ca, ct * ca, -sa, -d[i] * sa],
                [st * sa, ct * sa, ca, d[i] * ca],
                [0, 0, 0, 1],
            ]
        pose[:3, 3] += 0.107 * pose[:3, 2]
        np.testing.assert_allclose(robot.fk(q), pose, rtol=0, atol=1e-14)
    assert robot.tip_link == "panda_link8"
    assert (robot.lower[3], robot.upper[3], robot.upper[5]) == (-3.0718, -0.0698, 3.7525)


UNIVERSAL = {
    "ur5": (0.425, 0.39225, 0.089159, 0.10915, 0.09465, 0.0823),
    "ur3e": (0.24355, 0.2132, 0.15185, 0.13105, 0.08535, 0.0921),
    "ur5e": (0.425, 0.3922, 0.1625, 0.1333, 0.0997, 0.0996),
    "ur10e": (0.6127, 0.57155, 0.1807, 0.17415, 0.11985, 0.11655),
}  # -a2, -a3, d1, d4, d5, d6 [m] from the manufacturer's tables


@pytest.mark.parametrize("name", UNIVERSAL)
def test_universal_robots_follow_their_denavit_hartenberg_tables(name: str) -> None:
    robot, (a2, a3, d1, d4, d5, d6) = Robot(name), UNIVERSAL[name]
    a, d = [0, -a2, -a3, 0, 0, 0], [d1, 0, 0, d4, d5, d6]
    alpha = np.array([1, 0, 0, 1, -1, 0]) * np.pi / 2
    for q in robot.random(20, np.random.default_rng(0)):
        pose = np.diag([-1.0, -1.0, 1.0, 1.0])  # pose of the controller's base in base_link
        for i in range(6):
            (ct, st), (ca, sa) = ((np.cos(x), np.sin(x)) for x in (q[i], alpha[i]))
            pose = pose @ [
                [ct, -st * ca, st * sa, a[i] * ct],
                [st, ct * ca, -ct * sa, a[i] * st],
                [0, sa, ca, d[i]],
                [0, 0, 0, 1],
            ]
        np.testing.assert_allclose(robot.fk(q), pose, rtol=0, atol=1e-14)
    assert robot.tip_link == "tool0"
    np.testing.assert_array_equal(robot.upper, np.pi)
    np.testing.assert_array_equal(robot.lower, -np.pi)


def test_xarm7_is_at_its_zero_position_as_in_the_maker_s_manual() -> None:
    robot = Robot("xarm7")
    pose = robot.fk(np.zeros(7))
    np.testing.assert_allclose(pose[:3, 3], [0.206, 0.0, 0.1205], rtol=0, atol=1e-15)
    np.testing.assert_allclose(pose[:3, :3], np.diag([1.0, -1.0, -1.0]), rtol=0, atol=1e-15)  # half a turn about x


def test_sawyer_is_at_its_zero_position() -> None:
    robot = Robot("sawyer")
    pose = robot.fk(np.zeros(7))
    np.testing.assert_allclose(pose[:3, 3], [1.0155, 0.1603, 0.317], rtol=0, atol=1e-12)
    np.testing.assert_allclose(pose[:3, 2], [1.0, 0.0, 0.0], rtol=0, atol=1e-12)  # the hand points forward


def test_gen3_stands_upright_at_zero() -> None:
    robot = Robot("gen3")
    pose = robot.fk(np.zeros(7))
    height = 0.15643 + 0.12838 + 2 * 0.21038 + 0.20843 + 2 * 0.10593 + 0.061525
    np.testing.assert_allclose(pose[:3, 3], [0.0, -0.0248501, height], rtol=0, atol=1e-12)
    assert robot.continuous.tolist() == [True, False] * 3 + [True]


def test_fetch_lifts_its_arm_by_its_torso() -> None:
    robot = Robot("fetch")
    assert robot.dof == 8
    low = robot.fk(np.zeros(8))[:3, 3]
    np.testing.assert_allclose(low, [1.1281, 0.0, 0.78601], rtol=0, atol=1e-12)
    np.testing.assert_allclose(robot.fk([0.3, *[0.0] * 7])[:3, 3] - low, [0.0, 0.0, 0.3], rtol=0, atol=1e-12)
    assert Robot("fetch", base="torso_lift_link").dof == 7


@pytest.mark.parametrize("n", [3, 5, 10])
def test_planar_files_are_what_the_generator_writes(n: int) -> None:
    assert share_path(f"urdf/planar{n}.urdf").read_text() == planar_urdf(n)


@pytest.mark.parametrize("n", [1, 3, 10])
def test_planar_arm_has_unit_links_in_the_plane(n: int) -> None:
    robot = Robot(planar_urdf(n))
    q = robot.random(20, np.random.default_rng(1))
    heading = np.cumsum(q, axis=1)
    expected = np.stack([np.cos(heading).sum(axis=1), np.sin(heading).sum(axis=1), np.zeros(20)], axis=1)
    np.testing.assert_allclose(robot.fk(q)[:, :3, 3], expected, rtol=0, atol=1e-14)
    assert robot.reach == pytest.approx(n)
    assert robot.dof == n


def test_a_planar_arm_without_links_is_refused() -> None:
    for n, length in ((0, 1.0), (3, 0.0), (3, float("nan"))):
        with pytest.raises(RobotError, match="n_links >= 1"):
            planar_urdf(n, length)


@pytest.mark.parametrize("name", SHIPPED_ROBOTS)
def test_capsules_load_and_distant_links_are_apart_at_rest(name: str) -> None:
    urdf = share_path(f"urdf/{name}.urdf").read_text()
    robot = Robot(name)
    model = pin.buildModelFromXML(urdf)
    capsules = pin.buildGeomFromUrdfString(model, urdf, pin.GeometryType.COLLISION)
    assert capsules.ngeoms % 3 == 0  # a capsule is a cylinder and two spheres
    assert capsules.ngeoms >= 3 * robot.dof
    for i, first in enumerate(capsules.geometryObjects):
        for j, second in enumerate(capsules.geometryObjects[:i]):
            if abs(int(first.parentJoint) - int(second.parentJoint)) > 2:
                capsules.addCollisionPair(pin.CollisionPair(j, i))
    is_plain = model.nq == robot.dof  # continuous joints have cosine and sine
    rest = np.clip(np.zeros(robot.dof), robot.lower, robot.upper) if is_plain else pin.neutral(model)
    if name == "panda":
        rest = np.array([0, -np.pi / 4, 0, -3 * np.pi / 4, 0, np.pi / 2, np.pi / 4])
    assert not pin.computeCollisions(model, model.createData(), capsules, capsules.createData(), rest, True)


@pytest.mark.parametrize("packages", ["lib/python3.11/site-packages", "lib/python3/dist-packages", "."])
def test_shipped_files_are_found_where_the_package_is_installed(
    packages: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip and colcon install into a prefix; `pip install --target` installs into one folder."""
    module = tmp_path / "prefix" / packages / "eim_ros" / "kinematics" / "shipped.py"
    monkeypatch.setattr(catalogue, "__file__", str(module))
    monkeypatch.setenv("AMENT_PREFIX_PATH", f"{tmp_path / 'other'}:{tmp_path / 'overlay'}")
    with pytest.raises(FileNotFoundError, match="overlay"):
        share_path("urdf/iiwa14.urdf")
    with pytest.raises(RobotError, match="not installed"):
        Robot("iiwa14")
    for prefix in ("overlay", "prefix"):  # files next to the package come first
        installed = tmp_path / prefix / "share" / "eim_ros" / "urdf" / "iiwa14.urdf"
        installed.parent.mkdir(parents=True)
        installed.write_text("")
        assert share_path("urdf/iiwa14.urdf") == installed
