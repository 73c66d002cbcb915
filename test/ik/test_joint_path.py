"""Time stamps of a path satisfy limits of velocity and acceleration, and given time stamps limit its steps."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from ik.arms import arm_of
from scipy.interpolate import CubicSpline

from eim_ros.core.errors import ConfigurationError
from eim_ros.ik import JointPath, Sampler
from eim_ros.kinematics import Robot

ENOUGH = 60.0  # [s]


def line(n: int) -> np.ndarray:
    return Robot("panda").fk(np.linspace([0.0, 0.2, 0.1, -1.8, 0.0, 2.0, 0.5], [0.5, 0.5, 0.4, -1.5, 0.3, 2.2, 0.9], n))


def followed(n: int = 15) -> JointPath:
    path = Sampler(arm_of("panda")).follow(line(n), timeout=ENOUGH, seed=0)
    assert path, path.message
    return path


def test_time_stamps_keep_the_velocities() -> None:
    path, limits = followed(), np.linspace(0.5, 2.0, 7)
    times = path.times(limits)
    speeds = np.abs(np.diff(path.q, axis=0)) / np.diff(times)[:, None]
    assert times[0] == 0.0
    np.testing.assert_allclose((speeds / limits).max(axis=1), 1.0)
    with pytest.raises(ConfigurationError, match="velocities must be positive"):
        path.times(0.0)


def test_time_stamps_begin_at_the_current_configuration() -> None:
    path = followed()
    times = path.times(2.0, near=path.q[0] - 0.1)
    assert times[0] == pytest.approx(0.05)
    np.testing.assert_allclose(times - times[0], path.times(2.0))


@pytest.mark.skipif(importlib.util.find_spec("toppra") is None, reason="toppra is not installed")
def test_time_stamps_keep_the_accelerations() -> None:
    path, limits = followed(), np.linspace(1.0, 2.0, 7)
    times = path.times(limits, 5.0)
    spline = CubicSpline(times, path.q, bc_type="clamped")
    moments = np.linspace(0.0, times[-1], 1000)
    assert (np.abs(spline(moments, 1)) / limits).max() <= 1.1  # this spline differs slightly from toppra's
    assert np.abs(spline(moments, 2)).max() / 5.0 <= 1.2
    assert times[-1] > path.times(limits)[-1]


def test_accelerations_without_toppra_name_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "toppra", None)
    with pytest.raises(ConfigurationError, match="pip install toppra"):
        followed().times(1.0, 5.0)


def test_velocity_limits_are_those_of_the_description() -> None:
    np.testing.assert_array_equal(Robot("panda").velocity_limits, [2.175] * 4 + [2.61] * 3)
    text = Robot("panda").urdf
    without = Robot(text.replace('velocity="2.175"', 'velocity="0"').replace('velocity="2.61"', ""), "panda_link8")
    assert np.isinf(without.velocity_limits).all()


def test_follower_narrows_the_velocity_limit() -> None:
    joint = (
        '<joint name="{0}" type="revolute"><parent link="{1}"/><child link="{2}"/><axis xyz="0 0 1"/>'
        '<limit lower="-1" upper="1" effort="1" velocity="{3}"/>{4}</joint>'
    )
    text = (
        '<robot name="pair"><link name="a"/><link name="b"/><link name="c"/>'
        + joint.format("first", "a", "b", 3.0, "")
        + joint.format("second", "b", "c", 4.0, '<mimic joint="first" multiplier="-2"/>')
        + "</robot>"
    )
    assert Robot(text).velocity_limits.tolist() == [2.0]


@pytest.mark.parametrize("begins_near", [False, True])
def test_path_keeps_uneven_times(begins_near: bool) -> None:
    """A known motion satisfies the velocity limits at these uneven times, but not at even times."""
    robot, rng = arm_of("panda"), np.random.default_rng(0)
    first, last = np.array([0.0, 0.2, 0.1, -1.8, 0.0, 2.0, 0.5]), np.array([0.5, 0.5, 0.4, -1.5, 0.3, 2.2, 0.9])
    shares = np.sort(np.concatenate([[0.0, 1.0], rng.random(14)]))
    q = first + shares[:, None] * (last - first)
    times = 0.1 + np.concatenate([[0.0], np.cumsum(0.002 + np.diff(shares))]) * 0.35
    near = q[0] - 0.01 if begins_near else None
    path = Sampler(robot).follow(robot.fk(q), near, times=times, timeout=ENOUGH, seed=0)
    assert path, path.message
    rows, stamps = (path.q, times) if near is None else (np.concatenate([near[None], path.q]), np.append(0.0, times))
    speeds = np.abs(np.diff(rows, axis=0)) / np.diff(stamps)[:, None]
    assert (speeds <= robot.velocity_limits * (1.0 + 1e-8)).all()


def test_path_that_is_too_fast_is_no_success() -> None:
    path = Sampler(arm_of("panda")).follow(line(10), times=np.linspace(0.0, 0.02, 10), timeout=ENOUGH, seed=0)
    assert not path
    assert path.message.startswith("the path jumps")


@pytest.mark.parametrize("times", [[0.0, 1.0], [0.0, 1.0, 1.0], [0.0, 2.0, 1.0], [0.0, np.nan, 1.0]])
def test_wrong_times_are_errors(times: list[float]) -> None:
    with pytest.raises(ConfigurationError, match="times"):
        Sampler(arm_of("panda")).follow(line(3), times=times)


def test_first_time_is_after_the_current_configuration() -> None:
    with pytest.raises(ConfigurationError, match="time 0 is at `near`"):
        Sampler(arm_of("panda")).follow(line(3), np.zeros(7), times=[0.0, 1.0, 2.0])
