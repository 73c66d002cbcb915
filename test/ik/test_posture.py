"""With a preferred posture, solutions move to the lowest cost, remain valid, and are ordered by cost."""

from __future__ import annotations

import time

import numpy as np
import pytest
from ik.arms import arm_and_oracle, arm_of, reachable_pose, sampler_of

from eim_ros.core.errors import ConfigurationError
from eim_ros.ik import Constraints, ErrorCode, Posture
from eim_ros.ik.problem import Problem
from eim_ros.ik.setup import Setup
from eim_ros.kinematics import Robot, Sphere

ENOUGH = 60.0  # [s]
POSE = np.array([0.0, 0.3, 0.0, -1.8, 0.0, 2.1, 0.8])  # a Panda with its elbow in the middle


def problem_of(
    robot: Robot, pose: np.ndarray, position_only: bool = False, constraints: Constraints | None = None
) -> Problem:
    return Problem(Setup(robot, constraints or Constraints()), pose, position_only)


def elbow_side(positions: np.ndarray) -> np.ndarray:
    """Return the y coordinate (n,) of a Panda's elbow [m]."""
    return arm_of("panda").skeleton(positions)[:, 4, 1]


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_elbow_goes_to_the_preferred_side(side: float) -> None:
    """Joint 1 turns the upper arm. If joint 1 is positive, the elbow is on the left of an arm that reaches forward."""
    robot, oracle = arm_and_oracle("panda")
    pose, sampler = robot.fk(POSE), sampler_of("panda", "pose")
    preferred = {"panda_joint1": 0.9 * side, "panda_joint3": -0.9 * side}
    assert set(preferred) <= set(robot.joint_names), robot.joint_names
    plain = sampler.sample(pose, 60, timeout=ENOUGH, seed=0)
    samples = sampler.sample(pose, 60, posture=preferred, timeout=ENOUGH, seed=0)
    assert samples.error_code == ErrorCode.SUCCESS
    assert samples and samples.valid.all()
    for q in samples.q:
        np.testing.assert_allclose(oracle.forward(q), pose, atol=2e-6)
    assert np.sign(elbow_side(samples.q[:1])) == side  # the other side has only local minima
    for seed in range(1, 5):
        best = sampler.sample(pose, 60, posture=preferred, timeout=ENOUGH, seed=seed)
        assert np.sign(elbow_side(best.q[:1])) == side
    assert (side * elbow_side(samples.q) > 0.05).mean() > (side * elbow_side(plain.q) > 0.05).mean()
    costs = Posture(preferred).costs(robot, samples.q)
    assert (np.diff(costs) >= 0.0).all()
    assert costs[0] < Posture(preferred).costs(robot, plain.q).min() + 1e-6


@pytest.mark.parametrize(("name", "kind"), [("iiwa14", "pose"), ("panda", "position"), ("planar10", "position")])
def test_cost_of_no_solution_rises(name: str, kind: str) -> None:
    robot = arm_of(name)
    posture = Posture({robot.joint_names[0]: 0.3, robot.joint_names[2]: -0.4}, {robot.joint_names[2]: 2.5})
    problem = problem_of(robot, reachable_pose(robot), kind == "position")
    seeds = robot.random(100, np.random.default_rng(0))
    pool = problem.solved(seeds, np.arange(100, dtype=np.uint32))
    moved, is_cut_short = problem.optimized(pool, posture, time.perf_counter() + ENOUGH)
    assert not is_cut_short
    before, after = posture.costs(robot, pool.q), posture.costs(robot, moved.q)
    assert (after <= before).all()
    assert after[pool.valid].mean() < 0.9 * before[pool.valid].mean()
    np.testing.assert_array_equal(moved.valid, pool.valid)
    np.testing.assert_array_equal(moved.expert, pool.expert)
    np.testing.assert_array_equal(moved.q[~pool.valid], pool.q[~pool.valid])


def test_time_that_is_up_leaves_solutions_where_they_are() -> None:
    robot = arm_of("iiwa14")
    problem = problem_of(robot, reachable_pose(robot), True)
    pool = problem.solved(robot.random(10, np.random.default_rng(0)), np.zeros(10, dtype=np.uint32))
    moved, is_cut_short = problem.optimized(pool, Posture({robot.joint_names[0]: 0.3}), 0.0)
    assert is_cut_short
    np.testing.assert_array_equal(moved.q, pool.q)
    late = sampler_of("iiwa14", "position").sample(
        problem.pose, 5, posture={robot.joint_names[0]: 0.3}, timeout=0.0, seed=0
    )
    assert late.error_code == ErrorCode.TIMED_OUT
    assert late and late.valid.all()
    assert late.message.endswith("there was no time to optimise and compare all solutions")


