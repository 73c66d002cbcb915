"""A serial robot: limits, forward kinematics, Jacobian and refinement of configurations, all compiled.

Frames: poses and Jacobians are of the tip link in the base link's frame. Angles in [rad], lengths in [m].
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from eim_ros.errors import ConstraintError, PoseError, RobotError
from eim_ros.kinematics import kernels
from eim_ros.kinematics.chain import MULTIPLIER, OFFSET, PRISMATIC, SOURCE, TRANSLATION, build_chain
from eim_ros.kinematics.curves import empty_blocks, spread_along
from eim_ros.kinematics.lanes import errors_lanes, refine_lanes, verify_lanes
from eim_ros.kinematics.pose import check_pose
from eim_ros.kinematics.self_motion import settle
from eim_ros.kinematics.shipped import SHIPPED_ROBOTS, shipped_urdf
from eim_ros.kinematics.urdf import parse_urdf, read_urdf_source

__all__ = ["Refinement", "Robot", "checked_tolerances", "redundancy"]

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

MAX_ITERATIONS = 60
REFINE_PATIENCE = 6
RESTART_PATIENCE = 3
MAX_RESTARTS = 1000
NO_TOLERANCES = np.empty(0)
FEWEST_FOR_LANES = 6  # seeds from which on refining them side by side is the faster way


@dataclass(frozen=True, eq=False)
class Refinement:
    """Refined configurations and their errors, measured by forward kinematics on the very configurations returned.

    Attributes
    ----------
    positions : (n, dof)
        [rad] or [m], always within the limits; where not converged, the best configuration met.
    converged : (n,) bool
        Whether both errors are within the tolerances.
    iterations : (n,) int
        Steps taken; with restarts, summed over the attempts.
    position_error : (n,)
        [m].
    orientation_error : (n,)
        [rad]; 0 when only the position was asked for.
    """

    positions: FloatArray
    converged: BoolArray
    iterations: npt.NDArray[np.int64]
    position_error: FloatArray
    orientation_error: FloatArray


@dataclass(frozen=True, eq=False)
class Robot:
    """A serial chain of revolute, continuous and prismatic joints, some of which may follow others.

    Attributes
    ----------
    name, base_link, tip_link : str
        Names in the URDF.
    urdf : str
        Links, joints and primitive collision shapes of the whole URDF; with base and tip it rebuilds the robot.
    joint_names : tuple of str
        Independent joints from base to tip.
    lower, upper : (dof,)
        Limits [rad] or [m]; -pi and pi for continuous joints.
    continuous : (dof,) bool
        Joints that may turn endlessly; their results are wrapped to [-pi, pi).
    fingerprint : str
        SHA-256 of the kinematics: equal for equal robots, whatever their links are called.
    links : (m + 1, 16)
        The chain in the form the compiled kernels work on, see `chain.py`.
    bounds : (3, dof)
        Lower limits, upper limits, and 1 where a joint is continuous, else 0; also for the kernels.
    """

    name: str
    base_link: str
    tip_link: str
    urdf: str = field(repr=False)
    joint_names: tuple[str, ...]
    lower: FloatArray
    upper: FloatArray
    continuous: BoolArray
    fingerprint: str
    links: FloatArray = field(repr=False)
    bounds: FloatArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        bounds = np.array([self.lower, self.upper, self.continuous.astype(np.float64)])
        bounds.flags.writeable = False
        object.__setattr__(self, "bounds", bounds)

    @classmethod
    def from_urdf(cls, source: str | Path, base: str | None = None, tip: str | None = None) -> Robot:
        """Read a robot from the path or the XML text of a URDF.

        Parameters
        ----------
        source : str or Path
            Path, or XML text (starts with '<').
        base, tip : str, optional
            Links between which the chain lies; default the root link and the only leaf.

        Raises
        ------
        RobotError
            If the file cannot be read, or there is no serial chain of supported joints between base and tip.
        """
        tree = parse_urdf(read_urdf_source(source))
        base, tip, joints = tree.chain(base, tip)
        model = build_chain(joints)
        return cls(
            name=tree.name,
            base_link=base,
            tip_link=tip,
            urdf=tree.text,
            joint_names=model.joint_names,
            lower=model.lower,
            upper=model.upper,
            continuous=model.continuous,
            fingerprint=model.fingerprint,
            links=model.links,
        )

    @classmethod
    def load(cls, name_or_path: str | Path, base: str | None = None, tip: str | None = None) -> Robot:
        """A shipped robot by name (iiwa14, panda, planar3, planar5, planar10, ur5), or any URDF by path."""
        if str(name_or_path) in SHIPPED_ROBOTS:
            return cls.from_urdf(shipped_urdf(str(name_or_path)), base, tip)
        try:
            return cls.from_urdf(name_or_path, base, tip)
        except RobotError as error:
            text = str(name_or_path)
            if text.isidentifier():
                shipped = ", ".join(SHIPPED_ROBOTS)
                raise RobotError(f"no shipped robot {text!r} (there are {shipped}), and {error}", text) from error
            raise

    @property
    def dof(self) -> int:
        """Number of independent joints."""
        return len(self.joint_names)

    @functools.cached_property
    def reach(self) -> float:
        """Upper bound of the distance from base to tip [m]: link lengths and prismatic travel, summed."""
        sliding = self.links[self.links[:, PRISMATIC] != 0.0]
        source = sliding[:, SOURCE].astype(np.int64)
        ends = [sliding[:, MULTIPLIER] * limit[source] + sliding[:, OFFSET] for limit in (self.lower, self.upper)]
        return float(np.linalg.norm(self.links[:, TRANSLATION], axis=1).sum() + np.abs(ends).max(axis=0).sum())

    def forward(self, q: npt.ArrayLike) -> FloatArray:
        """Poses (n, 4, 4) of configurations (n, dof), or (4, 4) of one (dof,)."""
        rows, single = self._rows(q)
        poses = np.empty((len(rows), 4, 4))
        kernels.forward_many(self.links, rows, poses)
        return poses[0] if single else poses

    def jacobian(self, q: npt.ArrayLike) -> FloatArray:
        """Jacobians (n, 6, dof) of configurations (n, dof), or (6, dof) of one: linear rows [m], then angular [rad]."""
        rows, single = self._rows(q)
        jacobians = np.empty((len(rows), 6, self.dof))
        kernels.jacobian_many(self.links, rows, jacobians)
        return jacobians[0] if single else jacobians

    def skeleton(self, q: npt.ArrayLike) -> FloatArray:
        """Points (n, n_points, 3), or (n_points, 3) of one: base, origin of each moving joint, tip [m]."""
        rows, single = self._rows(q)
        points = np.empty((len(rows), len(self.links) + 1, 3))
        kernels.skeleton_many(self.links, rows, points)
        return points[0] if single else points

    def within_limits(self, q: npt.ArrayLike, tolerance: float = 0.0) -> BoolArray:
        """Whether each configuration (n, dof) is within the limits, widened by a tolerance [rad] or [m]; NaN is not."""
        rows, _ = self._rows(q)
        inside = (rows >= self.lower - tolerance) & (rows <= self.upper + tolerance)
        return np.asarray(inside.all(axis=1), dtype=np.bool_)

    def pose_errors(
        self, q: npt.ArrayLike, pose: npt.ArrayLike, tolerances: npt.ArrayLike | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Position errors (n,) [m] and orientation errors (n,) [rad] of configurations against one pose (4, 4).

        With tolerances (6,), see `refine`: only what is beyond them.
        """
        rows, _ = self._rows(q)
        errors = np.empty((2, len(rows)))
        measure = errors_lanes if len(rows) >= FEWEST_FOR_LANES else kernels.errors_many
        measure(self.links, rows, check_pose(pose), checked_tolerances(tolerances), errors)
        return errors[0], errors[1]

    def verify(
        self,
        q: npt.ArrayLike,
        pose: npt.ArrayLike,
        *,
        position_only: bool = False,
        tolerances: npt.ArrayLike | None = None,
        position_tolerance: float = 1e-6,
        orientation_tolerance: float = 1e-6,
        lower: npt.ArrayLike | None = None,
        upper: npt.ArrayLike | None = None,
    ) -> tuple[FloatArray, BoolArray]:
        """Errors (2, n) [m], [rad] of configurations (n, dof), see `pose_errors`, and whether each is valid (n,).

        That is, within the tolerances and within the limits. Arguments as of `refine`; the orientation's error is 0
        with `position_only`.
        """
        rows, target = self._rows(q)[0], check_pose(pose)
        bounds, task = self.narrowed(lower, upper), checked_tolerances(tolerances, position_only)
        errors, valid = np.empty((2, len(rows))), np.empty(len(rows), dtype=np.bool_)
        verify_lanes(
            self.links, bounds, rows, target, position_only and not len(task), task,
            float(position_tolerance), float(orientation_tolerance), errors, valid,
        )  # fmt: skip
        return errors, valid

    def sample_configurations(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Configurations (n, dof), uniform within the limits."""
        return self.lower + (self.upper - self.lower) * rng.random((n, self.dof))

    def refine(
        self,
        seeds: npt.ArrayLike,
        pose: npt.ArrayLike,
        *,
        position_only: bool = False,
        position_tolerance: float = 1e-6,
        orientation_tolerance: float = 1e-6,
        max_iterations: int = MAX_ITERATIONS,
        patience: int = REFINE_PATIENCE,
        lower: npt.ArrayLike | None = None,
        upper: npt.ArrayLike | None = None,
        tolerances: npt.ArrayLike | None = None,
    ) -> Refinement:
        """Move each seed onto the pose by damped least squares, within limits.

        Parameters
        ----------
        seeds : (n, dof) array_like
            Finite configurations; those outside the limits are clamped first. They are not changed.
        pose : (4, 4) array_like
            Wanted pose of the tip in the base frame.
        position_only : bool
            Whether any orientation will do.
        position_tolerance, orientation_tolerance : float
            [m], [rad].
        max_iterations : int
            Most steps per seed.
        patience : int
            A seed is given up when its squared error does not halve within so many steps (1 or more).
        lower, upper : (dof,) array_like, optional
            Narrower limits for this call.
        tolerances : (6,) array_like, optional
            How far the tip may be off along x, y, z [m], and turned about x, y, z [rad], of the wanted pose's frame;
            infinite where it is free. Errors are then what is beyond. The turn is measured as a twist about the axis of
            the largest tolerance (of equal ones the last), and the shortest rotation that takes this axis to where it
            is: a free turn about one axis and none about the others asks for the direction of that axis, exactly.

        Raises
        ------
        RobotError
            If seeds are not finite or of a wrong shape, or the limits are empty or wider than the robot's.
        ConstraintError
            If the tolerances are not six numbers of at least 0.
        PoseError
            If the pose is not a finite rigid transform.
        """
        positions = self._rows(seeds)[0].copy()
        if patience < 1:
            raise RobotError(f"patience must be at least 1, got {patience}", patience)
        target = _transforms(pose, 2)
        n = len(positions)
        converged, iterations, errors = np.zeros(n, dtype=np.bool_), np.zeros(n, dtype=np.int64), np.empty((2, n))
        outcome = kernels.check_request(target, positions)
        if outcome == kernels.BAD_POSE:
            raise _bad_pose(target[None])
        if outcome == kernels.BAD_SEED:
            raise RobotError("seeds must be finite", seeds)
        refiner = refine_lanes if n >= FEWEST_FOR_LANES else kernels.refine_many
        task = checked_tolerances(tolerances, position_only)
        refiner(
            self.links, self.narrowed(lower, upper), positions, target, position_only and not len(task), task,
            float(position_tolerance), float(orientation_tolerance), max_iterations, patience, converged, iterations,
            errors,
        )  # fmt: skip
        return Refinement(positions, converged, iterations, errors[0], errors[1])

    def spread(
        self,
        solutions: npt.ArrayLike,
        pose: npt.ArrayLike,
        n: int,
        rng: np.random.Generator,
        *,
        position_only: bool = False,
        tolerances: npt.ArrayLike | None = None,
        position_tolerance: float = 1e-6,
        orientation_tolerance: float = 1e-6,
        step: float = 0.4,
        finest: float | None = None,
        lower: npt.ArrayLike | None = None,
        upper: npt.ArrayLike | None = None,
    ) -> FloatArray:
        """Further solutions of a pose, by walks along the self-motion of a redundant arm from known ones.

        Where the solutions are curves, for the arm has one joint more than the pose takes, walks go on outside the
        limits for a while, and so find pieces of the curves from which none was known.

        Parameters
        ----------
        solutions : (m, dof) array_like
            Configurations that reach the pose, within the limits.
        pose : (4, 4) array_like
        n : int
            Most solutions wanted.
        rng : numpy Generator
        position_only, tolerances, position_tolerance, orientation_tolerance, lower, upper
            As in `refine`.
        step : float
            Length of a step [rad, m]. New solutions are at least 0.6 of it from all others, in Euclidean distance.
        finest : float, optional
            Where the solutions are curves and fewer than n are found, the gaps between them are divided evenly, as long
            as each differs from all others by more than this [rad, m] in some joint; default: not.

        Returns
        -------
        (k, dof) array
            k <= n; fewer, where steps from all solutions lead to no more.
        """
        known, target = self._solutions(solutions, pose)
        if finest is not None and not 0.0 < finest < math.inf:
            raise RobotError(f"the finest difference of solutions must be positive, got {finest}", finest)
        bounds = self.narrowed(lower, upper)
        points = np.empty((len(known) + max(n, 0), self.dof))
        points[: len(known)] = known
        task = checked_tolerances(tolerances, position_only)
        n_points = spread_along(
            self.links, bounds, points, len(known), target, position_only and not len(task), task,
            float(position_tolerance), float(orientation_tolerance), float(step),
            -1.0 if finest is None else float(finest), redundancy(bounds, position_only), rng.random(),
            empty_blocks(len(points), self.dof),
        )  # fmt: skip
        return points[len(known) : n_points]

    def settle(
        self,
        solutions: npt.ArrayLike,
        pose: npt.ArrayLike,
        preferred: npt.ArrayLike,
        weights: npt.ArrayLike,
        *,
        position_only: bool = False,
        tolerances: npt.ArrayLike | None = None,
        position_tolerance: float = 1e-6,
        orientation_tolerance: float = 1e-6,
        lower: npt.ArrayLike | None = None,
        upper: npt.ArrayLike | None = None,
    ) -> FloatArray:
        """Solutions of a pose, moved along the self-motion to a local minimum of sum_j w_j (q_j - p_j)^2.

        Differences are on the circle where a joint turns endlessly. The cost of none is higher than before; of an arm
        without redundancy they stay where they are.

        Parameters
        ----------
        solutions : (n, dof) array_like
            Configurations that reach the pose, within the limits.
        pose : (4, 4) array_like
        preferred : (dof,) array_like
            p [rad] or [m].
        weights : (dof,) array_like
            w >= 0.
        position_only, tolerances, position_tolerance, orientation_tolerance, lower, upper
            As in `refine`.

        Returns
        -------
        (n, dof) array
        """
        known, target = self._solutions(solutions, pose)
        cost = np.array([self._rows(preferred)[0][0], self._rows(weights)[0][0], self.continuous])
        if not np.isfinite(cost).all() or (cost[1] < 0.0).any():
            raise RobotError("a cost needs finite joint values, and finite weights of at least 0", (preferred, weights))
        positions: FloatArray = known.copy()
        if not cost[1].any():
            return positions
        cost[1] /= cost[1].max()
        task = checked_tolerances(tolerances, position_only)
        settle(
            self.links, self.narrowed(lower, upper), positions, cost, target, position_only and not len(task), task,
            float(position_tolerance), float(orientation_tolerance),
        )  # fmt: skip
        return positions

    def solve(
        self,
        pose: npt.ArrayLike,
        rng: np.random.Generator,
        *,
        position_only: bool = False,
        position_tolerance: float = 1e-6,
        orientation_tolerance: float = 1e-6,
        max_restarts: int = MAX_RESTARTS,
        lower: npt.ArrayLike | None = None,
        upper: npt.ArrayLike | None = None,
    ) -> Refinement:
        """One solution of one pose from uniform random seeds, or the best attempt of all restarts (n = 1)."""
        return self.solve_many(
            _transforms(pose, 2)[None],
            rng,
            position_only=position_only,
            position_tolerance=position_tolerance,
            orientation_tolerance=orientation_tolerance,
            max_restarts=max_restarts,
            lower=lower,
            upper=upper,
        )

    def solve_many(
        self,
        poses: npt.ArrayLike,
        rng: np.random.Generator,
        *,
        position_only: bool = False,
        position_tolerance: float = 1e-6,
        orientation_tolerance: float = 1e-6,
        max_restarts: int = MAX_RESTARTS,
        lower: npt.ArrayLike | None = None,
        upper: npt.ArrayLike | None = None,
    ) -> Refinement:
        """One solution for each of the poses (n, 4, 4), as `solve` but in one compiled call."""
        targets = _transforms(poses, 3)
        if max_restarts < 1:
            raise RobotError(f"max_restarts must be at least 1, got {max_restarts}", max_restarts)
        n = len(targets)
        positions, converged = np.empty((n, self.dof)), np.zeros(n, dtype=np.bool_)
        iterations, errors = np.zeros(n, dtype=np.int64), np.empty((2, n))
        outcome = kernels.solve_many(
            self.links, self.narrowed(lower, upper), positions, targets, position_only, NO_TOLERANCES,
            float(position_tolerance), float(orientation_tolerance), MAX_ITERATIONS, RESTART_PATIENCE, converged,
            iterations, errors, max_restarts, rng.random(),
        )  # fmt: skip
        if outcome == kernels.BAD_POSE:
            raise _bad_pose(targets)
        return Refinement(positions, converged, iterations, errors[0], errors[1])

    def compile(self) -> None:
        """Run every kernel once, so that no later call has to wait for the compiler (or for its cache on disk)."""
        q = self.sample_configurations(1, np.random.default_rng(0))
        pose = self.forward(q[0])
        self.verify(q, pose)
        self.jacobian(q)
        self.skeleton(q)
        for rows in (q, np.repeat(q, FEWEST_FOR_LANES, axis=0)):
            self.pose_errors(rows, pose)
            self.refine(rows, pose)
        self.spread(q, pose, 1, np.random.default_rng(0), position_only=True)
        self.settle(q, pose, q[0], np.ones(self.dof))
        self.solve(pose, np.random.default_rng(0), max_restarts=1)

    def _rows(self, q: npt.ArrayLike) -> tuple[FloatArray, bool]:
        """Contiguous float64 rows (n, dof), and whether one row was given."""
        try:
            rows = np.ascontiguousarray(q, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise RobotError(f"configurations must be an (n, {self.dof}) array of numbers", q) from error
        rows = rows if rows.flags.writeable else rows.copy()  # as in `narrowed`
        single = rows.ndim == 1 and rows.size == self.dof
        if single:
            rows = rows[None]
        elif rows.size == 0:
            rows = np.empty((0, self.dof))
        if rows.ndim != 2 or rows.shape[1] != self.dof:
            raise RobotError(
                f"configurations of robot {self.name!r} must have shape (n, {self.dof}), got {np.shape(q)}", q
            )
        return rows, single

    def _solutions(self, solutions: npt.ArrayLike, pose: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Checked solutions (n, dof) and their pose (4, 4)."""
        known, target = self._rows(solutions)[0], _transforms(pose, 2)
        outcome = kernels.check_request(target, known)
        if outcome == kernels.BAD_POSE:
            raise _bad_pose(target[None])
        if outcome == kernels.BAD_SEED:
            raise RobotError("solutions must be finite", solutions)
        return known, target

    def narrowed(self, lower: npt.ArrayLike | None, upper: npt.ArrayLike | None) -> FloatArray:
        """Limits of a call and which joints wrap (3, dof): a continuous joint narrowed to less than a turn does not."""
        if lower is None and upper is None:
            return self.bounds
        low = np.array(self.lower if lower is None else lower, dtype=np.float64)
        high = np.array(self.upper if upper is None else upper, dtype=np.float64)
        if low.shape != (self.dof,) or high.shape != (self.dof,):
            raise RobotError(f"limits must have shape ({self.dof},), got {low.shape} and {high.shape}", (lower, upper))
        if not np.all(low <= high):
            raise RobotError("lower limits must not exceed upper limits", (lower, upper))
        if np.any(low < self.lower) or np.any(high > self.upper):
            raise RobotError("limits of a call may only narrow those of the robot", (lower, upper))
        bounds = np.array([low, high, self.continuous & (low <= -math.pi) & (high >= math.pi)])
        bounds.flags.writeable = False  # as the robot's: the kernels would be compiled anew for another kind of array
        return bounds


def redundancy(bounds: FloatArray, position_only: bool) -> int:
    """How many more joints can move, by bounds (3, dof), than a pose or a position takes; it may be negative."""
    return int(np.count_nonzero(bounds[0] < bounds[1])) - (3 if position_only else 6)


def _bad_pose(poses: FloatArray) -> PoseError:
    """Why the kernels, which only tell good from bad, refused one of these poses (n, 4, 4)."""
    try:
        for pose in poses:
            check_pose(pose)
    except PoseError as error:
        return error
    return PoseError("a pose is out of the range of numbers", poses)


def checked_tolerances(tolerances: npt.ArrayLike | None, position_only: bool = False) -> FloatArray:
    """Tolerances (6,) for the kernels, those of the rotation infinite with `position_only`; (0,) for none."""
    if tolerances is None:
        return NO_TOLERANCES
    try:
        values = np.array(tolerances, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.shape != (6,) or not (values >= 0.0).all():
        raise ConstraintError(
            "tolerances need six numbers of at least 0, for x, y, z [m] and rotations about x, y, z [rad], got "
            f"{tolerances!r}",
            tolerances,
        )
    if position_only:
        values[3:] = np.inf
    return values


def _transforms(poses: npt.ArrayLike, ndim: int) -> FloatArray:
    """Contiguous float64 transforms (4, 4) or (n, 4, 4); the kernels check their content."""
    try:
        array = np.array(poses, dtype=np.float64, order="C")  # a copy: a read-only one would be another kind of array
    except (TypeError, ValueError) as error:
        raise PoseError("a pose must be a (4, 4) transform", poses) from error
    if array.ndim != ndim or array.shape[-2:] != (4, 4):
        expected = "(4, 4)" if ndim == 2 else "(n, 4, 4)"
        raise PoseError(f"expected transforms of shape {expected}, got {array.shape}", poses)
    return array
