"""Distribution of motions for one context: a Gaussian mixture of weights, with conditioning on via points.

A via point is a desired position of some joints at a phase. A via point is a noisy linear observation of the weights,
so the conditional mixture has a closed form. Joint limits and tasks are not linear. Therefore, the mixture is truncated
to motions that respect limits and tasks, and samples are drawn by rejection. The truncated density is the density of
the mixture, divided by the share of motions that respect limits and tasks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eim_ros.core.arrays import FloatArray
from eim_ros.core.checks import checked_whole, expect, is_number, with_hints
from eim_ros.core.errors import DataError, DistributionError, JointStateError, did_you_mean
from eim_ros.learning.models import Gaussian, GaussianMixture, MixtureOfExperts
from eim_ros.learning.models.gaussian import LOG_TWO_PI, checked_generator, triangular_factor
from eim_ros.motion.representation import Representation

LIMIT_TOLERANCE = 1e-6  # [rad] or [m], because positions in messages and files are rounded
DEFAULT_DEVIATION = 1e-5  # [rad] or [m]; well below the noise floor of priors, so motions reach via points
LEAST_DEVIATION = 1e-9  # [rad] or [m]; smaller values are below the rounding errors of the factors
FARTHEST = 5.0  # a squared Mahalanobis distance is plausible up to this number of deviations above its mean
MOST_VALUES = 500  # maximum number of values in all via points; the cost grows with the cube of this number
# Number of phases per basis function at which limits are checked. A check at few phases finds most motions that exceed
# limits. The remaining motions are checked at many phases and at the returned points. In a test with 12 000 motions of
# a planar arm and 5 to 20 functions of both kinds, no motion then exceeded a limit at any of 5001 phases. With checks
# at few phases only, one motion in 3000 exceeded a limit, by up to 2e-4 rad.
FEW_CHECKS, MANY_CHECKS = 20, 200
BLOCK = 2000  # number of motions per check; limits the memory
MANY_PROPOSED = 50_000  # number of motions drawn before the acceptance rate is estimated
MOST_PROPOSED = 1_000_000  # maximum number of motions drawn: 40 s for ten joints, or 6 s if tasks reject most motions
MANY_ACCEPTED = 1000  # this number of accepted motions determines the acceptance rate to about 3 %
ROBOT, RECORDING = "robot", "recording"
LIMITS_SOURCES = (ROBOT, RECORDING)
"""Sources of joint limits: the robot, or the range of the recorded motions."""


@dataclass(frozen=True, eq=False)
class MotionSamples:
    """Sampled motions with their densities.

    Attributes
    ----------
    positions : (n, n_points, n_joints)
        Joint positions [rad] or [m].
    log_prob : (n,)
        Log density of the weights under the distribution of the motions [nat].
    component : (n,) of int64
        Component that each motion was drawn from.
    """

    positions: FloatArray
    log_prob: FloatArray
    component: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.positions)


@with_hints
@dataclass(frozen=True, eq=False)
class TaskPoint:
    """Task at a phase of a motion, for example to reach a line with the tip at the end.

    Attributes
    ----------
    distance : callable
        Distance (n,) of configurations (n, n_joints) [rad] or [m] from the task, in any unit. The columns are the
        joints of the prior, in its order.
    tolerance : float
        Maximum distance.
    phase : float
        0 at the start, 1 at the end of the motion.

    Examples
    --------
    The tip of a planar arm should end within 5 cm of a line:

    >>> import torch
    >>> from eim_ros.motion import TaskPoint
    >>> from eim_ros.planar import PlanarArm, line_task
    >>> arm, line = PlanarArm(n_links=2), line_task((1.0, -1.0), (1.0, 1.0))
    >>> task = TaskPoint(lambda q: line.distance(arm.tip(torch.as_tensor(q))).numpy(), tolerance=0.05)
    >>> task.phase
    1.0
    """

    distance: Callable[[FloatArray], FloatArray]
    tolerance: float
    phase: float = 1.0

    def __post_init__(self) -> None:
        if not callable(self.distance):
            raise DataError(f"the distance of a task must be a function, got {self.distance!r}", self.distance)
        if not (is_number(self.tolerance) and 0.0 < self.tolerance < math.inf):
            raise DataError(f"the tolerance of a task must be positive, got {self.tolerance}", self.tolerance)
        if not (is_number(self.phase) and 0.0 <= self.phase <= 1.0):
            raise DataError(f"the phase of a task must be from 0 to 1, got {self.phase}", self.phase)

    def fulfilled(self, configurations: FloatArray) -> npt.NDArray[np.bool_]:
        """Return whether configurations (n, n_joints) are within the tolerance, (n,)."""
        distances = np.asarray(self.distance(configurations), dtype=np.float64)
        if distances.shape != (len(configurations),):
            raise DataError(
                f"the distance of a task must have shape ({len(configurations)},), got {distances.shape}",
                distances.shape,
            )
        return np.asarray(distances <= self.tolerance)


@with_hints
@dataclass(frozen=True, eq=False)
class MotionDistribution:
    """Gaussian mixture of motions for one context, truncated to joint limits and tasks.

    Attributes
    ----------
    representation : Representation
    mixture : GaussianMixture
        Mixture of the weights, float64, without batch dimensions.
    lower, upper : (n_joints,)
        Joint limits [rad] or [m].
    log_evidence : float
        Log density [nat] of the via points before conditioning on them, ignoring the limits. The value is 0 without via
        points.
    limits_source : str
        "robot", or "recording" if the limits of the robot are unknown and the range of the recording replaces them.
    tasks : tuple of TaskPoint

    Examples
    --------
    Motions of one joint, with independent positions at the start, the middle and the end:

    >>> import numpy as np, torch
    >>> from eim_ros.learning.models import GaussianMixture
    >>> from eim_ros.motion import Basis, MotionDistribution, Representation
    >>> representation = Representation(Basis("via-points", n_functions=3), ("elbow",), n_points=11)
    >>> mixture = GaussianMixture(torch.zeros(1), torch.zeros(1, 3), 0.2 * torch.eye(3)[None]).to(dtype=torch.float64)
    >>> distribution = MotionDistribution(representation, mixture, np.array([-2.0]), np.array([2.0]))
    >>> distribution.sample(100, torch.Generator().manual_seed(0)).positions.shape
    (100, 11, 1)
    >>> round(float(distribution.marginal(0.5).covariances.squeeze().sqrt()), 3)  # [rad]
    0.2
    """

    representation: Representation
    mixture: GaussianMixture
    lower: FloatArray
    upper: FloatArray
    log_evidence: float = 0.0
    limits_source: str = ROBOT
    tasks: tuple[TaskPoint, ...] = ()

    @property
    def n_components(self) -> int:
        return self.mixture.n_components

    @cached_property
    def acceptance_rate(self) -> float:
        """Share of the motions of the mixture that respect the limits and fulfil the tasks.

        This rate is estimated from at most 50 000 motions with a fixed seed. The error is about 3 % if the rate is
        above 0.02.
        """
        if not (self.tasks or self._is_limited):
            return 1.0
        generator, n_drawn, n_accepted = torch.Generator().manual_seed(0), 0, 0
        while n_accepted < MANY_ACCEPTED and n_drawn < MANY_PROPOSED:
            weights, _ = self._proposed(BLOCK, generator)
            n_drawn += BLOCK
            n_accepted += int(self._accepts(weights.numpy()).sum())
        return n_accepted / n_drawn

    def sample(
        self, n_samples: int, generator: torch.Generator | None = None, n_points: int | None = None
    ) -> MotionSamples:
        """Draw motions within the joint limits that fulfil the tasks.

        Motions are drawn from the mixture. Motions that exceed the limits or miss a task are rejected. The returned
        motions respect the limits at and between all points.

        Parameters
        ----------
        n_samples : int
        generator : torch.Generator, optional
            By default, the global generator of torch.
        n_points : int, optional
            Number of points of each motion, equally spaced in time. By default, the number in the demonstrations.

        Raises
        ------
        DistributionError
            If less than a tenth of the motions are accepted, and a million motions of the mixture would not be enough.
        """
        n_samples = checked_whole(n_samples, 0, "the number of motions")
        checked_generator(generator)
        phases = self._phases(n_points)
        weights, component = self._drawn(n_samples, generator, phases)
        positions = self.representation.positions(weights.numpy(), phases)
        return MotionSamples(positions, self._log_truncated(weights).numpy(), component.numpy())

    def _drawn(self, n_samples: int, generator: torch.Generator | None, phases: FloatArray) -> tuple[Tensor, Tensor]:
        """Return weights (n, n_weights) and their components (n,), by rejection."""
        weights, component = self._proposed(n_samples, generator)
        valid = self._accepts(weights.numpy(), phases)
        n_drawn, n_accepted = n_samples, int(valid.sum())
        most = max(MOST_PROPOSED, 10 * n_samples)
        while not valid.all():
            if n_drawn >= MANY_PROPOSED and n_accepted * most < n_samples * n_drawn:
                rate, is_recorded = n_accepted / n_drawn, self.limits_source == RECORDING
                wanted = "within the range of the recording" if is_recorded else "within the joint limits"
                wanted += " and fulfil the tasks" if self.tasks else ""
                raise DistributionError(
                    f"only {n_accepted} of {n_drawn} motions (acceptance rate {rate:.2g}) are {wanted}, which is too "
                    f"few to draw {n_samples} motions: request fewer motions, allow larger tolerances, or choose "
                    "via points and a context nearer to the demonstrations"
                    f"{', or train with --robot' if is_recorded else ''}",
                    rate,
                )
            proposed, of = self._proposed(BLOCK, generator)
            accepted = np.flatnonzero(self._accepts(proposed.numpy(), phases))
            n_drawn, n_accepted = n_drawn + BLOCK, n_accepted + len(accepted)
            rows = np.flatnonzero(~valid)[: len(accepted)]
            weights[rows], component[rows] = proposed[accepted[: len(rows)]], of[accepted[: len(rows)]]
            valid[rows] = True
        return weights, component

    def _proposed(self, n_samples: int, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        """Draw weights (n, n_weights) from the mixture, and return them with their components (n,)."""
        component = torch.multinomial(self.mixture.weights, n_samples, replacement=True, generator=generator)
        weights = torch.randn(n_samples, self.mixture.n_dims, generator=generator, dtype=torch.float64)
        for index in component.unique().tolist():  # one factor per sample would take gigabytes
            rows = component == index
            weights[rows] = self.mixture.means[index] + weights[rows] @ self.mixture.scale_trils[index].mT
        return weights, component

    def _accepts(self, weights: FloatArray, phases: FloatArray | None = None) -> npt.NDArray[np.bool_]:
        """Return whether motions with weights (n, n_weights) fulfil the tasks and respect the limits.

        Limits are checked at few phases. If the phases of the returned points are given, limits are checked at these
        phases and at many other phases.
        """
        accepted = np.ones(len(weights), dtype=bool)
        for task in self.tasks:  # tasks come first, because each task needs only one phase
            rows = np.flatnonzero(accepted)
            configurations = self.representation.positions(weights[rows], np.array([task.phase]))[:, 0]
            accepted[rows] = task.fulfilled(configurations)
        if not self._is_limited:
            return accepted
        n_functions = self.representation.basis.n_functions
        checked = [np.linspace(0.0, 1.0, FEW_CHECKS * n_functions + 1)]
        if phases is not None:
            checked.append(np.union1d(np.linspace(0.0, 1.0, MANY_CHECKS * n_functions + 1), phases))
        for some in checked:
            values, rows = self.representation.basis(some).T, np.flatnonzero(accepted)
            size = max(1, BLOCK * FEW_CHECKS * n_functions // len(some))
            for block in np.split(rows, range(size, len(rows), size)):
                by_joint = weights[block].reshape(len(block), self.representation.n_joints, n_functions) @ values
                within = (by_joint.min(axis=2) >= self.lower) & (by_joint.max(axis=2) <= self.upper)
                accepted[block] = within.all(axis=1)
        return accepted

    @property
    def _is_limited(self) -> bool:
        return bool(np.isfinite(self.lower).any() or np.isfinite(self.upper).any())

    def condition(self, via_points: Sequence[ViaPoint]) -> MotionDistribution:
        """Return the distribution of the motions that pass through via points, such as a goal at phase 1.

        Raises
        ------
        EimError
            If a via point has unknown joints or exceeds the joint limits, or if there are too many via points.
        """
        if not isinstance(via_points, Sequence):
            raise DataError(f"via points must be a list of ViaPoint, got {via_points!r}", via_points)
        for point in via_points:
            expect(point, ViaPoint, "a via point", DataError)
            if self.limits_source == ROBOT:
                self._check_limits(point)
        mixture, log_evidence = condition_on(via_points, self.mixture, self.representation)
        lower, upper = (self.lower, self.upper) if self.limits_source == ROBOT else self._widened(via_points)
        log_evidence += self.log_evidence
        return replace(self, mixture=mixture, lower=lower, upper=upper, log_evidence=log_evidence)

    def reaching(self, *tasks: TaskPoint) -> MotionDistribution:
        """Return the distribution of the motions that fulfil tasks, such as reaching a line at the end.

        Motions that miss a task are rejected. Rejection is efficient enough for tasks of one dimension, such as a line.
        For a complete pose, use a configuration from inverse kinematics as a via point instead.

        Examples
        --------
        >>> import numpy as np, torch
        >>> from eim_ros.learning.models import GaussianMixture
        >>> from eim_ros.motion import Basis, MotionDistribution, Representation, TaskPoint
        >>> representation = Representation(Basis("via-points", n_functions=3), ("slide",), n_points=11)
        >>> mixture = GaussianMixture(torch.zeros(1), torch.zeros(1, 3), torch.eye(3)[None]).to(dtype=torch.float64)
        >>> distribution = MotionDistribution(representation, mixture, np.array([-2.0]), np.array([2.0]))
        >>> near = distribution.reaching(TaskPoint(lambda q: abs(q[:, 0] - 0.5), tolerance=0.1))
        >>> ends = near.sample(100, torch.Generator().manual_seed(0)).positions[:, -1]
        >>> bool((abs(ends - 0.5) <= 0.1).all())
        True
        """
        for task in tasks:
            expect(task, TaskPoint, "a task", DataError)
        return replace(self, tasks=(*self.tasks, *tasks))

    def log_prob(self, weights: Tensor) -> Tensor:
        """Return the log density (n,) [nat] of weights (n, n_weights).

        The density of motions that exceed the limits or miss a task is zero. The normalisation has the accuracy of
        `acceptance_rate`.
        """
        accepted = torch.from_numpy(self._accepts(weights.detach().numpy(), self.representation.grid))
        return self._log_truncated(weights).masked_fill(~accepted, -torch.inf)

    def _log_truncated(self, weights: Tensor) -> Tensor:
        """Return the log density (n,) [nat] of weights (n, n_weights) that respect limits and tasks."""
        model = MixtureOfExperts.from_mixture(self.mixture)
        # If no motion was accepted, the rate is below one in MANY_PROPOSED.
        acceptance = max(self.acceptance_rate, 1.0 / MANY_PROPOSED)
        return model.log_prob(weights.new_zeros(len(weights), 0), weights) - math.log(acceptance)

    def marginal(self, phase: float) -> GaussianMixture:
        """Return the mixture of the joint positions at a phase, with means (n_components, n_joints).

        The mixture is a prior over configurations. This prior is not truncated to limits and tasks.
        """
        joints = range(self.representation.n_joints)
        design = torch.from_numpy(self.representation.design(phase, joints))
        factors = triangular_factor(design @ self.mixture.scale_trils)
        return GaussianMixture(self.mixture.log_weights, self.mixture.means @ design.mT, factors)

    def component_motions(self, n_points: int | None = None) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the log weights, mean motions and standard deviations of the components, without truncation.

        The log weights have the shape (n_components,). Means and standard deviations have the shape (n_components,
        n_points, n_joints).
        """
        phases = self._phases(n_points)
        means = self.representation.positions(self.mixture.means.numpy(), phases)
        n_functions, n_joints = self.representation.basis.n_functions, self.representation.n_joints
        factors = self.mixture.scale_trils.numpy().reshape(self.n_components, n_joints, n_functions, -1)
        spread = np.einsum("pb,kjbw->kpjw", self.representation.basis(phases), factors)
        return self.mixture.log_weights.numpy(), means, np.sqrt(np.square(spread).sum(axis=-1))

    def _check_limits(self, point: ViaPoint) -> None:
        known = self.representation.joint_names
        for name, position in zip(point.joint_names, point.positions, strict=True):
            if name not in known:
                continue  # `condition_on` reports unknown joints
            joint = known.index(name)
            if not self.lower[joint] - LIMIT_TOLERANCE <= position <= self.upper[joint] + LIMIT_TOLERANCE:
                raise JointStateError(
                    f"a via point has joint {name} at {position:.6g}, but the limits are {self.lower[joint]:.6g} and "
                    f"{self.upper[joint]:.6g}",
                    position,
                )

    def _widened(self, via_points: Sequence[ViaPoint]) -> tuple[FloatArray, FloatArray]:
        """Return the limits. Joints with via points outside the recorded range have no recorded limits."""
        lower, upper = self.lower.copy(), self.upper.copy()
        for point in via_points:
            for name, position in zip(point.joint_names, point.positions, strict=True):
                joint = self.representation.joint_names.index(name)
                if not self.lower[joint] <= position <= self.upper[joint]:
                    lower[joint], upper[joint] = -np.inf, np.inf
        return lower, upper

    def _phases(self, n_points: int | None) -> FloatArray:
        if n_points is None:
            return self.representation.grid
        return np.linspace(0.0, 1.0, checked_whole(n_points, 0, "the number of points"))


