"""The number of components: added where the target exceeds the model, deleted when useless (VIPS; GMMVI 3.6, option A).

Demand. Among candidates, pairs of a context and a sample, a component is missing where the target exceeds the model,

    log p(x|y) - max(log q(x|y), max over candidates of log q - Delta),

and the new one is centred there (`demand`). Delta decides what counts more: a large one leads far away from the model,
a small one makes all that is far away equal, so that the target decides. It cycles from component to component.

Use. A component is useless if over a window of iterations its weight has been negligible, and the weight that it
deserves has hardly caught up with the greatest one (`ComponentHistory.stagnates`). What it deserves, unnormalised, is
its weight times exp of its reward: what an update without bounds would give it. The reward alone rises as a weight
falls, since phi = log p - log q.

`Adaptation` is the rule of EIM, for mixtures of linear experts. Its candidates are the data, if there are any, and, if
the target is known, samples that all components draw now, and samples that they drew at all times before: a model that
has contracted to one mode draws nothing elsewhere. log p is exact if the density is known, else from a density ratio at
the data (`RatioDemand`).

`AdaptiveComponents` is the rule of GMMVI (Arenz et al. 2020). `SplitComponents` goes beyond it, because it adds one
component at a time: the heaviest components are split in two. A component N(mu, Sigma) of weight w becomes two of
weight w/2,

    N(mu +- sqrt(a) v, Sigma - a v v'),    v = L u,  |u| = 1,

of the same mean and covariance together. v is the longest axis of Sigma. The model hardly changes, so a split costs
nothing at first, and log q drives the halves apart. Modes that no component is near are only found by additions.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from eim_ros.core.errors import ConfigurationError
from eim_ros.core.settings import Settings, option
from eim_ros.learning.data import Pairs
from eim_ros.learning.gmmvi.components import Components, mixture_log_prob
from eim_ros.learning.gmmvi.samples import Evaluated, Reservoir
from eim_ros.learning.models.evaluator import PreparedMixture
from eim_ros.learning.models.linear import LinearExperts, SoftmaxGating
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts, draw_contexts
from eim_ros.learning.models.standardisation import linear_parts

LEAST_GAIN = 0.4  # of what it lacks to the best log deserved weight, a component makes up for this share in a window


@dataclass(frozen=True)
class ComponentHistory:
    """What the components deserved and had in the last iterations; the newest one is the last row.

    Attributes
    ----------
    rewards : Tensor (n_iterations, n_components)
        log w + E[R], the log of the weight that a component deserves, unnormalised [nat]; NaN before it was there.
    log_weights : Tensor (n_iterations, n_components)
        Log weights, with contexts the log of their mean over these [nat]; NaN likewise.
    """

    rewards: Tensor
    log_weights: Tensor

    @classmethod
    def blank(cls, like: Tensor, window: int) -> ComponentHistory:
        """Return the history before the first iteration, for as many components as a tensor has rows."""
        blank = like.new_full((window, len(like)), torch.nan)
        return cls(blank, blank)

    @property
    def window(self) -> int:
        """Iterations that are remembered."""
        return len(self.rewards)

    def followed(self, reward: Tensor, log_weights: Tensor) -> ComponentHistory:
        """Return the history with one more iteration, and without the oldest one."""
        return ComponentHistory(
            torch.cat([self.rewards[1:], reward.unsqueeze(0)]),
            torch.cat([self.log_weights[1:], log_weights.unsqueeze(0)]),
        )

    def take(self, index: Tensor) -> ComponentHistory:
        """Return the history of some of the components."""
        return ComponentHistory(self.rewards[:, index], self.log_weights[:, index])

    def added(self, n_new: int) -> ComponentHistory:
        """Return the history with new components."""
        blank = self.rewards.new_full((self.window, n_new), torch.nan)
        return ComponentHistory(torch.cat([self.rewards, blank], -1), torch.cat([self.log_weights, blank], -1))

    def stagnates(self, kernel: Tensor, lag: int) -> Tensor:
        """Return which components hardly gain on the best one, (n_components,) of bool; none that is too young.

        Smoothed by a kernel, the reward has made up for no more than `LEAST_GAIN` of what it lacked to the best one.

        Parameters
        ----------
        kernel : Tensor (width,)
            Weights of the iterations that are averaged over; they sum to one.
        lag : int
            Iterations between the two averages that are compared.
        """
        width, weights = len(kernel), kernel.to(self.rewards).unsqueeze(-1)
        now = (self.rewards[-width:] * weights).sum(0)
        before = (self.rewards[: self.window - lag][-width:] * weights).sum(0)
        lack = (now.nan_to_num(-torch.inf).max() - before).clamp_min(1e-12)
        return (now - before) / lack <= LEAST_GAIN  # NaN is not


@dataclass(frozen=True)
class AdaptationState:
    """What EIM remembers of its components and of what they drew.

    Attributes
    ----------
    history : ComponentHistory
    drawn : Pairs
        Samples of all times, equally likely to be here.
    n_batches : int
        How many batches they are from.
    n_added : int
        Components added in the whole run.
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
        """Everything, as `from_tensors` takes it."""
        return {
            "history.log_weights": self.history.log_weights,
            "history.rewards": self.history.rewards,
            "history.context": self.drawn.context,
            "history.sample": self.drawn.sample,
            "history.counts": torch.tensor([self.n_batches, self.n_added]),
        }

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], device: torch.device) -> AdaptationState:
        """Inverse of `tensors`."""
        names = ("rewards", "log_weights", "context", "sample")
        rewards, log_weights, context, sample = (tensors[f"history.{name}"].to(device) for name in names)
        counts = tensors["history.counts"].tolist()
        return cls(ComponentHistory(rewards, log_weights), Pairs(context, sample), *counts)

    def remembered(self, new: Pairs, generator: torch.Generator) -> AdaptationState:
        """Return the state with one more batch of samples, always of the same number; each batch keeps equally many."""
        n_batches, drawn = self.n_batches + 1, new
        if self.n_batches > 0:
            level = torch.rand(len(new), generator=generator, dtype=new.sample.dtype, device=new.sample.device)
            replaced = (level * n_batches < 1.0).unsqueeze(-1)
            drawn = Pairs(
                torch.where(replaced, new.context, self.drawn.context),
                torch.where(replaced, new.sample, self.drawn.sample),
            )
        return dataclasses.replace(self, drawn=drawn, n_batches=n_batches)

    def take(self, index: Tensor) -> AdaptationState:
        """Return the state with some of the components."""
        return dataclasses.replace(self, history=self.history.take(index))

    def added(self, n_new: int) -> AdaptationState:
        """Return the state with new components."""
        return dataclasses.replace(self, history=self.history.added(n_new), n_added=self.n_added + n_new)


