"""Density ratio by a neural network, alone or on top of a plug-in ratio (thesis 2.3, 3.2, 7.1.1).

phi = network, or phi = plug-in + network: the network's last layer starts at zero. It is trained by an objective of the
Bregman family, the binary cross entropy by default, see `RatioTraining`.

The plug-in density does not change from iteration to iteration and neither does what it misses, log p - log p_hat: on
top of it the network learns a fixed function.

Where the network does not lower the held-out loss by more than its standard error, it has learnt noise. Then the
plug-in ratio is used without it; a network alone says nothing, phi = 0, and the model stays where it is: it is as close
to the data as they can tell. With nothing held out there is no telling, and the network is used as it is.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from eim_ros.distributions import MixtureOfExperts
from eim_ros.inference.ratio.density_ratio import RatioConfig, RatioReport, report_of
from eim_ros.inference.ratio.inputs import RatioInputs
from eim_ros.inference.ratio.objectives import OBJECTIVES
from eim_ros.inference.ratio.plug_in_ratio import PlugInRatio
from eim_ros.inference.ratio.training import CHUNK_ROWS, PreparedPairs, RatioTraining
from eim_ros.inference.training_data import Pairs

__all__ = ["NetworkRatio"]

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
