"""Adaptation of the number of components (VIPS; option A in section 3.6 of Arenz et al. 2023).

Addition: each candidate is a pair of a context and a sample. A new component is placed at the candidate with the
greatest demand

    log p(x|y) - max(log q(x|y), max over candidates of log q - Delta),

because the target exceeds the model most there (`demand`). A large Delta favours candidates that are far from the
model. With a small Delta, log p alone ranks the distant candidates. Each new component uses the next value in a list of
Deltas.

Deletion: a component is deleted if its weight is negligible during a window of iterations, and its deserved weight
hardly approaches the greatest deserved weight (`ComponentHistory.stagnates`). The deserved weight is the weight that an
update without bounds would give to the component: its weight times the exponential of its reward, up to normalisation.
The reward phi = log p - log q alone is not a criterion, because the reward rises as the weight falls.

`Adaptation` is the rule that EIM uses for mixtures of linear experts. Its candidates are the data, if data are given.
If the target density is known, the current samples of all components and samples from all earlier iterations are
candidates too. Earlier samples are needed because a model that has contracted to one mode draws no samples elsewhere.
If the density is known, log p is exact. Otherwise, it is computed from the estimated density ratio at the data
(`RatioDemand`). The rule of GMMVI is in `gmmvi/adaptation.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from eim_ros.core.errors import ConfigurationError
from eim_ros.core.settings import Settings, option
from eim_ros.learning.data import Pairs
from eim_ros.learning.models.evaluator import PreparedMixture
from eim_ros.learning.models.linear import LinearExperts, SoftmaxGating
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts, draw_contexts
from eim_ros.learning.models.standardisation import linear_parts

DELTAS = (5000.0, 1000.0, 500.0, 200.0, 100.0, 50.0)  # values of Delta [nat], as in VIPS
CHUNK_ELEMENTS = 262_144  # number of gating probabilities per block; a block fits into the cache
LEAST_GAIN = 0.4  # a component stagnates if it closes at most this share of its gap to the greatest log deserved weight
LogTarget = Callable[[Pairs], Tensor]
"""Function that maps n candidates to log p(x|y) [nat], (n,), up to a constant."""


@dataclass(frozen=True)
class ComponentHistory:
    """Rewards and weights of the components in the last iterations; the last row is the newest."""

    # (n_iterations, n_components), log w + E[R] [nat], the log of the deserved weight, up to a constant. NaN before a
    # component was added.
    rewards: Tensor
    # (n_iterations, n_components), log weights [nat]; for conditional models, the log of the mean weight over the
    # contexts. NaN before a component was added.
    log_weights: Tensor

    @classmethod
    def blank(cls, like: Tensor, window: int) -> ComponentHistory:
        """Return an empty history, which is all NaN, with one component for each entry of `like`."""
        blank = like.new_full((window, len(like)), torch.nan)
        return cls(blank, blank)

    @property
    def window(self) -> int:
        """Number of stored iterations."""
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
        """Return which components hardly catch up with the best one, (n_components,) of bool.

        A component stagnates if its smoothed log deserved weight has closed at most the share `LEAST_GAIN` of its gap
        to the greatest one. A component that is younger than the window does not stagnate. The smoothed values are
        averages over iterations, weighted with the kernel (width,). `lag` is the number of iterations between the two
        smoothed values that are compared.
        """
        width, weights = len(kernel), kernel.to(self.rewards).unsqueeze(-1)
        now = (self.rewards[-width:] * weights).sum(0)
        before = (self.rewards[: self.window - lag][-width:] * weights).sum(0)
        lack = (now.nan_to_num(-torch.inf).max() - before).clamp_min(1e-12)
        return (now - before) / lack <= LEAST_GAIN  # a comparison with NaN is False


@dataclass(frozen=True)
class AdaptationState:
    """Memory of EIM between iterations: the history of the components, and a random subset of earlier samples."""

    history: ComponentHistory
    drawn: Pairs  # uniformly random subset of all samples so far
    n_batches: int = 0  # number of batches of samples so far
    n_added: int = 0  # number of components added since the start of the run

    @classmethod
    def first(cls, model: MixtureOfExperts, window: int = 0) -> AdaptationState:
        """Return the state before the first iteration."""
        nothing = torch.zeros(0, dtype=model.dtype, device=model.device)
        history = ComponentHistory.blank(nothing.new_zeros(model.n_components), window)
        return cls(history, Pairs(nothing.reshape(0, model.n_context), nothing.reshape(0, model.n_dims)))

    def tensors(self) -> dict[str, Tensor]:
        """Return the state as named tensors, which `from_tensors` reads."""
        return {
            **{f"history.{name}": value for name, value in vars(self.history).items()},
            "history.context": self.drawn.context,
            "history.sample": self.drawn.sample,
            "history.counts": torch.tensor([self.n_batches, self.n_added]),
        }

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], device: torch.device) -> AdaptationState:
        """Rebuild the state from the named tensors that `tensors` returned."""
        names = ("rewards", "log_weights", "context", "sample")
        rewards, log_weights, context, sample = (tensors[f"history.{name}"].to(device) for name in names)
        counts = tensors["history.counts"].tolist()
        return cls(ComponentHistory(rewards, log_weights), Pairs(context, sample), *counts)

    def remembered(self, new: Pairs, generator: torch.Generator) -> AdaptationState:
        """Add a batch of samples; each sample replaces a stored sample with probability 1/n_batches.

        All batches must have the same size. On average, the memory then contains equally many samples from each batch.
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


