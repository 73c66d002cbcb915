"""Contexts at which an expert is updated: those of the data, by how much the expert answers for them."""

from __future__ import annotations

import torch
from torch import Tensor

from eim_ros.distributions import MixtureOfExperts, SoftmaxGating

__all__ = ["draw_contexts"]

CHUNK_ELEMENTS = 262_144  # probabilities of the gating at a time: they stay in cache
LEAST_LOG_WEIGHT = -300.0  # of a context, relative to an expert's best one; where exp underflows it is slow


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
    level = torch.rand(shape, generator=generator, dtype=context.dtype, device=context.device)
    log_gate = _ByComponent(model, context)
    step = max(1, CHUNK_ELEMENTS // len(context))
    index = []
    for start in range(0, model.n_components, step):
        weights = log_gate(slice(start, start + step))
        cumulative = weights.sub_(weights.amax(-1, keepdim=True)).clamp_min_(LEAST_LOG_WEIGHT).exp_().cumsum_(-1)
        share = level[start : start + step] * cumulative[:, -1:]
        index.append(torch.searchsorted(cumulative, share, right=True))
    return context[torch.cat(index).clamp_max(len(context) - 1)]


class _ByComponent:
    """log q(z_i|y) of some components at all contexts, up to a constant of the component, (n_some, n_contexts).

    Of a softmax gating only the log normaliser of each context is kept, of another one all probabilities.
    """

    def __init__(self, model: MixtureOfExperts, context: Tensor) -> None:
        gating = model.gating
        step = max(1, CHUNK_ELEMENTS // model.n_components)
        if isinstance(gating, SoftmaxGating):
            logits = (torch.addmm(gating.biases, rows, gating.weights.T) for rows in context.split(step))
            self._normaliser = torch.cat([torch.logsumexp(part, -1) for part in logits])
        else:
            self._all = gating(context).T.contiguous()
        self._gating, self._context = gating, context.T.contiguous()

    def __call__(self, some: slice) -> Tensor:
        if isinstance(self._gating, SoftmaxGating):
            return torch.mm(self._gating.weights[some], self._context).sub_(self._normaliser)
        return self._all[some]
