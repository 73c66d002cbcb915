"""Every density integrates to one, agrees with SciPy, has correct gradients, and draws samples with its moments."""

import numpy as np
import pytest
import torch
from learning.models.densities import DENSITIES, Density, every_density
from learning.models.random_models import generator_of, normal
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

small_densities = pytest.mark.parametrize(
    "density", [d for d in DENSITIES if d.n_dims <= 2], ids=[d.name for d in DENSITIES if d.n_dims <= 2]
)


def evaluate(density: Density, sample: torch.Tensor) -> torch.Tensor:
    return density.log_prob(sample, *density.parameters)


@small_densities
def test_integrates_to_one(density):
    # for smooth functions that decay, the trapezoidal rule converges exponentially; its error is 1e-9 at this spacing
    axis = torch.linspace(-12.0, 12.0, 401, dtype=torch.float64)
    grid = torch.cartesian_prod(*[axis] * density.n_dims).reshape(-1, density.n_dims)
    cell = float(axis[1] - axis[0]) ** density.n_dims
    assert float(evaluate(density, grid).exp().sum()) * cell == pytest.approx(1.0, abs=1e-9)


@every_density
def test_log_prob_equals_scipys(density):
    sample = 2.0 * normal(generator_of(0), 50, density.n_dims)
    reference = density.reference
    expected = np.stack(
        [
            float(log_weight) + multivariate_normal(mean.numpy(), (factor @ factor.T).numpy()).logpdf(sample.numpy())
            for log_weight, mean, factor in zip(
                reference.log_weights, reference.means, reference.scale_trils, strict=True
            )
        ]
    )
    np.testing.assert_allclose(evaluate(density, sample).numpy(), logsumexp(expected, axis=0), rtol=1e-11)


@every_density
def test_gradients_equal_finite_differences(density):
    sample = normal(generator_of(1), 2, density.n_dims).requires_grad_(True)
    parameters = [value.detach().clone().requires_grad_(True) for value in density.parameters]
    assert torch.autograd.gradcheck(density.log_prob, (sample, *parameters))


@every_density
def test_samples_have_the_moments_of_the_density(density):
    n = 20_000
    sample = density.draw(generator_of(3), n)
    weights = density.reference.log_weights.exp()
    mean = weights @ density.reference.means
    centered = density.reference.means - mean
    within = density.reference.scale_trils @ density.reference.scale_trils.mT
    covariance = torch.einsum("k,kij->ij", weights, within + centered.unsqueeze(-1) * centered.unsqueeze(-2))
    error = (sample.mean(0) - mean) / (torch.diagonal(covariance) / n).sqrt()
    # 4.5 standard errors allow for 21 densities with up to 3 coordinates
    assert error.abs().max() < 4.5
    whitened = torch.linalg.solve_triangular(torch.linalg.cholesky(covariance), (sample - mean).T, upper=False)
    moment = whitened @ whitened.T / n
    # entries of the moment have standard deviations up to sqrt(2/n) for a Gaussian, and about twice that for a mixture
    assert (moment - torch.eye(density.n_dims)).abs().max() < 5.0 * 2.0 * (2.0 / n) ** 0.5


@every_density
def test_samples_follow_the_seed_alone(density):
    first, second = (density.draw(generator_of(5), 10) for _ in range(2))
    assert torch.equal(first, second)
    assert not torch.equal(first, density.draw(generator_of(6), 10))


@every_density
def test_log_prob_far_away_is_finite_and_falls(density):
    direction = torch.ones(1, density.n_dims, dtype=torch.float64)
    near, far = evaluate(density, 1e3 * direction), evaluate(density, 1e6 * direction)
    assert torch.isfinite(far).all()
    assert (far < near).all()


@every_density
def test_single_precision_stays_single_and_agrees(density):
    sample = normal(generator_of(7), 20, density.n_dims)
    single = density.log_prob(sample.float(), *[value.float() for value in density.parameters])
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), evaluate(density, sample), rtol=1e-4, atol=1e-4)


@every_density
def test_no_samples_give_no_values(density):
    assert evaluate(density, torch.zeros(0, density.n_dims, dtype=torch.float64)).shape == (0,)
