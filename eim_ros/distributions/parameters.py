"""Parameters of distributions given as anything but tensors: arrays and lists of numbers become tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from eim_ros.errors import DistributionError

__all__ = ["as_parameter", "tensor_fields"]


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
        return torch.from_numpy(np.array(value, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise DistributionError(f"{name} must be a tensor, or an array of numbers, got {value!r}", value) from error
