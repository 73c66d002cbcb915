"""A normal density bent along a parabola: x_1 ~ N(0, s^2), x_2 ~ N(-b (x_1^2 - s^2), 1), others standard normal.

The map from the normal density has determinant 1, so the density is normalised (Haario, Saksman and Tamminen 1999).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.errors import DistributionError
from eim_ros.targets.start import MixtureStart
from eim_ros.targets.target import checked_samples

__all__ = ["Banana"]

LOG_TWO_PI = math.log(2.0 * math.pi)


@dataclass(frozen=True)
class Banana:
    """A thin, bent density.

    Attributes
    ----------
    n_dims : int
        At least 2.
    curvature : float
        b.
    length : float
        s.
    """

    n_dims: int = 2
    curvature: float = 0.1
    length: float = 10.0

    def __post_init__(self) -> None:
        if self.n_dims < 2 or not self.length > 0.0:
            raise DistributionError("a banana needs at least 2 dimensions and a length above 0", self.n_dims)

    @property
    def start(self) -> MixtureStart:
        return MixtureStart.isotropic(self.n_dims, 1, self.length, self.length**2)

    @property
    def log_normaliser(self) -> float:
        """0: the density is normalised."""
        return 0.0

    def log_prob(self, x: Tensor) -> Tensor:
        """Log density [nat], (n_samples,)."""
        straight = self._straightened(checked_samples(x, self.n_dims))
        squares = straight.square().sum(-1) + (1.0 / self.length**2 - 1.0) * straight[:, 0].square()
        return -0.5 * (squares + self.n_dims * LOG_TWO_PI) - math.log(self.length)

    def score(self, x: Tensor) -> Tensor:
        """Gradient of the log density, (n_samples, n_dims)."""
        score = -self._straightened(checked_samples(x, self.n_dims))
        score[:, 0] = score[:, 0] / self.length**2 + score[:, 1] * 2.0 * self.curvature * x[:, 0]
        return score

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Independent samples (n, n_dims)."""
        sample = torch.randn(n, self.n_dims, generator=generator, dtype=torch.float64)
        sample[:, 0] *= self.length
        sample[:, 1] -= self._bend(sample[:, 0])
        return sample

    def _bend(self, first: Tensor) -> Tensor:
        return self.curvature * (first.square() - self.length**2)

    def _straightened(self, x: Tensor) -> Tensor:
        """The normal variable, its first coordinate not yet divided by the length; (n_samples, n_dims)."""
        return torch.cat([x[:, :1], (x[:, 1] + self._bend(x[:, 0])).unsqueeze(-1), x[:, 2:]], -1)
