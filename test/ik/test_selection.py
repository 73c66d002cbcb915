"""Near-duplicates and distances agree with brute force over all pairs, for joints with and without limits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from ik.arms import arm_of

from eim_ros.ik.order import distance_to, distinct_rows, farthest_rows, is_within
from eim_ros.kinematics import Robot


def joint_distance(robot: Robot, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return |q_j - q'_j|, the short way around for continuous joints."""
    plain = np.abs(first - second)
    around = np.abs(np.angle(np.exp(1j * (first - second))))
    return np.where(robot.continuous, around, plain)


def kept_by_brute_force(robot: Robot, positions: np.ndarray, tolerance: float) -> list[int]:
    kept: list[int] = []
    for i, q in enumerate(positions):
        if all(joint_distance(robot, q, positions[j]).max() > tolerance for j in kept):
            kept.append(i)
    return kept


@pytest.mark.parametrize("tolerance", [0.01, 0.2, 1.0])
@pytest.mark.parametrize("name", ["gantry", "continuous", "all_types", "one_joint", "iiwa14"])
def test_distinct_rows_are_those_of_brute_force(name: str, tolerance: float) -> None:
    robot, rng = arm_of(name), np.random.default_rng(0)
    spread = rng.uniform(robot.lower, robot.upper, (60, robot.dof))
    copies = spread[rng.integers(60, size=120)] + rng.uniform(-1.2, 1.2, (120, robot.dof)) * tolerance
    positions = rng.permutation(np.concatenate([spread, copies]))
    assert distinct_rows(robot, positions, tolerance).tolist() == kept_by_brute_force(robot, positions, tolerance)


@pytest.mark.parametrize("n", [0, 1, 64, 130])
@pytest.mark.parametrize("name", ["continuous", "iiwa14"])
def test_what_is_within_a_distance_of_others_is_that_of_brute_force(name: str, n: int) -> None:
    robot, rng = arm_of(name), np.random.default_rng(1)
    others = rng.uniform(robot.lower, robot.upper, (n, robot.dof))
    near = others[: n // 2] + rng.uniform(-0.25, 0.25, (n // 2, robot.dof))
    rows = np.concatenate([near, rng.uniform(robot.lower, robot.upper, (50, robot.dof))])
    expected = [any(joint_distance(robot, row, other).max() <= 0.2 for other in others) for row in rows]
    assert is_within(robot, rows, others, 0.2).tolist() == expected


@pytest.mark.parametrize("n_rows", [1, 15, 16, 50])
@pytest.mark.parametrize("name", ["gantry", "continuous", "all_types"])
def test_each_is_amid_what_is_nearest_to_the_one_farthest_from_those_before(name: str, n_rows: int) -> None:
    robot, rng = arm_of(name), np.random.default_rng(n_rows)
    rows = rng.uniform(-3.0, 3.0, (n_rows, robot.dof))
    away = np.array([[np.linalg.norm(joint_distance(robot, a, b)) for b in rows] for a in rows])
    chosen = [0]
    while len(chosen) < min(20, n_rows):
        chosen.append(int(np.argmax(away[chosen].min(axis=0))))
    expected = []
    owner = away[chosen].argmin(axis=0)
    for number, first in enumerate(chosen):
        members = np.flatnonzero(owner == number)
        plain = rows[members] - rows[first]
        offsets = np.where(robot.continuous, np.angle(np.exp(1j * plain)), plain)
        expected.append(members[np.linalg.norm(offsets - offsets.mean(axis=0), axis=1).argmin()])
    assert farthest_rows(robot, rows, 20).tolist() == expected


def test_what_is_the_same_is_not_chosen_twice() -> None:
    rows = np.array([[0.5, 0.0, 0.0], [0.5, 0.0, 0.0], [0.0, 0.0, 0.0]])
    assert farthest_rows(arm_of("gantry"), rows, 3).tolist() == [0, 2]
    assert farthest_rows(arm_of("gantry"), rows[:0], 3).tolist() == []


def test_chain_of_near_duplicates_keeps_every_second() -> None:
    """Row 2 is dropped as a near-duplicate of row 1. Row 3 is near only to the dropped row, so it is kept."""
    positions = np.array([[0.0], [0.008], [0.016], [0.024]])
    assert distinct_rows(arm_of("one_joint"), positions, 0.01).tolist() == [0, 2]


def test_seam_of_a_continuous_joint_does_not_part_neighbours() -> None:
    positions = np.array([[math.pi - 1e-4, 0.0, -1e-17], [-math.pi + 1e-4, 0.0, 2.0 * math.pi]])
    assert distinct_rows(arm_of("continuous"), positions, 0.01).tolist() == [0]
    gantry = arm_of("gantry")
    assert distinct_rows(gantry, positions, 0.01).tolist() == [0, 1]


@pytest.mark.parametrize("name", ["gantry", "continuous", "all_types"])
def test_distance_takes_the_short_way_round(name: str) -> None:
    robot, rng = arm_of(name), np.random.default_rng(1)
    positions = robot.random(200, rng)
    reference = robot.random(1, rng)[0]
    expected = np.linalg.norm(joint_distance(robot, positions, reference), axis=1)
    assert np.allclose(distance_to(robot, positions, reference), expected, rtol=0, atol=1e-12)
