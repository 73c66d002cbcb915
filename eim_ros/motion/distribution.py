"""Distribution of motions for one context: a Gaussian mixture of weights, conditioned on via points.

A via point says where some joints should be at a phase. It is a noisy linear observation of the weights, so the
conditional mixture has a closed form.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eim_ros.core.arrays import FloatArray
from eim_ros.core.checks import checked_whole, expect, is_number
from eim_ros.core.errors import DataError, DistributionError, JointStateError, did_you_mean
from eim_ros.learning.models import Gaussian, GaussianMixture, MixtureOfExperts
from eim_ros.learning.models.gaussian import LOG_TWO_PI, checked_generator, triangular_factor
from eim_ros.motion.representation import Representation

LIMIT_TOLERANCE = 1e-6  # [rad] or [m]; positions in messages and files are rounded
DEFAULT_DEVIATION = 1e-5  # [rad] or [m]; well below the noise floor of priors, so that motions reach via points
LEAST_DEVIATION = 1e-9  # [rad] or [m]; smaller values are below the rounding errors of the factors
FARTHEST = 5.0  # standard deviations above its mean up to which a squared Mahalanobis distance is plausible
MOST_VALUES = 500  # maximum number of values in all via points; the cost grows with its cube


@dataclass(frozen=True, eq=False)
class MotionSamples:
    """Sampled motions with their densities.

    Attributes
    ----------
    positions : (n, n_points, n_joints)
        Joint positions [rad] or [m].
    log_prob : (n,)
        Log density of the weights under the distribution that they were drawn from [nat].
    component : (n,) of int64
        Component that each motion was drawn from.
    valid : (n,) of bool
        Whether all points are within the joint limits.
    """

    positions: FloatArray
    log_prob: FloatArray
    component: npt.NDArray[np.int64]
    valid: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.positions)


@dataclass(frozen=True, eq=False)
class MotionDistribution:
    """Gaussian mixture of motions for one context.

    Attributes
    ----------
    representation : Representation
    mixture : GaussianMixture
        Mixture of the weights, float64, without batch dimensions.
    lower, upper : (n_joints,)
        Joint limits [rad] or [m].
    log_evidence : float
        Log density [nat] of the via points before conditioning on them; 0 without via points.

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

    @property
    def n_components(self) -> int:
        return self.mixture.n_components

    def sample(
        self, n_samples: int, generator: torch.Generator | None = None, n_points: int | None = None
    ) -> MotionSamples:
        """Draw motions.

        Parameters
        ----------
        n_samples : int
        generator : torch.Generator, optional
            Default: the global generator of torch.
        n_points : int, optional
            Number of points of each motion, equally spaced in time; default: as demonstrated.
        """
        n_samples = checked_whole(n_samples, 0, "the number of motions")
        checked_generator(generator)
        probability = self.mixture.weights
        component = torch.multinomial(probability, n_samples, replacement=True, generator=generator)
        weights = torch.randn(n_samples, self.mixture.n_dims, generator=generator, dtype=torch.float64)
        for index in component.unique().tolist():  # one factor per sample would take gigabytes
            rows = component == index
            weights[rows] = self.mixture.means[index] + weights[rows] @ self.mixture.scale_trils[index].mT
        positions = self.representation.positions(weights.numpy(), self._phases(n_points))
        within = ((positions >= self.lower) & (positions <= self.upper)).reshape(n_samples, -1)
        return MotionSamples(
            positions, self.log_prob(weights).numpy(), component.numpy(), np.asarray(within.all(axis=1))
        )

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
            self._check_limits(expect(point, ViaPoint, "a via point", DataError))
        mixture, log_evidence = condition_on(via_points, self.mixture, self.representation)
        return replace(self, mixture=mixture, log_evidence=self.log_evidence + log_evidence)

    def log_prob(self, weights: Tensor) -> Tensor:
        """Return the log density (n,) [nat] of weights (n, n_weights)."""
        model = MixtureOfExperts.from_mixture(self.mixture)
        return model.log_prob(weights.new_zeros(len(weights), 0), weights)

    def marginal(self, phase: float) -> GaussianMixture:
        """Return the mixture of the joint positions at a phase, with means (n_components, n_joints).

        It is a prior over configurations.
        """
        joints = range(self.representation.n_joints)
        design = torch.from_numpy(self.representation.design(phase, joints))
        factors = triangular_factor(design @ self.mixture.scale_trils)
        return GaussianMixture(self.mixture.log_weights, self.mixture.means @ design.mT, factors)

    def component_motions(self, n_points: int | None = None) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the log weights, mean motions and standard deviations of the components.

        The log weights have shape (n_components,), the others have shape (n_components, n_points, n_joints).
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
                    f"a via point wants joint {name} at {position:.6g}, its limits are {self.lower[joint]:.6g} and "
                    f"{self.upper[joint]:.6g}",
                    position,
                )

    def _phases(self, n_points: int | None) -> FloatArray:
        if n_points is None:
            return self.representation.grid
        return np.linspace(0.0, 1.0, checked_whole(n_points, 0, "the number of points"))


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
        Tolerance of each position [rad] or [m]. Empty means 1e-5 each.

    Examples
    --------
    Half way through the motion the elbow should be at 0.3 rad, within about 0.01 rad:

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
                raise DataError(f"{name} of a via point must be several {kind.__name__}, got {values!r}", values)
        names, n = ", ".join(self.joint_names), len(self.joint_names)
        if not n or len(set(self.joint_names)) < n:
            raise JointStateError(f"a via point must name joints, each once, got '{names}'", self.joint_names)
        if len(self.positions) != n or len(self.standard_deviations) not in (0, n):
            raise DataError(
                f"a via point of {n} joints has {len(self.positions)} positions and {len(self.standard_deviations)} "
                "standard deviations",
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
    with the factor [[A L, R^1/2], [L, 0]]. The density of y multiplies the weight of the component, and the component
    itself becomes the distribution of w given y.

    The tails of a density of few motions are not known, and they would leave a single way to a wish that no motion came
    near. The distances of all components from such via points are therefore divided by a common factor, until the
    nearest component is at a plausible distance.

    Return the mixture of the weights given the via points, without batch dimensions as the given one. Also return the
    log density [nat] of the via points under the given mixture, which is not scaled.

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
        raise DataError(f"via points may contain {MOST_VALUES} positions in total, got {len(wanted)}", len(wanted))
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
            "the via points are too exact, or too far from all motions, for the precision of numbers"
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
            raise JointStateError(f"a via point names unknown joints {', '.join(unknown)}; known: {known}", unknown)
        joints = [representation.joint_names.index(name) for name in point.joint_names]
        rows.append(torch.from_numpy(representation.design(point.phase, joints)))
        wanted.extend(point.positions)
        deviations.extend(point.standard_deviations or [DEFAULT_DEVIATION] * len(joints))
    return torch.cat(rows), torch.tensor(wanted, dtype=torch.float64), torch.tensor(deviations, dtype=torch.float64)