def demand(log_target: Tensor, log_model: Tensor, delta: float) -> Tensor:
    """Return the demand for a component at each candidate [nat], (n,); the top of this file defines it.

    `log_target` and `log_model` are log p(x|y) and log q(x|y) [nat], (n,). A constant offset of `log_target` does not
    matter for the choice of a candidate. `delta` is Delta [nat].
    """
    return log_target - torch.maximum(log_model, log_model.max() - delta)


@dataclass(frozen=True)
class AdaptationConfig(Settings):
    """Settings that control when components are added and deleted."""

    add_every: int = option(
        0,
        "number of iterations between two additions of components where the target exceeds the model; 0: never add "
        "components",
        minimum=0,
    )
    n_added: int = option(1, "number of components per addition", minimum=1)
    max_components: int = option(1000, "maximum number of components", minimum=1)
    n_candidates: int = option(
        5000,
        "number of candidates that an addition draws from each source: the data, current samples and earlier samples",
        minimum=1,
    )
    first_weight: float = option(
        1e-3, "weight of a new component, relative to the greatest weight at its context", minimum=1e-30, maximum=1.0
    )
    delete_after: int = option(
        0,
        "number of iterations with negligible weight and little gain after which a component is deleted; 0: never "
        "delete components",
        minimum=0,
    )
    least_weight: float = option(1e-6, "weight below which a component is negligible", minimum=0.0, maximum=1.0)
    least_demand: float = option(
        2.0,
        "minimum log p/q at which a component is added if the density ratio is estimated",
        unit="nat",
        minimum=0.0,
    )

    @property
    def adapts(self) -> bool:
        """Whether the number of components may change."""
        return self.add_every > 0 or self.delete_after > 0


