"""Density ratio by a neural network, alone or on top of a plug-in ratio (thesis 2.3, 3.2, 7.1.1).

phi = network, or phi = plug-in + network: the network's last layer starts at zero. It is trained by an objective of the
Bregman family, the binary cross entropy by default, warm-started from the previous iteration, weights and Adam's
moments alike; those with the least held-out loss are kept.

The plug-in density does not change from iteration to iteration and neither does what it misses, log p - log p_hat: on
top of it the network learns a fixed function. Where this does not lower the held-out loss by more than its standard
error, it has learnt noise, and the plug-in ratio is used without it.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from eim_ros.distributions import MixtureOfExperts
from eim_ros.inference.density_ratio import Pairs, RatioConfig, RatioReport, report_of
from eim_ros.inference.plug_in_ratio import PlugInRatio
from eim_ros.inference.ratio_inputs import RatioInputs
from eim_ros.inference.ratio_objectives import OBJECTIVES

__all__ = ["NetworkRatio"]


class NetworkRatio:
    """Neural estimator; holds the network and its optimiser, which are adapted by each `fit`. A `DensityRatio`.

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
        self.network = _network(inputs.n_inputs, config, generator).to(device)
        self.optimiser = torch.optim.Adam(self.network.parameters(), lr=config.learning_rate)
        self._objective = OBJECTIVES[config.objective]
        self._iteration = 0
        self._trained = False
        self._used = True

    def fit(self, data: Pairs, model: MixtureOfExperts, iteration: int, generator: torch.Generator) -> RatioReport:
        self._adapt(model, iteration)
        drawn, _ = model.sample(data.context, generator)
        positive, negative = self._prepared(data), self._prepared(Pairs(data.context, drawn))
        training, rows = slice(0, self.config.n_training(len(data))), self.config.held_out(len(data))
        held_out = positive[rows], negative[rows]
        rejected = self._train(positive[training], negative[training], held_out, generator)
        self._used = self.base is None or self._helps(*held_out)
        self._trained = True
        phi_p, phi_q = (self._phi(part) if self._used else part.base for part in held_out)
        return report_of(phi_p, phi_q, self._objective, rejected=rejected, network_used=self._used)

    def log_ratio(self, context: Tensor, sample: Tensor) -> Tensor:
        pairs = Pairs(context, sample)
        base = self._base_at(pairs)
        if not self._used:
            return base
        with torch.no_grad():
            inputs = self.inputs(context, sample, self._iteration).to(torch.float32)
            return base + self._output(inputs).to(sample.dtype)

    def gradient(self, context: Tensor, sample: Tensor) -> Tensor:
        base = torch.zeros_like(sample) if self.base is None else self.base.gradient(context, sample)
        if not self._used:
            return base
        leaf = sample.detach().requires_grad_(True)
        with torch.enable_grad():
            total = self._output(self.inputs(context, leaf, self._iteration).to(torch.float32)).sum()
        (gradient,) = torch.autograd.grad(total, leaf)
        return base + gradient

    def tensors(self) -> dict[str, Tensor]:
        tensors = {f"network.{name}": value for name, value in self.network.state_dict().items()}
        for index, state in self.optimiser.state_dict()["state"].items():
            tensors |= {f"adam.{index}.{name}": torch.as_tensor(value) for name, value in state.items()}
        return {**tensors, "network_used": torch.tensor(self._used)}

    def restore(self, tensors: dict[str, Tensor], model: MixtureOfExperts, iteration: int) -> None:
        self._adapt(model, iteration)
        weights = {name.removeprefix("network."): v for name, v in tensors.items() if name.startswith("network.")}
        self.network.load_state_dict(weights)
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in tensors.items():
            if name.startswith("adam."):
                _, index, key = name.split(".")
                state.setdefault(int(index), {})[key] = value
        self.optimiser.load_state_dict({**self.optimiser.state_dict(), "state": state})
        self._trained = bool(state)
        self._used = bool(tensors["network_used"])

    def _adapt(self, model: MixtureOfExperts, iteration: int) -> None:
        self._iteration = iteration
        if self.base is not None:
            self.base.adapt(model, iteration)

    def _prepared(self, pairs: Pairs) -> _Prepared:
        with torch.no_grad():
            return _Prepared(
                self.inputs(pairs.context, pairs.sample, self._iteration).to(torch.float32), self._base_at(pairs)
            )

    def _base_at(self, pairs: Pairs) -> Tensor:
        if self.base is None:
            return torch.zeros_like(pairs.sample[:, 0])
        return self.base.log_ratio(pairs.context, pairs.sample)

    def _output(self, inputs: Tensor) -> Tensor:
        self.network.eval()
        return self.network(inputs).squeeze(-1)  # type: ignore[no-any-return]

    def _phi(self, part: _Prepared) -> Tensor:
        with torch.no_grad():
            return part.base + self._output(part.inputs)

    def _loss(self, positive: _Prepared, negative: _Prepared) -> float:
        loss_p, loss_q = self._objective(self._phi(positive), self._phi(negative))
        return 0.5 * float(loss_p.mean() + loss_q.mean())

    def _train(
        self,
        positive: _Prepared,
        negative: _Prepared,
        held_out: tuple[_Prepared, _Prepared],
        generator: torch.Generator,
    ) -> bool:
        """Train with early stopping, then go back to the best weights; whether a batch was rejected."""
        best_loss, best, stale, rejected = self._loss(*held_out), self._learnt(), 0, False
        for _ in range(self.config.n_epochs if self._trained else self.config.initial_epochs):
            rejected = not self._epoch(positive, negative, generator)
            if rejected:
                break
            loss = self._loss(*held_out)
            stale = 0 if loss < best_loss else stale + 1
            if stale == 0:
                best_loss, best = loss, self._learnt()
            if stale == self.config.patience:
                break
        self.network.load_state_dict(best["network"])
        self.optimiser.load_state_dict(best["optimiser"])
        return rejected

    def _learnt(self) -> dict[str, Any]:
        """A copy of weights and moments."""
        return copy.deepcopy({"network": self.network.state_dict(), "optimiser": self.optimiser.state_dict()})

    def _epoch(self, positive: _Prepared, negative: _Prepared, generator: torch.Generator) -> bool:
        """One pass over the data; False at the first loss or gradient that is not finite, which no weight has seen."""
        n = min(len(positive.base), len(negative.base))
        order_p = torch.randperm(len(positive.base), generator=generator, device=generator.device)
        order_n = torch.randperm(len(negative.base), generator=generator, device=generator.device)
        parameters = list(self.network.parameters())
        with torch.random.fork_rng(devices=[]):  # dropout draws from the global generator: seeded, then left as it was
            torch.manual_seed(int(torch.randint(2**31 - 1, (1,), generator=generator, device=generator.device)))
            self.network.train()
            for start in range(0, n, self.config.batch_size):
                pick = slice(start, start + self.config.batch_size)
                part_p, part_n = positive[order_p[pick]], negative[order_n[pick]]
                base = torch.cat([part_p.base, part_n.base]).to(torch.float32)
                phi = base + self.network(torch.cat([part_p.inputs, part_n.inputs])).squeeze(-1)
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


