"""Components added where the demand is and deleted when useless (VIPS; GMMVI 3.6, option A), for mixtures and experts.

Demand: among candidates, pairs of a context and a sample, a component is missing where the target exceeds the model,

    log p(x|y) - max(log q(x|y), max over candidates of log q - Delta),

and the new one is centred there. Delta decides what counts more: a large one leads far away from the model, a small one
makes all that is far away equal, so that the target decides. It cycles from component to component. Candidates are the
data, where there are any, and, if the target is known, samples that all components draw now, and samples that they drew
at all times before: a model that has contracted to one mode draws nothing elsewhere.

log p comes from the learner: exact where the density is known, else from a density ratio at the data (`RatioDemand`).
What is useless, `ComponentHistory` tells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.distributions import LinearExperts, MixtureOfExperts, SoftmaxGating
from eim_ros.distributions.prepared_mixture import PreparedMixture
from eim_ros.distributions.standardisation import linear_parts
from eim_ros.errors import ConfigurationError
from eim_ros.inference.eim.component_history import ComponentHistory
from eim_ros.inference.eim.expert_contexts import draw_contexts
from eim_ros.inference.training_data import Pairs
from eim_ros.settings import Settings, option

__all__ = ["DELTAS", "Adaptation", "AdaptationConfig", "LogTarget", "with_additions"]

DELTAS = (5000.0, 1000.0, 500.0, 200.0, 100.0, 50.0)  # [nat], as in VIPS
CHUNK_ELEMENTS = 262_144  # probabilities of the gating at a time: they stay in cache

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
        history: ComponentHistory,
        log_target: LogTarget,
        context: Tensor,
        iteration: int,
        generator: torch.Generator,
    ) -> tuple[MixtureOfExperts, ComponentHistory, dict[str, float]]:
        """Delete and add what is due before an iteration.

        Parameters
        ----------
        model : MixtureOfExperts
            Linear.
        history : ComponentHistory
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
        history : ComponentHistory
        record : dict
            Numbers of components `added` and `deleted`, `n_components` after it, and of `candidates` looked at.
        """
        config, n_candidates = self.config, 0
        useless = history.useless(config.delete_after, config.least_weight)
        if bool(useless.any()):
            index = (~useless).nonzero().squeeze(-1)
            model, history = _taken(model, index), history.take(index)
        n_kept = model.n_components
        n_new = min(config.n_added, config.max_components - n_kept)
        if config.add_every > 0 and iteration % config.add_every == 0 and n_new > 0:
            drawn = _drawn(model, context, config.n_candidates, generator) if self.explores else None
            if iteration > 0:  # the start has had no chance yet
                candidates = self._candidates(drawn, history, generator)
                n_candidates = len(candidates)
                deltas = [self.deltas[(history.n_added + index) % len(self.deltas)] for index in range(n_new)]
                model = with_additions(
                    model, candidates, log_target(candidates), deltas, config.first_weight, self.least_demand
                )
            history = history if drawn is None else history.remembered(drawn, generator)
            history = history.added(model.n_components - n_kept)
        return (
            model,
            history,
            {
                "n_components": float(model.n_components),
                "added": float(model.n_components - n_kept),
                "deleted": float(useless.sum()),
                "candidates": float(n_candidates),
            },
        )

    def followed(
        self, history: ComponentHistory, model: MixtureOfExperts, context: Tensor, reward: Tensor
    ) -> ComponentHistory:
        """The history after an iteration with a model, its contexts and its rewards."""
        window = self.config.delete_after
        return history.followed(_log_weights(model, context), reward, window) if window > 0 else history

    def _candidates(self, drawn: Pairs | None, history: ComponentHistory, generator: torch.Generator) -> Pairs:
        own = history.drawn if drawn is None else drawn + history.drawn
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
        demand, place = (log_target - torch.maximum(log_model, log_model.max() - delta)).max(0, keepdim=True)
        if float(demand) < least_demand:
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