@dataclass(frozen=True)
class Adaptation:
    """Rule of EIM for the number of components, applied between two iterations."""

    config: AdaptationConfig
    data: Pairs | None = None  # data that serve as candidates
    explores: bool = True  # whether current and earlier samples of the model are candidates too
    deltas: tuple[float, ...] = DELTAS  # values that Delta takes in turn [nat]
    # Minimum demand for an addition [nat]. A finite value is meaningful only if log p is normalised.
    least_demand: float = -math.inf

    def check(self, start: MixtureOfExperts) -> None:
        """Raise `ConfigurationError` if components are to be added or deleted and the initial model is not linear."""
        if self.config.adapts and not start.is_linear:
            raise ConfigurationError(
                "components can be added and deleted only with a linear gating and linear experts; choose these, or "
                "set adaptation.add_every and adaptation.delete_after to 0",
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
        iteration. The returned record contains the numbers of `added` and `deleted` components, the resulting number of
        components (`n_components`), and the number of `candidates`.
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
            if iteration > 0:  # the initial components have not moved towards the target yet
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
        """Return the state after an iteration with these contexts and rewards E[R], (n_components,) [nat]."""
        if self.config.delete_after == 0:
            return state
        log_weights = _log_weights(model, context)
        return replace(state, history=state.history.followed(log_weights + reward, log_weights))

    def useless(self, history: ComponentHistory) -> Tensor:
        """Return which components are useless, (n_components,) of bool.

        The component with the greatest weight is always useful. A component that is younger than the window counts as
        useful.
        """
        window = history.window
        if window == 0:
            return torch.zeros(history.rewards.shape[1], dtype=torch.bool, device=history.rewards.device)
        part = max(1, window // 3)  # iterations in the averages at the start and at the end of the window
        is_negligible = history.log_weights.exp().amax(0) < self.config.least_weight  # a comparison with NaN is False
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
    model: MixtureOfExperts,  # linear model
    candidates: Pairs,
    log_target: Tensor,  # (n_candidates,), log p(x|y) [nat], up to a constant
    deltas: Sequence[float],  # Delta of each new component [nat]
    first_weight: float,  # weight of a new component relative to the greatest weight, in (0, 1]
    # minimum demand for an addition [nat]
    least_demand: float = -math.inf,
) -> MixtureOfExperts:
    """Add components where the demand is greatest, one after the other.

    A new component is centred at the candidate with the greatest demand. It copies the slope and covariance of the
    component that is most probable for this candidate. In every context, its weight is `first_weight` times the weight
    of the component that is most probable in the candidate's context. Candidates at which the target is not finite are
    ignored.
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
        # Assume that the new component already has an equal weight. The next component is then placed elsewhere.
        log_model = torch.logaddexp(log_model, density - math.log(model.n_components))
    return model


def _component_at(model: MixtureOfExperts, place: Pairs, first_weight: float) -> MixtureOfExperts:
    """Return a new component that is centred at one candidate, as described in `with_additions`."""
    gating, experts = linear_parts(model)
    log_gate = gating(place.context)
    near = experts.take((log_gate + experts.log_prob(place.context, place.sample)).argmax(-1))
    greatest = log_gate.argmax(-1)
    biases = place.sample - (near.weights @ place.context.unsqueeze(-1)).squeeze(-1)
    gate = SoftmaxGating(gating.weights[greatest], gating.biases[greatest] + math.log(first_weight))
    return MixtureOfExperts(gate, LinearExperts(near.weights, biases, near.scale_trils))


def _joined(model: MixtureOfExperts, new: MixtureOfExperts) -> MixtureOfExperts:
    """Return a model with the components of both models. The logits of both gatings must have the same offset."""
    theirs = new.tensors()
    return MixtureOfExperts.from_tensors(
        {name: torch.cat([value, theirs[name]]) for name, value in model.tensors().items()}
    )


def _drawn(model: MixtureOfExperts, context: Tensor, n_samples: int, generator: torch.Generator) -> Pairs:
    """Draw contexts for each component, and one sample of the component at each of its contexts."""
    n_rounds = -(-n_samples // model.n_components)
    chosen = draw_contexts(model, context, n_rounds, generator).transpose(0, 1).flatten(0, 1)[:n_samples]
    component = torch.arange(len(chosen), device=context.device) % model.n_components
    return Pairs(chosen, model.experts.select(component, chosen).sample(generator=generator))


def _log_weights(model: MixtureOfExperts, context: Tensor) -> Tensor:
    """Return the log of the mean of q(z|y) over contexts, (n_components,)."""
    step = max(1, CHUNK_ELEMENTS // model.n_components)
    parts = torch.stack([torch.logsumexp(model.gating(rows), 0) for rows in context.split(step)])
    return torch.logsumexp(parts, 0) - math.log(len(context))
