"""Samples climb to the maxima of the target, and additions use them to find modes."""

import math

import pytest
import torch
from learning.models.random_models import generator_of
from scipy.optimize import minimize

from eim_ros.learning.gmmvi import GMMVI, GMMVIConfig, random_start
from eim_ros.learning.gmmvi.climbing import N_ROUNDS, climbed, log_masses, maxima, most_evaluations
from eim_ros.learning.models import GaussianMixture
from eim_ros.learning.run import History
from eim_ros.learning.target import target_density

DTYPE = torch.float64


def climb(log_prob, sample):
    target = target_density(log_prob, conditional=False)
    return climbed(target, sample[:, :0], sample)


def test_climbed_samples_reach_the_maximum_of_an_ill_conditioned_normal_density():
    scale = torch.logspace(-0.5, 0.5, 6, dtype=DTYPE)
    sample = 5.0 * torch.randn(20, 6, generator=generator_of(0), dtype=DTYPE)
    top, value, n_evaluations = climb(lambda x: -0.5 * (x / scale).square().sum(-1), sample)
    assert float((top / scale).abs().max()) < 0.1  # standard deviations
    assert float(value.min()) > -0.01
    assert 20 < n_evaluations <= 20 * N_ROUNDS


def test_climbed_samples_come_as_high_as_those_of_scipy():
    def rosenbrock(x):
        return -(100.0 * (x[:, 1] - x[:, 0].square()).square() + (1.0 - x[:, 0]).square())

    sample = torch.tensor([[-1.2, 1.0], [0.0, 3.0], [2.0, -1.0]], dtype=DTYPE)
    value = climb(rosenbrock, sample)[1]
    for row, reached in zip(sample, value.tolist(), strict=True):
        other = minimize(
            lambda x: -float(rosenbrock(torch.tensor(x, dtype=DTYPE)[None])),
            row.numpy(),
            method="L-BFGS-B",
            options={"maxiter": N_ROUNDS},
        )
        assert reached > -other.fun - 0.05  # [nat], for values up to 900


def test_climbed_samples_stay_in_the_support():
    def log_prob(x):
        return torch.where(x[:, 0] < 1.0, 3.0 * x[:, 0] - x[:, 1].square(), -torch.inf)

    # the last sample begins outside the support
    sample = torch.tensor([[0.0, 1.0], [-3.0, 2.0], [2.0, 0.0]], dtype=DTYPE)
    top, value, _ = climb(log_prob, sample)
    assert bool((top[:2, 0] < 1.0).all())
    assert bool((value[:2] > log_prob(sample[:2])).all())
    assert torch.equal(top[2], sample[2])
    assert float(value[2]) == -math.inf


def test_climbed_samples_of_an_unbounded_density_stay_finite():
    sample = torch.ones(2, 1, dtype=DTYPE)
    top, value, n_evaluations = climb(lambda x: 1e3 * x.sum(-1), sample)
    assert bool(torch.isfinite(top).all() and torch.isfinite(value).all())
    assert n_evaluations == 2 * N_ROUNDS


def test_log_mass_of_a_normal_density_is_that_of_its_integral():
    generator = generator_of(3)
    means = 5.0 * torch.randn(4, 5, generator=generator, dtype=DTYPE)
    scales = torch.logspace(-6, 2, 4, dtype=DTYPE)  # from narrow to wide components
    for mean, scale in zip(means, scales, strict=True):
        factor = scale * (torch.randn(5, 5, generator=generator, dtype=DTYPE).tril(-1) + torch.eye(5, dtype=DTYPE))
        normal = torch.distributions.MultivariateNormal(mean, scale_tril=factor)
        target = target_density(lambda x, normal=normal: normal.log_prob(x) + 3.0, conditional=False)
        places = torch.stack([mean, mean + 10.0 * factor[:, 0]])  # the maximum and a point ten deviations away
        log_mass, n_evaluations = log_masses(target, places[:, :0], places)
        assert float(log_mass[0]) == pytest.approx(3.0, abs=1e-3)
        assert float(log_mass[1]) == -math.inf
        assert 2 * 6 <= n_evaluations <= 2 * 11


