"""An arm that a user drives moves its tip as requested within all limits, or more slowly if it cannot follow."""

import numpy as np
import pytest
import torch

from eim_ros.core.errors import DataError
from eim_ros.planar import PlanarArm
from eim_ros.planar.arm import joint_velocity, target_after

ARM = PlanarArm()
BENT = np.array([0.4, -0.5, 0.3, 0.3, -0.6, 0.2, 0.4, -0.3, 0.5, -0.2])


def moved(q: np.ndarray, velocity: np.ndarray, duration: float) -> np.ndarray:
    before, after = (ARM.tip(torch.from_numpy(x)).numpy() for x in (q, q + duration * velocity))
    return (after - before) / duration


def test_tip_moves_as_wished():
    wish = np.array([0.2, -0.3])
    np.testing.assert_allclose(moved(BENT, joint_velocity(ARM, BENT, wish), 1e-6), wish, atol=1e-3)  # for damping


def test_tip_turns_as_wished():
    velocity = joint_velocity(ARM, BENT, np.array([0.1, 0.1]), 0.4)
    assert velocity.sum() == pytest.approx(0.4, abs=0.01)  # damping causes a small error
    np.testing.assert_allclose(moved(BENT, velocity, 1e-6), [0.1, 0.1], atol=0.02)


def test_stretched_arm_is_not_torn_apart():
    velocity = joint_velocity(ARM, np.zeros(10), np.array([1.0, 0.0]))
    assert np.abs(velocity).max() < 1e-12


def test_target_is_within_all_limits():
    q = np.full(10, 3.0)
    target = target_after(ARM, q, np.linspace(0.0, 100.0, 10), 0.5)
    assert target.max() <= ARM.joint_limit
    slow = target_after(ARM, np.zeros(10), np.linspace(0.0, 100.0, 10), 0.5)
    assert slow.max() <= 0.5 * ARM.velocity_limit
    np.testing.assert_allclose(slow, slow.max() * np.linspace(0.0, 1.0, 10))


def test_wishes_that_make_no_sense_are_refused():
    with pytest.raises(DataError, match="finite"):
        joint_velocity(ARM, BENT, np.array([np.nan, 0.0]))
    with pytest.raises(DataError, match="10 finite numbers"):
        target_after(ARM, BENT, np.zeros(3), 0.1)
