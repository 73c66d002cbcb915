"""Inputs of the density ratio of an arm: gradients, known density, limits, and decreasing smoothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from ik.arms import arm_of
from torch import Tensor

from eim_ros.core.errors import ConfigurationError
from eim_ros.ik import KinematicInputs, SmoothingConfig, collect
from eim_ros.kinematics import Robot, context_from_pose
from eim_ros.planar.arm import planar_urdf


def inputs_and_pairs(
    name: str, kind: str, n: int = 6, beyond: float = 0.0, **settings: Any
) -> tuple[KinematicInputs, Tensor, Tensor]:
    """Return inputs from 200 pairs, and n contexts with configurations that nearly reach these contexts."""
    robot = arm_of(name)
    data_set = collect(robot, 200, kind, 0)
    context, sample = torch.from_numpy(data_set.context), torch.from_numpy(data_set.sample)
    inputs = KinematicInputs.from_data(robot, kind, context, SmoothingConfig(**settings))
    noise = torch.randn(n, robot.dof, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return inputs, context[:n], (1.0 + beyond) * sample[:n] + 0.1 * noise


@pytest.mark.parametrize("beyond", [0.0, 0.3])
@pytest.mark.parametrize("kind", ["position", "pose"])
@pytest.mark.parametrize("name", ["panda", "all_types", "followers", "one_joint"])
def test_inputs_and_known_density_have_the_gradients_they_report(name: str, kind: str, beyond: float) -> None:
    inputs, context, sample = inputs_and_pairs(name, kind, beyond=beyond)
    sample.requires_grad_(True)
    for iteration in (0, 10):
        assert torch.autograd.gradcheck(lambda q, i=iteration: inputs(context, q, i), (sample,), atol=1e-5)
        assert torch.autograd.gradcheck(
            lambda q, i=iteration: inputs.known_log_density(context, q, i), (sample,), atol=1e-4, rtol=1e-3
        )


@pytest.mark.parametrize("kind", ["position", "pose"])
@pytest.mark.parametrize("name", ["panda", "gantry"])
def test_columns_are_as_many_as_announced(name: str, kind: str) -> None:
    inputs, context, sample = inputs_and_pairs(name, kind)
    assert inputs(context, sample, 0).shape == (6, inputs.n_inputs)


@pytest.mark.parametrize("kind", ["position", "pose"])
def test_known_density_is_the_smoothing_around_what_is_reached(kind: str) -> None:
    """Within limits, the known density is N(y; FK(q), smoothing^2) up to a constant factor."""
    inputs, context, _ = inputs_and_pairs("panda", kind)
    robot = arm_of("panda")
    sample = robot.random(6, np.random.default_rng(3))
    for iteration in (0, 7, 1000):
        deviation = inputs.smoothing(iteration)
        reached = torch.from_numpy(context_from_pose(robot.fk(sample), kind))
        expected = torch.distributions.Normal(reached, deviation).log_prob(context).sum(-1)
        constant = torch.distributions.Normal(torch.zeros_like(deviation), deviation).log_prob(0.0 * deviation).sum()
        known = inputs.known_log_density(context, torch.from_numpy(sample), iteration)
        assert torch.allclose(known, expected - constant, rtol=1e-10, atol=1e-10)


def test_known_density_falls_softly_beyond_the_limits() -> None:
    robot = arm_of("gantry")
    inputs, _, _ = inputs_and_pairs("gantry", "position", limit_softness=0.05)  # fraction of the range of 2 m
    upper = torch.tensor(robot.upper)
    sample = torch.stack(
        [
            upper,
            upper + torch.tensor([0.2, 0.0, 0.0], dtype=torch.float64),
            -upper - torch.tensor([0.1, 0.0, 0.3], dtype=torch.float64),
        ]
    )
    context = torch.from_numpy(context_from_pose(robot.fk(sample.numpy()), "position"))
    known = inputs.known_log_density(context, sample, 0)
    expected = torch.tensor([0.0, -0.5 * 4.0, -0.5 * (1.0 + 9.0)], dtype=torch.float64)
    assert torch.allclose(known, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", ["position", "pose"])
def test_size_of_the_robot_does_not_matter(kind: str) -> None:
    seen = []
    for length in (1.0, 0.01):
        robot = Robot(planar_urdf(3, length))
        data_set = collect(robot, 200, kind, 0)
        context, sample = torch.from_numpy(data_set.context), torch.from_numpy(data_set.sample)
        inputs = KinematicInputs.from_data(robot, kind, context, SmoothingConfig())
        blurred = context + inputs.smoothing(3) * torch.linspace(-1.0, 1.0, context.shape[1], dtype=torch.float64)
        off = sample + 0.1
        known = inputs.known_log_density(blurred, off, 3)
        assert known is not None
        seen.append((inputs(blurred, off, 3), known))
    assert torch.allclose(seen[0][0], seen[1][0], rtol=0, atol=1e-9)
    assert torch.allclose(seen[0][1], seen[1][1], rtol=1e-9)


def test_smoothing_anneals_to_its_floor() -> None:
    inputs, _, _ = inputs_and_pairs("panda", "pose", sigma_start=0.3, sigma_decay=0.9, sigma_floor=0.05)
    values = [inputs.sigma(i) for i in range(60)]
    assert values[0] == 0.3 * inputs.spread
    assert values[3] == pytest.approx(0.3 * 0.9**3 * inputs.spread, rel=1e-12)
    assert all(later <= earlier for earlier, later in zip(values, values[1:], strict=False))
    assert values[-1] == 0.05 * inputs.spread
    deviation = inputs.smoothing(3)
    assert torch.allclose(deviation[:3], torch.full((3,), values[3], dtype=torch.float64))
    assert torch.allclose(deviation[3:], torch.full((6,), values[3] / inputs.spread, dtype=torch.float64))


def test_inputs_show_the_error_in_units_of_the_smoothing() -> None:
    """The error columns are zero at the solution. Nearby, they grow as the smoothing shrinks."""
    inputs, context, _ = inputs_and_pairs("gantry", "position")
    solution = context - torch.tensor([0.0, 0.0, 0.2], dtype=torch.float64)
    errors = slice(6, 9)
    assert torch.allclose(inputs(context, solution, 0)[:, errors], torch.zeros(6, 3, dtype=torch.float64), atol=1e-12)
    off = solution + torch.tensor([0.05, 0.0, 0.0], dtype=torch.float64)
    for iteration in (0, 20):
        expected = 0.05 / inputs.sigma(iteration)
        assert torch.allclose(inputs(context, off, iteration)[:, 6], torch.full((6,), expected, dtype=torch.float64))


def test_inputs_stay_bounded_far_from_the_context() -> None:
    inputs, context, sample = inputs_and_pairs("gantry", "position")
    far = inputs(context + 100.0, sample, 1000)
    errors_and_square = far[:, 6:10]
    assert torch.isfinite(far).all()
    assert errors_and_square.abs().max() <= 20.0


def test_violated_limits_are_shown() -> None:
    inputs, context, _ = inputs_and_pairs("gantry", "position")
    sample = torch.zeros(6, 3, dtype=torch.float64)
    assert not inputs(context, sample, 0)[:, -3:].any()
    sample[:, 1] = -1.2
    shown = inputs(context, sample, 0)[:, -3:]
    assert (shown[:, 1] > 0.0).all()
    assert not shown[:, [0, 2]].any()


def test_context_that_never_changes_is_no_division_by_zero() -> None:
    inputs, context, sample = inputs_and_pairs("one_joint", "position")  # the height of the tip is constant
    assert torch.isfinite(inputs(context, sample, 0)).all()
    assert (inputs.scale > 0.0).all()


def test_single_precision_stays_single() -> None:
    inputs, context, sample = inputs_and_pairs("panda", "pose")
    single = KinematicInputs.from_data(arm_of("panda"), "pose", context.float(), inputs.config)
    assert single(context.float(), sample.float(), 0).dtype == torch.float32
    assert single.known_log_density(context.float(), sample.float(), 0).dtype == torch.float32


@pytest.mark.parametrize("setting", [{"sigma_floor": 0.0}, {"sigma_decay": 1.1}, {"limit_softness": -1.0}])
def test_settings_out_of_their_bounds_are_refused(setting: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(setting))):
        SmoothingConfig(**setting)
