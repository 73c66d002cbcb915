"""Which components of a linear mixture of experts are near to which: where one has samples, the other has density.

The log joint of c', averaged over the points of c, is linear in the moments of these points (`quadratic_form.py`): one
matrix product tells the distances of all pairs. The points of c are data, weighted by their responsibilities, or the
samples that c itself would draw.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from eim_ros.distributions.mixture_of_experts import MixtureOfExperts
from eim_ros.distributions.quadratic_form import QuadraticForms, products_of_coordinates, symmetric_from_products
from eim_ros.distributions.standardisation import linear_parts

__all__ = ["nearest_components", "products_of_samples"]

CHUNK_ELEMENTS = 262_144  # distances, or probabilities of the gating, at a time
LEAST_LOG_PROBABILITY = -300.0  # far below rounding; where exp underflows it is several times slower


def nearest_components(forms: QuadraticForms, products: Tensor, n_neighbours: int) -> Tensor:
    """The components with the greatest mean log joints at the points of each component.

    Parameters
    ----------
    forms : QuadraticForms
        Log joints of a model.
    products : Tensor (n_components, n_products)
        Sums, or means, of the products of the coordinates over the points of each component.
    n_neighbours : int
        Length of the lists.

    Returns
    -------
    Tensor (n_components, n_neighbours) of int64
        Each row begins with its own component.
    """
    count = products[:, -1:]
    mean = products / torch.where(count > 0.0, count, torch.ones_like(count))
    lists = []
    step = max(1, CHUNK_ELEMENTS // len(products))
    for start in range(0, len(mean), step):
        rows = mean[start : start + step]
        affinity = rows @ forms.coefficients.T
        affinity[:, forms.narrow] = _narrow_affinity(forms, rows)
        own = torch.arange(start, start + len(rows), device=rows.device)
        affinity[own - start, own] = math.inf
        lists.append(affinity.topk(n_neighbours, -1).indices)
    return torch.cat(lists)


def products_of_samples(model: MixtureOfExperts, context: Tensor) -> Tensor:
    """Mean products of the coordinates of each expert's own samples, at the contexts that it answers for.

    Parameters
    ----------
    model : MixtureOfExperts
        Linear.
    context : Tensor (n_contexts, n_context)
        Contexts y of the data; those of expert i are weighted by q(z_i|y).

    Returns
    -------
    Tensor (n_components, n_products)
        Of [x, y, 1], in the order of `products_of_coordinates`.
    """
    _, experts = linear_parts(model)
    n_dims, width = model.n_dims, model.n_dims + model.n_context + 1
    contexts = symmetric_from_products(_products_of_contexts(model, context), model.n_context + 1)
    mean_map = torch.cat([experts.weights, experts.biases.unsqueeze(-1)], -1)
    mixed = mean_map @ contexts
    moments = contexts.new_zeros(model.n_components, width, width)
    moments[:, :n_dims, :n_dims] = mixed @ mean_map.mT + experts.scale_trils @ experts.scale_trils.mT
    moments[:, :n_dims, n_dims:] = mixed
    moments[:, n_dims:, n_dims:] = contexts
    row, column = torch.triu_indices(width, width, device=context.device)
    return moments[:, row, column]


def _products_of_contexts(model: MixtureOfExperts, context: Tensor) -> Tensor:
    """Mean products of [y, 1] over p(y|z_i), (n_components, n_products)."""
    if model.n_context == 0:
        return context.new_ones(model.n_components, 1)
    gating, _ = linear_parts(model)
    total = context.new_zeros(model.n_components, (model.n_context + 1) * (model.n_context + 2) // 2)
    step = max(1, CHUNK_ELEMENTS // model.n_components)
    buffer = context.new_empty(min(step, len(context)), model.n_components)
    for rows in context.split(step):
        logits = torch.addmm(gating.biases, rows, gating.weights.T, out=buffer[: len(rows)])
        weights = logits.sub_(logits.amax(-1, keepdim=True)).clamp_min_(LEAST_LOG_PROBABILITY).exp_()
        total.addmm_(weights.T, products_of_coordinates(rows) / weights.sum(-1, keepdim=True))
    return total / total[:, -1:]


def _narrow_affinity(forms: QuadraticForms, mean: Tensor) -> Tensor:
    """Mean log joints of the narrow components at the mean of the coordinates: their spread is ignored."""
    width = forms.linear.shape[-1]
    last = torch.triu_indices(width, width, device=mean.device)[1] == width - 1
    extended = mean[:, last]
    residual = (extended @ forms.residuals.reshape(-1, width).T).reshape(len(mean), *forms.residuals.shape[:2])
    affinity: Tensor = extended @ forms.linear.T - 0.5 * residual.square().sum(-1)
    return affinity
