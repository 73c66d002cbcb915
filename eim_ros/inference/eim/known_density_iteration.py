"""One iteration of EIM where the target's density is known: the updates of EIM with the exact log ratio."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.distributions import MixtureOfExperts
from eim_ros.distributions.prepared_mixture import PreparedMixture
from eim_ros.inference.eim.component_adaptation import DELTAS, Adaptation
from eim_ros.inference.eim.component_history import ComponentHistory
from eim_ros.inference.eim.known_density_configuration import KnownDensityEIMConfig
from eim_ros.inference.eim.m_step import update_experts, update_gating
from eim_ros.inference.plateau import on_plateau
from eim_ros.inference.ratio.known_ratio import KnownRatio
from eim_ros.inference.run import History
from eim_ros.inference.target_density import TargetDensity, restricted_elbo

__all__ = ["KnownDensityIteration", "KnownDensityState", "draw_pairs"]

QUIET_ITERATIONS = 3  # so many in a row, with changes below the tolerance, end a run


@dataclass(frozen=True)
class KnownDensityState:
    """State of `KnownDensityEIM`; the generator is advanced in place by each step."""

    model: MixtureOfExperts
    generator: torch.Generator
    iteration: int
    components: ComponentHistory

    @property
    def kept(self) -> MixtureOfExperts:
        return self.model

    def tensors(self) -> dict[str, Tensor]:
        return {**self.model.tensors(), **self.components.tensors(), "generator": self.generator.get_state()}


@dataclass(frozen=True)
class KnownDensityIteration:
    """Inference for one target, as an `Algorithm`."""

    config: KnownDensityEIMConfig
    target: TargetDensity
    context: Tensor
    adaptation: Adaptation

    def step(self, state: KnownDensityState) -> tuple[KnownDensityState, dict[str, float]]:
        config, generator = self.config, state.generator
        target, context = self.target.at(state.iteration), self._contexts(generator)
        model, components, record = state.model, state.components, dict[str, float]()
        if config.adapts:
            model, components, record = self.adaptation(
                model,
                components,
                lambda places: target.log_prob(places.context, places.sample),
                context,
                state.iteration,
                generator,
            )
            record["evaluations"] = record.pop("candidates")
        typical = model.experts(context[:1]).mean[0]
        prepared = config.prepared(model, context, typical)
        following, updates, reward = _projected(config, target, prepared, context, generator)
        updates["evaluations"] += record.get("evaluations", 0.0)
        record |= {**updates, **self._figures(target, model, following, generator)}
        if prepared.states.shape[1] > 0:
            record["auxiliary_error"] = self._auxiliary_error(prepared, generator)
        if config.adapts:
            components = self.adaptation.followed(components, model, context, reward)
        return KnownDensityState(following, generator, state.iteration + 1, components), record

    def restore(self, state: KnownDensityState, tensors: dict[str, Tensor], iteration: int) -> KnownDensityState:
        model = MixtureOfExperts.from_tensors(tensors).to(device=state.generator.device)
        state.generator.set_state(tensors["generator"])
        components = ComponentHistory.from_tensors(tensors, state.generator.device)
        return KnownDensityState(model, state.generator, iteration, components)

    def finished(self, history: History) -> bool:
        config, sizes = self.config, history.column("n_components")
        if config.add_every > 0 and sizes and sizes[-1] < config.max_components:
            # a rest tells nothing as long as components are added: all Deltas must have been tried in vain
            window = max(config.plateau_window, len(DELTAS) * config.add_every)
            return config.plateau_window > 0 and on_plateau(history, window)
        changes = history.column("change")[-QUIET_ITERATIONS:]
        quiet = len(changes) == QUIET_ITERATIONS and max(changes) <= config.tolerance
        return quiet or on_plateau(history, config.plateau_window)

    def _contexts(self, generator: torch.Generator) -> Tensor:
        """Contexts of one iteration."""
        n_all, n_some = len(self.context), self.config.n_contexts
        if n_some == 0 or n_some >= n_all:
            return self.context
        return self.context[torch.randperm(n_all, generator=generator, device=self.context.device)[:n_some]]

    def _auxiliary_error(self, prepared: PreparedMixture, generator: torch.Generator) -> float:
        """delta [nat]: by how much phi is too high on average for truncating the auxiliary distribution."""
        rows = torch.randint(
            len(self.context), (self.config.n_objective_samples,), generator=generator, device=self.context.device
        )
        sample, component = prepared.model.sample_with_components(self.context[rows], generator)
        return prepared.truncation_error(self.context[rows], sample, component)

    def _figures(
        self, target: TargetDensity, old: MixtureOfExperts, new: MixtureOfExperts, generator: torch.Generator
    ) -> dict[str, float]:
        """E[log p] + T H(q) from fresh samples, see `restricted_elbo`, and how far the model has moved.

        KL(new || old) is half the variance of log new/old up to third order, without the cancellation that hides small
        values in the mean.
        """
        context, sample = draw_pairs(new, self.context, self.config.n_objective_samples, generator)
        log_model = new.log_prob(context, sample)
        temperature = self.config.temperature
        value = target.log_prob(context, sample) / temperature - log_model
        return {
            **restricted_elbo(value, torch.full_like(value, 1.0 / len(value)), temperature),
            "entropy": -float(log_model.mean()),
            "change": 0.5 * float((log_model - old.log_prob(context, sample)).var()),
        }


def _projected(
    config: KnownDensityEIMConfig,
    target: TargetDensity,
    prepared: PreparedMixture,
    context: Tensor,
    generator: torch.Generator,
) -> tuple[MixtureOfExperts, dict[str, float], Tensor]:
    """The updates of EIM, gating first, with the exact log ratio."""
    ratio = KnownRatio(target, prepared, config.temperature)
    gated, gating_record, reward = update_gating(config, prepared.model, ratio, context, generator)
    following, experts_record = update_experts(config, gated, ratio, context, generator)
    record = {**gating_record, **experts_record, "evaluations": float(ratio.evaluations)}
    record["non_finite"] = ratio.non_finite / max(1, ratio.evaluations)
    return following, record, reward


def draw_pairs(
    model: MixtureOfExperts, context: Tensor, n_samples: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Contexts, picked at random, with one sample of the model each."""
    chosen = context[torch.randint(len(context), (n_samples,), generator=generator, device=context.device)]
    return chosen, model.sample(chosen, generator)
