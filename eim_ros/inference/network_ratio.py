"""Density ratio by a neural network, alone or on top of a plug-in ratio (thesis 2.3, 3.2, 7.1.1).

phi = network, or phi = plug-in + network: the network's last layer starts at zero. It is trained by an objective of the
Bregman family, the binary cross entropy by default, and early stopping on held-out pairs runs across iterations: a
learner goes on from where it was, weights and Adam's moments alike; the network that phi is taken from is the learner
at its lowest held-out loss; where the learner finds nothing better for some epochs, it goes back to that one. With
nothing held out there is no early stopping: the network is what the learner has become.

The plug-in density does not change from iteration to iteration and neither does what it misses, log p - log p_hat: on
top of it the network learns a fixed function. Where this does not lower the held-out loss by more than its standard
error, it has learnt noise, and the plug-in ratio is used without it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from eim_ros.distributions import MixtureOfExperts
from eim_ros.inference.density_ratio import RatioConfig, RatioReport, report_of
from eim_ros.inference.plug_in_ratio import PlugInRatio
from eim_ros.inference.ratio_inputs import RatioInputs
from eim_ros.inference.ratio_network import Dropout, ratio_network
from eim_ros.inference.ratio_objectives import OBJECTIVES
from eim_ros.inference.training_data import Pairs

__all__ = ["NetworkRatio"]

CHUNK_ROWS = 2048  # samples that pass through the network at a time: its layers stay in cache, three times as fast
TRIALS, REST = 5, 5  # a network that was of no use so many times in a row is trained only every so many iterations


class NetworkRatio:
    """Neural estimator; holds networks and an optimiser, which are adapted by each `fit`. A `DensityRatio`.

    Parameters
    ----------
    config : RatioConfig
    inputs : RatioInputs
    generator : torch.Generator
        Randomness of the initial weights.
    device : torch.device
        Of the network; tensors given later must live there.
    base : PlugInRatio, optional
        What the network is added to; nothing if missing.
    """

    def __init__(
        self,
        config: RatioConfig,
        inputs: RatioInputs,
        generator: torch.Generator,
        device: torch.device,
        base: PlugInRatio | None = None,
    ) -> None:
        self.config = config
        self.inputs = inputs
        self.base = base
        self.network = ratio_network(inputs.n_inputs, config.hidden_layers, config.dropout, generator).to(device)
        self.learner = copy.deepcopy(self.network)
        self.optimiser = torch.optim.Adam(self.learner.parameters(), lr=config.learning_rate, fused=True)
        self._moments = copy.deepcopy(self.optimiser.state_dict())  # those that belong to the network
        self._objective = OBJECTIVES[config.objective]
        self._iteration = 0
        self._trained = False
        self._stale = 0  # epochs since the learner was last the best
        self._idle = 0  # fits in a row in which the network was of no use

    def fit(self, data: Pairs, model: MixtureOfExperts, iteration: int, generator: torch.Generator) -> RatioReport:
        self._adapt(model, iteration, data)
        drawn, component = model.sample_with_components(data.context, generator)
        positive, negative = self._prepared(data), self._prepared(Pairs(data.context, drawn))
        n_training, rows = self.config.n_training(len(data)), self.config.held_out(len(data))
        training, held_out = slice(0, n_training), (positive[rows], negative[rows])
        judges = held_out if n_training < len(data) else None
        resting = self._idle >= TRIALS and iteration % REST != 0
        rejected = not resting and self._train(positive[training], negative[training], judges, generator)
        self._idle = 0 if self.base is None or self._helps(*held_out) else self._idle + 1
        phi_p, phi_q = (self._phi(part) if self._used else part.base for part in held_out)
        error = 0.0
        if self.base is not None:
            error = self.base.auxiliary_error(Pairs(data.context, drawn)[rows], component[rows])
        return report_of(
            phi_p, phi_q, self._objective, rejected=rejected, network_used=self._used, auxiliary_error=error
        )

    def log_ratio(self, context: Tensor, sample: Tensor, component: Tensor | None = None) -> Tensor:
        base = self._base_at(Pairs(context, sample), component)
        if not self._used:
            return base
        with torch.no_grad():
            parts = [
                self._output(self.inputs(*rows, self._iteration).to(torch.float32)) for rows in _chunks(context, sample)
            ]
        return base + torch.cat(parts).to(sample.dtype)

    def gradient(self, context: Tensor, sample: Tensor, component: Tensor | None = None) -> Tensor:
        base = torch.zeros_like(sample) if self.base is None else self.base.gradient(context, sample, component)
        if not self._used:
            return base
        parts: list[Tensor] = []
        for rows, drawn in _chunks(context, sample.detach()):
            leaf = drawn.requires_grad_(True)
            with torch.enable_grad():
                total = self._output(self.inputs(rows, leaf, self._iteration).to(torch.float32)).sum()
            parts += torch.autograd.grad(total, leaf)
        return base + torch.cat(parts)

    def tensors(self) -> dict[str, Tensor]:
        tensors = {f"network.{name}": value for name, value in self.network.state_dict().items()}
        tensors |= {f"learner.{name}": value for name, value in self.learner.state_dict().items()}
        for prefix, moments in (("adam", self.optimiser.state_dict()), ("moments", self._moments)):
            for index, state in moments["state"].items():
                tensors |= {f"{prefix}.{index}.{name}": torch.as_tensor(value) for name, value in state.items()}
        return {**tensors, "counts": torch.tensor([self._trained, self._stale, self._idle])}

    def restore(self, tensors: dict[str, Tensor], model: MixtureOfExperts, iteration: int) -> None:
        self._adapt(model, iteration)
        self.network.load_state_dict(_named("network", tensors))
        self.learner.load_state_dict(_named("learner", tensors))
        self._moments = {**self.optimiser.state_dict(), "state": _indexed("moments", tensors)}
        self.optimiser.load_state_dict({**self._moments, "state": _indexed("adam", tensors)})
        trained, self._stale, self._idle = (int(count) for count in tensors["counts"])
        self._trained = bool(trained)

    @property
    def _used(self) -> bool:
        return self._idle == 0

    def _adapt(self, model: MixtureOfExperts, iteration: int, data: Pairs | None = None) -> None:
        self._iteration = iteration
        if self.base is not None:
            self.base.adapt(model, iteration, data)

    def _prepared(self, pairs: Pairs) -> _Prepared:
        with torch.no_grad():
            return _Prepared(
                self.inputs(pairs.context, pairs.sample, self._iteration).to(torch.float32), self._base_at(pairs)
            )

    def _base_at(self, pairs: Pairs, component: Tensor | None = None) -> Tensor:
        if self.base is None:
            return torch.zeros_like(pairs.sample[:, 0])
        return self.base.log_ratio(pairs.context, pairs.sample, component)

    def _output(self, inputs: Tensor) -> Tensor:
        self.network.eval()
        return self.network(inputs).squeeze(-1)  # type: ignore[no-any-return]

    def _phi(self, part: _Prepared, network: nn.Module | None = None) -> Tensor:
        network = network or self.network
        network.eval()
        with torch.no_grad():
            return part.base + torch.cat([network(rows).squeeze(-1) for rows in part.inputs.split(CHUNK_ROWS)])

    def _train(
        self,
        positive: _Prepared,
        negative: _Prepared,
        held_out: tuple[_Prepared, _Prepared] | None,
        generator: torch.Generator,
    ) -> bool:
        """Some epochs of the learner; whether a batch was rejected.

        It becomes the network where it is better on held-out pairs, and at the end where there are none.
        """
        best = self._loss(self.network, *held_out) if held_out else math.inf
        for _ in range(self.config.n_epochs if self._trained else self.config.initial_epochs):
            if not self._epoch(positive, negative, generator):
                self._go_back()
                return True
            if held_out is None:
                continue
            loss = self._loss(self.learner, *held_out)
            self._stale = 0 if loss < best else self._stale + 1
            if self._stale == 0:
                best = loss
                self._keep()
            if self._stale >= self.config.patience:
                self._go_back()
                break
        if held_out is None:
            self._keep()
        self._trained = True
        return False

    def _keep(self) -> None:
        """Make the network what the learner is."""
        self.network.load_state_dict(self.learner.state_dict())
        self._moments = copy.deepcopy(self.optimiser.state_dict())

    def _go_back(self) -> None:
        """Make the learner what it was when it was best, weights and moments alike."""
        self.learner.load_state_dict(self.network.state_dict())
        self.optimiser.load_state_dict(copy.deepcopy(self._moments))  # which it does not copy
        self._stale = 0

    def _loss(self, network: nn.Module, positive: _Prepared, negative: _Prepared) -> float:
        loss_p, loss_q = self._objective(self._phi(positive, network), self._phi(negative, network))
        return 0.5 * float(loss_p.mean() + loss_q.mean())

    def _epoch(self, positive: _Prepared, negative: _Prepared, generator: torch.Generator) -> bool:
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

    def _helps(self, positive: _Prepared, negative: _Prepared) -> bool:
        """Whether the network lowers the held-out loss of the base by more than chance would."""
        with_network = self._objective(self._phi(positive), self._phi(negative))
        without = self._objective(positive.base, negative.base)
        gains = [alone - together for alone, together in zip(without, with_network, strict=True)]
        gain = sum(part.mean() for part in gains)
        error = sum(part.var(correction=0) / len(part) for part in gains) ** 0.5
        return bool(gain > self.config.evidence * error)


@dataclass(frozen=True)
class _Prepared:
    """Inputs (n, n_inputs) in float32 and the plug-in ratio (n,) of some pairs."""

    inputs: Tensor
    base: Tensor

    def __getitem__(self, index: Tensor | slice) -> _Prepared:
        return _Prepared(self.inputs[index], self.base[index])


def _chunks(context: Tensor, sample: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Rows of both, some at a time; empty ones for no samples."""
    return zip(context.split(CHUNK_ROWS), sample.split(CHUNK_ROWS), strict=True)


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
