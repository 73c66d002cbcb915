"""Start of EIM among the components of the reference density.

EM's fit averages over what its components cannot represent, and is the best start where they can represent all. Where
they cannot, the reference density has more components than the model, and a few of them, left as they are, are a
better one: each lies on a mode already. Which start is the better one is decided by what EIM minimises,
KL(model || reference).
"""

from __future__ import annotations

import torch
from torch import Tensor

from eim_ros.distributions import LinearExperts, MixtureOfExperts, SoftmaxGating

__all__ = ["closest_start"]

N_SUBSETS = 30
N_SAMPLES = 500
LEAST_SHARE = 1e-12  # by which every component may be drawn


def closest_start(
    fitted: MixtureOfExperts, reference: MixtureOfExperts, context: Tensor, generator: torch.Generator
) -> MixtureOfExperts:
    """EM's fit, or the closest to the reference among random subsets of its components if one of them is closer.

    Parameters
    ----------
    fitted : MixtureOfExperts
        Fit by EM; it decides the number of components.
    reference : MixtureOfExperts
        Density of the data; only one with more components of the linear kind leaves a choice.
    context : Tensor (n_samples, n_context)
        Contexts of the data.
    generator : torch.Generator
    """
    linear = isinstance(reference.gating, SoftmaxGating) and isinstance(reference.experts, LinearExperts)
    if not linear or reference.n_components <= fitted.n_components:
        return fitted
    rows = torch.randint(len(context), (N_SAMPLES,), generator=generator, device=context.device)
    chosen = context[rows]
    share = reference.gating(chosen).exp().mean(0) + LEAST_SHARE
    size = fitted.n_components
    subsets = [share.topk(size).indices]
    subsets += [torch.multinomial(share, size, generator=generator) for _ in range(N_SUBSETS)]
    candidates = [fitted, *(_subset(reference, subset) for subset in subsets)]

    def divergence(model: MixtureOfExperts) -> float:
        sample = model.sample(chosen, generator)
        return float((model.log_prob(chosen, sample) - reference.log_prob(chosen, sample)).mean())

    return min(candidates, key=divergence)


def _subset(model: MixtureOfExperts, index: Tensor) -> MixtureOfExperts:
    gating = model.gating
    assert isinstance(gating, SoftmaxGating)
    return MixtureOfExperts(SoftmaxGating(gating.weights[index], gating.biases[index]), model.experts.take(index))
