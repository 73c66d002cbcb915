"""If the ways have nothing in common, the model describes all weights and shrinks their covariances."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from motion.conftest import FAST_EIM

from eim_ros.core.data_set import DataSet
from eim_ros.learning import EIMConfig, EMConfig
from eim_ros.learning.models import GaussianMixture, MixtureOfExperts
from eim_ros.motion import MotionConfig, MotionPrior, MotionTraining
from eim_ros.motion.shrinkage import Regressions, marginal, with_marginal

N_WAYS, N_POINTS, N_JOINTS = 6, 40, 2
SPREAD = 0.05  # standard deviation of coefficients within a way [rad]; between ways, it is 1 rad


def ways(n_each: int, seed: int) -> np.ndarray:
    """Return sums of sines near N_WAYS ways, (N_WAYS * n_each, N_POINTS, N_JOINTS) [rad]."""
    sines = np.sin(np.pi * np.outer(np.arange(1, 5), np.linspace(0.0, 1.0, N_POINTS)))
    centers = np.random.default_rng(0).standard_normal((N_WAYS, 1, 4, N_JOINTS))
    noise = SPREAD * np.random.default_rng(seed).standard_normal((N_WAYS, n_each, 4, N_JOINTS))
    motions = np.einsum("wnsj,sp->wnpj", centers + noise, sines)
    return np.asarray(motions).reshape(-1, N_POINTS, N_JOINTS)


def trained(learner: EMConfig | EIMConfig, n_latent: int = 0, n_each: int = 7) -> MotionPrior:
    about = {"task": "motion", "joint_names": ["shoulder", "elbow"], "n_points": N_POINTS}
    motions = ways(n_each, 1)
    data = DataSet(np.zeros((len(motions), 0)), motions.reshape(len(motions), -1), about)
    return MotionTraining(MotionConfig(n_latent=n_latent), learner).run(data).model


EM = EMConfig(n_components=N_WAYS)
EIM = EIMConfig.from_mapping({**FAST_EIM, "n_components": N_WAYS})


@pytest.mark.parametrize("learner", [EM, EIM], ids=["em", "eim"])
def test_ways_stay_apart_by_default(learner: EMConfig | EIMConfig) -> None:
    prior = trained(learner)
    drawn = prior.condition().sample(200, torch.Generator().manual_seed(0)).positions
    distance = np.sqrt(np.square(drawn[:, None] - ways(7, 1)).sum(-1)).mean(-1).min(1)
    assert distance.mean() < 3.0 * SPREAD  # motions of one way are about 2.5 SPREAD apart


@pytest.mark.parametrize("learner", [EM, EIM], ids=["em", "eim"])
def test_all_motions_are_fitted_and_calibrate(learner: EMConfig | EIMConfig) -> None:
    prior = trained(learner)
    assert prior.training["n_samples"] == prior.training["n_held_out"] == len(prior.calibration) == 7 * N_WAYS
    assert prior.latent.n_latent == prior.representation.n_weights


@pytest.mark.parametrize(("n_each", "loss"), [(7, 4.0), (50, 0.5)])
def test_default_is_as_likely_as_the_true_density(n_each: int, loss: float) -> None:
    """The motions have 8 coefficients of known spread. The other 12 weights only have noise at the floor."""
    new = ways(7, 2)
    prior = trained(EM, n_each=n_each)
    known = float(true_density(prior).log_prob(torch.from_numpy(prior.representation.weights(new))).mean())
    assert known - loss < prior.score(new).log_prob.mean() < known + 0.1  # 0.1: chance of 42 motions


def true_density(prior: MotionPrior) -> GaussianMixture:
    """Return the true density of the weights of motions, with the noise floor."""
    sines = np.sin(np.pi * np.outer(np.arange(1, 5), np.linspace(0.0, 1.0, N_POINTS)))
    basis = np.einsum("sp,jk->sjpk", sines, np.eye(N_JOINTS)).reshape(-1, N_POINTS, N_JOINTS)
    directions = torch.from_numpy(prior.representation.weights(basis))
    centers = torch.from_numpy(np.random.default_rng(0).standard_normal((N_WAYS, 8)))
    identity = torch.eye(directions.shape[1], dtype=torch.float64)
    factor = torch.linalg.cholesky(SPREAD**2 * directions.mT @ directions + 1e-6 * identity)
    log_weights = torch.full((N_WAYS,), -math.log(N_WAYS), dtype=torch.float64)
    return GaussianMixture(log_weights, centers @ directions, factor.expand(N_WAYS, -1, -1))


def separate(variances: list[float]) -> tuple[MixtureOfExperts, torch.Tensor]:
    """Return a model with two distant experts in one coordinate, and four motions of each expert in two coordinates."""
    means = torch.tensor([[-50.0], [50.0]], dtype=torch.float64)
    factors = torch.ones(2, 1, 1, dtype=torch.float64)
    model = MixtureOfExperts.from_mixture(
        GaussianMixture(torch.full((2,), 0.5, dtype=torch.float64).log(), means, factors)
    )
    unit = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]], dtype=torch.float64)
    parts = [
        variance**0.5 * unit + torch.tensor([mean, 7.0])
        for variance, mean in zip(variances, (-50.0, 50.0), strict=True)
    ]
    return model, torch.cat(parts)


def test_covariances_move_towards_their_mean() -> None:
    model, coordinates = separate([1.0, 3.0])
    scales = torch.tensor([1.0, 2.0], dtype=torch.float64)  # scale of each coordinate [rad]
    regressions = Regressions.from_model(model, coordinates[:, :0], coordinates, scales)
    full = regressions.shrunk(to_mean=2.0, to_identity=3.0, noise_floor=0.1)
    mean = np.diag([4.0 * 1.0 + 4.0 * 3.0, 4.0 * (4.0 * 1.0 + 4.0 * 3.0)]) / (3 + 3)
    isotropy = 3.0 / (3.0 + 6.0)  # 3.0: to_identity times half the number of weights
    prior = (1.0 - isotropy) * mean + isotropy * np.trace(mean) / 2.0 * np.eye(2)
    for k, variance in enumerate((1.0, 3.0)):
        scatter = 4.0 * variance * np.diag([1.0, 4.0])
        expected = (1.0 + 1.0 / 4.0) * (scatter + 2.0 * prior) / (3.0 + 2.0) + 0.01 * np.eye(2)
        factor = (scales[:, None] * full.experts.scale_trils[k]).numpy()
        np.testing.assert_allclose(factor @ factor.T, expected, rtol=1e-9)
    torch.testing.assert_close(full.experts.biases[:, 1], torch.full((2,), 7.0, dtype=torch.float64))


def test_marginal_is_replaced_and_the_rest_follows() -> None:
    model, coordinates = separate([1.0, 3.0])
    coordinates[:, 1] += 0.5 * coordinates[:, 0]
    regressions = Regressions.from_model(model, coordinates[:, :0], coordinates, torch.ones(2, dtype=torch.float64))
    full = regressions.shrunk(1.0, 1.0, noise_floor=0.1)
    same = with_marginal(full, marginal(full, 1))
    for name, value in full.experts.tensors().items():
        torch.testing.assert_close(same.experts.tensors()[name], value)
    first = marginal(full, 1)
    moved = replace(first, experts=replace(first.experts, biases=first.experts.biases + 2.0))
    context = coordinates[:, :0]
    there = with_marginal(full, moved).log_prob(context, coordinates + full_step(full, 2.0, coordinates))
    torch.testing.assert_close(there, full.log_prob(context, coordinates))


def full_step(full: MixtureOfExperts, step: float, coordinates: torch.Tensor) -> torch.Tensor:
    """Return the displacement of each expert's motions if the mean of their first coordinate moves by a step."""
    factors = full.experts.scale_trils
    gain = factors[:, 1, 0] / factors[:, 0, 0]
    expert = (coordinates[:, 0] > 0.0).long()
    return torch.stack([torch.full_like(gain[expert], step), step * gain[expert]], 1)
