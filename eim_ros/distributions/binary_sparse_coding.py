"""Binary sparse coding: the weights of all causes that are on add up, under normal noise.

    p(y | s) = N(y; W s, sigma^2 I),    p(s_h = 1) = pi_h

Henniges et al. 2010; Luecke 2016, 6.1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from eim_ros.distributions.gaussian import sample_shape
from eim_ros.distributions.multiple_causes import data_of_causes, log_prior
from eim_ros.errors import DataError, DistributionError

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["BinarySparseCoding"]

LEAST_PRIOR = 1e-4  # a cause is never ruled out, nor in
START_SCATTER, START_NOISE = 0.25, 2.0  # in standard deviations of the data
LEAST_VARIANCE = 1e-6  # of the noise, relative to that of the data


@dataclass(frozen=True)
class BinarySparseCoding:
    """Linear superposition of binary causes.

    Attributes
    ----------
    weights : Tensor (n_dims, n_causes)
        W: what each cause adds.
    deviation : Tensor ()
        sigma of the noise.
    prior : Tensor (n_causes,)
        Probability of each cause.
    least_deviation : Tensor ()
        Below which an M-step does not bring sigma.
    shared_prior : bool
        Whether an M-step gives all causes the same probability, as Henniges et al. do: none is given up for being rare.
    """

    weights: Tensor
    deviation: Tensor
    prior: Tensor
    least_deviation: Tensor
    shared_prior: bool = True

    def __post_init__(self) -> None:
        if self.weights.dim() != 2 or self.prior.shape != self.weights.shape[1:]:
            raise DistributionError(
                f"weights (n_dims, n_causes) and prior (n_causes,) disagree: {tuple(self.weights.shape)} and "
                f"{tuple(self.prior.shape)}",
                tuple(self.prior.shape),
            )
        if not bool(torch.isfinite(self.weights).all()):
            raise DistributionError("weights must be finite", self.weights)
        if not bool((self.prior > 0.0).all() and (self.prior < 1.0).all()):
            raise DistributionError("the prior of each cause must lie between 0 and 1, both excluded", self.prior)
        if not bool(self.deviation > 0.0):
            raise DistributionError(f"the noise must be positive, got {self.deviation}", self.deviation)

        # memory in one order: otherwise a restored model, which has it so, would round differently
        object.__setattr__(self, "weights", self.weights.contiguous())

    @classmethod
    def start(cls, sample: Tensor, n_causes: int, generator: torch.Generator, active: float = 2.0) -> Self:
        """Start of a fit: causes near the mean, so much noise that they differ by and by.

        From causes that are random samples, or with less noise, fewer starts lead to the best optimum: two causes
        settle on one and the same part before the others have found theirs.

        Parameters
        ----------
        sample : Tensor (n_samples, n_dims)
        n_causes : int
        generator : torch.Generator
        active : float
            About how many causes an observation has.
        """
        sample = data_of_causes(sample, n_causes)
        variance = sample.var(0, correction=0).mean()
        if not float(variance) > 0.0:
            raise DataError("all samples are the same: there is nothing for causes to explain", float(variance))
        scatter = torch.randn(sample.shape[1], n_causes, generator=generator, dtype=sample.dtype)
        scatter = START_SCATTER * sample.std(0, correction=0).unsqueeze(-1) * scatter
        return cls(
            sample.mean(0).unsqueeze(-1) / active + scatter,
            START_NOISE * variance.sqrt(),
            sample.new_full((n_causes,), min(active / n_causes, 0.5)),
            (LEAST_VARIANCE * variance).sqrt(),
        )

    @property
    def n_dims(self) -> int:
        return len(self.weights)

    def log_joint(self, sample: Tensor, states: Tensor) -> Tensor:
        states = states.to(sample)
        residual = sample.unsqueeze(1) - states @ self.weights.T
        log_noise = -0.5 * residual.square().sum(-1) / self.deviation.square()
        constant = self.n_dims * (self.deviation.log() + 0.5 * math.log(2.0 * math.pi))
        return log_prior(self.prior, states) + log_noise - constant

    def improved(self, sample: Tensor, states: Tensor, shares: Tensor) -> Self:
        """M-step in closed form: W = sum y <s>' (sum <s s'>)^-1, then the noise that is left, and the mean of s.

        Weights of causes that never occur, or only together, are not determined: of these W the nearest is taken.
        """
        states = states.to(sample)
        weighted = states * shares.unsqueeze(-1)
        mean = weighted.sum(1)
        moment = weighted.flatten(0, 1).T @ states.flatten(0, 1)
        missing = sample.T @ mean - self.weights @ moment
        weights = self.weights + missing @ torch.linalg.pinv(moment, hermitian=True)
        residual = (sample.unsqueeze(1) - states @ weights.T).square().sum(-1)
        variance = (shares * residual).sum() / sample.numel()
        prior = mean.mean(0)
        if self.shared_prior:
            prior = prior.mean().expand_as(prior)
        return type(self)(
            weights,
            torch.maximum(variance.sqrt(), self.least_deviation),
            prior.clamp(LEAST_PRIOR, 1.0 - LEAST_PRIOR),
            self.least_deviation,
            self.shared_prior,
        )

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Observations (n, n_dims)."""
        return self.sample_with_states(n, generator)[0]

    def sample_with_states(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """As `sample`; also the states that made them, (n, n_causes) of bool."""
        sample_shape(n)
        uniform = torch.rand(n, len(self.prior), generator=generator, dtype=self.prior.dtype)
        states = uniform < self.prior
        noise = torch.randn(n, self.n_dims, generator=generator, dtype=self.prior.dtype)
        return states.to(self.prior) @ self.weights.T + self.deviation * noise, states

    def check(self, sample: Tensor) -> None:
        """Any real numbers can be made."""

    def tensors(self) -> dict[str, Tensor]:
        return {
            "weights": self.weights,
            "deviation": self.deviation,
            "prior": self.prior,
            "least_deviation": self.least_deviation,
            "shared_prior": torch.tensor(self.shared_prior),
        }

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> Self:
        weights, deviation, prior = (tensors[name] for name in ("weights", "deviation", "prior"))
        return cls(weights, deviation, prior, tensors["least_deviation"], bool(tensors["shared_prior"]))
