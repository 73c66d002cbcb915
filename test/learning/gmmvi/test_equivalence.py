"""Natural gradients of the ELBO and of the lower bound of VIPS are the same (Arenz et al. 2023, Theorem 2.1, E, F)."""

import pytest
import torch
from learning.models.random_models import generator_of, normal
from scipy.optimize import minimize

from eim_ros.learning.gmmvi import DirectWeights

GRID = torch.linspace(-30.0, 30.0, 6001, dtype=torch.float64)
WIDTH = float(GRID[1] - GRID[0])  # the sum over the grid is exact to rounding: all densities vanish at its ends


def log_target(x: torch.Tensor) -> torch.Tensor:
    return torch.logsumexp(torch.stack([-0.5 * (x - 2.0) ** 2, -((x + 3.0) ** 2) + 0.5, -0.1 * x**2 - 1.0]), 0)


def random_parameters(seed: int) -> list[torch.Tensor]:
    """Logits, means and log deviations of three components."""
    generator = generator_of(seed)
    return [normal(generator, 3), 2.0 * normal(generator, 3), 0.3 * normal(generator, 3)]


def log_parts(logits, means, log_deviations) -> tuple[torch.Tensor, torch.Tensor]:
    """Log weights (3,) and log densities (n_points, 3) of the components on the grid."""
    normals = torch.distributions.Normal(means, log_deviations.exp())
    return logits.log_softmax(-1), normals.log_prob(GRID.unsqueeze(-1))


def elbo(*parameters) -> torch.Tensor:
    log_weights, log_components = log_parts(*parameters)
    log_q = torch.logsumexp(log_weights + log_components, -1)
    return (log_q.exp() * (log_target(GRID) - log_q)).sum() * WIDTH


def lower_bound(old, *parameters) -> torch.Tensor:
    """Equation 2: the responsibilities of the old model are the auxiliary distribution."""
    old_weights, old_components = log_parts(*old)
    auxiliary = (old_weights + old_components).log_softmax(-1)
    log_weights, log_components = log_parts(*parameters)
    inner = log_target(GRID).unsqueeze(-1) + auxiliary - log_components
    return (log_weights.exp() * ((log_components.exp() * inner).sum(0) * WIDTH - log_weights)).sum()


def rewards(*parameters) -> torch.Tensor:
    """E_o[R] with R = log p~ - log q, (3,)."""
    log_weights, log_components = log_parts(*parameters)
    log_q = torch.logsumexp(log_weights + log_components, -1)
    return (log_components.exp() * (log_target(GRID) - log_q).unsqueeze(-1)).sum(0) * WIDTH


def gradients(function, parameters) -> list[torch.Tensor]:
    leaves = [value.clone().requires_grad_(True) for value in parameters]
    return list(torch.autograd.grad(function(*leaves), leaves))


@pytest.mark.parametrize("seed", range(3))
def test_theorem_2_1_gradients_agree_after_the_e_step_and_only_there(seed):
    old, other = random_parameters(seed), random_parameters(seed + 10)
    of_elbo = gradients(elbo, old)
    of_bound = gradients(lambda *new: lower_bound(old, *new), old)
    for found, expected in zip(of_bound, of_elbo, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)
    assert float(lower_bound(old, *old)) == pytest.approx(float(elbo(*old)), abs=1e-11)
    assert float(lower_bound(other, *old)) < float(elbo(*old))
    stale = gradients(lambda *new: lower_bound(other, *new), old)
    assert max(float((a - b).abs().max()) for a, b in zip(stale, of_elbo, strict=True)) > 1e-2


@pytest.mark.parametrize("seed", range(3))
def test_gradients_of_the_elbo_are_expectations_of_the_derivatives_of_the_reward(seed):
    """dJ/dmu_o = w_o E_o[R'] and dJ/dsigma_o^2 = w_o E_o[R'']/2, which the components' natural gradients estimate."""
    parameters = random_parameters(seed)
    x = GRID.clone().requires_grad_(True)
    logits, means, log_deviations = parameters
    log_components = torch.distributions.Normal(means, log_deviations.exp()).log_prob(x.unsqueeze(-1))
    reward = log_target(x) - torch.logsumexp(logits.log_softmax(-1) + log_components, -1)
    (first,) = torch.autograd.grad(reward.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    density, weights = log_components.exp().detach(), logits.softmax(-1)
    _, in_mean, in_log_deviation = gradients(elbo, parameters)
    slope, curvature = ((density * part.detach().unsqueeze(-1)).sum(0) * WIDTH for part in (first, second))
    torch.testing.assert_close(in_mean, weights * slope, rtol=1e-8, atol=1e-10)
    # d sigma^2 / d log sigma = 2 sigma^2
    torch.testing.assert_close(
        in_log_deviation, weights * curvature * (2.0 * log_deviations).exp(), rtol=1e-8, atol=1e-10
    )


@pytest.mark.parametrize("beta", [0.1, 0.5, 1.0])
def test_appendix_f_weight_updates_agree(beta):
    """A step along the natural gradient of the weights, the optimum of VIPS for one multiplier, and the module."""
    parameters = random_parameters(4)
    log_weights, reward = parameters[0].log_softmax(-1), rewards(*parameters)
    # natural parameters log w_o/w_K, o < K; their Fisher matrix is that of the categorical distribution
    free = (log_weights[:-1] - log_weights[-1]).clone().requires_grad_(True)
    value = elbo(torch.cat([free, free.new_zeros(1)]), *parameters[1:])
    (gradient,) = torch.autograd.grad(value, free)
    weights = log_weights.exp()[:-1]
    natural = torch.linalg.solve(torch.diag(weights) - torch.outer(weights, weights), gradient)
    torch.testing.assert_close(natural, reward[:-1] - reward[-1], rtol=1e-8, atol=1e-10)
    stepped = torch.cat([free.detach() + beta * natural, free.new_zeros(1)]).softmax(-1)

    eta = 1.0 / beta - 1.0
    of_vips = reward + log_weights  # E_o[log p~ + log q(o|x)] + H(q(x|o))

    def negative(logits) -> tuple[float, torch.Tensor]:
        leaf = torch.tensor(logits, requires_grad=True)
        new = leaf.log_softmax(-1)
        loss = -(new.exp() * (of_vips - new - eta * (new - log_weights))).sum()
        (slope,) = torch.autograd.grad(loss, leaf)
        return float(loss.detach()), slope.numpy()

    solved = minimize(negative, log_weights.numpy(), jac=True, options={"gtol": 1e-12}).x
    change = DirectWeights()(log_weights.unsqueeze(0), reward.unsqueeze(0), torch.tensor(beta).double())
    module = change.followed(log_weights, reward).softmax(-1)
    torch.testing.assert_close(stepped, module, rtol=1e-8, atol=1e-12)
    # a numerical optimum: half of the digits
    torch.testing.assert_close(torch.tensor(solved).softmax(-1), module, rtol=1e-6, atol=1e-8)
