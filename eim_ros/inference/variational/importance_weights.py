"""Importance weights of samples for every component, and the means that they give."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

__all__ = ["ImportanceWeights"]


@dataclass(frozen=True)
class ImportanceWeights:
    """Weights of all samples for every component.

    Attributes
    ----------
    values : Tensor (n_samples, n_components)
        N(x|o)/z(x), each column up to a factor.
    total : Tensor (n_components,)
        What a weighted sum is divided by to be a mean: the columns' sums, or what stands for the number of samples.
    """

    values: Tensor
    total: Tensor

    def mean(self, values: Tensor) -> Tensor:
        """Means of values (n_samples, n_values) under every component, (n_components, n_values)."""
        return self.values.T @ values / self.total.unsqueeze(-1)

    def share(self, log_weights: Tensor) -> Tensor:
        """Weights of the samples for the mixture, (n_samples,); their sum is about one."""
        return self.values @ (log_weights.exp() / self.total)

    def effective_samples(self) -> Tensor:
        """Effective number of samples of every component, (n_components,), (sum w)^2 / sum w^2."""
        return self.values.sum(0).square() / self.values.square().sum(0)
