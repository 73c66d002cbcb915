"""M-step of nonlinear experts, by weights of samples and a weighted maximum likelihood refit (thesis 4.2.3, A.4.3).

1. At contexts resampled for each expert draw samples of the old expert and take phi at them; 2. weigh the samples so
that bounds on KL and entropy hold (`weigh_samples`); 3. refit the networks to the weighted samples; 4. check the
bounds on the new parameters, and shorten the step where they are exceeded (`shorten_step`).
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from eim_ros.distributions import MixtureOfExperts, NeuralExperts
from eim_ros.errors import DistributionError
from eim_ros.inference.eim.expert_contexts import draw_contexts
from eim_ros.projections.neural_fit import FitSettings, fit_neural_experts
from eim_ros.projections.shortened_step import shorten_step
from eim_ros.projections.weighted_samples import weigh_samples

__all__ = ["update_nonlinear_experts"]


class _Ratio(Protocol):
    """The part of `LogRatio` that is needed: values, no gradients."""

    def log_ratio(self, context: Tensor, sample: Tensor) -> Tensor: ...


class _Config(Protocol):
    """The part of `MStepConfig` that is needed."""

    @property
    def kl_bound(self) -> float: ...
    @property
    def entropy_loss_bound(self) -> float: ...
    @property
    def n_expert_contexts(self) -> int: ...
    @property
    def n_context_samples(self) -> int: ...
    @property
    def fit_settings(self) -> FitSettings: ...


def update_nonlinear_experts(
    config: _Config,
    model: MixtureOfExperts,
    ratio: _Ratio,
    context: Tensor,
    generator: torch.Generator,
    kl_weight: float = 1.0,
) -> tuple[MixtureOfExperts, dict[str, float]]:
    """Improve all neural experts within their trust regions.

    Parameters
    ----------
    config : MStepConfig
    model : MixtureOfExperts
        The old model, of neural experts.
    ratio : LogRatio
        Only its values are used.
    context : Tensor (n_samples, n_context)
        Contexts of the data.
    generator : torch.Generator
    kl_weight : float
        As in `m_step.update_experts`.

    Returns
    -------
    model : MixtureOfExperts
        With new experts and the old gating; an expert without a feasible update is unchanged.
    record : dict
        `expert_kl`, mean KL of the new parameters to the old ones [nat]; `updated`, share of the experts that were
        updated; `step_fraction`, mean part of the refit's step that the bounds left.
    """
    experts = model.experts
    if not isinstance(experts, NeuralExperts):
        raise DistributionError(f"no update of {type(experts).__name__} is known", type(experts).__name__)
    # without contexts all are the same one, and its samples are weighed together
    n_contexts = config.n_expert_contexts if model.n_context > 0 else 1
    n_samples = config.n_expert_contexts * config.n_context_samples // n_contexts
    local = draw_contexts(model, context, n_contexts, generator)
    noise = balanced_noise(local, n_samples, experts.n_dims, generator)
    old = experts.local(local)
    sample = old.mean.unsqueeze(2) + noise @ old.scale_tril.mT
    repeated = local.unsqueeze(2).expand(*sample.shape[:3], -1)
    phi = ratio.log_ratio(repeated.flatten(0, 2), sample.flatten(0, 2))
    log_old = type(old)(old.mean.unsqueeze(2), old.scale_tril.unsqueeze(2)).log_prob(sample)
    weighted = weigh_samples(
        phi.reshape(log_old.shape), log_old, config.kl_bound, config.entropy_loss_bound, kl_weight=kl_weight
    )
    weights = torch.where(weighted.feasible[:, None, None], weighted.weights, torch.zeros_like(weighted.weights))
    fitted = fit_neural_experts(experts, local, sample, weights, config.fit_settings)
    step = shorten_step(experts, fitted, local, config.kl_bound, config.entropy_loss_bound)
    record = {
        "expert_kl": float(step.kl.mean()),
        "updated": float((weighted.feasible & (step.fraction > 0.0)).double().mean()),
        "step_fraction": float(step.fraction.mean()),
    }
    return MixtureOfExperts(model.gating, step.experts), record


def balanced_noise(context: Tensor, n_samples: int, n_dims: int, generator: torch.Generator) -> Tensor:
    """Noise (n_components, n_contexts, n_samples, n_dims) whose mean is 0 and covariance I at every single context.

    Pairs of opposite sign, whitened by their own covariance: equally weighted samples then have exactly the moments of
    the expert they were drawn from, and a ratio of one changes nothing. At least n_dims + 1 pairs are drawn.

    Parameters
    ----------
    context : Tensor (n_components, n_contexts, n_context)
    n_samples, n_dims : int
    generator : torch.Generator
    """
    n_pairs = max(-(-n_samples // 2), n_dims + 1)
    shape = (*context.shape[:2], n_pairs, n_dims)
    half = torch.randn(shape, generator=generator, dtype=context.dtype, device=context.device)
    factor = torch.linalg.cholesky(half.mT @ half / n_pairs)
    half = torch.linalg.solve_triangular(factor, half.mT, upper=False).mT
    return torch.cat([half, -half], 2)
