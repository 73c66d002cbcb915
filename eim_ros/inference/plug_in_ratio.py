"""Plug-in density ratio: a known or fitted density of the data, divided by the model's (thesis 7.1.1).

phi(x, y) = log p_hat(x, y) - log q_old(x|y). The model's density is known, so no classifier has to find it out. What is
known of p comes from a `KnownFactor`; a constant added to it changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from eim_ros.distributions import MixtureOfExperts
from eim_ros.inference.density_ratio import Pairs, RatioConfig, RatioReport, report_of
from eim_ros.inference.ratio_inputs import RatioInputs

__all__ = ["InputsFactor", "KnownFactor", "PlugInRatio", "ReferenceFactor"]


class KnownFactor(Protocol):
    """What is known of log p(x, y) [nat], up to a constant; `iteration` lets it anneal."""

    def log_density(self, context: Tensor, sample: Tensor, iteration: int) -> Tensor:
        """(n_samples,)."""
        ...

    def score(self, context: Tensor, sample: Tensor, iteration: int) -> Tensor:
        """Gradient with respect to the sample, (n_samples, n_dims)."""
        ...


@dataclass(frozen=True)
class ReferenceFactor:
    """A density fitted to the data."""

    model: MixtureOfExperts

    def log_density(self, context: Tensor, sample: Tensor, iteration: int) -> Tensor:
        return self.model.log_prob(context, sample)

    def score(self, context: Tensor, sample: Tensor, iteration: int) -> Tensor:
        return self.model.score(context, sample)


@dataclass(frozen=True)
class InputsFactor:
    """The known log density of ratio inputs, differentiated automatically."""

    inputs: RatioInputs

    def log_density(self, context: Tensor, sample: Tensor, iteration: int) -> Tensor:
        with torch.no_grad():
            return self._known(context, sample, iteration)

    def score(self, context: Tensor, sample: Tensor, iteration: int) -> Tensor:
        leaf = sample.detach().requires_grad_(True)
        with torch.enable_grad():
            total = self._known(context, leaf, iteration).sum()
        (gradient,) = torch.autograd.grad(total, leaf)
        return gradient

    def _known(self, context: Tensor, sample: Tensor, iteration: int) -> Tensor:
        known = self.inputs.known_log_density(context, sample, iteration)
        assert known is not None, "the inputs know no density"
        return known


class PlugInRatio:
    """Density ratio without a network; satisfies `DensityRatio`.

    Parameters
    ----------
    known : KnownFactor
    config : RatioConfig
        Decides which pairs a fit is reported by.
    """

    def __init__(self, known: KnownFactor, config: RatioConfig) -> None:
        self.known = known
        self.config = config
        self._model: MixtureOfExperts | None = None
        self._iteration = 0

    def adapt(self, model: MixtureOfExperts, iteration: int) -> None:
        """Take a new model as q_old."""
        self._model, self._iteration = model, iteration

    def fit(self, data: Pairs, model: MixtureOfExperts, iteration: int, generator: torch.Generator) -> RatioReport:
        self.adapt(model, iteration)
        held_out = data[self.config.held_out(len(data))]
        drawn, _ = model.sample(held_out.context, generator)
        phi_p, phi_q = (self.log_ratio(held_out.context, sample) for sample in (held_out.sample, drawn))
        return report_of(phi_p, phi_q)

    def log_ratio(self, context: Tensor, sample: Tensor) -> Tensor:
        return self.known.log_density(context, sample, self._iteration) - self._current().log_prob(context, sample)

    def gradient(self, context: Tensor, sample: Tensor) -> Tensor:
        return self.known.score(context, sample, self._iteration) - self._current().score(context, sample)

    def tensors(self) -> dict[str, Tensor]:
        return {}

    def restore(self, tensors: dict[str, Tensor], model: MixtureOfExperts, iteration: int) -> None:
        self.adapt(model, iteration)

    def _current(self) -> MixtureOfExperts:
        assert self._model is not None, "fit comes first"
        return self._model
