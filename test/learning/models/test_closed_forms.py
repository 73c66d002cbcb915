"""Known numbers of I-projection (least KL(q || p)) and M-projection (least KL(p || q)), generalised VI, mean field."""

import math

import pytest
import torch
from learning.models.random_models import generator_of

from eim_ros.core.errors import DistributionError
from eim_ros.learning.models import Gaussian, GaussianMixture, kl_divergence


def tensor(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def univariate(mean: float, variance: float) -> Gaussian:
    return Gaussian(tensor(mean), tensor(math.sqrt(variance)).reshape(1, 1))


def diagonal(*variances: float) -> Gaussian:
    return Gaussian(torch.zeros(len(variances)).double(), torch.diag(tensor(*variances).sqrt()))


def bimodal(left: float = 0.5) -> GaussianMixture:
    return GaussianMixture(
        tensor(left, 1.0 - left).log(), tensor(-3.0, 3.0).reshape(2, 1), torch.full((2, 1, 1), 0.7, dtype=torch.float64)
    )


def kl_by_quadrature(first: Gaussian | GaussianMixture, second: Gaussian | GaussianMixture) -> float:
    """The trapezoidal rule on a smooth function that decays: exact to rounding at this spacing."""
    grid = torch.linspace(-40.0, 40.0, 80_001, dtype=torch.float64).unsqueeze(-1)
    log_first = first.log_prob(grid)
    return float((log_first.exp() * (log_first - second.log_prob(grid))).sum() * 1e-3)


def test_kl_of_two_univariate_gaussians():
    assert float(univariate(1.0, 4.0).kl(univariate(0.0, 1.0))) == pytest.approx(1.306852819, abs=1e-9)
    assert float(univariate(0.0, 1.0).kl(univariate(1.0, 4.0))) == pytest.approx(0.443147181, abs=1e-9)


@pytest.mark.parametrize(
    ("left", "mean", "variance"), [(0.5, 0.0, 9.49), (0.3, 1.2, 8.05)], ids=["equal weights", "unequal weights"]
)
def test_moments_of_the_bimodal_target_are_its_m_projection(left, mean, variance):
    target = bimodal(left)
    assert float(target.mean) == pytest.approx(mean, abs=1e-12)
    assert float(target.covariance) == pytest.approx(variance, abs=1e-12)


def test_divergences_of_the_bimodal_targets_projections():
    target, matched = bimodal(), univariate(0.0, 9.49)
    assert kl_by_quadrature(target, matched) == pytest.approx(0.788674, abs=1e-6)
    # grids that end at 14 instead of 40 would give 2.511945, and 2.240527 below: the tails hold the rest
    assert kl_by_quadrature(matched, target) == pytest.approx(2.512639, abs=1e-6)
    assert kl_by_quadrature(univariate(2.999915, 0.700183**2), target) == pytest.approx(0.693120, abs=1e-6)
    assert kl_by_quadrature(univariate(0.0, 2.579705**2), target) == pytest.approx(2.240533, abs=1e-6)


@pytest.mark.parametrize(("first", "second", "expected"), [("m", "p", 2.512639), ("p", "m", 0.788674)])
def test_monte_carlo_agrees_within_its_standard_error(first, second, expected):
    models = {"m": univariate(0.0, 9.49), "p": bimodal()}
    estimate = kl_divergence(models[first], models[second], 20_000, generator_of(0))
    assert abs(estimate.value - expected) < 4.0 * estimate.standard_error
    assert estimate.standard_error < 0.1


@pytest.mark.parametrize(
    ("variances", "inclusive", "exclusive"),
    [((1.0, 4.0), 0.223143551, 0.223143551), ((1.0, 100.0), 1.619388243, 1.619388243)],
)
def test_isotropic_projections_of_a_diagonal_gaussian(variances, inclusive, exclusive):
    target, d = diagonal(*variances), len(variances)
    harmonic = d / sum(1.0 / v for v in variances)
    i_projection, m_projection = diagonal(*[harmonic] * d), diagonal(*[sum(variances) / d] * d)
    assert float(i_projection.kl(target)) == pytest.approx(inclusive, abs=1e-9)
    assert float(target.kl(m_projection)) == pytest.approx(exclusive, abs=1e-9)


def test_isotropic_i_projection_in_three_dimensions():
    assert float(diagonal(*[2.325581395] * 3).kl(diagonal(1.0, 4.0, 25.0))) == pytest.approx(1.036629988, abs=1e-9)


def test_generalised_inference_with_a_quadratic_reward_is_a_tilt():
    """J(q) = E_q r - KL(q || p) is maximal at p e^r / Z, r = -(x - 2)^2 / (2 * .5), with J = log Z."""
    prior, reward_curvature = univariate(0.0, 1.0), tensor(2.0).reshape(1, 1)
    posterior, log_integral = prior.tilt(reward_curvature, tensor(4.0))
    assert float(posterior.mean) == pytest.approx(4.0 / 3.0, abs=1e-14)
    assert float(posterior.covariance) == pytest.approx(1.0 / 3.0, abs=1e-14)
    assert float(log_integral) - 4.0 == pytest.approx(-1.882639478, abs=1e-9)  # r's constant is -4
    for other in (univariate(1.0, 0.5), univariate(-0.3, 2.0)):
        mean, variance = float(other.mean), float(other.covariance)
        objective = -((mean - 2.0) ** 2 + variance) - float(other.kl(prior))
        assert float(log_integral) - 4.0 - objective == pytest.approx(float(other.kl(posterior)), abs=1e-12)


def test_generalised_inference_with_a_growing_reward_has_an_end():
    """r = c x^2/2 on N(0, 1): variance 1/(1 - c), and nothing to normalise from c = 1 on."""
    prior = univariate(0.0, 1.0)
    for c in (-1.0, 0.5, 0.99):
        tilted, _ = prior.tilt(tensor(-c).reshape(1, 1), tensor(0.0))
        assert float(tilted.covariance) == pytest.approx(1.0 / (1.0 - c), rel=1e-12)
    for c in (1.0, 1.5):
        with pytest.raises(DistributionError, match="cannot be normalised"):
            prior.tilt(tensor(-c).reshape(1, 1), tensor(0.0))


def test_mean_field_projections_of_a_correlated_gaussian():
    correlated = Gaussian(torch.zeros(2).double(), torch.linalg.cholesky(tensor(1.0, 0.9, 0.9, 1.0).reshape(2, 2)))
    assert float(diagonal(0.19, 0.19).kl(correlated)) == pytest.approx(0.830365603, abs=1e-9)
    assert float(correlated.kl(diagonal(1.0, 1.0))) == pytest.approx(0.830365603, abs=1e-9)


def test_coordinate_ascent_for_the_mean_field_contracts_by_the_squared_correlation():
    """The optimal factor of one coordinate has the mean of its conditional at the other's mean."""
    target = Gaussian(tensor(1.0, -1.0), torch.linalg.cholesky(tensor(1.0, 0.9, 0.9, 1.0).reshape(2, 2)))
    mean = tensor(0.0, 0.0)
    for expected in ((1.9, -0.19), (1.729, -0.3439), (1.59049, -0.468559)):
        mean[0] = target.condition([1], mean[1:]).mean[0]
        mean[1] = target.condition([0], mean[:1]).mean[0]
        torch.testing.assert_close(mean, tensor(*expected), rtol=0.0, atol=1e-12)
