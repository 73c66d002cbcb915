"""Tolerances per axis are in the frame of the target, are exact for one free axis, and apply to solver and check."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from kinematics.free_flyer import difference
from kinematics.robots import every_robot, robot_and_oracle
from kinematics.side_by_side import assert_alike, one_by_one_and_side_by_side

from eim_ros.kinematics import Robot, refine
from eim_ros.kinematics.tolerances import JointLimits

FREE = np.inf
TASKS = [
    [0, 0, 0, 0, 0, FREE],
    [0, 0, 0, FREE, 0, 0],
    [0.02, 0.02, FREE, 0, 0, 0],
    [0.05, 0.0, 0.01, 0.3, 0.1, 0.2],
    [0, 0, 0, FREE, FREE, FREE],
    [FREE, FREE, 0, 0, 0, 1.0],
]


@pytest.mark.parametrize(
    ("lower", "upper", "wraps"),
    [(-np.inf, np.inf, True), (-np.inf, 0.5, False), (0.5, np.inf, False), (-1.0, 1.0, False)],
)
def test_continuous_joint_wraps_unless_a_limit_is_narrowed(lower: float, upper: float, wraps: bool) -> None:
    limits = JointLimits(np.array([lower]), np.array([upper]), np.array([True]))
    assert limits.bounds.tolist() == [[lower], [upper], [wraps]]
    assert not JointLimits(limits.lower, limits.upper, np.array([False])).bounds[2].any()


def turned(*rotation_vectors: list[float]) -> np.ndarray:
    """Return a transform that rotates by these rotation vectors; the last rotation is applied first."""
    pose = np.eye(4)
    for vector in rotation_vectors:
        pose[:3, :3] = pose[:3, :3] @ pin.exp3(np.array(vector))
    return pose


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("twist", [0.0, 1.0, -3.0, np.pi])
def test_free_rotation_about_one_axis_leaves_the_angle_between_the_axes(axis: int, twist: float) -> None:
    rng, along = np.random.default_rng(axis), np.eye(3)[axis]
    for angle in (0.0, 1e-7, 0.3, 3.0, np.pi):
        target = turned(rng.standard_normal(3).tolist())
        aside = np.cross(along, rng.standard_normal(3))
        tip = target @ turned((angle * aside / np.linalg.norm(aside)).tolist(), (twist * along).tolist())
        tolerances = [0.0] * 6
        tolerances[3 + axis] = FREE
        distance, error = difference(tip, target, tolerances)
        assert distance == 0.0
        assert error == pytest.approx(angle, abs=1e-12)


def test_components_are_those_of_the_target_frame_beyond_their_tolerances() -> None:
    target = turned([0.3, -0.8, 1.1])
    target[:3, 3] = [1.0, 2.0, 3.0]
    offset = np.eye(4)
    offset[:3, 3] = [0.1, -0.2, 0.05]
    tip = target @ offset @ turned([0.0, 0.4, 0.0], [0.0, 0.0, -0.7])
    tolerances = np.array([0.03, 0.15, 0.06, 0.0, 0.1, 0.5])
    errors = difference(tip, target, tolerances)
    expected = [np.linalg.norm([-0.07, 0.05, 0.0]), np.linalg.norm([0.0, -0.3, 0.2])]
    np.testing.assert_allclose(errors, expected, rtol=0, atol=1e-12)
    for i, beyond in enumerate([0.07, 0.05, 0.0]):  # one axis at a time, with all other axes free
        alone = np.where(np.arange(6) == i, tolerances, FREE)
        assert difference(tip, target, alone)[0] == pytest.approx(beyond, abs=1e-12)
    assert difference(tip, target, [FREE, FREE, FREE, 4.0, 0.1, 5.0])[1] == pytest.approx(0.3, abs=1e-12)  # swing
    assert difference(tip, target, [FREE, FREE, FREE, 0.5, 0.45, 0.5])[1] == pytest.approx(0.2, abs=1e-12)  # twist


def test_half_a_turn_of_an_axis_that_may_not_turn_is_an_error() -> None:
    target = np.eye(4)
    for rotation in ([np.pi, 0, 0], [0, np.pi, 0]):
        assert difference(turned(rotation), target, [0, 0, 0, 0.1, 0, FREE])[1] == pytest.approx(np.pi - 0.1)
    assert difference(turned([np.pi, 0, 0]), target, [0, 0, 0, 0, 0.2, FREE])[1] == pytest.approx(np.pi - 0.2)


@pytest.mark.parametrize("seed", range(5))
def test_without_tolerance_small_errors_are_those_of_the_pose(seed: int) -> None:
    rng = np.random.default_rng(seed)
    target, small = turned(rng.standard_normal(3).tolist()), 1e-3 * rng.standard_normal(3)
    tip = target @ turned(small.tolist())
    _, error = difference(tip, target, [0.0] * 6)
    assert error == pytest.approx(np.linalg.norm(small), abs=5e-6)


@every_robot
@pytest.mark.parametrize("tolerances", TASKS, ids=str)
def test_side_by_side_is_one_by_one(name: str, tolerances: list[float]) -> None:
    robot, _ = robot_and_oracle(name)
    rng = np.random.default_rng(0)
    pose = robot.fk(robot.random(1, rng)[0])
    # after more than 15 steps, limits and tolerances that become active in turn would amplify rounding
    asked = {"tolerances": np.array(tolerances, dtype=float), "max_iterations": 15}
    assert_alike(*one_by_one_and_side_by_side(robot, robot.random(35, rng), pose, **asked))


@every_robot
@pytest.mark.parametrize("tolerances", TASKS, ids=str)
def test_what_converged_is_within_the_tolerances_by_pinocchio(name: str, tolerances: list[float]) -> None:
    robot, oracle = robot_and_oracle(name)
    rng = np.random.default_rng(1)
    pose = robot.fk(robot.random(1, rng)[0])
    result = refine(robot, robot.random(60, rng), pose, tolerances=tolerances)
    assert result.converged.any()
    np.testing.assert_allclose(
        robot.pose_errors(result.positions, pose, tolerances),
        [result.position_error, result.orientation_error],
        rtol=1e-9, atol=1e-12,
    )  # fmt: skip
    task = np.array(tolerances, dtype=float)
    for q in result.positions[result.converged]:
        offset = np.linalg.inv(pose) @ oracle.forward(q)
        assert (np.abs(offset[:3, 3]) <= task[:3] + 1e-6 + 1e-9).all()
        if task[3:].tolist() == [0, 0, FREE]:
            assert np.arccos(np.clip(offset[2, 2], -1, 1)) < 1e-4  # square root of rounding
        if task[3:].tolist() == [0, 0, 0]:
            assert np.linalg.norm(pin.log3(offset[:3, :3])) <= 2e-6
    assert robot.within_limits(result.positions).all()


@pytest.mark.parametrize("name", ["panda", "iiwa14"])
def test_freedom_makes_more_seeds_converge(name: str) -> None:
    robot, rng = Robot(name), np.random.default_rng(2)
    seeds = robot.random(300, rng)
    shares = []
    for tolerances in (None, [0, 0, 0, 0, 0, FREE], [0.1, 0.1, 0.1, 0.3, 0.3, FREE]):
        solved = [
            refine(robot, seeds, pose, tolerances=tolerances).converged.mean()
            for pose in robot.fk(robot.random(10, rng))
        ]
        shares.append(np.mean(solved))
    assert shares[0] < shares[1] < shares[2]
    assert shares[2] > 0.7


def test_all_free_converges_at_once() -> None:
    robot = Robot("panda")
    seeds = robot.random(20, np.random.default_rng(0))
    result = refine(robot, seeds, np.eye(4), tolerances=np.full(6, FREE))
    assert result.converged.all()
    assert not result.iterations.any()
    assert np.array_equal(result.positions, seeds)


def test_position_only_frees_every_rotation() -> None:
    robot, rng = Robot("panda"), np.random.default_rng(0)
    pose, seeds = robot.fk(robot.random(1, rng)[0]), robot.random(40, rng)
    kept = refine(robot, seeds, pose, tolerances=[0.1, 0, 0, 0, 0, 0], position_only=True)
    freed = refine(robot, seeds, pose, tolerances=[0.1, 0, 0, FREE, FREE, FREE])
    assert np.array_equal(kept.positions, freed.positions)
    assert not kept.orientation_error.any()
