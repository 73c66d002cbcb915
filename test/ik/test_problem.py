"""Verification of configurations for a pose, and sets of verified configurations."""

from __future__ import annotations

import numpy as np
from ik.arms import arm_and_oracle, arm_of, reachable_pose

from eim_ros.ik import Constraints
from eim_ros.ik.candidates import Candidates
from eim_ros.ik.problem import Problem
from eim_ros.ik.setup import Setup
from eim_ros.kinematics import Robot


def problem_of(
    robot: Robot,
    pose: np.ndarray,
    position_only: bool = False,
    position_tolerance: float = 1e-6,
    orientation_tolerance: float | None = None,
) -> Problem:
    tolerance = position_tolerance if orientation_tolerance is None else orientation_tolerance
    constraints = Constraints(position_tolerance=position_tolerance, orientation_tolerance=tolerance)
    return Problem(Setup(robot, constraints), pose, position_only)


FIRST = np.zeros(1, dtype=np.uint32)


def pool_of(position_error: list[float], orientation_error: list[float]) -> Candidates:
    n = len(position_error)
    positions = np.arange(n, dtype=float)[:, None]
    errors = np.array(position_error), np.array(orientation_error)
    return Candidates(positions, *errors, np.zeros(n, dtype=bool), np.arange(n, dtype=np.uint32))


def test_verified_measures_the_configurations_as_they_are() -> None:
    robot, oracle = arm_and_oracle("all_types")
    pose = reachable_pose(robot)
    configurations = robot.random(20, np.random.default_rng(0))
    pool = problem_of(robot, pose).verified(configurations, np.arange(20, dtype=np.uint32))
    expected = np.array([oracle.errors(q, pose) for q in configurations])
    assert np.array_equal(pool.q, configurations)
    assert np.allclose(pool.position_error, expected[:, 0], rtol=0, atol=1e-12)
    assert np.allclose(pool.orientation_error, expected[:, 1], rtol=0, atol=1e-9)
    assert not pool.valid.any()
    assert pool.expert.tolist() == list(range(20))


def test_valid_needs_position_orientation_and_limits() -> None:
    robot = arm_of("one_joint")
    pose = robot.fk(np.array([0.4]))
    rows = np.array([[0.4], [0.41], [0.4 + 2.0 * np.pi]])  # exact, wrong by 0.01 rad, and beyond the limits
    experts = np.zeros(3, dtype=np.uint32)

    def valid(position_tolerance: float, orientation_tolerance: float, position_only: bool = False) -> list[bool]:
        problem = problem_of(robot, pose, position_only, position_tolerance, orientation_tolerance)
        return problem.verified(rows, experts).valid.tolist()

    assert valid(1e-6, 1e-6) == [True, False, False]
    assert valid(0.1, 1e-3) == [True, False, False]
    assert valid(1e-3, 0.1) == [True, False, False]
    assert valid(0.1, 0.1) == [True, True, False]
    assert valid(0.1, 1e-3, position_only=True) == [True, True, False]


def test_position_only_has_no_orientation_error() -> None:
    robot = arm_of("iiwa14")
    problem = problem_of(robot, reachable_pose(robot), True, 1e-6)
    seeds = robot.random(30, np.random.default_rng(0))
    for pool in (problem.verified(seeds, FIRST.repeat(30)), problem.solved(seeds, FIRST.repeat(30))):
        assert not pool.orientation_error.any()


def test_refined_configurations_are_measured_again() -> None:
    robot = arm_of("panda")
    problem = problem_of(robot, reachable_pose(robot), False, 1e-6)
    seeds = robot.random(100, np.random.default_rng(0))
    refined = problem.solved(seeds, np.arange(100, dtype=np.uint32))
    again = problem.verified(refined.q, refined.expert)
    assert np.array_equal(refined.position_error, again.position_error)
    assert np.array_equal(refined.valid, again.valid)
    assert 10 < refined.valid.sum() <= 100
    assert np.array_equal(refined.expert, np.arange(100))


def test_configuration_that_is_not_finite_is_not_valid() -> None:
    robot = arm_of("planar3")
    problem = problem_of(robot, reachable_pose(robot), True, 1.0)
    assert not problem.verified(np.full((1, 3), np.nan), FIRST).valid[0]
