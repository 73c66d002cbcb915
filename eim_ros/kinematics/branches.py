"""Named branches of solutions, defined by the signs of quantities that are computed from the lines of the joint axes.

`Branches` contains the definitions. The lines in the base frame are computed from the Jacobian. If a joint turns about
an axis through p in direction a, and the tip is at t, the velocity of the tip is a x (t - p).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from eim_ros.core.arrays import BoolArray, FloatArray
from eim_ros.core.checks import as_numbers, expect_mapping
from eim_ros.core.errors import ConstraintError, RobotError, did_you_mean
from eim_ros.kinematics.urdf import MULTIPLIER, PRISMATIC, TRANSLATION
from eim_ros.solver import Chain

NAMES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {"shoulder": ("left", "right"), "elbow": ("down", "up"), "wrist": ("flip", "no-flip")}
)
"""Two labels for each name: the first for negative and the second for positive quantities."""

BOUNDARY = 1e-6  # smaller quantities count as 0; all quantities are at most about 1
ALIKE = 0.02  # axes with a smaller sine count as parallel, and axes with a smaller distance / reach as intersecting
OFFSET = 0.01  # a shoulder is offset if its offset / reach is larger
TINY = np.finfo(np.float64).tiny
CLEARLY = 0.5  # two axes have the same direction if the cosine of their angle is larger
X, Z = np.array([1.0, 0.0, 0.0]), np.array([0.0, 0.0, 1.0])


@dataclass(frozen=True, eq=False)
class Branches:
    """Names of the branches of an arm: shoulder left or right, elbow up or down, wrist flip or no-flip.

    A label is the sign of a quantity. In the following, a_i is the direction of axis i in the base frame, p_i is a
    point on axis i, and z is the z axis of the base. The labels do not depend on the zeros of the joint angles.

    - `shoulder` is "right" if (a_1 x b) . (W - p_1) > 0, and "left" if it is negative. The quantity is divided by the
      reach of the arm.
    - `elbow` is "up" if z . (u - d (u . d) / (d . d)) > 0, with u = E - S and d = F - S, and "down" if it is negative.
      "Up" means that the elbow is above the line from shoulder to wrist. The quantity is divided by the length of u.
    - `wrist` is "no-flip" if c . (a_(m-1) x a_(m+1)) > 0, and "flip" if it is negative. Joint m is the middle
      joint of the wrist. The quantity is the sine of the angle of joint m, which is 0 if the axes of its neighbours are
      in line.

    The names are defined for two kinds of arms. Axes may miss these conditions by up to 2 % of the reach:

    - An arm with six joints, whose last three axes meet in W, or whose axes 2 to 4 are parallel (UR). For a UR, W is
      the point of axis 6 nearest to axis 5. The elbow needs parallel axes 2 and 3. S is a point of axis 2, E is a point
      of axis 3, and F is W (for a UR, a point of axis 4). All three are projected onto a plane normal to axis 2.
    - An arm with seven joints, whose first three axes meet in S, and whose last three axes meet in F. E is the point of
      axis 4 nearest to S. In the formula of the shoulder, E - S replaces W - p_1.

    The direction a_1 points up, b is along axis 2, and c is along axis m. The signs of b and c are chosen as follows,
    so that a label does not depend on the direction of an axis in the URDF:

    - If the plane of the arm is offset from axis 1, the label of the shoulder is the side of the offset, seen from
      above in the direction of the wrist.
    - Otherwise "right" is the side where axis 2 is in front of axis 1. If the axes meet, "right" is the side of +x in
      the middle of the limits of joint 1. If joint 1 has no limits, b is the direction in the URDF.
    - With "right" and "no-flip", a hand on a forearm that points away from axis 1 bends down in the middle of the
      limits of the joint before joint m. If that joint has no limits, and for UR arms, c is the direction in the URDF.

    If the quantity is nearly 0, there is no label. The arm is then singular, except at the elbow if the line from
    shoulder to wrist is vertical.

    Attributes
    ----------
    robot : str
        Name of the robot.
    reasons : mapping of str to str
        Reason for each name that is not defined for the arm.

    Examples
    --------
    >>> from eim_ros import Robot
    >>> robot = Robot("ur5e")
    >>> {name: str(labels[0]) for name, labels in robot.branches.labels([[0.0, -1.0, 1.5, -0.5, 1.5, 0.0]]).items()}
    {'shoulder': 'left', 'elbow': 'up', 'wrist': 'no-flip'}

    A Panda has a spherical shoulder, but its last three axes do not meet:

    >>> Robot("panda").branches.names
    ()
    """

    robot: str
    reasons: Mapping[str, str]
    dof: int
    chain: Chain = field(repr=False)
    is_parallel: bool = False  # whether axes 2 to 4 are parallel
    centres: tuple[FloatArray, FloatArray] = (X, X)  # shoulder in the base frame, wrist in the tip's frame [m]
    directions: tuple[float, float] = (1.0, 1.0)  # signs of the shoulder and of the wrist
    reach: float = 1.0  # [m]

    @classmethod
    def of(cls, robot: str, chain: Chain, links: FloatArray, bounds: FloatArray) -> Branches:
        """Return the branches of a robot with links (m + 1, 16) and bounds (3, dof)."""
        dof, joints = bounds.shape[1], links[:-1]
        if dof not in (6, 7) or len(joints) != dof or joints[:, PRISMATIC].any() or (joints[:, MULTIPLIER] != 1).any():
            why = "it needs six or seven joints, all of them revolute"
            return cls(robot, dict.fromkeys(NAMES, why), dof, chain)
        middle = np.where(bounds[2] > 0.0, 0.0, 0.5 * (bounds[0] + bounds[1]))
        reach = float(np.linalg.norm(links[:, TRANSLATION], axis=1).sum())
        return cls._of_lines(robot, chain, _Lines(chain, middle[None]), bounds[2] > 0.0, reach)

    @classmethod
    def _of_lines(cls, robot: str, chain: Chain, lines: _Lines, continuous: BoolArray, size: float) -> Branches:
        """Return the branches of an arm, determined from its axes in the middle of the limits."""
        a, p, dof = lines.directions[0], lines.points[0], len(continuous)
        wrist, wrist_gap = _meeting(a[-3:], p[-3:])
        shoulder, shoulder_gap = _meeting(a[:3], p[:3])
        is_spherical = wrist_gap <= ALIKE * size
        is_parallel = dof == 6 and max(_sine(a[1], a[2]), _sine(a[1], a[3])) <= ALIKE and not is_spherical
        if dof == 7 and not (is_spherical and shoulder_gap <= ALIKE * size):
            why = "its first three axes, or its last three axes, do not meet in a point"
            return cls(robot, dict.fromkeys(NAMES, why), dof, chain)
        if dof == 6 and not (is_spherical or is_parallel):
            why = "its last three axes do not meet in a point, and its axes 2 to 4 are not parallel"
            return cls(robot, dict.fromkeys(NAMES, why), dof, chain)
        reasons = {}
        if _sine(a[0], a[1]) <= ALIKE:
            reasons = dict.fromkeys(("shoulder", "elbow"), "its first two axes are parallel")
        elif dof == 6 and _sine(a[1], a[2]) > ALIKE:
            reasons["elbow"] = "its axes 2 and 3 are not parallel"
        if is_parallel:
            wrist = p[5] + a[5] * _nearest(p[5], a[5], p[4], a[4])
        up = -1.0 if a[0] @ Z < -BOUNDARY else 1.0
        sideways = _sideways(lines, up, wrist, size, dof == 7, bool(continuous[0]))
        bends = _sign_if_clear(a[-2] @ a[1], -sideways, bool(continuous[2:5].any() if dof == 7 else continuous[3]))
        ahead = _sign_if_clear(a[-1] @ a[-3], 1.0, bool(continuous[-2]))
        inverse = np.linalg.inv(chain.forward(lines.q)[0])
        wrist_at_tip = inverse[:3, :3] @ wrist + inverse[:3, 3]
        signs = up * sideways, bends * ahead
        return cls(robot, reasons, dof, chain, is_parallel, (shoulder, wrist_at_tip), signs, size)

    @property
    def names(self) -> tuple[str, ...]:
        """Names that are defined for the arm."""
        return tuple(name for name in NAMES if name not in self.reasons)

    def measures(self, q: npt.ArrayLike, names: Iterable[str] | None = None) -> dict[str, FloatArray]:
        """Return the signed quantity (n,) of each name for configurations (n, dof), which is 0 between two branches.

        Without `names`, the result has all names that are defined for the arm.
        """
        names = self.names if names is None else tuple(names)
        if not names:
            return {}
        lines = _Lines(self.chain, self._rows(q))
        a, p, tips = lines.directions, lines.points, lines.tips
        wrist = tips[:, :3, 3] + tips[:, :3, :3] @ self.centres[1]
        if self.dof == 7:
            shoulder, far = np.broadcast_to(self.centres[0], wrist.shape), wrist
            elbow = p[:, 3] + a[:, 3] * _dot(shoulder - p[:, 3], a[:, 3])[:, None]
        else:
            shoulder, elbow, far = p[:, 1], p[:, 2], p[:, 3] if self.is_parallel else wrist
        upper, line = elbow - shoulder, far - shoulder
        found = {}
        if "shoulder" in names:
            out = upper if self.dof == 7 else wrist - p[:, 0]
            side = _dot(_cross(a[:, 0], a[:, 1]), out)
            found["shoulder"] = self.directions[0] * side / self.reach
        if "elbow" in names:
            if self.dof == 6:  # project the vectors onto the plane of the arm
                upper, line = (each - a[:, 1] * _dot(each, a[:, 1])[:, None] for each in (upper, line))
            along = _dot(upper, line) / np.maximum(_dot(line, line), TINY)
            found["elbow"] = (upper[:, 2] - along * line[:, 2]) / _length(upper)
        if "wrist" in names:
            found["wrist"] = self.directions[1] * _dot(a[:, -2], _cross(a[:, -3], a[:, -1]))
        return found

    def labels(self, q: npt.ArrayLike) -> dict[str, npt.NDArray[np.str_]]:
        """Return the labels (n,) of configurations (n, dof) by name. A label is empty between two branches."""
        return {
            name: np.where(measure > BOUNDARY, NAMES[name][1], np.where(measure < -BOUNDARY, NAMES[name][0], ""))
            for name, measure in self.measures(q).items()
        }

    def margins(self, q: npt.ArrayLike, branch: Mapping[str, str]) -> FloatArray:
        """Return how far configurations (n, dof) are inside a branch, (n,); negative if they are outside.

        The margin is the smallest quantity of the names in the branch. Each quantity is multiplied by the sign of its
        label.
        """
        measures = self.measures(q, branch).items()
        return np.asarray(
            np.min([each if branch[name] == NAMES[name][1] else -each for name, each in measures], axis=0)
        )

    def matches(self, q: npt.ArrayLike, branch: Mapping[str, str]) -> BoolArray:
        """Return whether configurations (n, dof) have all labels of a branch, such as {"elbow": "up"}.

        Raises
        ------
        ConstraintError
            If the branch is malformed, or not defined for the arm.
        """
        self.check(checked_branch(branch))
        if not branch:
            return np.ones(len(self._rows(q)), dtype=np.bool_)
        return np.asarray(self.margins(q, branch) > BOUNDARY)

    def check(self, branch: Mapping[str, str]) -> None:
        """Raise `ConstraintError` if a name in a checked branch is not defined for the arm."""
        for name in branch:
            if name in self.reasons:
                rest = f"; names defined for it: {', '.join(self.names)}" if self.names else ""
                raise ConstraintError(
                    f"the branch {name!r} is not defined for robot {self.robot!r}, because {self.reasons[name]}{rest}",
                    name,
                )

    def _rows(self, q: npt.ArrayLike) -> FloatArray:
        """Check the shape of configurations and return them as (n, dof); one configuration (dof,) becomes one row."""
        try:
            rows = as_numbers(q)
        except (TypeError, ValueError) as error:
            raise RobotError(f"configurations must be an (n, {self.dof}) array of numbers", q) from error
        if rows.ndim == 1:
            rows = rows[None] if len(rows) else np.empty((0, self.dof))
        if rows.ndim != 2 or rows.shape[1] != self.dof:
            raise RobotError(f"configurations must have shape (n, {self.dof}), got {np.shape(q)}", q)
        return rows


def checked_branch(branch: Mapping[str, str]) -> dict[str, str]:
    """Return a branch with known names and labels, or raise `ConstraintError`."""
    expect_mapping(branch, "branch", ConstraintError)
    for name, label in branch.items():
        if name not in NAMES:
            known = ", ".join(NAMES) + did_you_mean(str(name), NAMES)
            raise ConstraintError(f"there is no branch {name!r}; the branches are {known}", name)
        if not isinstance(label, str) or label not in NAMES[name]:
            known = " or ".join(map(repr, NAMES[name]))
            raise ConstraintError(f"the label of branch {name!r} must be {known}, got {label!r}", label)
    return dict(branch)


class _Lines:
    """Lines of the joint axes at configurations (n, dof): directions and points (n, dof, 3), and tips (n, 4, 4)."""

    def __init__(self, chain: Chain, q: FloatArray) -> None:
        self.q, self.tips = q, chain.forward(q)
        jacobians = chain.jacobian(q)
        self.directions = np.swapaxes(jacobians[:, 3:], 1, 2)
        # the velocity of the tip is a x (tip - p), so a x velocity points from the tip to the axis
        self.points = self.tips[:, None, :3, 3] + _cross(self.directions, np.swapaxes(jacobians[:, :3], 1, 2))


def _sideways(lines: _Lines, up: float, wrist: FloatArray, size: float, is_redundant: bool, is_free: bool) -> float:
    """Return the sign of b relative to the direction of axis 2. `is_free` means that joint 1 is continuous."""
    a, p = lines.directions[0], lines.points[0]
    if not is_redundant:
        near = p[0] + a[0] * _nearest(p[0], a[0], p[1], a[1])
        foot = p[1] + a[1] * _nearest(p[1], a[1], p[0], a[0])
        offset, ahead = a[1] @ (wrist - foot), up * _cross(a[0], a[1]) @ (foot - near)
        if abs(offset) > OFFSET * size:
            return float(np.sign(offset))
        if abs(ahead) > OFFSET * size:
            return float(np.sign(ahead))
    return _sign_if_clear(up * _cross(a[0], a[1]) @ X, 1.0, is_free)


def _sign_if_clear(cosine: float, sign: float, is_free: bool) -> float:
    """Return `sign` times the sign of a cosine, or 1 if the cosine is near 0 or depends on the zero of a joint."""
    return 1.0 if is_free or abs(cosine) < CLEARLY else float(np.sign(cosine)) * sign


def _meeting(a: FloatArray, p: FloatArray) -> tuple[FloatArray, float]:
    """Return the point in which three axes meet, and their largest gap there (infinite if two axes are parallel)."""
    if min(_sine(a[0], a[1]), _sine(a[1], a[2])) <= ALIKE:
        return p[0], np.inf
    first, second = (p[i] + a[i] * _nearest(p[i], a[i], p[1 - i], a[1 - i]) for i in (0, 1))
    centre = 0.5 * (first + second)
    gaps = _length(np.stack([first - second, _cross(a[2], centre - p[2])]))
    return centre, float(gaps.max())


def _nearest(p: FloatArray, a: FloatArray, other_p: FloatArray, other_a: FloatArray) -> float:
    """Return the coordinate along a line of the point nearest to another line; 0 if the lines are parallel."""
    cosine, between = float(a @ other_a), other_p - p
    return float((between @ a - cosine * (between @ other_a)) / max(1.0 - cosine**2, ALIKE**2))


def _sine(a: FloatArray, b: FloatArray) -> float:
    return float(np.linalg.norm(_cross(a, b)))


def _dot(a: FloatArray, b: FloatArray) -> FloatArray:
    return np.asarray((a * b).sum(axis=-1))


def _length(a: FloatArray) -> FloatArray:
    return np.asarray(np.maximum(np.sqrt(_dot(a, a)), TINY))


def _cross(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return a x b. For a few rows this takes a tenth of the time of `np.cross`."""
    first, second = np.array([1, 2, 0]), np.array([2, 0, 1])
    return np.asarray(a[..., first] * b[..., second] - a[..., second] * b[..., first])
