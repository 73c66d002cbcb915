"""Adaptation of the number of components in GMMVI (Arenz et al. 2020), with the records of each component.

`AdaptiveComponents` adds one component at a time where the demand is greatest (`learning/adaptation.py`), deletes
useless components, and splits components that fit badly. A split replaces a component N(mu, Sigma) with weight w and
Sigma = L L' by two components with weight w/2:

    N(mu +- sqrt(a) v, Sigma - a v v'),    v = L u,  |u| = 1.

Together, they have the mean and covariance of the original component. A split hardly changes the model. Later updates
move the halves apart, because the reward contains -log q. The unit vector u is the axis of the component's `Misfit`.
Only additions can find modes far from all components. Splits cannot.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from eim_ros.learning.adaptation import DELTAS, ComponentHistory, demand
from eim_ros.learning.gmmvi.components import Components, Misfit, mixture_log_prob
from eim_ros.learning.gmmvi.samples import Evaluated, Reservoir
from eim_ros.learning.gmmvi.settings import ComponentAdaptationConfig
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts

FIRST_WEIGHT = 1e-29  # weight of a new component, which grows if the component is useful
LEAST_WEIGHT = 1e-6  # smaller weights count as negligible
MOVED = 0.5  # a, share of the variance along v that becomes the distance between the halves
N_EXPLORING = 12  # number of early additions whose candidates include samples that have ascended the target


@dataclass(frozen=True)
class ComponentRecords:
    """Values that GMMVI stores for each component between iterations."""

    step: Tensor  # (n_components,), step size of the last update
    n_updates: Tensor  # (n_components,), number of updates so far
    ridge: Tensor  # (n_components,), ridge of the next regression
    history: ComponentHistory

    @classmethod
    def first(cls, like: Tensor, window: int, step: float, ridge: float) -> ComponentRecords:
        """Return the records before the first iteration, with one component for each entry of `like`."""
        one = like.new_ones(len(like))
        return cls(step * one, torch.zeros_like(one), ridge * one, ComponentHistory.blank(like, window))

    @property
    def gain(self) -> Tensor:
        """Increase of each reward in the last iteration [nat], (n_components,), or NaN if it is not known."""
        return self.history.rewards[-1] - self.history.rewards[-2]

    def updated(self, step: Tensor, moved: Tensor, least_ridge: float, largest_ridge: float) -> ComponentRecords:
        """Return the records after an update, given the step sizes and a mask of the components that moved.

        The ridge of a component is halved if the component moved. Otherwise, the ridge is multiplied by ten. The ridges
        stay within the bounds.
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
        """Rebuild the records from the named tensors that `tensors` returned."""
        history = ComponentHistory(tensors["rewards"], tensors["log_weights"])
        return cls(tensors["step"], tensors["n_updates"], tensors["ridge"], history)


