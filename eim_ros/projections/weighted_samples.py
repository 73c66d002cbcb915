"""Trust-region I-projection by weights of samples, for experts without a closed form (thesis 4.2.3, A.4.3).

Each expert maximises E[phi] - tau KL(new || old) subject to KL(new || old) <= kl_bound and H(new) >= H(old) -
entropy_loss_bound, means over its contexts y_j (tau = 1 in the thesis). With samples x_jm of the old expert at y_j,
a = eta + tau and s = a + omega, the new one is the old one's samples with weights

    w_jm ~ exp{(phi(x_jm, y_j) - omega log q_old(x_jm|y_j))/s},    sum_m w_jm = 1 for each j,
    KL(new || old) = mean_j sum_m w_jm log(M w_jm),
    H(new)         = -KL(new || old) - mean_j sum_m w_jm log q_old(x_jm|y_j).

For a fixed a the entropy rises with omega, and with the least feasible omega the KL falls with a: two nested monotone
root-finds, as in `categorical_dual`. The sum over a context's weights is what keeps p(y) as it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.numerics.roots import decreasing_root

__all__ = ["WeightedSamples", "weigh_samples"]

TOLERANCE = 1e-4  # relative width of the bracket of a multiplier; the feasible end is returned
LEAST_MULTIPLIER = 1e-12  # of a, where no KL term holds it up


@dataclass(frozen=True)
class WeightedSamples:
    """Result of the projection, one entry per expert.

    Attributes
    ----------
    weights : Tensor (n_components, n_contexts, n_samples)
        Sum to 1 over the samples of a context.
    eta, omega : Tensor (n_components,)
        Multipliers of the KL and of the entropy constraint, >= 0.
    kl : Tensor (n_components,)
        Mean KL(new || old) over the contexts, estimated from the samples [nat].
    entropy_change : Tensor (n_components,)
        Mean H(new) - H(old), estimated likewise [nat].
    feasible : Tensor (n_components,) of bool
        False where no multiplier met the bounds (phi not finite); weights then are equal, which changes nothing.
    """

    weights: Tensor
    eta: Tensor
    omega: Tensor
    kl: Tensor
    entropy_change: Tensor
    feasible: Tensor


def weigh_samples(
    log_ratio: Tensor,
    old_log_prob: Tensor,
    kl_bound: float,
    entropy_loss_bound: float,
    *,
    kl_weight: float = 1.0,
) -> WeightedSamples:
    """Weights of samples drawn from the old experts, all experts at once.

    Parameters
    ----------
    log_ratio : Tensor (n_components, n_contexts, n_samples)
        phi of the samples [nat]; minus infinity rules a sample out.
    old_log_prob : Tensor (n_components, n_contexts, n_samples)
        log q_old(x|y, z) of the samples under their own expert [nat].
    kl_bound : float
        Largest mean KL(new || old) [nat], > 0; infinite for none.
    entropy_loss_bound : float
        Largest loss of entropy [nat], >= 0; infinite for none.
    kl_weight : float
        tau >= 0, the weight of the KL in the objective, as in `project_experts`.
    """
    usable = (log_ratio < torch.inf).flatten(1).all(-1) & torch.isfinite(old_log_prob).flatten(1).all(-1)
    usable = usable & (log_ratio.amax(-1) > -torch.inf).all(-1)  # else some context has no sample left
    mask = usable[:, None, None]
    dual = _Dual(
        torch.where(mask, log_ratio, torch.zeros_like(log_ratio)),
        torch.where(mask, old_log_prob, torch.zeros_like(old_log_prob)),
        entropy_loss_bound,
    )
    start = log_ratio.new_full(log_ratio.shape[:1], max(kl_weight, LEAST_MULTIPLIER))
    bracket = decreasing_root(lambda a: dual.kl(a, dual.omega(a)) - kl_bound, start, relative_tolerance=TOLERANCE)
    a = bracket.upper
    omega = dual.omega(a)
    log_weights, kl = dual.log_weights(a, omega), dual.kl(a, omega)
    change = dual.entropy_change(a, omega)
    finite = torch.isfinite(log_weights.exp()).flatten(1).all(-1) & torch.isfinite(kl) & torch.isfinite(change)
    feasible = usable & bracket.found & finite
    equal = torch.full_like(log_weights, 1.0 / log_weights.shape[-1])
    zero = torch.zeros_like(kl)
    return WeightedSamples(
        torch.where(feasible[:, None, None], log_weights.exp(), equal),
        a - start,
        omega,
        torch.where(feasible, kl, zero),
        torch.where(feasible, change, zero),
        feasible,
    )


@dataclass(frozen=True)
class _Dual:
    """Weights and their moments as functions of the multipliers (n_components,)."""

    log_ratio: Tensor
    old_log_prob: Tensor
    entropy_loss_bound: float

    def log_weights(self, a: Tensor, omega: Tensor) -> Tensor:
        a, omega = a[:, None, None], omega[:, None, None]
        return torch.log_softmax((self.log_ratio - omega * self.old_log_prob) / (a + omega), -1)

    def kl(self, a: Tensor, omega: Tensor) -> Tensor:
        return self._kl(self.log_weights(a, omega))

    def entropy_change(self, a: Tensor, omega: Tensor) -> Tensor:
        log_weights = self.log_weights(a, omega)
        moved = ((log_weights.exp() - 1.0 / log_weights.shape[-1]) * self.old_log_prob).sum(-1).mean(-1)
        return -self._kl(log_weights) - moved

    def omega(self, a: Tensor) -> Tensor:
        """Least omega >= 0 at which the entropy constraint holds."""

        def shortfall(omega: Tensor) -> Tensor:
            return -self.entropy_change(a, omega) - self.entropy_loss_bound

        return decreasing_root(shortfall, torch.zeros_like(a), relative_tolerance=TOLERANCE).upper

    def _kl(self, log_weights: Tensor) -> Tensor:
        n_samples = log_weights.shape[-1]
        kl: Tensor = (math.log(n_samples) - torch.special.entr(log_weights.exp()).sum(-1)).mean(-1)
        return kl
