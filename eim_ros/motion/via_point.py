"""Via points: wishes of where a motion is at a phase, as observations of its weights with noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from eim_ros.distributions import Gaussian, GaussianMixture
from eim_ros.distributions.gaussian import triangular_factor
from eim_ros.errors import DataError, DistributionError, JointStateError, did_you_mean
from eim_ros.kinematics.arguments import is_number
from eim_ros.motion.representation import Representation

__all__ = ["DEFAULT_DEVIATION", "ViaPoint", "condition_on"]

DEFAULT_DEVIATION = 1e-3  # [rad] or [m]
LEAST_DEVIATION = 1e-9  # [rad] or [m]: exacter wishes are below the rounding errors of the factors
MOST_VALUES = 500  # of all via points together: the cost grows with their cube


@dataclass(frozen=True)
class ViaPoint:
    """Where some joints are at a phase.

    Attributes
    ----------
    phase : float
        0 at the start, 1 at the end of the motion.
    joint_names : tuple of str
        At least one; the other joints are free.
    positions : tuple of float
        [rad] or [m].
    standard_deviations : tuple of float
        How exactly each is wanted [rad] or [m]; empty: 1e-3 each.
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
    """Mixture of the weights given via points, and the log density [nat] of their positions before.

    A via point observes y = A w + noise of covariance R. For a component w ~ N(m, L L') the pair [y, w] is normal with
    the factor [[A L, R^1/2], [L, 0]]: its log density of y multiplies the component's weight, and what remains is
    w given y. In closed form, for all via points at once.

    Parameters
    ----------
    via_points : sequence of ViaPoint
    mixture : GaussianMixture
        Of the weights, no batch.
    representation : Representation

    Raises
    ------
    JointStateError
        A joint that the motion does not have.
    DataError
        Too many of them, or wishes that exclude each other numerically.
    """
    if not via_points:
        return mixture, 0.0
    design, wanted, deviations = _observation(via_points, representation)
    if len(wanted) > MOST_VALUES:
        raise DataError(f"via points may hold {MOST_VALUES} positions in all, got {len(wanted)}", len(wanted))
    design, wanted, deviations = (part.to(mixture.means) for part in (design, wanted, deviations))
    factors = mixture.scale_trils
    noise = torch.diag(deviations).expand(len(factors), -1, -1)
    rows = torch.cat(
        [
            torch.cat([design @ factors, noise], -1),
            torch.cat([factors, factors.new_zeros(*factors.shape[:-1], len(wanted))], -1),
        ],
        -2,
    )
    means = torch.cat([mixture.means @ design.mT, mixture.means], -1)
    try:
        log_prob, components = Gaussian(means, triangular_factor(rows)).split(range(len(wanted)), wanted)
        log_joint = mixture.log_weights + log_prob
        given = GaussianMixture(log_joint, components.mean, components.scale_tril)
    except DistributionError as error:
        raise DataError("the via points are too exact, or too far from all motions, to be computed with") from error
    return given, float(torch.logsumexp(log_joint, -1))


def _observation(via_points: Sequence[ViaPoint], representation: Representation) -> tuple[Tensor, Tensor, Tensor]:
    """Rows A (m, n_weights), wanted positions (m,) and their standard deviations (m,)."""
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