DELTAS = (5000.0, 1000.0, 500.0, 200.0, 100.0, 50.0)  # [nat], as in VIPS
CHUNK_ELEMENTS = 262_144  # probabilities of the gating at a time: they stay in cache


def demand(log_target: Tensor, log_model: Tensor, delta: float) -> Tensor:
    """Return by how much the target exceeds the model at candidates, (n,) [nat]; see the top of this file."""
    return log_target - torch.maximum(log_model, log_model.max() - delta)


LogTarget = Callable[[Pairs], Tensor]
"""log p(x|y) [nat], up to a constant, (n,), of n candidates."""


@dataclass(frozen=True)
class AdaptationConfig(Settings):
    """Settings of the number of components."""

    add_every: int = option(
        0, "iterations between additions of components where the target exceeds the model; 0: none is added", minimum=0
    )
    n_added: int = option(1, "components of one addition", minimum=1)
    max_components: int = option(1000, "number of components from which on none is added", minimum=1)
    n_candidates: int = option(
        5000, "places of the data, samples of now and samples of before that an addition looks at, each", minimum=1
    )
    first_weight: float = option(
        1e-3, "weight of an added component, relative to the greatest one at its place", minimum=1e-30, maximum=1.0
    )
    delete_after: int = option(
        0, "iterations of negligible weight and little gain after which a component is deleted; 0: none is", minimum=0
    )
    least_weight: float = option(1e-6, "weight below which a component is negligible", minimum=0.0, maximum=1.0)
    least_demand: float = option(
        2.0, "smallest log p/q at which a component is added to an estimated ratio", unit="nat", minimum=0.0
    )

    @property
    def adapts(self) -> bool:
        """Whether the number of components may change."""
        return self.add_every > 0 or self.delete_after > 0


