"""EM for exponential families agrees with textbook values, fits custom families, and recovers known mixtures."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from learning.models.random_models import generator_of
from scipy import stats

from eim_ros.core.errors import DataError, DistributionError
from eim_ros.learning import ExponentialEM, ExponentialEMConfig
from eim_ros.learning.discrete.families import CategoricalFamily, ExponentialMixture, PoissonFamily
from eim_ros.learning.run import Status


@dataclass(frozen=True)
class NormalFamily:
    """Custom family of univariate normal densities with the sufficient statistics T = (x, x^2)."""

    def statistics(self, sample):
        return torch.cat([sample, sample.square()], -1)

    def log_base(self, sample):
        return torch.full_like(sample[:, 0], -0.5 * math.log(2.0 * math.pi))

    def natural(self, mean):
        variance = mean[..., 1] - mean[..., 0].square()
        return torch.stack([mean[..., 0] / variance, -0.5 / variance], -1)

    def log_normaliser(self, natural):
        return -0.25 * natural[..., 0].square() / natural[..., 1] - 0.5 * (-2.0 * natural[..., 1]).log()

    def sample(self, natural, generator=None):
        deviation = (-2.0 * natural[:, 1:]).rsqrt()
        noise = torch.randn(deviation.shape, generator=generator, dtype=deviation.dtype)
        return natural[:, :1] * deviation.square() + deviation * noise


def mixture_of(family, weights, means) -> ExponentialMixture:
    weights, means = (torch.tensor(values, dtype=torch.float64) for values in (weights, means))
    return ExponentialMixture.from_means(family, weights.log(), means)


def means_of(mixture) -> torch.Tensor:
    """Return the mean parameters A'(eta) of each component."""
    natural = mixture.natural.clone().requires_grad_(True)
    mixture.family.log_normaliser(natural).sum().backward()
    return natural.grad


POISSON = mixture_of(PoissonFamily(), [0.3, 0.7], [[1.0, 8.0], [6.0, 2.0]])
CATEGORICAL = mixture_of(
    CategoricalFamily((2, 3, 2)),
    [0.4, 0.6],
    [[0.9, 0.1, 0.7, 0.2, 0.1, 0.8, 0.2], [0.2, 0.8, 0.1, 0.2, 0.7, 0.1, 0.9]],
)
NORMAL = mixture_of(NormalFamily(), [0.5, 0.5], [[-1.0, 2.0], [3.0, 9.5]])
MIXTURES = pytest.mark.parametrize(
    "mixture", [POISSON, CATEGORICAL, NORMAL], ids=["Poisson", "categorical", "one's own"]
)


def test_em_of_the_normal_family_takes_the_steps_of_the_textbook():
    sample = torch.tensor([[-2.0], [-1.0], [1.0], [2.0], [3.0]]).double()
    start = mixture_of(NormalFamily(), [0.5, 0.5], [[-1.0, 2.0], [1.0, 2.0]])
    learner = ExponentialEM(NormalFamily(), ExponentialEMConfig(n_iterations=1, prior_count=0.0))
    result = learner.fit(sample, start)
    model = result.state.model
    assert result.history.column("free_energy")[0] * 5 == pytest.approx(-10.767797006, abs=1e-8)
    np.testing.assert_allclose(model.log_weights.exp(), [0.40049452, 0.59950548], atol=1e-8)
    means = means_of(model)
    np.testing.assert_allclose(means[:, 0], [-1.33945973, 1.89563955], atol=1e-8)
    np.testing.assert_allclose(means[:, 1] - means[:, 0].square(), [0.71387372, 1.06964285], atol=1e-8)
    hard = ExponentialEM(
        NormalFamily(), ExponentialEMConfig(n_iterations=3, prior_count=0.0, n_states=1, tolerance=0.0)
    )
    values = np.array(hard.fit(sample, start).history.column("free_energy")) * 5
    np.testing.assert_allclose(values[:2], [-11.060428569, -8.465258978], atol=1e-8)


