"""For 2π-equivalent joint values along a path, the choice with the fewest jumps agrees with the complete graph."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from ik.arms import arm_of
from kinematics.six_joint_arms import URDFS

from eim_ros.ik.path_search import NO_EDGES
from eim_ros.ik.revolutions import Revolutions, in_revolution_of
from eim_ros.kinematics import Robot
from eim_ros.solver import path_reach, shortest_path

TURN = 2.0 * math.pi
LOWER, UPPER = np.array([-TURN, -2.0, -4.0]), np.array([TURN, 2.0, 5.0])
LIMITED = Revolutions(LOWER, UPPER, np.zeros(3, dtype=bool), np.array([True, False, True]))
STEP = 0.5
STEPS = np.full(3, STEP)


def equivalents(row: np.ndarray) -> np.ndarray:
    """Enumerate all rows (n, 3) within the limits that are 2π-equivalent to a row."""
    turns = itertools.product(range(-3, 4), [0], range(-3, 4))
    rows = row + TURN * np.array(list(turns))
    return rows[((rows >= LOWER) & (rows <= UPPER)).all(axis=1)]


def on_circles(rows: np.ndarray) -> np.ndarray:
    rows = rows.copy()
    rows[:, [0, 2]] = (rows[:, [0, 2]] + math.pi) % TURN - math.pi
    return rows


def random_way(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return a motion (n, 3) within the limits. Some motions cross π or reach a limit."""
    ends = rng.uniform(LOWER, UPPER, (2, 3))
    return ends[0] + np.linspace(0.0, 1.0, n)[:, None] * (ends[1] - ends[0])


def brute_force(layers: list[np.ndarray], origin: np.ndarray | None) -> tuple[int, float, float]:
    """Return the number of reached poses, the smallest next step, and the cost of the shortest path."""
    everything = [np.concatenate([equivalents(row) for row in layer]) for layer in layers]
    n_before = 0 if origin is None else 1
    everything = everything if origin is None else [origin[None], *everything]
    counts = np.array([len(layer) for layer in everything], dtype=np.int64)
    graph = np.concatenate(everything), counts, np.zeros(3, dtype=bool)
    _, n_reached, nearest = path_reach(*graph, np.ones((len(counts), 3)), STEP, NO_EDGES)
    chosen = shortest_path(*graph, np.ones((len(counts), 3)), STEP, 1e4, NO_EDGES)
    rows = [layer[i] for layer, i in zip(everything, chosen, strict=True)]
    cost = float((np.diff(np.array(rows), axis=0) ** 2).sum())
    return n_reached - n_before, nearest if n_reached < len(everything) else 0.0, cost


@pytest.mark.parametrize("seed", range(30))
def test_search_among_equivalents_is_as_good_as_the_graph_of_all_of_them(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ways = [random_way(rng, 25) for _ in range(3)]
    layers = [on_circles(np.array(rows)) for rows in zip(*ways, strict=True)]
    origin = None if seed % 3 else ways[0][0] + TURN * np.array([rng.integers(-1, 2), 0, 0])
    found = LIMITED.search(layers, np.tile(STEPS, (len(layers), 1)), origin, lambda: False)
    assert found is not None
    n_reached, nearest, cost = brute_force(layers, origin)
    assert found.n_poses == n_reached
    assert found.nearest_miss == pytest.approx(nearest, abs=1e-9)  # rounding of added revolutions
    assert (found.rows is not None) == (n_reached == 25)
    if found.rows is not None:
        rows = found.rows if origin is None else np.concatenate([origin[None], found.rows])
        assert np.abs(np.diff(rows, axis=0)).max() <= STEP + 1e-9
        assert ((found.rows >= LOWER) & (found.rows <= UPPER)).all()
        # equally good paths may begin in different revolutions, which changes the cost slightly
        assert (np.diff(rows, axis=0) ** 2).sum() == pytest.approx(cost, abs=1e-4)


@pytest.mark.parametrize("seed", range(30))
def test_unrolled_path_jumps_as_rarely_as_any_choice_of_equivalents(seed: int) -> None:
    rng = np.random.default_rng(1000 + seed)
    way = on_circles(rng.uniform(LOWER, UPPER, (7, 3)) if seed % 2 else random_way(rng, 7))
    rows = LIMITED.unrolled(way, np.tile(STEPS, (len(way), 1)), None)
    assert ((rows >= LOWER) & (rows <= UPPER)).all()
    np.testing.assert_allclose(on_circles(rows), way, atol=1e-12)
    for joint in range(3):
        choices = [np.unique(equivalents(row)[:, joint]) for row in way]
        every = np.array(list(itertools.product(*choices)))
        steps = np.abs(np.diff(every, axis=1))
        costs = (steps**2 + 1e4 * (steps > STEP)).sum(axis=1)
        steps = np.abs(np.diff(rows[:, joint]))
        assert (steps**2 + 1e4 * (steps > STEP)).sum() == pytest.approx(costs.min(), abs=1e-4)


def test_unlimited_joints_are_unrolled_from_where_the_path_begins() -> None:
    free = Revolutions(np.full(1, -math.pi), np.full(1, math.pi), np.ones(1, dtype=bool), np.zeros(1, dtype=bool))
    way = np.linspace(3.0, 23.0, 100)[:, None]
    wrapped = (way + math.pi) % TURN - math.pi
    np.testing.assert_allclose(free.unrolled(wrapped, np.full_like(wrapped, STEP), None), way, atol=1e-12)
    np.testing.assert_allclose(
        free.unrolled(wrapped, np.full_like(wrapped, STEP), np.array([3.0 + 2.0 * TURN])), way + 2.0 * TURN, atol=1e-12
    )


def test_joints_with_equivalent_values_are_those_that_turn_by_more_than_a_turn() -> None:
    ur5 = Robot(URDFS["UR5, two turns"])
    assert Revolutions.of(ur5, ur5.bounds).repeating.all()
    for name in (
        "panda",
        "ur5",
        "gantry",
        "followers",
    ):  # ranges of at most one revolution, prismatic joints, and mimic joints
        robot = arm_of(name)
        assert not Revolutions.of(robot, robot.bounds).repeating.any()
    gen3 = arm_of("gen3")
    found = Revolutions.of(gen3, gen3.bounds)
    np.testing.assert_array_equal(found.unlimited, gen3.continuous)
    assert not found.repeating.any()


def test_too_many_equivalents_and_too_little_time_are_no_outcome() -> None:
    layer = on_circles(np.random.default_rng(0).uniform(LOWER, UPPER, (100_000, 3)))
    assert LIMITED.search([layer], STEPS[None], None, lambda: False) is None
    assert LIMITED.search([layer[:2], layer[:2]], np.tile(STEPS, (2, 1)), None, lambda: True) is None


def test_joints_that_wrap_are_moved_to_the_revolution_nearest_to_the_reference() -> None:
    rng = np.random.default_rng(3)
    for wraps in (np.array([True, False, True]), np.ones(3, dtype=bool), np.zeros(3, dtype=bool)):
        reference, q = rng.uniform(-30.0, 30.0, 3), rng.uniform(-math.pi, math.pi, (50, 3))
        q[0] = reference + math.pi  # halfway between two revolutions
        expected = q + np.where(wraps, TURN * np.round((reference - q) / TURN), 0.0)
        assert np.array_equal(in_revolution_of(reference, q, wraps), expected)
        assert in_revolution_of(reference, q[:0], wraps).shape == (0, 3)
