"""Density ratios without a network: a known or fitted density, divided by the model's (thesis 5.5, 7.1.1).

The model's density is known, so no classifier has to find it.

- `PlugInRatio`: phi(x, y) = log p_hat(x, y) - log q_old(x|y). What is known of p comes from a `KnownFactor`: a density
  fitted to the data, or that of the ratio's inputs. A constant added to it changes nothing.
- `ExactRatio`: phi(x, y) = log p(x|y)/T - log q_old(x|y) for a target whose density is known up to a constant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from eim_ros.learning.configs import AuxiliaryConfig, ExactConfig, RatioConfig
from eim_ros.learning.data import Pairs
from eim_ros.learning.models.evaluator import PreparedMixture
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts
from eim_ros.learning.ratio.density_ratio import RatioReport, report_of
from eim_ros.learning.ratio.inputs import RatioInputs
from eim_ros.learning.target import TargetDensity, restricted_elbo, with_floor


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
            self._model = self.config.auxiliary.prepared(model, data.context, data.sample)

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


class ExactRatio:
    """Exact log ratio of a target and a model, phi = log p(x|y)/T - log q_old(x|y); it counts its evaluations.

    If the target is not finite at a sample, for example outside of hard bounds, its value is that of `with_floor`, and
    it has no gradient: an expert with such samples follows values (`update_experts`).

    Parameters
    ----------
    target : TargetDensity
    config : ExactConfig
    auxiliary : AuxiliaryConfig

    Attributes
    ----------
    present : TargetDensity
        The target at the present iteration, if it is annealed.
    evaluations, non_finite : int
        Samples at which the target was evaluated since the last `fit`, and those of them at which it was not finite.
    """

    def __init__(self, target: TargetDensity, config: ExactConfig, auxiliary: AuxiliaryConfig) -> None:
        self.target = target
        self.config = config
        self.auxiliary = auxiliary
        self.present = target
        self.evaluations = 0
        self.non_finite = 0
        self._model: PreparedMixture | None = None

    def anneal(self, iteration: int) -> None:
        """Take the target of an iteration."""
        self.present = self.target.at(iteration)

    def fit(self, data: Pairs, model: MixtureOfExperts) -> None:
        """Take a new model as q_old, prepared for many evaluations at these contexts."""
        typical = model.experts(data.context[:1]).mean[0]
        self._model = self.auxiliary.prepared(model, data.context, typical)
        self.evaluations = self.non_finite = 0

    def log_ratio(self, context: Tensor, sample: Tensor, component: Tensor | None = None) -> Tensor:
        model = self._current().log_prob(context, sample, component)
        log_target = self.present.log_prob(context, sample)
        self._count(torch.isfinite(log_target))
        return with_floor(log_target) / self.config.temperature - model

    def gradient(self, context: Tensor, sample: Tensor, component: Tensor | None = None) -> Tensor:
        model = self._current().score(context, sample, component)
        gradient = self.present.gradient(context, sample) / self.config.temperature - model
        self._count(torch.isfinite(gradient).all(-1))
        return gradient

    def log_target(self, places: Pairs) -> Tensor:
        """Return log p(x|y) [nat], up to a constant, (n,), at candidates of new components."""
        return self.present.log_prob(places.context, places.sample)

    def record(self, new: MixtureOfExperts, context: Tensor, generator: torch.Generator) -> dict[str, float]:
        """Return the figures of an iteration that led from q_old to a new model.

        The objective E[log p] + T H(q) is estimated from fresh samples, see `restricted_elbo`. KL(new || old), by how
        much the model has moved, is half the variance of log new/old up to third order, without the cancellation that
        hides small values in the mean.

        Parameters
        ----------
        new : MixtureOfExperts
        context : Tensor (n_contexts, n_context)
            All contexts, of which some are picked.
        generator : torch.Generator
        """
        prepared, temperature = self._current(), self.config.temperature
        old, n_samples = prepared.model, self.config.n_objective_samples
        record = {
            "evaluations": float(self.evaluations),
            "non_finite": self.non_finite / max(1, self.evaluations),
        }
        chosen, sample = draw_pairs(new, context, n_samples, generator)
        log_model = new.log_prob(chosen, sample)
        value = self.present.log_prob(chosen, sample) / temperature - log_model
        record |= restricted_elbo(value, torch.full_like(value, 1.0 / len(value)), temperature)
        record["entropy"] = -float(log_model.mean())
        record["change"] = 0.5 * float((log_model - old.log_prob(chosen, sample)).var())
        if prepared.states.shape[1] > 0:
            chosen = _picked(context, n_samples, generator)
            sample, component = old.sample_with_components(chosen, generator)
            record["auxiliary_error"] = prepared.truncation_error(chosen, sample, component)
        return record

    def tensors(self) -> dict[str, Tensor]:
        """State for a checkpoint: none, because each iteration begins with `fit`."""
        return {}

    def restore(self, tensors: dict[str, Tensor], model: MixtureOfExperts, iteration: int) -> None:
        """Inverse of `tensors`."""

    def _current(self) -> PreparedMixture:
        assert self._model is not None, "fit comes first"
        return self._model

    def _count(self, good: Tensor) -> None:
        self.evaluations += len(good)
        self.non_finite += len(good) - int(good.sum())


def draw_pairs(
    model: MixtureOfExperts, context: Tensor, n_samples: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Return contexts, picked at random, with one sample of the model each."""
    chosen = _picked(context, n_samples, generator)
    return chosen, model.sample(chosen, generator)


def _picked(context: Tensor, n_samples: int, generator: torch.Generator) -> Tensor:
    return context[torch.randint(len(context), (n_samples,), generator=generator, device=context.device)]
