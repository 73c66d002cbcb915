"""Adaptation of the number of components (VIPS; option A in section 3.6 of Arenz et al. 2023).

Addition: among candidates, pairs of a context and a sample, a new component is placed where the demand

    log p(x|y) - max(log q(x|y), max over candidates of log q - Delta)

is greatest, that is, where the target exceeds the model most (`demand`). A large Delta favours candidates far from the
model. With a small Delta all distant candidates count as equally far, so the target decides. Delta takes several values
in turn, one for each new component.

Deletion: a component is deleted if, over a window of iterations, its weight was negligible and its deserved weight
hardly approached the greatest deserved weight (`ComponentHistory.stagnates`). An update without bounds would give it
the deserved weight, which is its weight times the exponential of its reward, up to normalisation. The reward alone,
phi = log p - log q, is no criterion, because it rises as the weight falls.

`Adaptation` is the rule of EIM, for mixtures of linear experts. If there are data, they are candidates. If the target
is known, current samples of all components and samples from all earlier iterations are candidates too. Earlier samples
are needed because a model that has contracted to one mode draws none elsewhere. If the density is known, log p is
exact. Otherwise it comes from a density ratio at the data (`RatioDemand`).

`AdaptiveComponents` is the rule of GMMVI (Arenz et al. 2020). It adds one component at a time, and splits components
that fit badly. A component N(mu, Sigma) with weight w and Sigma = L L' becomes two components with weight w/2:

    N(mu +- sqrt(a) v, Sigma - a v v'),    v = L u,  |u| = 1.

Together they have the mean and covariance of the original component. The model hardly changes, so the split does no
harm at first, and the term log q drives the halves apart. The unit vector u is the axis of the component's `Misfit`.
Modes far from all components are found only by additions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from eim_ros.core.errors import ConfigurationError
from eim_ros.core.settings import Settings, option
from eim_ros.learning.data import Pairs
from eim_ros.learning.gmmvi.components import Components, Misfit, mixture_log_prob
from eim_ros.learning.gmmvi.samples import Evaluated, Reservoir
from eim_ros.learning.gmmvi.settings import ComponentAdaptationConfig
from eim_ros.learning.models.evaluator import PreparedMixture
from eim_ros.learning.models.linear import LinearExperts, SoftmaxGating
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts, draw_contexts
from eim_ros.learning.models.standardisation import linear_parts

LEAST_GAIN = 0.4  # minimum share of its gap to the greatest log deserved weight that a useful component closes


@dataclass(frozen=True)
class ComponentHistory:
    """Rewards and weights of the components in the last iterations; the last row is the newest.

    Attributes
    ----------
    rewards : Tensor (n_iterations, n_components)
        log w + E[R] [nat], the log of the deserved weight, up to a constant. NaN before a component was added.
    log_weights : Tensor (n_iterations, n_components)
        Log weights [nat]; for conditional models, the log of the mean weight over the contexts. NaN before a component
        was added.
    """

    rewards: Tensor
    log_weights: Tensor

    @classmethod
    def blank(cls, like: Tensor, window: int) -> ComponentHistory:
        """Return the history before the first iteration, for a number of components equal to the length of `like`."""
        blank = like.new_full((window, len(like)), torch.nan)
        return cls(blank, blank)

    @property
    def window(self) -> int:
        """Number of iterations that are stored."""
        return len(self.rewards)

    def followed(self, reward: Tensor, log_weights: Tensor) -> ComponentHistory:
        """Append an iteration and drop the oldest one."""
        return ComponentHistory(
            torch.cat([self.rewards[1:], reward.unsqueeze(0)]),
            torch.cat([self.log_weights[1:], log_weights.unsqueeze(0)]),
        )

    def take(self, index: Tensor) -> ComponentHistory:
        """Return the history of a subset of the components."""
        return ComponentHistory(self.rewards[:, index], self.log_weights[:, index])

    def added(self, n_new: int) -> ComponentHistory:
        """Append new components, whose history is NaN."""
        blank = self.rewards.new_full((self.window, n_new), torch.nan)
        return ComponentHistory(torch.cat([self.rewards, blank], -1), torch.cat([self.log_weights, blank], -1))

    def stagnates(self, kernel: Tensor, lag: int) -> Tensor:
        """Return which components hardly gain on the best one, (n_components,) of bool.

        A component stagnates if its smoothed log deserved weight has closed at most the share `LEAST_GAIN` of its gap
        to the greatest one. A component that is younger than the window does not stagnate. The kernel (width,) contains
        the weights of the iterations in the smoothed values. `lag` is the number of iterations between the two smoothed
        values that are compared.
        """
        width, weights = len(kernel), kernel.to(self.rewards).unsqueeze(-1)
        now = (self.rewards[-width:] * weights).sum(0)
        before = (self.rewards[: self.window - lag][-width:] * weights).sum(0)
        lack = (now.nan_to_num(-torch.inf).max() - before).clamp_min(1e-12)
        return (now - before) / lack <= LEAST_GAIN  # False for NaN


@dataclass(frozen=True)
class AdaptationState:
    """Memory of EIM: the history of its components and earlier samples.

    Attributes
    ----------
    history : ComponentHistory
    drawn : Pairs
        Uniformly random subset of all samples so far.
    n_batches : int
        Number of batches of samples so far.
    n_added : int
        Number of components added since the start of the run.
    """

    history: ComponentHistory
    drawn: Pairs
    n_batches: int = 0
    n_added: int = 0

    @classmethod
    def first(cls, model: MixtureOfExperts, window: int = 0) -> AdaptationState:
        """Return the state before the first iteration."""
        nothing = torch.zeros(0, dtype=model.dtype, device=model.device)
        history = ComponentHistory.blank(nothing.new_zeros(model.n_components), window)
        return cls(history, Pairs(nothing.reshape(0, model.n_context), nothing.reshape(0, model.n_dims)))

    def tensors(self) -> dict[str, Tensor]:
        """Return the state as named tensors, as expected by `from_tensors`."""
        return {
            **{f"history.{name}": value for name, value in vars(self.history).items()},
            "history.context": self.drawn.context,
            "history.sample": self.drawn.sample,
            "history.counts": torch.tensor([self.n_batches, self.n_added]),
        }

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], device: torch.device) -> AdaptationState:
        """Build the state from named tensors; the inverse of `tensors`."""
        names = ("rewards", "log_weights", "context", "sample")
        rewards, log_weights, context, sample = (tensors[f"history.{name}"].to(device) for name in names)
        counts = tensors["history.counts"].tolist()
        return cls(ComponentHistory(rewards, log_weights), Pairs(context, sample), *counts)

    def remembered(self, new: Pairs, generator: torch.Generator) -> AdaptationState:
        """Add a batch of samples; each replaces a stored one with probability 1/n_batches.

        All batches must have the same size. On average, the memory then holds equally many samples from each batch.
        """
        n_batches, drawn = self.n_batches + 1, new
        if self.n_batches > 0:
            level = torch.rand(len(new), generator=generator, dtype=new.sample.dtype, device=new.sample.device)
            replaced = (level * n_batches < 1.0).unsqueeze(-1)
            drawn = Pairs(
                torch.where(replaced, new.context, self.drawn.context),
                torch.where(replaced, new.sample, self.drawn.sample),
            )
        return replace(self, drawn=drawn, n_batches=n_batches)


DELTAS = (5000.0, 1000.0, 500.0, 200.0, 100.0, 50.0)  # [nat], as in VIPS
CHUNK_ELEMENTS = 262_144  # probabilities of the gating per block, small enough to stay in cache


def demand(log_target: Tensor, log_model: Tensor, delta: float) -> Tensor:
    """Return the demand [nat] at candidates, (n,), from log p(x|y) and log q(x|y), (n,) [nat]; see the top of the file.

    The log target may lack a constant. `delta` is Delta [nat].
    """
    return log_target - torch.maximum(log_model, log_model.max() - delta)


LogTarget = Callable[[Pairs], Tensor]
"""Function that maps n candidates to log p(x|y) [nat], (n,), up to a constant."""


@dataclass(frozen=True)
class AdaptationConfig(Settings):
    """Settings of the number of components."""

    add_every: int = option(
        0, "iterations between additions of components where the target exceeds the model; 0: never add", minimum=0
    )
    n_added: int = option(1, "number of components per addition", minimum=1)
    max_components: int = option(1000, "largest number of components", minimum=1)
    n_candidates: int = option(
        5000, "candidates per addition from each source: the data, current samples and earlier samples", minimum=1
    )
    first_weight: float = option(
        1e-3,
        "weight of a new component, relative to the greatest weight at its context",
        minimum=1e-30,
        maximum=1.0,
    )
    delete_after: int = option(
        0,
        "iterations with negligible weight and little gain after which a component is deleted; 0: never delete",
        minimum=0,
    )
    least_weight: float = option(1e-6, "weight below which a component is negligible", minimum=0.0, maximum=1.0)
    least_demand: float = option(
        2.0, "smallest log p/q at which a component is added if the ratio is estimated", unit="nat", minimum=0.0
    )

    @property
    def adapts(self) -> bool:
        """Whether the number of components may change."""
        return self.add_every > 0 or self.delete_after > 0


@dataclass(frozen=True)
class Adaptation:
    """Rule of EIM for the number of components, applied between two iterations.

    Attributes
    ----------
    config : AdaptationConfig
    data : Pairs, optional
        Candidates from the data.
    explores : bool
        Whether current and earlier samples of the model are candidates too.
    deltas : tuple of float
        Values that Delta takes in turn [nat].
    least_demand : float
        Minimum demand for an addition [nat]. A finite value is meaningful only if log p is normalised.
    """

    config: AdaptationConfig
    data: Pairs | None = None
    explores: bool = True
    deltas: tuple[float, ...] = DELTAS
    least_demand: float = -math.inf

    def check(self, start: MixtureOfExperts) -> None:
        """Raise `ConfigurationError` if components are to be added or deleted and the initial model is not linear."""
        if self.config.adapts and not start.is_linear:
            raise ConfigurationError(
                "components can be added to and deleted from linear models only; set add_every and delete_after to 0, "
                "or choose a linear gating and linear experts",
                type(start.experts).__name__,
            )

    def __call__(
        self,
        model: MixtureOfExperts,
        state: AdaptationState,
        log_target: LogTarget,
        context: Tensor,
        iteration: int,
        generator: torch.Generator,
    ) -> tuple[MixtureOfExperts, AdaptationState, dict[str, float]]:
        """Delete useless components of a linear model, and add new ones if an addition is due.

        `context` (n_contexts, n_context) contains the contexts of the iteration. `iteration` is the index of the next
        iteration. The returned record contains the numbers of components `added` and `deleted`, their number
        `n_components` afterwards, and the number of `candidates`.
        """
        config, n_candidates = self.config, 0
        useless = self.useless(state.history)
        if bool(useless.any()):
            index = (~useless).nonzero().squeeze(-1)
            model, state = model.take(index), replace(state, history=state.history.take(index))
        n_kept = model.n_components
        n_new = min(config.n_added, config.max_components - n_kept)
        if config.add_every > 0 and iteration % config.add_every == 0 and n_new > 0:
            drawn = _drawn(model, context, config.n_candidates, generator) if self.explores else None
            if iteration > 0:  # the initial components first move towards the target
                candidates = self._candidates(drawn, state, generator)
                n_candidates = len(candidates)
                deltas = [self.deltas[(state.n_added + index) % len(self.deltas)] for index in range(n_new)]
                model = with_additions(
                    model, candidates, log_target(candidates), deltas, config.first_weight, self.least_demand
                )
            state = state if drawn is None else state.remembered(drawn, generator)
            n_new = model.n_components - n_kept
            state = replace(state, history=state.history.added(n_new), n_added=state.n_added + n_new)
        record = {
            "n_components": float(model.n_components),
            "added": float(model.n_components - n_kept),
            "deleted": float(useless.sum()),
            "candidates": float(n_candidates),
        }
        return model, state, record

    def followed(
        self, state: AdaptationState, model: MixtureOfExperts, context: Tensor, reward: Tensor
    ) -> AdaptationState:
        """Return the state after an iteration, given its model, its contexts, and E[R] (n_components,) [nat]."""
        if self.config.delete_after == 0:
            return state
        log_weights = _log_weights(model, context)
        return replace(state, history=state.history.followed(log_weights + reward, log_weights))

    def useless(self, history: ComponentHistory) -> Tensor:
        """Return which components are useless, (n_components,) of bool.

        This is never true of all components, nor of a component that is younger than the window.
        """
        window = history.window
        if window == 0:
            return torch.zeros(history.rewards.shape[1], dtype=torch.bool, device=history.rewards.device)
        part = max(1, window // 3)  # iterations in the averages at the start and at the end of the window
        is_negligible = history.log_weights.exp().amax(0) < self.config.least_weight  # False for NaN
        is_negligible[history.log_weights[-1].nan_to_num(-math.inf).argmax()] = False
        box = history.rewards.new_full((part,), 1.0 / part)
        return is_negligible & history.stagnates(box, window - part)

    def _candidates(self, drawn: Pairs | None, state: AdaptationState, generator: torch.Generator) -> Pairs:
        own = state.drawn if drawn is None else drawn + state.drawn
        if self.data is None:
            return own
        size = (self.config.n_candidates,)
        return own + self.data[torch.randint(len(self.data), size, generator=generator, device=generator.device)]


def with_additions(
    model: MixtureOfExperts,
    candidates: Pairs,
    log_target: Tensor,
    deltas: Sequence[float],
    first_weight: float,
    least_demand: float = -math.inf,
) -> MixtureOfExperts:
    """Add components where the demand is greatest, one after the other.

    A new component is centred at the candidate with the greatest demand. It copies the slope and covariance of the
    component that is most probable for this candidate. In every context, its weight is `first_weight` times the weight
    of the component that is most probable in the candidate's context.

    Parameters
    ----------
    model : MixtureOfExperts
        Linear model.
    candidates : Pairs
    log_target : Tensor (n_candidates,)
        log p(x|y) [nat], up to a constant.
    deltas : sequence of float
        Delta of each new component [nat]. The new components come last.
    first_weight : float
        Initial weight relative to the greatest weight, in (0, 1].
    least_demand : float
        Minimum demand for an addition [nat]. None is added if the target is not finite at any candidate.
    """
    prepared = PreparedMixture(model, candidates.context, candidates.sample)
    log_model = prepared.log_prob(candidates.context, candidates.sample)
    good = torch.isfinite(log_target) & torch.isfinite(log_model)
    candidates, log_target, log_model = candidates[good], log_target[good], log_model[good]
    if not len(candidates):
        return model
    for delta in deltas:
        greatest, place = demand(log_target, log_model, delta).max(0, keepdim=True)
        if float(greatest) < least_demand:
            break
        new = _component_at(model, candidates[place], first_weight)
        model = _joined(model, new)
        density = new.experts.log_prob(candidates.context, candidates.sample)[:, 0]
        # as if the new component had an equal share already, so that the next one is placed elsewhere
        log_model = torch.logaddexp(log_model, density - math.log(model.n_components))
    return model


def _component_at(model: MixtureOfExperts, place: Pairs, first_weight: float) -> MixtureOfExperts:
    """Return a new component centred at one candidate; see `with_additions`."""
    gating, experts = linear_parts(model)
    log_gate = gating(place.context)
    near = experts.take((log_gate + experts.log_prob(place.context, place.sample)).argmax(-1))
    greatest = log_gate.argmax(-1)
    biases = place.sample - (near.weights @ place.context.unsqueeze(-1)).squeeze(-1)
    gate = SoftmaxGating(gating.weights[greatest], gating.biases[greatest] + math.log(first_weight))
    return MixtureOfExperts(gate, LinearExperts(near.weights, biases, near.scale_trils))


def _joined(model: MixtureOfExperts, new: MixtureOfExperts) -> MixtureOfExperts:
    """Return a model with the components of both; the logits of their gatings must have the same offset."""
    theirs = new.tensors()
    return MixtureOfExperts.from_tensors(
        {name: torch.cat([value, theirs[name]]) for name, value in model.tensors().items()}
    )


def _drawn(model: MixtureOfExperts, context: Tensor, n_samples: int, generator: torch.Generator) -> Pairs:
    """Draw samples from all components in turn, each at contexts drawn for that component."""
    n_rounds = -(-n_samples // model.n_components)
    chosen = draw_contexts(model, context, n_rounds, generator).transpose(0, 1).flatten(0, 1)[:n_samples]
    component = torch.arange(len(chosen), device=context.device) % model.n_components
    return Pairs(chosen, model.experts.select(component, chosen).sample(generator=generator))


def _log_weights(model: MixtureOfExperts, context: Tensor) -> Tensor:
    """Return the log of the mean of q(z|y) over contexts, (n_components,)."""
    step = max(1, CHUNK_ELEMENTS // model.n_components)
    parts = torch.stack([torch.logsumexp(model.gating(rows), 0) for rows in context.split(step)])
    return torch.logsumexp(parts, 0) - math.log(len(context))


@dataclass(frozen=True)
class ComponentRecords:
    """Memory of GMMVI for each component.

    Attributes
    ----------
    step : Tensor (n_components,)
        Step size of the last update.
    n_updates : Tensor (n_components,)
        Number of updates so far.
    ridge : Tensor (n_components,)
        Ridge of the next regression.
    history : ComponentHistory
    """

    step: Tensor
    n_updates: Tensor
    ridge: Tensor
    history: ComponentHistory

    @classmethod
    def first(cls, like: Tensor, window: int, step: float, ridge: float) -> ComponentRecords:
        """Return the records before the first iteration, for a number of components equal to the length of `like`."""
        one = like.new_ones(len(like))
        return cls(step * one, torch.zeros_like(one), ridge * one, ComponentHistory.blank(like, window))

    @property
    def gain(self) -> Tensor:
        """Increase of each reward in the last iteration [nat], (n_components,); NaN if it is not known."""
        return self.history.rewards[-1] - self.history.rewards[-2]

    def updated(self, step: Tensor, moved: Tensor, least_ridge: float, largest_ridge: float) -> ComponentRecords:
        """Return the records after an update, given the step sizes and a mask of the components that moved.

        The ridge of a component is halved if it moved, otherwise it grows tenfold, within the bounds.
        """
        ridge = torch.where(moved, 0.5 * self.ridge, 10.0 * self.ridge).clamp(least_ridge, largest_ridge)
        return ComponentRecords(step, self.n_updates + 1.0, ridge, self.history)

    def take(self, index: Tensor) -> ComponentRecords:
        """Return the records of a subset of the components."""
        return ComponentRecords(self.step[index], self.n_updates[index], self.ridge[index], self.history.take(index))

    def added(self, step: float, ridge: float) -> ComponentRecords:
        """Append a new component with an initial step size and ridge."""
        step_of_each, n_updates, ridges = (
            torch.cat([old, old.new_tensor([new])])
            for old, new in ((self.step, step), (self.n_updates, 0.0), (self.ridge, ridge))
        )
        return ComponentRecords(step_of_each, n_updates, ridges, self.history.added(1))

    def tensors(self) -> dict[str, Tensor]:
        """Return the records as named tensors."""
        return {"step": self.step, "n_updates": self.n_updates, "ridge": self.ridge, **vars(self.history)}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> ComponentRecords:
        """Build the records from named tensors; the inverse of `tensors`."""
        history = ComponentHistory(tensors["rewards"], tensors["log_weights"])
        return cls(tensors["step"], tensors["n_updates"], tensors["ridge"], history)


FIRST_WEIGHT = 1e-29  # weight of a new component; it grows if the component is useful
LEAST_WEIGHT = 1e-6  # smaller weights are negligible


@dataclass(frozen=True)
class Mixture:
    """Mixture with the records of its components.

    Attributes
    ----------
    log_weights : Tensor (n_components,)
    components : Components
    records : ComponentRecords
    n_additions : int
        Number of components added so far, including splits.
    """

    log_weights: Tensor
    components: Components
    records: ComponentRecords
    n_additions: int = 0

    @property
    def model(self) -> MixtureOfExperts:
        """Mixture as a distribution; without contexts it is a mixture of experts with `n_context` 0."""
        return self.components.model(self.log_weights)

    def log_prob(self, sample: Tensor) -> Tensor:
        """Return the log density [nat], (n_samples,), of rows (n_samples, width), given their contexts.

        Rows are defined in `gmmvi/components.py`.
        """
        return mixture_log_prob(self.components, self.log_weights, sample)

    def without(self, deleted: Tensor) -> Mixture:
        """Return the mixture without the components that the mask (n_components,) selects."""
        if not bool(deleted.any()):
            return self
        index = (~deleted).nonzero().flatten()
        log_weights, components = self.components.without(self.log_weights, index)
        return Mixture(log_weights, components, self.records.take(index), self.n_additions)


@dataclass(frozen=True)
class Candidates:
    """Candidates for the means of new components.

    Attributes
    ----------
    reservoir : Reservoir
        Samples from all iterations.
    prior : Evaluated or None
        New samples of the initial mixture; some may have climbed the target.
    """

    reservoir: Reservoir
    prior: Evaluated | None = None

    def drawn(self, n_samples: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return samples (n, width) and their log targets (n,) [nat].

        At most `n_samples` of them are from earlier iterations. The samples of the initial mixture are all included.
        """
        sample, log_target = self.reservoir.drawn(n_samples, generator)
        if self.prior is None:
            return sample, log_target
        return torch.cat([sample, self.prior.sample]), torch.cat([log_target, self.prior.log_target])


