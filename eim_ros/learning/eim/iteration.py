"""One iteration of EIM: E-step, M-step, choice of the best model, and adaptation of components (thesis, algorithm 2).

A target with a known density makes the ratio exact. Components are then added and deleted before the step, because the
target shows where components are missing. The last model is always kept, because the ratio has no estimation error.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.learning.adaptation import Adaptation, AdaptationState
from eim_ros.learning.configs import EIMConfig
from eim_ros.learning.data import Pairs, random_rows
from eim_ros.learning.eim.m_step import update_by_gradients, update_experts, update_gating, with_covariances
from eim_ros.learning.models.evaluator import PreparedMixture
from eim_ros.learning.models.gaussian import tensors_of
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts
from eim_ros.learning.ratio.choice import DELTA, RatioDemand, smoothed
from eim_ros.learning.ratio.density_ratio import DensityRatio, LogRatio
from eim_ros.learning.ratio.inputs import RatioInputs
from eim_ros.learning.ratio.plug_in import ExactRatio
from eim_ros.learning.run import NEGLIGIBLE, History, on_plateau, rests

# number of successive changes below the tolerance after which a run with a known density ends
QUIET_EXACT_ITERATIONS = 3
# The model has converged if the KL of the updates, averaged over this number of iterations, is below this share of its
# bound.
QUIET_ITERATIONS, REST = 10, 0.1
KEPT = "kept."  # prefix of the tensors of the best model in a checkpoint


@dataclass(frozen=True)
class EIMState:
    """State of `EIM`."""

    model: MixtureOfExperts  # the current model
    kept: MixtureOfExperts  # the best model so far
    ratio: DensityRatio | ExactRatio  # log ratio of the target and the model, which each step updates in place
    generator: torch.Generator  # source of randomness, which each step advances in place
    iteration: int
    # history of the components, which decides which components are deleted and where new ones are added
    components: AdaptationState

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
    """EIM for one data set or one target, in the form of an `Algorithm`."""

    config: EIMConfig
    inputs: RatioInputs | None  # inputs of the density ratio estimator; None if the density is known
    data: Pairs  # contexts and samples; if the density is known, only the contexts are used
    adaptation: Adaptation  # rule that adapts the number of components

    @classmethod
    def from_samples(cls, config: EIMConfig, inputs: RatioInputs, data: Pairs) -> EIMIteration:
        """Return the iteration for an estimated ratio. New components are placed only at held-out data."""
        return cls(
            config, inputs, data, Adaptation(config.adaptation, None, False, (DELTA,), config.adaptation.least_demand)
        )

    def step(self, state: EIMState) -> tuple[EIMState, dict[str, float]]:
        if isinstance(state.ratio, ExactRatio):
            return self._exact_step(state, state.ratio)
        return self._estimated_step(state, state.ratio)

    def _estimated_step(self, state: EIMState, ratio: DensityRatio) -> tuple[EIMState, dict[str, float]]:
        assert self.inputs is not None
        model, generator = state.model, state.generator
        data = smoothed(self.inputs, self.data, state.iteration, generator)
        report = ratio.fit(data, model, state.iteration, generator)
        record, iteration = report.record(), state.iteration + 1
        if report.collapsed:
            return dataclasses.replace(state, iteration=iteration), record
        following, update_record, reward = self._updated(model, ratio, data.context, generator)
        kept = self.better(following, state, data.context)
        record |= {**update_record, "kept": float(kept is following)}
        components = state.components
        if self.config.adaptation.adapts:
            following, components, adapted = self._adapted(state, following, reward, data)
            record |= adapted
        return EIMState(following, kept, ratio, generator, iteration, components), record

    def _exact_step(self, state: EIMState, ratio: ExactRatio) -> tuple[EIMState, dict[str, float]]:
        generator = state.generator
        ratio.anneal(state.iteration)
        data = random_rows(self.data, self.config.exact.n_contexts, generator)
        model, components, record = state.model, state.components, dict[str, float]()
        if self.config.adaptation.adapts:
            model, components, record = self.adaptation(
                model, components, ratio.log_target, data.context, state.iteration, generator
            )
            model = with_covariances(model, self.config.m_step.covariance, data.context)
        n_candidates = record.pop("candidates", 0.0)
        ratio.fit(data, model)
        following, update_record, reward = self._updated(model, ratio, data.context, generator)
        record |= {**update_record, **ratio.record(following, self.data.context, generator)}
        record["evaluations"] += n_candidates
        if self.config.adaptation.adapts:
            components = self.adaptation.followed(components, model, data.context, reward)
        return EIMState(following, following, ratio, generator, state.iteration + 1, components), record

    def _updated(
        self, model: MixtureOfExperts, ratio: LogRatio, context: Tensor, generator: torch.Generator
    ) -> tuple[MixtureOfExperts, dict[str, float], Tensor]:
        """Return the model after the M-step, the record of the M-step, and the mean rewards of the old components.

        The rewards (n_components,) [nat] are NaN if the M-step does not compute rewards.
        """
        config, kl_weight = self.config, 1.0 if self.config.kl_term else 0.0
        if config.update == "unstructured":
            unknown = context.new_full((model.n_components,), math.nan)
            return *update_by_gradients(config.gradient_steps, model, ratio, context, generator, kl_weight), unknown
        m_step = config.resolved_m_step
        gated, record, reward = update_gating(m_step, model, ratio, context, generator, kl_weight)
        following, experts_record = update_experts(m_step, gated, ratio, context, generator, kl_weight, config.networks)
        return following, record | experts_record, reward

    def _adapted(
        self, state: EIMState, following: MixtureOfExperts, reward: Tensor, data: Pairs
    ) -> tuple[MixtureOfExperts, AdaptationState, dict[str, float]]:
        """Return the new model after deleting and adding components according to the current ratio.

        The best model so far is not changed.
        """
        adaptation = dataclasses.replace(self.adaptation, data=data[self.config.ratio.held_out(len(data))])
        components = adaptation.followed(state.components, state.model, data.context, reward)
        demand = RatioDemand(state.ratio, state.model, self.config.ratio.n_training(len(data)))
        adapted, components, record = adaptation(
            following, components, demand, data.context, state.iteration + 1, state.generator
        )
        return with_covariances(adapted, self.config.m_step.covariance, data.context), components, record

    def restore(self, state: EIMState, tensors: dict[str, Tensor], iteration: int) -> EIMState:
        device = state.generator.device
        model = state.model.with_tensors(tensors).to(device=device)
        state.ratio.restore(tensors, model, iteration)
        state.generator.set_state(tensors["generator"])
        best, components = (
            state.model.with_tensors(tensors_of(KEPT, tensors)),
            AdaptationState.from_tensors(tensors, device),
        )
        return EIMState(model, best.to(device=device), state.ratio, state.generator, iteration, components)

    def finished(self, history: History) -> bool:
        config, sizes = self.config, history.column("n_components")
        add_every, window = config.adaptation.add_every, config.plateau_window
        grows = add_every > 0 and bool(sizes) and sizes[-1] < config.adaptation.max_components
        if window > 0 and grows:  # do not stop before an addition with each Delta has been tried
            window = max(window, len(self.adaptation.deltas) * add_every)
        if self.inputs is not None:
            objective = [-kl for kl in history.column("ratio_kl")]
            on_plateau_of_kl = rests(objective, history.column("ratio_kl_error"), window)
            steady = self._is_comparable(history, window) and not self._is_bound(history, window)
            return (on_plateau_of_kl and steady) or self._is_at_rest(history)
        changes = history.column("change")[-QUIET_EXACT_ITERATIONS:]
        quiet = len(changes) == QUIET_EXACT_ITERATIONS and max(changes) <= config.exact.tolerance
        return (quiet and not grows) or on_plateau(history, window)

    def _is_comparable(self, history: History, window: int) -> bool:
        """Return whether the contexts were smoothed equally in the last two windows.

        Otherwise, the KL changes with the smoothing, even if the model stays the same.
        """
        assert self.inputs is not None
        iteration = len(history.records)
        first, last = (self.inputs.smoothing(number) for number in (iteration - 2 * window, iteration - 1))
        return (first is None and last is None) or (first is not None and last is not None and torch.equal(first, last))

    def _is_bound(self, history: History, window: int) -> bool:
        """Return whether the KL bound of the experts limited their updates in the last window.

        If the bound limits the updates, the model still changes, even if it improves by less than the noise.
        """
        moves = history.column("expert_kl")[-window:]
        return sum(moves) >= REST * self.config.m_step.kl_bound * window

    def _is_at_rest(self, history: History) -> bool:
        """Return whether the model has converged after all requested iterations.

        An update with a KL close to its bound indicates that the model can still improve.
        """
        if len(history.records) < max(self.config.n_iterations, QUIET_ITERATIONS):
            return False
        last = history.records[-QUIET_ITERATIONS:]
        experts = sum(record.get("expert_kl", math.inf) for record in last) / QUIET_ITERATIONS
        gating = sum(record.get("gating_kl", 0.0) for record in last) / QUIET_ITERATIONS
        return experts < REST * self.config.m_step.kl_bound and gating <= REST * self.config.m_step.gating.kl_bound

    def unchanged(self, history: History) -> bool:
        """Return whether the updates up to the kept model had no effect.

        The updates had no effect if none was kept, or if the sum of their KLs is negligible.
        """
        kept = [number for number, record in enumerate(history.records) if record.get("kept", 0.0) > 0.0]
        names = ("expert_kl", "gating_kl", "added", "deleted")
        records = history.records[: kept[-1] + 1] if kept else ()
        return (
            bool(history.records) and sum(record.get(name, 0.0) for record in records for name in names) <= NEGLIGIBLE
        )

    def better(self, following: MixtureOfExperts, state: EIMState, context: Tensor) -> MixtureOfExperts:
        """Return the new model, or the kept model if it is closer to p according to the current ratio.

        The KL of each model is estimated from new samples at contexts of the data (n_samples, n_context). Both
        estimates use log p = phi + log q_old, which can be evaluated everywhere. As long as the estimator has not
        learnt anything (phi = 0), q_old is used instead of p.
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
