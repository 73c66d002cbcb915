"""Density ratios without a network: a known or fitted density divided by the density of the model (thesis 5.5, 7.1.1).

The density of the model is known, so no classifier is needed.

- `PlugInRatio`: phi(x, y) = log p_hat(x, y) - log q_old(x|y). A `KnownFactor` provides log p_hat. The density p_hat is
  fitted to the data, or known from the inputs of the ratio. A constant offset of log p_hat does not affect EIM.
- `ExactRatio`: phi(x, y) = log p(x|y)/T - log q_old(x|y), if the density of the target is known up to a constant.
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
    """Known or fitted log p(x, y), up to a constant. The density may depend on the iteration of EIM."""

    def log_density(self, context: Tensor, sample: Tensor, iteration: int) -> Tensor:
        """Return log p [nat], (n_samples,), for contexts (n_samples, n_context) and samples (n_samples, n_dims)."""

    def score(self, context: Tensor, sample: Tensor, iteration: int) -> Tensor:
        """Return the gradient of log p with respect to the sample, (n_samples, n_dims)."""


@dataclass(frozen=True)
class ReferenceFactor:
    """Density that was fitted to the data, with an optional prepared form for fast evaluation."""

    model: MixtureOfExperts
    prepared: PreparedMixture | None = None

    def log_density(self, context: Tensor, sample: Tensor, iteration: int) -> Tensor:
        return (self.prepared or self.model).log_prob(context, sample)

    def score(self, context: Tensor, sample: Tensor, iteration: int) -> Tensor:
        return (self.prepared or self.model).score(context, sample)


@dataclass(frozen=True)
class InputsFactor:
    """Known log density of the inputs of the ratio, with automatic differentiation."""

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
        assert known is not None, "the inputs have no known density"
        return known


class PlugInRatio:
    """Density ratio without a network, which satisfies the Protocol `DensityRatio`.

    Parameters
    ----------
    known : KnownFactor
        The log density of the data.
    config : RatioConfig
        Settings of the auxiliary distribution, and the share of held-out pairs. The report of a fit is computed from
        these pairs.

    Examples
    --------
    The ratio of a known target N(1, 1) to a model N(0, 1) is x - 1/2:

    >>> import torch
    >>> from eim_ros.learning import PlugInRatio, RatioConfig
    >>> from eim_ros.learning.models import GaussianMixture, MixtureOfExperts
    >>> from eim_ros.learning.ratio.plug_in import ReferenceFactor
    >>> normal = lambda mean: GaussianMixture(torch.zeros(1), torch.tensor([[mean]]), torch.ones(1, 1, 1))
    >>> ratio = PlugInRatio(ReferenceFactor(MixtureOfExperts.from_mixture(normal(1.0))), RatioConfig())
    >>> ratio.adapt(MixtureOfExperts.from_mixture(normal(0.0)), iteration=0)
    >>> [round(phi, 3) for phi in ratio.log_ratio(torch.zeros(2, 0), torch.tensor([[-1.0], [2.0]])).tolist()]
    [-1.5, 1.5]
    """

    def __init__(self, known: KnownFactor, config: RatioConfig) -> None:
        self.known = known
        self.config = config
        self._model: PreparedMixture | None = None
        self._iteration = 0

    def adapt(self, model: MixtureOfExperts, iteration: int, data: Pairs | None = None) -> None:
        """Set the model q_old. If data are given, the model is prepared for many evaluations near the data."""
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
        """Return the mean bias of phi [nat] due to a truncated auxiliary distribution. The bias is 0 without
        truncation.

        `component` (n_samples,) of int64 contains the expert that drew each of the samples.
        """
        return self._current().truncation_error(drawn.context, drawn.sample, component)

    def tensors(self) -> dict[str, Tensor]:
        return {}

    def restore(self, tensors: dict[str, Tensor], model: MixtureOfExperts, iteration: int) -> None:
        self.adapt(model, iteration)

    def _current(self) -> PreparedMixture:
        assert self._model is not None, "fit comes first"
        return self._model


class ExactRatio:
    """Exact log ratio of a target and a model, phi = log p(x|y)/T - log q_old(x|y).

    The log target may not be finite at a sample, for example outside hard bounds. At such a sample, `with_floor`
    replaces the value, and there is no gradient. `update_experts` uses only values for experts with such samples.

    `present` is the target of the current iteration. This target differs from `target` if the target is annealed.
    `evaluations` is the number of evaluations of the target since the last `fit`, and `non_finite` is the number of
    evaluations that were not finite.
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
        """Set `present` to the target of an iteration."""
        self.present = self.target.at(iteration)

    def fit(self, data: Pairs, model: MixtureOfExperts) -> None:
        """Set the model q_old, and prepare it for many evaluations at the contexts of the data."""
        typical = model.experts(data.context[:1]).mean[0]
        self._model = self.auxiliary.prepared(model, data.context, typical)
        self.evaluations = self.non_finite = 0

    def log_ratio(self, context: Tensor, sample: Tensor, component: Tensor | None = None) -> Tensor:
        model = self._current().log_prob(context, sample, component)
        log_target = self.present.log_prob(context, sample)
        self._count(torch.isfinite(log_target))
        return with_floor(log_target, sample) / self.config.temperature - model

    def gradient(self, context: Tensor, sample: Tensor, component: Tensor | None = None) -> Tensor:
        model = self._current().score(context, sample, component)
        gradient = self.present.gradient(context, sample) / self.config.temperature - model
        self._count(torch.isfinite(gradient).all(-1))
        return gradient

    def log_target(self, places: Pairs) -> Tensor:
        """Return log p(x|y) [nat] up to a constant, (n,), at candidates for new components."""
        return self.present.log_prob(places.context, places.sample)

    def record(self, new: MixtureOfExperts, context: Tensor, generator: torch.Generator) -> dict[str, float]:
        """Return the record of an iteration that updated q_old to a new model.

        The objective E[log p] + T H(q) is estimated with `restricted_elbo` from new samples at a random subset of the
        contexts (n_contexts, n_context). The change of the model, KL(new || old), equals half the variance of log
        new/old up to terms of third order. The variance is used because cancellation makes the mean of log new/old
        inaccurate for small changes.

        The record contains the entries of `restricted_elbo`, `entropy` and `change` [nat], the number of `evaluations`
        of the target, and the share `non_finite` of evaluations that were not finite. If the auxiliary distribution is
        truncated, it also contains `auxiliary_error` [nat].
        """
        prepared, temperature = self._current(), self.config.temperature
        old, n_samples = prepared.model, self.config.n_objective_samples
        record = {"evaluations": float(self.evaluations), "non_finite": self.non_finite / max(1, self.evaluations)}
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
        """Return the state for a checkpoint. This state is empty, because each iteration begins with `fit`."""
        return {}

    def restore(self, tensors: dict[str, Tensor], model: MixtureOfExperts, iteration: int) -> None:
        """Do nothing, because there is no state to restore."""

    def _current(self) -> PreparedMixture:
        assert self._model is not None, "fit comes first"
        return self._model

    def _count(self, good: Tensor) -> None:
        self.evaluations += len(good)
        self.non_finite += len(good) - int(good.sum())


def draw_pairs(
    model: MixtureOfExperts, context: Tensor, n_samples: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Draw random contexts (n_samples, n_context) with replacement, and a sample of the model at each context.

    The samples have the shape (n_samples, n_dims). The contexts are rows of `context` (n_contexts, n_context).
    """
    chosen = _picked(context, n_samples, generator)
    return chosen, model.sample(chosen, generator)


def _picked(context: Tensor, n_samples: int, generator: torch.Generator) -> Tensor:
    return context[torch.randint(len(context), (n_samples,), generator=generator, device=context.device)]
