"""Values agree for one and many configurations, each call draws new numbers, and unknown names are refused."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from eim_ros.kinematics import Robot

ROBOT = Robot("panda")


def test_one_configuration_has_no_axis_of_rows() -> None:
    q = ROBOT.random(seed=np.random.default_rng(0))
    assert q.shape == (7,)
    assert ROBOT.within_limits(q).all()
    np.testing.assert_array_equal(ROBOT.fk(q), ROBOT.fk(q[None])[0])
    assert np.array_equal(ROBOT.limits.lower, ROBOT.lower)


def test_manipulability_of_one_is_that_of_many() -> None:
    q = ROBOT.random(5, np.random.default_rng(1))
    assert ROBOT.manipulability(q[2]) == ROBOT.manipulability(q)[2]
    jacobian = ROBOT.jacobian(q[2])
    # tolerance for rounding in a determinant of six rows
    assert float(ROBOT.manipulability(q[2])) == pytest.approx(np.sqrt(np.linalg.det(jacobian @ jacobian.T)), rel=1e-10)


def test_without_a_generator_each_call_is_a_fresh_one() -> None:
    assert not np.array_equal(ROBOT.random(), ROBOT.random())


def test_what_is_never_guessed_is_just_missing() -> None:
    with pytest.raises(AttributeError, match=r"has no attribute 'nonsense'$"):
        ROBOT.nonsense
    assert not hasattr(ROBOT, "__array__")


def test_a_robot_is_copied_whole() -> None:
    q = ROBOT.random(seed=np.random.default_rng(2))
    for twin in (copy.copy(ROBOT), pickle.loads(pickle.dumps(ROBOT))):
        np.testing.assert_array_equal(twin.fk(q), ROBOT.fk(q))
