"""Conditional Expected Information Maximisation for mixtures of linear experts (thesis chapters 3 and 4, algorithm 2).

Minimises E_p(y) KL(q(x|y) || p(x|y)) from samples of p alone. Each iteration

1. E-step: draw x ~ q_old(x|y) and retrain phi(x, y) = log p/q_old (the auxiliary distribution is q_old(z|x, y), eq.
3.2); 2. gating: maximise E[phi(y, z)] - KL(q(z|y) || q_old(z|y)) in a trust region, then softmax regression (4.2.1);
3. experts: fit a quadratic surrogate of phi around each, then a trust-region I-projection in closed form (4.2.2).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from eim_ros.distributions.mixture_of_experts import MixtureOfExperts
from eim_ros.inference.density_ratio import DensityRatio, NetworkRatio, Pairs, RatioConfig
from eim_ros.inference.em import EM, EMConfig, EMState, initial_mixture_of_experts
from eim_ros.inference.ratio_inputs import PlugInInputs, RatioInputs, StandardisedInputs
from eim_ros.inference.run import Checkpoint, FitResult, History, checked_data, checked_start, run
from eim_ros.numerics import Status
from eim_ros.projections.categorical import project_categorical
from eim_ros.projections.gating import constrain_gating, fit_gating
from eim_ros.projections.gaussian import project_experts
from eim_ros.projections.surrogate import fit_to_gradients, fit_to_values
from eim_ros.settings import option

__all__ = ["EIM", "EIMConfig", "EIMState"]


@dataclass(frozen=True)
class EIMConfig(RatioConfig):
    """Settings of `EIM`; those of the density ratio estimator are inherited."""

    n_components: int = option(50, "number of experts", minimum=1)
    n_iterations: int = option(40, "iterations", minimum=0)
    initial_em_iterations: int = option(40, "iterations of EM after the k-means start", minimum=0)
    reference_factor: int = option(
        2,
        "experts of the plug-in density, as a multiple of the model's; 0: the network learns all of the ratio",
        minimum=0,
    )
    reference_iterations: int = option(40, "iterations of EM for the plug-in density", minimum=1)
    kl_bound: float = option(0.1, "largest KL of an expert's update", unit="nat", minimum=0.0)
    entropy_loss_bound: float = option(
        0.05, "largest loss of an expert's entropy per iteration", unit="nat", minimum=0.0
    )
    gating_kl_bound: float = option(0.01, "largest mean KL of the gating's update", unit="nat", minimum=0.0)
    gating_entropy_loss_bound: float = option(
        0.05, "largest loss of the gating's mean entropy", unit="nat", minimum=0.0
    )
    n_gating_contexts: int = option(500, "contexts at which the gating's rewards are taken", minimum=1)
    n_gating_samples: int = option(1, "samples per context and expert for the gating's rewards", minimum=1)
    n_expert_samples: int = option(150, "samples per expert for its surrogate", minimum=2)
    surrogate: str = option("gradient", "what the quadratic surrogate is fitted to", choices=("gradient", "value"))


@dataclass(frozen=True)
class EIMState:
    """State of `EIM`.

    Attributes
    ----------
    model : MixtureOfExperts
    ratio : DensityRatio
        Adapted in place by each step.
    generator : torch.Generator
        Advanced in place by each step.
    iteration : int
    """

    model: MixtureOfExperts
    ratio: DensityRatio
    generator: torch.Generator
    iteration: int

    def tensors(self) -> dict[str, Tensor]:
        return {**self.model.tensors(), **self.ratio.tensors(), "generator": self.generator.get_state()}


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
        initial: MixtureOfExperts | None = None,
        generator: torch.Generator | None = None,
        *,
        callbacks: Sequence[Callable[[EIMState, dict[str, float]], None]] = (),
        checkpoint: Checkpoint | None = None,
        resume: bool = False,
    ) -> FitResult[EIMState]:
        """Fit to samples.

        Parameters
        ----------
        data : pair of Tensor
            context (n_samples, n_context) and sample (n_samples, n_dims).
        initial : MixtureOfExperts, optional
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
        context, sample = (part.to(generator.device) for part in checked_data(data))
        start = checked_start(initial or self._initial(context, sample, generator), context, sample)
        order = torch.randperm(len(sample), generator=generator, device=generator.device)
        pairs = Pairs(context[order], sample[order])  # the estimator holds out the last ones
        inputs = self.inputs or self._inputs(pairs, generator)
        ratio = NetworkRatio(self.config, inputs, generator, generator.device)
        fitting = _Fitting(self.config, inputs, pairs)
        state = EIMState(start, ratio, generator, 0)
        return run(fitting, state, self.config.n_iterations, callbacks=callbacks, checkpoint=checkpoint, resume=resume)

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

    def _initial(self, context: Tensor, sample: Tensor, generator: torch.Generator) -> MixtureOfExperts:
        start = initial_mixture_of_experts(context, sample, self.config.n_components, generator)
        settings = EMConfig(n_components=self.config.n_components, n_iterations=self.config.initial_em_iterations)
        return _complete(EM(settings).fit((context, sample), start, generator))


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
        gated, gating_record = self._update_gating(model, ratio, context, generator)
        following, experts_record = self._update_experts(gated, ratio, context, generator)
        record |= gating_record | experts_record
        return dataclasses.replace(state, model=following, iteration=state.iteration + 1), record

    def restore(self, state: EIMState, tensors: dict[str, Tensor], iteration: int) -> EIMState:
        model = MixtureOfExperts.from_tensors(tensors).to(device=state.generator.device)
        state.ratio.restore(tensors, model, iteration)
        state.generator.set_state(tensors["generator"])
        return EIMState(model, state.ratio, state.generator, iteration)

    def finished(self, history: History) -> bool:
        return False

    def _smoothed(self, context: Tensor, iteration: int, generator: torch.Generator) -> Tensor:
        deviation = self.inputs.smoothing(iteration)
        if deviation is None:
            return context
        noise = torch.randn(context.shape, generator=generator, dtype=context.dtype, device=context.device)
        return context + deviation.to(context) * noise

    def _update_gating(
        self, model: MixtureOfExperts, ratio: DensityRatio, context: Tensor, generator: torch.Generator
    ) -> tuple[MixtureOfExperts, dict[str, float]]:
        if model.n_components == 1:
            return model, {}
        chosen = _subset(context, self.config.n_gating_contexts, generator)
        reward = self._rewards(model, ratio, chosen, generator)
        old = model.gating(chosen)
        target = project_categorical(old, reward, self.config.gating_kl_bound, self.config.gating_entropy_loss_bound)
        fitted = fit_gating(model.gating, chosen, target.log_probs.exp())
        gating, kl = constrain_gating(model.gating, fitted, chosen, self.config.gating_kl_bound)
        return MixtureOfExperts(gating, model.experts), {"gating_kl": kl}

    def _rewards(
        self, model: MixtureOfExperts, ratio: DensityRatio, context: Tensor, generator: torch.Generator
    ) -> Tensor:
        """phi(y, z) averaged over samples of each expert, (n_contexts, n_components)."""
        means = model.experts.means(context)
        repeated = context.unsqueeze(1).expand(-1, model.n_components, -1).flatten(0, 1)
        total = means.new_zeros(means.shape[:2])
        for _ in range(self.config.n_gating_samples):
            noise = torch.randn(means.shape, generator=generator, dtype=means.dtype, device=means.device)
            sample = means + torch.einsum("kij,nkj->nki", model.experts.scale_trils, noise)
            total += ratio.log_ratio(repeated, sample.reshape(-1, model.n_dims)).reshape(total.shape)
        return total / self.config.n_gating_samples

    def _update_experts(
        self, model: MixtureOfExperts, ratio: DensityRatio, context: Tensor, generator: torch.Generator
    ) -> tuple[MixtureOfExperts, dict[str, float]]:
        local = draw_contexts(model, context, self.config.n_expert_samples, generator)
        shape = (model.n_components, self.config.n_expert_samples, model.n_dims)
        residual = torch.randn(shape, generator=generator, dtype=local.dtype, device=local.device)
        experts = model.experts
        mean = local @ experts.weights.mT + experts.biases.unsqueeze(1)
        sample = (mean + residual @ experts.scale_trils.mT).reshape(-1, model.n_dims)
        flat = local.flatten(0, 1)
        if self.config.surrogate == "gradient":
            gradient = ratio.gradient(flat, sample).reshape(shape)
            surrogate = fit_to_gradients(residual, local, gradient @ experts.scale_trils)
        else:
            surrogate = fit_to_values(residual, local, ratio.log_ratio(flat, sample).reshape(shape[:2]))
        update = project_experts(experts, surrogate, self.config.kl_bound, self.config.entropy_loss_bound)
        solution = update.multipliers
        record = {
            "expert_kl": float(torch.where(solution.feasible, solution.kl, torch.zeros_like(solution.kl)).mean()),
            "updated": float(solution.feasible.double().mean()),
        }
        return MixtureOfExperts(model.gating, update.experts), record


def _complete(result: FitResult[EMState]) -> MixtureOfExperts:
    """The model of a fit that comes before the first iteration; Ctrl-C, which ended the fit, goes on to the caller."""
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return result.model


def draw_contexts(model: MixtureOfExperts, context: Tensor, n_samples: int, generator: torch.Generator) -> Tensor:
    """Contexts of each expert, resampled from p~(y|z_i) = p(y) q(z_i|y)/q(z_i) (thesis 4.3.2).

    Returns
    -------
    Tensor (n_components, n_samples, n_context)
    """
    log_gate = model.gating(context).T.contiguous()
    cumulative = log_gate.sub_(log_gate.amax(-1, keepdim=True)).exp_().cumsum_(-1)
    shape = (model.n_components, n_samples)
    level = torch.rand(shape, generator=generator, dtype=context.dtype, device=context.device) * cumulative[:, -1:]
    index = torch.searchsorted(cumulative, level, right=True)
    return context[index.clamp_max(len(context) - 1)]


def _subset(context: Tensor, n_samples: int, generator: torch.Generator) -> Tensor:
    order = torch.randperm(len(context), generator=generator, device=context.device)
    return context[order[:n_samples]]