@with_hints
@dataclass(frozen=True)
class ViaPoint:
    """Desired positions of some joints at a phase.

    Attributes
    ----------
    phase : float
        0 at the start, 1 at the end of the motion.
    joint_names : tuple of str
        At least one joint. All other joints are free.
    positions : tuple of float
        Desired positions [rad] or [m].
    standard_deviations : tuple of float
        Tolerance of each position [rad] or [m]. If empty, each tolerance is 1e-5.

    Examples
    --------
    Halfway through the motion, the elbow should be at 0.3 rad, within about 0.01 rad:

    >>> from eim_ros.motion import ViaPoint
    >>> ViaPoint(phase=0.5, joint_names=("elbow",), positions=(0.3,), standard_deviations=(0.01,)).phase
    0.5
    """

    phase: float
    joint_names: tuple[str, ...]
    positions: tuple[float, ...]
    standard_deviations: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not (is_number(self.phase) and 0.0 <= self.phase <= 1.0):
            raise DataError(f"the phase of a via point must be from 0 to 1, got {self.phase}", self.phase)
        kinds: dict[str, Any] = {"joint_names": str, "positions": Real, "standard_deviations": Real}
        for name, kind in kinds.items():
            values = getattr(self, name)
            is_list = isinstance(values, Sequence) and not isinstance(values, str)
            if not (is_list and all(isinstance(value, kind) for value in values)):
                raise DataError(f"{name} of a via point must be a sequence of {kind.__name__}, got {values!r}", values)
        names, n = ", ".join(self.joint_names), len(self.joint_names)
        if not n or len(set(self.joint_names)) < n:
            raise JointStateError(
                f"a via point must have at least one joint, each once, got '{names}'", self.joint_names
            )
        if len(self.positions) != n or len(self.standard_deviations) not in (0, n):
            raise DataError(
                f"a via point of {n} joints has {len(self.positions)} positions and {len(self.standard_deviations)} "
                "standard deviations; expected equal numbers",
                self.positions,
            )
        if not all(map(math.isfinite, self.positions)):
            raise DataError(f"positions of a via point must be finite, got {list(self.positions)}", self.positions)
        if not all(LEAST_DEVIATION <= value < math.inf for value in self.standard_deviations):
            raise DataError(
                f"standard deviations of a via point must be finite and at least {LEAST_DEVIATION}, got "
                f"{list(self.standard_deviations)}",
                self.standard_deviations,
            )


