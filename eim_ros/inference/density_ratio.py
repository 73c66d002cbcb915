"""Density ratio estimation by probabilistic classification (thesis 2.3.1, 3.2, 4.3.1).

phi(x, y) = log p(x, y)/q(x, y): the logits of a classifier with the data (p) as the positive class. A neural network
is trained with the binary cross entropy through softplus, warm-started from the previous iteration; the weights with
the least held-out loss are kept. Where a factor of p is known, phi = log p_known - log q_old + network (thesis
7.1.1), q_old being known always.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from eim_ros.distributions.mixture_of_experts import MixtureOfExperts
from eim_ros.inference.ratio_inputs import RatioInputs
from eim_ros.settings import Settings, option

__all__ = ["DensityRatio", "NetworkRatio", "Pairs", "RatioConfig", "RatioReport"]


@dataclass(frozen=True)
class Pairs:
    """Samples with their contexts.

    Attributes
    ----------
    context : Tensor (n_samples, n_context)
    sample : Tensor (n_samples, n_dims)
    """

    context: Tensor
    sample: Tensor


@dataclass(frozen=True)
class RatioReport:
    """How well the classifier did on held-out pairs.

    Attributes
    ----------
    loss : float
        Binary cross entropy, mean of both classes [nat]; log 2 where the classes cannot be told apart.
    accuracy : float
        Share classified right.
    ratio_kl : float
        -E_q[phi] [nat], the estimate of E_p(y) KL(q || p).
    collapsed : bool
        The output is constant or not finite: no update may be based on it.
    """

    loss: float
    accuracy: float
    ratio_kl: float
    collapsed: bool


class DensityRatio(Protocol):
    """Estimator of phi = log p/q from samples of both."""

    def fit(
        self, data: Pairs, model_samples: Pairs, model: MixtureOfExperts, iteration: int, generator: torch.Generator
    ) -> RatioReport:
        """Adapt to a new model, given samples of the data and of the model."""
        ...

    def log_ratio(self, context: Tensor, sample: Tensor) -> Tensor:
        """phi [nat], (n_samples,)."""
        ...

    def gradient(self, context: Tensor, sample: Tensor) -> Tensor:
        """Gradient of phi with respect to the sample, (n_samples, n_dims)."""
        ...

    def tensors(self) -> dict[str, Tensor]:
        """State for a checkpoint."""
        ...

    def restore(self, tensors: dict[str, Tensor], model: MixtureOfExperts, iteration: int) -> None:
        """Inverse of `tensors`."""
        ...


@dataclass(frozen=True)
class RatioConfig(Settings):
    """Settings of `NetworkRatio`."""

    hidden_layers: tuple[int, ...] = option((128, 128), "widths of the hidden layers", minimum=1)
    dropout: float = option(0.1, "dropout probability", minimum=0.0, maximum=0.9)
    learning_rate: float = option(1e-3, "step size of Adam", minimum=0.0)
    batch_size: int = option(1000, "pairs of each class in a batch", minimum=1)
    initial_epochs: int = option(4, "passes over the data in the first iteration", minimum=1)
    n_epochs: int = option(2, "passes over the data per iteration", minimum=1)
    validation_share: float = option(0.1, "share of the pairs held out", minimum=0.0, maximum=0.5)

    def n_training(self, n_samples: int) -> int:
        """How many of n_samples pairs, the first ones, are trained on; the rest is held out."""
        return n_samples - int(self.validation_share * n_samples)


class NetworkRatio:
    """Neural classifier; holds the network and its optimiser, which are adapted by each `fit`.

    Parameters
    ----------
    config : RatioConfig
    inputs : RatioInputs
    generator : torch.Generator
        Randomness of the initial weights.
    device : torch.device
        Of the network; tensors given later must live there.
    """

    def __init__(
        self, config: RatioConfig, inputs: RatioInputs, generator: torch.Generator, device: torch.device
    ) -> None:
        self.config = config
        self.inputs = inputs
        self.network = _network(inputs.n_inputs, config, generator).to(device)
        self.optimiser = torch.optim.Adam(self.network.parameters(), lr=config.learning_rate)
        self._model: MixtureOfExperts | None = None
        self._iteration = 0
        self._trained = False

    def fit(
        self, data: Pairs, model_samples: Pairs, model: MixtureOfExperts, iteration: int, generator: torch.Generator
    ) -> RatioReport:
        self._model, self._iteration = model, iteration
        positive, negative = self._prepared(data), self._prepared(model_samples)
        n_train = self.config.n_training(len(positive.base))
        train, held_out = _split(positive, negative, n_train)
        best_loss, best = self._loss(*held_out).item(), self._weights()
        for _ in range(self.config.n_epochs if self._trained else self.config.initial_epochs):
            self._epoch(*train, generator)
            loss = self._loss(*held_out).item()
            if loss < best_loss:
                best_loss, best = loss, self._weights()
        self.network.load_state_dict(best)
        self._trained = True
        return self._report(*held_out)

    def log_ratio(self, context: Tensor, sample: Tensor) -> Tensor:
        with torch.no_grad():
            prepared = self._prepared(Pairs(context, sample))
            return prepared.base + self._logits(prepared.inputs).to(sample.dtype)

    def gradient(self, context: Tensor, sample: Tensor) -> Tensor:
        leaf = sample.detach().requires_grad_(True)
        with torch.enable_grad():
            value = self.network(self.inputs(context, leaf, self._iteration).to(torch.float32)).sum()
            known = self.inputs.known_log_density(context, leaf, self._iteration)
            total = value if known is None else value + known.sum()
        (gradient,) = torch.autograd.grad(total, leaf)
        if known is not None:
            gradient = gradient - self._current_model().score(context, sample)
        return gradient

    def tensors(self) -> dict[str, Tensor]:
        tensors = {f"network.{name}": value for name, value in self.network.state_dict().items()}
        for index, state in self.optimiser.state_dict()["state"].items():
            tensors |= {f"adam.{index}.{name}": torch.as_tensor(value) for name, value in state.items()}
        return tensors

    def restore(self, tensors: dict[str, Tensor], model: MixtureOfExperts, iteration: int) -> None:
        self._model, self._iteration = model, iteration
        weights = {name.removeprefix("network."): v for name, v in tensors.items() if name.startswith("network.")}
        self.network.load_state_dict(weights)
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in tensors.items():
            if name.startswith("adam."):
                _, index, key = name.split(".")
                state.setdefault(int(index), {})[key] = value
        self.optimiser.load_state_dict({**self.optimiser.state_dict(), "state": state})
        self._trained = bool(state)

    def _weights(self) -> dict[str, Tensor]:
        return {name: value.clone() for name, value in self.network.state_dict().items()}

    def _current_model(self) -> MixtureOfExperts:
        assert self._model is not None, "fit comes first"
        return self._model

    def _prepared(self, pairs: Pairs) -> _Prepared:
        with torch.no_grad():
            inputs = self.inputs(pairs.context, pairs.sample, self._iteration).to(torch.float32)
            known = self.inputs.known_log_density(pairs.context, pairs.sample, self._iteration)
            if known is None:
                return _Prepared(inputs, torch.zeros_like(pairs.sample[:, 0]))
            return _Prepared(inputs, known - self._current_model().log_prob(pairs.context, pairs.sample))

    def _logits(self, inputs: Tensor) -> Tensor:
        self.network.eval()
        return self.network(inputs).squeeze(-1)  # type: ignore[no-any-return]

    def _epoch(self, positive: _Prepared, negative: _Prepared, generator: torch.Generator) -> None:
        n = min(len(positive.base), len(negative.base))
        order_p = torch.randperm(len(positive.base), generator=generator, device=generator.device)
        order_n = torch.randperm(len(negative.base), generator=generator, device=generator.device)
        with torch.random.fork_rng(devices=[]):  # dropout draws from the global generator: seeded, then left as it was
            torch.manual_seed(int(torch.randint(2**31 - 1, (1,), generator=generator, device=generator.device)))
            for start in range(0, n, self.config.batch_size):
                pick = slice(start, start + self.config.batch_size)
                self.network.train()
                self.optimiser.zero_grad()
                self._loss(positive[order_p[pick]], negative[order_n[pick]], train=True).backward()
                self.optimiser.step()

    def _loss(self, positive: _Prepared, negative: _Prepared, train: bool = False) -> Tensor:
        inputs = torch.cat([positive.inputs, negative.inputs])
        base = torch.cat([positive.base, negative.base]).to(torch.float32)
        with torch.set_grad_enabled(train):
            output = self.network(inputs).squeeze(-1) if train else self._logits(inputs)
            logits = base + output
            n_positive = len(positive.base)
            softplus = nn.functional.softplus
            return 0.5 * (softplus(-logits[:n_positive]).mean() + softplus(logits[n_positive:]).mean())

    def _report(self, positive: _Prepared, negative: _Prepared) -> RatioReport:
        with torch.no_grad():
            phi_p = positive.base + self._logits(positive.inputs)
            phi_n = negative.base + self._logits(negative.inputs)
        both = torch.cat([phi_p, phi_n])
        collapsed = not bool(torch.isfinite(both).all()) or (len(both) > 1 and float(both.std()) == 0.0)
        accuracy = 0.5 * float((phi_p > 0).double().mean() + (phi_n <= 0).double().mean())
        return RatioReport(self._loss(positive, negative).item(), accuracy, -float(phi_n.mean()), collapsed)


@dataclass(frozen=True)
class _Prepared:
    """Inputs (n, n_inputs) in float32 and the known part of the logits (n,) of some pairs."""

    inputs: Tensor
    base: Tensor

    def __getitem__(self, index: Tensor | slice) -> _Prepared:
        return _Prepared(self.inputs[index], self.base[index])


def _split(
    positive: _Prepared, negative: _Prepared, n_train: int
) -> tuple[tuple[_Prepared, _Prepared], tuple[_Prepared, _Prepared]]:
    """Training part and held-out part; all pairs serve as both where nothing is to be held out."""
    train = (positive[:n_train], negative[:n_train])
    if n_train == len(positive.base):
        return train, train
    return train, (positive[n_train:], negative[n_train:])


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
