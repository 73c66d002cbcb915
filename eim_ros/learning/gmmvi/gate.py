"""Softmax gating at the contexts of an iteration. The gating defines a weight and a density of contexts for each
component.

    q(o|y) = softmax(V y + v)_o,   q(o) = E_y q(o|y),   p(y|o) = p(y) q(o|y)/q(o)

Here p(y) is uniform over the given contexts. A mixture of experts is a mixture of joint densities of contexts and
samples: q(x|y) p(y) = sum_o q(o) p(y|o) N(x|o, y). Therefore, the update rules of a mixture apply. Relative to p(y),
the log density of a component is log q(o|y)/q(o) + log N(x|o, y).

Linear functions of the context use the features [1, u] of each component, with y = m_o + T_o u. Here m_o and T_o T_o'
are the mean and covariance of p(y|o), so the matrix of second moments of the features under p(y|o) is the identity.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from eim_ros.learning.models.linear import SoftmaxGating

CHUNK_ELEMENTS = 262_144  # number of probabilities per block; a block fits into the cache
RIDGE = 1e-6  # relative to the variances of the contexts; needed for constant columns and single contexts
N_CONTEXTS = 2000  # approximate number of contexts at which the Fisher matrix is evaluated
DAMPING = 0.01  # damping of the Fisher matrix, in units of a component's probability
N_STEPS = 10  # number of steps of conjugate gradients


@dataclass(frozen=True)
class ContextGate:
    """All or some components of a softmax gating, with the contexts of an iteration."""

    weights: Tensor  # (n_components, n_context), V
    biases: Tensor  # (n_components,), v
    context: Tensor  # (n_contexts, n_context)
    whole: SoftmaxGating | None = None  # gating with all components, if this object contains only some of them

    @property
    def n_context(self) -> int:
        return self.weights.shape[1]

    @property
    def gating(self) -> SoftmaxGating:
        """Gating to which these components belong."""
        return self.whole or SoftmaxGating(self.weights, self.biases)

    @cached_property
    def log_probs(self) -> Tensor:
        """Values log q(o|y) at the contexts [nat], (n_contexts, n_components)."""
        if self.whole is None:
            return SoftmaxGating(self.weights, self.biases)(self.context)
        return self._logits(self.context) - log_normaliser(self.whole, self.context).unsqueeze(-1)

    @cached_property
    def log_mass(self) -> Tensor:
        """Values log q(o) [nat], (n_components,)."""
        return torch.logsumexp(self.log_probs, 0) - math.log(len(self.context))

    @cached_property
    def shares(self) -> Tensor:
        """Probabilities p(y|o) of the contexts, (n_contexts, n_components)."""
        return torch.softmax(self.log_probs, 0)

    @cached_property
    def center(self) -> Tensor:
        """Means m_o of the contexts under p(y|o), (n_components, n_context)."""
        return self.shares.T @ self.context

    @cached_property
    def scale_tril(self) -> Tensor:
        """Lower Cholesky factors T_o of the covariances of the contexts, (n_components, n_context, n_context)."""
        middle = self.context.mean(0)
        local, mean = self.context - middle, self.center - middle
        products = (local.unsqueeze(-1) * local.unsqueeze(-2)).flatten(1)
        second = (self.shares.T @ products).reshape(-1, self.n_context, self.n_context)
        variance = local.square().mean(0)
        variance = torch.where(variance > 0.0, variance, torch.ones_like(variance))
        covariance = second - mean.unsqueeze(-1) * mean.unsqueeze(-2) + torch.diag(RIDGE * variance)
        factor: Tensor = torch.linalg.cholesky(covariance)
        return factor

    def log_prob(self, context: Tensor) -> Tensor:
        """Return log p(y|o)/p(y) [nat], (n_samples, n_components), at any contexts (n_samples, n_context)."""
        normaliser = log_normaliser(self.gating, context).unsqueeze(-1)
        return self._logits(context) - self.log_mass - normaliser

    def features(self, context: Tensor) -> Tensor:
        """Return u for contexts (n_components, n_samples, n_context), with the same shape."""
        local = (context - self.center.unsqueeze(1)).mT
        solved: Tensor = torch.linalg.solve_triangular(self.scale_tril, local, upper=False)
        return solved.mT

    def linear(self, coefficients: Tensor) -> Tensor:
        """Convert coefficients of [1, u] to coefficients of [y, 1], (n_components, ..., n_context + 1)."""
        intercept, slope = coefficients[..., :1], coefficients[..., 1:]
        extra = slope.dim() - 2
        factor = self.scale_tril.reshape(-1, *[1] * extra, *self.scale_tril.shape[1:])
        center = self.center.reshape(-1, *[1] * extra, self.n_context)
        weights = torch.linalg.solve_triangular(factor.mT, slope.unsqueeze(-1), upper=True).squeeze(-1)
        return torch.cat([weights, intercept - (weights * center).sum(-1, keepdim=True)], -1)

    def moments(self, ratios: Tensor, context: Tensor, values: Tensor) -> Tensor:
        """Return sums over contexts of values times q(o|y)/q(o) times features, (n_components, n_context + 1).

        The ratios q(o|y)/q(o) have the shape (n_samples, n_components) and belong to contexts (n_samples, n_context).
        The values have the shape of the ratios, or (n_samples, 1) if all components have the same values.
        """
        extended = torch.cat([context, torch.ones_like(context[:, :1])], -1)
        sums = ratios.T @ (values * extended) if values.shape[-1] == 1 else (ratios * values).T @ extended
        local = (sums[:, :-1] - sums[:, -1:] * self.center).unsqueeze(-1)
        slope = torch.linalg.solve_triangular(self.scale_tril, local, upper=False).squeeze(-1)
        return torch.cat([sums[:, -1:], slope], -1)

    def values(self, coefficients: Tensor) -> Tensor:
        """Evaluate the functions with coefficients (n_components, n_context + 1) at the contexts.

        The result has the shape (n_contexts, n_components).
        """
        linear = self.linear(coefficients)
        return torch.addmm(linear[:, -1], self.context, linear[:, :-1].T)

    def sample(self, n_samples: int, generator: torch.Generator) -> Tensor:
        """Draw `n_samples` contexts from p(y|o) for each component, (n_components, n_samples, n_context)."""
        shape = (len(self.weights), n_samples)
        if len(self.context) == 1:
            return self.context.expand(*shape, self.n_context)
        level = torch.rand(shape, generator=generator, dtype=self.context.dtype, device=self.context.device)
        shares, step = self.shares.T, max(1, CHUNK_ELEMENTS // len(self.context))
        index = []
        for start in range(0, len(shares), step):
            cumulative = shares[start : start + step].cumsum(-1)
            share = level[start : start + step] * cumulative[:, -1:]
            index.append(torch.searchsorted(cumulative, share, right=True))
        return self.context[torch.cat(index).clamp_max(len(self.context) - 1)]

    def at(self, context: Tensor) -> ContextGate:
        """Return the same gating at other contexts."""
        return self if context is self.context else ContextGate(self.weights, self.biases, context, self.whole)

    def take(self, index: Tensor) -> ContextGate:
        """Return a subset of the components, with unchanged probabilities."""
        return ContextGate(self.weights[index], self.biases[index], self.context, self.gating)

    def _logits(self, context: Tensor) -> Tensor:
        return torch.addmm(self.biases, context, self.weights.T)


def log_normaliser(gating: SoftmaxGating, context: Tensor) -> Tensor:
    """Return log sum_o exp(V y + v)_o [nat], (n_samples,), at contexts (n_samples, n_context)."""
    step = max(1, CHUNK_ELEMENTS // gating.n_components)
    parts = [torch.addmm(gating.biases, rows, gating.weights.T).logsumexp(-1) for rows in context.split(step)]
    return torch.cat(parts)


def with_common_rest(
    gate: ContextGate,
    fitted: Tensor,  # r, (n_components, n_context + 1), coefficients of the features of each component
    context: Tensor,  # (n_samples, n_context), contexts of the samples
    value: Tensor,  # (n_samples,), R [nat] at the samples
    share: Tensor,  # (n_samples,), weights of the samples for the mixture
    n_effective: Tensor,  # (n_components,), effective sample size of each component
    *,
    n_steps: int = N_STEPS,  # number of steps of conjugate gradients
) -> Tensor:
    """Compute the natural gradient rho of the gating from linear fits r of the rewards.

    Let g be the gradient of E_y sum_o q(o|y) R_o(y) with respect to the coefficients of the features f_o, and F the
    Fisher matrix. Divided by q(o), g and the product of F with coefficients rho are

        g_o = E_o[(R_o(y) - R(y)) f_o],                   R(y) = sum_o q(o|y) R_o(y)
        (F rho)_o = E_o[(rho_o'f_o - rho(y)) f_o],        rho(y) = sum_o q(o|y) rho_o'f_o

    If R_o = r_o'f_o, then r is the natural gradient. Otherwise r_o is the least-squares fit of R_o over p(y|o), and

        rho = r + d,    F d = -E_o[n(y) f_o],    n(y) = sum_o q(o|y) (R_o(y) - r_o'f_o(y)).

    Linear functions cannot represent the residual n. For example, some contexts may be hard for all components. Without
    d, each component would treat its own linear part of this residual as an advantage. Conjugate gradients solve the
    system for d, because they need only products of F with vectors.
    """
    probs = gate.log_prob(context).exp()  # q(o|y)/q(o)
    mass = gate.log_mass.exp().unsqueeze(-1)
    linear = gate.linear(fitted)
    mean = (probs * torch.addmm(linear[:, -1], context, linear[:, :-1].T)) @ mass.squeeze(-1)
    rest = share * (value - mean)
    rest = rest - share * (rest.sum() / share.sum())
    right = gate.moments(probs, context, rest.unsqueeze(-1))
    # Components with few effective samples need more damping.
    damping = DAMPING + fitted.shape[1] / n_effective.unsqueeze(-1)
    every = max(1, len(gate.context) // N_CONTEXTS)
    places, ratios = gate.context[::every], gate.log_probs[::every].exp() / mass.squeeze(-1)

    def product(rho: Tensor) -> Tensor:
        linear = gate.linear(rho)
        values = torch.addmm(linear[:, -1], places, linear[:, :-1].T)
        values = values - (ratios * values) @ mass
        return gate.moments(ratios, places, values / len(places)) + damping * rho

    return fitted - _conjugate_gradients(product, right, mass, n_steps)


def _conjugate_gradients(product: Callable[[Tensor], Tensor], right: Tensor, mass: Tensor, n_steps: int) -> Tensor:
    """Solve product(d) = right for d, where the product is symmetric in the metric of the masses (n_components, 1)."""
    solution, residual = torch.zeros_like(right), right
    direction, size = residual, (mass * residual.square()).sum()
    for _ in range(n_steps):
        if not float(size) > 0.0:
            break
        image = product(direction)
        length = size / (mass * direction * image).sum()
        solution, residual = solution + length * direction, residual - length * image
        new_size = (mass * residual.square()).sum()
        direction, size = residual + new_size / size * direction, new_size
    return solution
