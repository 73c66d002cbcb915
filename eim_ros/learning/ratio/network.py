"""Density ratio by a neural network, alone or added to a plug-in ratio (thesis 2.3, 3.2, 7.1.1).

The ratio is phi = network or phi = plug-in + network. The network minimises an objective of the Bregman family, by
default the binary cross entropy. A network that is added to a plug-in ratio learns log p - log p_hat. This function is
the same in all iterations of EIM, because the plug-in density p_hat does not change.

A network is used only if it lowers the held-out loss by several standard errors (setting `evidence`). Otherwise, it has
learnt only noise. Without the network, the ratio is the plug-in ratio, or phi = 0 if there is no plug-in ratio. With
phi = 0, the model does not change, because the data do not show a difference between the model and p. If no data are
held out, a network without a plug-in ratio is always used. A network with a plug-in ratio is checked on the training
data.

`RatioTraining` trains the network with early stopping across the iterations of EIM. There are two copies of the
network. The first copy, the learner, is trained further in each iteration, and keeps the moments of Adam. The second
copy has the weights of the learner at the lowest held-out loss. This copy is used to compute phi. If the learner does
not improve for several epochs, it returns to these weights. If no data are held out, there is no early stopping, and
both copies are equal after training.

`ratio_network` builds a multi-layer perceptron. Its last layer starts at zero, so phi starts at zero or at the plug-in
ratio. After a start by EM, the classes have equal moments and differ only in details. A network with Glorot's
initialisation and zero biases needs about a hundred epochs to detect these details. Therefore, the weights of the first
layer are three times larger, and the biases are spread over the range of standardised inputs.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.optim.adam import adam

from eim_ros.learning.configs import RatioConfig
from eim_ros.learning.data import Pairs
from eim_ros.learning.models.gaussian import all_finite, tensors_of
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts
from eim_ros.learning.ratio.density_ratio import OBJECTIVES, RatioReport, report_of
from eim_ros.learning.ratio.inputs import RatioInputs
from eim_ros.learning.ratio.plug_in import PlugInRatio

BETAS, EPSILON = (0.9, 0.999), 1e-8  # settings of Adam: the defaults of PyTorch
# maximum number of successive rows that share a dropout mask; the default batch size is a multiple of it
ROWS_PER_MASK = 20
FIRST_SCALE = 3.0  # scale of the weights of the first layer, relative to Glorot's initialisation
BIAS_RANGE = 1.0  # maximum absolute value of an initial bias
# Number of samples per pass through the network. A pass is three times faster if its values stay in the cache.
CHUNK_ROWS = 2048
# after TRIALS successive fits without a gain, the network is trained in only every REST-th iteration
TRIALS, REST = 5, 5


class Dropout(nn.Module):
    """Dropout layer with its own source of randomness.

    In training, the layer sets some inputs to zero and scales the others up. The probability of setting an input to
    zero must be at least 0 and less than 1. Successive rows share a mask, because drawing a mask for each row would
    take longer than the layers themselves. Shared masks are harmless because the batches are shuffled. Set `generator`
    to a generator on the device of the inputs before training.
    """

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability
        self.generator: torch.Generator | None = None

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the inputs (n, width). Dropout changes them in training, but not in evaluation."""
        if not self.training:
            return inputs
        assert self.generator is not None, "training needs randomness"
        blocks = inputs.unflatten(0, (-1, math.gcd(len(inputs), ROWS_PER_MASK)))
        shape = (len(blocks), 1, inputs.shape[1])
        drawn = torch.rand(shape, generator=self.generator, dtype=torch.float32, device=inputs.device)
        mask = (drawn >= self.probability).to(inputs.dtype) / (1.0 - self.probability)
        masked: Tensor = (blocks * mask).flatten(0, 1)
        return masked


def ratio_network(
    n_inputs: int, hidden_layers: tuple[int, ...], dropout: float, generator: torch.Generator
) -> nn.Sequential:
    """Return a network that maps (n, n_inputs) to (n, 1), in float32 on the CPU, with an initial output of zero.

    Each hidden layer is followed by dropout with the given probability. The generator may be on another device.
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
    """Return a layer with uninitialised weights, because PyTorch would draw them from the global generator."""
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, n_inputs, n_outputs, dtype=torch.float32)
    return layer


def _uniform(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Draw uniformly between -1 and 1, in float32 regardless of torch's default dtype."""
    return 2.0 * torch.rand(shape, generator=generator, dtype=torch.float32) - 1.0


def _cpu(generator: torch.Generator) -> torch.Generator:
    """Return a generator on the CPU with the same seed, because weights should not depend on the device."""
    if generator.device.type == "cpu":
        return generator
    return torch.Generator().manual_seed(generator.initial_seed())


