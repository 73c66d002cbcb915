"""One iteration of EIM: E-step, M-step, which model is kept, and the number of components (thesis, algorithm 2).

One iteration of EIM where the target's density is known: the updates of EIM with the exact log ratio.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.learning.adaptation import DELTAS, Adaptation, ComponentHistory
from eim_ros.learning.configs import EIMConfig, KnownDensityEIMConfig
from eim_ros.learning.data import Pairs
from eim_ros.learning.eim.gradient_step import update_by_gradients
from eim_ros.learning.eim.m_step import update_experts, update_gating
from eim_ros.learning.models.evaluator import PreparedMixture
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts
from eim_ros.learning.ratio.choice import DELTA, RatioDemand, smoothed
from eim_ros.learning.ratio.density_ratio import DensityRatio
from eim_ros.learning.ratio.inputs import RatioInputs
from eim_ros.learning.ratio.plug_in import KnownRatio
from eim_ros.learning.run import History, on_plateau, rests
from eim_ros.learning.target import TargetDensity, restricted_elbo

QUIET_ITERATIONS, REST = 10, 0.1  # mean KL of the updates of so many iterations, as a share of their bounds, at rest
KEPT = "kept."  # prefix of the best model's tensors in a checkpoint


@dataclass(frozen=True)
class EIMState:
    """State of `EIM`.

    Attributes
    ----------
    model : MixtureOfExperts
    kept : MixtureOfExperts
        The best model so far.
    ratio : DensityRatio
        Adapted in place by each step.
    generator : torch.Generator
        Advanced in place by each step.
    iteration : int
    components : ComponentHistory
        What decides on components to delete and to add.
    """

    model: MixtureOfExperts
    kept: MixtureOfExperts
    ratio: DensityRatio
    generator: torch.Generator
    iteration: int
    components: ComponentHistory

    def tensors(self) -> dict[str, Tensor]:
        kept = {f"{KEPT}{name}": value for name, value in self.kept.tensors().items()}
        return {
            **self.model.tensors(),
            **kept,
            **self.ratio.tensors(),
            **self.components.tensors(),
            "generator": self.generator.get_state(),
        }


@dataclass(frozen=True)
class EIMIteration:
    """EIM on one data set, as an `Algorithm`."""

    config: EIMConfig
    inputs: RatioInputs
    data: Pairs

    def step(self, state: EIMState) -> tuple[EIMState, dict[str, float]]:
        model, ratio, generator = state.model, state.ratio, state.generator
        data = smoothed(self.inputs, self.data, state.iteration, generator)
        report = ratio.fit(data, model, state.iteration, generator)
        record, iteration = report.record(), state.iteration + 1
        if report.collapsed:
            return dataclasses.replace(state, iteration=iteration), record
        following, update_record, reward = self._updated(model, ratio, data.context, generator)
        kept = self.better(following, state, data.context)
        record |= {**update_record, "kept": float(kept is following)}
        components = state.components
        if self.config.adapts:
            following, components, adapted = self._adapted(state, following, reward, data)
            record |= adapted
        return EIMState(following, kept, ratio, generator, iteration, components), record

    def _updated(
        self, model: MixtureOfExperts, ratio: DensityRatio, context: Tensor, generator: torch.Generator
    ) -> tuple[MixtureOfExperts, dict[str, float], Tensor]:
        """The model after the M-step, its figures, and the old components' mean rewards, where they are known."""
        config, kl_weight = self.config, 1.0 if self.config.kl_term else 0.0
        if config.update == "unstructured":
            unknown = context.new_full((model.n_components,), math.nan)
            return *update_by_gradients(config, model, ratio, context, generator, kl_weight), unknown
        gated, record, reward = update_gating(config.m_step, model, ratio, context, generator, kl_weight)
        following, experts_record = update_experts(config, gated, ratio, context, generator, kl_weight)
        return following, record | experts_record, reward

    def _adapted(
        self, state: EIMState, following: MixtureOfExperts, reward: Tensor, data: Pairs
    ) -> tuple[MixtureOfExperts, ComponentHistory, dict[str, float]]:
        """The new model with components deleted and added, by the present ratio; the best one is left as it is."""
        held_out = data[self.config.held_out(len(data))]
        adaptation = Adaptation(self.config, held_out, False, (DELTA,), self.config.least_demand)
        components = adaptation.followed(state.components, state.model, data.context, reward)
        demand = RatioDemand(state.ratio, state.model, self.config.n_training(len(data)))
        return adaptation(following, components, demand, data.context, state.iteration + 1, state.generator)

    def restore(self, state: EIMState, tensors: dict[str, Tensor], iteration: int) -> EIMState:
        device = state.generator.device
        model = MixtureOfExperts.from_tensors(tensors).to(device=device)
        kept = {name.removeprefix(KEPT): value for name, value in tensors.items() if name.startswith(KEPT)}
        state.ratio.restore(tensors, model, iteration)
        state.generator.set_state(tensors["generator"])
        best, components = MixtureOfExperts.from_tensors(kept), ComponentHistory.from_tensors(tensors, device)
        return EIMState(model, best.to(device=device), state.ratio, state.generator, iteration, components)

    def finished(self, history: History) -> bool:
        config, sizes = self.config, history.column("n_components")
        window = config.plateau_window
        if window > 0 and config.add_every > 0 and sizes and sizes[-1] < config.max_components:
            window = max(window, config.add_every)  # a rest tells nothing before a component more has been tried
        objective = [-kl for kl in history.column("ratio_kl")]
        return rests(objective, history.column("ratio_kl_error"), window) or self._is_at_rest(history)

    def _is_at_rest(self, history: History) -> bool:
        """Whether the model has come to rest by the last iteration; none before it is left out.

        An update that the bounds cut short says that there is more to come.
        """
        if len(history.records) < max(self.config.n_iterations, QUIET_ITERATIONS):
            return False
        last = history.records[-QUIET_ITERATIONS:]
        experts = sum(record.get("expert_kl", math.inf) for record in last) / QUIET_ITERATIONS
        gating = sum(record.get("gating_kl", 0.0) for record in last) / QUIET_ITERATIONS
        return experts < REST * self.config.kl_bound and gating <= REST * self.config.gating_kl_bound

    def better(self, following: MixtureOfExperts, state: EIMState, context: Tensor) -> MixtureOfExperts:
        """The new model, or the kept one if that is closer to p under the present ratio, judged by fresh samples.

        log p = phi + log q_old holds anywhere, so both are measured by one estimate of p. An estimator that has learnt
        nothing yet (phi = 0) cannot tell p from q_old and then changes nothing either.
        """
        n_samples = self.config.n_selection_samples
        if n_samples == 0:
            return following
        rows = torch.randint(len(context), (n_samples,), generator=state.generator, device=context.device)
        chosen = context[rows]

        def divergence(model: MixtureOfExperts) -> float:
            sample = model.sample(chosen, state.generator)
            old, new = (PreparedMixture(one, chosen, sample).log_prob(chosen, sample) for one in (state.model, model))
            return float((new - old - state.ratio.log_ratio(chosen, sample)).mean())

        return following if divergence(following) <= divergence(state.kept) else state.kept


QUIET_EXACT_ITERATIONS = 3  # so many in a row, with changes below the tolerance, end a run


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
        changes = history.column("change")[-QUIET_EXACT_ITERATIONS:]
        quiet = len(changes) == QUIET_EXACT_ITERATIONS and max(changes) <= config.tolerance
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
