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
        """Samples of every component, (n_samples, n_components, n_dims), through which gradients flow."""
        noise = torch.randn(n_samples, *self.means.shape, generator=generator)
        return self.means + torch.einsum("kij,nkj->nki", self.scale_trils(), noise)

    def finite(self) -> bool:
        """Whether all parameters are, and the factors they stand for."""
        return all(bool(torch.isfinite(value).all()) for value in (*self.parameters(), self.scale_trils()))

    def mixture(self) -> GaussianMixture:
        """A copy of the present mixture in float64."""
        with torch.no_grad():
            return self.differentiable().to(dtype=torch.float64)
