"""A motion prior beside inverse kinematics: which of the configurations that reach a pose belong to the motion.

Two ways. As a factor: `ProductTarget` adds log densities, so that inference with a known density
(`EIM(target=...)`) fits a mixture to prior times task. As a ranking: `weigh` gives configurations
that another sampler found, such as `eim_ros.ik.Sampler`, their densities under the prior's marginal at a phase.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eim_ros.core.errors import DataError, DistributionError, JointStateError
from eim_ros.learning.models import MixtureOfExperts
from eim_ros.motion.distribution import MotionDistribution

FloatArray = npt.NDArray[np.float64]


class Factor(Protocol):
    """A log density of configurations, up to a constant."""

    def log_prob(self, sample: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class ProductTarget:
    """log p(q) = sum_i w_i log p_i(q), a target of `EIM`.

    Attributes
    ----------
    factors : sequence of objects with `log_prob`, or of callables
        Each maps configurations (n, n_joints) to (n,) [nat]: `MotionDistribution.marginal(phase)`, a task's log
        density, ...
    weights : sequence of float, optional
        w; all 1 if missing. A weight below 1 makes a factor less certain.
    """

    factors: Sequence[Factor | Callable[[Tensor], Tensor]]
    weights: Sequence[float] | None = None

    def __post_init__(self) -> None:
        n_weights = len(self.factors) if self.weights is None else len(self.weights)
        if not self.factors or n_weights != len(self.factors):
            raise DistributionError(
                f"a product needs at least one factor and as many weights, got {len(self.factors)} and {n_weights}",
                self.weights,
            )

    def log_prob(self, sample: Tensor) -> Tensor:
        """Log density (n,) [nat] of configurations (n, n_joints), differentiable where all factors are."""
        weights = self.weights or [1.0] * len(self.factors)
        terms: list[Any] = [
            weight * getattr(factor, "log_prob", factor)(sample)  # type: ignore[operator]
            for factor, weight in zip(self.factors, weights, strict=True)
        ]
        total: Tensor = torch.stack(terms).sum(0)
        return total


@dataclass(frozen=True, eq=False)
class WeighedConfigurations:
    """Configurations judged by a prior.

    Attributes
    ----------
    log_prob : (n,)
        Log density under the prior's marginal [nat].
    log_weights : (n,)
        Normalised importance weights [nat]: drawing configurations by them is drawing from the prior, restricted to
        where the sampler finds some. Equal to the normalised `log_prob` where the sampler's density is not given.
    order : (n,) of int64
        The likeliest first.
    """

    log_prob: FloatArray
    log_weights: FloatArray
    order: npt.NDArray[np.int64]


def weigh(
    distribution: MotionDistribution,
    phase: float,
    joint_names: Sequence[str],
    positions: npt.ArrayLike,
    log_proposal: npt.ArrayLike | None = None,
) -> WeighedConfigurations:
    """Judge configurations by a motion prior.

    Parameters
    ----------
    distribution : MotionDistribution
        The prior, conditioned on a context and via points.
    phase : float
        When in the motion the configuration is wanted, 0 to 1.
    joint_names : sequence of str
        Columns of `positions`, in any order; all joints of the prior must be among them.
    positions : (n, n_columns) array_like
        [rad] or [m].
    log_proposal : (n,) array_like, optional
        Log density by which they were drawn, such as `Samples.log_prob` of raw samples of the mixture.
    """
    values = np.asarray(positions, dtype=np.float64)
    names = list(joint_names)
    missing = [name for name in distribution.representation.joint_names if name not in names]
    if missing or values.ndim != 2 or values.shape[1] != len(names):
        raise JointStateError(
            f"configurations of shape {values.shape} for joints {', '.join(names)} do not hold the joints "
            f"{', '.join(distribution.representation.joint_names)} of the prior",
            missing,
        )
    if not 0.0 <= phase <= 1.0:
        raise DataError(f"the phase must be from 0 to 1, got {phase}", phase)
    columns = [names.index(name) for name in distribution.representation.joint_names]
    sample = torch.from_numpy(np.ascontiguousarray(values[:, columns]))
    marginal = MixtureOfExperts.from_mixture(distribution.marginal(phase))
    log_prob = marginal.log_prob(sample.new_zeros(len(sample), 0), sample)
    proposal = torch.zeros_like(log_prob)
    if log_proposal is not None:
        proposal = torch.from_numpy(np.array(log_proposal, dtype=np.float64))
        if proposal.shape != log_prob.shape:
            raise DataError(f"expected {len(sample)} log densities, got {tuple(proposal.shape)}", proposal.shape)
    log_weights = torch.log_softmax(log_prob - proposal, 0)
    order = torch.argsort(log_prob, descending=True, stable=True)
    return WeighedConfigurations(log_prob.numpy(), log_weights.numpy(), order.numpy())
