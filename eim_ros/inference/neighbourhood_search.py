"""Partial truncated E-step: K(n) is improved among the neighbours of its members, not among all components.

Each component c keeps a list g_c of near components, itself the first. Candidates of a point are its K(n), the lists of
its members, and a few random components; the C' with the greatest joints under the present parameters become the new
K(n). Since the old members compete too, the free energy never falls (truncation.md, Prop. 6). Points are visited by
their most probable component, so that what they share stays in cache, and each list is refreshed from the joints that
its points have needed anyway.

Distance between components: near to c are those whose log joint, averaged over the points of c that have evaluated
them, is the least below that of c.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from eim_ros.distributions.quadratic_form import QuadraticForms
from eim_ros.distributions.quadratic_kernels import improve_states
from eim_ros.distributions.selected_experts import kernel_arguments
from eim_ros.inference.expectation import Expectation

__all__ = ["Search", "nearest_components", "search_neighbourhoods"]

CHUNK_ELEMENTS = 1_048_576  # distances at a time


@dataclass(frozen=True)
class Search:
    """Outcome of a partial E-step.

    Attributes
    ----------
    expectation : Expectation
        With the new K(n).
    neighbours : Tensor (n_components, n_neighbours) of int64
        The new lists g_c.
    n_evaluations : int
        Joints evaluated.
    """

    expectation: Expectation
    neighbours: Tensor
    n_evaluations: int


def search_neighbourhoods(
    forms: QuadraticForms, joint: Tensor, states: Tensor, neighbours: Tensor, random: Tensor
) -> Search:
    """Improve K(n) among neighbours.

    Parameters
    ----------
    forms : QuadraticForms
        Log joints of the present model; on the CPU, as all else.
    joint : Tensor (n_samples, n_dims + n_context)
        [x, y] in standardised coordinates.
    states : Tensor (n_samples, n_states) of int64
        K(n), without duplicates.
    neighbours : Tensor (n_components, n_neighbours) of int64
        Lists g_c, each beginning with c.
    random : Tensor (n_samples, n_random) of int64
        Further candidates.
    """
    following, refreshed = states.numpy().copy(), neighbours.numpy().copy()
    products = np.zeros(forms.coefficients.shape)
    free, n_evaluations = improve_states(
        *kernel_arguments(forms, joint), following, neighbours.numpy(), refreshed, random.numpy(), products
    )
    expectation = Expectation(
        torch.from_numpy(products), math.nan, float(free) / len(joint), torch.from_numpy(following)
    )
    return Search(expectation, torch.from_numpy(refreshed), n_evaluations)


def nearest_components(forms: QuadraticForms, products: Tensor, n_neighbours: int) -> Tensor:
    """Lists g_c from the moments of each component.

    The log joint of c' averaged over the points of c, weighted by their responsibilities, is linear in the moments of
    c: one matrix product tells the distances of all pairs.

    Parameters
    ----------
    forms : QuadraticForms
        Log joints of a model.
    products : Tensor (n_components, n_products)
        Expected sums of its products of coordinates, by a dense E-step.
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
        affinity[torch.arange(len(rows)), torch.arange(start, start + len(rows))] = math.inf
        lists.append(affinity.topk(n_neighbours, -1).indices)
    return torch.cat(lists)


def _narrow_affinity(forms: QuadraticForms, mean: Tensor) -> Tensor:
    """Mean log joints of the narrow components at the mean of the coordinates alone: their spread is negligible."""
    width = forms.linear.shape[-1]
    last = torch.triu_indices(width, width)[1] == width - 1
    extended = mean[:, last]
    residual = (extended @ forms.residuals.reshape(-1, width).T).reshape(len(mean), *forms.residuals.shape[:2])
    affinity: Tensor = extended @ forms.linear.T - 0.5 * residual.square().sum(-1)
    return affinity
