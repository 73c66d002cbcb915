"""Both fits of a surrogate return a quadratic phi exactly. For other phi, they find the same quadratic part."""

import math

import pytest
import torch
from learning.models.random_models import generator_of, normal

from eim_ros.learning.projections import QuadraticSurrogate, fit_to_gradients, fit_to_values

FITS = pytest.mark.parametrize("fit", [fit_to_gradients, fit_to_values])
SIZES = pytest.mark.parametrize(("n_dims", "n_context"), [(1, 1), (3, 2), (2, 0), (7, 3)])


def quadratic(seed: int, n_components: int, n_dims: int, n_context: int, n_samples: int = 150, offset: float = 1.0):
    """Return R and [A b] of a quadratic phi, and samples of residuals, contexts, values and gradients."""
    generator = generator_of(seed)
    root = normal(generator, n_components, n_dims, n_dims)
    curvature, linear = 0.5 * (root + root.mT), normal(generator, n_components, n_dims, n_context + 1)
    residual = normal(generator, n_components, n_samples, n_dims)
    context = normal(generator, n_components, n_samples, n_context) + offset
    slope = context @ linear[..., :-1].mT + linear[..., -1].unsqueeze(1)
    gradient = slope - residual @ curvature
    of_context = (context.square().sum(-1) + context.sum(-1)) * 0.7 - 3.0  # f(y), which must not affect the fit
    value = -0.5 * ((residual @ curvature) * residual).sum(-1) + (residual * slope).sum(-1) + of_context
    return curvature, linear, residual, context, value, gradient


@SIZES
@FITS
def test_quadratic_is_returned_exactly(fit, n_dims, n_context):
    curvature, linear, residual, context, value, gradient = quadratic(0, 4, n_dims, n_context)
    surrogate = fit(residual, context, gradient if fit is fit_to_gradients else value)
    # error: rounding and the ridge of 1e-10, which fits to values multiply by condition numbers up to 1e2
    atol = 1e-8 if fit is fit_to_gradients else 1e-6
    torch.testing.assert_close(surrogate.curvature, curvature, rtol=0.0, atol=atol)
    torch.testing.assert_close(surrogate.linear, linear, rtol=0.0, atol=atol)


@FITS
def test_weighted_contexts_stand_for_repeated_ones(fit):
    """For fit and moment, a sample of weight 3 counts three times, and a sample of weight 0 does not count."""
    _, _, residual, context, value, gradient = quadratic(1, 2, 2, 1)
    phi = gradient if fit is fit_to_gradients else value
    phi = phi + normal(generator_of(2), *phi.shape)  # with noise, phi is not quadratic, so weights matter
    weight = torch.arange(residual.shape[1]).remainder(4).expand(2, -1)
    rows = torch.arange(residual.shape[1]).repeat_interleave(weight[0])
    weighted = fit(residual, context, phi, weight.double())
    repeated = fit(residual[:, rows], context[:, rows], phi[:, rows])
    for name in ("curvature", "linear", "context_moment"):
        torch.testing.assert_close(getattr(weighted, name), getattr(repeated, name), rtol=1e-6, atol=1e-6)


@FITS
def test_weighted_sample_without_a_finite_phi_is_left_out(fit):
    _, _, residual, context, value, gradient = quadratic(3, 1, 2, 1)
    phi = gradient if fit is fit_to_gradients else value
    weight = normal(generator_of(4), 1, residual.shape[1]).exp()
    bad = phi.clone()
    bad[0, 5] = math.inf
    others = torch.arange(residual.shape[1]) != 5
    found, expected = (
        fit(residual, context, bad, weight),
        fit(*(one[:, others] for one in (residual, context, phi, weight))),
    )
    torch.testing.assert_close(found.curvature, expected.curvature, rtol=0.0, atol=1e-6)
    torch.testing.assert_close(found.linear, expected.linear, rtol=0.0, atol=1e-6)


@FITS
def test_fit_to_a_wave_has_its_mean_curvature_and_slope(fit):
    """For phi = cos(e - 1), least squares under N(0, 1) gives E phi' and, by Stein's lemma, -E phi''."""
    n = 200_000
    residual = normal(generator_of(3), 1, n, 1)
    context = torch.zeros(1, n, 0).double()
    phi, gradient = torch.cos(residual - 1.0), -torch.sin(residual - 1.0)
    surrogate = fit(residual, context, gradient if fit is fit_to_gradients else phi.squeeze(-1))
    expected = math.cos(1.0) * math.exp(-0.5), math.sin(1.0) * math.exp(-0.5)
    # five standard errors, each about 1/sqrt(n)
    assert float(surrogate.curvature) == pytest.approx(expected[0], abs=5.0 / n**0.5)
    assert float(surrogate.linear) == pytest.approx(expected[1], abs=5.0 / n**0.5)


