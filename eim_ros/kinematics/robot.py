"""A serial robot: an arm that finds configurations for poses. Refinement, continuation, null-space descent, restarts.

Each call checks its arguments and is then compiled; the algorithms are in `eim_ros/solver`.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from eim_ros.errors import RobotError
from eim_ros.kinematics.arguments import checked_generator, positive_number, whole_number
from eim_ros.kinematics.pose import check_pose, pose_from
from eim_ros.kinematics.pose_forms import is_position
from eim_ros.kinematics.serial_arm import SerialArm
from eim_ros.kinematics.task import TaskOptions, make_task, redundancy, transforms
from eim_ros.numerics.keywords import check_keywords
from eim_ros.solver import Effort, Spread, Task

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Refinement", "Robot"]

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

MAX_ITERATIONS = 60
REFINE_PATIENCE = 6
RESTART_PATIENCE = 3
MAX_RESTARTS = 1000


@dataclass(frozen=True, eq=False)
class Refinement:
    """Refined configurations and their errors, measured by forward kinematics on the very configurations returned.

    A row that did not converge is no solution. `bool()` is True if at least one did.

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

    def __bool__(self) -> bool:
        """Whether at least one row is a solution."""
        return bool(self.converged.any())


@dataclass(frozen=True, eq=False)
class Robot(SerialArm):
    """A serial arm with its inverse kinematics; for its attributes see `SerialArm`."""

    def task(self, pose: npt.ArrayLike, **asked: Unpack[TaskOptions]) -> Task:
        """Pose and limits as the solver takes them, checked; see `TaskOptions` and `make_task`."""
        check_keywords(asked, TaskOptions.__annotations__, "a call with a pose")
        options = dict(asked)
        limits = self.limits.narrowed(asked.get("lower"), asked.get("upper"))
        bounds = self.bounds if "lower" not in options and "upper" not in options else limits.bounds
        options.pop("lower", None), options.pop("upper", None)
        return make_task(bounds, pose, **options)  # type: ignore[arg-type]

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
        parameters = ("seeds", "pose", "max_iterations", "patience")
        check_keywords(asked, TaskOptions.__annotations__, "Robot.refine", parameters)
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
        rng: np.random.Generator | None = None,
        *,
        step: float = 0.4,
        finest: float | None = None,
        **asked: Unpack[TaskOptions],
    ) -> FloatArray:
        """Further solutions of a pose, by continuation along the self-motion of a redundant arm from known ones.

        Where the self-motions are curves, for the arm has one joint more than the pose takes, continuation goes on
        outside the limits for a while, and so finds pieces of the curves from which none was known.

        Parameters
        ----------
        solutions : (m, dof) array_like
            Configurations that reach the pose, within the limits.
        pose : (4, 4) array_like
        n : int
            Most solutions wanted, 0 to 1000000.
        rng : numpy Generator, optional
            Fresh if missing.
        step : float
            Length of a step [rad, m]. New solutions are at least 0.6 of it from all others, in Euclidean distance.
        finest : float, optional
            Where the self-motions are curves and fewer than n are found, the gaps between them are divided evenly, as
            long as each differs from all others by more than this [rad, m] in some joint; default: not.
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
        spread = Spread(step, finest, free, math.inf)
        return self.chain.spread(task, spread, known, len(known) + n, checked_generator(rng).random())[len(known) :]

    def descend(
        self,
        solutions: npt.ArrayLike,
        pose: npt.ArrayLike,
        preferred: npt.ArrayLike,
        weights: npt.ArrayLike,
        **asked: Unpack[TaskOptions],
    ) -> FloatArray:
        """Null-space descent: solutions of a pose, moved along the self-motion to a local minimum of a cost.

        The cost is sum_j w_j (q_j - p_j)^2, with differences on the circle where a joint is continuous. No solution's
        gets higher; those of an arm without redundancy stay where they are.

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
        rng: np.random.Generator | None = None,
        *,
        max_restarts: int = MAX_RESTARTS,
        **asked: Unpack[TaskOptions],
    ) -> Refinement:
        """One solution of one pose from uniform random seeds, or the best attempt of all restarts (n = 1).

        Parameters
        ----------
        pose : (4, 4) array_like
            Or in any of the forms of `pose_forms.FORMS`; with a position (3,) alone any orientation will do.
        rng : numpy Generator, optional
            Fresh if missing.
        max_restarts : int
            Most seeds, 1 to 1000000.
        **asked
            See `TaskOptions`.
        """
        if is_position(pose):
            pose, asked = pose_from(pose), {**asked, "position_only": True}
        return self._solve(check_pose(pose)[None], rng, max_restarts, asked)

    def solve_many(
        self,
        poses: npt.ArrayLike,
        rng: np.random.Generator | None = None,
        *,
        max_restarts: int = MAX_RESTARTS,
        **asked: Unpack[TaskOptions],
    ) -> Refinement:
        """One solution for each of the poses (n, 4, 4), as `solve` but in one compiled call."""
        return self._solve(transforms(poses), rng, max_restarts, asked)

    def _solve(
        self, targets: FloatArray, rng: np.random.Generator | None, max_restarts: int, asked: TaskOptions
    ) -> Refinement:
        check_keywords(asked, TaskOptions.__annotations__, "Robot.solve", ("pose", "rng", "max_restarts"))
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


def _effort(asked: TaskOptions, max_iterations: int, patience: int) -> Effort:
    tolerances = asked.get("position_tolerance", 1e-6), asked.get("orientation_tolerance", 1e-6)
    most_steps, most_vain = whole_number(max_iterations, 0, "max_iterations"), whole_number(patience, 1, "patience")
    return Effort(float(tolerances[0]), float(tolerances[1]), most_steps, most_vain)
