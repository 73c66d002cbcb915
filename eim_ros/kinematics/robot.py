"""A serial robot: limits, forward kinematics, Jacobian and inverse kinematics of configurations, compiled.

Frames: poses and Jacobians are of the tip link in the base link's frame. Angles in [rad], lengths in [m].
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from eim_ros.errors import RobotError
from eim_ros.kinematics.arguments import as_numbers, checked_generator, positive_number, whole_number
from eim_ros.kinematics.chain import MULTIPLIER, OFFSET, PRISMATIC, SOURCE, TRANSLATION, build_chain
from eim_ros.kinematics.pose import check_pose
from eim_ros.kinematics.shipped import SHIPPED_ROBOTS, shipped_urdf
from eim_ros.kinematics.task import JointLimits, TaskOptions, make_task, redundancy, transforms
from eim_ros.kinematics.urdf import parse_urdf, read_urdf_source
from eim_ros.solver import MOST_JOINTS, Chain, Effort, Spread, Task

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Refinement", "Robot"]

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

MAX_ITERATIONS = 60
REFINE_PATIENCE = 6
RESTART_PATIENCE = 3
MAX_RESTARTS = 1000
MOST_CONFIGURATIONS = 2_000_000_000  # that may be asked for at once; memory ends before


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
        The chain in the form the solver works on, see `chain.py`.
    bounds : (3, dof)
        Lower limits, upper limits, and 1 where a joint is continuous, else 0; also for the solver.
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
        bounds = self.limits.bounds
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

    @property
    def limits(self) -> JointLimits:
        """Of the joints."""
        return JointLimits(self.lower, self.upper, self.continuous)

    @functools.cached_property
    def chain(self) -> Chain:
        """For the solver; `RobotError` for more joints than it takes."""
        try:
            return Chain(self.links, self.dof)
        except ValueError as error:
            raise RobotError(
                f"robot {self.name!r} has {self.dof} joints, expected 1 to {MOST_JOINTS}, and at most twice as many "
                "with their followers",
                self.dof,
            ) from error

    def task(self, pose: npt.ArrayLike, **asked: Unpack[TaskOptions]) -> Task:
        """Pose and limits as the solver takes them, checked; see `TaskOptions` and `make_task`."""
        options = dict(asked)
        limits = self.limits.narrowed(asked.get("lower"), asked.get("upper"))
        bounds = self.bounds if "lower" not in options and "upper" not in options else limits.bounds
        options.pop("lower", None), options.pop("upper", None)
        return make_task(bounds, pose, **options)  # type: ignore[arg-type]

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
        poses = self.chain.forward(rows)
        return poses[0] if single else poses

    def jacobian(self, q: npt.ArrayLike) -> FloatArray:
        """Jacobians (n, 6, dof) of configurations (n, dof), or (6, dof) of one: linear rows [m], then angular [rad]."""
        rows, single = self._rows(q)
        jacobians = self.chain.jacobian(rows)
        return jacobians[0] if single else jacobians

    def skeleton(self, q: npt.ArrayLike) -> FloatArray:
        """Points (n, n_points, 3), or (n_points, 3) of one: base, origin of each moving joint, tip [m]."""
        rows, single = self._rows(q)
        points = self.chain.skeleton(rows)
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

        With tolerances (6,), see `TaskOptions`: only what is beyond them.
        """
        errors, _ = self.verify(q, pose, tolerances=tolerances)
        return errors[0], errors[1]

    def verify(
        self, q: npt.ArrayLike, pose: npt.ArrayLike, **asked: Unpack[TaskOptions]
    ) -> tuple[FloatArray, BoolArray]:
        """Errors (2, n) [m], [rad] of configurations (n, dof), see `pose_errors`, and whether each is valid (n,).

        That is, within the tolerances and within the limits; the orientation's error is 0 with `position_only`. For
        keywords see `TaskOptions`.
        """
        rows = self._rows(q)[0]
        return self.chain.verify(self.task(pose, **asked), rows)

    def sample_configurations(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Configurations (n, dof), uniform within the limits."""
        shares = checked_generator(rng).random((whole_number(n, 0, "n", MOST_CONFIGURATIONS), self.dof))
        return self.lower + (self.upper - self.lower) * shares

    def refine(
        self,
        seeds: npt.ArrayLike,
        pose: npt.ArrayLike,
        *,
        max_iterations: int = MAX_ITERATIONS,
        patience: int = REFINE_PATIENCE,
        **asked: Unpack[TaskOptions],
    ) -> Refinement:
        """Move each seed onto the pose by damped least squares, within limits.

        Parameters
        ----------
        seeds : (n, dof) array_like
            Finite configurations; those outside the limits are clamped first. They are not changed.
        pose : (4, 4) array_like
            Wanted pose of the tip in the base frame.
        max_iterations : int
            Most steps per seed, 0 to 1000000.
        patience : int
            A seed is given up when its squared error does not halve within so many steps, 1 to 1000000.
        **asked
            See `TaskOptions`.

        Raises
        ------
        RobotError
            If seeds are not finite or of a wrong shape, a number is out of its bounds, or the limits are empty or wider
            than the robot's.
        ConstraintError
            If the tolerances are not six numbers of at least 0.
        PoseError
            If the pose is not a finite rigid transform.
        """
        rows, task = self._finite_rows(seeds, "seeds"), self.task(pose, **asked)
        positions, converged, iterations, errors = self.chain.refine(
            task, _effort(asked, max_iterations, patience), rows
        )
        return Refinement(positions, converged, iterations, errors[0], errors[1])

    def spread(
        self,
        solutions: npt.ArrayLike,
        pose: npt.ArrayLike,
        n: int,
        rng: np.random.Generator,
        *,
        step: float = 0.4,
        finest: float | None = None,
        **asked: Unpack[TaskOptions],
    ) -> FloatArray:
        """Further solutions of a pose, by continuation along the self-motion of a redundant arm from known ones.

        Where the solutions are curves, for the arm has one joint more than the pose takes, walks go on outside the
        limits for a while, and so find pieces of the curves from which none was known.

        Parameters
        ----------
        solutions : (m, dof) array_like
            Configurations that reach the pose, within the limits.
        pose : (4, 4) array_like
        n : int
            Most solutions wanted, 0 to 1000000.
        rng : numpy Generator
        step : float
            Length of a step [rad, m]. New solutions are at least 0.6 of it from all others, in Euclidean distance.
        finest : float, optional
            Where the solutions are curves and fewer than n are found, the gaps between them are divided evenly, as long
            as each differs from all others by more than this [rad, m] in some joint; default: not.
        **asked
            See `TaskOptions`.

        Returns
        -------
        (k, dof) array
            k <= n; fewer, where steps from all solutions lead to no more.
        """
        known, task = self._finite_rows(solutions, "solutions"), self.task(pose, **asked)
        finest = -1.0 if finest is None else positive_number(finest, "the finest difference of solutions")
        step, n = positive_number(step, "the step"), whole_number(n, 0, "n")
        if not max(step, finest) < math.inf:
            raise RobotError("the step and the finest difference of solutions must be finite", (step, finest))
        free = redundancy(
            self.limits.narrowed(asked.get("lower"), asked.get("upper")).bounds, asked.get("position_only", False)
        )
        spread = Spread(step, finest, free)
        return self.chain.spread(task, spread, known, len(known) + n, checked_generator(rng).random())[len(known) :]

    def settle(
        self,
        solutions: npt.ArrayLike,
        pose: npt.ArrayLike,
        preferred: npt.ArrayLike,
        weights: npt.ArrayLike,
        **asked: Unpack[TaskOptions],
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
        **asked
            See `TaskOptions`.

        Returns
        -------
        (n, dof) array
        """
        known, task = self._finite_rows(solutions, "solutions"), self.task(pose, **asked)
        (liked, is_one), (weighed, is_other) = self._rows(preferred), self._rows(weights)
        if not (is_one and is_other):
            raise RobotError(f"a cost needs a value and a weight of each of {self.dof} joints", (preferred, weights))
        cost = np.concatenate([liked, weighed])
        if not np.isfinite(cost).all() or (cost[1] < 0.0).any():
            raise RobotError("a cost needs finite joint values, and finite weights of at least 0", (preferred, weights))
        if not cost[1].any():
            return np.array(known)
        return self.chain.descend(task, known, cost[0], cost[1] / cost[1].max(), self.continuous)

    def solve(
        self,
        pose: npt.ArrayLike,
        rng: np.random.Generator,
        *,
        max_restarts: int = MAX_RESTARTS,
        **asked: Unpack[TaskOptions],
    ) -> Refinement:
        """One solution of one pose from uniform random seeds, or the best attempt of all restarts (n = 1)."""
        return self._solve(check_pose(pose)[None], rng, max_restarts, asked)

    def solve_many(
        self,
        poses: npt.ArrayLike,
        rng: np.random.Generator,
        *,
        max_restarts: int = MAX_RESTARTS,
        **asked: Unpack[TaskOptions],
    ) -> Refinement:
        """One solution for each of the poses (n, 4, 4), as `solve` but in one compiled call."""
        return self._solve(transforms(poses), rng, max_restarts, asked)

    def _solve(
        self, targets: FloatArray, rng: np.random.Generator, max_restarts: int, asked: TaskOptions
    ) -> Refinement:
        max_restarts, rng = whole_number(max_restarts, 1, "max_restarts"), checked_generator(rng)
        task, effort = self._restarts(asked) if asked else self._plain_restarts
        positions, converged, iterations, errors = self.chain.solve(task, effort, targets, max_restarts, rng.random())
        return Refinement(positions, converged, iterations, errors[0], errors[1])

    def _restarts(self, asked: TaskOptions) -> tuple[Task, Effort]:
        """What `Chain.solve` needs beside the targets; the pose of the task does not count."""
        return self.task(np.eye(4), **asked), _effort(asked, MAX_ITERATIONS, RESTART_PATIENCE)

    @functools.cached_property
    def _plain_restarts(self) -> tuple[Task, Effort]:
        return self._restarts({})

    def _rows(self, q: npt.ArrayLike) -> tuple[FloatArray, bool]:
        """Contiguous float64 rows (n, dof), and whether one row was given."""
        try:
            rows = as_numbers(q)
        except (TypeError, ValueError) as error:
            raise RobotError(f"configurations must be an (n, {self.dof}) array of numbers", q) from error
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

    def _finite_rows(self, q: npt.ArrayLike, what: str) -> FloatArray:
        """Rows (n, dof), refused unless finite."""
        rows, _ = self._rows(q)
        if not np.isfinite(rows).all():
            raise RobotError(f"{what} must be finite", q)
        return rows


def _effort(asked: TaskOptions, max_iterations: int, patience: int) -> Effort:
    tolerances = asked.get("position_tolerance", 1e-6), asked.get("orientation_tolerance", 1e-6)
    most_steps, most_vain = whole_number(max_iterations, 0, "max_iterations"), whole_number(patience, 1, "patience")
    return Effort(float(tolerances[0]), float(tolerances[1]), most_steps, most_vain)
