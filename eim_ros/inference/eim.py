"""Expected Information Maximisation for mixtures and mixtures of experts (thesis chapters 3 and 4, algorithm 2).

Minimises E_p(y) KL(q(x|y) || p(x|y)) from samples of p alone. Each iteration

1. E-step: draw x ~ q_old(x|y) and retrain phi(x, y) = log p/q_old (the auxiliary distribution is q_old(z|x, y), eq.
3.2); 2. gating: maximise E[phi(y, z)] - KL(q(z|y) || q_old(z|y)) in a trust region, then softmax regression (4.2.1);
3. experts: fit a quadratic surrogate of phi around each, then a trust-region I-projection in closed form (4.2.2);
4. keep the new model if, under the same phi, it is closer to p than the best one so far.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from eim_ros.distributions import GaussianMixture, MixtureOfExperts
from eim_ros.inference.density_ratio import DensityRatio, NetworkRatio, Pairs, RatioConfig
from eim_ros.inference.em import EM, EMConfig, EMState, initial_mixture_of_experts
from eim_ros.inference.m_step import MStepConfig, update_experts, update_gating
from eim_ros.inference.ratio_inputs import PlugInInputs, RatioInputs, StandardisedInputs
from eim_ros.inference.run import Checkpoint, FitResult, History, run
from eim_ros.inference.training_data import TrainingData, checked_data, checked_start
from eim_ros.numerics import Status
from eim_ros.settings import option

__all__ = ["EIM", "EIMConfig", "EIMState"]

KEPT = "kept."  # prefix of the best model's tensors in a checkpoint


@dataclass(frozen=True)
class EIMConfig(RatioConfig, MStepConfig):
    """Settings of `EIM`; those of the density ratio estimator and of the M-step are inherited."""

    n_components: int = option(50, "number of experts", minimum=1)
    n_iterations: int = option(40, "iterations", minimum=0)
    initial_em_iterations: int = option(40, "iterations of EM after the k-means start", minimum=0)
    reference_factor: int = option(
        2,
        "experts of the plug-in density, as a multiple of the model's; 0: the network learns all of the ratio",
        minimum=0,
    )
    reference_iterations: int = option(40, "iterations of EM for the plug-in density", minimum=1)
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
    """

    model: MixtureOfExperts
    kept: MixtureOfExperts
    ratio: DensityRatio
    generator: torch.Generator
    iteration: int

    def tensors(self) -> dict[str, Tensor]:
        kept = {f"{KEPT}{name}": value for name, value in self.kept.tensors().items()}
        return {**self.model.tensors(), **kept, **self.ratio.tensors(), "generator": self.generator.get_state()}