def test_constraints_stay_kept() -> None:
    robot = arm_of("iiwa14")
    pose = robot.fk(np.array([0.0, 0.6, 0.0, 1.2, 0.0, 0.8, 0.0]))
    first, third = robot.joint_names[0], robot.joint_names[2]
    unhindered = sampler_of("iiwa14", "pose").sample(pose, 20, posture={first: 1.0}, timeout=ENOUGH, seed=0)
    in_the_way = robot.skeleton(unhindered.q[:1])[0, 4]
    constraints = Constraints(limits={first: (-0.5, 0.7)}, self_collision=True, obstacles=(Sphere(in_the_way, 0.1),))
    samples = (
        sampler_of("iiwa14", "pose")
        .with_constraints(constraints)
        .sample(pose, 50, posture={first: 1.0, third: -2.0}, timeout=ENOUGH, seed=0)
    )
    assert samples.error_code == ErrorCode.SUCCESS, samples.message
    assert samples and samples.valid.all()
    assert (samples.q[:, 0] <= 0.7).all()
    assert not constraints.scene(robot).colliding(samples.q).any()
    assert samples.q[0, 0] > 0.3


def test_a_solution_that_an_obstacle_stops_goes_as_far_as_it_may() -> None:
    robot, posture = arm_of("panda"), Posture({"panda_joint1": 0.9, "panda_joint3": -0.9})
    pose = robot.fk(POSE)
    expert, far = np.zeros(1, dtype=np.uint32), time.perf_counter() + ENOUGH
    unhindered = problem_of(robot, pose)
    start, _ = unhindered.optimized(
        unhindered.verified(POSE[None], expert), Posture({"panda_joint1": -0.9, "panda_joint3": 0.9}), far
    )
    free, _ = unhindered.optimized(start, posture, far)
    ball = Sphere(tuple(robot.skeleton(free.q)[0, 4]), 0.03)  # blocks the best position of the elbow
    problem = problem_of(robot, pose, constraints=Constraints(obstacles=(ball,)))
    before = problem.verified(start.q, expert)
    assert before and before.valid.all()
    assert not problem.verified(free.q, expert).valid.any()
    after, _ = problem.optimized(before, posture, far)
    assert after and after.valid.all()
    costs = posture.costs(robot, np.concatenate([before.q, after.q, free.q]))
    assert costs[2] < costs[1] < 0.9 * costs[0]
    further = problem.solved(after.q + 0.02 * (free.q - after.q), expert)
    assert not further.valid.any()


def test_near_duplicates_that_arise_are_dropped() -> None:
    robot, sampler = arm_of("panda"), sampler_of("panda", "pose")
    preferred = dict.fromkeys(robot.joint_names, 0.0)
    samples = sampler.sample(robot.fk(POSE), 100, posture=preferred, timeout=ENOUGH, seed=0)
    assert samples.error_code == ErrorCode.SUCCESS
    assert 1 <= len(samples) < 80
    distances = np.abs(samples.q[:, None] - samples.q[None]).max(axis=-1) + np.eye(len(samples))
    assert distances.min() > 0.01


@pytest.mark.parametrize(
    ("posture", "reason"),
    [
        ({"nose": 0.0}, "no joint 'nose'"),
        ({"joint_1": np.nan}, "finite"),
        ({}, "at least one joint needs a weight"),
        (Posture({"joint_1": 0.0}, {"joint_1": 0.0}), "at least one joint needs a weight"),
        (Posture({"joint_1": 0.0}, {"joint_1": -1.0}), "a weight of at least 0"),
        (Posture({"joint_1": 0.0}, {"joint_2": 1.0}), "but no preferred value: give one"),
    ],
)
def test_bad_postures_are_refused(posture: Posture | dict[str, float], reason: str) -> None:
    assert arm_of("planar3").joint_names[:2] == ("joint_1", "joint_2")
    with pytest.raises(ConfigurationError, match=reason):
        sampler_of("planar3", "position").sample(np.eye(4), 3, posture=posture, seed=0)
