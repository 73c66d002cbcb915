"""The M-step that EIM and inference with a known density share (thesis 4.1, 4.2): gating first, then the experts.

Both maximise E_q[phi] - KL(q || q_old) in trust regions and differ only in where phi = log p/q_old comes from: any
object that satisfies `LogRatio`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from eim_ros.distributions import LinearExperts, MixtureOfExperts, SoftmaxGating
from eim_ros.inference.eim.expert_contexts import draw_contexts
from eim_ros.inference.eim.nonlinear_update import update_nonlinear_experts
from eim_ros.inference.model_family import NetworkFitConfig
from eim_ros.projections.categorical import project_categorical
from eim_ros.projections.gating_projection import project_gating
from eim_ros.projections.gaussian import project_experts
from eim_ros.projections.surrogate import fit_to_gradients, fit_to_values
from eim_ros.settings import option

__all__ = ["LogRatio", "MStepConfig", "draw_contexts", "update_experts", "update_gating"]


class LogRatio(Protocol):
    """phi = log p/q_old as a function of context and sample."""

    def log_ratio(self, context: Tensor, sample: Tensor, component: Tensor | None = None) -> Tensor:
        """phi [nat], (n_samples,), for contexts (n_samples, n_context) and samples (n_samples, n_dims).

        Which components (n_samples,) of q_old drew the samples may be told: it makes a truncated auxiliary distribution
        possible.
        """
        ...

    def gradient(self, context: Tensor, sample: Tensor, component: Tensor | None = None) -> Tensor:
        """Gradient of phi with respect to the sample, (n_samples, n_dims)."""
        ...


@dataclass(frozen=True)
class MStepConfig(NetworkFitConfig):
    """Settings of the M-step."""

    kl_bound: float = option(0.1, "largest KL of an expert's update", unit="nat", minimum=0.0)
    entropy_loss_bound: float = option(
        0.05, "largest loss of an expert's entropy per iteration", unit="nat", minimum=0.0
    )
    gating_kl_bound: float = option(0.01, "largest mean KL of the gating's update", unit="nat", minimum=0.0)
    gating_entropy_loss_bound: float = option(
        0.05, "largest loss of the gating's mean entropy", unit="nat", minimum=0.0
    )
    gating_gradient: str = option(
        "plain",
        "gradient that a linear gating of contexts follows: plain; natural, by which components that have lost their "
        "weight come back, if rewards can be trusted there",
        choices=("plain", "natural"),
    )
    n_gating_contexts: int = option(
        500, "contexts at which the gating's rewards are taken; samples of each component without contexts", minimum=1
    )
    n_gating_samples: int = option(1, "samples per context and expert for the gating's rewards", minimum=1)
    n_expert_samples: int = option(150, "samples per expert for its surrogate", minimum=2)
    surrogate: str = option("gradient", "what the quadratic surrogate is fitted to", choices=("gradient", "value"))
    n_expert_contexts: int = option(1000, "contexts per neural expert for its update", minimum=1)
    n_context_samples: int = option(10, "samples per context and neural expert", minimum=2)


def update_gating(
    config: MStepConfig,
    model: MixtureOfExperts,
    ratio: LogRatio,
    context: Tensor,
    generator: torch.Generator,
    kl_weight: float = 1.0,
) -> tuple[MixtureOfExperts, dict[str, float], Tensor]:
    """Trust-region update of q(z|y) by the experts' rewards, within the gating's family (thesis 4.1.1, 4.2.1).

    Parameters
    ----------
    config : MStepConfig
    model : MixtureOfExperts
        The old model.
    ratio : LogRatio
    context : Tensor (n_samples, n_context)
        Contexts of the data.
    generator : torch.Generator
    kl_weight : float
        Weight of KL(q || q_old) in the objective; 0 for the ablation EIM-KL of thesis 6.1.

    Returns
    -------
    model : MixtureOfExperts
        With a new gating and the old experts.
    record : dict
        `gating_kl`, the mean KL of the update [nat].
    reward : Tensor (n_components,)
        Mean reward of each expert over p(y|z) [nat].
    """
    if model.n_components == 1:
        return model, {}, context.new_zeros(1)
    chosen = _subset(context, config.n_gating_contexts, generator)
    reward = _rewards(config, model, ratio, chosen, generator)
    mean_reward = (torch.softmax(model.gating(chosen), 0) * reward).sum(0)
    bounds = (config.gating_kl_bound, config.gating_entropy_loss_bound)
    if model.n_context == 0:  # all contexts are the same one: closed form
        shared = project_categorical(
            model.gating(chosen[:1]), reward.mean(0, keepdim=True), *bounds, kl_weight=kl_weight
        )
        gating = SoftmaxGating(chosen.new_zeros(model.n_components, 0), shared.log_probs[0])
        return MixtureOfExperts(gating, model.experts), {"gating_kl": shared.kl}, mean_reward
    natural = config.gating_gradient == "natural"
    update = project_gating(model.gating, chosen, reward, *bounds, kl_weight=kl_weight, natural=natural)
    return MixtureOfExperts(update.gating, model.experts), {"gating_kl": update.kl}, mean_reward


def update_experts(
    config: MStepConfig,
    model: MixtureOfExperts,
    ratio: LogRatio,
    context: Tensor,
    generator: torch.Generator,
    kl_weight: float = 1.0,
) -> tuple[MixtureOfExperts, dict[str, float]]:
    """Trust-region I-projection of every expert onto a quadratic surrogate of phi around it (thesis 4.1.2, 4.2.2).

    An expert with samples at which phi has no gradient follows its values instead, for they tell where that is.
    Experts that are not linear are updated from weighted samples (`nonlinear_update`).

    Parameters
    ----------
    config, model, ratio, context, generator, kl_weight
        As in `update_gating`.

    Returns
    -------
    model : MixtureOfExperts
        With new experts and the old gating; an expert without a feasible update is unchanged.
    record : dict
        `expert_kl`, mean KL of the updates [nat]; `updated`, share of the experts that were updated.
    """
    experts = model.experts
    if not isinstance(experts, LinearExperts):
        return update_nonlinear_experts(config, model, ratio, context, generator, kl_weight)
    local = draw_contexts(model, context, config.n_expert_samples, generator)
    shape = (model.n_components, config.n_expert_samples, model.n_dims)
    residual = torch.randn(shape, generator=generator, dtype=local.dtype, device=local.device)
    mean = local @ experts.weights.mT + experts.biases.unsqueeze(1)
    sample = (mean + residual @ experts.scale_trils.mT).reshape(-1, model.n_dims)
    flat = local.flatten(0, 1)
    component = torch.arange(model.n_components, device=flat.device).repeat_interleave(config.n_expert_samples)
    if config.surrogate == "gradient":
        gradient = ratio.gradient(flat, sample, component).reshape(shape)
        surrogate = fit_to_gradients(residual, local, gradient @ experts.scale_trils)
        lacking = ~torch.isfinite(gradient).all(-1).all(-1)  # outside of the target's support there are none
    else:
        surrogate, lacking = None, torch.ones(model.n_components, dtype=torch.bool, device=flat.device)
    if bool(lacking.any()):
        mine = lacking.repeat_interleave(config.n_expert_samples)
        value = ratio.log_ratio(flat[mine], sample[mine], component[mine]).reshape(-1, config.n_expert_samples)
        by_values = fit_to_values(residual[lacking], local[lacking], value)
        surrogate = by_values if surrogate is None else surrogate.replaced(lacking, by_values)
    assert surrogate is not None
    update = project_experts(experts, surrogate, config.kl_bound, config.entropy_loss_bound, kl_weight=kl_weight)
    solution = update.multipliers
    record = {
        "expert_kl": float(torch.where(solution.feasible, solution.kl, torch.zeros_like(solution.kl)).mean()),
        "updated": float(solution.feasible.double().mean()),
    }
    return MixtureOfExperts(model.gating, update.experts), record


def _rewards(
    config: MStepConfig, model: MixtureOfExperts, ratio: LogRatio, context: Tensor, generator: torch.Generator
) -> Tensor:
    """phi(y, z) averaged over samples of each expert, (n_contexts, n_components)."""
    experts = model.experts(context)
    repeated = context.unsqueeze(1).expand(-1, model.n_components, -1).flatten(0, 1)
    component = torch.arange(model.n_components, device=context.device).repeat(len(context))
    total = experts.mean.new_zeros(experts.mean.shape[:2])
    for _ in range(config.n_gating_samples):
        sample = experts.sample(generator=generator)
        total += ratio.log_ratio(repeated, sample.reshape(-1, model.n_dims), component).reshape(total.shape)
    return total / config.n_gating_samples


def _subset(context: Tensor, n_samples: int, generator: torch.Generator) -> Tensor:
    if context.shape[1] == 0:
        return context.new_zeros(n_samples, 0)
    order = torch.randperm(len(context), generator=generator, device=context.device)
    return context[order[:n_samples]]
