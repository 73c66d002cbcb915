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

from eim_ros.distributions import MixtureOfExperts
from eim_ros.inference.ratio.auxiliary import AuxiliaryConfig
from eim_ros.inference.ratio.objectives import OBJECTIVES, Objective, logistic
from eim_ros.inference.ratio.reference_density import ReferenceConfig
from eim_ros.inference.training_data import Pairs
from eim_ros.settings import option

__all__ = ["DensityRatio", "RatioConfig", "RatioReport", "report_of"]


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


@dataclass(frozen=True)
class RatioConfig(ReferenceConfig, AuxiliaryConfig):
    """Settings of the density ratio estimator."""

    ratio: str = option(
        "residual",
        "estimator of the density ratio: a density fitted to the data, that and a network, or a network alone",
        choices=("plug-in", "residual", "network"),
    )
    objective: str = option("logistic", "what the network is trained with", choices=tuple(OBJECTIVES))
    hidden_layers: tuple[int, ...] = option((128, 128), "widths of the hidden layers", minimum=1)
    dropout: float = option(0.1, "dropout probability", minimum=0.0, maximum=0.9)
    learning_rate: float = option(3e-3, "step size of Adam", minimum=0.0)
    batch_size: int = option(500, "pairs of each class in a batch", minimum=1)
    initial_epochs: int = option(40, "most passes over the data in the first iteration", minimum=1)
    n_epochs: int = option(2, "most passes over the data per iteration", minimum=1)
    patience: int = option(
        10,
        "passes without a gain on held-out pairs, over all iterations, after which the best weights return",
        minimum=1,
    )
    validation_share: float = option(0.1, "share of the pairs held out; 0: no early stopping", minimum=0.0, maximum=0.5)
    evidence: float = option(
        2.0,
        "a network is used where it lowers the held-out loss by so many standard errors",
        minimum=0.0,
    )

    def n_training(self, n_samples: int) -> int:
        """How many of n_samples pairs, the first ones, are trained on; the rest is held out."""
        return n_samples - int(self.validation_share * n_samples)

    def held_out(self, n_samples: int) -> slice:
        """The pairs that estimators are judged by: those held out, all where nothing is."""
        first = self.n_training(n_samples)
        return slice(first if first < n_samples else 0, n_samples)


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
