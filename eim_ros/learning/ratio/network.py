"""Density ratio by a neural network, alone or on top of a plug-in ratio (thesis 2.3, 3.2, 7.1.1).

phi = network, or phi = plug-in + network: the network's last layer starts at zero. It is trained by an objective of the
Bregman family, the binary cross entropy by default, see `RatioTraining`.

The plug-in density does not change from iteration to iteration and neither does what it misses, log p - log p_hat: on
top of it the network learns a fixed function.

Where the network does not lower the held-out loss by more than its standard error, it has learnt noise. Then the
plug-in ratio is used without it; a network alone says nothing, phi = 0, and the model stays where it is: it is as close
to the data as they can tell. With nothing held out there is no telling, and the network is used as it is.

Training of a density ratio's network, with early stopping that runs across the iterations of EIM.

A learner goes on from where it was, weights and Adam's moments alike; the network that phi is taken from is the learner
at its lowest held-out loss; where the learner finds nothing better for some epochs, it goes back to that one. With
nothing held out there is no early stopping: the network is what the learner has become.

Multi-layer perceptron of a density ratio.

It starts at zero, by its last layer, and able to learn fast: after a start by EM the classes have equal moments and
differ in detail only, which Glorot's distribution with biases of zero takes a hundred epochs to see. So the weights of
the first layer are three times Glorot's and the biases are spread over the range of standardised inputs.

Its dropout draws from a given generator and gives sixteen consecutive rows the same mask: drawing a mask for each costs
more than the layers themselves, and batches are shuffled.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from eim_ros.learning.configs import RatioConfig
from eim_ros.learning.data import Pairs
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts
from eim_ros.learning.ratio.density_ratio import RatioReport, report_of
from eim_ros.learning.ratio.inputs import RatioInputs
from eim_ros.learning.ratio.objectives import OBJECTIVES
from eim_ros.learning.ratio.plug_in import PlugInRatio

ROWS_PER_MASK = 16
FIRST_SCALE = 3.0
BIAS_RANGE = 1.0


class Dropout(nn.Module):
    """Sets inputs to zero with some probability in training, and scales the others up.

    Parameters
    ----------
    probability : float
        From 0 to less than 1.

    Attributes
    ----------
    generator : torch.Generator or None
        To be set before training, on the inputs' device.
    """

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability
        self.generator: torch.Generator | None = None

    def forward(self, inputs: Tensor) -> Tensor:
        """Inputs (n, width), in training less what is dropped."""
        if not self.training:
            return inputs
        assert self.generator is not None, "training needs randomness"
        shape = (-(-len(inputs) // ROWS_PER_MASK), inputs.shape[1])
        drawn = torch.rand(shape, generator=self.generator, dtype=torch.float32, device=inputs.device)
        mask = (drawn >= self.probability).to(inputs.dtype) / (1.0 - self.probability)
        return inputs * mask.repeat_interleave(ROWS_PER_MASK, 0)[: len(inputs)]


def ratio_network(
    n_inputs: int, hidden_layers: tuple[int, ...], dropout: float, generator: torch.Generator
) -> nn.Sequential:
    """Network from (n, n_inputs) to (n, 1), in float32 on the CPU; its output is zero.

    Parameters
    ----------
    n_inputs : int
    hidden_layers : tuple of int
        Widths.
    dropout : float
        Probability, after each hidden layer.
    generator : torch.Generator
        Of any device: all start from the same weights.
    """
    layers: list[nn.Module] = []
    width = n_inputs
    drawing = _cpu(generator)
    for hidden in hidden_layers:
        linear = _blank_linear(width, hidden)
        bound = (6.0 / (width + hidden)) ** 0.5 * (1.0 if layers else FIRST_SCALE)
        with torch.no_grad():
            linear.weight.copy_(_uniform((hidden, width), drawing) * bound)
            linear.bias.copy_(_uniform((hidden,), drawing) * BIAS_RANGE)
        layers += [linear, nn.SiLU()]
        if dropout > 0.0:
            layers.append(Dropout(dropout))
        width = hidden
    last = _blank_linear(width, 1)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return nn.Sequential(*layers, last)


def _blank_linear(n_inputs: int, n_outputs: int) -> nn.Linear:
    """A layer without a start of its own, which would be drawn from the global generator."""
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, n_inputs, n_outputs, dtype=torch.float32)
    return layer


def _uniform(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Between -1 and 1, in float32 whatever torch's default is."""
    return 2.0 * torch.rand(shape, generator=generator, dtype=torch.float32) - 1.0


