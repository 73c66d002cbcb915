"""Training of a density ratio's network, with early stopping that runs across the iterations of EIM.

A learner goes on from where it was, weights and Adam's moments alike; the network that phi is taken from is the learner
at its lowest held-out loss; where the learner finds nothing better for some epochs, it goes back to that one. With
nothing held out there is no early stopping: the network is what the learner has become.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from eim_ros.inference.ratio.classifier import Dropout, ratio_network
from eim_ros.inference.ratio.density_ratio import RatioConfig
from eim_ros.inference.ratio.objectives import OBJECTIVES

__all__ = ["CHUNK_ROWS", "PreparedPairs", "RatioTraining"]

CHUNK_ROWS = 2048  # samples that pass through the network at a time: its layers stay in cache, three times as fast


@dataclass(frozen=True)
class PreparedPairs:
    """Inputs (n, n_inputs) in float32 and the plug-in ratio (n,) of some pairs."""

    inputs: Tensor
    base: Tensor

    def __getitem__(self, index: Tensor | slice) -> PreparedPairs:
        return PreparedPairs(self.inputs[index], self.base[index])


class RatioTraining:
    """A network, and the learner that goes on from it, which are adapted by each `train`.

    Parameters
    ----------
    config : RatioConfig
    n_inputs : int
    generator : torch.Generator
        Randomness of the initial weights.
    device : torch.device

    Attributes
    ----------
    network : torch.nn.Sequential
        The learner at its best.
    learner : torch.nn.Sequential
    optimiser : torch.optim.Adam
        Of the learner.
    stale : int
        Epochs since the learner was last the best.
    """

    def __init__(self, config: RatioConfig, n_inputs: int, generator: torch.Generator, device: torch.device) -> None:
        self.config = config
        self.network = ratio_network(n_inputs, config.hidden_layers, config.dropout, generator).to(device)
        self.learner = copy.deepcopy(self.network)
        self.optimiser = torch.optim.Adam(self.learner.parameters(), lr=config.learning_rate, fused=True)
        self.stale = 0
        self._moments = copy.deepcopy(self.optimiser.state_dict())  # those that belong to the network
        self._objective = OBJECTIVES[config.objective]
        self._trained = False

    def output(self, inputs: Tensor) -> Tensor:
        """The network's part of phi [nat], (n,), at inputs (n, n_inputs); differentiable."""
        self.network.eval()
        return self.network(inputs).squeeze(-1)  # type: ignore[no-any-return]

    def phi(self, part: PreparedPairs, network: nn.Module | None = None) -> Tensor:
        """Of pairs, (n,), by the network or by the one that is given."""
        network = network or self.network
        network.eval()
        with torch.no_grad():
            return part.base + torch.cat([network(rows).squeeze(-1) for rows in part.inputs.split(CHUNK_ROWS)])

    def train(
        self,
        positive: PreparedPairs,
        negative: PreparedPairs,
        held_out: tuple[PreparedPairs, PreparedPairs] | None,
        generator: torch.Generator,
    ) -> bool:
        """Some epochs of the learner; whether a batch was rejected.

        It becomes the network where it is better on held-out pairs, and at the end where there are none.
        """
        best = self._loss(self.network, *held_out) if held_out else math.inf
        for _ in range(self.config.n_epochs if self._trained else self.config.initial_epochs):
            if not self.epoch(positive, negative, generator):
                self.go_back()
                return True
            if held_out is None:
                continue
            loss = self._loss(self.learner, *held_out)
            self.stale = 0 if loss < best else self.stale + 1
            if self.stale == 0:
                best = loss
                self._keep()
            if self.stale >= self.config.patience:
                self.go_back()
                break
        if held_out is None:
            self._keep()
        self._trained = True
        return False

    def _keep(self) -> None:
        """Make the network what the learner is."""
        self.network.load_state_dict(self.learner.state_dict())
        self._moments = copy.deepcopy(self.optimiser.state_dict())

    def go_back(self) -> None:
        """Make the learner what it was when it was best, weights and moments alike."""
        self.learner.load_state_dict(self.network.state_dict())
        self.optimiser.load_state_dict(copy.deepcopy(self._moments))  # which it does not copy
        self.stale = 0

    def _loss(self, network: nn.Module, positive: PreparedPairs, negative: PreparedPairs) -> float:
        loss_p, loss_q = self._objective(self.phi(positive, network), self.phi(negative, network))
        return 0.5 * float(loss_p.mean() + loss_q.mean())

    def epoch(self, positive: PreparedPairs, negative: PreparedPairs, generator: torch.Generator) -> bool:
        """One pass over the data; False at the first loss or gradient that is not finite, which no weight has seen."""
        n = min(len(positive.base), len(negative.base))
        order_p = torch.randperm(len(positive.base), generator=generator, device=generator.device)
        order_n = torch.randperm(len(negative.base), generator=generator, device=generator.device)
        parameters = list(self.learner.parameters())
        for layer in self.learner:
            if isinstance(layer, Dropout):
                layer.generator = generator
        self.learner.train()
        for start in range(0, n, self.config.batch_size):
            pick = slice(start, start + self.config.batch_size)
            part_p, part_n = positive[order_p[pick]], negative[order_n[pick]]
            base = torch.cat([part_p.base, part_n.base]).to(torch.float32)
            phi = base + self.learner(torch.cat([part_p.inputs, part_n.inputs])).squeeze(-1)
            loss_p, loss_q = self._objective(*phi.split([len(part_p.base), len(part_n.base)]))
            loss = 0.5 * (loss_p.mean() + loss_q.mean())
            self.optimiser.zero_grad()
            loss.backward()
            size = loss.detach() + sum(p.grad.square().sum() for p in parameters if p.grad is not None)
            if not bool(torch.isfinite(size)):
                return False
            self.optimiser.step()
        return True

    def tensors(self) -> dict[str, Tensor]:
        """State for a checkpoint."""
        tensors = {f"network.{name}": value for name, value in self.network.state_dict().items()}
        tensors |= {f"learner.{name}": value for name, value in self.learner.state_dict().items()}
        for prefix, moments in (("adam", self.optimiser.state_dict()), ("moments", self._moments)):
            for index, state in moments["state"].items():
                tensors |= {f"{prefix}.{index}.{name}": torch.as_tensor(value) for name, value in state.items()}
        return {**tensors, "training": torch.tensor([self._trained, self.stale])}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Inverse of `tensors`."""
        self.network.load_state_dict(_named("network", tensors))
        self.learner.load_state_dict(_named("learner", tensors))
        self._moments = {**self.optimiser.state_dict(), "state": _indexed("moments", tensors)}
        self.optimiser.load_state_dict({**self._moments, "state": _indexed("adam", tensors)})
        trained, self.stale = (int(count) for count in tensors["training"])
        self._trained = bool(trained)


def _named(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin with the prefix, under the rest of their names."""
    return {name.removeprefix(f"{prefix}."): v for name, v in tensors.items() if name.startswith(f"{prefix}.")}


def _indexed(prefix: str, tensors: dict[str, Tensor]) -> dict[int, dict[str, Tensor]]:
    """State of an optimiser by parameter and name."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in _named(prefix, tensors).items():
        index, key = name.split(".")
        state.setdefault(int(index), {})[key] = value.clone()
    return state
