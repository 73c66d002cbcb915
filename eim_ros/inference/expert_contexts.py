"""Contexts at which an expert is updated: those of the data, by how much the expert answers for them."""

from __future__ import annotations

import torch
from torch import Tensor

from eim_ros.distributions import MixtureOfExperts

__all__ = ["draw_contexts"]


def draw_contexts(model: MixtureOfExperts, context: Tensor, n_samples: int, generator: torch.Generator) -> Tensor:
    """Contexts of each expert, resampled from p~(y|z_i) = p(y) q(z_i|y)/q(z_i) (thesis 4.3.2).

    Parameters
    ----------
    model : MixtureOfExperts
    context : Tensor (n_contexts, n_context)
        Contexts of the data.
    n_samples : int
        For each expert.
    generator : torch.Generator

    Returns
    -------
    Tensor (n_components, n_samples, n_context)
    """
    shape = (model.n_components, n_samples)
    if model.n_context == 0:
        return context.new_zeros(*shape, 0)
    log_gate = model.gating(context).T.contiguous()
    cumulative = log_gate.sub_(log_gate.amax(-1, keepdim=True)).exp_().cumsum_(-1)
    level = torch.rand(shape, generator=generator, dtype=context.dtype, device=context.device) * cumulative[:, -1:]
    index = torch.searchsorted(cumulative, level, right=True)
    return context[index.clamp_max(len(context) - 1)]
