"""The chosen path has the fewest possible jumps, and smoothing keeps its deadline."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from ik.arms import arm_of

from eim_ros.ik import Constraints
from eim_ros.ik.path_search import PathSearch
from eim_ros.ik.path_smoothing import PathSmoother
from eim_ros.ik.prior import Prior
from eim_ros.ik.problem import Problem
from eim_ros.ik.revolutions import Revolutions
from eim_ros.ik.setup import Setup
from eim_ros.kinematics import refine

STEP = 0.5  # largest step [rad]


@pytest.mark.parametrize("has_start", [False, True])
@pytest.mark.parametrize("name", ["ur5", "gen3"])  # the gen3 has joints without limits
def test_path_jumps_as_rarely_as_any_choice_of_solutions(name: str, has_start: bool) -> None:
    robot, rng = arm_of(name), np.random.default_rng(1)
    setup, prior = Setup(robot, Constraints()), Prior.none(robot.dof)
    problem = Problem(setup, np.eye(4), False)
    steps, n_poses, n_jumps = np.full((5, robot.dof), STEP), 5, []
    for _ in range(60):
        middle = 0.25 * robot.random(1, rng)
        layers = [middle + rng.uniform(-0.45, 0.45, (rng.integers(1, 5), robot.dof)) for _ in range(n_poses)]
        start = middle[0] if has_start else None
        poses = np.tile(np.eye(4), (n_poses, 1, 1))
        search = PathSearch(setup, prior, problem, poses, steps, rng, 8, 60.0, start)
        search.layers = list(layers)
        found = len(search.jumps(search.best()))
        choices = itertools.product(*([middle] if has_start else []), *layers)
        fewest = min(int((np.abs(np.diff(rows, axis=0)).max(axis=1) > STEP).sum()) for rows in map(np.array, choices))
        assert found == fewest
        n_jumps.append(fewest)
    assert len(set(n_jumps)) >= 3  # there are paths with and without jumps


def test_smoothing_keeps_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only attempts advance the clock. An attempt takes 1 ms per pose."""
    robot, now, begun = arm_of("panda"), [0.0], list[float]()
    q = np.linspace(robot.lower + 0.8, robot.lower + 1.4, 30)
    poses, noise = robot.fk(q), np.random.default_rng(0).normal(0.0, 0.05, q.shape)
    rough = np.array([refine(robot, row, pose).positions[0] for row, pose in zip(q + noise, poses, strict=True)])
    projected = PathSmoother._projected

    def slow(smoother: PathSmoother, rows: np.ndarray, goal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        begun.append(now[0])
        now[0] += 0.001 * len(rows)
        return projected(smoother, rows, goal)

    monkeypatch.setattr(PathSmoother, "_projected", slow)
    monkeypatch.setattr("eim_ros.ik.path_smoothing.time", SimpleNamespace(perf_counter=lambda: now[0]))
    problem = Problem(Setup(robot, Constraints()), poses[0], False)
    smoother = PathSmoother(problem, poses, Revolutions.of(robot, robot.bounds), np.full(q.shape, STEP))
    costs = [smoother.cost(rough)]
    for n_attempts in (0, 1, 3, 100):
        now[0] = 0.0
        begun.clear()
        deadline = 0.03 * n_attempts
        smooth = smoother.smoothed(rough, deadline)
        assert all(start <= deadline for start in begun)
        assert now[0] <= deadline + 0.03  # the last attempt may end after the deadline
        assert (len(begun) > 0) == (n_attempts > 0)
        costs.append(smoother.cost(smooth))
        np.testing.assert_allclose(robot.fk(smooth), poses, atol=1e-5)
    assert costs[0] == costs[1] > costs[2] >= costs[3] > costs[4]
    assert now[0] < deadline  # smoothing ends early if the cost no longer falls
