"""One iteration of EIM: E-step, M-step, which model is kept, and the number of components (thesis, algorithm 2)."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.distributions import MixtureOfExperts
from eim_ros.distributions.prepared_mixture import PreparedMixture
from eim_ros.inference.eim.component_adaptation import Adaptation
from eim_ros.inference.eim.component_history import ComponentHistory
from eim_ros.inference.eim.configuration import EIMConfig
from eim_ros.inference.eim.m_step import update_experts, update_gating
from eim_ros.inference.eim.reparameterised import update_by_gradients
from eim_ros.inference.plateau import rests
from eim_ros.inference.ratio.choice import smoothed
from eim_ros.inference.ratio.demand import DELTA, RatioDemand
from eim_ros.inference.ratio.density_ratio import DensityRatio
from eim_ros.inference.ratio.inputs import RatioInputs
from eim_ros.inference.run import History
from eim_ros.inference.training_data import Pairs

__all__ = ["EIMIteration", "EIMState"]

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
