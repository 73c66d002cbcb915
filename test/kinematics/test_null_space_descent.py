"""Descent along the self-motion keeps solutions valid, never raises costs, and ends at a minimum or a limit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kinematics.robots import robot_and_oracle
from scipy.optimize import nnls

from eim_ros.kinematics import Robot, refine, share_path

# The kernel stops at a slope of 3e-5, but measures it with a slightly damped projection.
SLOPE = 2e-4
TASKS = [("panda", False), ("iiwa14", False), ("panda", True), ("ur5", True), ("planar5", True), ("planar10", False)]


def descend(
    robot: Robot, solutions: np.ndarray, pose: np.ndarray, preferred: np.ndarray, weights: np.ndarray, **asked: Any
) -> np.ndarray:
    """Move solutions along the null space to a local minimum of a cost, with the compiled solver."""
    return robot.chain.descend(robot.task(pose, **asked), solutions, preferred, weights, robot.continuous)


def solutions_of(robot: Robot, rng: np.random.Generator, n: int = 40, **task: object) -> tuple[np.ndarray, np.ndarray]:
    """Return a pose and some of its solutions."""
    pose = robot.fk(robot.random(1, rng)[0])
    refined = refine(robot, robot.random(n, rng), pose, **task)
    return pose, refined.positions[refined.converged]


def posture(robot: Robot, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return preferred joint values and weights. Some weights are 0, and the largest is 1."""
    weights = rng.uniform(size=robot.dof) * (rng.uniform(size=robot.dof) < 0.7)
    weights[rng.integers(robot.dof)] = 1.0
    return robot.random(1, rng)[0], weights


def difference(robot: Robot, q: np.ndarray, preferred: np.ndarray) -> np.ndarray:
    plain = q - preferred
    return np.where(robot.continuous, (plain + np.pi) % (2.0 * np.pi) - np.pi, plain)


def slope_left(robot: Robot, q: np.ndarray, gradient: np.ndarray, position_only: bool) -> float:
    """Return the length of the gradient without components that move the tip or violate limits (0 at a minimum)."""
    jacobian = robot.jacobian(q)[: 3 if position_only else 6]
    inwards = np.eye(robot.dof)[q <= robot.lower + 1e-7], -np.eye(robot.dof)[q >= robot.upper - 1e-7]
    return float(nnls(np.concatenate([jacobian, -jacobian, *inwards]).T, gradient)[1])


@pytest.mark.parametrize(("name", "position_only"), TASKS)
@pytest.mark.parametrize("seed", range(3))
def test_solutions_end_in_a_minimum_and_no_cost_rises(name: str, position_only: bool, seed: int) -> None:
    (robot, oracle), rng = robot_and_oracle(name), np.random.default_rng(seed)
    pose, known = solutions_of(robot, rng, position_only=position_only)
    preferred, weights = posture(robot, rng)
    moved = descend(robot, known, pose, preferred, weights, position_only=position_only)
    costs = [difference(robot, q, preferred) ** 2 @ weights for q in (known, moved)]
    assert (costs[1] <= costs[0]).all()
    assert costs[1].mean() < 0.99 * costs[0].mean()
    assert robot.within_limits(moved).all()
    columns = slice(3, 4) if position_only else slice(0, 4)
    for q in moved:
        np.testing.assert_allclose(oracle.forward(q)[:3, columns], pose[:3, columns], atol=2e-6)
    slopes = [slope_left(robot, q, weights * difference(robot, q, preferred), position_only) for q in moved]
    assert np.max(slopes) < SLOPE


@pytest.mark.parametrize("name", ["panda", "iiwa14"])
def test_neighbours_along_the_self_motion_cost_no_less(name: str) -> None:
    robot, rng = Robot(name), np.random.default_rng(3)
    pose, known = solutions_of(robot, rng)
    preferred = robot.random(1, rng)[0]
    moved = descend(robot, known, pose, preferred, np.ones(robot.dof))
    inside = moved[((moved > robot.lower + 0.02) & (moved < robot.upper - 0.02)).all(axis=1)]
    assert len(inside) > 5
    free = np.linalg.svd(robot.jacobian(inside))[2][:, -1]
    for way in (-0.01, 0.01):
        beside = refine(robot, inside + way * free, pose, position_tolerance=1e-10, orientation_tolerance=1e-10)
        rise = ((beside.positions - preferred) ** 2 - (inside - preferred) ** 2).sum(axis=1)
        assert beside.converged.all()
        assert rise.min() > -1e-6


