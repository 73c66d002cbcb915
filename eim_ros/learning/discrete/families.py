"""Mixtures of any exponential family: sum_k w_k exp(eta_k' T(x) - A(eta_k) + B(x)).

A custom family needs about twenty lines to satisfy the protocol `ExponentialFamily`. `PoissonFamily` is an example.
`ExponentialEM` fits the mixtures by averaging statistics, because the mean statistics E[T(x)] = A'(eta) determine eta.
Two families are provided:

- Independent categorical variables, each with its own number of levels: p(x) = prod_d theta_{d, x_d}
- Independent Poisson counts: p(x) = prod_d lambda_d^x_d exp(-lambda_d) / x_d!
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from eim_ros.core.errors import DataError, DistributionError
from eim_ros.learning.models.gaussian import checked_shape, tensor_fields


@runtime_checkable
class ExponentialFamily(Protocol):
    """Family of densities exp(eta' T(x) - A(eta) + B(x)), for batches of parameters.

    Examples
    --------
    Define a custom family, the exponential distribution with the density r exp(-r x):

    >>> import torch
    >>> from eim_ros.learning.discrete import ExponentialEM
    >>> class Waiting:
    ...     statistics = staticmethod(lambda sample: sample)
    ...     log_base = staticmethod(lambda sample: torch.zeros_like(sample[..., 0]))
    ...     natural = staticmethod(lambda mean: -1.0 / mean)
    ...     log_normaliser = staticmethod(lambda natural: -(-natural).log().sum(-1))
    ...     def sample(self, natural, generator=None):
    ...         return torch.empty_like(natural).exponential_(generator=generator) / -natural
    >>> times = torch.tensor([1.0, 100.0]).repeat(100)[:, None]
    >>> model = ExponentialEM(Waiting(), n_components=2, prior_count=0.0, seed=0).fit(times).state.model
    >>> short, long = sorted((-1.0 / model.natural).flatten().tolist())
    >>> short < 2.0, long > 50.0
    (True, True)
    """

    def statistics(self, sample: Tensor) -> Tensor:
        """Return T of samples (n, n_dims), (n, n_statistics). Samples outside the support raise `DataError`."""

    def log_base(self, sample: Tensor) -> Tensor:
        """Return B of samples (n, n_dims) [nat], (n,)."""

    def natural(self, mean: Tensor) -> Tensor:
        """Return eta for mean statistics (..., n_statistics), with the same shape. This is the inverse of A'."""

    def log_normaliser(self, natural: Tensor) -> Tensor:
        """Return A of natural parameters (..., n_statistics) [nat], (...)."""

    def sample(self, natural: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Draw one sample for each row of natural parameters (n, n_statistics). The result is (n, n_dims)."""


@dataclass(frozen=True)
class ExponentialMixture:
    """Mixture of distributions from one exponential family.

    Attributes
    ----------
    family : ExponentialFamily
    log_weights : Tensor (n_components,)
        Logs of the mixture weights. The constructor normalises them.
    natural : Tensor (n_components, n_statistics)
        eta of the components.

    Examples
    --------
    >>> import torch
    >>> from eim_ros.learning.discrete import ExponentialMixture, PoissonFamily
    >>> rates = torch.tensor([[2.0, 5.0], [8.0, 1.0]])
    >>> mixture = ExponentialMixture.from_means(PoissonFamily(), torch.zeros(2), rates)
    >>> mixture.sample(5, torch.Generator().manual_seed(0)).shape
    torch.Size([5, 2])
    """

    family: ExponentialFamily
    log_weights: Tensor
    natural: Tensor

    def __post_init__(self) -> None:
        tensor_fields(self, "log_weights", "natural")
        if self.natural.dim() != 2 or self.log_weights.shape != self.natural.shape[:1] or not len(self.natural):
            raise DistributionError(
                "log_weights (k,) and natural parameters (k, n_statistics) must have an equal, positive k, got "
                f"shapes {tuple(self.log_weights.shape)} and {tuple(self.natural.shape)}",
                tuple(self.natural.shape),
            )
        object.__setattr__(self, "log_weights", torch.log_softmax(self.log_weights, 0))

    @classmethod
    def from_means(cls, family: ExponentialFamily, log_weights: Tensor, means: Tensor) -> ExponentialMixture:
        """Build a mixture from mean statistics (n_components, n_statistics), such as rates or probabilities."""
        return cls(family, log_weights, family.natural(means))

    @property
    def n_components(self) -> int:
        return len(self.natural)

    def log_joint(self, sample: Tensor) -> Tensor:
        """Return log w_k p(x | k) [nat], (n, n_components), of samples (n, n_dims)."""
        if sample.dim() != 2:
            raise DistributionError(
                f"samples must be a matrix (n, d), got shape {tuple(sample.shape)}", tuple(sample.shape)
            )
        statistics = self.family.statistics(sample)
        if statistics.shape[1] != self.natural.shape[1]:
            sizes = (self.natural.shape[1], statistics.shape[1])
            raise DistributionError(
                f"the samples must have {sizes[0]} statistics, like the mixture, got {sizes[1]}", sizes
            )
        return self.log_joint_of(statistics, self.family.log_base(sample))

    def log_joint_of(self, statistics: Tensor, log_base: Tensor) -> Tensor:
        """Compute `log_joint` from T (n, n_statistics) and B (n,) of the samples by one matrix product."""
        offsets = self.log_weights - self.family.log_normaliser(self.natural)
        return torch.addmm(offsets, statistics, self.natural.T) + log_base.unsqueeze(-1)

    def log_prob(self, sample: Tensor) -> Tensor:
        """Return log p(x) [nat], (n,)."""
        return self.log_joint(sample).logsumexp(-1)

    def responsibilities(self, sample: Tensor) -> Tensor:
        """Return p(k | x), (n, n_components)."""
        return torch.softmax(self.log_joint(sample), -1)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw samples (n, n_dims)."""
        return self.sample_with_components(n, generator)[0]

    def sample_with_components(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Draw samples like `sample`, and also return the component of each sample, (n,) of int64."""
        checked_shape(n)
        component = torch.multinomial(self.log_weights.exp(), max(n, 1), replacement=True, generator=generator)[:n]
        return self.family.sample(self.natural[component], generator), component

    def tensors(self) -> dict[str, Tensor]:
        """Return the parameters by name."""
        return {"log_weights": self.log_weights, "natural": self.natural}


@dataclass(frozen=True)
class CategoricalFamily:
    """`ExponentialFamily` of independent categorical variables, whose mean statistics are the probabilities.

    Samples are levels 0, 1, ... of each variable.

    Attributes
    ----------
    n_levels : tuple of int
        Number of levels of each variable. There is one indicator statistic for each level, ordered by variable.

    Examples
    --------
    Compute the probability of levels 0 and 2 of two variables with two and three levels:

    >>> import torch
    >>> from eim_ros.learning.discrete import CategoricalFamily, ExponentialMixture
    >>> means = torch.tensor([[0.9, 0.1, 0.2, 0.3, 0.5]])  # probabilities of the levels, one row for each component
    >>> mixture = ExponentialMixture.from_means(CategoricalFamily((2, 3)), torch.zeros(1), means)
    >>> round(float(mixture.log_prob(torch.tensor([[0.0, 2.0]])).exp()), 3)
    0.45
    """

    n_levels: tuple[int, ...]

    def __post_init__(self) -> None:
        try:
            levels = tuple(operator.index(n) for n in self.n_levels)
        except TypeError as error:
            raise DistributionError(
                "n_levels must be the number of levels of each variable, as in CategoricalFamily((2, 3)), got "
                f"{self.n_levels!r}",
                self.n_levels,
            ) from error
        if not levels or min(levels) < 1:
            raise DistributionError(f"each variable needs at least one level, got {self.n_levels}", self.n_levels)
        object.__setattr__(self, "n_levels", levels)

    def statistics(self, sample: Tensor) -> Tensor:
        if sample.shape[-1] != len(self.n_levels):
            raise DataError(
                f"the samples must have {len(self.n_levels)} columns, one for each variable, got {sample.shape[-1]}",
                sample.shape[-1],
            )
        levels = sample.new_tensor(self.n_levels)
        wrong = ((sample < 0.0) | (sample >= levels) | (sample != sample.round())).any(-1).nonzero().flatten()
        if len(wrong):
            raise DataError(
                f"the levels of each variable must be integers from 0 to below {self.n_levels}, but row "
                f"{int(wrong[0])} has other values",
                int(wrong[0]),
            )
        columns = [
            torch.nn.functional.one_hot(column, n)
            for column, n in zip(sample.to(torch.int64).unbind(-1), self.n_levels, strict=True)
        ]
        return torch.cat(columns, -1).to(sample)

    def log_base(self, sample: Tensor) -> Tensor:
        return torch.zeros_like(sample[..., 0])

    def natural(self, mean: Tensor) -> Tensor:
        return mean.log()

    def log_normaliser(self, natural: Tensor) -> Tensor:
        return torch.stack([part.logsumexp(-1) for part in natural.split(self.n_levels, -1)]).sum(0)

    def sample(self, natural: Tensor, generator: torch.Generator | None = None) -> Tensor:
        parts = [torch.softmax(part, -1) for part in natural.split(self.n_levels, -1)]
        return torch.cat([torch.multinomial(part, 1, generator=generator) for part in parts], -1).to(natural)


@dataclass(frozen=True)
class PoissonFamily:
    """`ExponentialFamily` of independent counts, whose mean statistics are the rates.

    Examples
    --------
    Compute responsibilities in a mixture of two rates:

    >>> import torch
    >>> from eim_ros.learning.discrete import ExponentialMixture, PoissonFamily
    >>> mixture = ExponentialMixture.from_means(PoissonFamily(), torch.zeros(2), torch.tensor([[1.0], [10.0]]))
    >>> mixture.responsibilities(torch.tensor([[0.0], [12.0]])).round().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    def statistics(self, sample: Tensor) -> Tensor:
        wrong = ((sample < 0.0) | (sample != sample.round())).any(-1).nonzero().flatten()
        if len(wrong):
            raise DataError(
                f"counts must be 0, 1, 2, ..., but row {int(wrong[0])} has other values; use another family for "
                "these data",
                int(wrong[0]),
            )
        return sample

    def log_base(self, sample: Tensor) -> Tensor:
        return -torch.lgamma(sample + 1.0).sum(-1)

    def natural(self, mean: Tensor) -> Tensor:
        return mean.log()

    def log_normaliser(self, natural: Tensor) -> Tensor:
        return natural.exp().sum(-1)

    def sample(self, natural: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return torch.poisson(natural.exp(), generator)
