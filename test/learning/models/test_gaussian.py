"""Entropy and KL of a Gaussian equal torch's. Marginals, conditionals, products and tilts equal textbook formulas."""

import numpy as np
import pytest
import torch
from learning.models.random_models import generator_of, normal, random_mixture, random_scale_trils

from eim_ros.core.errors import DistributionError
from eim_ros.learning.models import Gaussian, GaussianMixture


def random_gaussian(seed: int, *batch: int, n_dims: int = 4) -> Gaussian:
    generator = generator_of(seed)
    return Gaussian(normal(generator, *batch, n_dims), random_scale_trils(generator, *batch, n_dims))


def torchs(gaussian: Gaussian) -> torch.distributions.MultivariateNormal:
    return torch.distributions.MultivariateNormal(gaussian.mean, scale_tril=gaussian.scale_tril)


def test_entropy_equals_torchs():
    gaussian = random_gaussian(0, 5)
    torch.testing.assert_close(gaussian.entropy(), torchs(gaussian).entropy(), rtol=1e-12, atol=1e-12)


def test_kl_equals_torchs():
    first, second = random_gaussian(1, 5), random_gaussian(2, 5)
    expected = torch.distributions.kl_divergence(torchs(first), torchs(second))
    torch.testing.assert_close(first.kl(second), expected, rtol=1e-12, atol=1e-12)


def test_log_prob_of_a_batch_equals_a_loop():
    gaussian, sample = random_gaussian(7, 4, 3), normal(generator_of(8), 4, 3, 4)
    expected = torchs(gaussian).log_prob(sample)
    torch.testing.assert_close(gaussian.log_prob(sample), expected, rtol=1e-12, atol=1e-12)


def test_upper_triangle_of_the_factor_is_not_looked_at_by_log_prob():
    gaussian = random_gaussian(11)
    noisy = Gaussian(gaussian.mean, gaussian.scale_tril + torch.ones(4, 4).triu(1))
    sample = normal(generator_of(12), 5, 4)
    assert torch.equal(noisy.log_prob(sample), gaussian.log_prob(sample))


@pytest.mark.parametrize(
    ("scale_tril", "reason"),
    [
        (torch.eye(3), r"must have the shape \(\.\.\., 2, 2\)"),
        (torch.ones(2), r"must have the shape \(\.\.\., 2, 2\)"),
        (torch.zeros(2, 2), "positive diagonal"),
        (-torch.eye(2), "positive diagonal"),
        (torch.tensor([[1.0, 0.0], [torch.nan, 1.0]]), "finite"),
        (torch.tensor([[torch.inf, 0.0], [0.0, 1.0]]), "finite"),
    ],
)
def test_factor_of_no_covariance_is_refused(scale_tril, reason):
    with pytest.raises(DistributionError, match=reason):
        Gaussian(torch.zeros(2), scale_tril)


def test_samples_take_a_shape_and_the_generator_of_torch_is_the_default():
    gaussian = random_gaussian(11, 4)
    assert gaussian.sample((2, 5)).shape == (2, 5, 4, 4)
    assert (gaussian.batch_shape, gaussian.event_shape) == ((4,), (4,))
    torch.manual_seed(3)
    first = gaussian.sample(2)
    torch.manual_seed(3)
    assert torch.equal(gaussian.sample((2,)), first)


def test_only_rsample_is_differentiable():
    mean = torch.zeros(2).double().requires_grad_(True)
    gaussian = Gaussian(mean, torch.eye(2).double())
    assert not gaussian.sample(3).requires_grad
    assert torch.equal(gaussian.rsample(3, generator_of(0)), gaussian.sample(3, generator_of(0)))
    gaussian.rsample(3).sum().backward()
    assert torch.equal(mean.grad, torch.full((2,), 3.0).double())


@pytest.mark.parametrize("n", [-1, 2.5, "3", None, (2, -1), torch.Generator()])
def test_number_of_samples_that_is_none_is_refused(n):
    with pytest.raises(DistributionError, match="number of samples"):
        random_gaussian(11, 4).sample(n)


def covariance_of(model: Gaussian | GaussianMixture) -> np.ndarray:
    return model.covariance.numpy()


def test_marginal_takes_rows_and_columns_in_the_given_order():
    gaussian = random_gaussian(0)
    marginal = gaussian.marginal([3, 0])
    assert torch.equal(marginal.mean, gaussian.mean[[3, 0]])
    expected = gaussian.covariance[[3, 0]][:, [3, 0]]
    torch.testing.assert_close(marginal.covariance, expected, rtol=1e-13, atol=1e-13)