def condition_on(
    via_points: Sequence[ViaPoint], mixture: GaussianMixture, representation: Representation
) -> tuple[GaussianMixture, float]:
    """Condition a mixture of weights on via points, in closed form and for all points at once.

    A via point observes y = A w + noise with covariance R. For a component w ~ N(m, L L'), the pair [y, w] is normal
    with the factor [[A L, R^1/2], [L, 0]]. The weight of the component is multiplied by the density of y, and the
    component itself becomes the distribution of w given y.

    A via point far from all motions is in the tails of the density, which a few motions cannot determine. Without a
    correction, only a single component would remain. Therefore, the distances of all components from such via points
    are divided by a common factor. The nearest component is then at a plausible distance.

    Return the mixture of the weights given the via points, without batch dimensions, like the input. Also return the
    log density [nat] of the via points under the input mixture, without this correction.

    Raises
    ------
    JointStateError
        If the motions lack a joint of a via point.
    DataError
        If there are too many via points, or if they contradict each other numerically.

    Examples
    --------
    >>> import torch
    >>> from eim_ros.learning.models import GaussianMixture
    >>> from eim_ros.motion import Basis, Representation, ViaPoint
    >>> from eim_ros.motion.distribution import condition_on
    >>> representation = Representation(Basis("via-points", n_functions=3), ("elbow",), n_points=11)
    >>> mixture = GaussianMixture(torch.zeros(1), torch.zeros(1, 3), 0.2 * torch.eye(3)[None]).to(dtype=torch.float64)
    >>> given, _ = condition_on([ViaPoint(0.5, ("elbow",), (0.3,))], mixture, representation)
    >>> (given.means.numpy().round(3) + 0.0).tolist()
    [[0.0, 0.3, 0.0]]
    """
    if not via_points:
        return mixture, 0.0
    design, wanted, deviations = _observation(via_points, representation)
    if len(wanted) > MOST_VALUES:
        raise DataError(
            f"via points may contain at most {MOST_VALUES} positions in total, got {len(wanted)}", len(wanted)
        )
    return observed(mixture, *(part.to(mixture.means) for part in (design, wanted, deviations)))


