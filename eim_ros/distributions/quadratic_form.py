"""Log densities of linear experts as linear functions of the products of coordinates.

With e = [x, y, 1] and R = C^-1 [I, -W, -w] the log density -1/2 e'R'R e + log normaliser is linear in the products
e_a e_b: the densities of all experts at all points are one matrix product, and so are the moments that maximum
likelihood needs. R'R e e' is a sum of large terms that cancel where an expert is narrow or far away, |R|^2 times the
rounding error; for such experts, `narrow`, the residuals R e must be squared instead.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.distributions.gating import SoftmaxGating
from eim_ros.distributions.gaussian import log_normaliser
from eim_ros.distributions.linear_experts import LinearExperts
from eim_ros.distributions.mixture_of_experts import MixtureOfExperts
from eim_ros.distributions.native import SelectedForms
from eim_ros.distributions.standardisation import linear_parts

__all__ = ["QuadraticForms", "products_of_coordinates", "symmetric_from_products"]

LARGEST_FORM = 1e8  # |R|^2 in units of the data: the error of a log density stays below about 1e-7 nat


@dataclass(frozen=True)
class QuadraticForms:
    """Log joints log q(x, z_i|y) + A(y) of all components, A(y) being the gating's log normaliser.

    Attributes
    ----------
    coefficients : Tensor (n_components, n_products)
        Of the products of the coordinates [x, y, 1].
    narrow : Tensor (n_narrow,) of int64
        Components whose coefficients are too large; they are evaluated by their residuals.
    residuals : Tensor (n_narrow, n_dims, n_dims + n_context + 1)
        R of the narrow components.
    linear : Tensor (n_narrow, n_dims + n_context + 1)
        What is to be added to -1/2 |R e|^2, linear in e.
    """

    coefficients: Tensor
    narrow: Tensor
    residuals: Tensor
    linear: Tensor

    @classmethod
    def from_model(cls, model: MixtureOfExperts) -> QuadraticForms:
        """Log joints of a linear model. Data and parameters should be of order one, see `Standardisation`."""
        gating, experts = linear_parts(model)
        return cls.from_experts(experts, gating)

    @classmethod
    def from_experts(cls, experts: LinearExperts, gating: SoftmaxGating | None = None) -> QuadraticForms:
        """Log densities of experts, with the logits of a gating added if one is given."""
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
        """Values (n_samples, n_components) at [x, y] (n_samples, n_dims + n_context) with their products.

        A buffer for them may be given: fresh memory can cost more than the product.
        """
        values = torch.mm(products, self.coefficients.T, out=out)
        if len(self.narrow):
            extended = torch.cat([joint, torch.ones_like(joint[:, :1])], -1)
            n_narrow, n_dims, width = self.residuals.shape
            residual = (extended @ self.residuals.reshape(-1, width).T).reshape(-1, n_narrow, n_dims)
            values[:, self.narrow] = extended @ self.linear.T - 0.5 * residual.square().sum(-1)
        return values

    def take(self, index: Tensor) -> QuadraticForms:
        """Those of some components, by their numbers (n,)."""
        coefficients = self.coefficients[index]
        if not len(self.narrow):
            return QuadraticForms(coefficients, self.narrow, self.residuals, self.linear)
        place = torch.full((len(self.coefficients),), -1, device=index.device)
        place[self.narrow] = torch.arange(len(self.narrow), device=index.device)
        place = place[index]
        narrow = (place >= 0).nonzero().flatten()
        return QuadraticForms(coefficients, narrow, self.residuals[place[narrow]], self.linear[place[narrow]])

    def selected(self) -> SelectedForms:
        """The forms for few components at each point, compiled; on the CPU, in float64."""
        fields = (self.coefficients, self.narrow, self.residuals, self.linear)
        return SelectedForms(*(field.detach().numpy() for field in fields))

    def gradient(self, joint: Tensor, weights: Tensor) -> Tensor:
        """Gradients in the coordinates of the forms, averaged with weights (n_samples, n_components).

        Returns
        -------
        Tensor (n_samples, n_dims + n_context)
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
    """Products e_a e_b, a <= b, of e = [joint, 1], (n_samples, n_products); the last one is 1.

    They are stored by columns, since whole columns are multiplied several times faster than parts of rows.
    """
    extended = torch.cat([joint, torch.ones_like(joint[:, :1])], -1).T.contiguous()
    row, column = _triangle(len(extended), joint.device)
    return (extended[row] * extended[column]).T


def symmetric_from_products(products: Tensor, width: int) -> Tensor:
    """Symmetric matrices (..., width, width) from the products of their rows and columns (..., n_products)."""
    row, column = _triangle(width, products.device)
    matrix = products.new_zeros(*products.shape[:-1], width, width)
    matrix[..., row, column] = products
    matrix[..., column, row] = products
    return matrix


def _triangle(width: int, device: torch.device) -> tuple[Tensor, Tensor]:
    row, column = torch.triu_indices(width, width, device=device)
    return row, column
