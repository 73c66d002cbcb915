"""A softmax gating at the contexts of an iteration, as weights of components and as a context density of each.

    q(o|y) = softmax(V y + v)_o,   q(o) = E_y q(o|y),   p(y|o) = p(y) q(o|y)/q(o)

where p(y) are the contexts that are given, each equally likely. So a mixture of experts is a mixture of densities of
contexts and samples, q(x|y) p(y) = sum_o q(o) p(y|o) N(x|o, y), and the rules of a mixture hold for it. Relative to
p(y) their log densities are log q(o|y)/q(o) + log N(x|o, y).

What depends on the context linearly is written in a component's own features of it, [1, u] with y = m_o + T_o u, where
m_o and T_o T_o' are mean and covariance of p(y|o): their second moments under it are the identity.

The natural gradient of a softmax gating whose rewards are not linear in the context.

The gradient of E_y sum_o q(o|y) R_o(y) in the logits' coefficients of the features f_o, and the Fisher matrix times
such coefficients rho, both over q(o), are

    g_o = E_o[(R_o(y) - R(y)) f_o],                   R(y) = sum_o q(o|y) R_o(y)
    (F rho)_o = E_o[(rho_o'f_o - rho(y)) f_o],        rho(y) = sum_o q(o|y) rho_o'f_o

If R_o = r_o'f_o then r is the natural gradient. Otherwise, with r_o the least squares fit of R_o over p(y|o), it is

    rho = r + d,    F d = -E_o[n(y) f_o],    n(y) = sum_o q(o|y) (R_o(y) - r_o'f_o(y))

where n is what linear functions leave of the rewards. Some of it is common to all components: contexts that are hard
for every one of them. Without d each of them would take its own linear part of that for a merit. Conjugate gradients
find it: they need F times a vector only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from eim_ros.learning.models.linear import SoftmaxGating

CHUNK_ELEMENTS = 262_144  # probabilities at a time: they stay in cache
RIDGE = 1e-6  # of the contexts' variances, added to those of each component: one that has a single context, or a column
# of contexts that is constant, has no slope to learn


@dataclass(frozen=True)
class ContextGate:
    """Some or all of the components of a softmax gating, with the contexts of an iteration.

    Attributes
    ----------
    weights : Tensor (n_components, n_context)
        V.
    biases : Tensor (n_components,)
        v.
    context : Tensor (n_contexts, n_context)
    whole : SoftmaxGating, optional
        All components, where these are some of them; these are all if missing.
    """

    weights: Tensor
    biases: Tensor
    context: Tensor
    whole: SoftmaxGating | None = None

    @property
    def n_context(self) -> int:
        return self.weights.shape[1]

    @property
    def gating(self) -> SoftmaxGating:
        """The gating that these components are of."""
        return self.whole or SoftmaxGating(self.weights, self.biases)

    @cached_property
    def log_probs(self) -> Tensor:
        """log q(o|y) at the contexts [nat], (n_contexts, n_components)."""
        if self.whole is None:
            return SoftmaxGating(self.weights, self.biases)(self.context)
        return self._logits(self.context) - log_normaliser(self.whole, self.context).unsqueeze(-1)

    @cached_property
    def log_mass(self) -> Tensor:
        """log q(o) [nat], (n_components,)."""
        return torch.logsumexp(self.log_probs, 0) - math.log(len(self.context))

    @cached_property
    def shares(self) -> Tensor:
        """p(y|o) of the contexts, (n_contexts, n_components)."""
        return torch.softmax(self.log_probs, 0)

    @cached_property
    def center(self) -> Tensor:
        """m, (n_components, n_context)."""
        return self.shares.T @ self.context

    @cached_property
    def scale_tril(self) -> Tensor:
        """T, (n_components, n_context, n_context), lower."""
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
        """log p(y|o)/p(y) [nat], (n_samples, n_components), of any contexts (n_samples, n_context)."""
        normaliser = log_normaliser(self.gating, context).unsqueeze(-1)
        return self._logits(context) - self.log_mass - normaliser

    def features(self, context: Tensor) -> Tensor:
        """u of contexts (n_components, n_samples, n_context), of the same shape."""
        local = (context - self.center.unsqueeze(1)).mT
        solved: Tensor = torch.linalg.solve_triangular(self.scale_tril, local, upper=False)
        return solved.mT

    def linear(self, coefficients: Tensor) -> Tensor:
        """Coefficients of [y, 1], (n_components, ..., n_context + 1), from those of [1, u], of the same shape."""
        intercept, slope = coefficients[..., :1], coefficients[..., 1:]
        extra = slope.dim() - 2
        factor = self.scale_tril.reshape(-1, *[1] * extra, *self.scale_tril.shape[1:])
        center = self.center.reshape(-1, *[1] * extra, self.n_context)
        weights = torch.linalg.solve_triangular(factor.mT, slope.unsqueeze(-1), upper=True).squeeze(-1)
        return torch.cat([weights, intercept - (weights * center).sum(-1, keepdim=True)], -1)

    def moments(self, ratios: Tensor, context: Tensor, values: Tensor) -> Tensor:
        """Sums over contexts of values times q(o|y)/q(o) times the features, (n_components, n_context + 1).

        Parameters
        ----------
        ratios : Tensor (n_samples, n_components)
            q(o|y)/q(o).
        context : Tensor (n_samples, n_context)
        values : Tensor (n_samples, n_components), or (n_samples, 1) for the same of all components
        """
        extended = torch.cat([context, torch.ones_like(context[:, :1])], -1)
        sums = ratios.T @ (values * extended) if values.shape[-1] == 1 else (ratios * values).T @ extended
        local = (sums[:, :-1] - sums[:, -1:] * self.center).unsqueeze(-1)
        slope = torch.linalg.solve_triangular(self.scale_tril, local, upper=False).squeeze(-1)
        return torch.cat([sums[:, -1:], slope], -1)

    def values(self, coefficients: Tensor) -> Tensor:
        """At the contexts, (n_contexts, n_components), the functions of coefficients (n_components, n_context + 1)."""
        linear = self.linear(coefficients)
        return torch.addmm(linear[:, -1], self.context, linear[:, :-1].T)

    def sample(self, n_samples: int, generator: torch.Generator) -> Tensor:
        """So many contexts of each component, (n_components, n_samples, n_context), drawn from p(y|o)."""
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
        """The same gating at other contexts."""
        return self if context is self.context else ContextGate(self.weights, self.biases, context, self.whole)

    def take(self, index: Tensor) -> ContextGate:
        """Some of the components, of the probabilities that they have."""
        return ContextGate(self.weights[index], self.biases[index], self.context, self.gating)

    def _logits(self, context: Tensor) -> Tensor:
        return torch.addmm(self.biases, context, self.weights.T)


def log_normaliser(gating: SoftmaxGating, context: Tensor) -> Tensor:
    """log sum_o exp(V y + v)_o [nat], (n_samples,), of contexts (n_samples, n_context)."""
    step = max(1, CHUNK_ELEMENTS // gating.n_components)
    parts = [torch.addmm(gating.biases, rows, gating.weights.T).logsumexp(-1) for rows in context.split(step)]
    return torch.cat(parts)


N_CONTEXTS = 2000  # of those of the gate, at which the Fisher matrix is taken
DAMPING = 0.01  # added to the Fisher matrix, in units of a component's probability; and one per effective sample and
# feature: what few samples tell is damped
N_STEPS = 10  # of conjugate gradients


def with_common_rest(
    gate: ContextGate,
    fitted: Tensor,
    context: Tensor,
    value: Tensor,
    share: Tensor,
    n_effective: Tensor,
    *,
    n_steps: int = N_STEPS,
) -> Tensor:
    """The natural gradient rho from the fits r.

    Parameters
    ----------
    gate : ContextGate
    fitted : Tensor (n_components, n_context + 1)
        r, of the features of each component.
    context : Tensor (n_samples, n_context)
        Contexts of samples.
    value : Tensor (n_samples,)
        R [nat] at the samples.
    share : Tensor (n_samples,)
        Weights of the samples for the mixture.
    n_effective : Tensor (n_components,)
        Effective number of samples of each component.
    n_steps : int

    Returns
    -------
    Tensor (n_components, n_context + 1)
    """
    probs = gate.log_prob(context).exp()  # over q(o)
    mass = gate.log_mass.exp().unsqueeze(-1)
    linear = gate.linear(fitted)
    mean = (probs * torch.addmm(linear[:, -1], context, linear[:, :-1].T)) @ mass.squeeze(-1)
    rest = share * (value - mean)
    rest = rest - share * (rest.sum() / share.sum())
    right = gate.moments(probs, context, rest.unsqueeze(-1))
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
    """Solution of product(d) = right, where the product is symmetric in the metric of masses (n_components, 1)."""
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