def observed(
    mixture: GaussianMixture, design: Tensor, wanted: Tensor, deviations: Tensor
) -> tuple[GaussianMixture, float]:
    """Condition a mixture of w on the observation y = A w + noise.

    `design` (m, n_weights) is A, `wanted` (m,) is y, and `deviations` (m,) are the standard deviations of the noise.
    """
    factors, n_wanted = mixture.scale_trils, len(wanted)
    noise = torch.diag(deviations).expand(len(factors), -1, -1)
    rows = torch.cat(
        [
            torch.cat([design @ factors, noise], -1),
            torch.cat([factors, factors.new_zeros(*factors.shape[:-1], n_wanted)], -1),
        ],
        -2,
    )
    means = torch.cat([mixture.means @ design.mT, mixture.means], -1)
    try:
        joint = Gaussian(means, triangular_factor(rows))
        peak = -joint.scale_tril.diagonal(dim1=-2, dim2=-1)[:, :n_wanted].log().sum(-1) - 0.5 * n_wanted * LOG_TWO_PI
        log_prob, components = joint.split(range(n_wanted), wanted)
        square = 2.0 * (peak - log_prob)  # Mahalanobis distances of the observation from the components
        scaled = square / (square.min() / (n_wanted + FARTHEST * math.sqrt(2.0 * n_wanted))).clamp_min(1.0)
        given = GaussianMixture(mixture.log_weights + peak - 0.5 * scaled, components.mean, components.scale_tril)
    except DistributionError as error:
        raise DataError(
            "the via points are too precise for float64, or too far from all motions: increase their standard "
            "deviations, or move them nearer to the motions",
        ) from error
    return given, float(torch.logsumexp(mixture.log_weights + log_prob, -1))


def _observation(via_points: Sequence[ViaPoint], representation: Representation) -> tuple[Tensor, Tensor, Tensor]:
    """Return the rows A (m, n_weights), the desired positions (m,) and their standard deviations (m,)."""
    rows: list[Tensor] = []
    wanted: list[float] = []
    deviations: list[float] = []
    for point in via_points:
        unknown = [name for name in point.joint_names if name not in representation.joint_names]
        if unknown:
            known = ", ".join(representation.joint_names) + did_you_mean(unknown[0], representation.joint_names)
            raise JointStateError(
                f"a via point has unknown joints {', '.join(unknown)}; the joints are {known}", unknown
            )
        joints = [representation.joint_names.index(name) for name in point.joint_names]
        rows.append(torch.from_numpy(representation.design(point.phase, joints)))
        wanted.extend(point.positions)
        deviations.extend(point.standard_deviations or [DEFAULT_DEVIATION] * len(joints))
    return torch.cat(rows), torch.tensor(wanted, dtype=torch.float64), torch.tensor(deviations, dtype=torch.float64)