def test_what_is_at_its_minimum_stays() -> None:
    robot, rng = Robot("iiwa14"), np.random.default_rng(4)
    pose, known = solutions_of(robot, rng)
    preferred = np.full(7, 0.1)
    once = descend(robot, known, pose, preferred, np.ones(7))
    again = descend(robot, once, pose, preferred, np.ones(7))
    np.testing.assert_allclose(again, once, atol=1e-3)
    np.testing.assert_array_equal(descend(robot, known, pose, preferred, np.zeros(7)), known)


def test_arm_without_redundancy_stays() -> None:
    robot = Robot("ur5")
    pose = robot.fk(np.array([0.3, -1.0, 1.4, -0.7, 1.3, 0.4]))  # elbow and wrist are bent
    refined = refine(robot, robot.random(40, np.random.default_rng(0)), pose)
    known = refined.positions[refined.converged]
    regular = known[np.linalg.svd(robot.jacobian(known), compute_uv=False)[:, -1] > 0.02]
    assert len(regular)
    moved = descend(robot, regular, pose, np.zeros(6), np.ones(6))
    np.testing.assert_allclose(moved, regular, atol=1e-4)  # the amplified tolerance of the pose


def test_narrow_limits_and_fixed_joints_are_kept() -> None:
    robot, rng = Robot("iiwa14"), np.random.default_rng(6)
    lower, upper = robot.lower.copy(), robot.upper.copy()
    lower[0], lower[2], upper[2] = 0.2, 0.3, 0.3
    q = robot.random(1, rng)[0]
    q[0], q[2] = 0.5, 0.3
    pose = robot.fk(q)
    refined = refine(robot, rng.uniform(lower, upper, (200, 7)), pose, position_only=True, lower=lower, upper=upper)
    known = refined.positions[refined.converged]
    weights = np.array([1.0, *[0.01] * 6])
    moved = descend(robot, known, pose, np.full(7, -1.0), weights, position_only=True, lower=lower, upper=upper)
    assert moved[:, 0].min() == pytest.approx(0.2, abs=1e-7)
    assert (moved[:, 0] >= 0.2).all()
    assert (moved[:, 2] == 0.3).all()
    assert ((moved + 1.0) ** 2 @ weights < (known + 1.0) ** 2 @ weights).all()


def test_differences_are_on_the_circle_where_a_joint_is_continuous() -> None:
    urdf = share_path("urdf/panda.urdf").read_text(encoding="utf-8")
    robot = Robot(urdf.replace('type="revolute"', 'type="continuous"'))
    pose, known = solutions_of(robot, np.random.default_rng(9))
    preferred = np.full(7, 3.1)
    moved = descend(robot, known, pose, preferred, np.ones(7))
    turned = descend(robot, known, pose, preferred - 2.0 * np.pi, np.ones(7))
    np.testing.assert_allclose(turned, moved, atol=1e-6)
    assert (np.abs(moved) <= np.pi).all()
    assert (difference(robot, moved, preferred) ** 2).sum() < (difference(robot, known, preferred) ** 2).sum()


def test_tolerances_are_used_up_and_kept() -> None:
    """The tool of a UR5 may turn about its axis and move up or down by 5 cm."""
    robot, rng = Robot("ur5"), np.random.default_rng(2)
    tolerances = np.array([0.0, 0.0, 0.05, 0.0, 0.0, np.inf])
    pose, known = solutions_of(robot, rng, tolerances=tolerances)
    moved = descend(robot, known, pose, np.zeros(6), np.ones(6), tolerances=tolerances)
    position, orientation = robot.pose_errors(moved, pose, tolerances)
    assert position.max() <= 1e-6
    assert orientation.max() <= 1e-6
    assert ((moved**2).sum(axis=1) <= (known**2).sum(axis=1)).all()
    assert (moved**2).sum(axis=1).mean() < 0.9 * (known**2).sum(axis=1).mean()
    heights = (robot.fk(moved)[:, :3, 3] - pose[:3, 3]) @ pose[:3, 2]
    assert np.isclose(np.abs(heights), 0.05, atol=1e-5).any()
