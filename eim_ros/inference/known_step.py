"""One update of a linear mixture of experts towards a known density, by the rules of `eim_ros.inference.variational`.

In the names of its seven modules it is a combination of them:

- Samples: of each component, new ones, at contexts that it answers for; a component is told of its own alone.
- Natural gradient: by a regression on gradients (`Regression`) or values (`More`), chosen by `surrogate`.
- Component update: trust region, with a bound on the loss of entropy too (`EntropyBoundedUpdate`); step size: fixed.
- Weight update: the same for the gating, by its natural gradient (`EntropyBoundedWeights`); step size: fixed.

Of many components log q is truncated (`PreparedMixture`): the cost of a sample does not depend on their number.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from eim_ros.distributions import MixtureOfExperts
from eim_ros.distributions.prepared_mixture import PreparedMixture
from eim_ros.inference.target_density import TargetDensity, with_floor
from eim_ros.inference.variational.components import Components
from eim_ros.inference.variational.entropy_bounds import EntropyBoundedUpdate, EntropyBoundedWeights
from eim_ros.inference.variational.kinds import components_of
from eim_ros.inference.variational.log_ratio import LogRatio
from eim_ros.inference.variational.natural_gradient import GradientEstimator, More, Regression
from eim_ros.inference.variational.natural_step import moved_components
from eim_ros.inference.variational.own_weights import OwnWeights

__all__ = ["known_step"]

RIDGE = 1e-10  # of a regression on values


class StepSettings(Protocol):
    """What of the settings of `KnownDensityEIM` concerns an update."""

    @property
    def kl_bound(self) -> float: ...

    @property
    def entropy_loss_bound(self) -> float: ...

    @property
    def gating_kl_bound(self) -> float: ...

    @property
    def gating_entropy_loss_bound(self) -> float: ...

    @property
    def n_gating_contexts(self) -> int: ...

    @property
    def n_expert_samples(self) -> int: ...

    @property
    def surrogate(self) -> str: ...

    @property
    def temperature(self) -> float: ...


def known_step(
    settings: StepSettings,
    target: TargetDensity,
    prepared: PreparedMixture,
    context: Tensor,
    generator: torch.Generator,
) -> tuple[MixtureOfExperts, dict[str, float], Tensor]:
    """Update gating and experts by the same samples.

    Parameters
    ----------
    settings : StepSettings
    target : TargetDensity
    prepared : PreparedMixture
        The old model, which has to be linear.
    context : Tensor (n_contexts, n_context)
        Contexts of the iteration.
    generator : torch.Generator

    Returns
    -------
    model : MixtureOfExperts
    record : dict
        Mean KLs `expert_kl` and `gating_kl` of the updates [nat], the share of experts `updated`, `evaluations` of the
        target, and `non_finite`, the share of these at which it was not.
    reward : Tensor (n_components,)
        E[phi] of each component [nat].
    """
    model = prepared.model
    log_weights, components = components_of(model, context, "full")
    estimator: GradientEstimator = Regression() if settings.surrogate == "gradient" else More()
    ratio = _ratio(settings, estimator.needs_gradient, target, prepared, components, generator)
    rewards = ratio.reward(components)
    ridge, bound = (log_weights.new_full((model.n_components,), value) for value in (RIDGE, settings.kl_bound))
    update = EntropyBoundedUpdate(settings.entropy_loss_bound)
    updated, moved, step = moved_components(estimator, update, components, ratio, ridge, bound)
    record = {
        "expert_kl": float(torch.where(moved, step.kl(), 0.0).mean()),
        "updated": float(moved.to(bound).mean()),
        "evaluations": float(len(ratio.value)),
        "non_finite": float((~ratio.finite).to(bound).mean()),
    }
    if model.n_components > 1 and bool(torch.isfinite(rewards).all()):
        some = torch.randperm(len(context), generator=generator, device=context.device)[: settings.n_gating_contexts]
        old = components.log_weights_at_contexts(log_weights)
        rows = (old, components.reward_at_contexts(rewards))
        old, reward = (values if len(values) == 1 else values[some] for values in rows)  # one where there is no context
        rule = EntropyBoundedWeights(settings.gating_entropy_loss_bound)
        change = rule(old, reward, log_weights.new_tensor(settings.gating_kl_bound))
        new = change.followed(old, reward)
        record["gating_kl"] = float((new.exp() * (new - old)).sum(-1).mean())
        log_weights, updated = updated.reweighted(log_weights, rewards, change)
    return updated.model(log_weights), record, rewards[:, 0]


def _ratio(
    settings: StepSettings,
    with_gradient: bool,
    target: TargetDensity,
    prepared: PreparedMixture,
    components: Components,
    generator: torch.Generator,
) -> LogRatio:
    """phi = log p/T - log q at new samples of all components."""
    n_dims, n_samples = components.n_dims, settings.n_expert_samples
    counts = torch.full((components.n_components,), n_samples, device=prepared.model.device)
    rows, component = components.sample(counts, generator)
    sample, context = rows[:, :n_dims].contiguous(), rows[:, n_dims:].contiguous()
    gradient = None
    if with_gradient:
        log_target, gradient = target.log_prob_and_gradient(context, sample)
        gradient = gradient / settings.temperature - prepared.score(context, sample, component)
    else:
        log_target = target.log_prob(context, sample)
    finite = torch.isfinite(log_target)
    if gradient is not None:
        finite = finite & torch.isfinite(gradient).all(-1)
        gradient = torch.where(finite.unsqueeze(-1), gradient, 0.0)
    value = with_floor(log_target) / settings.temperature - prepared.log_prob(context, sample, component)
    return LogRatio(rows, value, gradient, finite, OwnWeights(counts, len(rows), rows))
