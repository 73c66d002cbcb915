"""Seeds refined side by side give the results of single seeds. A start in single precision loses no results.

These tests use complete robots. `checks/refining.cpp` checks the templates of the solver in the same way.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from kinematics.robots import every_robot, robot_and_oracle
from kinematics.side_by_side import assert_alike, one_by_one_and_side_by_side

from eim_ros.kinematics import Robot, refine
from eim_ros.solver import Chain

LANES = sys.modules[Chain.__module__].LANES  # number of seeds that are refined only in double precision


@every_robot
@pytest.mark.parametrize("position_only", [False, True])
def test_side_by_side_is_one_by_one(name: str, position_only: bool) -> None:
    robot, _ = robot_and_oracle(name)
    rng = np.random.default_rng(0)
    pose = robot.fk(robot.random(1, rng)[0])
    seeds = robot.random(3 * LANES + 5, rng)
    assert_alike(*one_by_one_and_side_by_side(robot, seeds, pose, LANES, position_only=position_only))


@every_robot
def test_many_seeds_converge_as_often_as_one_by_one(name: str) -> None:
    robot, _ = robot_and_oracle(name)
    rng = np.random.default_rng(5)
    counts = np.zeros(2)
    for pose in robot.fk(robot.random(10, rng)):
        plain, side = one_by_one_and_side_by_side(robot, robot.random(40, rng), pose)
        counts += plain.converged.sum(), side.converged.sum()
    # At most a tenth of the 400 seeds are so near the boundary of two basins of attraction that single precision
    # changes their result. Some of these seeds succeed and others fail, so the numbers nearly agree.
    assert abs(counts[1] - counts[0]) <= 5 + 0.05 * counts[0]


@every_robot
@pytest.mark.parametrize("n", [1, 5, 40])
def test_errors_and_limits_of_what_is_returned_are_true(name: str, n: int) -> None:
    robot, oracle = robot_and_oracle(name)
    rng = np.random.default_rng(1)
    pose = robot.fk(robot.random(1, rng)[0])
    result = refine(robot, robot.random(n, rng), pose)
    errors = np.array([oracle.errors(q, pose) for q in result.positions])
    np.testing.assert_allclose(result.position_error, errors[:, 0], rtol=1e-9, atol=1e-12)
    # the oracle's logarithm has errors of about 1e-8 near 0 and pi
    np.testing.assert_allclose(result.orientation_error, errors[:, 1], rtol=1e-7, atol=1e-7)
    assert robot.within_limits(result.positions).all()
    within = (result.position_error <= 1e-6) & (result.orientation_error <= 1e-6)
    assert np.array_equal(result.converged, within)


@pytest.mark.parametrize("n", [0, 1, 2, LANES - 1, LANES, LANES + 1, 2 * LANES, 2 * LANES + 1, 100])
def test_any_number_of_seeds(n: int) -> None:
    robot, rng = Robot("panda"), np.random.default_rng(2)
    pose = robot.fk(robot.random(1, rng)[0])
    seeds = robot.random(n, rng)
    result = refine(robot, seeds, pose)
    assert [len(values) for values in vars(result).values()] == [n] * 5
    errors, valid = robot.verify(result.positions, pose)
    assert np.array_equal(valid, result.converged)
    np.testing.assert_allclose(errors, [result.position_error, result.orientation_error], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "settings",
    [
        {"max_iterations": 0},
        {"max_iterations": 3},
        {"patience": 1},
        {"position_tolerance": 1e-2, "orientation_tolerance": 1e-2},
    ],
    ids=str,
)
def test_settings_are_obeyed_alike(settings: dict[str, Any]) -> None:
    robot, rng = Robot("iiwa14"), np.random.default_rng(3)
    pose = robot.fk(robot.random(1, rng)[0])
    seeds = robot.random(50, rng)
    plain, side = one_by_one_and_side_by_side(robot, seeds, pose, LANES, **settings)
    assert_alike(plain, side)
    together = refine(robot, seeds, pose, **settings)
    for result in (plain, side, together):
        assert result.iterations.max() <= settings.get("max_iterations", 60)
        tolerance = settings.get("position_tolerance", 1e-6)
        assert (result.position_error[result.converged] <= tolerance).all()


def test_narrow_limits_and_seeds_outside_of_them() -> None:
    robot, rng = Robot("panda"), np.random.default_rng(4)
    pose = robot.fk(robot.random(1, rng)[0])
    ends = np.sort([0.3 * robot.lower + 0.1, 0.5 * robot.upper + 0.1], axis=0)
    lower, upper = np.clip(ends, robot.lower, robot.upper)
    seeds = robot.random(50, rng)
    plain, side = one_by_one_and_side_by_side(robot, seeds, pose, LANES, lower=lower, upper=upper)
    assert_alike(plain, side)
    for result in (plain, side, refine(robot, seeds, pose, lower=lower, upper=upper)):
        assert (result.positions >= lower).all()
        assert (result.positions <= upper).all()


@pytest.mark.parametrize("angle", [0.0, 1e-13, 1e-7, 1e-3, 0.5, 1.0, np.pi / 2, 2.0, 3.0, np.pi - 1e-7, np.pi])
def test_angle_between_two_orientations_is_right(angle: float) -> None:
    robot = Robot("planar3")  # turns about z, so the orientation error is the angle
    target = robot.fk(np.array([angle, 0.0, 0.0]))
    for n in (1, 8, 40):
        _, orientation = robot.pose_errors(np.zeros((n, 3)), target)
        np.testing.assert_allclose(orientation, angle, rtol=0.0, atol=1e-15)


@every_robot
@pytest.mark.parametrize("tolerances", [None, [0.0, 0.1, 0.0, 0.0, 0.0, np.inf]])
def test_errors_side_by_side_are_those_one_by_one(name: str, tolerances: list[float] | None) -> None:
    robot, _ = robot_and_oracle(name)
    rng = np.random.default_rng(3)
    pose, q = robot.fk(robot.random(1, rng)[0]), robot.random(37, rng)
    together = robot.pose_errors(q, pose, tolerances)
    alone = np.concatenate([robot.pose_errors(row, pose, tolerances) for row in q], axis=1)
    np.testing.assert_allclose(together, alone, rtol=1e-12, atol=1e-14)
