"""M-step by reparameterised gradients, which ignores the structure of the model (ablation EIM-US, thesis 6.1).

Adam updates all parameters of the gating and the experts together to maximise

    E_p(y) sum_z q(z|y) E_{x ~ q(x|z,y)}[phi(x, y)] - kl_weight KL(q(x|y) || q_old(x|y)).

The samples are x = mu(y) + C e with e ~ N(0, I), so gradients flow through them. The sum over z is exact. A relaxed
sample of z (Gumbel-softmax), which adversarial methods need, would only add noise. There is no trust region. Only the
number and the size of the steps bound the update.
"""

from __future__ import annotations

import torch
from torch import Tensor

from eim_ros.core.errors import DistributionError
from eim_ros.learning.configs import GradientStepsConfig
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts
from eim_ros.learning.ratio.density_ratio import LogRatio

FACTORS = "experts.scale_trils"
CONSTANTS = ("center", "scale")  # last parts of the names of tensors that are not trained


def update_by_gradients(
    config: GradientStepsConfig,
    model: MixtureOfExperts,  # the old model, with any kind of gating and experts
    ratio: LogRatio,  # its values and its gradients are used
    context: Tensor,  # (n_samples, n_context), contexts of the data
    generator: torch.Generator,
    kl_weight: float = 1.0,  # weight of KL(q || q_old) in the objective; 0 for the ablation EIM-US-KL
) -> tuple[MixtureOfExperts, dict[str, float]]:
    """Update all parameters of a model by stochastic gradients.

    Return the model after the last step with a finite objective, or the old model if there is no such step. The record
    contains `updated`, 1 or 0, and `gain`, the estimate of the objective at the last step [nat].
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
                objective = _objective(_built({**raw, **leaves}), model, ratio, context[rows], generator, kl_weight)
        except DistributionError:  # the last step made the parameters invalid, so it is undone
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
        return _built({**raw, **good}), {"updated": 1.0, "gain": gain}
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
    reward = value + (slope * (sample - sample.detach())).sum(-1)  # value of phi with the gradient of the ratio
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


def _built(raw: dict[str, Tensor]) -> MixtureOfExperts:
    return MixtureOfExperts.from_tensors({name: _constrained(name, value) for name, value in raw.items()})
