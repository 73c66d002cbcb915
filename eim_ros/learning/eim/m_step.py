"""The M-step of EIM, which updates first the gating and then the experts (thesis 4.1, 4.2).

Both updates maximise E_q[phi] - KL(q || q_old) in trust regions. Any object that satisfies `LogRatio` can provide phi =
log p/q_old, either exactly or as an estimate from samples.

Nonlinear experts are fitted to weighted samples by maximum likelihood (thesis 4.2.3, A.4.3):

1. Resample contexts for each expert, draw samples of the old expert at these contexts, and evaluate phi at the samples.
2. Weight the samples within the bounds on the KL and on the loss of entropy (`weigh_samples`).
3. Fit the networks to the weighted samples.
4. Check the bounds for the new parameters, and shorten the step if it violates them (`shorten_step`).

`update_by_gradients` is an M-step that ignores the structure of the model (ablation EIM-US, thesis 6.1). Adam updates
all parameters of the gating and the experts together to maximise

    E_p(y) sum_z q(z|y) E_{x ~ q(x|z,y)}[phi(x, y)] - kl_weight KL(q(x|y) || q_old(x|y)).

Samples x = mu(y) + C e with e ~ N(0, I) are differentiable with respect to the parameters. The sum over z is exact. A
relaxed sample of z (Gumbel-softmax), which adversarial methods need, would only add noise. Without a trust region, only
the number and the size of the steps limit the update.
"""

from __future__ import annotations

import torch
from torch import Tensor

from eim_ros.core.errors import ConfigurationError, DistributionError
from eim_ros.learning.configs import GradientStepsConfig, MStepConfig, NetworkConfig
from eim_ros.learning.models.linear import LinearExperts, SoftmaxGating
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts, draw_contexts
from eim_ros.learning.models.neural import NeuralExperts
from eim_ros.learning.projections.categorical import project_categorical
from eim_ros.learning.projections.gating import project_gating
from eim_ros.learning.projections.gaussian import fit_to_gradients, fit_to_values, project_experts, restrict_covariances
from eim_ros.learning.projections.neural import fit_neural_experts, shorten_step, weigh_samples
from eim_ros.learning.ratio.density_ratio import LogRatio

NETWORKS = NetworkConfig()  # default settings
# Share of the uniform distribution in the choice of experts whose rewards are evaluated. Without it, experts with small
# weights would never be chosen.
UNIFORM_SHARE = 0.1
# Maximum number of L-BFGS iterations for a linear gating if rewards are sampled. More iterations would fit the noise of
# the rewards.
SAMPLED_ITERATIONS = 30
FACTORS = "experts.scale_trils"  # name of the tensor of Cholesky factors
CONSTANTS = ("center", "scale")  # endings of the names of tensors that are not trained
LEAST_SHARE = 1e-30  # avoids 0/0 at contexts for which no expert is drawn


def update_nonlinear_experts(
    # The first six arguments are as in `update_gating`. The experts of the model must be neural.
    config: MStepConfig,
    model: MixtureOfExperts,
    ratio: LogRatio,  # its gradients are not used
    context: Tensor,
    generator: torch.Generator,
    kl_weight: float = 1.0,
    networks: NetworkConfig = NETWORKS,  # settings of the fits
) -> tuple[MixtureOfExperts, dict[str, float]]:
    """Update all neural experts within their trust regions. `DistributionError` is raised for other kinds of experts.

    The result is the model with new experts and the old gating, and a record. An expert without a feasible update is
    unchanged. The record contains `expert_kl`, the mean KL of the new experts to the old ones [nat], and `updated`, the
    share of updated experts. It also contains `step_fraction`, the mean share of the fitted steps that the bounds
    allow.
    """
    experts = model.experts
    if not isinstance(experts, NeuralExperts):
        raise DistributionError(
            f"EIM cannot update experts of the class {type(experts).__name__}; use LinearExperts or NeuralExperts",
            type(experts).__name__,
        )
    # Without contexts, all samples of an expert belong to a single context and are weighted together.
    n_contexts = config.n_contexts if model.n_context > 0 else 1
    n_samples = config.n_contexts * config.n_context_samples // n_contexts
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
    fitted = fit_neural_experts(experts, local, sample, weights, networks.fit_settings)
    step = shorten_step(experts, fitted, local, config.kl_bound, config.entropy_loss_bound)
    record = {
        "expert_kl": float(step.kl.mean()),
        "updated": float((weighted.feasible & (step.fraction > 0.0)).double().mean()),
        "step_fraction": float(step.fraction.mean()),
    }
    return MixtureOfExperts(model.gating, step.experts), record


