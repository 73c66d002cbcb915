"""Figures of a model agree with closed forms. Unsuitable data are rejected."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from ik.arms import arm_of, broad_model, constant_mixture

from eim_ros.core.errors import DataError
from eim_ros.ik import IKModel, collect, evaluate
from eim_ros.learning.models import MixtureOfExperts

SIGMA = 0.01  # [m]
N = 4000
OF_EVERY_MODEL = {
    "rmse_position",
    "median_position",
    "share_in_limits",
    "entropy_marginal",
    "entropy_conditional",
    "mean_log_prob",
}
QUANTILES = {f"quantile_{q}_position" for q in ("05", "25", "75", "95")}


def gantry_model(gating_weight: float = 0.0, sigma: float = SIGMA) -> IKModel:
    """Return two equal experts for a gantry: its inverse, which is linear, with noise. The gating depends on x."""
    tensors = constant_mixture(np.tile([0.0, 0.0, -0.2], (2, 1)), np.full(3, sigma), 3).tensors()
    tensors["experts.weights"] = torch.eye(3, dtype=torch.float64).repeat(2, 1, 1)
    tensors["gating.weights"] = torch.tensor([[gating_weight, 0.0, 0.0], [-gating_weight, 0.0, 0.0]]).double()
    return IKModel(MixtureOfExperts.from_tensors(tensors), arm_of("gantry"), "position")


def test_errors_are_those_of_the_known_noise() -> None:
    """|noise| has a Maxwell distribution (rms sqrt(3) sigma, median 1.5382 sigma). Tolerances: five standard errors."""
    figures = evaluate(gantry_model(), collect(arm_of("gantry"), N, "position", 0), seed=0)
    assert figures["rmse_position"] == pytest.approx(math.sqrt(3.0) * SIGMA, rel=5.0 / math.sqrt(6.0 * N))
    assert figures["median_position"] == pytest.approx(1.53817 * SIGMA, rel=0.05)
    for name, maxwell in {"05": 0.59320, "25": 1.10106, "75": 2.02690, "95": 2.79548}.items():
        assert figures[f"quantile_{name}_position"] == pytest.approx(maxwell * SIGMA, rel=0.06), name


def test_share_in_limits_counts_what_the_noise_pushes_out() -> None:
    """In a range of 2 m, noise moves a uniform value out of one side with probability sigma/sqrt(2 pi)/2."""
    sigma = 0.05
    figures = evaluate(gantry_model(sigma=sigma), collect(arm_of("gantry"), N, "position", 0), seed=0)
    inside = (1.0 - sigma / math.sqrt(2.0 * math.pi)) ** 3
    assert figures["share_in_limits"] == pytest.approx(inside, abs=5.0 * math.sqrt(inside * (1.0 - inside) / N))


def test_mean_log_prob_is_exact() -> None:
    """Each test configuration is the mean of both experts."""
    figures = evaluate(gantry_model(), collect(arm_of("gantry"), 100, "position", 0))
    assert figures["mean_log_prob"] == pytest.approx(-3.0 * math.log(SIGMA) - 1.5 * math.log(2.0 * math.pi), abs=1e-9)


@pytest.mark.parametrize(("gating_weight", "conditional"), [(0.0, 1.0), (1e4, 0.0)])
def test_entropies_of_gates_that_know_nothing_or_all(gating_weight: float, conditional: float) -> None:
    """Both entropies are 1 if the gating ignores contexts. H(z|y) is 0 if the gating splits the contexts in half."""
    figures = evaluate(gantry_model(gating_weight), collect(arm_of("gantry"), N, "position", 0))
    assert figures["entropy_marginal"] == pytest.approx(1.0, abs=2e-3)
    assert figures["entropy_conditional"] == pytest.approx(conditional, abs=2e-3)


def test_orientation_of_a_pose_model() -> None:
    """The model always returns 0.3 rad for the hinge, so the error is the difference between 0.3 rad and the target."""
    robot = arm_of("one_joint")
    model = IKModel(constant_mixture(np.array([[0.3]]), np.array([1e-9]), 9), robot, "pose")
    data_set = collect(robot, 501, "pose", 0)
    figures = evaluate(model, data_set)
    assert figures["median_orientation"] == pytest.approx(np.median(np.abs(data_set.sample - 0.3)), abs=1e-6)
    assert set(figures) == OF_EVERY_MODEL | QUANTILES | {"median_orientation"}
    chord = 2.0 * 0.5 * np.sin(0.5 * np.abs(data_set.sample - 0.3))
    assert figures["rmse_position"] == pytest.approx(np.sqrt(np.mean(chord**2)), abs=1e-6)


def test_figures_are_finite_numbers_under_fixed_names() -> None:
    figures = evaluate(gantry_model(), collect(arm_of("gantry"), 1, "position", 0))
    assert set(figures) == OF_EVERY_MODEL | QUANTILES
    assert all(type(value) is float and math.isfinite(value) for value in figures.values())


def test_seed_decides_the_samples() -> None:
    model, data_set = gantry_model(), collect(arm_of("gantry"), 50, "position", 0)
    assert evaluate(model, data_set, 1) == evaluate(model, data_set, 1)
    assert evaluate(model, data_set, 1)["rmse_position"] != evaluate(model, data_set, 2)["rmse_position"]


def test_data_of_another_robot_are_refused() -> None:
    with pytest.raises(DataError, match="robot 'planar3' .* which differs from robot 'gantry'"):
        evaluate(gantry_model(), collect(arm_of("planar3"), 5, "position", 0))


def test_data_of_another_kind_of_context_are_refused_with_the_cure() -> None:
    with pytest.raises(DataError, match="the model needs 'position'; collect data with --context position"):
        evaluate(gantry_model(), collect(arm_of("gantry"), 5, "pose", 0))


def test_no_data_are_refused() -> None:
    data_set = collect(arm_of("planar3"), 5, "position", 0)
    empty = dataclasses.replace(data_set, context=data_set.context[:0], sample=data_set.sample[:0])
    with pytest.raises(DataError, match="empty"):
        evaluate(broad_model(arm_of("planar3"), "position"), empty)
