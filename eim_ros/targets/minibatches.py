"""Targets of data that see a part of them in each iteration, another part for each sample (seed 003, appendix J).

The data are shuffled and cut into disjoint batches; sample i of an iteration is judged by batch i mod n_batches, whose
log likelihood is scaled to that of all data. So the log density of each sample is unbiased, and the noise of a batch is
not shared by all samples (local reparameterisation). Evaluation is by the whole data, `log_prob`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from eim_ros.errors import DataError
from eim_ros.targets.start import MixtureStart
from eim_ros.targets.target import Target, checked_samples

__all__ = ["BatchedTarget", "DataTarget", "MinibatchTarget"]


class DataTarget(Target, Protocol):
    """A posterior of data whose log likelihood is a sum over them."""

    @property
    def n_data(self) -> int: ...

    def log_prior(self, x: Tensor) -> Tensor:
        """Log prior [nat], (n_samples,)."""
        ...

    def score_of_prior(self, x: Tensor) -> Tensor:
        """Its gradient, (n_samples, n_dims)."""
        ...

    def log_likelihoods(self, x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Log likelihood of some of the data and its gradient.

        Parameters
        ----------
        x : Tensor (n_groups, n_samples, n_dims)
        rows : Tensor (n_groups, n_rows) of int64
            A group's samples are judged by its rows of the data.

        Returns
        -------
        log_likelihood : Tensor (n_groups, n_samples)
        score : Tensor (n_groups, n_samples, n_dims)
        """
        ...


@dataclass(frozen=True)
class MinibatchTarget:
    """A posterior of data, by parts of them.

    Attributes
    ----------
    full : DataTarget
        By all data.
    batch_size : int
        Data in a batch, 1 to all.
    """

    full: DataTarget
    batch_size: int

    def __post_init__(self) -> None:
        if not 1 <= self.batch_size <= self.full.n_data:
            raise DataError(f"a batch takes 1 to {self.full.n_data} rows, got {self.batch_size}", self.batch_size)

    @property
    def n_dims(self) -> int:
        return self.full.n_dims

    @property
    def start(self) -> MixtureStart:
        return self.full.start

    def log_prob(self, x: Tensor) -> Tensor:
        """Unnormalised log density by all data [nat], (n_samples,)."""
        return self.full.log_prob(x)

    def minibatch(self, generator: torch.Generator) -> BatchedTarget:
        """A target with newly shuffled data."""
        order = torch.randperm(self.full.n_data, generator=generator)
        n_batches = self.full.n_data // self.batch_size
        return BatchedTarget(self.full, order[: n_batches * self.batch_size].reshape(n_batches, self.batch_size))


@dataclass(frozen=True)
class BatchedTarget:
    """A posterior of data of which sample i sees the rows batches[i mod n_batches].

    Attributes
    ----------
    full : DataTarget
    batches : Tensor (n_batches, batch_size) of int64
    """

    full: DataTarget
    batches: Tensor

    @property
    def n_dims(self) -> int:
        return self.full.n_dims

    @property
    def start(self) -> MixtureStart:
        return self.full.start

    def log_prob(self, x: Tensor) -> Tensor:
        """Unbiased estimate of the log density of all data [nat], (n_samples,)."""
        return self.log_prob_and_score(x)[0]

    def score(self, x: Tensor) -> Tensor:
        """Gradient of the estimate, (n_samples, n_dims)."""
        return self.log_prob_and_score(x)[1]

    def log_prob_and_score(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Both, with the likelihoods computed once."""
        x = checked_samples(x, self.n_dims)
        n, n_batches = len(x), len(self.batches)
        padding = -n % n_batches
        padded = torch.cat([x, x.new_zeros(padding, self.n_dims)])
        groups = padded.reshape(-1, n_batches, self.n_dims).transpose(0, 1)
        log_likelihood, score = self.full.log_likelihoods(groups, self.batches)
        share = self.full.n_data / self.batches.shape[1]
        log_prob = self.full.log_prior(x) + share * log_likelihood.transpose(0, 1).reshape(-1)[:n]
        return log_prob, self.full.score_of_prior(x) + share * score.transpose(0, 1).reshape(-1, self.n_dims)[:n]
