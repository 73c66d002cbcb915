"""Combination of motion priors with each other and with inverse kinematics.

`blended` returns motions that change from one distribution to another. There are two ways to combine a prior with
inverse kinematics. `ProductTarget` multiplies densities: `EIM(target=...)` fits a mixture to the product of prior and
task. `weigh` ranks configurations from another sampler, such as `eim_ros.ik.Sampler`, by the prior's marginal density
at a phase.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eim_ros.core.arrays import FloatArray
from eim_ros.core.checks import is_number, with_hints
from eim_ros.core.errors import DataError, DistributionError, JointStateError
from eim_ros.learning.models import GaussianMixture, MixtureOfExperts
from eim_ros.learning.models.gaussian import triangular_factor
from eim_ros.motion.distribution import LEAST_DEVIATION, RECORDING, ROBOT, MotionDistribution, observed
from eim_ros.motion.representation import Representation

MOST_PAIRS = 1000  # maximum number of components of a blend


class Factor(Protocol):
    """Log density of configurations, up to a constant."""

    def log_prob(self, sample: Tensor) -> Tensor: ...


@with_hints
@dataclass(frozen=True)
class ProductTarget:
    """Product of densities, log p(q) = sum_i w_i log p_i(q), as a target of `EIM(target=...)`.

    Attributes
    ----------
    factors : sequence of objects with `log_prob`, or of callables
        Functions from configurations (n, n_joints) to log densities (n,) [nat]. Examples are
        `MotionDistribution.marginal(phase)` and the log density of a task.
    weights : sequence of float, optional
        Exponents w; by default, all are 1. A weight below 1 makes a factor less certain.

    Examples
    --------
    >>> import torch
    >>> from eim_ros.motion import ProductTarget
    >>> target = ProductTarget([lambda q: -(q**2).sum(-1), lambda q: -(q - 1.0).abs().sum(-1)], weights=[1.0, 2.0])
    >>> target.log_prob(torch.tensor([[1.0], [0.0]])).tolist()
    [-1.0, -2.0]
    """

    factors: Sequence[Factor | Callable[[Tensor], Tensor]]
    weights: Sequence[float] | None = None

    def __post_init__(self) -> None:
        n_weights = len(self.factors) if self.weights is None else len(self.weights)
        if not self.factors or n_weights != len(self.factors):
            raise DistributionError(
                f"a product needs at least one factor and one weight per factor, got {len(self.factors)} factors and "
                f"{n_weights} weights",
                self.weights,
            )

    def log_prob(self, sample: Tensor) -> Tensor:
        """Return the log density (n,) [nat] of configurations (n, n_joints), differentiable if all factors are."""
        weights = self.weights or [1.0] * len(self.factors)
        values: list[Any] = [getattr(factor, "log_prob", factor)(sample) for factor in self.factors]  # type: ignore[operator]
        total: Tensor = torch.stack([weight * value for weight, value in zip(weights, values, strict=True)]).sum(0)
        return total


@dataclass(frozen=True, eq=False)
class WeighedConfigurations:
    """Configurations ranked by a motion prior.

    Attributes
    ----------
    log_prob : (n,)
        Log density under the prior's marginal [nat].
    log_weights : (n,)
        Normalised importance weights [nat]. Configurations that are drawn with these weights have the distribution of
        the prior, restricted to the region that the sampler covers. If the sampler's density is unknown, the weights
        are the normalised `log_prob`.
    order : (n,) of int64
        Indices of the configurations, most likely first.
    """

    log_prob: FloatArray
    log_weights: FloatArray
    order: npt.NDArray[np.int64]


@with_hints
def weigh(
    distribution: MotionDistribution,
    phase: float,
    joint_names: Sequence[str],
    positions: npt.ArrayLike,
    log_proposal: npt.ArrayLike | None = None,
) -> WeighedConfigurations:
    """Rank configurations by a motion prior.

    Parameters
    ----------
    distribution : MotionDistribution
        Prior, conditioned on a context and via points.
    phase : float
        Phase at which a configuration is needed, 0 to 1.
    joint_names : sequence of str
        Names of the columns of `positions`, in any order. The names must include all joints of the prior.
    positions : (n, n_columns) array_like
        Configurations [rad] or [m].
    log_proposal : (n,) array_like, optional
        Log density [nat] of the configurations under their proposal, such as `Samples.log_prob` for raw samples of the
        mixture.

    Raises
    ------
    JointStateError
        If a joint of the prior is missing, or the shape is wrong.
    DataError
        If the phase is not in [0, 1], or the number of log densities is wrong.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from eim_ros.learning.models import GaussianMixture
    >>> from eim_ros.motion import Basis, MotionDistribution, Representation, weigh
    >>> representation = Representation(Basis("via-points", n_functions=3), ("elbow",), n_points=11)
    >>> mixture = GaussianMixture(torch.zeros(1), torch.zeros(1, 3), 0.2 * torch.eye(3)[None]).to(dtype=torch.float64)
    >>> distribution = MotionDistribution(representation, mixture, np.array([-2.0]), np.array([2.0]))
    >>> weigh(distribution, 0.5, ["elbow"], [[1.0], [0.1]]).order.tolist()
    [1, 0]
    """
    values = np.asarray(positions, dtype=np.float64)
    names = list(joint_names)
    missing = [name for name in distribution.representation.joint_names if name not in names]
    if missing or values.ndim != 2 or values.shape[1] != len(names):
        raise JointStateError(
            f"configurations of shape {values.shape} for the joints {', '.join(names)} must have one column for each "
            f"joint of the prior: {', '.join(distribution.representation.joint_names)}",
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


@with_hints
def blended(
    first: MotionDistribution,
    second: MotionDistribution,
    phases: tuple[float, float] = (0.25, 0.75),
    agreement: float | None = None,
) -> MotionDistribution:
    """Return the distribution of motions that change smoothly from one distribution to another.

    A blended motion is y(s) = (1 - a(s)) y_1(s) + a(s) y_2(s), projected to the basis functions. The activation a rises
    from 0 at the first of `phases` to 1 at the second one. The activation is a polynomial of degree five. Its velocity
    and acceleration are zero at both ends. Each pair of components becomes one component.

    Parameters
    ----------
    first, second : MotionDistribution
        Independent distributions with the same basis functions and joints.
    phases : (float, float)
        Phases from 0 to 1 between which the motion changes. A change over less than about four basis functions
        overshoots, because the basis cannot represent it.
    agreement : float, optional
        Standard deviation of y_1 - y_2 in the middle of the change [rad] or [m]. Pairs that are farther apart become
        unlikely. Each mode of the first distribution then continues in a nearby mode of the second distribution. By
        default, all pairs are possible.

    Raises
    ------
    DistributionError
        If the distributions have different basis functions or joints, or too many pairs of components.
    DataError
        If the phases do not ascend from 0 to 1, or the agreement is not positive.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from eim_ros.learning.models import GaussianMixture
    >>> from eim_ros.motion import Basis, MotionDistribution, Representation, blended
    >>> representation = Representation(Basis(n_functions=10), ("elbow",), n_points=50)
    >>> limits, factors = (np.array([-2.0]), np.array([2.0])), 0.01 * torch.eye(10, dtype=torch.float64)[None]
    >>> low, high = (
    ...     MotionDistribution(representation, GaussianMixture(torch.zeros(1).double(), mean, factors), *limits)
    ...     for mean in (torch.zeros(1, 10).double(), torch.ones(1, 10).double())
    ... )
    >>> motions = blended(low, high).sample(100, torch.Generator().manual_seed(0)).positions
    >>> (motions.mean(0)[[0, -1], 0].round(2) + 0.0).tolist()
    [0.0, 1.0]
    """
    names = [distribution.representation.joint_names for distribution in (first, second)]
    if first.representation.basis != second.representation.basis or names[0] != names[1]:
        raise DistributionError(
            f"blended motions need the same basis functions and joints, got {first.representation.basis} of "
            f"{', '.join(names[0])} and {second.representation.basis} of {', '.join(names[1])}",
            names,
        )
    n_pairs = first.n_components * second.n_components
    if n_pairs > MOST_PAIRS:
        raise DistributionError(f"a blend can have at most {MOST_PAIRS} pairs of components, got {n_pairs}", n_pairs)
    if not (len(phases) == 2 and all(map(is_number, phases)) and 0.0 <= phases[0] < phases[1] <= 1.0):
        raise DataError(f"a blend needs two ascending phases from 0 to 1, got {phases}", phases)
    if agreement is not None and not (is_number(agreement) and LEAST_DEVIATION <= agreement < np.inf):
        raise DataError(f"the agreement must be finite and at least {LEAST_DEVIATION}, got {agreement}", agreement)
    pairs = _pairs(first.mixture, second.mixture)
    log_evidence = first.log_evidence + second.log_evidence
    if agreement is not None:
        design = first.representation.design(0.5 * (phases[0] + phases[1]), range(len(names[0])))
        rows = torch.from_numpy(np.concatenate([design, -design], 1))
        zero = torch.zeros(len(rows), dtype=torch.float64)
        pairs, log_density = observed(pairs, rows, zero, torch.full_like(zero, agreement))
        log_evidence += log_density
    projection = torch.from_numpy(_projection(first.representation, phases))
    factors = triangular_factor(projection @ pairs.scale_trils)
    mixture = GaussianMixture(pairs.log_weights, pairs.means @ projection.mT, factors)
    lower, upper = np.maximum(first.lower, second.lower), np.minimum(first.upper, second.upper)
    source = RECORDING if first.limits_source == second.limits_source == RECORDING else ROBOT
    first_tasks = (task for task in first.tasks if task.phase < phases[1])
    tasks = (*first_tasks, *(task for task in second.tasks if task.phase > phases[0]))
    return MotionDistribution(first.representation, mixture, lower, upper, log_evidence, source, tasks)


def _pairs(first: GaussianMixture, second: GaussianMixture) -> GaussianMixture:
    """Return the mixture of the stacked weights of two independent motions."""
    one = torch.arange(first.n_components).repeat_interleave(second.n_components)
    two = torch.arange(second.n_components).repeat(first.n_components)
    log_weights = first.log_weights[one] + second.log_weights[two]
    means = torch.cat([first.means[one], second.means[two]], -1)
    n = first.n_dims
    factors = means.new_zeros(len(means), 2 * n, 2 * n)
    factors[:, :n, :n], factors[:, n:, n:] = first.scale_trils[one], second.scale_trils[two]
    return GaussianMixture(log_weights, means, factors)


def _projection(representation: Representation, phases: tuple[float, float]) -> FloatArray:
    """Return the matrix (n_weights, 2 n_weights) from stacked weights of two motions to weights of the blend."""
    grid = representation.grid
    progress = np.clip((grid - phases[0]) / (phases[1] - phases[0]), 0.0, 1.0)
    activation = (10.0 * progress**3 - 15.0 * progress**4 + 6.0 * progress**5)[:, None]
    each = representation.positions(np.eye(representation.n_weights), grid)
    return np.concatenate([representation.weights(each * part).T for part in (1.0 - activation, activation)], 1)
