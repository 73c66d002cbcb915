"""Exact densities of models with few binary causes, from an enumeration of all states."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from eim_ros.learning.discrete import MultipleCauseModel

__all__ = ["all_states", "exact_log_prob"]


def all_states(n_causes: int) -> Tensor:
    """Return all combinations of causes as booleans (2^n_causes, n_causes). The first cause changes fastest."""
    return torch.tensor(list(itertools.product((False, True), repeat=n_causes))).flip(-1)


def exact_log_prob(model: MultipleCauseModel, sample: Tensor) -> Tensor:
    """Return log p(y) [nat], (n,), for samples (n, n_dims)."""
    return model.log_joint(sample, all_states(len(model.prior)).expand(len(sample), -1, -1)).logsumexp(-1)
