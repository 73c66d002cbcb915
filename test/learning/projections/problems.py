"""Trust-region problems of linear experts, and their solution in the natural parameters of the thesis.

This module and `eim_ros.learning.projections.gaussian` share no formula. All values are computed in the coordinates
of x, for one context and one expert at a time (thesis A.4, equations A.16 to A.18).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from learning.models.random_models import generator_of, normal, random_experts
from torch import Tensor

from eim_ros.learning.models import Gaussian, LinearExperts
from eim_ros.learning.projections import GaussianUpdate, QuadraticSurrogate

__all__ = ["ExpertProblem", "Problem", "bounds_of", "random_problem", "sampled_ratios"]


@dataclass(frozen=True)
class Problem:
    """Old experts, surrogates in terms of whitened residuals, and contexts (n_components, n_samples, n_context)."""

    experts: LinearExperts
    surrogate: QuadraticSurrogate
    context: Tensor

    def expert(self, index: int) -> ExpertProblem:
        one = slice(index, index + 1)
        return ExpertProblem(*(value[one][0].numpy() for value in self._parts()))

    @classmethod
    def of(
        cls, weights: Tensor, biases: Tensor, factors: Tensor, curvature: Tensor, linear: Tensor, context: Tensor
    ) -> Problem:
        extended = torch.cat([context, torch.ones_like(context[..., :1])], -1) if context.shape[-1] else None
        moment = torch.ones(len(context), 1, 1).double() if extended is None else extended.mT @ extended
        moment = moment if extended is None else moment / context.shape[1]
        return cls(LinearExperts(weights, biases, factors), QuadraticSurrogate(curvature, linear, moment), context)

    def _parts(self) -> tuple[Tensor, ...]:
        experts, surrogate = self.experts, self.surrogate
        return (
            experts.weights,
            experts.biases,
            experts.scale_trils,
            surrogate.curvature,
            surrogate.linear,
            self.context,
        )

    def primal(self, update: GaussianUpdate) -> tuple[Tensor, Tensor, Tensor]:
        """Return E[phi] - KL, KL, and the change of entropy, each (n_components,), from sums over contexts."""
        old, new = self.experts, update.experts
        old_mean = self.context @ old.weights.mT + old.biases.unsqueeze(1)
        new_mean = self.context @ new.weights.mT + new.biases.unsqueeze(1)
        before, after = (
            Gaussian(mean, experts.scale_trils.unsqueeze(1)) for mean, experts in ((old_mean, old), (new_mean, new))
        )
        step = before.whiten(new_mean)
        factor = torch.linalg.solve_triangular(old.scale_trils, new.scale_trils, upper=False)
        curvature, linear = self.surrogate.curvature, self.surrogate.linear
        slope = self.context @ linear[..., :-1].mT + linear[..., -1].unsqueeze(1)
        trace = torch.einsum("kij,kjl,kil->k", curvature, factor, factor)
        quadratic = torch.einsum("kni,kij,knj->kn", step, curvature, step)
        phi = -0.5 * (trace.unsqueeze(1) + quadratic) + (step * slope).sum(-1)
        kl = after.kl(before).mean(1)
        return phi.mean(1) - kl, kl, (after.entropy() - before.entropy()).squeeze(1)


@dataclass(frozen=True)
class ExpertProblem:
    """The problem of one expert in NumPy."""

    weights: np.ndarray
    bias: np.ndarray
    factor: np.ndarray
    curvature: np.ndarray
    linear: np.ndarray
    context: np.ndarray

    def natural(self) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
        """Return (Q_old, L_old, l_old) and the surrogate's (R_xx, R_xy, r_x) in the coordinates of x."""
        precision = np.linalg.inv(self.factor @ self.factor.T)
        whitening = np.linalg.inv(self.factor)
        curvature = whitening.T @ self.curvature @ whitening
        slope, intercept = whitening.T @ self.linear[:, :-1], whitening.T @ self.linear[:, -1]
        old = (precision, precision @ self.weights, precision @ self.bias)
        return old, (curvature, curvature @ self.weights + slope, curvature @ self.bias + intercept)

    def updated(self, eta: float, omega: float) -> tuple[np.ndarray, ...]:
        """Return (Q, L, l) from equation A.18."""
        old, reward = self.natural()
        return tuple(((eta + 1.0) * q + r) / (eta + 1.0 + omega) for q, r in zip(old, reward, strict=True))


def random_problem(seed: int, n_components: int, n_dims: int, n_context: int) -> Problem:
    """Return a problem whose indefinite curvatures differ by up to four orders of magnitude."""
    generator = generator_of(seed)
    experts = random_experts(seed, n_components, n_dims, n_context)
    size = 10.0 ** (4.0 * torch.rand(n_components, generator=generator, dtype=torch.float64) - 2.0)
    root = normal(generator, n_components, n_dims, n_dims) * size.sqrt()[:, None, None]
    linear = normal(generator, n_components, n_dims, n_context + 1) * size.sqrt()[:, None, None]
    context = normal(generator, n_components, 20, n_context) + 1.0
    return Problem.of(experts.weights, experts.biases, experts.scale_trils, 0.5 * (root + root.mT), linear, context)


def sampled_ratios(seed: int, k: int = 3) -> tuple[Tensor, Tensor]:
    """Return phi and log q_old, each (k, 8, 40), at samples of k experts with different scales for eight contexts."""
    generator = generator_of(seed)
    residual, shift = normal(generator, k, 8, 40), normal(generator, k, 8, 1)
    scale = torch.tensor([0.5, 1.0, 2.0])[:k, None, None].double()
    return 2.0 * torch.sin(2.0 * residual + shift) - residual, -0.5 * residual.square() - scale.log()


def bounds_of(seed: int) -> tuple[float, float]:
    """Return bounds of the KL and of the entropy loss. Each bound is active for some experts."""
    return [(0.01, 0.005), (0.1, 0.01), (1.0, 0.0), (0.05, math.inf), (10.0, 0.3)][seed % 5]
