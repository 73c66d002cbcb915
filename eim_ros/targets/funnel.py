"""Neal's funnel: x_1 ~ N(0, 9), x_i ~ N(0, exp(x_1)) for i > 1 (Neal 2003), normalised."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.errors import DistributionError
from eim_ros.targets.start import MixtureStart
from eim_ros.targets.target import checked_samples

__all__ = ["Funnel"]

LOG_TWO_PI = math.log(2.0 * math.pi)


@dataclass(frozen=True)
class Funnel:
    """A density whose width varies by orders of magnitude.

    Attributes
    ----------
    n_dims : int
        At least 2; 10 in most comparisons.
    neck_scale : float
        Standard deviation of x_1, the log variance of the others.
    """

    n_dims: int = 10
    neck_scale: float = 3.0

    def __post_init__(self) -> None:
        if self.n_dims < 2 or not self.neck_scale > 0.0:
            raise DistributionError("a funnel needs at least 2 dimensions and a scale above 0", self.n_dims)

    @property
    def start(self) -> MixtureStart:
        return MixtureStart.isotropic(self.n_dims, 1, 1.0, 1.0)

    @property
    def log_normaliser(self) -> float:
        """0: the density is normalised."""
        return 0.0

    def log_prob(self, x: Tensor) -> Tensor:
        """Log density [nat], (n_samples,)."""
        neck, squares = self._parts(checked_samples(x, self.n_dims))
        constant = math.log(self.neck_scale) + 0.5 * self.n_dims * LOG_TWO_PI
        spread = (self.n_dims - 1) * neck + squares * (-neck).exp()
        return -0.5 * ((neck / self.neck_scale).square() + spread) - constant

    def score(self, x: Tensor) -> Tensor:
        """Gradient of the log density, (n_samples, n_dims)."""
        x = checked_samples(x, self.n_dims)
        neck, squares = self._parts(x)
        narrowness = (-neck).exp()
        of_neck = -neck / self.neck_scale**2 + 0.5 * (squares * narrowness - (self.n_dims - 1))
        return torch.cat([of_neck.unsqueeze(-1), -x[:, 1:] * narrowness.unsqueeze(-1)], -1)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Independent samples (n, n_dims)."""
        noise = torch.randn(n, self.n_dims, generator=generator, dtype=torch.float64)
        neck = self.neck_scale * noise[:, :1]
        return torch.cat([neck, noise[:, 1:] * (0.5 * neck).exp()], -1)

    def _parts(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x_1 and the sum of the others' squares."""
        return x[:, 0], x[:, 1:].square().sum(-1)
