"""Components and coverage agree with known values for solution sets of simple arms."""

from __future__ import annotations

import numpy as np
import pytest
from ik.arms import arm_of

from eim_ros.ik.evaluation import SolutionSet, exact_solutions, linked_components


def cloud(center: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    return center + 0.02 * rng.standard_normal((n, len(center)))


def test_clouds_apart_are_families_the_largest_first_and_few_points_are_none() -> None:
    robot, rng = arm_of("planar3"), np.random.default_rng(0)
    positions = np.concatenate([cloud(np.full(3, at), n, rng) for at, n in ((0.0, 15), (1.0, 40), (-1.0, 5))])
    label = linked_components(robot, positions)
    assert (label[:15] == 1).all()
    assert (label[15:55] == 0).all()
    assert (label[55:] == -1).all()


def test_chain_of_near_points_is_one_family() -> None:
    robot = arm_of("planar3")
    line = np.zeros((30, 3))
    line[:, 0] = np.linspace(-3.0, 3.0, 30)  # steps of 0.21 rad
    assert (linked_components(robot, line) == 0).all()
    assert (linked_components(robot, line, linkage=0.2) == -1).all()


def test_continuous_joints_are_near_across_pi() -> None:
    robot = arm_of("all_types")
    q = np.repeat(0.5 * (robot.lower + robot.upper)[None], 20, axis=0)
    turning = int(np.flatnonzero(robot.continuous)[0])
    q[:10, turning], q[10:, turning] = 3.1, -3.1
    assert (linked_components(robot, q) == 0).all()


def test_coverage_weighs_families_equally() -> None:
    robot, rng = arm_of("planar3"), np.random.default_rng(1)
    positions = np.concatenate([cloud(np.full(3, at), n, rng) for at, n in ((0.0, 100), (1.0, 20))])
    truth = SolutionSet(robot, positions, linked_components(robot, positions))
    assert truth.n_components == 2
    assert truth.coverage(np.zeros((1, 3))) == truth.share_of_components(np.zeros((1, 3))) == 0.5
    assert truth.coverage(positions) == truth.share_of_components(positions) == 1.0
    assert truth.coverage(np.empty((0, 3))) == truth.share_of_components(np.empty((0, 3))) == 0.0
    half = np.concatenate([positions[:100], positions[100:101]])
    assert truth.share_of_components(half, radius=1e-9) == 1.0
    assert truth.coverage(half, radius=1e-9) == pytest.approx(0.5 + 0.5 / 20)


def test_solutions_of_a_planar_arm_with_two_joints_to_spare_have_the_families_of_its_elbow() -> None:
    robot, rng = arm_of("planar3"), np.random.default_rng(2)
    pose = robot.fk(np.array([0.3, 0.8, -0.4]))
    truth = exact_solutions(robot, pose, 300, rng)  # a complete planar pose has two solutions: elbow up and elbow down
    assert truth.n_components == 2
    found = [
        (truth.coverage(some), truth.share_of_components(some)) for some in (truth.positions[:n] for n in (0, 1, 300))
    ]
    assert found == [(0.0, 0.0), (0.5, 0.5), (1.0, 1.0)]
