"""Estimation of the log density ratio phi(x, y) = log p(x, y)/q(x, y) from samples (thesis 2.3, 3.2, 4.3.1).

The data are samples of p and form the positive class. Samples of the model form the negative class. All estimators
satisfy the Protocol `DensityRatio`. The setting `ratio.estimator` selects one of them:

    plug-in   log p_hat - log q_old without a network, where p_hat is known or fitted once (thesis 7.1.1)
    residual  the plug-in ratio plus a network that starts at zero and learns the error of p_hat
    network   a network that is trained as a classifier (thesis 2.3.1)

The objectives belong to the Bregman family (thesis 2.3.2), and are functions of phi = log r. The Bregman divergence of
f between the true ratio p/q and an estimate r is, up to a constant,

    E_q[f'(r) r - f(r)] - E_p[f'(r)].                                                                          (2.2)

    logistic  f(t) = t log t - (1 + t) log(1 + t):  E_q[softplus(phi)] + E_p[softplus(-phi)], the binary cross entropy
    lsif      f(t) = (t - 1)^2/2:                   E_q[r^2]/2 - E_p[r] + 1/2, least squares importance fitting
    kliep     f(t) = t log t - t:                   E_q[r] - E_p[phi], Kullback-Leibler importance estimation

All objectives have the same minimiser r = p/q, but they weight errors differently. The derivative of the logistic loss
with respect to phi is at most 1. The derivative grows like r for KLIEP, and like r^2 for LSIF. KLIEP and LSIF become
unstable if r is large (thesis 4.3.1 for LSIF). Therefore, estimators must handle losses and gradients that are not
finite.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import softplus

from eim_ros.learning.data import Pairs
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts

Objective = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def logistic(phi_p: Tensor, phi_q: Tensor) -> tuple[Tensor, Tensor]:
    """Return the logistic losses of samples of p and of samples of q. The sum of both means is (2.2).

    `phi_p` and `phi_q` are estimates of log p/q [nat] at samples of p and of q. The losses have the same shapes.
    """
    return softplus(-phi_p), softplus(phi_q)


def lsif(phi_p: Tensor, phi_q: Tensor) -> tuple[Tensor, Tensor]:
    """Return the losses of least squares importance fitting, with the arguments of `logistic`."""
    return -phi_p.exp(), 0.5 * (2.0 * phi_q).exp()


def kliep(phi_p: Tensor, phi_q: Tensor) -> tuple[Tensor, Tensor]:
    """Return the losses of Kullback-Leibler importance estimation, with the arguments of `logistic`.

    The constraint E_q[r] = 1 is relaxed to a penalty. The constraint is satisfied if the constant offset of phi
    minimises the loss.
    """
    return -phi_p, phi_q.exp()


OBJECTIVES: dict[str, Objective] = {"logistic": logistic, "lsif": lsif, "kliep": kliep}


@dataclass(frozen=True)
class RatioReport:
    """Quality of an estimator on held-out pairs."""

    # Mean of the training objective over both classes [nat]. If the classes are indistinguishable, the logistic
    # objective is log 2.
    loss: float
    accuracy: float  # share of the pairs that the sign of phi classifies correctly, averaged over both classes
    ratio_kl: float  # -E_q[phi], the estimate of E_p(y) KL(q || p) [nat]
    ratio_kl_error: float  # standard error of `ratio_kl`, due to the finite number of held-out pairs [nat]
    collapsed: bool  # whether phi is constant or not finite; do not update the model with such a phi
    # Whether training stopped because a loss or a gradient was not finite. Training then restores the best weights so
    # far and the corresponding state of the optimiser.
    rejected: bool = False
    network_used: bool = False  # whether a network contributes to phi
    # Bias of phi at samples of the model that is due to a truncated auxiliary distribution, delta = E_q[-log mass of K]
    # [nat]. It is 0 if the auxiliary distribution is exact.
    auxiliary_error: float = 0.0

    def record(self) -> dict[str, float]:
        """Return the values for a history. Exceptional events are included only if they occur."""
        figures = {
            "loss": self.loss,
            "accuracy": self.accuracy,
            "ratio_kl": self.ratio_kl,
            "ratio_kl_error": self.ratio_kl_error,
            "network_used": float(self.network_used),
        }
        figures |= {"auxiliary_error": self.auxiliary_error} if self.auxiliary_error != 0.0 else {}
        return figures | ({"rejected": 1.0} if self.rejected else {}) | ({"skipped": 1.0} if self.collapsed else {})


class LogRatio(Protocol):
    """phi = log p/q_old as a function of context and sample."""

    def log_ratio(self, context: Tensor, sample: Tensor, component: Tensor | None = None) -> Tensor:
        """Return phi [nat], (n_samples,), for contexts (n_samples, n_context) and samples (n_samples, n_dims).

        `component` (n_samples,) contains the index of the expert of q_old that drew each sample. An estimator needs it
        to use a truncated auxiliary distribution.
        """

    def gradient(self, context: Tensor, sample: Tensor, component: Tensor | None = None) -> Tensor:
        """Return the gradient of phi with respect to the sample, (n_samples, n_dims)."""


class DensityRatio(LogRatio, Protocol):
    """Estimator of phi = log p/q from samples of p. The estimator must be adapted whenever the model q changes."""

    def fit(self, data: Pairs, model: MixtureOfExperts, iteration: int, generator: torch.Generator) -> RatioReport:
        """Draw samples from a new model q_old, and adapt the estimator to this model. The data may change too."""

    def tensors(self) -> dict[str, Tensor]:
        """Return the state for a checkpoint."""

    def restore(self, tensors: dict[str, Tensor], model: MixtureOfExperts, iteration: int) -> None:
        """Restore the state that `tensors` returned, together with the model of that iteration."""


def report_of(
    phi_p: Tensor,
    phi_q: Tensor,
    objective: Objective = logistic,
    *,
    rejected: bool = False,
    network_used: bool = False,
    auxiliary_error: float = 0.0,
) -> RatioReport:
    """Compute a report from phi at held-out data (n,) and at held-out samples of the model (m,), both in nat."""
    loss_p, loss_q = objective(phi_p, phi_q)
    both = torch.cat([phi_p, phi_q])
    collapsed = not bool(torch.isfinite(both).all()) or (len(both) > 1 and float(both.std()) == 0.0)
    return RatioReport(
        loss=0.5 * float(loss_p.mean() + loss_q.mean()),
        accuracy=0.5 * float((phi_p > 0.0).double().mean() + (phi_q <= 0.0).double().mean()),
        ratio_kl=-float(phi_q.mean()),
        ratio_kl_error=float(phi_q.std(correction=0)) / len(phi_q) ** 0.5,
        collapsed=collapsed,
        rejected=rejected,
        network_used=network_used,
        auxiliary_error=auxiliary_error,
    )
