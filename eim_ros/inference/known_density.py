"""Expected Information Maximisation where the target's density is known, up to a constant (thesis 5.5; VIPS).

The bound, its E-step and its M-step are those of EIM; only the log ratio differs, which here is exact:

    phi(x, y) = log p(x|y) / T - log q_old(x|y)                     maximises E_q[log p] + T H(q)

With temperature T the M-step maximises E_q[phi] - KL(q || q_old) as ever, which is the objective divided by T: the
same steps as with phi = log p - T log q_old and the KL weighted by T.

It is for starts from samples, networks, and hundreds of experts, of which log q is truncated. For linear models
`eim_ros.inference.variational.GMMVI` has the whole family of algorithms of which this is one, with contexts or without:
the combination LEMBFBX with `own_samples`, which differs in where the gating's rewards come from. In the names of the
seven modules:

- Samples: of each component, new ones for each of `update_gating` and `update_experts`; there the same for both.
- Natural gradient: by regression on gradients or values (`fit_to_gradients`, `fit_to_values`), chosen by `surrogate`.
- Component update: trust region, with a bound on the loss of entropy too (`project_experts`); step size: fixed.
- Weight update: the same for the weights (`project_categorical`, `project_gating`); step size: fixed.
- Adding and deleting components: `Adaptation`, before each step; there none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from eim_ros.distributions import GaussianMixture, LinearExperts, MixtureOfExperts
from eim_ros.distributions.prepared_mixture import PreparedMixture
from eim_ros.errors import DistributionError
from eim_ros.inference.component_adaptation import DELTAS, Adaptation, AdaptationConfig
from eim_ros.inference.component_history import ComponentHistory
from eim_ros.inference.em.configuration import EMConfig
from eim_ros.inference.em.em import EM
from eim_ros.inference.learner_arguments import checked_seed, configuration, generator_from
from eim_ros.inference.m_step import MStepConfig, update_experts, update_gating
from eim_ros.inference.model_family import FamilyConfig, with_networks
from eim_ros.inference.plateau import on_plateau
from eim_ros.inference.ratio.auxiliary import AuxiliaryConfig
from eim_ros.inference.ratio.known_ratio import KnownRatio
from eim_ros.inference.run import Checkpoint, FitResult, History, run
from eim_ros.inference.target_density import Target, TargetDensity, restricted_elbo, target_density
from eim_ros.inference.training_data import Pairs, checked_start, data_or_contexts, has_samples
from eim_ros.numerics import Status
from eim_ros.numerics.threads import torch_threads
from eim_ros.settings import option

__all__ = ["KnownDensityEIM", "KnownDensityEIMConfig", "KnownDensityState"]

QUIET_ITERATIONS = 3  # so many in a row, with changes below the tolerance, end a run


@dataclass(frozen=True)
class KnownDensityEIMConfig(MStepConfig, FamilyConfig, AuxiliaryConfig, AdaptationConfig):
    """Settings of `KnownDensityEIM`.

    Those of the M-step, the family of models, the auxiliary distribution and the number of components are inherited.
    """

    n_components: int = option(50, "number of components of the start, where none is given", minimum=1)
    n_iterations: int = option(1000, "upper bound on iterations", minimum=0)
    initial_starts: int = option(10, "fits of EM from k-means of which the likeliest is the start", minimum=1)
    initial_em_iterations: int = option(40, "iterations of each of them; 0: a single k-means alone", minimum=0)
    gating_gradient: str = option(
        "natural", "gradient that a linear gating of contexts follows: plain or natural", choices=("plain", "natural")
    )
    temperature: float = option(1.0, "weight of the entropy against the target's log density", minimum=1e-6)
    n_contexts: int = option(0, "contexts of the data that an iteration looks at, drawn anew; 0: all", minimum=0)
    n_objective_samples: int = option(1000, "samples for the record of the objective", minimum=2)
    tolerance: float = option(
        1e-20, "stop when the model changes by less than this KL per iteration", unit="nat", minimum=0.0
    )
    plateau_window: int = option(
        20, "stop when the objective rises by no more than its noise from so many iterations to the next; 0: never",
        minimum=0,
    )  # fmt: skip


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


class KnownDensityEIM:
    """I-projection of a mixture, or a mixture of experts, onto a known density.

    Parameters
    ----------
    target : GaussianMixture, MixtureOfExperts, object with `log_prob`, or callable
        Log density, which need not be normalised: of samples (n, dx), or of contexts (n, dy) and samples. Where it has
        no method `score`, it is differentiated automatically, unless `surrogate` is "value". An annealed target has a
        method `at(iteration)`, see `target_density`.
    config : KnownDensityEIMConfig, optional
    seed : int
        Of the randomness of fits that are given no generator.
    **settings
        Fields of `KnownDensityEIMConfig`, which replace those of `config`:
        `KnownDensityEIM(target, n_components=10, seed=3)`.
    """

    def __init__(
        self, target: Target, config: KnownDensityEIMConfig | None = None, *, seed: int = 0, **settings: Any
    ) -> None:
        self.target = target
        self.config = configuration(KnownDensityEIMConfig, config, settings)
        self.seed = checked_seed(seed)

    @torch_threads()
    def fit(
        self,
        data: Any = None,
        initial: MixtureOfExperts | GaussianMixture | None = None,
        generator: torch.Generator | None = None,
        *,
        callbacks: Sequence[Callable[[KnownDensityState, dict[str, float]], None]] = (),
        checkpoint: Checkpoint | None = None,
        resume: bool = False,
    ) -> FitResult[KnownDensityState]:
        """Fit to the target.

        Parameters
        ----------
        data : Tensor, pair, or None
            What the start is made of, the contexts, and where additions of components look first: samples (n, dx); or
            context (n, dy) and sample (n, dx), of which the sample may be None if a start is given. None, with a start,
            for a target without contexts.
        initial : MixtureOfExperts or GaussianMixture, optional
            Start; otherwise the likeliest of several fits of EM to the data, from k-means.
        generator : torch.Generator, optional
            All randomness; the learner's seed if missing. Its device is where the fit runs.
        callbacks, checkpoint, resume
            See `run`.

        Returns
        -------
        FitResult
            CONVERGED once the model rests or the objective does; NON_FINITE if the target is not finite at samples of
            the model. The history holds `elbo`, the objective E[log p] + T H(q) [nat] with its `elbo_standard_error`,
            or instead, where it is minus infinity, `elbo_inside`, that of the model restricted to where the target is
            finite, and the probability `outside` of the rest; `entropy` H(q) [nat], `change`, the KL of the new
            model to the old [nat], `gating_kl` and `expert_kl` of the two updates [nat], `evaluations` of the target
            by them, and `non_finite`, the share of these at which it was not finite; where the number of components
            adapts, also `n_components`, and how many were `added` and `deleted` before the iteration.

        Raises
        ------
        ConfigurationError
            A model with networks whose number of components is to adapt.
        DataError
            Neither samples nor a start, fewer points than components, empty, mismatched or non-finite data.
        DistributionError
            A start of other dimensions than the data; a target of another shape than (n,), that cannot be
            differentiated though gradients are asked for, or that is finite nowhere where the start has its samples.
        """
        generator = generator_from(generator, self.seed)
        checked = data_or_contexts(data, initial).to(generator.device)
        if initial is None:
            initial = self._initial(checked, generator)
        start = checked_start(initial, checked).to(device=generator.device)
        adaptation = Adaptation(self.config, checked if has_samples(data) else None)
        adaptation.check(start)
        target = target_density(self.target, conditional=checked.conditional, device=generator.device)
        by_gradients = self.config.surrogate == "gradient" and isinstance(start.experts, LinearExperts)
        _check(target, start, checked.context, differentiable=by_gradients)
        return run(
            _Fitting(self.config, target, checked.context, adaptation),
            KnownDensityState(start, generator, 0, ComponentHistory.empty(start)),
            self.config.n_iterations,
            callbacks=callbacks,
            checkpoint=checkpoint,
            resume=resume,
            conditional=checked.conditional,
        )

    def _initial(self, data: Pairs, generator: torch.Generator) -> MixtureOfExperts:
        """The likeliest of several fits of EM: the I-projection never leaves a mode for another it does not see.

        Networks start as the linear experts and the gating that EM has found.
        """
        settings = EMConfig(
            n_components=self.config.n_components,
            n_iterations=self.config.initial_em_iterations,
            n_starts=self.config.initial_starts if self.config.initial_em_iterations > 0 else 1,
        )
        result = EM(settings).fit((data.context, data.sample), generator=generator)
        if result.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return with_networks(result.mixture_of_experts, self.config, data.context, generator)


@dataclass(frozen=True)
class _Fitting:
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
        context, sample = _draw(new, self.context, self.config.n_objective_samples, generator)
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


def _check(target: TargetDensity, start: MixtureOfExperts, context: Tensor, *, differentiable: bool) -> None:
    """Refuse a target that says nothing about the start, or has no gradient where one is needed."""
    fixed = torch.Generator(device=start.device).manual_seed(0)  # whatever is drawn here leaves the fit's own alone
    context, sample = _draw(start, context, 200, fixed)
    if not bool(torch.isfinite(target.log_prob(context, sample)).any()):
        raise DistributionError("the target's log density is finite at none of 200 samples of the initial model")
    if differentiable:
        target.gradient(context[:1], sample[:1])


def _draw(
    model: MixtureOfExperts, context: Tensor, n_samples: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Contexts, picked at random, with one sample of the model each."""
    chosen = context[torch.randint(len(context), (n_samples,), generator=generator, device=context.device)]
    return chosen, model.sample(chosen, generator)
