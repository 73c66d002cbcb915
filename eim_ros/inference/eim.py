"""Expected Information Maximisation for mixtures and mixtures of experts (thesis chapters 3 and 4, algorithm 2).

Minimises E_p(y) KL(q(x|y) || p(x|y)) from samples of p alone. Each iteration

1. E-step: draw x ~ q_old(x|y) and retrain phi(x, y) = log p/q_old (the auxiliary distribution is q_old(z|x, y), eq.
3.2); 2. gating: maximise E[phi(y, z)] - KL(q(z|y) || q_old(z|y)) in a trust region, within its family (4.2.1);
3. experts: fit a quadratic surrogate of phi around each, then a trust-region I-projection in closed form (4.2.2);
4. keep the new model if, under the same phi, it is closer to p than the best one so far;
5. if the number of components adapts: delete those of no use, and add where held-out data exceed the model (7.1.4).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from eim_ros.distributions import GaussianMixture, MixtureOfExperts
from eim_ros.distributions.prepared_mixture import PreparedMixture
from eim_ros.errors import ConfigurationError
from eim_ros.inference.component_adaptation import Adaptation, AdaptationConfig
from eim_ros.inference.component_history import ComponentHistory
from eim_ros.inference.density_ratio import DensityRatio, RatioConfig
from eim_ros.inference.learner_arguments import checked_seed, configuration, generator_from
from eim_ros.inference.m_step import MStepConfig, update_experts, update_gating
from eim_ros.inference.model_family import FamilyConfig
from eim_ros.inference.neural_start import neural_start
from eim_ros.inference.ratio_choice import data_density, density_ratio, smoothed
from eim_ros.inference.ratio_demand import DELTA, RatioDemand
from eim_ros.inference.ratio_inputs import RatioInputs, StandardisedInputs
from eim_ros.inference.reference_density import best_fit, refined
from eim_ros.inference.reference_start import closest_start
from eim_ros.inference.reparameterised import GradientConfig, update_by_gradients
from eim_ros.inference.run import Checkpoint, FitResult, History, run
from eim_ros.inference.training_data import Pairs, checked_data, checked_start
from eim_ros.numerics.threads import torch_threads
from eim_ros.settings import option

__all__ = ["EIM", "EIMConfig", "EIMState"]

KEPT = "kept."  # prefix of the best model's tensors in a checkpoint


@dataclass(frozen=True)
class EIMConfig(RatioConfig, MStepConfig, GradientConfig, FamilyConfig, AdaptationConfig):
    """Settings of `EIM`.

    Those of the density ratio estimator, the M-step, the family of models and the number of components are inherited.
    """

    n_components: int = option(50, "number of experts, at the start if it adapts", minimum=1)
    n_iterations: int = option(40, "iterations", minimum=0)
    initial_starts: int = option(
        8, "k-means starts, of which EM continues the one with the highest held-out likelihood", minimum=1
    )
    initial_em_iterations: int = option(40, "iterations of EM after the k-means start", minimum=0)
    update: str = option(
        "structured",
        "M-step: closed form in trust regions, or reparameterised gradients (EIM-US, thesis 6.1)",
        choices=("structured", "unstructured"),
    )
    kl_term: bool = option(True, "KL(model || last model) in the objective; without it EIM-KL (thesis 6.1)")
    least_demand: float = option(
        1.0, "log p/q of data, at least, for a component to be added there", unit="nat", minimum=0.0
    )
    n_selection_samples: int = option(
        1000, "samples by which the best model is told from the last; 0: the last model is returned", minimum=0
    )


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


class EIM:
    """Mixture of experts by expected information maximisation, from samples.

    Parameters
    ----------
    config : EIMConfig, optional
    inputs : RatioInputs, optional
        Inputs of the density ratio estimator; standardised samples and contexts if missing.
    seed : int
        Of the randomness of fits that are given no generator.
    **settings
        Fields of `EIMConfig`, which replace those of `config`: `EIM(n_components=10, seed=3)`.
    """

    def __init__(
        self, config: EIMConfig | None = None, inputs: RatioInputs | None = None, *, seed: int = 0, **settings: Any
    ) -> None:
        self.config = configuration(EIMConfig, config, settings)
        self.seed = checked_seed(seed)
        self.inputs = inputs

    @torch_threads()
    def fit(
        self,
        data: Any,
        initial: MixtureOfExperts | GaussianMixture | None = None,
        generator: torch.Generator | None = None,
        *,
        callbacks: Sequence[Callable[[EIMState, dict[str, float]], None]] = (),
        checkpoint: Checkpoint | None = None,
        resume: bool = False,
    ) -> FitResult[EIMState]:
        """Fit to samples.

        Parameters
        ----------
        data : array or Tensor, or pair of them
            Samples (n_samples, n_dims), or context (n_samples, n_context) and sample (n_samples, n_dims).
        initial : MixtureOfExperts or GaussianMixture, optional
            Start, of any family; the best of several k-means starts and a few iterations of EM otherwise, and
            `neural_start` for models with neural parts.
        generator : torch.Generator, optional
            All randomness; the learner's seed if missing. Its device is where the fit runs.
        callbacks, checkpoint, resume
            See `run`.

        Returns
        -------
        FitResult
            Where the number of components adapts, its history holds `n_components` after each iteration, and how many
            were `added` and `deleted` in it.

        Raises
        ------
        ConfigurationError
            A model with networks, or a M-step by gradients, whose number of components is to adapt.
        DataError
            Fewer points than experts, empty, mismatched or non-finite data.
        DistributionError
            A start of other dimensions than the data.
        """
        generator = generator_from(generator, self.seed)
        checked = checked_data(data).to(generator.device)
        given = None if initial is None else checked_start(initial, checked)
        shuffled = checked[torch.randperm(len(checked), generator=generator, device=generator.device)]
        first, start = self._first_and_start(given, shuffled, generator)
        _check_adaptation(self.config, start)
        inputs = self.inputs or StandardisedInputs.from_data(shuffled.context, shuffled.sample)
        most = max(start.n_components, self.config.max_components if self.config.add_every > 0 else 0)
        reference = data_density(self.config, start.n_components, inputs, shuffled, generator, first, most)
        if given is None and reference is not None and self.config.is_linear:
            start = closest_start(start, reference, shuffled.context, generator)
        ratio = density_ratio(self.config, inputs, reference, shuffled, generator)
        return run(
            _Fitting(self.config, inputs, shuffled),
            EIMState(start, start, ratio, generator, 0, ComponentHistory.empty(start)),
            self.config.n_iterations,
            callbacks=callbacks,
            checkpoint=checkpoint,
            resume=resume,
            conditional=checked.conditional,
        )

    def _first_and_start(
        self, given: MixtureOfExperts | None, data: Pairs, generator: torch.Generator
    ) -> tuple[MixtureOfExperts | None, MixtureOfExperts]:
        """Candidate for the reference density, if any, and start.

        A neural expert is soon better than any reference of linear ones, which then would hold it back: one of its own
        family is a candidate even where the start is given.
        """
        if given is None:
            return self._start(data, generator)
        wants_neural = not self.config.is_linear and self.config.ratio != "network"
        return (self._start(data, generator)[0] if wants_neural else None), given

    def _start(self, data: Pairs, generator: torch.Generator) -> tuple[MixtureOfExperts | None, MixtureOfExperts]:
        """Fit to the training part, if there was a choice of starts, and the start, which takes in all data."""
        config = self.config
        settings = {"n_components": config.n_components, "n_iterations": config.initial_em_iterations}
        training, held_out = data[: config.n_training(len(data))], data[config.held_out(len(data))]
        if not config.is_linear:
            return neural_start(
                config, config.n_components, config.initial_em_iterations, training, held_out, generator
            )
        if config.initial_starts == 1 or len(training) < config.n_components:
            return None, best_fit(data, data, n_starts=1, generator=generator, **settings)
        first = best_fit(training, held_out, n_starts=config.initial_starts, generator=generator, **settings)
        return first, refined(first, data, config.initial_em_iterations)


@dataclass(frozen=True)
class _Fitting:
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
        kept = self._better(following, state, data.context)
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
        gated, record, reward = update_gating(config, model, ratio, context, generator, kl_weight)
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
        return False

    def _better(self, following: MixtureOfExperts, state: EIMState, context: Tensor) -> MixtureOfExperts:
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


def _check_adaptation(config: EIMConfig, start: MixtureOfExperts) -> None:
    """Refuse, with `ConfigurationError`, what cannot have a number of components that adapts."""
    Adaptation(config).check(start)
    if config.adapts and config.update == "unstructured":
        raise ConfigurationError(
            "an M-step by gradients has no rewards to delete components by, and too few steps for new ones; set "
            'add_every and delete_after to 0, or update to "structured"',
            config.update,
        )