@dataclass(frozen=True)
class PreparedPairs:
    """Inputs (n, n_inputs) of the network in float32, and the plug-in ratio (n,) [nat], of n pairs."""

    inputs: Tensor
    base: Tensor

    def __getitem__(self, index: Tensor | slice) -> PreparedPairs:
        return PreparedPairs(self.inputs[index], self.base[index])


class RatioTraining:
    """Training of a network with early stopping that continues over several calls of `train`.

    `optimiser` trains the network `learner`. `network` is a copy of the learner at its lowest held-out loss so far, and
    `stale` is the number of epochs since then. The generator draws the initial weights.
    """

    def __init__(self, config: RatioConfig, n_inputs: int, generator: torch.Generator, device: torch.device) -> None:
        self.config = config
        self.network = ratio_network(n_inputs, config.hidden_layers, config.dropout, generator).to(device)
        self.learner = copy.deepcopy(self.network)
        self.optimiser = Adam([p.detach() for p in self.learner.parameters()], config.learning_rate)
        self.stale = 0
        self._moments = self.optimiser.tensors()  # state of the optimiser at the time when `network` was copied
        self._objective = OBJECTIVES[config.objective]
        self._trained = False

    def output(self, inputs: Tensor) -> Tensor:
        """Return the network's contribution to phi [nat], (n,), at inputs (n, n_inputs), differentiable."""
        self.network.eval()
        return self.network(inputs).squeeze(-1)  # type: ignore[no-any-return]

    def phi(self, part: PreparedPairs, network: nn.Module | None = None) -> Tensor:
        """Return phi [nat], (n,), of prepared pairs. By default, the best network computes it."""
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
        """Train the learner for several epochs with pairs from the data and from the model, and update the network.

        The learner is copied to the network whenever its loss on the held-out pairs reaches a new minimum. Without
        held-out pairs, the learner is copied at the end. `held_out` contains pairs from the data and pairs from the
        model. The generator draws the order of the pairs and the dropout masks. The result is whether training stopped
        because a loss or a gradient was not finite.
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
        """Copy the weights of the learner to the network."""
        self.network.load_state_dict(self.learner.state_dict())
        self._moments = self.optimiser.tensors()

    def go_back(self) -> None:
        """Restore the weights of the learner and the moments of Adam at the lowest held-out loss."""
        self.learner.load_state_dict(self.network.state_dict())
        self.optimiser.restore(self._moments)
        self.stale = 0

    def _loss(self, network: nn.Module, positive: PreparedPairs, negative: PreparedPairs) -> float:
        loss_p, loss_q = self._objective(self.phi(positive, network), self.phi(negative, network))
        return 0.5 * float(loss_p.mean() + loss_q.mean())

    def epoch(self, positive: PreparedPairs, negative: PreparedPairs, generator: torch.Generator) -> bool:
        """Train the learner for one pass over pairs from the data and from the model.

        If a loss or a gradient is not finite, the pass ends before the next update of the weights, and the result is
        False.
        """
        n = min(len(positive.base), len(negative.base))
        parts = [
            part[torch.randperm(len(part.base), generator=generator, device=generator.device)[:n]]
            for part in (positive, negative)
        ]
        inputs = torch.stack([part.inputs for part in parts], 1)  # (n, 2, n_inputs)
        base = torch.stack([part.base for part in parts], 1).to(torch.float32)
        for layer in self.learner:
            if isinstance(layer, Dropout):
                layer.generator = generator
        self.learner.train()
        parameters = list(self.learner.parameters())
        size = self.config.batch_size
        for rows, known in zip(inputs.split(size), base.split(size), strict=True):
            with torch.enable_grad():
                phi = known + self.learner(rows.flatten(0, 1)).view_as(known)
                loss_p, loss_q = self._objective(*phi.unbind(1))
                loss = 0.5 * (loss_p.mean() + loss_q.mean())
            gradients = torch.autograd.grad(loss, parameters)
            # a single tensor, so that a GPU is read only once
            sums = torch.stack([loss.detach(), *(gradient.sum() for gradient in gradients)])
            if not (all_finite(sums) or all(all_finite(part) for part in (loss, *gradients))):
                return False
            self.optimiser.step(list(gradients))
        return True

    def tensors(self) -> dict[str, Tensor]:
        """Return the state for a checkpoint."""
        tensors = {f"network.{name}": value for name, value in self.network.state_dict().items()}
        tensors |= {f"learner.{name}": value for name, value in self.learner.state_dict().items()}
        for prefix, moments in (("adam", self.optimiser.tensors()), ("moments", self._moments)):
            tensors |= {f"{prefix}.{name}": value for name, value in moments.items()}
        return {**tensors, "training": torch.tensor([self._trained, self.stale])}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Restore the state that `tensors` returned."""
        self.network.load_state_dict(tensors_of("network.", tensors))
        self.learner.load_state_dict(tensors_of("learner.", tensors))
        self._moments = {name: value.clone() for name, value in tensors_of("moments.", tensors).items()}
        self.optimiser.restore(tensors_of("adam.", tensors))
        trained, self.stale = (int(count) for count in tensors["training"])
        self._trained = bool(trained)


