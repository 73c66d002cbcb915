"""Search of the sampler: distinct solutions, order by distance, unreachable poses, timeouts, raw samples."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from ik.arms import arm_of, assert_no_solution, reachable_pose, sampler_of

from eim_ros.ik import ErrorCode
from eim_ros.kinematics import pose_from, refine

ENOUGH = 60.0  # [s]


def circular(difference: np.ndarray) -> np.ndarray:
    """Return absolute differences on the circle [rad]; the neighbouring revolutions are tried."""
    return np.min([np.abs(difference + turn * 2.0 * math.pi) for turn in (-1, 0, 1)], axis=0)


def largest_differences(positions: np.ndarray) -> np.ndarray:
    """Return max_j |q_j - q'_j| on the circle for all pairs of rows."""
    rows, columns = np.triu_indices(len(positions), 1)
    return circular(positions[rows] - positions[columns]).max(axis=1)


@pytest.mark.parametrize("name", ["iiwa14", "continuous", "planar10"])
def test_distinct_configurations_differ(name: str) -> None:
    samples = sampler_of(name, "position").sample(reachable_pose(arm_of(name)), 80, timeout=ENOUGH, seed=0)
    assert len(samples) == 80
    assert largest_differences(samples.q).min() > 0.01


def test_distinct_gives_the_two_solutions_of_a_planar_arm() -> None:
    """Position and heading determine where the last joint is. The arm reaches this point with the elbow up or down."""
    x, y, heading = 1.4, 0.6, 0.5
    half = 0.5 * heading
    pose = pose_from([x, y, 0.0], [0.0, 0.0, math.sin(half), math.cos(half)])
    samples = sampler_of("planar3", "pose").sample(pose, 100, timeout=ENOUGH, seed=0)
    wrist = np.array([x - math.cos(heading), y - math.sin(heading)])
    elbow = math.acos(0.5 * wrist @ wrist - 1.0)
    expected = []
    for second in (elbow, -elbow):
        first = math.atan2(wrist[1], wrist[0]) - 0.5 * second
        expected.append([first, second, heading - first - second])
    assert samples.error_code == ErrorCode.SUCCESS
    assert samples.message == "2 of 100 distinct solutions; samples of the model lead to few other solutions"
    assert len(samples) == 2
    order = np.argsort(-samples.q[:, 1])
    assert np.allclose(samples.q[order], expected, rtol=0, atol=1e-5)  # tolerances, amplified by the arm


@pytest.mark.parametrize("seed", range(3))
def test_distinct_finds_every_solution_of_a_six_joint_arm(seed: int) -> None:
    """The answer has as many distinct solutions as uniform restarts find with ten times the effort."""
    robot = arm_of("six_joints")
    pose = reachable_pose(robot, seed)
    samples = sampler_of("six_joints", "pose").sample(pose, 100, timeout=ENOUGH, seed=0)
    refined = refine(robot, robot.random(20000, np.random.default_rng(1)), pose)
    found: list[np.ndarray] = []
    for q in refined.positions[refined.converged]:
        if all(np.abs(q - other).max() > 0.01 for other in found):
            found.append(q)
    assert 2 <= len(found) <= 8
    assert len(samples) == len(found)
    assert all(min(np.abs(q - other).max() for other in found) < 1e-3 for q in samples.q)


@pytest.mark.parametrize("name", ["one_joint", "gantry"])
def test_only_solution_is_given_once(name: str) -> None:
    sampler, pose = sampler_of(name, "position"), reachable_pose(arm_of(name))
    assert len(sampler.sample(pose, 6, timeout=ENOUGH, seed=0)) == 1


@pytest.mark.parametrize("name", ["iiwa14", "continuous", "gantry"])
def test_near_orders_by_distance(name: str) -> None:
    robot = arm_of(name)
    near = robot.upper - 0.1
    samples = sampler_of(name, "position").sample(reachable_pose(robot), 40, near=near, timeout=ENOUGH, seed=0)
    assert len(samples) == (1 if name == "gantry" else 40)  # a gantry has a single solution
    difference = samples.q - near
    distance = np.linalg.norm(np.where(robot.continuous, circular(difference), difference), axis=1)
    assert (np.diff(distance) >= -1e-9).all()


def test_near_counts_the_short_way_round_a_continuous_joint() -> None:
    """Near ±π, solutions beyond ±π may come first. They are returned in the revolution of the configuration."""
    robot = arm_of("continuous")
    near = np.array([3.1, 3.1, 3.1])
    pose = robot.fk(np.array([-3.1, 3.1, -3.1]))
    samples = sampler_of("continuous", "position").sample(pose, 40, near=near, timeout=ENOUGH, seed=0)
    plain = np.linalg.norm(samples.q - near, axis=1)
    assert np.linalg.norm(circular(samples.q[0] - near)) < 0.3
    assert (np.diff(plain) > -1e-9).all()  # returned in the revolution of `near`


