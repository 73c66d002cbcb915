"""An empty answer to one request needs a proof or the complete timeout. Batches end after a number of restarts."""

from __future__ import annotations

import re
import time

import numpy as np
import pytest
from ik.arms import assert_no_solution

from eim_ros.ik import ErrorCode, LinkPosition, Sampler, Solutions
from eim_ros.ik.sampler import UNCONSTRAINED
from eim_ros.ik.setup import Setup
from eim_ros.kinematics import Robot, Sphere

ENOUGH = 60.0  # [s]
DOWN = [1.0, 0.0, 0.0, 0.0]
AHEAD = [0.45, 0.1, 0.45, *DOWN]
FOLDED = [0.05, 0.0, 0.3, *DOWN]  # would require the wrist inside the shoulder
BETWEEN_LINKS = [0.01, 0.0, 0.33]  # the arm is long enough, but no elbow angle reaches this position
OPERATIONS = {
    "solve": lambda sampler, pose, **options: sampler.solve(pose, **options),
    "sample": lambda sampler, pose, **options: sampler.sample(pose, 20, **options),
    "solve_all": lambda sampler, pose, **options: sampler.solve_all(pose, **options),
    "near": lambda sampler, pose, **options: sampler.solve(pose, near=np.zeros(7), **options),
    "draw": lambda sampler, pose, **options: sampler.draw(pose, 20, **options),
}


def assert_proven(answer: Solutions, reason: str) -> None:
    assert answer.error_code == ErrorCode.NO_IK_SOLUTION, answer.message
    assert answer.message.startswith(f"there is no solution, {reason}")
    assert answer.n_total == 0.0 and answer.is_complete
    assert_no_solution(answer)


@pytest.mark.parametrize("name", ["panda", "ur5e", "fetch", "gen3", "iiwa14"])
def test_every_reachable_pose_is_within_the_length_of_the_arm(name: str) -> None:
    robot = Robot(name)
    corners = np.random.default_rng(0).choice([0.0, 1.0], (500, robot.dof))
    q = np.concatenate([robot.random(500, np.random.default_rng(1)), np.zeros((1, robot.dof))])
    q = np.concatenate([q, robot.lower + corners * (robot.upper - robot.lower)])
    assert Setup(robot, UNCONSTRAINED).are_within_reach(robot.fk(q)).all()


@pytest.mark.parametrize("operation", OPERATIONS)
def test_target_beyond_the_arm_is_refused_with_a_proof(operation: str) -> None:
    answer = OPERATIONS[operation](Sampler("panda"), [1.5, 0.0, 0.4, *DOWN], seed=0, timeout=ENOUGH)
    assert_proven(answer, "because the distance to the target exceeds the length of the arm")


@pytest.mark.parametrize("operation", OPERATIONS)
def test_pose_without_a_solution_is_refused_by_a_closed_form(operation: str) -> None:
    """Solutions of a Panda form curves, so failed restarts alone prove nothing."""
    assert_proven(OPERATIONS[operation](Sampler("panda"), FOLDED, seed=0, timeout=ENOUGH), "as a closed form shows")


def test_six_joints_are_refused_by_their_closed_form() -> None:
    assert_proven(Sampler("ur5e").solve([0.01, 0.0, 0.05, *DOWN], timeout=ENOUGH), "as a closed form shows")


@pytest.mark.parametrize("timeout", [0.0, 0.3])
def test_refusal_without_a_proof_uses_its_time_and_tells_its_restarts(timeout: float) -> None:
    sampler, began = Sampler("panda"), time.perf_counter()
    answer = sampler.solve(BETWEEN_LINKS, seed=0, timeout=timeout)
    assert time.perf_counter() - began >= timeout
    assert answer.error_code == ErrorCode.TIMED_OUT
    restarts = re.match(r"timed out: no solution found in (\d+) restarts; the best attempt is off by", answer.message)
    assert restarts
    assert answer.elapsed > 0.0
    assert np.isnan(answer.n_total)
    assert_no_solution(answer)


