"""Draws from sets of two or more dimensions agree with densities in closed form and with rejection sampling."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from ik.arms import arm_of, constant_mixture, iiwa_on_a_turning_joint
from kinematics.descriptions import chain_urdf, joint
from scipy.stats import ks_2samp, kstest

from eim_ros.core.errors import ConfigurationError
from eim_ros.ik import Constraints, ErrorCode, IKModel, Posture, Sampler
from eim_ros.kinematics import Robot, Sphere

TURN = (-2.0, 2.5)  # limits of revolute joints [rad]
TRAVEL = 2.8  # limit of slides [m], beyond the reach of the revolute joints
AXES = ("0 0 1", "0 1 0", "1 0 0", "0 1 0")


@functools.lru_cache
def arm_on_slides(n_turning: int) -> Robot:
    """Return an arm of revolute joints on three slides. For a position, angles are free and the slides compensate."""
    slides = [
        joint(f"s{i}", "prismatic", f"l{i}", f"l{i + 1}", f'<axis xyz="{axis}"/>{limits(-TRAVEL, TRAVEL)}')
        for i, axis in enumerate(("1 0 0", "0 1 0", "0 0 1"))
    ]
    turns = [
        joint(
            f"j{i}",
            "revolute",
            f"l{3 + i}",
            f"l{4 + i}",
            f'<origin xyz="{"0.6 0 0.2" if i else "0 0 0"}"/><axis xyz="{AXES[i]}"/>{limits(*TURN)}',
        )
        for i in range(n_turning)
    ]
    end = joint("tool", "fixed", f"l{3 + n_turning}", f"l{4 + n_turning}", '<origin xyz="0.5 0 0.1"/>')
    return Robot(chain_urdf(*slides, *turns, end))


def limits(lower: float, upper: float) -> str:
    return f'<limit lower="{lower}" upper="{upper}" effort="1" velocity="1"/>'


def area_density(robot: Robot, positions: np.ndarray) -> np.ndarray:
    """Return the area of the set per area of angles: sqrt(det(I + D^T D)) for the scaled slopes D of the slides."""
    scaled = robot.chain.jacobian(positions)[:, :3] * (robot.upper - robot.lower)
    slopes = np.linalg.solve(scaled[:, :, :3], scaled[:, :, 3:])
    return np.sqrt(np.linalg.det(np.eye(robot.dof - 3) + slopes.transpose(0, 2, 1) @ slopes))


def angles_at_random(robot: Robot, n: int, seed: int) -> np.ndarray:
    positions = np.zeros((n, robot.dof))
    positions[:, 3:] = np.random.default_rng(seed).uniform(*TURN, (n, robot.dof - 3))
    return positions


def p_value(values: np.ndarray, reference: np.ndarray, weights: np.ndarray) -> float:
    """Return the p-value of a Kolmogorov-Smirnov test of values against weighted values."""
    order = np.argsort(reference)
    cumulated = np.cumsum(weights[order])
    return float(kstest(np.interp(values, reference[order], cumulated / cumulated[-1]), "uniform").pvalue)


@pytest.mark.parametrize("n_turning", [2, 3, 4])
def test_uniform_draws_are_so_by_area_and_volume(n_turning: int) -> None:
    robot = arm_on_slides(n_turning)
    answer = Sampler(robot).draw([0.1, -0.1, 0.2], 300, "uniform", timeout=60.0, seed=n_turning)
    assert answer.error_code == ErrorCode.SUCCESS
    assert answer and answer.valid.all() and len(answer) == 300
    assert answer.effective_sample_size >= 240.0
    reference = angles_at_random(robot, 50_000, 0)
    weights = area_density(robot, reference)
    for values, of_reference in (
        *((answer.q[:, j], reference[:, j]) for j in range(3, robot.dof)),
        (area_density(robot, answer.q), weights),  # weights differ by at least a third
    ):
        assert p_value(values, of_reference, weights) > 1e-3
    volume = weights.mean()  # 10 % allow for 1200 effective slices
    assert np.exp(-answer.log_prob) == pytest.approx(volume, rel=0.1)


@pytest.mark.parametrize("temperature", [1.0, 0.05])
def test_a_cost_and_its_temperature_decide_the_density(temperature: float) -> None:
    robot = arm_on_slides(3)
    answer = Sampler(robot).draw(
        [0.1, -0.1, 0.2],
        200,
        lambda q: (q[:, 3] - 1.0) ** 2 + np.where(q[:, 4] > 0.0, np.inf, 0.0),
        temperature=temperature,
        timeout=60.0,
        seed=1,
    )
    assert answer and answer.valid.all()
    reference = angles_at_random(robot, 100_000, 2)
    weights = area_density(robot, reference) * np.exp(-((reference[:, 3] - 1.0) ** 2) / temperature)
    weights[reference[:, 4] > 0.0] = 0.0
    assert (answer.q[:, 4] <= 0.0).all()
    for j in range(3, robot.dof):
        assert p_value(answer.q[:, j], reference[:, j], weights) > 1e-3
    normalising = answer.log_prob + (answer.q[:, 3] - 1.0) ** 2 / temperature
    assert np.exp(-normalising) == pytest.approx(weights.mean(), rel=0.15)


def test_a_posture_is_a_cost() -> None:
    robot = arm_on_slides(2)
    liked = Posture({"j0": 0.5})
    named = Sampler(robot).draw([0.1, 0.0, 0.2], 50, liked, temperature=0.1, timeout=60.0, seed=3)
    called = Sampler(robot).draw(
        [0.1, 0.0, 0.2], 50, lambda q: (q[:, 3] - 0.5) ** 2, temperature=0.1, timeout=60.0, seed=3
    )
    np.testing.assert_allclose(named.q, called.q)


@pytest.mark.parametrize(
    ("name", "tolerances"),
    [
        (
            "six_joints",
            [0.25, 0.25, 0.1, 0.6, 0.5, 0.9],
        ),  # each pose within the tolerances has isolated solutions in closed form
        ("six_joints", [0.25, 0.25, 0.1, 0.5, np.inf, 0.6]),  # one free rotation
        ("panda", [0.15, 0.15, 0.2, 0.5, 0.4, np.inf]),  # curves
        ("panda", [0.1, 0.08, 0.1, np.inf, np.inf, np.inf]),  # free orientation
        ("eight", [0.25, 0.25, 0.25, 0.7, 0.7, 0.7]),
    ],
)
def test_within_tolerances_draws_are_those_of_uniform_configurations(name: str, tolerances: list[float]) -> None:
    """Draws have the distribution of those uniform configurations that are within the tolerances."""
    robot = iiwa_on_a_turning_joint() if name == "eight" else arm_of(name)
    rng = np.random.default_rng(6)
    pose = robot.fk(robot.random(1, rng))[0]
    constraints = Constraints(tolerances=tolerances)
    answer = Sampler(robot).with_constraints(constraints).draw(pose, 60, "uniform", timeout=60.0, seed=5)
    assert answer and answer.valid.all() and len(answer) == 60
    candidates = robot.random(1_000_000, rng)
    kept = candidates[robot.chain.verify(robot.task(pose, tolerances=tolerances), candidates)[1]]
    assert len(kept) > 100
    for j in range(robot.dof):
        assert ks_2samp(answer.q[:, j], kept[:, j]).pvalue > 1e-3
    share = len(kept) / len(candidates)  # this is the volume in units of joint ranges
    assert np.exp(-answer.log_prob[0]) == pytest.approx(share, rel=4.0 / np.sqrt(len(kept)) + 4.0 / np.sqrt(240.0))


def test_draws_of_a_model_have_its_density_on_the_set() -> None:
    robot = arm_on_slides(3)
    means = np.array([[0.0, 0.0, 0.0, 1.0, -1.0, 0.5], [0.5, 0.0, 0.0, -1.0, 1.5, 0.0]])
    sampler = Sampler(model=IKModel(constant_mixture(means, np.full(6, 0.5), 3), robot, "position"))
    position = [0.1, -0.1, 0.2]
    answer = sampler.draw(position, 200, "model", timeout=60.0, seed=1)
    assert answer and answer.valid.all() and answer.effective_sample_size >= 160.0
    reference = angles_at_random(robot, 50_000, 2)
    reference[:, :3] = position - robot.chain.forward(reference)[:, :3, 3]  # compensation by the slides
    density = answer.densities[0].log_prob(reference)
    weights = area_density(robot, reference) * np.exp(density)
    for j in range(robot.dof):
        assert p_value(answer.q[:, j], reference[:, j], weights) > 1e-3
    normalising = answer.densities[0].log_prob(answer.q) - answer.log_prob
    assert np.exp(normalising) == pytest.approx(weights.mean(), rel=0.2)


def test_what_collides_has_no_share_of_slices() -> None:
    robot = Robot("panda")
    q = np.array([0.0, 0.3, 0.0, -1.8, 0.0, 2.1, 0.8])
    position = robot.fk(q)[:3, 3]
    elbow = robot.skeleton(q[None])[0, 4]
    constraints = Constraints(obstacles=(Sphere(tuple(elbow), 0.1),))
    free = Sampler(robot).draw(position, 50, timeout=60.0, seed=0)
    answer = Sampler(robot, constraints=constraints).draw(position, 50, timeout=60.0, seed=0)
    assert answer and answer.valid.all()
    assert not constraints.scene(robot).colliding(answer.q).any()
    assert answer.log_prob[0] > free.log_prob[0]


def test_without_time_few_slices_are_said_to_be_worth_little() -> None:
    robot = iiwa_on_a_turning_joint()
    pose = robot.fk(robot.random(1, np.random.default_rng(1)))[0]
    answer = Sampler(robot).draw(pose, 5000, "uniform", timeout=0.001, seed=0)
    assert answer.error_code == ErrorCode.TIMED_OUT
    assert np.isnan(answer.effective_sample_size) or answer.effective_sample_size < 2500.0
    if len(answer) == 5000:
        assert answer.valid.all()
        assert f"the effective sample size is {answer.effective_sample_size:.0f}" in answer.message


def test_what_could_not_be_drawn_is_no_success() -> None:
    sampler = Sampler("fetch")
    stretched = sampler.robot.fk(np.clip(np.zeros(sampler.robot.dof), sampler.robot.lower, sampler.robot.upper))
    samples = sampler.with_constraints(position_only=True).draw(stretched, 5, "uniform", timeout=0.2, seed=0)
    assert samples.error_code in (ErrorCode.FAILURE, ErrorCode.TIMED_OUT)
    assert samples.effective_sample_size == 0.0
    assert "could not be drawn from the density" in samples.message


def test_dimensions_that_cannot_be_sliced_are_refused() -> None:
    tolerances = Constraints(tolerances=[0.1] * 6)
    many = Constraints(tolerances=[np.inf] * 3 + [0.1] * 3)
    with pytest.raises(ConfigurationError, match="call sample instead"):
        Sampler(arm_of("all_types")).with_constraints(tolerances).draw(np.eye(4), 10, "uniform", seed=0)
    with pytest.raises(ConfigurationError, match="call sample instead"):
        Sampler("ur5").with_constraints(
            fixed={"shoulder_pan_joint": 0.0, "elbow_joint": 1.0, "wrist_1_joint": 0.0, "wrist_2_joint": 0.0}
        ).draw([0.4, 0.1, 0.5], 10, "uniform", seed=0)
    assert Sampler("ur5").with_constraints(many).draw([0.4, 0.1, 0.5, 1, 0, 0, 0], 5, "uniform", seed=0)
