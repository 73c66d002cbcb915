"""Each baseline approaches a target that it can represent. Its result depends only on the seed."""

import pytest
import torch
from learning.models.random_models import generator_of

from eim_ros.learning.models import GaussianMixture
from experiments.baselines import (
    DIVERGENCES,
    AdversarialConfig,
    GumbelSoftmax,
    MixtureDensityConfig,
    MutualInformation,
    b_gan,
    f_gan,
    fit_adversarially,
    fit_by_eim,
    fit_by_em,
    fit_by_variational_bayes,
    fit_mixture_density,
    gan,
    wgan,
    wgan_gp,
)


def mixture(weights, means, deviation) -> GaussianMixture:
    factors = deviation * torch.eye(len(means[0])).expand(len(means), -1, -1)
    return GaussianMixture(torch.tensor(weights).log(), torch.tensor(means), factors).to(dtype=torch.float64)


TARGET = mixture([0.5, 0.5], [[-1.0, 0.0], [1.0, 0.5]], 0.3)
START = mixture([0.7, 0.3], [[-0.6, 0.4], [0.4, 0.0]], 0.5)
DATA = TARGET.sample(2000, generator_of(0))
GAMES = {
    "GAN": gan(),
    **{f"f-GAN, {name}": f_gan(divergence) for name, divergence in DIVERGENCES.items()},
    "b-GAN, m": b_gan(DIVERGENCES["m-projection"], DIVERGENCES["i-projection"]),
}


def kl(model: GaussianMixture) -> float:
    sample = model.sample(5000, generator_of(1))
    return float((model.log_prob(sample) - TARGET.log_prob(sample)).mean())


@pytest.mark.parametrize("name", GAMES)
def test_adversarial_training_comes_closer_to_the_target(name):
    config = AdversarialConfig(n_steps=150, batch_size=200, learning_rate=3e-3, generator_rate=1e-2, dropout=0.0)
    fit = fit_adversarially(config, GAMES[name], GumbelSoftmax(0.5), DATA, START, generator_of(2))
    assert fit.n_steps == 150
    assert kl(fit.mixture) < 0.7 * kl(START)


@pytest.mark.parametrize("game", [wgan(0.05, 3), wgan_gp(10.0, 3)], ids=["WGAN", "WGAN-GP"])
def test_wasserstein_distance_brings_a_gaussian_to_its_target(game):
    """A critic first detects a difference of means, because this difference determines the Wasserstein distance."""
    far = mixture([1.0], [[3.0, -2.0]], 0.5)
    config = AdversarialConfig(n_steps=200, batch_size=100, learning_rate=3e-3, generator_rate=4e-2, dropout=0.0)
    fit = fit_adversarially(config, game, MutualInformation(0.0, 1), DATA, far, generator_of(2))
    assert float((fit.mixture.mean - DATA.mean(0)).norm()) < 0.25 * float((far.mean - DATA.mean(0)).norm())


def test_adversarial_training_that_diverges_returns_its_last_finite_mixture():
    config = AdversarialConfig(n_steps=50, batch_size=50, generator_rate=1e6)
    fit = fit_adversarially(config, gan(), GumbelSoftmax(0.5), DATA, START, generator_of(3))
    assert fit.n_steps < 50
    assert all(bool(torch.isfinite(value).all()) for value in fit.mixture.tensors().values())


def test_mixture_density_without_contexts_follows_the_likelihood():
    config = MixtureDensityConfig(n_steps=300, batch_size=200, learning_rate=1e-2)
    model = fit_mixture_density(config, DATA[:, :0], DATA, START, generator_of(5)).without_context()
    assert kl(model) < 0.1 * kl(START)


def test_mixture_density_network_follows_its_context():
    context = 2.0 * torch.rand(2000, 1, generator=generator_of(6), dtype=torch.float64) - 1.0
    sample = context.sign() * 0.8 + 0.1 * torch.randn(2000, 1, generator=generator_of(7), dtype=torch.float64)
    start = mixture([0.5, 0.5], [[-0.1], [0.1]], 1.0)
    config = MixtureDensityConfig(n_steps=300, batch_size=200, learning_rate=1e-2)
    model = fit_mixture_density(config, context, sample, start, generator_of(8))
    mean = model(torch.tensor([[-0.7], [0.7]])).mean.detach()
    torch.testing.assert_close(mean, torch.tensor([[-0.8], [0.8]]), atol=0.15, rtol=0.0)


def test_eim_with_the_known_ratio_reaches_the_target():
    settings = {"n_components": 2, "n_iterations": 40, "m_step.kl_bound": 0.2, "ratio.hidden_layers": (3,)}
    model = fit_by_eim(settings, "EIM", "known", DATA, START, TARGET, generator_of(9))
    assert kl(model) < 1e-3


@pytest.mark.parametrize("fit", [fit_by_em, fit_by_variational_bayes])
def test_scikit_learn_reaches_the_target(fit):
    pytest.importorskip("sklearn")
    assert kl(fit(DATA, 2, 0)) < 0.02
