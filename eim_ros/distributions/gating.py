"""Softmax gating, log q(z|y) = log softmax(V y + v) (thesis 4.2.1)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.distributions.parameters import tensor_fields
from eim_ros.errors import DistributionError

__all__ = ["SoftmaxGating"]


@dataclass(frozen=True)
class SoftmaxGating:
    """Linear softmax gating.

    Attributes
    ----------
    weights : Tensor (n_components, n_context)
        V.
    biases : Tensor (n_components,)
        v.
    """

    weights: Tensor
    biases: Tensor

    def __post_init__(self) -> None:
        tensor_fields(self, "weights", "biases")
        if self.weights.dim() != 2 or self.biases.shape != self.weights.shape[:1]:
            raise DistributionError(
                f"gating weights (k, dy) and biases (k,) disagree: {tuple(self.weights.shape)} and "
                f"{tuple(self.biases.shape)}",
                self.weights.shape,
            )
        if not bool(torch.isfinite(self.weights).all() and torch.isfinite(self.biases).all()):
            raise DistributionError("gating parameters must be finite", self.weights)

    @property
    def n_components(self) -> int:
        return self.weights.shape[0]

    @property
    def n_context(self) -> int:
        return self.weights.shape[1]

    def __call__(self, context: Tensor) -> Tensor:
        """Log probabilities (n_samples, n_components) for contexts (n_samples, n_context)."""
        return torch.log_softmax(torch.addmm(self.biases, context, self.weights.T), -1)

    def tensors(self) -> dict[str, Tensor]:
        return {"weights": self.weights, "biases": self.biases}
