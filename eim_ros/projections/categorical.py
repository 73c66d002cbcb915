"""Trust-region I-projection of categorical distributions, one per context (thesis 4.1.1, 4.2.1, A.3.1, A.4.1).

Maximise E[r] - tau KL(new || old) subject to E KL(new || old) <= kl_bound and E H(new) >= E H(old) -
entropy_loss_bound, where E is the mean over contexts (tau = 1 in the thesis). The solution is new ~ exp{(a log old +
r)/s} with a = eta + tau and s = a + omega.
The two multipliers come from the dual, see `categorical_dual`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.projections.categorical_dual import CategoricalDual, mean_entropy, mean_kl

__all__ = ["CategoricalUpdate", "project_categorical"]


@dataclass(frozen=True)
class CategoricalUpdate:
    """Result of the projection.

    Attributes
    ----------
    log_probs : Tensor (n_contexts, n_components)
    eta, omega : float
        Multipliers of the KL and of the entropy constraint.
    kl : float
        Mean KL(new || old) [nat].
    entropy_change : float
        Mean H(new) - H(old) [nat].
    feasible : bool
        False if no multiplier met the bounds; log_probs then are the old ones.
    """

    log_probs: Tensor
    eta: float
    omega: float
    kl: float
    entropy_change: float
    feasible: bool


def project_categorical(
    old_log_probs: Tensor,
    reward: Tensor,
    kl_bound: float,
    entropy_loss_bound: float,
    *,
    kl_weight: float = 1.0,
) -> CategoricalUpdate:
    """Trust-region I-projection of q(z|y) at the given contexts; one context is the unconditional case.

    Parameters
    ----------
    old_log_probs : Tensor (n_contexts, n_components)
        log q_old(z|y); minus infinity marks a component that is out.
    reward : Tensor (n_contexts, n_components)
        phi(y, z) [nat]; minus infinity rules a component out.
    kl_bound, entropy_loss_bound : float
        Largest mean KL and largest mean loss of entropy [nat]; infinite for none.
    kl_weight : float
        tau >= 0, the weight of the KL in the objective, as in `project_experts`.
    """
    unchanged = CategoricalUpdate(old_log_probs, float("inf"), 0.0, 0.0, 0.0, False)
    if not bool((reward < torch.inf).all()):  # NaN or infinite
        return unchanged
    dual = CategoricalDual(old_log_probs, reward, kl_bound, entropy_loss_bound, kl_weight)
    multipliers = dual.multipliers()
    if multipliers is None:
        return unchanged
    log_probs = dual.log_probs(*multipliers)
    if not bool(torch.isfinite(log_probs.exp()).all()):
        return unchanged
    kl = float(mean_kl(log_probs, old_log_probs))
    change = float(mean_entropy(log_probs) - mean_entropy(old_log_probs))
    return CategoricalUpdate(log_probs, *multipliers, kl, change, True)
