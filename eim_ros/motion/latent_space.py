"""Probabilistic principal components: few whitened coordinates for many weights (Tipping and Bishop 1999).

    w = m + V [S z; sigma e],   z ~ a mixture,   e ~ N(0, I)

V are the principal axes of the demonstrated weights, S the standard deviations along the first of them, sigma^2 the
mean variance along the others. The density of w is proper in all directions: a motion that leaves the plane of the
demonstrations is unlikely, however likely its projection is.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.distributions import GaussianMixture, MixtureOfExperts
from eim_ros.distributions.gaussian import LOG_TWO_PI, triangular_factor

__all__ = ["LatentSpace"]


@dataclass(frozen=True, eq=False)
class LatentSpace:
    """Coordinates of the weights.

    Attributes
    ----------
    center : Tensor (n_weights,)
        m.
    axes : Tensor (n_weights, n_weights)
        V, orthonormal columns.
    scales : Tensor (n_weights,)
        S, then sigma for each of the other axes.
    n_latent : int
        Length of z.
    """

    center: Tensor
    axes: Tensor
    scales: Tensor
    n_latent: int

    @classmethod
    def from_weights(cls, weights: Tensor, share: float, most: int, floor: float) -> LatentSpace:
        """Coordinates for weights (n, n_weights).

        Parameters
        ----------
        weights : Tensor (n, n_weights)
        share : float
            Share of the variance that z is to explain.
        most : int
            Largest length of z.
        floor : float
            Least standard deviation along any axis [rad or m].
        """
        center = weights.mean(0)
        triangle = torch.linalg.qr(weights - center, mode="r").R  # of as many rows as weights at most
        _, singular, rows = torch.linalg.svd(triangle, full_matrices=True)
        variances = weights.new_zeros(weights.shape[1])
        variances[: len(singular)] = singular.square() / len(weights)
        explained = variances.cumsum(0) / variances.sum().clamp_min(torch.finfo(variances.dtype).tiny)
        enough = int((explained < share).sum()) + 1
        n_latent = max(1, min(enough, most, len(variances)))
        rest = variances[n_latent:]
        if len(rest):  # few motions tell little of each axis: shrunk to the mean as if it had been seen n_weights times
            n, n_weights = weights.shape
            rest = (n * rest + n_weights * rest.mean()) / (n + n_weights)
        squares = torch.cat([variances[:n_latent], rest])
        return cls(center, rows.mT.contiguous(), squares.sqrt().clamp_min(floor), n_latent)

    def coordinates(self, weights: Tensor) -> Tensor:
        """[z, e] (n, n_weights) of weights (n, n_weights)."""
        return (weights - self.center) @ self.axes / self.scales

    def log_prob(self, mixture: MixtureOfExperts, context: Tensor, weights: Tensor) -> Tensor:
        """Log density (n,) [nat] of weights (n, n_weights), z being distributed as the mixture given contexts."""
        coordinates = self.coordinates(weights)
        latent, rest = coordinates[:, : self.n_latent], coordinates[:, self.n_latent :]
        of_rest = -0.5 * (rest.square().sum(-1) + rest.shape[1] * LOG_TWO_PI)
        return mixture.log_prob(context, latent) + of_rest - self.scales.log().sum()

    def lifted(self, mixture: GaussianMixture) -> GaussianMixture:
        """The mixture of the weights, where z has the given one (no batch)."""
        n, n_weights = self.n_latent, len(self.center)
        scaled = self.axes * self.scales
        rows = scaled.expand(mixture.n_components, n_weights, n_weights).clone()
        rows[:, :, :n] = scaled[:, :n] @ mixture.scale_trils
        means = self.center + mixture.means @ scaled[:, :n].mT
        return GaussianMixture(mixture.log_weights, means, triangular_factor(rows))

    def tensors(self) -> dict[str, Tensor]:
        """Parameters by name."""
        return {"center": self.center, "axes": self.axes, "scales": self.scales}