def test_densities_are_those_of_scipy():
    counts = torch.tensor([[0.0, 3.0], [12.0, 1.0]]).double()
    for component in (0, 1):
        expected = stats.poisson(means_of(POISSON)[component].numpy()).logpmf(counts.numpy()).sum(-1)
        found = POISSON.log_joint(counts)[:, component] - POISSON.log_weights[component]
        np.testing.assert_allclose(found, expected, atol=1e-12)
    levels = torch.cartesian_prod(torch.arange(2.0), torch.arange(3.0), torch.arange(2.0)).double()
    assert float(CATEGORICAL.log_prob(levels).exp().sum()) == pytest.approx(1.0, abs=1e-12)
    expected = 0.4 * 0.1 * 0.1 * 0.2 + 0.6 * 0.8 * 0.7 * 0.9
    assert float(CATEGORICAL.log_prob(levels)[-1].exp()) == pytest.approx(expected, abs=1e-12)


@MIXTURES
def test_samples_have_the_mean_statistics_of_the_model(mixture):
    sample, component = mixture.sample_with_components(20000, generator_of(0))
    for index in range(2):
        statistics = mixture.family.statistics(sample[component == index])
        error = 5.0 * statistics.std(0) / len(statistics) ** 0.5 + 1e-12
        assert bool(((statistics.mean(0) - means_of(mixture)[index]).abs() < error).all())


@MIXTURES
@pytest.mark.parametrize(("prior_count", "n_states"), [(0.0, None), (0.5, None), (0.5, 1), (0.5, 2)])
def test_objective_never_falls(mixture, prior_count, n_states):
    sample = mixture.sample(300, generator_of(1))
    settings = {"n_components": 3, "n_iterations": 30, "tolerance": 0.0, "prior_count": prior_count}
    result = ExponentialEM(mixture.family, ExponentialEMConfig(n_states=n_states, **settings)).fit(sample)
    values = np.array(result.history.column("objective"))
    assert len(values) > 1
    assert np.diff(values).min() > -1e-12
    assert values[-1] > values[0] + 1e-3


@MIXTURES
def test_known_mixture_is_recovered(mixture):
    sample = mixture.sample(5000, generator_of(2))
    result = ExponentialEM(mixture.family, ExponentialEMConfig(n_components=2, tolerance=1e-8, n_iterations=1000)).fit(
        sample
    )
    assert result.status is Status.CONVERGED
    found = result.state.model
    # the data are at least as likely under the fit as under the true model
    assert float(found.log_prob(sample).mean()) > float(mixture.log_prob(sample).mean()) - 1e-5
    order, expected = means_of(found)[:, 0].argsort(), means_of(mixture)[:, 0].argsort()
    torch.testing.assert_close(means_of(found)[order], means_of(mixture)[expected], rtol=0.05, atol=0.1)
    torch.testing.assert_close(found.log_weights[order].exp(), mixture.log_weights[expected].exp(), rtol=0.0, atol=0.05)


def test_truncation_bounds_the_likelihood_from_below():
    sample = POISSON.sample(200, generator_of(3))
    start = ExponentialEM(PoissonFamily(), ExponentialEMConfig(n_components=6, n_iterations=0)).fit(sample).state.model
    values = [
        ExponentialEM(PoissonFamily(), ExponentialEMConfig(n_iterations=1, n_states=n)).fit(sample, start)
        for n in range(1, 7)
    ]
    free = [result.history.column("free_energy")[0] for result in values]
    assert np.diff(free).min() >= 0.0
    assert free[0] < free[-1]
    assert free[-1] == pytest.approx(float(start.log_prob(sample).mean()), abs=1e-12)


def test_prior_is_the_average_of_the_data():
    """If the prior outweighs the data, the means of all components equal the average of the data."""
    sample = POISSON.sample(200, generator_of(4))
    config = ExponentialEMConfig(n_components=3, prior_count=1e9, n_iterations=3)
    model = ExponentialEM(PoissonFamily(), config).fit(sample).state.model
    torch.testing.assert_close(means_of(model), sample.mean(0).expand(3, -1), rtol=1e-6, atol=0.0)
    torch.testing.assert_close(model.log_weights.exp(), torch.full((3,), 1.0 / 3.0).double(), rtol=1e-6, atol=0.0)


def test_count_that_a_cluster_has_never_seen_stays_possible():
    sample = torch.tensor([[0.0, 5.0]] * 10 + [[5.0, 0.0]] * 10).double()
    model = ExponentialEM(PoissonFamily(), ExponentialEMConfig(n_components=2)).fit(sample).state.model
    assert bool(torch.isfinite(model.log_prob(torch.tensor([[5.0, 5.0]]).double())).all())
    likeliest = ExponentialEM(PoissonFamily(), ExponentialEMConfig(n_components=2, prior_count=0.0)).fit(sample)
    assert likeliest.status is Status.NON_FINITE
    assert all(bool(torch.isfinite(value).all()) for value in likeliest.state.model.tensors().values())


