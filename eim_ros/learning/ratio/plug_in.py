"""Plug-in density ratio: a known or fitted density of the data, divided by the model's (thesis 7.1.1).

phi(x, y) = log p_hat(x, y) - log q_old(x|y). The model's density is known, so no classifier has to find it out. What is
known of p comes from a `KnownFactor`; a constant added to it changes nothing.

The log ratio of a known density and a model, phi = log p(x|y)/T - log q_old(x|y), exact (thesis 5.5).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from eim_ros.learning.configs import RatioConfig
from eim_ros.learning.data import Pairs
from eim_ros.learning.models.evaluator import PreparedMixture
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts
from eim_ros.learning.ratio.density_ratio import RatioReport, report_of
from eim_ros.learning.ratio.inputs import RatioInputs
from eim_ros.learning.target import TargetDensity, with_floor


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
    """A density fitted to the data; where it was prepared, it is evaluated faster."""

    model: MixtureOfExperts
    prepared: PreparedMixture | None = None

    def log_density(self, context: Tensor, sample: Tensor, iteration: int) -> Tensor:
        return (self.prepared or self.model).log_prob(context, sample)

    def score(self, context: Tensor, sample: Tensor, iteration: int) -> Tensor:
        return (self.prepared or self.model).score(context, sample)


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
        self._model: PreparedMixture | None = None
        self._iteration = 0

    def adapt(self, model: MixtureOfExperts, iteration: int, data: Pairs | None = None) -> None:
        """Take a new model as q_old; given data, it is prepared for many evaluations."""
        self._iteration = iteration
        if data is None:
            self._model = PreparedMixture.unprepared(model)
        else:
            self._model = self.config.prepared(model, data.context, data.sample)

    def fit(self, data: Pairs, model: MixtureOfExperts, iteration: int, generator: torch.Generator) -> RatioReport:
        self.adapt(model, iteration, data)
        held_out = data[self.config.held_out(len(data))]
        drawn, component = model.sample_with_components(held_out.context, generator)
        phi_p, phi_q = (self.log_ratio(held_out.context, sample) for sample in (held_out.sample, drawn))
        error = self.auxiliary_error(Pairs(held_out.context, drawn), component)
        return report_of(phi_p, phi_q, auxiliary_error=error)

    def log_ratio(self, context: Tensor, sample: Tensor, component: Tensor | None = None) -> Tensor:
        known = self.known.log_density(context, sample, self._iteration)
        return known - self._current().log_prob(context, sample, component)

    def gradient(self, context: Tensor, sample: Tensor, component: Tensor | None = None) -> Tensor:
        known = self.known.score(context, sample, self._iteration)
        return known - self._current().score(context, sample, component)

    def auxiliary_error(self, drawn: Pairs, component: Tensor) -> float:
        """delta [nat], by how much phi is too high on average for truncating the auxiliary distribution; 0 if exact."""
        return self._current().truncation_error(drawn.context, drawn.sample, component)

    def tensors(self) -> dict[str, Tensor]:
        return {}

    def restore(self, tensors: dict[str, Tensor], model: MixtureOfExperts, iteration: int) -> None:
        self.adapt(model, iteration)

    def _current(self) -> PreparedMixture:
        assert self._model is not None, "fit comes first"
        return self._model


@dataclass
class KnownRatio:
    """Exact log ratio of a target and a model; counts what it is asked.

    Where the target is not finite, such as outside of hard bounds, it counts as `with_floor` says, and has no gradient:
    an expert that reaches there follows values (`update_experts`). How many such samples there were is counted.

    Attributes
    ----------
    target : TargetDensity
    model : PreparedMixture
        q_old.
    temperature : float
    evaluations, non_finite : int
        Samples at which the target was evaluated so far, and those of them where it was not finite.
    """

    target: TargetDensity
    model: PreparedMixture
    temperature: float = 1.0
    evaluations: int = 0
    non_finite: int = 0

    def log_ratio(self, context: Tensor, sample: Tensor, component: Tensor | None = None) -> Tensor:
        model = self.model.log_prob(context, sample, component)
        log_target = self.target.log_prob(context, sample)
        self._count(torch.isfinite(log_target))
        return with_floor(log_target) / self.temperature - model

    def gradient(self, context: Tensor, sample: Tensor, component: Tensor | None = None) -> Tensor:
        model = self.model.score(context, sample, component)
        gradient = self.target.gradient(context, sample) / self.temperature - model
        self._count(torch.isfinite(gradient).all(-1))
        return gradient

    def _count(self, good: Tensor) -> None:
        self.evaluations += len(good)
        self.non_finite += len(good) - int(good.sum())
