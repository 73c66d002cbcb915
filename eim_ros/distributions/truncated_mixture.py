"""Densities of a mixture of experts truncated to few components per sample (Luecke 2016, eq. 18).

log q_K(x|y) = log sum_{z in K} q(z|y) q(x|z, y) is a lower bound of log q(x|y): it lacks the log of the posterior mass
of K. The gating's normaliser is exact, over all components; the experts are evaluated at those of K alone.
"""

from __future__ import annotations

import torch
from torch import Tensor

from eim_ros.distributions.mixture_of_experts import MixtureOfExperts
from eim_ros.distributions.selected_experts import selected_log_prob
from eim_ros.distributions.standardisation import linear_parts

__all__ = ["selected_log_gate", "truncated_log_prob"]

CHUNK_ELEMENTS = 1_048_576  # probabilities of the gating at a time


def truncated_log_prob(model: MixtureOfExperts, context: Tensor, sample: Tensor, states: Tensor) -> Tensor:
    """log q_K(x|y) [nat], (n_samples,), whose mean over data is the free energy of truncated EM (Prop. 3).

    Parameters
    ----------
    model : MixtureOfExperts
        Linear.
    context : Tensor (n_samples, n_context)
    sample : Tensor (n_samples, n_dims)
    states : Tensor (n_samples, n_states) of int64
        K of each sample, without duplicates.
    """
    _, experts = linear_parts(model)
    log_gate = selected_log_gate(model, context, states)
    return torch.logsumexp(log_gate + selected_log_prob(experts, context, sample, states), -1)


def selected_log_gate(model: MixtureOfExperts, context: Tensor, states: Tensor) -> Tensor:
    """log q(z|y) [nat] of selected components, (n_samples, n_states)."""
    rows = max(1, CHUNK_ELEMENTS // model.n_components)
    pairs = zip(context.split(rows), states.split(rows), strict=True)
    return torch.cat([model.gating(part).gather(-1, index) for part, index in pairs])