class NetworkRatio:
    """Neural estimator of the density ratio. Each `fit` continues the training of its network.

    Parameters
    ----------
    config : RatioConfig
    inputs : RatioInputs
    generator : torch.Generator
        Source of the initial weights.
    device : torch.device
        Device of the network. All contexts and samples must be on the same device.
    base : PlugInRatio, optional
        Ratio to which the network is added. By default, the network is the ratio.

    Examples
    --------
    Learn the ratio of samples around 1 to a model around 0. The ratio grows with the sample:

    >>> import torch
    >>> from eim_ros.learning import NetworkRatio, Pairs, RatioConfig, StandardisedInputs
    >>> from eim_ros.learning.models import GaussianMixture, MixtureOfExperts
    >>> generator = torch.Generator().manual_seed(0)
    >>> pairs = Pairs(torch.zeros(1000, 0), 1.0 + torch.randn(1000, 1, generator=generator))
    >>> model = MixtureOfExperts.from_mixture(GaussianMixture(torch.zeros(1), torch.zeros(1, 1), torch.ones(1, 1, 1)))
    >>> inputs = StandardisedInputs.from_data(pairs.context, pairs.sample)
    >>> ratio = NetworkRatio(RatioConfig(estimator="network"), inputs, generator, torch.device("cpu"))
    >>> ratio.fit(pairs, model, iteration=0, generator=generator).network_used
    True
    >>> low, high = ratio.log_ratio(torch.zeros(2, 0), torch.tensor([[-1.0], [2.0]])).tolist()
    >>> low < 0.0 < high
    True
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
        self._idle = 0  # number of successive fits in which the network did not lower the held-out loss enough

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
        """Return whether the network lowers the held-out loss by more than `evidence` standard errors.

        If the setting `evidence` is negative, the result is always True.
        """
        if self.config.evidence < 0.0:
            return True
        with_network = self._objective(self.training.phi(positive), self.training.phi(negative))
        without = self._objective(positive.base, negative.base)
        gains = [alone - together for alone, together in zip(without, with_network, strict=True)]
        gain = sum(part.mean() for part in gains)
        error = sum(part.var(correction=0) / len(part) for part in gains) ** 0.5
        return bool(gain > self.config.evidence * error)


def _chunks(context: Tensor, sample: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Return chunks of rows of both tensors, or a single empty chunk if there are no samples."""
    return zip(context.split(CHUNK_ROWS), sample.split(CHUNK_ROWS), strict=True)


class Adam:
    """The optimiser Adam for a few parameters, with the default settings of `torch.optim.Adam`.

    `step` changes the parameters in place. `torch.optim.Adam` runs the same kernel, but its first use imports the
    compiler of PyTorch. This import takes more than a second, which is longer than a small fit.
    """

    def __init__(self, parameters: list[Tensor], step_size: float) -> None:
        self.parameters = parameters
        self.step_size = step_size
        self.moments = {name: [torch.zeros_like(p) for p in parameters] for name in ("exp_avg", "exp_avg_sq")}
        self.moments["step"] = [p.new_zeros(()) for p in parameters]

    @torch.no_grad()
    def step(self, gradients: list[Tensor]) -> None:
        """Change the parameters by one step, given the gradient of the objective with respect to each of them."""
        adam(
            self.parameters,
            gradients,
            self.moments["exp_avg"],
            self.moments["exp_avg_sq"],
            [],
            self.moments["step"],
            fused=True,
            amsgrad=False,
            beta1=BETAS[0],
            beta2=BETAS[1],
            lr=self.step_size,
            weight_decay=0.0,
            eps=EPSILON,
            maximize=False,
        )

    def tensors(self) -> dict[str, Tensor]:
        """Return copies of the moments. Their names contain the index of the parameter and the kind of moment."""
        return {f"{i}.{name}": part.clone() for name, parts in self.moments.items() for i, part in enumerate(parts)}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Restore the moments that `tensors` returned."""
        for name, parts in self.moments.items():
            for index, part in enumerate(parts):
                part.copy_(tensors_of(f"{index}.", tensors)[name])
