"""Noisy-OR: each cause that is on may switch on each binary output by itself.

    p(y_d = 0 | s) = (1 - b_d) prod_h (1 - W_dh)^s_h

b is the leak: outputs that come on without any cause. Singliar and Hauskrecht 2006; Luecke 2016, 6.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from eim_ros.distributions.gaussian import sample_shape
from eim_ros.distributions.multiple_causes import data_of_causes, log_prior
from eim_ros.errors import DataError, DistributionError

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["NoisyOr"]

LEAST_PRIOR = 1e-4  # a cause is never ruled out, nor in
LEAST_WEIGHT = 1e-6  # and an output is never certain
CHUNK_ELEMENTS = 1_000_000  # probabilities at a time


@dataclass(frozen=True)
class NoisyOr:
    """Binary causes of binary outputs.

    Attributes
    ----------
    weights : Tensor (n_dims, n_causes)
        W: probability that a cause, if on, switches the output on.
    leak : Tensor (n_dims,)
        b.
    prior : Tensor (n_causes,)
        Probability of each cause.
    n_updates : int
        Updates of W and b per M-step.
    """

    weights: Tensor
    leak: Tensor
    prior: Tensor
    n_updates: int = 3

    def __post_init__(self) -> None:
        sizes = (tuple(self.leak.shape), tuple(self.prior.shape))
        if self.weights.dim() != 2 or sizes != (self.weights.shape[:1], self.weights.shape[1:]):
            raise DistributionError(
                f"weights (n_dims, n_causes), leak (n_dims,) and prior (n_causes,) disagree: "
                f"{tuple(self.weights.shape)}, {sizes[0]} and {sizes[1]}",
                sizes,
            )
        for name, values in (("weights", self.weights), ("leak", self.leak), ("prior", self.prior)):
            if not bool((values > 0.0).all() and (values < 1.0).all()):
                raise DistributionError(f"{name} must lie between 0 and 1, both excluded", values)

        # memory in one order: otherwise a restored model, which has it so, would round differently
        object.__setattr__(self, "weights", self.weights.contiguous())

    @classmethod
    def start(cls, sample: Tensor, n_causes: int, generator: torch.Generator, active: float = 2.0) -> Self:
        """Start of a fit: each cause switches on, with some probability, the outputs of a random sample.

        Parameters
        ----------
        sample : Tensor (n_samples, n_dims)
            Of zeros and ones.
        n_causes : int
        generator : torch.Generator
        active : float
            About how many causes an observation has.
        """
        sample = data_of_causes(sample, n_causes)
        _check_binary(sample)
        chosen = torch.randperm(len(sample), generator=generator)[:n_causes]
        noise = torch.rand(sample.shape[1], n_causes, generator=generator, dtype=sample.dtype)
        weights = 0.1 + 0.4 * sample[chosen].T + 0.2 * noise
        leak = (0.1 * sample.mean(0)).clamp(LEAST_WEIGHT, 1.0 - LEAST_WEIGHT)
        return cls(weights, leak, sample.new_full((n_causes,), min(active / n_causes, 0.5)))

    @property
    def n_dims(self) -> int:
        return len(self.weights)

    def log_joint(self, sample: Tensor, states: Tensor) -> Tensor:
        states = states.to(sample)
        on, off = self._log_probabilities(states)
        value = sample.unsqueeze(1)
        return log_prior(self.prior, states) + (value * on + (1.0 - value) * off).sum(-1)

    def improved(self, sample: Tensor, states: Tensor, shares: Tensor) -> Self:
        """M-step: a few updates of EM, whose hidden variables are what each cause has switched on.

        Given that output d is on, cause h has switched it on with probability W_dh s_h / p(y_d = 1 | s); the new
        W_dh is the mean of this over the data with s_h = 1. No update lowers the expected log-likelihood.
        """
        states = states.to(sample)
        occurrence = (states * shares.unsqueeze(-1)).sum((0, 1))
        model = self
        for _ in range(self.n_updates):
            hits, leaks = torch.zeros_like(self.weights), torch.zeros_like(self.leak)
            step = max(1, CHUNK_ELEMENTS // (states.shape[1] * self.n_dims))
            for start in range(0, len(sample), step):
                rows = slice(start, start + step)
                on, _ = model._log_probabilities(states[rows])
                blame = (sample[rows].unsqueeze(1) * shares[rows].unsqueeze(-1)) * (-on).exp()
                hits += blame.flatten(0, 1).T @ states[rows].flatten(0, 1)
                leaks += blame.sum((0, 1))
            share = torch.where(occurrence > 0.0, hits / occurrence.clamp_min(1e-300), 1.0)
            model = type(self)(
                (model.weights * share).clamp(LEAST_WEIGHT, 1.0 - LEAST_WEIGHT),
                (model.leak * leaks / len(sample)).clamp(LEAST_WEIGHT, 1.0 - LEAST_WEIGHT),
                self.prior,
                self.n_updates,
            )
        prior = (occurrence / len(sample)).clamp(LEAST_PRIOR, 1.0 - LEAST_PRIOR)
        return type(self)(model.weights, model.leak, prior, self.n_updates)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Observations (n, n_dims) of 0 and 1."""
        return self.sample_with_states(n, generator)[0]

    def sample_with_states(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """As `sample`; also the states that made them, (n, n_causes) of bool."""
        sample_shape(n)
        uniform = torch.rand(n, len(self.prior) + self.n_dims, generator=generator, dtype=self.prior.dtype)
        states = uniform[:, : len(self.prior)] < self.prior
        on, _ = self._log_probabilities(states.to(self.prior))
        return (uniform[:, len(self.prior) :] < on.exp()).to(self.prior), states

    def check(self, sample: Tensor) -> None:
        """Outputs are 0 or 1."""
        _check_binary(sample)

    def tensors(self) -> dict[str, Tensor]:
        counts = torch.tensor(self.n_updates)
        return {"weights": self.weights, "leak": self.leak, "prior": self.prior, "n_updates": counts}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> Self:
        return cls(tensors["weights"], tensors["leak"], tensors["prior"], int(tensors["n_updates"]))

    def _log_probabilities(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """log p(y_d = 1 | s) and log p(y_d = 0 | s), (..., n_dims) each."""
        off = torch.log1p(-self.leak) + states @ torch.log1p(-self.weights).T
        return (-torch.expm1(off)).log(), off


def _check_binary(sample: Tensor) -> None:
    wrong = ((sample != 0.0) & (sample != 1.0)).any(-1).nonzero().flatten()
    if len(wrong):
        raise DataError(
            f"a noisy-OR explains zeros and ones; row {int(wrong[0])} holds others: compare them with a threshold, or "
            "take BinarySparseCoding",
            int(wrong[0]),
        )
