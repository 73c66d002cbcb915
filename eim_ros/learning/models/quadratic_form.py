"""Log densities of linear experts as linear functions of the products of coordinates.

With e = [x, y, 1] and R = C^-1 [I, -W, -w], the log density -1/2 e'R'R e + log normaliser is linear in the products e_a
e_b. Therefore, one matrix product gives the densities of all experts at all points. Another product gives the moments
for maximum likelihood. If an expert is narrow or far away, the large terms of R'R e e' cancel, and the error is |R|^2
times the rounding error. Such experts are called `narrow`. Their residuals R e are squared instead.

The same form finds nearby components. A component c' is near c if its density is high at the points of c. These points
are data weighted by responsibilities, or samples of c. The log joint density of c', averaged over these points, is
linear in their moments. Therefore, one matrix product is sufficient for all pairs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.learning.models.gaussian import log_normaliser
from eim_ros.learning.models.linear import LinearExperts, SoftmaxGating
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts
from eim_ros.learning.models.native import SelectedForms
from eim_ros.learning.models.standardisation import linear_parts

LARGEST_FORM = 1e8  # maximum |R|^2 in units of the data; keeps errors of log densities below about 1e-7 nat
CHUNK_ELEMENTS = 262_144  # number of distances, or of gating probabilities, per block
# Smaller probabilities are negligible. At this limit, exp does not underflow yet; underflow would be several times
# slower.
LEAST_LOG_PROBABILITY = -300.0


@dataclass(frozen=True)
class QuadraticForms:
    """Log joint densities log q(x, z_i|y) + A(y) of all components, where A(y) is the log normaliser of the gating."""

    coefficients: Tensor  # (n_components, n_products), coefficients of the products of the coordinates [x, y, 1]
    # (n_narrow,) of int64, components that are evaluated by their residuals, because their coefficients are too large
    narrow: Tensor
    residuals: Tensor  # (n_narrow, n_dims, n_dims + n_context + 1), R of the narrow components
    linear: Tensor  # (n_narrow, n_dims + n_context + 1), term linear in e that is added to -1/2 |R e|^2

    @classmethod
    def from_model(cls, model: MixtureOfExperts) -> QuadraticForms:
        """Return the log joint densities of a linear model.

        Data and parameters should be of order one; see `Standardisation`.
        """
        gating, experts = linear_parts(model)
        return cls.from_experts(experts, gating)

    @classmethod
    def from_experts(cls, experts: LinearExperts, gating: SoftmaxGating | None = None) -> QuadraticForms:
        """Return the log densities of experts, plus the logits of a gating if one is given."""
        n_dims, n_context = experts.n_dims, experts.n_context
        residuals = experts.whitening().reshape(experts.n_components, n_dims, -1)
        linear = residuals.new_zeros(len(residuals), n_dims + n_context + 1)
        linear[:, -1] = log_normaliser(experts.scale_trils)
        if gating is not None:
            linear[:, n_dims:-1] += gating.weights
            linear[:, -1] += gating.biases
        form = -0.5 * (residuals.mT @ residuals)
        row, column = _triangle(form.shape[-1], form.device)
        coefficients = torch.where(row == column, form[:, row, column], 2.0 * form[:, row, column])
        coefficients[:, column == n_dims + n_context] += linear
        narrow = (~(residuals.square().sum((-2, -1)) <= LARGEST_FORM)).nonzero().flatten()
        coefficients[narrow] = 0.0
        return cls(coefficients, narrow, residuals[narrow], linear[narrow])

    def __call__(self, joint: Tensor, products: Tensor, out: Tensor | None = None) -> Tensor:
        """Return the log joint densities, (n_samples, n_components), at points [x, y] with these products.

        The points `joint` have the shape (n_samples, n_dims + n_context). Pass a buffer `out` for the result to save
        time, because the allocation of memory can take longer than the matrix product.
        """
        values = torch.mm(products, self.coefficients.T, out=out)
        if len(self.narrow):
            extended = torch.cat([joint, torch.ones_like(joint[:, :1])], -1)
            n_narrow, n_dims, width = self.residuals.shape
            residual = (extended @ self.residuals.reshape(-1, width).T).reshape(-1, n_narrow, n_dims)
            values[:, self.narrow] = extended @ self.linear.T - 0.5 * residual.square().sum(-1)
        return values

    def take(self, index: Tensor) -> QuadraticForms:
        """Return the forms of a subset of the components, by their indices (n,)."""
        coefficients = self.coefficients[index]
        if not len(self.narrow):
            return QuadraticForms(coefficients, self.narrow, self.residuals, self.linear)
        place = torch.full((len(self.coefficients),), -1, device=index.device)
        place[self.narrow] = torch.arange(len(self.narrow), device=index.device)
        place = place[index]
        narrow = (place >= 0).nonzero().flatten()
        return QuadraticForms(coefficients, narrow, self.residuals[place[narrow]], self.linear[place[narrow]])

    def selected(self) -> SelectedForms:
        """Return compiled forms for a few components per point. The compiled code needs the CPU and float64."""
        fields = (self.coefficients, self.narrow, self.residuals, self.linear)
        return SelectedForms(*(field.detach().numpy() for field in fields))

    def gradient(self, joint: Tensor, weights: Tensor) -> Tensor:
        """Return the gradients of the log joint densities, averaged with weights (n_samples, n_components).

        The gradients with respect to [x, y] have the shape (n_samples, n_dims + n_context).
        """
        extended = torch.cat([joint, torch.ones_like(joint[:, :1])], -1)
        columns = extended.T.contiguous()
        row, column = _triangle(len(columns), joint.device)
        average = self.coefficients.T @ weights.T
        place = torch.eye(len(columns), dtype=joint.dtype, device=joint.device)[:-1]
        gradient = (place[:, row] @ (average * columns[column]) + place[:, column] @ (average * columns[row])).T
        if len(self.narrow):
            width = self.residuals.shape[-1]
            residual = (extended @ self.residuals.reshape(-1, width).T).reshape(len(joint), *self.residuals.shape[:2])
            share = weights[:, self.narrow]
            pull = share.unsqueeze(-1) * residual
            gradient = gradient + share @ self.linear[:, :-1]
            gradient -= pull.flatten(1) @ self.residuals[..., :-1].reshape(-1, width - 1)
        return gradient


def products_of_coordinates(joint: Tensor) -> Tensor:
    """Return the products e_a e_b with a <= b of e = [joint, 1], (n_samples, n_products).

    The last product is 1. The result is stored by columns, because products of complete columns are several times
    faster than products of parts of rows.
    """
    extended = torch.cat([joint, torch.ones_like(joint[:, :1])], -1).T.contiguous()
    row, column = _triangle(len(extended), joint.device)
    return (extended[row] * extended[column]).T


def symmetric_from_products(products: Tensor, width: int) -> Tensor:
    """Return symmetric matrices (..., width, width) from the products of coordinates (..., n_products)."""
    row, column = _triangle(width, products.device)
    matrix = products.new_zeros(*products.shape[:-1], width, width)
    matrix[..., row, column] = products
    matrix[..., column, row] = products
    return matrix


def _triangle(width: int, device: torch.device) -> tuple[Tensor, Tensor]:
    row, column = torch.triu_indices(width, width, device=device)
    return row, column


def nearest_components(forms: QuadraticForms, products: Tensor, n_neighbours: int) -> Tensor:
    """Return the components with the greatest mean log joint density at the points of each component.

    `products` (n_components, n_products) contains sums or means of the products of the coordinates over the points of
    each component. The result (n_components, n_neighbours) of int64 contains one list per component. Each list begins
    with the component itself.
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
    """Return the expected products of [x, y, 1] under each expert, (n_components, n_products).

    The model must be linear. For expert i, the contexts (n_contexts, n_context) of the data are weighted by q(z_i|y).
    The products are in the order of `products_of_coordinates`.
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
    """Return the mean products of [y, 1] over p(y|z_i), (n_components, n_products)."""
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
    """Return the log joint densities of the narrow components at the means of the points."""
    width = forms.linear.shape[-1]
    last = torch.triu_indices(width, width, device=mean.device)[1] == width - 1
    extended = mean[:, last]
    residual = (extended @ forms.residuals.reshape(-1, width).T).reshape(len(mean), *forms.residuals.shape[:2])
    affinity: Tensor = extended @ forms.linear.T - 0.5 * residual.square().sum(-1)
    return affinity