class ComponentAdaptation(Protocol):
    """Rule for the number of components."""

    @property
    def window(self) -> int:
        """Number of iterations of rewards and weights that the rule needs."""
        ...

    @property
    def n_candidates(self) -> int:
        """Number of earlier samples that the rule chooses from."""
        ...

    def n_prior(self, n_components: int, iteration: int) -> int:
        """Return the number of new samples of the initial mixture that the rule needs at the end of an iteration."""
        ...

    def n_climbing(self, n_components: int, iteration: int) -> int:
        """Return the number of further samples of the initial mixture, which climb the target before they are used."""
        ...

    def n_refined(self, n_components: int, iteration: int) -> int:
        """Return the largest number of components that are split because of their misfit."""
        ...

    def __call__(
        self,
        mixture: Mixture,
        candidates: Candidates,
        iteration: int,
        first_entropy: float,
        generator: torch.Generator,
        misfit: Misfit | None = None,
    ) -> Mixture:
        """Return the mixture after components were added and deleted.

        `iteration` is the number of iterations so far, including the current one. `first_entropy` is the mean entropy
        of the initial components [nat]. `misfit` is needed if `n_refined` is positive.
        """
        ...


MOVED = 0.5  # a, the share of the variance along v that is converted to the distance between the halves
N_EXPLORING = 12  # number of first additions that may choose samples that have climbed the target


