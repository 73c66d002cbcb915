"""Ways that have nothing in common, from a few demonstrations each."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from motion.conftest import FAST_EIM

from eim_ros.core.data_set import DataSet
from eim_ros.learning import EIMConfig, EMConfig
from eim_ros.learning.models import GaussianMixture, LinearExperts, MixtureOfExperts
from eim_ros.motion import MotionConfig, MotionPrior, MotionTraining
from eim_ros.motion.training import with_shrunk_covariances

N_WAYS, N_POINTS, N_JOINTS = 6, 40, 2
SPREAD = 0.05  # [rad] standard deviation of each coefficient of a motion; those of the ways have 1 rad


def ways(n_each: int, seed: int) -> np.ndarray:
    """Return sums of sines with coefficients near those of a way, (N_WAYS * n_each, N_POINTS, N_JOINTS) [rad]."""
    sines = np.sin(np.pi * np.outer(np.arange(1, 5), np.linspace(0.0, 1.0, N_POINTS)))
    centers = np.random.default_rng(0).standard_normal((N_WAYS, 1, 4, N_JOINTS))
    noise = SPREAD * np.random.default_rng(seed).standard_normal((N_WAYS, n_each, 4, N_JOINTS))
    motions = np.einsum("wnsj,sp->wnpj", centers + noise, sines)
    return np.asarray(motions).reshape(-1, N_POINTS, N_JOINTS)


def trained(learner: EMConfig | EIMConfig, n_latent: int = 0) -> MotionPrior:
    about = {"task": "motion", "joint_names": ["shoulder", "elbow"], "n_points": N_POINTS}
    motions = ways(7, 1)
    data = DataSet(np.zeros((len(motions), 0)), motions.reshape(len(motions), -1), about)
    return MotionTraining(MotionConfig(n_latent=n_latent), learner).run(data).model


EM = EMConfig(n_components=N_WAYS)
EIM = EIMConfig.from_mapping({**FAST_EIM, "n_components": N_WAYS})


@pytest.mark.parametrize("learner", [EM, EIM], ids=["em", "eim"])
def test_ways_stay_apart_by_default(learner: EMConfig | EIMConfig) -> None:
    prior = trained(learner)
    drawn = prior.condition().sample(200, torch.Generator().manual_seed(0)).positions
    distance = np.sqrt(np.square(drawn[:, None] - ways(7, 1)).sum(-1)).mean(-1).min(1)
    assert distance.mean() < 3.0 * SPREAD  # another motion of the way is about 2.5 SPREAD away


def test_default_is_more_likely_than_one_coordinate() -> None:
    prior = trained(EM)
    assert 1 < prior.latent.n_latent <= N_WAYS
    log_prob = prior.score(ways(7, 2)).log_prob.mean()
    assert log_prob > trained(EM, n_latent=1).score(ways(7, 2)).log_prob.mean()


def test_covariances_move_towards_their_mean() -> None:
    variances = torch.tensor([1.0, 3.0], dtype=torch.float64)
    factors = variances.sqrt()[:, None, None] * torch.eye(2, dtype=torch.float64)
    means = torch.tensor([[-50.0, 0.0], [50.0, 0.0]], dtype=torch.float64)
    model = MixtureOfExperts.from_mixture(
        GaussianMixture(torch.full((2,), 0.5, dtype=torch.float64).log(), means, factors)
    )
    coordinates = means.repeat_interleave(4, 0)  # 4 motions of each expert, 3 degrees of freedom each
    shrunk = with_shrunk_covariances(model, coordinates[:, :0], coordinates).experts
    assert isinstance(shrunk, LinearExperts)
    mean = (4.0 * 1.0 + 4.0 * 3.0) / (3.0 + 3.0)
    expected = [math.sqrt((4.0 * own + 2.0 * mean) / 6.0) for own in (1.0, 3.0)]
    torch.testing.assert_close(shrunk.scale_trils[:, 0, 0].tolist(), expected)
