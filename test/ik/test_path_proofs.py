"""Bounds on the motion of the tip in one step can prove that a path is impossible."""

from __future__ import annotations

import numpy as np
import pytest

from eim_ros.ik import ErrorCode, Sampler
from eim_ros.ik.path_search import impossible_steps, longest_motions
from eim_ros.ik.problem import Problem
from eim_ros.kinematics import Robot

ENOUGH = 60.0  # [s]
SMALL = 0.02  # [rad, m]


@pytest.mark.parametrize("name", ["panda", "ur5e", "fetch", "gen3"])
def test_no_step_moves_or_turns_the_tip_farther_than_its_bound(name: str) -> None:
    robot, rng = Robot(name), np.random.default_rng(0)
    q = robot.random(500, rng)
    after = np.clip(q + rng.uniform(-0.3, 0.3, q.shape), robot.lower, robot.upper)
    before, reached = robot.fk(q), robot.fk(after)
    distances, angles = longest_motions(robot, np.abs(after - q))
    moved = np.linalg.norm(reached[:, :3, 3] - before[:, :3, 3], axis=1)
    trace = np.einsum("nji,nji->n", before[:, :3, :3], reached[:, :3, :3])
    turned = np.arccos(np.clip(0.5 * (trace - 1.0), -1.0, 1.0))
    assert (moved <= distances).all() and (moved > 0.2 * distances).any()
    assert (turned <= angles).all() and (turned > 0.5 * angles).any()
    problem = Problem(Sampler(robot)._setup, np.eye(4), False)
    for row, end, start, goal in zip(q, after, before, reached, strict=True):
        steps = np.abs(end - row)[None]
        assert not len(impossible_steps(problem, np.stack([start, goal]), np.repeat(steps, 2, axis=0), None))
        assert not len(impossible_steps(problem, goal[None], steps, row))


@pytest.mark.parametrize("kind", ["far", "turned"])
def test_poses_that_are_too_far_apart_are_refused_with_a_proof(kind: str) -> None:
    robot = Robot("panda")
    poses = np.repeat(robot.fk([0.1, -0.5, 0.2, -2.0, 0.3, 1.6, 0.3])[None], 4, axis=0)
    if kind == "far":
        poses[2:, 2, 3] -= 0.2
    else:
        poses[2:, :3, :3] = poses[2:, :3, :3] @ np.diag([-1.0, -1.0, 1.0])
    path = Sampler(robot).follow(poses, max_step=SMALL, seed=0, timeout=ENOUGH)
    assert path.error_code == ErrorCode.NO_IK_SOLUTION, path.message
    assert "no path without jumps exists" in path.message
    assert path.n_reached == 2
    problem = Problem(Sampler(robot)._setup, np.eye(4), False)
    assert impossible_steps(problem, poses, np.full((4, 7), SMALL), None).tolist() == [2]


def test_turn_about_a_free_axis_is_not_refused() -> None:
    sampler = Sampler("panda").with_constraints(tolerances=[0.0, 0.0, 0.0, 0.0, 0.0, np.inf])
    poses = np.repeat(sampler.robot.fk([0.1, -0.5, 0.2, -2.0, 0.3, 1.6, 0.3])[None], 2, axis=0)
    poses[1, :3, :3] = poses[1, :3, :3] @ np.diag([-1.0, -1.0, 1.0])
    path = sampler.follow(poses, max_step=0.1, seed=0, timeout=ENOUGH)
    assert path, path.message