@dataclass(frozen=True)
class AdaptiveComponents:
    """Rule that adds components where the target exceeds the model, and deletes useless ones (A).

    Every `add_every` iterations, one component is added at the candidate x with the greatest

        log p~(x)/T - max{log q(x), max_candidates log q - Delta}

    where Delta takes the values of `DELTAS` in turn. The covariance of the new component is isotropic. Its entropy is
    drawn uniformly between the weighted mean entropy of the components and the mean entropy of the initial components.

    Candidates are samples from earlier iterations. If `n_prior_candidates` is positive, new samples of the initial
    mixture are candidates too. They are the only candidates in regions that no component has reached.

    If `n_climbing` is positive, further samples of the initial mixture are candidates after they have climbed the
    target (`climbed`). This concerns the first twelve additions and every sixth later one. The others refine the model,
    because the highest peak of a density may have little mass, as in a funnel.

    With each addition, the `n_refined` components that can raise the ELBO most are split in two as well, along the axis
    of their `Misfit`. Half the size of the misfit, times the weight, estimates the gain. Nothing is split for a gain of
    `least_refinement` or less, so a target that is a mixture has no superfluous components.

    Deletion looks at the last `delete_after` iterations, and at the iterations before them that the smoothing with a
    Gaussian kernel needs. A component is deleted if two conditions hold in this window:

    - Neither its weight nor its deserved weight was above 1e-6.
    - Its smoothed log deserved weight has closed at most 0.4 of its gap to the greatest one.

    With a fixed number of components (E) there are neither additions nor splits nor deletions.

    Attributes
    ----------
    config : ComponentAdaptationConfig
    temperature : float
        T, the weight of the entropy relative to the log density of the target.
    first_step, first_ridge : float
        Initial step size and ridge of a new component.
    """

    config: ComponentAdaptationConfig
    temperature: float
    first_step: float
    first_ridge: float

    @property
    def n_candidates(self) -> int:
        return self.config.n_candidates if self._unless_fixed(self.config.add_every) > 0 else 0

    @property
    def window(self) -> int:
        delete_after = self._unless_fixed(self.config.delete_after)
        return max(2, delete_after + len(smoothing_kernel(delete_after)))

    def n_climbing(self, n_components: int, iteration: int) -> int:
        number = iteration // max(1, self.config.add_every)  # of the addition, from 1
        explores = number <= N_EXPLORING or number % len(DELTAS) == 0
        return self.config.n_climbing if explores and self._adds(n_components, iteration) else 0

    def n_prior(self, n_components: int, iteration: int) -> int:
        return self.config.n_prior_candidates if self._adds(n_components, iteration) else 0

    def n_refined(self, n_components: int, iteration: int) -> int:
        number = min(self.config.n_refined, self.config.max_components - n_components - 1)  # an addition follows
        return number if self._adds(n_components, iteration) else 0

    def __call__(
        self,
        mixture: Mixture,
        candidates: Candidates,
        iteration: int,
        first_entropy: float,
        generator: torch.Generator,
        misfit: Misfit | None = None,
    ) -> Mixture:
        n_refined = self.n_refined(mixture.components.n_components, iteration)
        if misfit is not None and n_refined > 0:
            mixture = self._refined(mixture, misfit, n_refined)
        if self._unless_fixed(self.config.delete_after) > 0:
            mixture = mixture.without(self.useless(mixture.records.history))
        if self._adds(mixture.components.n_components, iteration):
            delta = DELTAS[(iteration // self.config.add_every - 1) % len(DELTAS)]
            mixture = self._with_addition(mixture, candidates, delta, first_entropy, generator)
        return mixture

    def _unless_fixed(self, n_iterations: int) -> int:
        """Return a number of iterations, or 0, which means never, if the number of components is fixed."""
        return 0 if self.config.rule == "fixed" else n_iterations

    def _adds(self, n_components: int, iteration: int) -> bool:
        add_every = self._unless_fixed(self.config.add_every)
        regular = add_every > 0 and iteration > 1 and iteration % add_every == 0
        return regular and n_components < self.config.max_components

    def useless(self, history: ComponentHistory) -> Tensor:
        """Return which components are useless, (n_components,) of bool; at least one is not."""
        known = torch.isfinite(history.rewards).all(0)
        deserved = torch.log_softmax(history.rewards.nan_to_num(-torch.inf), -1)
        greatest = torch.maximum(history.log_weights.nan_to_num(-torch.inf), deserved).amax(0)
        stagnates = history.stagnates(smoothing_kernel(self.config.delete_after), self.config.delete_after)
        return known & (greatest < math.log(LEAST_WEIGHT)) & stagnates

    def _with_addition(
        self, mixture: Mixture, candidates: Candidates, delta: float, first_entropy: float, generator: torch.Generator
    ) -> Mixture:
        components = mixture.components
        sample, log_target = candidates.drawn(self.n_candidates, generator)
        good = torch.isfinite(log_target)
        sample, log_target = sample[good], log_target[good]
        if not len(sample):
            return mixture
        log_model = mixture.log_prob(sample)
        mean = sample[demand(log_target / self.temperature, log_model, delta).argmax()]
        share = torch.rand((), generator=generator, dtype=mean.dtype, device=mean.device)
        mean_entropy = mixture.log_weights.exp() @ components.entropy()
        entropy = share * mean_entropy + (1.0 - share) * first_entropy
        variance = (2.0 * entropy / components.n_dims - 1.0 - math.log(2.0 * math.pi)).exp()
        return Mixture(
            *components.with_addition(mixture.log_weights, mean, variance, math.log(FIRST_WEIGHT)),
            mixture.records.added(self.first_step, self.first_ridge),
            mixture.n_additions + 1,
        )

    def _refined(self, mixture: Mixture, misfit: Misfit, n_components: int) -> Mixture:
        """Split at most `n_components` components, those that can raise the ELBO most, along the axes of their misfit.

        The halves have unknown (NaN) rewards.
        """
        gain = 0.5 * mixture.log_weights.exp() * misfit.size
        n_split = min(n_components, int((gain > self.config.least_refinement).sum()))
        if n_split == 0:
            return mixture
        split = gain.topk(n_split).indices
        is_whole = torch.ones(mixture.components.n_components, dtype=torch.bool, device=gain.device)
        is_whole[split] = False
        whole = is_whole.nonzero().flatten()
        halves = mixture.components.with_halves(mixture.log_weights, whole, split, MOVED, misfit.axis[split])
        records = mixture.records.take(torch.cat([whole, split, split]))
        rewards = records.history.rewards.clone()
        rewards[:, len(whole) :] = torch.nan
        records = replace(records, history=replace(records.history, rewards=rewards))
        return Mixture(*halves, records, mixture.n_additions + n_split)


def smoothing_kernel(delete_after: int) -> Tensor:
    """Return the weights of a Gaussian kernel that smooths rewards over iterations, (width,); they sum to one.

    Its standard deviation is delete_after/8, and its width is about two thirds of `delete_after`.
    """
    half = max(1, delete_after // 3)
    place = torch.arange(-half, half, dtype=torch.float64)
    kernel = (-0.5 * (8.0 * place / max(1, delete_after)).square()).exp()
    return kernel / kernel.sum()
