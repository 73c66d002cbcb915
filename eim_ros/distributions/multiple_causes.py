"""Models in which several hidden causes, each on or off, make an observation together (Luecke 2016, 6.1).

    p(s, y) = prod_h pi_h^s_h (1 - pi_h)^(1 - s_h) p(y | s),    s in {0, 1}^H

Such a model is its joint and its M-step: what `MultipleCauseEM` asks of it stands in the Protocol below.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from eim_ros.errors import DataError, DistributionError

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["MultipleCauseModel", "all_states", "data_of_causes", "exact_log_prob", "log_prior", "sparsest_states"]

MOST_ENUMERATED = 16  # causes whose 2^H states are still listed


@runtime_checkable
class MultipleCauseModel(Protocol):
    """A model of independent binary causes."""

    @property
    def n_dims(self) -> int: ...

    @property
    def prior(self) -> Tensor:
        """Probability pi of each cause, (n_causes,)."""
        ...

    def log_joint(self, sample: Tensor, states: Tensor) -> Tensor:
        """log p(s, y) [nat] of samples (n, n_dims), each with states (n, n_states, n_causes) of its own."""
        ...

    def improved(self, sample: Tensor, states: Tensor, shares: Tensor) -> Self:
        """M-step: a model of no lower sum_n sum_s q_n(s) log p(s, y_n), q being shares (n, n_states)."""
        ...

    def check(self, sample: Tensor) -> None:
        """`DataError` for samples that the model can never make."""
        ...

    def tensors(self) -> dict[str, Tensor]:
        """Parameters by name."""
        ...

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> Self:
        """Inverse of `tensors`."""
        ...


def data_of_causes(sample: Any, n_causes: int) -> Tensor:
    """Samples (n_samples, n_dims) that a start of so many causes is made of; `DataError` if they are none."""
    try:
        data, n = torch.as_tensor(sample, dtype=torch.float64), operator.index(n_causes)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"a start takes samples, a matrix (n, d) of numbers, and the number of causes, got {n_causes!r} causes of "
            f"a {type(sample).__name__}: {error}",
            n_causes,
        ) from error
    if data.dim() != 2:
        raise DataError(f"samples must be a matrix (n, d), got shape {tuple(data.shape)}", tuple(data.shape))
    bad = (~torch.isfinite(data)).any(-1).nonzero().flatten()
    if len(bad):
        raise DataError(
            f"samples have NaN or infinite entries in {len(bad)} rows, first row {int(bad[0])}", int(bad[0])
        )
    if isinstance(n_causes, bool) or n < 1:
        raise DataError(f"a model needs one cause at least, got {n_causes!r}", n_causes)
    if n > len(data):
        raise DataError(f"{n} causes need at least as many samples, got {len(data)}", n)
    return data


def log_prior(prior: Tensor, states: Tensor) -> Tensor:
    """log p(s) [nat] of states (..., n_causes) in {0, 1}, (...)."""
    off = torch.log1p(-prior)
    return states @ (prior.log() - off) + off.sum()


def all_states(n_causes: int) -> Tensor:
    """All 2^H combinations of causes, (2^n_causes, n_causes) of bool."""
    if n_causes > MOST_ENUMERATED:
        raise DistributionError(f"2^{n_causes} states are too many to list; at most {MOST_ENUMERATED} causes", n_causes)
    numbers = torch.arange(2**n_causes).unsqueeze(-1)
    return (numbers >> torch.arange(n_causes)) % 2 == 1


def sparsest_states(n_causes: int, n_states: int) -> Tensor:
    """Different states with as few causes as possible, the empty one first, (n_states, n_causes) of bool."""
    states = torch.zeros(1, n_causes, dtype=torch.bool)
    layer = states
    while len(states) < n_states and len(layer):
        following = []
        for state in layer:  # a further cause after the last one: no combination twice
            last = int(state.nonzero().max()) if state.any() else -1
            flips = torch.eye(n_causes, dtype=torch.bool)[last + 1 :]
            following.append(state | flips)
            if len(states) + sum(map(len, following)) >= n_states:
                break
        layer = torch.cat(following)
        states = torch.cat([states, layer])
    return states[:n_states]


def exact_log_prob(model: MultipleCauseModel, sample: Tensor) -> Tensor:
    """log p(y) [nat] of samples (n, n_dims) by all states, (n,); for few causes."""
    states = all_states(len(model.prior)).to(sample.device)
    rows = [model.log_joint(one, states.expand(len(one), -1, -1)).logsumexp(-1) for one in sample.split(100)]
    return torch.cat(rows)
