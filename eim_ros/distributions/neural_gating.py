"""Neural gating, log q(z|y) = log softmax(network(y)) (thesis 4.2.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.distributions.batched_network import BatchedNetwork
from eim_ros.errors import DistributionError

__all__ = ["NeuralGating"]


@dataclass(frozen=True)
class NeuralGating:
    """Softmax of a network's outputs.

    Attributes
    ----------
    network : BatchedNetwork
        A single one, with an output per component.
    """

    network: BatchedNetwork

    def __post_init__(self) -> None:
        if self.network.n_networks != 1:
            raise DistributionError(f"a gating has one network, not {self.network.n_networks}", self.network.n_networks)

    @classmethod
    def uniform(
        cls, context: Tensor, n_components: int, hidden_layers: Sequence[int], generator: torch.Generator
    ) -> NeuralGating:
        """A fresh gating: all components alike for every context.

        Parameters
        ----------
        context : Tensor (n_samples, n_context)
            Data, by which inputs are standardised.
        n_components : int
        hidden_layers : sequence of int
        generator : torch.Generator
        """
        return cls(BatchedNetwork.random(context, 1, hidden_layers, n_components, generator))

    @property
    def n_components(self) -> int:
        return self.network.n_outputs

    @property
    def n_context(self) -> int:
        return self.network.n_inputs

    def __call__(self, context: Tensor) -> Tensor:
        """Log probabilities (n_samples, n_components) for contexts (n_samples, n_context)."""
        return torch.log_softmax(self.network(context)[0], -1)

    def tensors(self) -> dict[str, Tensor]:
        return self.network.tensors()

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> NeuralGating:
        """Inverse of `tensors`."""
        return cls(BatchedNetwork.from_tensors(tensors))
