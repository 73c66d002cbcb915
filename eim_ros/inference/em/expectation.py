"""E-step of EM over all components, fused with the sums that its M-step needs.

Rows of the data are taken in chunks: the log joints of a chunk are one matrix product, its responsibilities are added
up to the expected moments sum_n q_n(z) e_n e_n' by another one, and are forgotten. Memory does not grow with the number
of points times components. Truncated and hard responsibilities (truncation to one component) differ only in a step
between the two products.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.distributions.mixture_of_experts import MixtureOfExperts
from eim_ros.distributions.quadratic_form import QuadraticForms, products_of_coordinates, symmetric_from_products

__all__ = ["Expectation", "expect"]

CHUNK_ELEMENTS = 262_144  # responsibilities at a time: they stay in cache
LEAST_LOG_RESPONSIBILITY = -300.0  # far below rounding; where exp underflows it is several times slower


@dataclass(frozen=True)
class Expectation:
    """What an E-step hands to the M-step.

    Attributes
    ----------
    products : Tensor (n_components, n_products)
        Expected sums of the products of the coordinates [x, y, 1].
    log_likelihood : float
        Mean over the points of log sum_z q(x, z|y) + A(y), A being the log normaliser of the gating [nat]; NaN where
        it was not computed.
    free_energy : float
        The same with the sum over the states K(n) only: Luecke 2016, eq. 18; equal to the log-likelihood without
        truncation.
    states : Tensor (n_samples, n_states) of int64
        K(n), the most probable component first; without columns if nothing was truncated.
    """

    products: Tensor
    log_likelihood: float
    free_energy: float
    states: Tensor

    @property
    def moments(self) -> Tensor:
        """Expected sums of e e' for e = [x, y, 1], (n_components, n_dims + n_context + 1, ...)."""
        width = int((2 * self.products.shape[-1]) ** 0.5)
        return symmetric_from_products(self.products, width)


def expect(
    model: MixtureOfExperts, joint: Tensor, n_states: int | None = None, *, log_likelihood: bool = True
) -> Expectation:
    """E-step with all components, or with the most probable ones of each point.

    Parameters
    ----------
    model : MixtureOfExperts
        Linear, in standardised coordinates.
    joint : Tensor (n_samples, n_dims + n_context)
        [x, y] in the same coordinates.
    n_states : int, optional
        C', size of K(n): the responsibilities of all other components are zero (truncated EM by full search; 1 is hard
        EM). All components count if missing, or if there are no more.
    log_likelihood : bool
        Whether to compute the log-likelihood of a truncated E-step, too, which costs another pass.
    """
    forms = QuadraticForms.from_model(model)
    n_kept = 0 if n_states is None or n_states >= model.n_components else n_states
    sums = torch.zeros_like(forms.coefficients)
    transposed = torch.zeros_like(forms.coefficients.T, memory_format=torch.contiguous_format)  # the faster product
    states = torch.empty(len(joint), n_kept, dtype=torch.int64, device=joint.device)
    step = max(1, CHUNK_ELEMENTS // model.n_components)
    buffer = joint.new_empty(min(step, len(joint)), model.n_components)
    total, free = joint.new_zeros(()), joint.new_zeros(())
    for start in range(0, len(joint), step):
        rows = joint[start : start + step]
        products = products_of_coordinates(rows)
        values = forms(rows, products, buffer[: len(rows)])
        if n_kept:
            kept, chosen = values.topk(n_kept, -1)
            states[start : start + step] = chosen
            free += torch.logsumexp(kept, -1).sum()
            _add_selected(sums, products, chosen, torch.softmax(kept, -1))
            if not log_likelihood:
                continue
        largest = values.amax(-1, keepdim=True)
        weights = values.sub_(largest).clamp_min_(LEAST_LOG_RESPONSIBILITY).exp_()
        normaliser = weights.sum(-1, keepdim=True)
        total += (largest + normaliser.log()).sum()
        if not n_kept:
            transposed.addmm_((products / normaliser).T, weights)
    mean = float(total) / len(joint) if log_likelihood or not n_kept else math.nan
    return Expectation(sums.add_(transposed.T), mean, float(free) / len(joint) if n_kept else mean, states)


def _add_selected(sums: Tensor, products: Tensor, states: Tensor, shares: Tensor) -> None:
    """Add products (n, n_products) times shares (n, n_states) to the rows of sums that states names."""
    for column in range(states.shape[1]):
        sums.index_add_(0, states[:, column], products * shares[:, column].unsqueeze(-1))