@pytest.mark.parametrize(
    ("family", "sample", "words"),
    [
        (PoissonFamily(), [[1.0], [-1.0]], "counts must be 0, 1, 2, ..., but row 1"),
        (PoissonFamily(), [[0.5], [1.0]], "counts must be 0, 1, 2, ..., but row 0"),
        (PoissonFamily(), [[0.0, 1.0], [0.0, 2.0]], "statistic 0 of the data is at the edge"),
        (PoissonFamily(), [[1.0]], "2 components need at least 2 samples, got 1"),
        (CategoricalFamily((2,)), [[0.0], [2.0]], r"from 0 to below \(2,\), but row 1"),
        (CategoricalFamily((2,)), [[0.0, 1.0], [1.0, 0.0]], "must have 1 columns, one for each variable, got 2"),
        (CategoricalFamily((3,)), [[0.0], [1.0]], "statistic 2 of the data is at the edge"),
    ],
)
def test_data_outside_the_family_are_refused(family, sample, words):
    with pytest.raises(DataError, match=words):
        ExponentialEM(family, ExponentialEMConfig(n_components=2)).fit(torch.tensor(sample).double())


def test_pairs_are_refused():
    sample = POISSON.sample(10, generator_of(8))
    with pytest.raises(DataError, match="samples alone"):
        ExponentialEM(PoissonFamily()).fit((sample, sample))


@pytest.mark.parametrize(
    ("family", "sample", "start", "words"),
    [
        (PoissonFamily(), [[1.0]], POISSON, "the start must have 1 statistics, like the data, got 2"),
        (PoissonFamily(), [[1.0, 1.0]], torch.zeros(1, 2), "the start must be of type ExponentialMixture, got"),
        (
            PoissonFamily(),
            [[1.0, 1.0]],
            mixture_of(CategoricalFamily((2,)), [1.0], [[0.5, 0.5]]),
            "the family of the start is CategoricalFamily",
        ),
        (
            PoissonFamily(),
            [[1.0, 1.0]],
            ExponentialMixture(PoissonFamily(), torch.zeros(1), torch.full((1, 2), math.nan)),
            "are NaN",
        ),
        (PoissonFamily(), [[3.0, 1.0]], mixture_of(PoissonFamily(), [1.0], [[0.0, 1.0]]), "zero density"),
        (  # same number of statistics, but of different variables
            CategoricalFamily((2, 3)),
            [[0.0, 1.0], [1.0, 2.0]],
            mixture_of(CategoricalFamily((3, 2)), [1.0], [[0.2, 0.3, 0.5, 0.5, 0.5]]),
            r"n_levels=\(3, 2\)\), but the learner has the family .*n_levels=\(2, 3\)",
        ),
    ],
)
def test_start_that_does_not_fit_is_refused(family, sample, start, words):
    with pytest.raises(DistributionError, match=words):
        ExponentialEM(family).fit(torch.tensor(sample).double(), start)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ExponentialEM(None), r"the family must be an instance of PoissonFamily"),
        (lambda: ExponentialEM(PoissonFamily), r"the family must be an instance of PoissonFamily"),
        (lambda: ExponentialEM("Poisson"), r"the family must be an instance of PoissonFamily"),
        (lambda: ExponentialMixture(PoissonFamily(), torch.zeros(2), torch.ones(3, 1)), "an equal, positive k"),
        (lambda: CategoricalFamily(()), "at least one level"),
        (lambda: CategoricalFamily(3), r"as in CategoricalFamily\(\(2, 3\)\), got 3"),
        (lambda: ExponentialMixture(PoissonFamily(), torch.zeros(0), torch.zeros(0, 2)), "an equal, positive k"),
        (lambda: POISSON.log_prob(torch.ones(5, 1).double()), "must have 2 statistics, like the mixture, got 1"),
        (lambda: POISSON.log_prob(torch.ones(2).double()), r"a matrix \(n, d\), got shape \(2,\)"),
    ],
)
def test_bad_arguments_are_refused(make, words):
    with pytest.raises(DistributionError, match=words):
        make()


@MIXTURES
def test_number_of_samples_is_a_count(mixture):
    assert mixture.sample(0, generator_of(0)).shape[0] == 0
    with pytest.raises(DistributionError, match="must be the number of samples"):
        mixture.sample(-1, generator_of(0))
