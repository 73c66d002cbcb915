"""Parameters of distributions given as anything but tensors: arrays and lists of numbers become tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from eim_ros.errors import DistributionError
from eim_ros.numerics.arguments import as_numbers

__all__ = ["as_parameter", "checked_generator", "checked_values", "tensor_fields"]


def tensor_fields(distribution: Any, *names: str) -> None:
    """Make fields of a frozen dataclass tensors, where they are none; for its `__post_init__`."""
    for name in names:
        value = getattr(distribution, name)
        if not isinstance(value, Tensor):
            object.__setattr__(distribution, name, as_parameter(name, value))


def as_parameter(name: str, value: Any) -> Tensor:
    """A tensor as it is; an array or a list of numbers in float64. `DistributionError` names what is neither."""
    if isinstance(value, Tensor):
        return value
    try:
        return torch.from_numpy(np.array(as_numbers(value)))
    except (TypeError, ValueError) as error:
        raise DistributionError(f"{name} must be a tensor, or an array of numbers, got {value!r}", value) from error


def checked_values(values: Tensor, n_columns: int, name: str = "samples") -> Tensor:
    """Values (..., n_columns) at which a distribution is asked for something."""
    if not isinstance(values, Tensor):
        raise DistributionError(f"{name} must be a tensor (..., {n_columns}), got a {type(values).__name__}", values)
    if values.dim() == 0 or values.shape[-1] != n_columns:
        raise DistributionError(
            f"{name} must be a tensor (..., {n_columns}), got shape {tuple(values.shape)}", tuple(values.shape)
        )
    return values


def checked_generator(generator: torch.Generator | None) -> torch.Generator | None:
    """Randomness of samples."""
    if generator is not None and not isinstance(generator, torch.Generator):
        raise DistributionError(f"generator must be a torch.Generator, got {generator!r}", generator)
    return generator
