"""Normalised targets agree with reference libraries, integrate to one, and have the moments of their samples."""

import math

import numpy as np
import pytest
import scipy.stats
import torch
from studies.targets.examples import normals, plane_mixture, seeded

from eim_ros.core.errors import DistributionError
from experiments.targets import Banana, Funnel, random_gaussian_mixture, random_student_mixture


def integral(target, low: tuple[float, float], high: tuple[float, float], n: int = 1500) -> float:
    """Return the integral of exp(log_prob) over a rectangle, computed by the midpoint rule."""
    step = [(b - a) / n for a, b in zip(low, high, strict=True)]
    axes = [a + s * (torch.arange(n, dtype=torch.float64) + 0.5) for a, s in zip(low, step, strict=True)]
    return float(target.log_prob(torch.cartesian_prod(*axes)).exp().sum()) * step[0] * step[1]


@pytest.mark.parametrize("degrees_of_freedom", [2.0, 7.5, math.inf])
def test_mixture_has_the_density_of_scipy(degrees_of_freedom):
    target = plane_mixture(degrees_of_freedom)
    x = 3.0 * normals(40, 2, seed=1)
    expected = np.zeros(40)
    for log_weight, mean, factor in zip(target.log_weights, target.means, target.scale_trils, strict=True):
        scale = (factor @ factor.T).numpy()
        if math.isinf(degrees_of_freedom):
            density = scipy.stats.multivariate_normal(mean.numpy(), scale)
        else:
            density = scipy.stats.multivariate_t(mean.numpy(), scale, df=degrees_of_freedom)
        expected += math.exp(log_weight) * density.pdf(x.numpy())
    np.testing.assert_allclose(target.log_prob(x).numpy(), np.log(expected), rtol=1e-10)


def test_funnel_and_banana_integrate_to_one():
    """Tolerances allow for the probability outside of the rectangles, mainly beyond 4.5 deviations of the neck."""
    assert integral(Funnel(2, neck_scale=1.0), (-4.5, -60.0), (4.5, 60.0)) == pytest.approx(1.0, abs=1e-4)
    assert integral(Banana(2, curvature=0.5, length=1.5), (-9.0, -40.0), (9.0, 8.0)) == pytest.approx(1.0, abs=1e-5)


def test_samples_of_the_funnel_and_the_banana_are_of_their_densities():
    """The mean of log p is minus the entropy. Bending does not change the entropy of the normal, 0.5 log|2 pi e C|."""
    banana = Banana(3, curvature=0.3, length=4.0)
    log_prob = banana.log_prob(banana.sample(40_000, seeded()))
    entropy = 1.5 * math.log(2.0 * math.pi * math.e) + math.log(4.0)
    # five standard errors; log p has the variance of |z|^2 / 2, which is d / 2
    assert float(-log_prob.mean()) == pytest.approx(entropy, abs=5.0 * 1.5**0.5 / 200.0)
    funnel = Funnel(5)
    sample = funnel.sample(40_000, seeded())
    assert float(sample[:, 0].std()) == pytest.approx(3.0, abs=0.05)
    shape = sample[:, 1:] * (-0.5 * sample[:, :1]).exp()
    torch.testing.assert_close(shape.T.cov(), torch.eye(4).double(), rtol=0.0, atol=0.03)


@pytest.mark.parametrize("degrees_of_freedom", [2.0, math.inf])
def test_samples_of_a_mixture_are_of_its_density(degrees_of_freedom):
    """Shares of components equal their weights. Within a component, r^2 is chi-squared or r^2 / d is F-distributed."""
    target = plane_mixture(degrees_of_freedom)
    spread_out = type(target)(
        target.log_weights, 1e6 * target.means, target.scale_trils, target.start, degrees_of_freedom
    )
    sample = spread_out.sample(20_000, seeded(4))
    owner = torch.cdist(sample, spread_out.means).argmin(-1)
    shares = torch.bincount(owner) / len(sample)
    torch.testing.assert_close(shares.double(), target.log_weights.exp(), rtol=0.0, atol=0.015)
    residual = (sample - spread_out.means[owner]).unsqueeze(-1)
    squared = torch.linalg.solve_triangular(target.scale_trils[owner], residual, upper=False).square().sum((-2, -1))
    if math.isinf(degrees_of_freedom):
        fit = scipy.stats.kstest(squared.numpy(), scipy.stats.chi2(2).cdf)
    else:
        fit = scipy.stats.kstest(squared.numpy() / 2.0, scipy.stats.f(2, degrees_of_freedom).cdf)
    assert fit.pvalue > 1e-3


def test_random_mixtures_are_those_of_the_paper():
    """A'A + I has eigenvalues of at least 1 and a trace of about d^2 (0.1 d)^2 + d. STM's scatter is its inverse."""
    gaussian, student = random_gaussian_mixture(20, seeded()), random_student_mixture(20, seeded())
    assert gaussian.means.shape == student.means.shape == (10, 20)
    assert float(gaussian.means.abs().max()) > 45.0
    assert 18.0 < float(student.means.abs().max()) <= 20.0
    covariance = gaussian.scale_trils @ gaussian.scale_trils.mT
    precision = torch.linalg.inv(student.scale_trils @ student.scale_trils.mT)
    for scatter in (covariance, precision):
        assert float(torch.linalg.eigvalsh(scatter).min()) >= 1.0 - 1e-6
        traces = scatter.diagonal(dim1=-2, dim2=-1).sum(-1)
        assert float(traces.mean()) == pytest.approx(20.0**2 * 4.0 + 20.0, rel=0.05)
    assert random_student_mixture(21, seeded()).means.shape == (20, 21)
    assert student.degrees_of_freedom == 2.0


def test_bad_numbers_are_refused():
    for make in (lambda: Funnel(1), lambda: Banana(1), lambda: Banana(2, length=0.0)):
        with pytest.raises(DistributionError):
            make()
    with pytest.raises(DistributionError, match="degrees of freedom"):
        plane_mixture(0.0)
    with pytest.raises(DistributionError, match="at least one dimension and one component"):
        random_gaussian_mixture(0, seeded())