def test_batch_gives_up_after_its_restarts() -> None:
    """The poses of a batch share the timeout, so no pose may use all of it."""
    sampler = Sampler("panda").with_constraints(position_only=True)
    answers = sampler.solve_batch([[*BETWEEN_LINKS, *DOWN], AHEAD, [3.0, 0.0, 0.0, *DOWN]], seed=0, timeout=ENOUGH)
    assert answers.error_codes.tolist() == [ErrorCode.NO_IK_SOLUTION, ErrorCode.SUCCESS, ErrorCode.NO_IK_SOLUTION]
    assert re.match(r"no solution found in 3\d{3} restarts; ", answers.pose(0).message)
    assert answers.pose(2).message.startswith("there is no solution, because the distance to the target exceeds")
    assert np.isnan(answers.pose(0).n_total) and answers.pose(2).n_total == 0.0


def test_search_goes_on_for_solutions_that_few_restarts_find() -> None:
    """The elbow must be within 0.03 mm of a point, while its self-motion is longer than a metre."""
    robot, few = Robot("panda"), []
    for q in Sampler(robot).sample(AHEAD, 40, diversity=1.0, seed=5).q[::5]:
        elbow = robot.with_tip("panda_link4").fk(q[:4])[:3, 3]
        sampler = Sampler(robot).with_constraints(links=[LinkPosition("panda_link4", [Sphere(elbow, 3e-5)])])
        few.append(bool(sampler.solve_batch([AHEAD], seed=0, timeout=ENOUGH)))
        found = sampler.solve(AHEAD, seed=0, timeout=ENOUGH)
        assert found, found.message
        again = sampler.solve(AHEAD, seed=0, timeout=ENOUGH)
        np.testing.assert_array_equal(found.q, again.q)
    assert sum(few) < len(few) // 2  # a batch has too few restarts for most of these poses


@pytest.mark.parametrize("n_obstacles", [1, 200])  # with many obstacles, another method checks collisions
def test_collision_at_the_tip_refuses_all_configurations(n_obstacles: int) -> None:
    balls = [Sphere(np.array(AHEAD[:3]) + [0.0, 0.0, 1e-4 * i], 0.1) for i in range(n_obstacles)]
    answer = Sampler("panda").with_obstacles(balls).solve(AHEAD, seed=0, timeout=ENOUGH)
    assert answer.error_code == ErrorCode.GOAL_IN_COLLISION
    assert answer.message.endswith("; the pose of the tip excludes all others")
    assert answer.n_total == 0.0


def test_collision_elsewhere_proves_nothing() -> None:
    """The upper arm always touches the ball around the shoulder, but this is not at the tip."""
    around = Sphere((0.0, 0.0, 0.333), 0.15)
    sampler, began = Sampler("panda").with_obstacles([around]), time.perf_counter()
    answer = sampler.solve(AHEAD, seed=0, timeout=0.2)
    assert time.perf_counter() - began >= 0.2
    assert answer.error_code == ErrorCode.TIMED_OUT
    assert re.match(r"timed out: all \d+ configurations found that reach the pose collide", answer.message)


def test_fewer_solutions_than_requested_are_no_negative_answer() -> None:
    """The search ends before the timeout if it finds nothing new."""
    sampler = Sampler("panda").with_constraints(fixed={"panda_joint7": 0.3}, position_tolerance=1e-5)
    pose = sampler.robot.fk([0.1, -0.5, 0.2, -2.0, 0.3, 1.6, 0.3])
    answer = sampler.sample(pose, 1000, seed=0, timeout=ENOUGH)
    assert answer.error_code == ErrorCode.SUCCESS
    assert 0 < len(answer) < 1000


def test_nearest_pose_does_not_wait_for_a_solution() -> None:
    nearest = Sampler("panda").with_constraints(position_only=True).solve_nearest_pose(BETWEEN_LINKS, seed=0)
    assert nearest and not nearest.is_exact and nearest.in_time