class EIM:
    """Mixture of linear experts by expected information maximisation, from samples.

    Parameters
    ----------
    config : EIMConfig
    inputs : RatioInputs, optional
        Inputs of the density ratio estimator; standardised samples and contexts, with a plug-in density of
        `config.reference_factor` times as many experts fitted by EM, if missing.
    """

    def __init__(self, config: EIMConfig | None = None, inputs: RatioInputs | None = None) -> None:
        self.config = config or EIMConfig()
        self.inputs = inputs

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
        data : Tensor or pair of Tensor
            Samples (n_samples, n_dims), or context (n_samples, n_context) and sample (n_samples, n_dims).
        initial : MixtureOfExperts or GaussianMixture, optional
            Start; k-means and a few iterations of EM otherwise.
        generator : torch.Generator, optional
            All randomness; seed 0 if missing. Its device is where the fit runs.
        callbacks, checkpoint, resume
            See `run`.

        Returns
        -------
        FitResult

        Raises
        ------
        DataError
            Fewer points than experts, empty, mismatched or non-finite data.
        DistributionError
            A start of other dimensions than the data.
        """
        generator = generator or torch.Generator().manual_seed(0)
        checked = checked_data(data).to(generator.device)
        if initial is None:
            initial = self._initial(checked, generator)
        start = checked_start(initial, checked)
        shuffled = checked[torch.randperm(len(checked), generator=generator, device=generator.device)]
        pairs = Pairs(shuffled.context, shuffled.sample)  # the estimator holds out the last ones
        inputs = self.inputs or self._inputs(pairs, generator)
        ratio = NetworkRatio(self.config, inputs, generator, generator.device)
        return run(
            _Fitting(self.config, inputs, pairs),
            EIMState(start, start, ratio, generator, 0),
            self.config.n_iterations,
            callbacks=callbacks,
            checkpoint=checkpoint,
            resume=resume,
            conditional=checked.conditional,
        )

    def _inputs(self, pairs: Pairs, generator: torch.Generator) -> RatioInputs:
        """Inputs where none were given: standardised, with a plug-in density fitted to the training part."""
        plain = StandardisedInputs.from_data(pairs.context, pairs.sample)
        training = slice(0, self.config.n_training(len(pairs.sample)))
        n_components = min(self.config.reference_factor * self.config.n_components, len(pairs.sample[training]) // 2)
        if n_components < 1:
            return plain
        settings = EMConfig(n_components=n_components, n_iterations=self.config.reference_iterations)
        data = (pairs.context[training], pairs.sample[training])
        return PlugInInputs(plain.center, plain.scale, _complete(EM(settings).fit(data, generator=generator)))

    def _initial(self, data: TrainingData, generator: torch.Generator) -> MixtureOfExperts:
        start = initial_mixture_of_experts(data.context, data.sample, self.config.n_components, generator)
        settings = EMConfig(n_components=self.config.n_components, n_iterations=self.config.initial_em_iterations)
        return _complete(EM(settings).fit((data.context, data.sample), start, generator))


@dataclass(frozen=True)
class _Fitting:
    """EIM on one data set, as an `Algorithm`."""

    config: EIMConfig
    inputs: RatioInputs
    data: Pairs

    def step(self, state: EIMState) -> tuple[EIMState, dict[str, float]]:
        model, ratio, generator = state.model, state.ratio, state.generator
        context = self._smoothed(self.data.context, state.iteration, generator)
        drawn, _ = model.sample(context, generator)
        data = Pairs(context, self.data.sample)
        report = ratio.fit(data, Pairs(context, drawn), model, state.iteration, generator)
        record = {"loss": report.loss, "accuracy": report.accuracy, "ratio_kl": report.ratio_kl}
        if report.collapsed:
            return dataclasses.replace(state, iteration=state.iteration + 1), {**record, "skipped": 1.0}
        gated, gating_record = update_gating(self.config, model, ratio, context, generator)
        following, experts_record = update_experts(self.config, gated, ratio, context, generator)
        record |= gating_record | experts_record
        kept = self._better(following, state, context)
        record["kept"] = float(kept is following)
        return dataclasses.replace(state, model=following, kept=kept, iteration=state.iteration + 1), record

    def restore(self, state: EIMState, tensors: dict[str, Tensor], iteration: int) -> EIMState:
        device = state.generator.device
        model = MixtureOfExperts.from_tensors(tensors).to(device=device)
        kept = {name.removeprefix(KEPT): value for name, value in tensors.items() if name.startswith(KEPT)}
        state.ratio.restore(tensors, model, iteration)
        state.generator.set_state(tensors["generator"])
        return EIMState(
            model, MixtureOfExperts.from_tensors(kept).to(device=device), state.ratio, state.generator, iteration
        )

    def finished(self, history: History) -> bool:
        return False

    def _smoothed(self, context: Tensor, iteration: int, generator: torch.Generator) -> Tensor:
        deviation = self.inputs.smoothing(iteration)
        if deviation is None:
            return context
        noise = torch.randn(context.shape, generator=generator, dtype=context.dtype, device=context.device)
        return context + deviation.to(context) * noise

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
            sample, _ = model.sample(chosen, state.generator)
            log_target = state.ratio.log_ratio(chosen, sample) + state.model.log_prob(chosen, sample)
            return float((model.log_prob(chosen, sample) - log_target).mean())

        return following if divergence(following) <= divergence(state.kept) else state.kept


def _complete(result: FitResult[EMState]) -> MixtureOfExperts:
    """The model of a fit that comes before the first iteration; Ctrl-C, which ended the fit, goes on to the caller."""
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return result.mixture_of_experts