def balanced_noise(context: Tensor, n_samples: int, n_dims: int, generator: torch.Generator) -> Tensor:
    """Draw noise (n_components, n_contexts, n_samples, n_dims) with mean 0 and covariance I at every context.

    The noise consists of pairs with opposite signs. The noise is whitened by its empirical covariance. Equally weighted
    samples then have exactly the mean and covariance of their expert, so a constant ratio does not change the expert.
    The number of samples per context is rounded up to an even number, and to at least 2 (n_dims + 1). `context` has the
    shape (n_components, n_contexts, n_context).
    """
    n_pairs = max(-(-n_samples // 2), n_dims + 1)
    shape = (*context.shape[:2], n_pairs, n_dims)
    half = torch.randn(shape, generator=generator, dtype=context.dtype, device=context.device)
    factor = torch.linalg.cholesky(half.mT @ half / n_pairs)
    half = torch.linalg.solve_triangular(factor, half.mT, upper=False).mT
    return torch.cat([half, -half], 2)


def update_gating(
    config: MStepConfig,
    model: MixtureOfExperts,  # the old model
    ratio: LogRatio,
    context: Tensor,  # (n_samples, n_context), contexts of the data
    generator: torch.Generator,
    kl_weight: float = 1.0,  # weight of KL(q || q_old) in the objective; 0 for the ablation EIM-KL (thesis 6.1)
) -> tuple[MixtureOfExperts, dict[str, float], Tensor]:
    """Update the gating in a trust region, given the rewards of the experts (thesis 4.1.1, 4.2.1).

    The result is the model with a new gating and the old experts, a record, and the mean reward of each expert over its
    contexts p(y|z) [nat], (n_components,). The record contains `gating_kl`, the mean KL of the update [nat]. The record
    is empty if the model has a single expert.
    """
    if model.n_components == 1:
        return model, {}, context.new_zeros(1)
    chosen = _subset(context, config.gating.n_contexts, generator)
    suits_samples = config.gating.update == "direct" and config.gating.gradient != "natural"
    sampled = suits_samples and 0 < config.gating.n_experts < model.n_components
    reward = (_sampled_rewards if sampled else _rewards)(config, model, ratio, chosen, generator)
    mean_reward = (torch.softmax(model.gating(chosen), 0) * reward).sum(0)
    bounds = (config.gating.kl_bound, config.gating.entropy_loss_bound)
    if model.n_context == 0:  # all contexts are equal, so the update has a closed form
        shared = project_categorical(
            model.gating(chosen[:1]), reward.mean(0, keepdim=True), *bounds, kl_weight=kl_weight
        )
        gating = SoftmaxGating(chosen.new_zeros(model.n_components, 0), shared.log_probs[0])
        return MixtureOfExperts(gating, model.experts), {"gating_kl": shared.kl}, mean_reward
    update = project_gating(
        model.gating,
        chosen,
        reward,
        *bounds,
        kl_weight=kl_weight,
        update="refit" if config.gating.update == "refit" else config.gating.gradient,
        max_iterations=SAMPLED_ITERATIONS if sampled and isinstance(model.gating, SoftmaxGating) else None,
    )
    return MixtureOfExperts(update.gating, model.experts), {"gating_kl": update.kl}, mean_reward


def update_experts(
    # the first six arguments are as in `update_gating`
    config: MStepConfig,
    model: MixtureOfExperts,
    ratio: LogRatio,
    context: Tensor,
    generator: torch.Generator,
    kl_weight: float = 1.0,
    networks: NetworkConfig = NETWORKS,  # settings of the fits if the experts are nonlinear
) -> tuple[MixtureOfExperts, dict[str, float]]:
    """Update every expert by a trust-region I-projection onto a quadratic surrogate of phi (thesis 4.1.2, 4.2.2).

    The covariances of linear experts must have the kind that the settings require; see `with_covariances`. By default,
    the surrogate is fitted to gradients of phi. The surrogate is fitted to values of phi if the settings select values,
    or if the gradient is not finite at a sample of the expert. Nonlinear experts are updated by
    `update_nonlinear_experts`.

    The result is the model with new experts and the old gating, and a record. An expert without a feasible update is
    unchanged. The record contains `expert_kl`, the mean KL of the updates [nat], and `updated`, the share of updated
    experts.
    """
    experts = model.experts
    if not isinstance(experts, LinearExperts):
        return update_nonlinear_experts(config, model, ratio, context, generator, kl_weight, networks)
    local, weight = _contexts(config, model, context, generator)
    shape = (model.n_components, config.n_samples, model.n_dims)
    residual = torch.randn(shape, generator=generator, dtype=local.dtype, device=local.device)
    mean = local @ experts.weights.mT + experts.biases.unsqueeze(1)
    sample = (mean + residual @ experts.scale_trils.mT).reshape(-1, model.n_dims)
    flat = local.flatten(0, 1)
    component = torch.arange(model.n_components, device=flat.device).repeat_interleave(config.n_samples)
    if config.surrogate == "gradient":
        gradient = ratio.gradient(flat, sample, component).reshape(shape)
        surrogate = fit_to_gradients(residual, local, gradient @ experts.scale_trils, weight)
        lacking = ~torch.isfinite(gradient).all(-1).all(-1)  # there is no gradient outside the support of the target
    else:
        surrogate, lacking = None, torch.ones(model.n_components, dtype=torch.bool, device=flat.device)
    if bool(lacking.any()):
        mine = lacking.repeat_interleave(config.n_samples)
        value = ratio.log_ratio(flat[mine], sample[mine], component[mine]).reshape(-1, config.n_samples)
        by_values = fit_to_values(residual[lacking], local[lacking], value, None if weight is None else weight[lacking])
        surrogate = by_values if surrogate is None else surrogate.replaced(lacking, by_values)
    assert surrogate is not None
    update = project_experts(
        experts,
        surrogate,
        config.kl_bound,
        config.entropy_loss_bound,
        kl_weight=kl_weight,
        covariance=config.covariance,
        weights=mean_weights(model, context) if config.covariance == "tied" else None,
    )
    solution = update.multipliers
    record = {
        "expert_kl": float(torch.where(solution.feasible, solution.kl, torch.zeros_like(solution.kl)).mean()),
        "updated": float(solution.feasible.double().mean()),
    }
    return MixtureOfExperts(model.gating, update.experts), record


def _contexts(
    config: MStepConfig, model: MixtureOfExperts, context: Tensor, generator: torch.Generator
) -> tuple[Tensor, Tensor | None]:
    """Return contexts for each expert, (n_components, n_samples, n_context), and their weights.

    Contexts that are drawn from p(y) have the weights q(z|y)/q(z) (thesis 4.3.2). Otherwise, the weights are None,
    which means that they are equal.
    """
    if config.contexts == "resampled" or model.n_context == 0:
        return draw_contexts(model, context, config.n_samples, generator), None
    shape = (model.n_components * config.n_samples,)
    rows = torch.randint(len(context), shape, generator=generator, device=context.device)
    chosen = context[rows].reshape(model.n_components, config.n_samples, model.n_context)
    log_weight = torch.stack([model.gating(own)[:, z] for z, own in enumerate(chosen)])
    return chosen, (log_weight - log_weight.amax(-1, keepdim=True)).exp()


def mean_weights(model: MixtureOfExperts, context: Tensor) -> Tensor:
    """Return the mean probability of each component over the contexts, (n_components,)."""
    return model.gating(context).exp().mean(0)


def with_covariances(model: MixtureOfExperts, covariance: str, context: Tensor) -> MixtureOfExperts:
    """Return a model whose linear experts have "full", "diagonal" or "tied" covariances.

    `ConfigurationError` is raised if the experts are not linear and `covariance` is not "full".
    """
    if covariance == "full":
        return model
    if not isinstance(model.experts, LinearExperts):
        raise ConfigurationError(
            f"{covariance} covariances need linear experts; set m_step.covariance to full, or expert_kind to linear",
            covariance,
        )
    return MixtureOfExperts(model.gating, restrict_covariances(model.experts, covariance, mean_weights(model, context)))


def _rewards(
    config: MStepConfig,
    model: MixtureOfExperts,
    ratio: LogRatio,
    context: Tensor,
    generator: torch.Generator,
    pairs: Tensor | None = None,
) -> Tensor:
    """Return the rewards phi(y, z), averaged over samples of each expert, (n_contexts, n_components).

    If a mask `pairs` of the same shape is given, only its true entries are evaluated, and the other rewards are zero.
    """
    experts = model.experts(context)
    total = experts.mean.new_zeros(experts.mean.shape[:2])
    row, component = (torch.ones_like(total) if pairs is None else pairs).nonzero(as_tuple=True)
    for _ in range(config.gating.n_samples):
        sample = experts.sample(generator=generator)[row, component]
        total[row, component] += ratio.log_ratio(context[row], sample, component)
    return total / config.gating.n_samples


def _sampled_rewards(
    config: MStepConfig, model: MixtureOfExperts, ratio: LogRatio, context: Tensor, generator: torch.Generator
) -> Tensor:
    """Estimate phi(y, z) from a random part of the pairs (y, z), (n_contexts, n_components).

    A pair is evaluated with a probability proportional to a mixture of q(z|y) and a uniform distribution. The deviation
    of its reward from the mean reward of the context is divided by this probability. Pairs that are not evaluated get
    the mean reward. The objective of the gating is linear in the rewards, so this estimate of it has hardly any bias,
    even if some experts are very bad. Do not use the estimate for a refit, because a refit is not linear in the
    rewards. Do not use it for natural gradients either. Natural gradients depend on the rewards of experts with small
    weights, which are rarely drawn.
    """
    probability = model.gating(context).exp()
    mixed = (1.0 - UNIFORM_SHARE) * probability + UNIFORM_SHARE / model.n_components
    chance = (config.gating.n_experts * mixed).clamp_max(1.0)
    drawn = torch.rand(chance.shape, generator=generator, dtype=chance.dtype, device=chance.device) < chance
    reward = _rewards(config, model, ratio, context, generator, drawn)
    weight = drawn / chance
    share = weight * probability
    mean = (share * reward).sum(-1, keepdim=True) / share.sum(-1, keepdim=True).clamp_min(LEAST_SHARE)
    return mean + weight * (reward - mean)


def _subset(context: Tensor, n_samples: int, generator: torch.Generator) -> Tensor:
    if context.shape[1] == 0:
        return context.new_zeros(n_samples, 0)
    order = torch.randperm(len(context), generator=generator, device=context.device)
    return context[order[:n_samples]]


def update_by_gradients(
    config: GradientStepsConfig,
    model: MixtureOfExperts,  # the old model, with any kind of gating and experts
    ratio: LogRatio,  # its values and its gradients are used
    context: Tensor,  # (n_samples, n_context), contexts of the data
    generator: torch.Generator,
    kl_weight: float = 1.0,  # weight of KL(q || q_old) in the objective; 0 for the ablation EIM-US-KL
) -> tuple[MixtureOfExperts, dict[str, float]]:
    """Update all parameters of a model by stochastic gradients.

    The result is the model after the last step with a finite objective, or the old model if there is no such step. The
    record contains `updated`, which is 1 or 0, and `gain`, the estimate of the objective at the last step [nat].
    """
    raw = {name: _unconstrained(name, value) for name, value in model.tensors().items()}
    leaves = {name: value.clone() for name, value in raw.items() if name.rpartition(".")[2] not in CONSTANTS}
    for leaf in leaves.values():
        leaf.requires_grad_(True)
    optimiser = torch.optim.Adam(leaves.values(), lr=config.step_size)
    gain, good = float("nan"), _copied(leaves)
    for _ in range(config.n_steps):
        rows = torch.randint(len(context), (config.n_contexts,), generator=generator, device=context.device)
        optimiser.zero_grad()
        try:
            with torch.enable_grad():
                objective = _objective(
                    _built(model, {**raw, **leaves}), model, ratio, context[rows], generator, kl_weight
                )
        except DistributionError:  # the last step made the parameters invalid; undo it
            break
        if not bool(torch.isfinite(objective.detach())):
            break
        gain, good = float(objective.detach()), _copied(leaves)
        (-objective).backward()
        if not all(leaf.grad is None or bool(torch.isfinite(leaf.grad).all()) for leaf in leaves.values()):
            break
        optimiser.step()
    else:
        good = _copied(leaves)
    if gain != gain:
        return model, {"updated": 0.0}
    try:
        return _built(model, {**raw, **good}), {"updated": 1.0, "gain": gain}
    except DistributionError:
        return model, {"updated": 0.0}


def _copied(leaves: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: leaf.detach().clone() for name, leaf in leaves.items()}


def _objective(
    model: MixtureOfExperts,
    old: MixtureOfExperts,
    ratio: LogRatio,
    context: Tensor,
    generator: torch.Generator,
    kl_weight: float,
) -> Tensor:
    experts = model.experts(context)
    noise = torch.randn(experts.mean.shape, generator=generator, dtype=context.dtype, device=context.device)
    sample = (experts.mean + (experts.scale_tril @ noise.unsqueeze(-1)).squeeze(-1)).flatten(0, 1)
    repeated = context.repeat_interleave(model.n_components, 0)
    with torch.no_grad():
        value = ratio.log_ratio(repeated, sample)
        slope = ratio.gradient(repeated, sample)
    # This reward equals phi, and its gradient is the gradient of the ratio.
    reward = value + (slope * (sample - sample.detach())).sum(-1)
    if kl_weight > 0.0:
        reward = reward - kl_weight * (model.log_prob(repeated, sample) - old.log_prob(repeated, sample))
    probabilities = model.gating(context).exp()
    return (probabilities * reward.reshape(probabilities.shape)).sum(-1).mean()


def _unconstrained(name: str, value: Tensor) -> Tensor:
    """Return a Cholesky factor with the logarithm of its diagonal, and any other tensor unchanged."""
    if name != FACTORS:
        return value.detach()
    diagonal = torch.diagonal(value, dim1=-2, dim2=-1)
    return (value.tril(-1) + torch.diag_embed(diagonal.log())).detach()


def _constrained(name: str, value: Tensor) -> Tensor:
    if name != FACTORS:
        return value
    return value.tril(-1) + torch.diag_embed(torch.diagonal(value, dim1=-2, dim2=-1).exp())


def _built(model: MixtureOfExperts, raw: dict[str, Tensor]) -> MixtureOfExperts:
    return model.with_tensors({name: _constrained(name, value) for name, value in raw.items()})
