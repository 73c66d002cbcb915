"""Trust-region I-projection of a gating, within its own family (thesis 4.2.1, equation 4.3).

Over the parameters theta of the gating, with rewards phi(y, z),

    maximise E_y sum_z q(z|y) phi(y, z) - kl_weight E_y KL(q(z|y) || q_old(z|y))
    subject to E_y KL(q || q_old) <= kl_bound and E_y H(q) >= E_y H(q_old) - entropy_loss_bound.

The thesis projects the probabilities of each context on its own and then fits the gating to them by cross entropy.
Rewards from one sample per context are noisy, the softmax of a noisy reward is biased, and the trust region is spent on
noise that the fit averages away: the gating hardly moves. Here the Lagrangian, in which rewards enter linearly, is
maximised over theta itself by L-BFGS, so noise averages out and the bounds hold for the gating that is returned.

Its multipliers come from what it has found. With a = kl_weight + eta and s = a + omega its maximiser satisfies

    s log q = a log q_old + rho(y, z) + const(y),

where rho is what the family can represent of the rewards, hardly dependent on a and s. So a maximiser for wrong
multipliers tells rho; the projection of probabilities with rho for rewards (`categorical`) tells the right ones, both
of them at once, and a linear gating then moves there exactly: its logits are a sum of the old ones and of rho. A few
turns settle it. Without contexts the first one does, and `project_categorical` has the closed form.

The search starts from rho = 0, that is from (a/s) log q_old, and not from q_old: what L-BFGS does not move counts as
rho, and a component without weight would be punished for the bound on the entropy, more so in each update.

L-BFGS follows the gradient in theta, which vanishes with a component's probability, so that one which has once lost its
weight hardly comes back, however great its reward. Where rewards are exact, that is a loss: then a linear gating can be
fitted in coordinates in which the Fisher matrix is about the identity (natural gradient). What such a component gains
is known at few contexts: its step is damped the more, the fewer it has, and bounded. Where the ratio is estimated, it
is least known where the model has no samples, and the plain gradient is the default.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from eim_ros.distributions.parts import Gating
from eim_ros.projections.categorical_dual import LEAST_WEIGHT, CategoricalDual, mean_entropy, mean_kl
from eim_ros.projections.gating_families import FloatArray, GatingFamily, family_of

__all__ = ["GatingUpdate", "project_gating"]

MAX_TURNS = 8
SETTLED = 0.01  # relative change of the multipliers in a turn that counts as none
LARGEST_STEP = 1.0  # natural gradient: [nat] of a component's logits in each direction; the KL's bound if larger
MAX_SHORTENINGS = 20


@dataclass(frozen=True)
class GatingUpdate:
    """Result of the projection.

    Attributes
    ----------
    gating : Gating
        The old one if no step was feasible or the rewards are not finite.
    eta, omega : float
        Multipliers of the KL and of the entropy constraint: where one is above zero, its bound is met (by a linear
        gating to a few millionths, by a neural one about).
    kl : float
        Mean KL(new || old) over the contexts [nat].
    entropy_change : float
        Mean H(new) - H(old) [nat].
    feasible : bool
    """

    gating: Gating
    eta: float
    omega: float
    kl: float
    entropy_change: float
    feasible: bool


def project_gating(
    old: Gating,
    context: Tensor,
    reward: Tensor,
    kl_bound: float,
    entropy_loss_bound: float,
    *,
    kl_weight: float = 1.0,
    natural: bool = False,
    max_iterations: int = 15,
) -> GatingUpdate:
    """Improve a gating by rewards of its components.

    Parameters
    ----------
    old : Gating
    context : Tensor (n_contexts, n_context)
    reward : Tensor (n_contexts, n_components)
        phi(y, z) [nat], each of which may be a single noisy sample.
    kl_bound, entropy_loss_bound : float
        Largest mean KL and largest mean loss of entropy [nat].
    kl_weight : float
        Weight of the KL term of the objective, >= 0.
    natural : bool
        Whether a linear gating follows the natural gradient.
    max_iterations : int
        Of L-BFGS for one pair of multipliers.

    Returns
    -------
    GatingUpdate
    """
    unchanged = GatingUpdate(old, float("inf"), 0.0, 0.0, 0.0, False)
    if old.n_components == 1 or not bool(torch.isfinite(reward).all()):
        return unchanged
    family = family_of(old, context, natural=natural)
    problem = _Problem.of(family, reward, kl_bound, entropy_loss_bound, kl_weight)
    solved = problem.solved(max_iterations) if kl_bound > 0.0 else None
    if solved is None:
        return unchanged
    flat, eta, omega = solved
    gating = family.build(flat)
    if not all(bool(torch.isfinite(value).all()) for value in gating.tensors().values()):
        return unchanged
    log_probs = family.log_probs(flat)
    kl = float(mean_kl(log_probs, problem.old_log_probs))
    change = float(mean_entropy(log_probs) - mean_entropy(problem.old_log_probs))
    return GatingUpdate(gating, eta, omega, kl, change, bool((flat != family.start).any()))


@dataclass(frozen=True)
class _Problem:
    family: GatingFamily
    old_log_probs: Tensor
    reward: Tensor  # centred
    bounds: tuple[float, float]
    kl_weight: float

    @classmethod
    def of(
        cls, family: GatingFamily, reward: Tensor, kl_bound: float, entropy_loss_bound: float, kl_weight: float
    ) -> _Problem:
        old_log_probs = family.log_probs(family.start)
        centred = reward - (old_log_probs.exp() * reward).sum(-1, keepdim=True)
        return cls(family, old_log_probs, centred, (kl_bound, entropy_loss_bound), max(kl_weight, LEAST_WEIGHT))

    def solved(self, max_iterations: int) -> tuple[FloatArray, float, float] | None:
        """Parameters at which both bounds hold, with their multipliers; None if no multipliers were found."""
        multipliers = self._multipliers(self.reward, None)
        if multipliers is None:
            return None
        a = self.kl_weight + multipliers[0]
        flat = self.family.combined(self.family.start, a / (a + multipliers[1]), 0.0)  # rho = 0
        for _ in range(MAX_TURNS):
            a = self.kl_weight + multipliers[0]
            s = a + multipliers[1]
            flat = self._maximiser(*multipliers, flat, max_iterations)
            represented = s * self.family.log_probs(flat) - a * self.old_log_probs
            multipliers = self._multipliers(represented, multipliers)
            if multipliers is None:
                break
            new_a = self.kl_weight + multipliers[0]
            new_s = new_a + multipliers[1]
            flat = self.family.combined(flat, s / new_s, (new_a - a) / new_s)
            if abs(new_a - a) <= SETTLED * a and abs(new_s - s) <= SETTLED * s:
                break
        return (self._shortened(flat), *multipliers) if multipliers is not None else None

    def _multipliers(self, reward: Tensor, start: tuple[float, float] | None) -> tuple[float, float] | None:
        """Of the projection of the probabilities themselves."""
        return CategoricalDual(self.old_log_probs, reward, *self.bounds, self.kl_weight).multipliers(start)

    def _maximiser(self, eta: float, omega: float, start: FloatArray, max_iterations: int) -> FloatArray:
        """Of the Lagrangian, in units in which it is of the order of one."""
        weight = self.kl_weight + eta
        unit = max(weight, float(self.reward.abs().mean()), 1e-300)
        fixed = torch.add(self.reward, self.old_log_probs, alpha=weight).div_(unit)
        slope = (weight + omega) / unit

        def negative(log_probs: Tensor) -> tuple[float, Tensor]:
            probabilities = log_probs.exp()
            value = torch.add(fixed, log_probs, alpha=-slope)
            mean = torch.linalg.vecdot(probabilities, value).unsqueeze(-1)
            return -float(mean.mean()), torch.sub(mean, value, out=value).mul_(probabilities).div_(len(value))

        def objective(flat: FloatArray) -> tuple[float, FloatArray]:
            return self.family.value_and_gradient(flat, negative)

        result = minimize(
            objective,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=self.family.limits(max(LARGEST_STEP, self.bounds[0])),
            options={"maxiter": max_iterations},
        )
        return np.asarray(result.x) if np.isfinite(result.x).all() else start

    def _shortened(self, flat: FloatArray) -> FloatArray:
        """The farthest point tried on the way back to the start at which both bounds hold."""
        (kl_bound, loss_bound), start = self.bounds, self.family.start
        old_entropy = float(mean_entropy(self.old_log_probs))
        fraction = 1.0
        for _ in range(MAX_SHORTENINGS):
            candidate = start + fraction * (flat - start)
            log_probs = self.family.log_probs(candidate)
            kl = float(mean_kl(log_probs, self.old_log_probs))
            loss = old_entropy - float(mean_entropy(log_probs))
            if kl <= kl_bound and loss <= loss_bound:
                return candidate
            by_kl = math.sqrt(kl_bound / kl) if kl > kl_bound else 1.0  # the KL is about quadratic in the fraction
            by_entropy = loss_bound / loss if loss > loss_bound else 1.0
            fraction *= max(0.1, 0.999 * min(by_kl, by_entropy))
        return start