def test_curvature_is_symmetric_for_any_gradient_field():
    residual, context, gradient = (normal(generator_of(seed), 3, 50, 2) for seed in (4, 5, 6))
    curvature = fit_to_gradients(residual, context, gradient).curvature
    assert torch.equal(curvature, curvature.mT)


def test_context_moment_is_that_of_the_extended_contexts():
    context = normal(generator_of(7), 2, 30, 3)
    surrogate = fit_to_gradients(normal(generator_of(8), 2, 30, 2), context, normal(generator_of(9), 2, 30, 2))
    extended = torch.cat([context, torch.ones(2, 30, 1)], -1)
    expected = torch.einsum("kni,knj->kij", extended, extended) / 30
    torch.testing.assert_close(surrogate.context_moment, expected, rtol=1e-13, atol=1e-14)


@FITS
def test_contexts_far_from_zero_cost_no_more_than_their_digits(fit):
    curvature, linear, residual, context, value, gradient = quadratic(10, 3, 3, 2, offset=1e3)
    surrogate = fit(residual, context, gradient if fit is fit_to_gradients else value)
    torch.testing.assert_close(surrogate.curvature, curvature, rtol=0.0, atol=1e-4)
    slope = context @ (surrogate.linear - linear)[..., :-1].mT + (surrogate.linear - linear)[..., -1].unsqueeze(1)
    # slopes are about 1e3; values of phi are about 1e6, with rounding errors of 1e-13 of that
    assert slope.abs().max() < 1e-4


@FITS
@pytest.mark.parametrize("n_samples", [1, 2, 5])
def test_fewer_samples_than_columns_give_a_finite_surrogate(fit, n_samples):
    _, _, residual, context, value, gradient = quadratic(12, 3, 4, 2, n_samples)
    assert_finite(fit(residual, context, gradient if fit is fit_to_gradients else value))


@FITS
def test_constant_context_column_gives_a_finite_surrogate(fit):
    curvature, _, residual, context, value, gradient = quadratic(13, 3, 3, 2)
    context = context.clone()
    context[..., 1] = 0.1
    slope = context @ torch.ones(2, 3).double()
    target = slope - residual @ curvature if fit is fit_to_gradients else value
    surrogate = fit(residual, context, target)
    assert_finite(surrogate)
    if fit is fit_to_gradients:
        torch.testing.assert_close(surrogate.curvature, curvature, rtol=0.0, atol=1e-8)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@FITS
def test_samples_without_a_finite_phi_are_left_out(fit, bad):
    _, _, residual, context, value, gradient = quadratic(14, 3, 2, 1)
    wave = residual.sin().sum(-1, keepdim=fit is fit_to_gradients)
    target = (gradient if fit is fit_to_gradients else value) + 0.3 * wave
    untouched = fit(residual, context, target)
    shorter = fit(residual[:, 40:], context[:, 40:], target[:, 40:])
    target = target.clone()
    target[1, :40] = bad
    surrogate = fit(residual, context, target)
    for name in ("curvature", "linear"):
        found = getattr(surrogate, name)
        torch.testing.assert_close(found[[0, 2]], getattr(untouched, name)[[0, 2]], rtol=1e-9, atol=1e-9)
        # the relative ridges differ slightly
        torch.testing.assert_close(found[1], getattr(shorter, name)[1], rtol=1e-7, atol=1e-7)


@FITS
def test_nan_of_one_expert_stays_with_it(fit):
    """An expert with too few finite samples has no surrogate, and the projection does not change it."""
    _, _, residual, context, value, gradient = quadratic(14, 3, 2, 1)
    target = (gradient if fit is fit_to_gradients else value).clone()
    expected = fit(residual, context, target)
    target[1, 3:] = torch.nan
    surrogate = fit(residual, context, target)
    assert torch.isnan(surrogate.linear[1]).any()
    torch.testing.assert_close(surrogate.curvature[[0, 2]], expected.curvature[[0, 2]], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(surrogate.linear[[0, 2]], expected.linear[[0, 2]], rtol=1e-12, atol=1e-12)


def assert_finite(surrogate: QuadraticSurrogate) -> None:
    for tensor in (surrogate.curvature, surrogate.linear, surrogate.context_moment):
        assert torch.isfinite(tensor).all()