def test_maxima_are_distinct_and_have_mass():
    """Two modes are found at their maxima. A third mode has the highest density, but a mass of only 1e-8."""
    means = torch.tensor([[-8.0, 0.0], [8.0, 0.0], [0.0, 8.0]], dtype=DTYPE)
    scales = torch.tensor([1.0, 1.0, 1e-5], dtype=DTYPE)
    log_weights = torch.tensor([0.5, 0.5, 1e-8], dtype=DTYPE).log()
    modes = GaussianMixture(log_weights, means, scales[:, None, None] * torch.eye(2, dtype=DTYPE))
    target = target_density(modes, conditional=False)
    sample = means.repeat(10, 1) + torch.tensor([1.0, 1.0, 1e-5], dtype=DTYPE).repeat(10)[:, None] * torch.randn(
        30, 2, generator=generator_of(4), dtype=DTYPE
    )
    found, n_evaluations = maxima(target, sample[:, :0], sample, least_mass=-10.0)
    assert torch.allclose(found.sample.sort(0).values, means[:2], atol=0.01)
    assert n_evaluations <= 30 * most_evaluations(2)
    outside, n_evaluations = maxima(
        target_density(lambda x: x[:, 0] + torch.nan, conditional=False), sample[:, :0], sample, least_mass=-10.0
    )
    assert (len(outside), n_evaluations) == (0, 30)
    every, _ = maxima(target, sample[:, :0], sample, least_mass=-30.0)
    assert len(every) == 3
    assert float(every.log_target.max()) > float(found.log_target.max()) + 4.0


def far_modes() -> GaussianMixture:
    """Return six random modes in ten dimensions."""
    generator = generator_of(1)
    factors = torch.randn(6, 10, 10, generator=generator, dtype=DTYPE)
    covariances = factors @ factors.mT + torch.eye(10, dtype=DTYPE)
    means = 60.0 * torch.rand(6, 10, generator=generator, dtype=DTYPE) - 30.0
    return GaussianMixture(torch.zeros(6, dtype=DTYPE), means, torch.linalg.cholesky(covariances))


@pytest.mark.parametrize("n_climbing", [20, 0])
def test_six_additions_find_all_far_modes_only_if_candidates_climb(n_climbing):
    settings = {"adaptation.n_climbing": n_climbing, "adaptation.add_every": 10, "adaptation.delete_after": 30}
    settings["adaptation.n_refined"] = 0  # splits alone would find all modes
    config = GMMVIConfig(n_iterations=70, n_samples=60).replace(**settings)
    result = GMMVI(far_modes(), config, seed=0).fit(start=random_start(10, 1, scale=20.0))
    distance = torch.cdist(far_modes().means, result.model.means[result.model.log_weights.exp() > 0.01])
    n_found = int((distance.amin(-1) < 6.0).sum())
    assert n_found == 6 if n_climbing > 0 else n_found < 6
    assert result.state.evaluations == sum(result.history.column("evaluations"))


def test_climbing_keeps_the_maximum_of_evaluations():
    config = GMMVIConfig(max_evaluations=5000, n_samples=20).replace(**{"adaptation.add_every": 3})
    result = GMMVI(far_modes(), config, n_components=2, seed=0).fit()
    assert 4000 < result.state.evaluations <= 5000


def test_plateau_ends_a_run_only_after_early_additions():
    flat = History(tuple({"elbo": 0.0, "elbo_standard_error": 1.0, "n_components": 2.0} for _ in range(299)))
    fixed = {"adaptation.add_every": 0}
    for config, ends in (
        (GMMVIConfig(plateau_window=5), False),
        (GMMVIConfig(plateau_window=5).replace(**fixed), True),
    ):
        algorithm = GMMVI(far_modes(), config).prepare(None, random_start(10, 2), generator_of(0)).algorithm
        assert algorithm.finished(flat) == ends
        assert algorithm.finished(flat.with_record(flat.records[-1]))  # 300 iterations contain 15 additions


@pytest.mark.parametrize("n_prior", [0, 5])
def test_components_are_added_to_a_distribution_of_torch(n_prior):
    """Distributions of torch refuse to evaluate an empty batch of samples."""
    modes = torch.distributions.MultivariateNormal(
        torch.tensor([[3.0, 0.0], [-3.0, 0.0]], dtype=DTYPE), torch.eye(2, dtype=DTYPE)
    )
    target = torch.distributions.MixtureSameFamily(torch.distributions.Categorical(torch.ones(2, dtype=DTYPE)), modes)
    result = GMMVI(target, n_components=1, n_iterations=45, seed=0, **{"adaptation.n_prior_candidates": n_prior}).fit()
    assert sum(result.history.column("added")) == 2
    assert float(torch.cdist(modes.mean, result.model.means).amin(-1).max()) < 1.0
