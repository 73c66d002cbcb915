"""Trust-region I-projection of categorical distributions, one per context (thesis 4.1.1, 4.2.1, A.3.1, A.4.1).

Maximise E[r] - tau KL(new || old) subject to E KL(new || old) <= kl_bound and E H(new) >= E H(old) -
entropy_loss_bound, where E is the mean over contexts (tau = 1 in the thesis). The solution is new ~ exp{(a log old +
r)/s} with a = eta + tau and s = a + omega.
For a fixed a the entropy rises with omega, and with the least feasible omega the KL falls with a: two nested monotone
root-finds.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.numerics.roots import decreasing_root

__all__ = ["CategoricalUpdate", "project_categorical"]

TOLERANCE = 1e-4  # relative width of the bracket of a multiplier; the feasible end is returned
LEAST_MULTIPLIER = 1e-12  # of a, where no KL term holds it up: components of equal reward then keep their proportions


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
    old_entropy = _entropy(old_log_probs)
    least_entropy = old_entropy - entropy_loss_bound
    dual = _Dual(old_log_probs, reward, least_entropy)
    start = torch.full((), max(kl_weight, LEAST_MULTIPLIER), dtype=reward.dtype, device=reward.device)
    bracket = decreasing_root(lambda a: dual.kl(a) - kl_bound, start, relative_tolerance=TOLERANCE)
    a = bracket.upper
    omega = dual.omega(a)
    log_probs = dual.log_probs(a, a + omega)
    if not (bool(bracket.found) and bool(torch.isfinite(log_probs.exp()).all())):
        return unchanged
    kl = float(_mean_kl(log_probs, old_log_probs))
    change = float(_entropy(log_probs) - old_entropy)
    return CategoricalUpdate(log_probs, float(a - start), float(omega), kl, change, True)


@dataclass(frozen=True)
class _Dual:
    old_log_probs: Tensor
    reward: Tensor
    least_entropy: Tensor

    def log_probs(self, a: Tensor, s: Tensor) -> Tensor:
        return torch.log_softmax((a * self.old_log_probs + self.reward) / s, -1)

    def omega(self, a: Tensor) -> Tensor:
        """Least omega >= 0 at which the entropy constraint holds."""

        def shortfall(s: Tensor) -> Tensor:
            return self.least_entropy - _entropy(self.log_probs(a, s))

        return decreasing_root(shortfall, a, relative_tolerance=TOLERANCE).upper - a

    def kl(self, a: Tensor) -> Tensor:
        return _mean_kl(self.log_probs(a, a + self.omega(a)), self.old_log_probs)


def _entropy(log_probs: Tensor) -> Tensor:
    entropy: Tensor = torch.special.entr(log_probs.exp()).sum(-1).mean()
    return entropy


def _mean_kl(new: Tensor, old: Tensor) -> Tensor:
    probabilities = new.exp()
    difference = torch.where(probabilities > 0.0, new - old, torch.zeros_like(new))
    return (probabilities * difference).sum(-1).mean()