@dataclass(frozen=True)
class Mixture:
    """Mixture with the records of its components."""

    log_weights: Tensor  # (n_components,)
    components: Components
    records: ComponentRecords
    n_additions: int = 0  # number of components added so far, including splits

    @property
    def model(self) -> MixtureOfExperts:
        """Mixture as a distribution. Without contexts, it is a mixture of experts with `n_context` 0."""
        return self.components.model(self.log_weights)

    def log_prob(self, sample: Tensor) -> Tensor:
        """Return the log density [nat], (n_samples,), of rows (n_samples, width) given their contexts.

        The docstring of `gmmvi/components.py` defines rows.
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
    """Candidates for the means of new components."""

    reservoir: Reservoir  # samples from all iterations
    prior: Evaluated | None = None  # new samples of the initial mixture; some may have ascended the target

    def drawn(self, n_samples: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return samples (n, width) and their log targets (n,) [nat].

        The result contains at most `n_samples` samples from earlier iterations, and all samples of the initial mixture.
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

    @property
    def n_candidates(self) -> int:
        """Number of earlier samples that the rule considers as candidates."""

    def n_prior(self, n_components: int, iteration: int) -> int:
        """Return the number of new samples of the initial mixture that the rule needs at the end of an iteration."""

    def n_climbing(self, n_components: int, iteration: int) -> int:
        """Return the number of further samples of the initial mixture that ascend the target before they are used."""

    def n_refined(self, n_components: int, iteration: int) -> int:
        """Return the maximum number of components that are split because of their misfit."""

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


@dataclass(frozen=True)
class AdaptiveComponents:
    """Rule that adds components where the target exceeds the model, and deletes useless components (letter A).

    Every `add_every` iterations, one component is added at the candidate x with the greatest

        log p~(x)/T - max{log q(x), max_candidates log q - Delta}

    where Delta takes the values of `DELTAS` in turn. The covariance of the new component is isotropic. The entropy of
    the new component is drawn uniformly between the weighted mean entropy of the components and the mean entropy of the
    initial components.

    Candidates are samples from earlier iterations. If `n_prior_candidates` is positive, new samples of the initial
    mixture are candidates too. The new samples are the only candidates in regions that no component has reached.

    If `n_climbing` is positive, further samples of the initial mixture ascend the target (`climbed`) and become
    candidates for the first twelve additions, and for every sixth later addition. The other additions refine the model
    instead. This refinement is needed because the highest peak of a density may have little mass, for example in a
    funnel.

    With each addition, the `n_refined` components that can raise the ELBO most are split in two along the axis of their
    `Misfit`. The estimated gain is half the size of the misfit, multiplied by the weight. Components are not split if
    their gain is at most `least_refinement`. This limit avoids superfluous components if the target is a mixture.

    Deletion depends on a window of iterations: the last `delete_after` iterations, and earlier iterations that are
    needed for smoothing with a Gaussian kernel. A component is deleted if two conditions are true in this window:

    - Neither its weight nor its deserved weight was above 1e-6.
    - Its smoothed log deserved weight has closed at most 0.4 of the gap to the greatest one.

    If the number of components is fixed (letter E), there are no additions, splits or deletions.
    """

    config: ComponentAdaptationConfig
    temperature: float  # T, the weight of the entropy relative to the log density of the target
    # initial step size and ridge of a new component
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
        number = iteration // max(1, self.config.add_every)  # number of the addition, counted from 1
        explores = number <= N_EXPLORING or number % len(DELTAS) == 0
        return self.config.n_climbing if explores and self._adds(n_components, iteration) else 0

    def n_prior(self, n_components: int, iteration: int) -> int:
        return self.config.n_prior_candidates if self._adds(n_components, iteration) else 0

    def n_refined(self, n_components: int, iteration: int) -> int:
        # the addition that follows needs one more component
        number = min(self.config.n_refined, self.config.max_components - n_components - 1)
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
        """Return the given number of iterations, or 0 (never) if the number of components is fixed."""
        return 0 if self.config.rule == "fixed" else n_iterations

    def _adds(self, n_components: int, iteration: int) -> bool:
        add_every = self._unless_fixed(self.config.add_every)
        regular = add_every > 0 and iteration > 1 and iteration % add_every == 0
        return regular and n_components < self.config.max_components

    def useless(self, history: ComponentHistory) -> Tensor:
        """Return which components are useless, (n_components,) of bool. At least one is always useful."""
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
        """Split at most `n_components` components along the axes of their misfit.

        The components that can raise the ELBO most are chosen. The rewards of the halves are unknown (NaN).
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
    """Return the weights of a Gaussian kernel that smooths rewards over iterations, (width,).

    The weights sum to one. The standard deviation is delete_after/8, and the width is about two thirds of
    `delete_after`.
    """
    half = max(1, delete_after // 3)
    place = torch.arange(-half, half, dtype=torch.float64)
    kernel = (-0.5 * (8.0 * place / max(1, delete_after)).square()).exp()
    return kernel / kernel.sum()