def test_conditional_is_the_schur_complement():
    gaussian, values = random_gaussian(1), normal(generator_of(2), 2)
    mean, covariance = gaussian.mean.numpy(), covariance_of(gaussian)
    given, rest = [2, 0], [1, 3]
    gain = covariance[np.ix_(rest, given)] @ np.linalg.inv(covariance[np.ix_(given, given)])
    conditional = gaussian.condition(given, values)
    np.testing.assert_allclose(conditional.mean, mean[rest] + gain @ (values.numpy() - mean[given]), rtol=1e-11)
    expected = covariance[np.ix_(rest, rest)] - gain @ covariance[np.ix_(given, rest)]
    np.testing.assert_allclose(covariance_of(conditional), expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("given", [[0], [2, 0], [1, -1]])
def test_marginal_times_conditional_is_the_joint(given):
    gaussian, mixture = random_gaussian(3), random_mixture(4, 3, 4)
    rest = [dim for dim in range(4) if dim not in [d % 4 for d in given]]
    sample = normal(generator_of(5), 9, 4)
    for model in (gaussian, mixture):
        marginal = model.marginal(given).log_prob(sample[:, given])
        conditional = model.condition(given, sample[:, given]).log_prob(sample[:, rest])
        torch.testing.assert_close(marginal + conditional, model.log_prob(sample), rtol=1e-11, atol=1e-11)


def test_mixture_of_a_batch_is_conditioned_entry_by_entry():
    generator = generator_of(12)
    batch = GaussianMixture(normal(generator, 3, 2), normal(generator, 3, 2, 3), random_scale_trils(generator, 3, 2, 3))
    values = normal(generator, 3, 1)
    together = batch.condition([1], values)
    for index in range(3):
        one = GaussianMixture(batch.log_weights[index], batch.means[index], batch.scale_trils[index])
        torch.testing.assert_close(together.mean[index], one.condition([1], values[index]).mean, rtol=1e-12, atol=1e-12)


def test_product_of_gaussians_multiplies_densities():
    first, second = random_gaussian(13), random_gaussian(14)
    product, log_integral = first.product(second)
    sample = normal(generator_of(15), 20, 4)
    expected = first.log_prob(sample) + second.log_prob(sample)
    torch.testing.assert_close(product.log_prob(sample) + log_integral, expected, rtol=1e-10, atol=1e-10)


def test_product_with_a_nearly_singular_gaussian_keeps_its_digits():
    """One factor has deviations of 1e-8. A formula that adds covariances would lose all digits of this factor."""
    sharp = Gaussian(torch.tensor([0.3, -0.2]).double(), 1e-8 * torch.eye(2).double())
    product, _ = random_gaussian(18, n_dims=2).product(sharp)
    torch.testing.assert_close(product.mean, sharp.mean, rtol=0.0, atol=1e-14)
    torch.testing.assert_close(product.scale_tril, sharp.scale_tril, rtol=1e-7, atol=1e-15)


def test_product_of_a_mixture_multiplies_densities():
    mixture, factor = random_mixture(19, 3, 2), random_gaussian(20, n_dims=2)
    product, log_integral = mixture.product(factor)
    sample = normal(generator_of(21), 20, 2)
    expected = mixture.log_prob(sample) + factor.log_prob(sample)
    torch.testing.assert_close(product.log_prob(sample) + log_integral, expected, rtol=1e-10, atol=1e-10)


def test_tilt_multiplies_densities():
    gaussian, generator = random_gaussian(24), generator_of(25)
    root, linear = normal(generator, 4, 4), normal(generator, 4)
    curvature = 0.1 * (root + root.mT)  # indefinite
    tilted, log_integral = gaussian.tilt(curvature, linear)
    sample = normal(generator, 20, 4)
    exponent = -0.5 * ((sample @ curvature) * sample).sum(-1) + sample @ linear
    expected = gaussian.log_prob(sample) + exponent
    torch.testing.assert_close(tilted.log_prob(sample) + log_integral, expected, rtol=1e-10, atol=1e-10)


def test_tilt_without_an_integral_is_refused():
    with pytest.raises(DistributionError, match="cannot be normalised"):
        random_gaussian(26).tilt(-100.0 * torch.eye(4).double(), torch.zeros(4).double())


@pytest.mark.parametrize("model", [random_gaussian(29), random_mixture(30, 3, 4)])
def test_score_is_the_gradient_of_log_prob(model):
    leaf = normal(generator_of(31), 6, 4).requires_grad_(True)
    (expected,) = torch.autograd.grad(model.log_prob(leaf).sum(), leaf)
    torch.testing.assert_close(model.score(leaf.detach()), expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("dims", [[], [4], [-5], [1, 1], [0, -4]])
def test_coordinates_that_are_none_or_twice_are_refused(dims):
    with pytest.raises(DistributionError, match="different coordinates from 0 to 3"):
        random_gaussian(32).marginal(dims)


def test_conditioning_on_everything_is_refused():
    with pytest.raises(DistributionError, match="at least one coordinate must remain"):
        random_mixture(33, 2, 2).condition([1, 0], torch.zeros(2).double())


@pytest.mark.parametrize("model", [random_gaussian(34), random_mixture(35, 3, 2)])
def test_tensors_and_back_is_the_identity(model):
    again = type(model).from_tensors(model.to(dtype=torch.float64).tensors())
    for name, value in model.tensors().items():  # `from_tensors` normalises the weights again
        torch.testing.assert_close(again.tensors()[name], value, rtol=1e-14, atol=1e-15)
    assert next(iter(model.to(dtype=torch.float32).tensors().values())).dtype == torch.float32
    with pytest.raises(DistributionError, match="lacks"):
        type(model).from_tensors({})
