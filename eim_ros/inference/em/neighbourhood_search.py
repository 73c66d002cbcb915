"""Partial truncated E-step: K(n) is improved among the neighbours of its members, not among all components.

Each component c keeps a list g_c of near components, itself the first. Candidates of a point are its K(n), the lists of
its members, and a few random components; the C' with the greatest joints under the present parameters become the new
K(n). Since the old members compete too, the free energy never falls (Luecke 2016, Prop. 6). Points are visited by
their most probable component, so that what they share stays in cache, and each list is refreshed from the joints that
its points have needed anyway.

Distance between components: near to c are those whose log joint, averaged over the points of c that have evaluated
them, is the least below that of c.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.distributions.quadratic_form import QuadraticForms
from eim_ros.inference.em.expectation import Expectation

__all__ = ["Search", "search_neighbourhoods"]


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
    arrays = (joint.detach().numpy(), states.numpy(), neighbours.numpy(), random.numpy())
    following, refreshed, products, free, n_evaluations = forms.selected().improve_states(*arrays)
    expectation = Expectation(torch.from_numpy(products), math.nan, free / len(joint), torch.from_numpy(following))
    return Search(expectation, torch.from_numpy(refreshed), n_evaluations)