@pytest.mark.parametrize("position_only", [True, False])
def test_pose_out_of_reach_gives_the_best_attempt(position_only: bool) -> None:
    """The stretched arm is 3 m long, so it misses a target at 10 m by 7 m."""
    samples = (
        sampler_of("planar3", "pose")
        .with_constraints(position_only=position_only)
        .sample(pose_from([10.0, 0.0, 0.0]), 20, timeout=ENOUGH, seed=0)
    )
    assert samples.error_code == ErrorCode.NO_IK_SOLUTION
    assert_no_solution(samples)
    assert samples.best_attempt_error[0] == pytest.approx(7.0, abs=1e-3)
    assert samples.n_total == 0.0
    assert samples.message.startswith("there is no solution, because the distance to the target exceeds the length")
    assert "the best attempt is off by 7 m" in samples.message
    assert arm_of("planar3").within_limits(samples.best_attempt).all()
    tip = arm_of("planar3").fk(samples.best_attempt)[:3, 3]
    assert np.linalg.norm(tip - [10.0, 0.0, 0.0]) == pytest.approx(samples.best_attempt_error[0])


def test_position_within_reach_but_not_its_orientation_has_no_solution() -> None:
    upside_down = pose_from([1.0, 0.5, 0.0], [1.0, 0.0, 0.0, 0.0])
    samples = (
        sampler_of("planar3", "position")
        .with_constraints(position_only=False)
        .sample(upside_down, 5, timeout=ENOUGH, seed=0)
    )
    assert samples.error_code == ErrorCode.NO_IK_SOLUTION
    assert_no_solution(samples)
    assert samples.best_attempt_error[1] > 1.0
    assert sampler_of("planar3", "position").sample(upside_down, 5, seed=0).error_code == ErrorCode.SUCCESS


def test_time_running_out_gives_what_was_found() -> None:
    sampler, pose = sampler_of("iiwa14", "position"), reachable_pose(arm_of("iiwa14"))
    samples = sampler.sample(pose, 5000, order="none", timeout=0.0, seed=0)
    assert samples.error_code == ErrorCode.TIMED_OUT
    assert 0 < len(samples) < 5000
    assert samples and samples.valid.all()
    assert samples.message == f"timed out: found {len(samples)} of 5000 distinct solutions"


def test_no_time_at_all_suffices_for_what_the_first_round_finds() -> None:
    sampler, pose = sampler_of("iiwa14", "position"), reachable_pose(arm_of("iiwa14"))
    samples = sampler.sample(pose, 5, timeout=0.0, seed=0)
    assert samples.error_code == ErrorCode.SUCCESS
    assert len(samples) == 5
    assert samples and samples.valid.all()


def test_time_running_out_with_nothing_found_gives_the_best_attempt() -> None:
    sampler = sampler_of("planar3", "position").with_constraints(limits={"joint_2": (0.5, 1.0)})
    samples = sampler.sample(pose_from([2.95, 0.0, 0.0]), 20, timeout=0.0, seed=0)
    assert samples.error_code == ErrorCode.TIMED_OUT
    assert_no_solution(samples)
    assert re.match(r"timed out: no solution found in \d+ restarts; the best attempt is off by", samples.message)


def test_raw_samples_are_marked_valid_or_not() -> None:
    """With the wide tolerance, some samples are valid and others are not."""
    robot, pose = arm_of("planar3"), pose_from([1.5, 0.5, 0.0])
    samples = sampler_of("planar3", "position").with_constraints(position_tolerance=0.7).propose(pose, 300, seed=0)
    error = np.linalg.norm(robot.fk(samples.q)[:, :3, 3] - pose[:3, 3], axis=1)
    valid = (error <= 0.7) & robot.within_limits(samples.q)
    assert len(samples) == 300
    assert np.allclose(samples.position_error, error, rtol=0, atol=1e-12)
    assert np.array_equal(samples.valid, valid)
    assert 10 < valid.sum() < 290
    assert (np.diff(valid.astype(int)) <= 0).all()  # valid rows come first
    assert samples.error_code == ErrorCode.SUCCESS
    assert samples.message == f"{valid.sum()} of 300 proposals are valid"
    assert samples
    assert samples.best_attempt is None


def test_raw_samples_are_returned_even_if_none_is_valid() -> None:
    samples = sampler_of("iiwa14", "position").propose(reachable_pose(arm_of("iiwa14")), 30, seed=0)
    assert samples.error_code == ErrorCode.NO_IK_SOLUTION
    assert len(samples) == 30
    assert not samples.valid.any()
    assert not samples  # false without a solution, although there are rows
    best = (samples.position_error + samples.orientation_error).argmin()
    np.testing.assert_array_equal(samples.best_attempt, samples.q[best])


def test_loose_tolerances_are_tolerances_of_the_answer() -> None:
    pose = reachable_pose(arm_of("panda"))
    samples = (
        sampler_of("panda", "pose")
        .with_constraints(position_tolerance=0.01, orientation_tolerance=0.1)
        .sample(pose, 50, timeout=ENOUGH, seed=0)
    )
    assert samples.position_error.max() <= 0.01
    assert samples.orientation_error.max() <= 0.1
    assert samples.position_error.max() > 1e-6 or samples.orientation_error.max() > 1e-6
