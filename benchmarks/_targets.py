"""Target densities of the benchmarks: mixtures, and densities that no mixture of few components can represent."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from eim_ros.learning.models import GaussianMixture

__all__ = ["Arm", "Branches", "Curve", "Mixture", "Ring", "Target"]

LOG_TWO_PI = math.log(2.0 * math.pi)


class Target(Protocol):
    """Conditional density. The contexts of an unconditional target have no columns."""

    def sample(self, n_samples: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return contexts (n_samples, n_context) and samples (n_samples, n_dims)."""
        ...

    def log_prob(self, context: Tensor, sample: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Mixture:
    """Gaussian mixture as an unconditional target."""

    mixture: GaussianMixture

    def sample(self, n_samples: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        sample = self.mixture.sample(n_samples, generator)
        return sample.new_zeros(n_samples, 0), sample

    def log_prob(self, context: Tensor, sample: Tensor) -> Tensor:
        return self.mixture.log_prob(sample)


@dataclass(frozen=True)
class Ring:
    """Points in the plane in any direction, at a distance of 1 +- `deviation` from the origin."""

    deviation: float = 0.1

    def sample(self, n_samples: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        angle = 2.0 * math.pi * torch.rand(n_samples, generator=generator, dtype=torch.float64)
        radius = 1.0 + self.deviation * _normal(generator, n_samples)
        sample = radius.unsqueeze(-1) * torch.stack([angle.cos(), angle.sin()], -1)
        return sample.new_zeros(n_samples, 0), sample

    def log_prob(self, context: Tensor, sample: Tensor) -> Tensor:
        radius = sample.norm(dim=-1)  # negative radii are ignored, because they are ten deviations away
        return _log_normal((radius - 1.0) / self.deviation) - math.log(self.deviation * 2.0 * math.pi) - radius.log()


@dataclass(frozen=True)
class Curve:
    """Curve in n_dims dimensions, where x_1 is standard normal and x_k = sin(2 x_(k-1)) +- deviation."""

    n_dims: int = 5
    deviation: float = 0.1

    def sample(self, n_samples: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        columns = [_normal(generator, n_samples)]
        for _ in range(1, self.n_dims):
            columns.append((2.0 * columns[-1]).sin() + self.deviation * _normal(generator, n_samples))
        return columns[0].new_zeros(n_samples, 0), torch.stack(columns, -1)

    def log_prob(self, context: Tensor, sample: Tensor) -> Tensor:
        error = (sample[:, 1:] - (2.0 * sample[:, :-1]).sin()) / self.deviation
        return _log_normal(sample[:, 0]) + _log_normal(error).sum(-1) - (self.n_dims - 1) * math.log(self.deviation)


@dataclass(frozen=True)
class Arm:
    """Joint angles of a planar arm whose tip reaches the line at x = 0.3 +- deviation.

    The prior of the angles is normal with a standard deviation of 0.5, and each link has the length 1/n_joints. The
    samples are close to a manifold with n_joints - 1 dimensions. This manifold bends in all directions, so no mixture
    fits it well.
    """

    n_joints: int = 10
    deviation: float = 0.02
    n_normaliser: int = 2_000_000

    def tip(self, sample: Tensor) -> Tensor:
        """Return the x coordinate (n_samples,) of the tip."""
        return sample.cumsum(-1).cos().mean(-1)

    def sample(self, n_samples: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        kept: list[Tensor] = []
        while sum(len(part) for part in kept) < n_samples:
            angles = 0.5 * _normal(generator, 100_000, self.n_joints)
            uniform = torch.rand(len(angles), generator=generator, dtype=torch.float64)
            kept.append(angles[uniform.log() < self._log_weight(angles)])
        sample = torch.cat(kept)[:n_samples]
        return sample.new_zeros(n_samples, 0), sample

    def log_prob(self, context: Tensor, sample: Tensor) -> Tensor:
        """Return the log density. Its normaliser is a mean over n_normaliser samples, accurate to about 0.01 nat."""
        angles = 0.5 * _normal(torch.Generator().manual_seed(0), self.n_normaliser, self.n_joints)
        log_normaliser = math.log(float(self._log_weight(angles).exp().mean()))
        prior = _log_normal(sample / 0.5).sum(-1) - self.n_joints * math.log(0.5)
        return prior + self._log_weight(sample) - log_normaliser

    def _log_weight(self, sample: Tensor) -> Tensor:
        return -0.5 * ((self.tip(sample) - 0.3) / self.deviation).square()


@dataclass(frozen=True)
class Branches:
    """x = +-sqrt(1 - y^2) +- deviation for y uniform on [-0.9, 0.9], like an elbow that bends up or down."""

    deviation: float = 0.1

    def sample(self, n_samples: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        context = 1.8 * torch.rand(n_samples, 1, generator=generator, dtype=torch.float64) - 0.9
        sign = 2.0 * torch.randint(2, (n_samples, 1), generator=generator).double() - 1.0
        return context, sign * self._branch(context) + self.deviation * _normal(generator, n_samples, 1)

    def log_prob(self, context: Tensor, sample: Tensor) -> Tensor:
        branch = self._branch(context)
        both = torch.cat([(sample - branch) / self.deviation, (sample + branch) / self.deviation], -1)
        return torch.logsumexp(_log_normal(both), -1) - math.log(2.0 * self.deviation)

    def _branch(self, context: Tensor) -> Tensor:
        return (1.0 - context.square()).sqrt()


def _normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def _log_normal(value: Tensor) -> Tensor:
    return -0.5 * (value.square() + LOG_TWO_PI)
