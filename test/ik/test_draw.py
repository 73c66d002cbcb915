"""Draws from distributions on the set of solutions agree with accurate references from other methods."""

from __future__ import annotations

import numpy as np
import pytest
from ik.arms import assert_no_solution
from kinematics.robots import robot_and_oracle
from scipy.special import logsumexp
from scipy.stats import kstest

from eim_ros.core.errors import ConfigurationError
from eim_ros.ik import Constraints, ErrorCode, Sampler
from eim_ros.ik.components import component_labels, self_motion_components
from eim_ros.kinematics import Robot, Sphere


def poses_of(robot: Robot, n: int, seed: int) -> np.ndarray:
    return robot.fk(robot.random(n, np.random.default_rng(seed)))


def test_uniform_draws_are_so_by_length() -> None:
    """The reference is the length along all components, measured by chords of 0.01 rad and in units of joint ranges."""
    robot, oracle = robot_and_oracle("panda")
    p_values = []
    for seed, pose in enumerate(poses_of(robot, 30, 1)):
        answer = Sampler(robot).draw(pose, 200, "uniform", seed=seed)
        assert answer and answer.valid.all() and len(answer) == 200
        np.testing.assert_allclose(oracle.forward(answer.q[0]), pose, atol=2e-6)
        found = self_motion_components(robot, answer.q, pose, spacing=0.01)
        rows = np.concatenate([component.positions for component in found])
        chords = [np.diff(component.positions, axis=0) / (robot.upper - robot.lower) for component in found]
        lengths = [np.r_[0.0, np.cumsum(np.linalg.norm(each, axis=1))] for each in chords]
        before = np.cumsum([0.0, *(each[-1] for each in lengths)])
        along = np.concatenate([start + each for start, each in zip(before, lengths, strict=False)])
        nearest = [int(np.argmin(np.linalg.norm(rows - q, axis=1))) for q in answer.q]
        p_values.append(kstest(along[nearest] / before[-1], "uniform").pvalue)
        assert answer.effective_sample_size == 200.0
        assert answer.log_prob == pytest.approx(-np.log(before[-1]), abs=0.05)  # chords are shorter than the curve
    assert kstest(p_values, "uniform").pvalue > 0.01


def test_draws_of_the_model_have_its_mean_log_density_and_shares_of_components() -> None:
    """Weighted uniform draws estimate the same integrals, so both estimates agree within three standard errors."""
    sampler = Sampler.load("panda_pose")
    robot = sampler.robot
    pose = poses_of(robot, 1, 5)[0]
    contexts = sampler._prior.contexts(pose, False, robot, sampler.constraints, 0)
    conditional = sampler._prior.density(contexts).conditional
    even = sampler.draw(pose, 20_000, "uniform", seed=1).q
    log_density = conditional.log_prob(even)
    weights = np.exp(log_density - logsumexp(log_density))
    answer = sampler.draw(pose, 2000, "model", seed=2)
    drawn = conditional.log_prob(answer.q)
    mean, deviation = weights @ log_density, np.sqrt(weights @ (log_density - weights @ log_density) ** 2)
    effective = 1.0 / np.sum(weights**2)
    assert abs(drawn.mean() - mean) < 3.0 * deviation * np.sqrt(1 / 2000 + 1 / effective)
    found = self_motion_components(robot, even[:400], pose)
    shares = np.bincount(component_labels(robot, found, even), weights, len(found))
    counts = np.bincount(component_labels(robot, found, answer.q), minlength=len(found)) / 2000
    error = np.sqrt(shares * (1 - shares) * (1 / 2000 + 1 / effective)) + 1e-3
    assert (np.abs(counts - shares) < 3.0 * error).all()
    assert shares.max() > 0.2 and np.abs(shares - 1 / len(found)).max() > 0.1  # shares are not equal
    normalising = drawn - answer.log_prob  # all draws have the same normalising constant
    assert np.ptp(normalising) < 1e-6


def test_points_are_drawn_as_often_as_each_other() -> None:
    robot = Robot("ur5")
    pose = poses_of(robot, 1, 2)[0]
    all_ = Sampler(robot).sample(pose, 100)
    answer = Sampler(robot).draw(pose, 4000, "uniform", seed=3)
    which = [int(np.argmin(np.linalg.norm(all_.q - q, axis=1))) for q in answer.q]
    counts = np.bincount(which, minlength=len(all_))
    assert len(all_) == 8
    assert (np.abs(counts - 500) < 5 * np.sqrt(500)).all()
    assert answer.log_prob == pytest.approx(-np.log(8))


def test_what_collides_has_no_share() -> None:
    robot = Robot("panda")
    pose = robot.fk(np.array([0.0, 0.3, 0.0, -1.8, 0.0, 2.1, 0.8]))
    free = Sampler(robot).draw(pose, 100, "uniform", seed=0)
    ball = Sphere(tuple(robot.skeleton(free.q)[0, 4]), 0.08)
    constraints = Constraints(obstacles=(ball,))
    answer = Sampler(robot).with_constraints(constraints).draw(pose, 100, "uniform", seed=0)
    assert answer and answer.valid.all() and len(answer) == 100
    assert answer.log_prob[0] > free.log_prob[0]  # the same mass is on a smaller set
    assert constraints.scene(robot) is not None
    assert not constraints.scene(robot).colliding(answer.q).any()


def test_places_where_the_arm_is_singular_have_no_share() -> None:
    sampler = Sampler("iiwa14")
    aligned = np.array([0.3, 0.0, 0.2, -0.9, 0.4, 0.0, 0.1])  # with aligned axes, there is also a surface
    samples = sampler.draw(sampler.robot.fk(aligned), 20, "uniform", timeout=60.0, seed=0)
    assert samples.error_code == ErrorCode.SUCCESS
    assert samples and samples.valid.all()
    assert np.isfinite(samples.log_prob).all()


def test_an_arm_that_is_singular_everywhere_has_no_distribution_and_says_so() -> None:
    sampler = Sampler("iiwa14")
    samples = sampler.draw(sampler.robot.fk(np.zeros(7)), 20, "uniform", timeout=60.0, seed=0)
    assert samples and samples.valid.all()
    assert samples.error_code != ErrorCode.SUCCESS
    assert "could not be drawn from the density, because the arm is singular" in samples.message
    assert np.isnan(samples.log_prob).all()


def test_a_pose_out_of_reach_has_no_distribution() -> None:
    pose = np.eye(4)
    pose[0, 3] = 9.0
    for name in ("panda", "ur5"):
        answer = Sampler(name).draw(pose, 10, "uniform", seed=0)
        assert answer.error_code == ErrorCode.NO_IK_SOLUTION
        assert_no_solution(answer)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"density": "gauss"}, "must be 'uniform', 'model', a Posture or a function of configurations, got 'gauss'"),
        ({"density": "model"}, "needs a model"),
        ({"density": "uniform", "temperature": 0.5}, "a temperature needs a cost"),
        ({"density": np.sum, "temperature": 0.0}, "temperature must be positive"),
        ({"density": lambda q: q}, r"one number for each of \d+ configurations, got an array of shape \(\d+, 7\)"),
        ({"density": lambda q: q[:, 0] * np.nan}, "NaN"),
        ({"guarantee": "yes"}, "guarantee must be a Completeness, 'certified' or None"),
    ],
)
def test_what_has_no_meaning_is_refused(options: dict, reason: str) -> None:
    robot = Robot("panda")
    with pytest.raises(ConfigurationError, match=reason):
        Sampler(robot).draw(poses_of(robot, 1, 0)[0], 10, seed=0, **options)