def _cpu(generator: torch.Generator) -> torch.Generator:
    """A CPU generator seeded from the given one, so that all devices start from the same weights."""
    if generator.device.type == "cpu":
        return generator
    return torch.Generator().manual_seed(generator.initial_seed())


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
        self.training = RatioTraining(config, inputs.n_inputs, generator, device)
        self._objective = OBJECTIVES[config.objective]
        self._iteration = 0
        self._idle = 0  # fits in a row in which the network was of no use

    def fit(self, data: Pairs, model: MixtureOfExperts, iteration: int, generator: torch.Generator) -> RatioReport:
        self._adapt(model, iteration, data)
        drawn, component = model.sample_with_components(data.context, generator)
        positive, negative = self._prepared(data), self._prepared(Pairs(data.context, drawn))
        n_training, rows = self.config.n_training(len(data)), self.config.held_out(len(data))
        fitted, held_out = slice(0, n_training), (positive[rows], negative[rows])
        judges = held_out if n_training < len(data) else None
        resting = self._idle >= TRIALS and iteration % REST != 0
        rejected = not resting and self.training.train(positive[fitted], negative[fitted], judges, generator)
        self._idle = 0 if judges is None and self.base is None or self._helps(*held_out) else self._idle + 1
        phi_p, phi_q = (self.training.phi(part) if self._used else part.base for part in held_out)
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
                self.training.output(self.inputs(*rows, self._iteration).to(torch.float32))
                for rows in _chunks(context, sample)
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
                total = self.training.output(self.inputs(rows, leaf, self._iteration).to(torch.float32)).sum()
            parts += torch.autograd.grad(total, leaf)
        return base + torch.cat(parts)

    def tensors(self) -> dict[str, Tensor]:
        return {**self.training.tensors(), "idle": torch.tensor(self._idle)}

    def restore(self, tensors: dict[str, Tensor], model: MixtureOfExperts, iteration: int) -> None:
        self._adapt(model, iteration)
        self.training.restore(tensors)
        self._idle = int(tensors["idle"])

    @property
    def _used(self) -> bool:
        return self._idle == 0

    def _adapt(self, model: MixtureOfExperts, iteration: int, data: Pairs | None = None) -> None:
        self._iteration = iteration
        if self.base is not None:
            self.base.adapt(model, iteration, data)

    def _prepared(self, pairs: Pairs) -> PreparedPairs:
        with torch.no_grad():
            return PreparedPairs(
                self.inputs(pairs.context, pairs.sample, self._iteration).to(torch.float32), self._base_at(pairs)
            )

    def _base_at(self, pairs: Pairs, component: Tensor | None = None) -> Tensor:
        if self.base is None:
            return torch.zeros_like(pairs.sample[:, 0])
        return self.base.log_ratio(pairs.context, pairs.sample, component)

    def _helps(self, positive: PreparedPairs, negative: PreparedPairs) -> bool:
        """Whether the network lowers the held-out loss of the base by more than chance would."""
        with_network = self._objective(self.training.phi(positive), self.training.phi(negative))
        without = self._objective(positive.base, negative.base)
        gains = [alone - together for alone, together in zip(without, with_network, strict=True)]
        gain = sum(part.mean() for part in gains)
        error = sum(part.var(correction=0) / len(part) for part in gains) ** 0.5
        return bool(gain > self.config.evidence * error)


def _chunks(context: Tensor, sample: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Rows of both, some at a time; empty ones for no samples."""
    return zip(context.split(CHUNK_ROWS), sample.split(CHUNK_ROWS), strict=True)
