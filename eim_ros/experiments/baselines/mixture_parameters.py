"""A Gaussian mixture whose parameters are moved by gradients: logits, means and factors with positive diagonals."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from eim_ros.distributions import GaussianMixture

__all__ = ["MixtureParameters"]


class MixtureParameters(nn.Module):
    """Parameters in float32, unconstrained.

    Parameters
    ----------
    start : GaussianMixture
        Of no batch.
    """

    def __init__(self, start: GaussianMixture) -> None:
        super().__init__()
        factors = start.scale_trils.to(torch.float32)
        diagonal = torch.diagonal(factors, dim1=-2, dim2=-1)
        self.logits = nn.Parameter(start.log_weights.to(torch.float32))
        self.means = nn.Parameter(start.means.to(torch.float32))
        self.below = nn.Parameter(factors.tril(-1))
        self.log_diagonal = nn.Parameter(diagonal.log())

    @property
    def n_components(self) -> int:
        return len(self.logits)

    def scale_trils(self) -> Tensor:
        """Cholesky factors (n_components, n_dims, n_dims)."""
        return self.below.tril(-1) + torch.diag_embed(self.log_diagonal.exp())

    def differentiable(self) -> GaussianMixture:
        """The mixture, through which gradients flow."""
        return GaussianMixture(self.logits, self.means, self.scale_trils())

    def draw(self, n_samples: int, generator: torch.Generator) -> Tensor:
        """Samples of every component, (n_samples, n_components, n_dims), through which gradients flow.

        Those in one row come of the same noise: whoever takes one of each row has independent samples, and all of them
        are one matrix product.
        """
        k, d = self.means.shape
        noise = torch.randn(n_samples, d, generator=generator)
        return self.means + (noise @ self.scale_trils().reshape(k * d, d).T).reshape(n_samples, k, d)

    def finite(self) -> bool:
        """Whether all parameters are, and the factors they stand for are not singular."""
        diagonal = self.log_diagonal.detach().exp()
        sums = torch.stack([value.detach().sum() for value in self.parameters()] + [diagonal.sum()])
        return bool(torch.isfinite(sums).all() and (diagonal > 0.0).all())

    def mixture(self) -> GaussianMixture:
        """A copy of the present mixture in float64."""
        with torch.no_grad():
            return self.differentiable().to(dtype=torch.float64)