def _network(n_inputs: int, config: RatioConfig, generator: torch.Generator) -> nn.Sequential:
    """Multi-layer perceptron; hidden layers start Glorot-uniform, the last layer at zero (phi = 0)."""
    layers: list[nn.Module] = []
    width = n_inputs
    for hidden in config.hidden_layers:
        linear = _blank_linear(width, hidden)
        bound = (6.0 / (width + hidden)) ** 0.5
        with torch.no_grad():
            linear.weight.copy_((2.0 * torch.rand(hidden, width, generator=_cpu(generator)) - 1.0) * bound)
            linear.bias.zero_()
        layers += [linear, nn.SiLU()]
        if config.dropout > 0.0:
            layers.append(nn.Dropout(config.dropout))
        width = hidden
    last = _blank_linear(width, 1)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return nn.Sequential(*layers, last)


def _blank_linear(n_inputs: int, n_outputs: int) -> nn.Linear:
    """A layer without a start of its own, which would be drawn from the global generator."""
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, n_inputs, n_outputs)
    return layer


def _cpu(generator: torch.Generator) -> torch.Generator:
    """A CPU generator seeded from the given one, so that all devices start from the same weights."""
    if generator.device.type == "cpu":
        return generator
    return torch.Generator().manual_seed(generator.initial_seed())
