"""Surrogate and projection together are an M-step of the experts, tested with an exact phi."""

import math

import pytest
import torch
from learning.models.random_models import generator_of, normal, random_experts, random_scale_trils

from eim_ros.learning.models import Gaussian, LinearExperts
from eim_ros.learning.projections import GaussianUpdate, fit_to_gradients, fit_to_values, project_experts

FITS = pytest.mark.parametrize("fit", [fit_to_gradients, fit_to_values])


def m_step(experts, phi, fit, kl_bound, entropy_loss_bound, *, residual, context) -> GaussianUpdate:
    """Update every expert for phi(context (n, dy), sample (n, dx)) -> (n,)."""
    mean = context @ experts.weights.mT + experts.biases.unsqueeze(1)
    sample = (mean + residual @ experts.scale_trils.mT).flatten(0, 1).requires_grad_(True)
    value = phi(context.flatten(0, 1), sample)
    (gradient,) = torch.autograd.grad(value.sum(), sample, allow_unused=True, materialize_grads=True)
    if fit is fit_to_gradients:
        surrogate = fit(residual, context, gradient.reshape(residual.shape) @ experts.scale_trils)
    else:
        surrogate = fit(residual, context, value.detach().reshape(residual.shape[:2]))
    return project_experts(experts, surrogate, kl_bound, entropy_loss_bound)


def draws(seed, experts, n_samples=200):
    generator = generator_of(seed)
    residual = normal(generator, experts.n_components, n_samples, experts.n_dims)
    return {
        "residual": residual,
        "context": normal(generator, experts.n_components, n_samples, experts.n_context) + 0.5,
    }


def log_ratio(target: LinearExperts, model: LinearExperts):
    """Return the exact phi = log p/q_old for two single experts."""
    return lambda context, sample: (target.log_prob(context, sample) - model.log_prob(context, sample)).squeeze(-1)


def assert_same(found: LinearExperts, expected: LinearExperts, atol: float) -> None:
    for name in ("weights", "biases", "scale_trils"):
        torch.testing.assert_close(getattr(found, name), getattr(expected, name), rtol=0.0, atol=atol)


@FITS
@pytest.mark.parametrize("n_context", [0, 2])
@pytest.mark.parametrize("seed", range(3))
def test_exact_phi_without_bounds_returns_the_target_in_one_step(fit, n_context, seed):
    model, target = random_experts(seed, 1, 3, n_context), random_experts(seed + 100, 1, 3, n_context)
    update = m_step(model, log_ratio(target, model), fit, math.inf, math.inf, **draws(seed, model))
    assert update.multipliers.feasible.all()
    # error: the ridge of 1e-10 in the regression, times coefficients of phi (up to 1e2) and features
    assert_same(update.experts, target, atol=1e-6)


@FITS
@pytest.mark.parametrize("constant", [0.0, 3.0, -1e3])
def test_constant_phi_leaves_experts_unchanged(fit, constant):
    experts = random_experts(1, 4, 3, 2)
    update = m_step(
        experts, lambda _, sample: torch.full_like(sample[:, 0], constant) + 0.0 * sample[:, 0], fit, 0.1, 0.1,
        **draws(2, experts),
    )  # fmt: skip
    assert_same(update.experts, experts, atol=1e-11 * max(1.0, abs(constant)))


@FITS
def test_phi_plus_a_function_of_the_context_gives_the_same_step_on_average(fit):
    """The steps are equal for fits to gradients, and for fits to values if these are quadratic in y."""
    experts = random_experts(5, 4, 2, 1)
    drawn = draws(6, experts)
    first = m_step(experts, wave, fit, 0.05, 0.02, **drawn)
    shifted = m_step(
        experts,
        lambda context, sample: wave(context, sample) + 2.0 * context.square().sum(-1),
        fit,
        0.05,
        0.02,
        **drawn,
    )
    assert_same(shifted.experts, first.experts, atol=1e-7)


def wave(context, sample):
    return torch.cos(2.0 * sample).sum(-1) + 0.5 * sample[:, 0] * context.sum(-1) - 0.1 * sample.square().sum(-1)


def test_step_is_equivariant_to_affine_maps_of_samples_and_contexts():
    """The maps are x' = T x + t and y' = S y + u. T is lower triangular, so whitened residuals stay the same."""
    experts = random_experts(7, 5, 3, 2)
    drawn = draws(8, experts)
    generator = generator_of(9)
    matrix = random_scale_trils(generator, 3) * 3.0
    offset, context_matrix, context_offset = normal(generator, 3), normal(generator, 2, 2), normal(generator, 2)

    def mapped(model: LinearExperts) -> LinearExperts:
        weights = matrix @ torch.linalg.solve(context_matrix.T, model.weights.mT).mT
        biases = model.biases @ matrix.T + offset - weights @ context_offset
        return LinearExperts(weights, biases, matrix @ model.scale_trils)

    def mapped_phi(context, sample):
        back = torch.linalg.solve(context_matrix, (context - context_offset).T).T
        return wave(back, torch.linalg.solve(matrix, (sample - offset).T).T)

    plain = m_step(experts, wave, fit_to_gradients, 0.05, 0.02, **drawn)
    context = drawn["context"] @ context_matrix.T + context_offset
    step = m_step(
        mapped(experts), mapped_phi, fit_to_gradients, 0.05, 0.02, residual=drawn["residual"], context=context
    )
    assert_same(step.experts, mapped(plain.experts), atol=1e-7)  # the ridge of 1e-10 acts in other coordinates
    torch.testing.assert_close(step.multipliers.kl, plain.multipliers.kl, rtol=1e-7, atol=0.0)


def test_steps_of_bounded_size_descend_to_the_target():
    model, target = random_experts(10, 1, 3, 2), random_experts(110, 1, 3, 2)
    context = normal(generator_of(11), 300, 2) + 0.5
    distances = [distance(model, target, context)]
    for seed in range(60):
        drawn = {**draws(seed, model, 300), "context": context[None]}
        model = m_step(model, log_ratio(target, model), fit_to_gradients, 0.5, 0.5, **drawn).experts
        distances.append(distance(model, target, context))
    assert all(after <= before + 1e-12 for before, after in zip(distances, distances[1:], strict=False))
    assert distances[-1] < 1e-12
    assert distances[5] > 1.0  # active bounds require many steps


def distance(model, target, context):
    """Return the mean of KL(model || target) over contexts."""
    first, second = (Gaussian(experts.means(context)[:, 0], experts.scale_trils[0]) for experts in (model, target))
    return float(first.kl(second).mean())
