"""A posterior as a target of variational inference, and the densities that models are built from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from experiments.targets.shapes import LOG_TWO_PI

Columns = dict[str, Tensor]


@dataclass(frozen=True)
class Posterior:
    """Density of unconstrained parameters.

    Attributes
    ----------
    n_dims : int
    log_prob : callable
        Function that maps parameters (n, n_dims) to log densities (n,) [nat].
    parameters : callable
        Function that maps parameters (n, n_dims) to parameters (n, n_parameters) of the Stan model, in the order of
        `names`.
    names : tuple of str
        Names of the parameters in the reference draws.
    """

    n_dims: int
    log_prob: Callable[[Tensor], Tensor]
    parameters: Callable[[Tensor], Tensor]
    names: tuple[str, ...]


def normal(value: Tensor, mean: Tensor | float, scale: Tensor | float) -> Tensor:
    """Return the log density of normal variables, elementwise."""
    scale = torch.as_tensor(scale, dtype=torch.float64)
    return -0.5 * ((value - mean) / scale).square() - scale.log() - 0.5 * LOG_TWO_PI


def cauchy(value: Tensor, scale: float) -> Tensor:
    """Return the log density of Cauchy variables around zero, up to a constant."""
    return -torch.log1p((value / scale).square())


def student(value: Tensor, mean: float, scale: float) -> Tensor:
    """Return the log density of Student's t variables with 3 degrees of freedom, up to a constant."""
    return -2.0 * torch.log1p(((value - mean) / scale).square() / 3.0)
