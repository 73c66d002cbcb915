"""Continuation along the self-motion returns solutions that are far apart and cover the self-motion manifold."""

from __future__ import annotations

import numpy as np
import pytest
from kinematics.robots import robot_and_oracle
from scipy.spatial.distance import cdist

from eim_ros.ik.evaluation import exact_solutions
from eim_ros.kinematics import Robot, refine, share_path, spread

REDUNDANT = ("panda", "iiwa14")


def solutions_of(robot: Robot, n_seeds: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a pose and some of its solutions."""
    rng = np.random.default_rng(seed)
    pose = robot.fk(robot.random(1, rng)[0])
    refined = refine(robot, robot.random(n_seeds, rng), pose)
    return pose, refined.positions[refined.converged]


@pytest.mark.parametrize("name", REDUNDANT)
@pytest.mark.parametrize("seed", range(3))
def test_new_solutions_reach_the_pose_within_limits_and_keep_apart(name: str, seed: int) -> None:
    robot, oracle = robot_and_oracle(name)
    pose, known = solutions_of(robot, 12, seed)
    found = spread(robot, known, pose, 200, np.random.default_rng(seed), step=0.4)
    assert len(found) > len(known)
    assert robot.within_limits(found).all()
    for configuration in found:
        np.testing.assert_allclose(oracle.forward(configuration), pose, atol=2e-6)
    distances = cdist(found, np.concatenate([known, found]))
    distances[np.arange(len(found)), len(known) + np.arange(len(found))] = np.inf
    assert distances.min() >= 0.24 - 1e-5


@pytest.mark.parametrize("name", REDUNDANT)
def test_walks_from_one_solution_of_each_family_cover_about_all(name: str) -> None:
    robot = Robot(name)
    rng = np.random.default_rng(4)
    pose = robot.fk(robot.random(1, rng)[0])
    truth = exact_solutions(robot, pose, 5000, rng)
    roots = truth.positions[[int(np.flatnonzero(truth.component == number)[0]) for number in range(truth.n_components)]]
    found = spread(robot, roots, pose, 1000, rng, step=0.3)
    alone, together = truth.coverage(roots), truth.coverage(np.concatenate([roots, found]))
    assert alone < 0.6
    assert together > 0.9


def test_no_more_than_asked_for_and_the_same_for_a_seed() -> None:
    robot = Robot("panda")
    pose, known = solutions_of(robot, 20, 5)
    first, again = (spread(robot, known, pose, 5, np.random.default_rng(1)) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert len(first) == 5


def test_narrow_limits_are_kept() -> None:
    robot = Robot("iiwa14")
    pose, known = solutions_of(robot, 200, 6)
    lower, upper = robot.lower.copy(), robot.upper.copy()
    lower[0] = 0.0
    known = known[known[:, 0] >= 0.0]
    found = spread(robot, known[:5], pose, 100, np.random.default_rng(0), lower=lower, upper=upper)
    assert len(found)
    assert found[:, 0].min() >= 0.0


def test_position_alone_leaves_more_freedom() -> None:
    robot, oracle = robot_and_oracle("panda")
    pose, known = solutions_of(robot, 12, 7)
    found = spread(robot, known[:1], pose, 50, np.random.default_rng(0), position_only=True)
    assert len(found) == 50
    reached = np.array([oracle.forward(configuration) for configuration in found])
    np.testing.assert_allclose(reached[:, :3, 3], np.tile(pose[:3, 3], (50, 1)), atol=2e-6)
    assert np.ptp(reached[:, :3, :3], axis=0).max() > 0.5


def test_arm_without_redundancy_and_without_solutions_has_nowhere_to_walk() -> None:
    ur5 = Robot("ur5")
    pose, known = solutions_of(ur5, 50, 8)
    assert robot_walks(ur5, known, pose) == 0
    panda = Robot("panda")
    pose, known = solutions_of(panda, 50, 8)
    assert robot_walks(panda, known[:0], pose) == 0


def robot_walks(robot: Robot, known: np.ndarray, pose: np.ndarray) -> int:
    return len(spread(robot, known, pose, 10, np.random.default_rng(0)))


def test_continuous_joints_are_compared_on_the_circle() -> None:
    urdf = share_path("urdf/panda.urdf").read_text(encoding="utf-8")
    robot = Robot(urdf.replace('type="revolute"', 'type="continuous"'))
    assert robot.continuous.all()
    pose, known = solutions_of(robot, 30, 9)
    found = spread(robot, known, pose, 200, np.random.default_rng(0))
    assert len(found)
    every = np.concatenate([known, found])
    difference = np.abs(every[:, None] - every[None])
    difference = np.where(robot.continuous, np.minimum(difference, 2.0 * np.pi - difference), difference)
    distances = np.linalg.norm(difference, axis=-1) + 10.0 * np.eye(len(every))
    assert distances[len(known) :].min() >= 0.24 - 1e-5
