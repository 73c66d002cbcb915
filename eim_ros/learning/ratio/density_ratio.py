"""Estimation of the log density ratio phi(x, y) = log p(x, y)/q(x, y) from samples (thesis 2.3, 3.2, 4.3.1).

The data are samples of p, the positive class. Estimators satisfy the one Protocol, and a setting chooses:

    plug-in   log p_hat - log q_old, with p_hat fitted once or known, and no network at all (thesis 7.1.1)
    residual  the same plus a network, which starts at zero and learns what p_hat misses
    network   a network alone, trained to tell the classes apart (thesis 2.3.1)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from eim_ros.learning.data import Pairs
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts
from eim_ros.learning.ratio.objectives import Objective, logistic


@dataclass(frozen=True)
class RatioReport:
    """How well an estimator did on held-out pairs.

    Attributes
    ----------
    loss : float
        The objective, mean of both classes; of the logistic one log 2 where the classes cannot be told apart [nat].
    accuracy : float
        Share classified right by the sign of phi.
    ratio_kl : float
        -E_q[phi] [nat], the estimate of E_p(y) KL(q || p).
    ratio_kl_error : float
        Its standard error, for want of more held-out pairs [nat].
    collapsed : bool
        The output is constant or not finite: no update may be based on it.
    rejected : bool
        Training met a loss or a gradient that was not finite; weights and optimiser are those of before.
    network_used : bool
        Whether a network contributes to phi.
    auxiliary_error : float
        delta = E_q[-log mass of K] [nat], by how much phi is too high at the model's samples because the auxiliary
        distribution is truncated; 0 where it is exact.
    """

    loss: float
    accuracy: float
    ratio_kl: float
    ratio_kl_error: float
    collapsed: bool
    rejected: bool = False
    network_used: bool = False
    auxiliary_error: float = 0.0

    def record(self) -> dict[str, float]:
        """Figures for a history; exceptions only where they occur."""
        figures = {
            "loss": self.loss,
            "accuracy": self.accuracy,
            "ratio_kl": self.ratio_kl,
            "ratio_kl_error": self.ratio_kl_error,
            "network_used": float(self.network_used),
        }
        figures |= {"auxiliary_error": self.auxiliary_error} if self.auxiliary_error != 0.0 else {}
        return figures | ({"rejected": 1.0} if self.rejected else {}) | ({"skipped": 1.0} if self.collapsed else {})


class DensityRatio(Protocol):
    """Estimator of phi = log p/q from data, samples of p, adapted again and again to a changing model q."""

    def fit(self, data: Pairs, model: MixtureOfExperts, iteration: int, generator: torch.Generator) -> RatioReport:
        """Adapt to a new model, q_old, of which it draws the samples that it needs; the data may change too."""
        ...

    def log_ratio(self, context: Tensor, sample: Tensor, component: Tensor | None = None) -> Tensor:
        """phi [nat], (n_samples,); the components (n_samples,) of the model that drew the samples may be told."""
        ...

    def gradient(self, context: Tensor, sample: Tensor, component: Tensor | None = None) -> Tensor:
        """Gradient of phi with respect to the sample, (n_samples, n_dims)."""
        ...

    def tensors(self) -> dict[str, Tensor]:
        """State for a checkpoint."""
        ...

    def restore(self, tensors: dict[str, Tensor], model: MixtureOfExperts, iteration: int) -> None:
        """Inverse of `tensors`."""
        ...


def report_of(
    phi_p: Tensor,
    phi_q: Tensor,
    objective: Objective = logistic,
    *,
    rejected: bool = False,
    network_used: bool = False,
    auxiliary_error: float = 0.0,
) -> RatioReport:
    """Report from estimates of phi at held-out data (n,) and at held-out samples of the model (m,)."""
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


class LogRatio(Protocol):
    """phi = log p/q_old as a function of context and sample."""

    def log_ratio(self, context: Tensor, sample: Tensor, component: Tensor | None = None) -> Tensor:
        """phi [nat], (n_samples,), for contexts (n_samples, n_context) and samples (n_samples, n_dims).

        Which components (n_samples,) of q_old drew the samples may be told: it makes a truncated auxiliary distribution
        possible.
        """
        ...

    def gradient(self, context: Tensor, sample: Tensor, component: Tensor | None = None) -> Tensor:
        """Gradient of phi with respect to the sample, (n_samples, n_dims)."""
        ...