@dataclass(frozen=True)
class Adaptation:
    """Adapts the number of components between two iterations.

    Attributes
    ----------
    config : AdaptationConfig
    data : Pairs, optional
        Candidates that are given.
    explores : bool
        Whether samples of the model, of now and of before, are candidates as well.
    deltas : tuple of float
        What Delta is by turns [nat].
    least_demand : float
        Below it none is added [nat]; it takes a log p whose constant is known.
    """

    config: AdaptationConfig
    data: Pairs | None = None
    explores: bool = True
    deltas: tuple[float, ...] = DELTAS
    least_demand: float = -math.inf

    def check(self, start: MixtureOfExperts) -> None:
        """Refuse, with `ConfigurationError`, a start whose number of components cannot change."""
        linear = isinstance(start.gating, SoftmaxGating) and isinstance(start.experts, LinearExperts)
        if self.config.adapts and not linear:
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
        """Delete and add what is due before an iteration.

        Parameters
        ----------
        model : MixtureOfExperts
            Linear.
        state : AdaptationState
        log_target : callable
            log p(x|y) of candidates.
        context : Tensor (n_contexts, n_context)
            Contexts of the iteration.
        iteration : int
            The one to come.
        generator : torch.Generator

        Returns
        -------
        model : MixtureOfExperts
        state : AdaptationState
        record : dict
            Numbers of components `added` and `deleted`, `n_components` after it, and of `candidates` looked at.
        """
        config, n_candidates = self.config, 0
        useless = self.useless(state.history)
        if bool(useless.any()):
            index = (~useless).nonzero().squeeze(-1)
            model, state = _taken(model, index), state.take(index)
        n_kept = model.n_components
        n_new = min(config.n_added, config.max_components - n_kept)
        if config.add_every > 0 and iteration % config.add_every == 0 and n_new > 0:
            drawn = _drawn(model, context, config.n_candidates, generator) if self.explores else None
            if iteration > 0:  # the start has had no chance yet
                candidates = self._candidates(drawn, state, generator)
                n_candidates = len(candidates)
                deltas = [self.deltas[(state.n_added + index) % len(self.deltas)] for index in range(n_new)]
                model = with_additions(
                    model, candidates, log_target(candidates), deltas, config.first_weight, self.least_demand
                )
            state = state if drawn is None else state.remembered(drawn, generator)
            state = state.added(model.n_components - n_kept)
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
        """Return the state after an iteration with a model, its contexts and its rewards."""
        if self.config.delete_after == 0:
            return state
        log_weights = _log_weights(model, context)
        return dataclasses.replace(state, history=state.history.followed(log_weights + reward, log_weights))

    def useless(self, history: ComponentHistory) -> Tensor:
        """Return which components are useless, (n_components,) of bool; none younger than the window, never all."""
        window = history.window
        if window == 0:
            return torch.zeros(history.rewards.shape[1], dtype=torch.bool, device=history.rewards.device)
        part = max(1, window // 3)  # what begins and ends a window is averaged over so many iterations
        is_negligible = history.log_weights.exp().amax(0) < self.config.least_weight  # NaN is not
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
    """A model with components added where the demand is greatest, one after the other.

    A new component has slope and covariance of the one that is likeliest at its place, and the gate of the one that is
    most probable for its context, times `first_weight`.

    Parameters
    ----------
    model : MixtureOfExperts
        Linear.
    candidates : Pairs
    log_target : Tensor (n_candidates,)
        log p(x|y) [nat], up to a constant.
    deltas : sequence of float
        Delta of each new component [nat].
    first_weight : float
    least_demand : float
        Below it none is added [nat].

    Returns
    -------
    MixtureOfExperts
        The new components are the last ones. There are none if the target is finite at no candidate.
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
        # as if it had its share already: the next one goes elsewhere
        log_model = torch.logaddexp(log_model, density - math.log(model.n_components))
    return model


def _component_at(model: MixtureOfExperts, place: Pairs, first_weight: float) -> MixtureOfExperts:
    """The component that is new at one place."""
    gating, experts = linear_parts(model)
    log_gate = gating(place.context)
    near = experts.take((log_gate + experts.log_prob(place.context, place.sample)).argmax(-1))
    greatest = log_gate.argmax(-1)
    biases = place.sample - (near.weights @ place.context.unsqueeze(-1)).squeeze(-1)
    gate = SoftmaxGating(gating.weights[greatest], gating.biases[greatest] + math.log(first_weight))
    return MixtureOfExperts(gate, LinearExperts(near.weights, biases, near.scale_trils))


def _joined(model: MixtureOfExperts, new: MixtureOfExperts) -> MixtureOfExperts:
    """The components of both, whose gates' logits are comparable."""
    theirs = new.tensors()
    return MixtureOfExperts.from_tensors(
        {name: torch.cat([value, theirs[name]]) for name, value in model.tensors().items()}
    )


def _taken(model: MixtureOfExperts, index: Tensor) -> MixtureOfExperts:
    """Some of the components."""
    return MixtureOfExperts.from_tensors({name: value[index] for name, value in model.tensors().items()})


def _drawn(model: MixtureOfExperts, context: Tensor, n_samples: int, generator: torch.Generator) -> Pairs:
    """Samples of all components by turns, at contexts of their own."""
    n_rounds = -(-n_samples // model.n_components)
    chosen = draw_contexts(model, context, n_rounds, generator).transpose(0, 1).flatten(0, 1)[:n_samples]
    component = torch.arange(len(chosen), device=context.device) % model.n_components
    return Pairs(chosen, model.experts.select(component, chosen).sample(generator=generator))


def _log_weights(model: MixtureOfExperts, context: Tensor) -> Tensor:
    """Log of the mean of q(z|y) over contexts, (n_components,)."""
    step = max(1, CHUNK_ELEMENTS // model.n_components)
    parts = torch.stack([torch.logsumexp(model.gating(rows), 0) for rows in context.split(step)])
    return torch.logsumexp(parts, 0) - math.log(len(context))


@dataclass(frozen=True)
class ComponentRecords:
    """What GMMVI remembers of each component.

    Attributes
    ----------
    step : Tensor (n_components,)
        Step size of the last update.
    n_updates : Tensor (n_components,)
        Updates so far.
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
        """Return the records before the first iteration, for as many components as a tensor has rows."""
        one = like.new_ones(len(like))
        return cls(step * one, torch.zeros_like(one), ridge * one, ComponentHistory.blank(like, window))

    @property
    def gain(self) -> Tensor:
        """By how much each reward has risen [nat], (n_components,); NaN if one of the two is not known."""
        return self.history.rewards[-1] - self.history.rewards[-2]

    def followed(self, reward: Tensor, log_weights: Tensor) -> ComponentRecords:
        """Return the records with one more iteration."""
        return replace(self, history=self.history.followed(reward, log_weights))

    def updated(self, step: Tensor, moved: Tensor, least_ridge: float, largest_ridge: float) -> ComponentRecords:
        """Return the records after an update: the ridge is halved if it was made, else it grows tenfold."""
        ridge = torch.where(moved, 0.5 * self.ridge, 10.0 * self.ridge).clamp(least_ridge, largest_ridge)
        return ComponentRecords(step, self.n_updates + 1.0, ridge, self.history)

    def take(self, index: Tensor) -> ComponentRecords:
        """Return the records of some components."""
        return ComponentRecords(self.step[index], self.n_updates[index], self.ridge[index], self.history.take(index))

    def added(self, step: float, ridge: float) -> ComponentRecords:
        """Return the records with one new component."""
        new = ComponentRecords.first(self.step[:1], self.history.window, step, ridge)
        return ComponentRecords(
            torch.cat([self.step, new.step]),
            torch.cat([self.n_updates, new.n_updates]),
            torch.cat([self.ridge, new.ridge]),
            self.history.added(1),
        )

    def tensors(self) -> dict[str, Tensor]:
        """Everything by name."""
        own = {"step": self.step, "n_updates": self.n_updates, "ridge": self.ridge}
        return {**own, "rewards": self.history.rewards, "log_weights": self.history.log_weights}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> ComponentRecords:
        """Inverse of `tensors`."""
        step, n_updates, ridge = (tensors[name] for name in ("step", "n_updates", "ridge"))
        return cls(step, n_updates, ridge, ComponentHistory(tensors["rewards"], tensors["log_weights"]))


FIRST_WEIGHT = 1e-29
LEAST_WEIGHT = 1e-6


@dataclass(frozen=True)
class Mixture:
    """A mixture with what is remembered of its components.

    Attributes
    ----------
    log_weights : Tensor (n_components,)
    components : Components
    records : ComponentRecords
    n_additions : int
        Components added so far, those of splits included: where the cycle of Delta stands.
    """

    log_weights: Tensor
    components: Components
    records: ComponentRecords
    n_additions: int = 0

    @property
    def model(self) -> MixtureOfExperts:
        """As a distribution; a mixture without contexts as one with contexts of no columns."""
        return self.components.model(self.log_weights)

    def log_prob(self, sample: Tensor) -> Tensor:
        """Log density [nat], (n_samples,), of rows (n_samples, width), given their contexts."""
        return mixture_log_prob(self.components, self.log_weights, sample)

    def take(self, index: Tensor) -> Mixture:
        """Of some of the components, by their numbers (n,)."""
        log_weights, components = self.components.without(self.log_weights, index)
        return Mixture(log_weights, components, self.records.take(index), self.n_additions)


@dataclass(frozen=True)
class Candidates:
    """Where components may be added.

    Attributes
    ----------
    reservoir : Reservoir
        Samples of all iterations.
    prior : Evaluated or None
        New samples of the start.
    """

    reservoir: Reservoir
    prior: Evaluated | None = None

    def drawn(self, n_samples: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Samples and log targets: at most so many of earlier ones, and all of the start's."""
        sample, log_target = self.reservoir.drawn(n_samples, generator)
        if self.prior is None:
            return sample, log_target
        return torch.cat([sample, self.prior.sample]), torch.cat([log_target, self.prior.log_target])


class ComponentAdaptation(Protocol):
    """A rule for the number of components."""

    @property
    def window(self) -> int:
        """Iterations of rewards and weights that it looks back to."""
        ...

    @property
    def n_candidates(self) -> int:
        """Samples of earlier iterations that it wants to choose from; 0 for none."""
        ...

    def n_prior(self, n_components: int, iteration: int) -> int:
        """Samples of the start that it wants evaluated at the end of an iteration, to choose from, too."""
        ...

    def __call__(
        self,
        mixture: Mixture,
        candidates: Candidates,
        iteration: int,
        first_entropy: float,
        generator: torch.Generator,
    ) -> Mixture:
        """The mixture with components added and deleted.

        Parameters
        ----------
        mixture : Mixture
        candidates : Candidates
        iteration : int
            Iterations so far, this one included.
        first_entropy : float
            Mean entropy of the components of the start [nat].
        generator : torch.Generator
        """
        ...


@dataclass(frozen=True)
class FixedComponents:
    """As many components as the start has (E)."""

    window = 2
    n_candidates = 0

    def n_prior(self, n_components: int, iteration: int) -> int:
        return 0

    def __call__(
        self,
        mixture: Mixture,
        candidates: Candidates,
        iteration: int,
        first_entropy: float,
        generator: torch.Generator,
    ) -> Mixture:
        return mixture


@dataclass(frozen=True)
class AdaptiveComponents:
    """Components are added where the target exceeds the model, and deleted where they are of no use (A).

    Every `add_every` iterations one is added at the candidate x with the greatest

        log p~(x)/T - max{log q(x), max_candidates log q - Delta}

    where Delta takes the values of `DELTAS` in turn. Its covariance is isotropic, of an entropy drawn between the
    components' mean, by their weights, and that of the start. Candidates are samples of earlier iterations and, if
    `n_prior_candidates` are wanted, new ones of the start: where no component has ever been there are no others.

    A component is deleted when over the last `delete_after` iterations, and those over which its reward is smoothed
    before, neither its weight nor the weight that its reward deserves was above 1e-6, and its reward, smoothed by a
    Gaussian, has made up for no more than 0.4 of what it lacked to the best one.

    Attributes
    ----------
    add_every : int
        0 for none.
    delete_after : int
        0 for never.
    max_components : int
        From so many on none is added.
    n_candidates : int
        Samples of earlier iterations to choose from.
    temperature : float
    first_step, first_ridge : float
        Of a new component.
    n_prior_candidates : int
        Samples of the start to choose from, evaluated for each addition.
    """

    add_every: int
    delete_after: int
    max_components: int
    n_candidates: int
    temperature: float
    first_step: float
    first_ridge: float
    n_prior_candidates: int = 0

    def n_prior(self, n_components: int, iteration: int) -> int:
        return self.n_prior_candidates if self._due(n_components, iteration) else 0

    def _due(self, n_components: int, iteration: int) -> bool:
        regular = self.add_every > 0 and iteration > 1 and iteration % self.add_every == 0
        return regular and n_components < self.max_components

    @property
    def window(self) -> int:
        return max(2, self.delete_after + len(smoothing_kernel(self.delete_after)))

    def __call__(
        self,
        mixture: Mixture,
        candidates: Candidates,
        iteration: int,
        first_entropy: float,
        generator: torch.Generator,
    ) -> Mixture:
        if self.delete_after > 0:
            useless = self.useless(mixture.records.history)
            if bool(useless.any()):
                mixture = mixture.take((~useless).nonzero().flatten())
        if self._due(mixture.components.n_components, iteration):
            return self._with_addition(mixture, candidates, first_entropy, generator)
        return mixture

    def useless(self, history: ComponentHistory) -> Tensor:
        """Return which components are useless, (n_components,) of bool; never all."""
        known = torch.isfinite(history.rewards).all(0)
        deserved = torch.log_softmax(history.rewards.nan_to_num(-torch.inf), -1)
        greatest = torch.maximum(history.log_weights.nan_to_num(-torch.inf), deserved).amax(0)
        stagnates = history.stagnates(smoothing_kernel(self.delete_after), self.delete_after)
        return known & (greatest < math.log(LEAST_WEIGHT)) & stagnates

    def _with_addition(
        self, mixture: Mixture, candidates: Candidates, first_entropy: float, generator: torch.Generator
    ) -> Mixture:
        components = mixture.components
        sample, log_target = candidates.drawn(self.n_candidates, generator)
        good = torch.isfinite(log_target)
        sample, log_target = sample[good], log_target[good]
        if not len(sample):
            return mixture
        log_model = mixture.log_prob(sample)
        delta = DELTAS[mixture.n_additions % len(DELTAS)]
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


def smoothing_kernel(delete_after: int) -> Tensor:
    """Weights of the iterations over which a reward is smoothed: a Gaussian of standard deviation delete_after/8."""
    half = max(1, delete_after // 3)
    place = torch.arange(-half, half, dtype=torch.float64)
    kernel = (-0.5 * (8.0 * place / max(1, delete_after)).square()).exp()
    return kernel / kernel.sum()


SHARE = 0.5  # of the components that are split at most
MOVED = 0.5  # a, the share of the variance along v that becomes the distance of the halves
LIGHT = 0.1  # of the mean weight


@dataclass(frozen=True)
class SplitComponents:
    """Splits beside another rule.

    Every `split_every` iterations the heaviest components are split, up to half of all, as long as there are fewer than
    `max_components`. Before, those lighter than a tenth of the mean weight are deleted, if they have been updated
    `delete_after` times.

    Attributes
    ----------
    rule : ComponentAdaptation
        Comes first.
    split_every : int
    delete_after : int
        0 for never.
    max_components : int
    """

    rule: ComponentAdaptation
    split_every: int
    delete_after: int
    max_components: int

    @property
    def window(self) -> int:
        return self.rule.window

    @property
    def n_candidates(self) -> int:
        return self.rule.n_candidates

    def n_prior(self, n_components: int, iteration: int) -> int:
        return self.rule.n_prior(n_components, iteration)

    def __call__(
        self,
        mixture: Mixture,
        candidates: Candidates,
        iteration: int,
        first_entropy: float,
        generator: torch.Generator,
    ) -> Mixture:
        mixture = self.rule(mixture, candidates, iteration, first_entropy, generator)
        if iteration % self.split_every:
            return mixture
        mixture = self._without_light(mixture)
        n_components = mixture.components.n_components
        n_split = min(math.ceil(SHARE * n_components), self.max_components - n_components)
        return _split(mixture, mixture.log_weights.topk(n_split).indices) if n_split > 0 else mixture

    def _without_light(self, mixture: Mixture) -> Mixture:
        if self.delete_after == 0:
            return mixture
        light = mixture.log_weights < math.log(LIGHT / mixture.components.n_components)
        kept = (~light | (mixture.records.n_updates < self.delete_after)).nonzero().flatten()
        return mixture if len(kept) == len(light) else mixture.take(kept)


def _split(mixture: Mixture, heavy: Tensor) -> Mixture:
    """With the components of these numbers (n,) in two; the rewards of the halves are not known yet."""
    is_whole = torch.ones(mixture.components.n_components, dtype=torch.bool, device=heavy.device)
    is_whole[heavy] = False
    whole = is_whole.nonzero().flatten()
    log_weights, components = mixture.components.with_halves(mixture.log_weights, whole, heavy, MOVED)
    records = mixture.records.take(torch.cat([whole, heavy, heavy]))
    rewards = records.history.rewards.clone()
    rewards[:, len(whole) :] = torch.nan
    records = replace(records, history=replace(records.history, rewards=rewards))
    return Mixture(log_weights, components, records, mixture.n_additions + len(heavy))
