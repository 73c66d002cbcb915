"""Numerical solution from seeds, and continuation along self-motions, for data collection and evaluation.

To solve poses, use `Sampler`. These functions run only the numerical solver, from given seeds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from eim_ros.core.arrays import BoolArray, FloatArray
from eim_ros.core.checks import check_keywords, checked_generator, expect, positive_number, whole_number
from eim_ros.core.errors import RobotError
from eim_ros.kinematics.robot import Robot
from eim_ros.kinematics.tolerances import TaskOptions, redundancy
from eim_ros.solver import ContinuationOptions, StepOptions

if TYPE_CHECKING:
    from typing_extensions import Unpack

MAX_ITERATIONS, PATIENCE = 60, 6


@dataclass(frozen=True, eq=False)
class Refinement:
    """Configurations moved onto a pose, and their errors.

    The errors are computed by forward kinematics from the returned configurations. A row that did not converge is not a
    solution. `bool()` is True if at least one row converged.

    Attributes
    ----------
    positions : (n, dof)
        Configurations [rad] or [m], always within the limits. A row that did not converge is the best configuration
        found.
    converged : (n,) bool
        Whether both errors are within the tolerances.
    iterations : (n,) int
        Number of steps.
    position_error : (n,)
        Distance to the target position [m].
    orientation_error : (n,)
        Angle to the target orientation [rad]; 0 if only the position was requested.

    Examples
    --------
    >>> from eim_ros.kinematics import Robot, refine
    >>> robot = Robot("panda")
    >>> found = refine(robot, robot.random(20, seed=0), [0.4, 0.1, 0.5, 1.0, 0.0, 0.0, 0.0])
    >>> bool(found), found.positions.shape
    (True, (20, 7))
    """

    positions: FloatArray
    converged: BoolArray
    iterations: npt.NDArray[np.int64]
    position_error: FloatArray
    orientation_error: FloatArray

    def __bool__(self) -> bool:
        """Return whether at least one row is a solution."""
        return bool(self.converged.any())


def refine(
    robot: Robot,
    seeds: npt.ArrayLike,
    pose: npt.ArrayLike,
    *,
    max_iterations: int = MAX_ITERATIONS,
    patience: int = PATIENCE,
    **asked: Unpack[TaskOptions],
) -> Refinement:
    """Solve for the pose from each seed by damped least squares within the limits.

    Parameters
    ----------
    seeds : (n, dof) array_like
        Finite start configurations. Values outside the limits are clamped in a copy.
    pose : (4, 4) array_like
        Target pose of the tip in the base frame.
    max_iterations, patience : int
        `max_iterations` is the maximum number of steps per seed, 0 to 1000000. The solver stops early if the squared
        error is not halved within `patience` steps, 1 to 1000000.
    **asked
        See `TaskOptions`.

    Raises
    ------
    RobotError
        If the seeds are not finite or have the wrong shape, if a number is out of range, or if the limits are empty or
        wider than the robot's limits.
    ConstraintError
        If the tolerances are not six numbers of at least 0.
    PoseError
        If the pose is not a finite rigid transform.

    Examples
    --------
    >>> import numpy as np
    >>> from eim_ros.kinematics import Robot, refine
    >>> robot = Robot("panda")
    >>> q = 0.5 * (robot.lower + robot.upper)
    >>> result = refine(robot, q + 0.05 * np.array([[1.0], [-1.0]]), robot.fk(q))
    >>> result.converged.tolist()
    [True, True]
    """
    expect(robot, Robot, "robot", RobotError)
    check_keywords(asked, TaskOptions.__annotations__, "refine")
    rows, task = robot._finite_rows(seeds, "seeds"), robot.task(pose, **asked)
    positions, converged, iterations, errors = robot.chain.refine(task, _effort(asked, max_iterations, patience), rows)
    return Refinement(positions, converged, iterations, errors[0], errors[1])


def spread(
    robot: Robot,
    solutions: npt.ArrayLike,
    pose: npt.ArrayLike,
    n: int,
    seed: int | np.random.Generator | None = None,
    *,
    step: float = 0.4,
    finest: float | None = None,
    **asked: Unpack[TaskOptions],
) -> FloatArray:
    """Find further solutions of a pose by continuation along the self-motion of a redundant arm.

    If the arm has one more joint than the pose needs, the self-motions are curves. Continuation then also takes a few
    steps outside the limits, which leads to parts of the curves that contain no known solution.

    Parameters
    ----------
    solutions : (m, dof) array_like
        Known solutions: configurations within the limits that reach the pose.
    pose : (4, 4) array_like
        Target pose of the tip in the base frame.
    n : int
        Maximum number of further solutions, 0 to 1000000.
    seed : int or numpy Generator, optional
    step : float
        Length of a step [rad, m]. The Euclidean distance between a new solution and all others is at least 0.6 `step`.
    finest : float, optional
        Minimum difference between solutions in at least one joint [rad, m] when gaps are filled. If the self-motions
        are curves and fewer than n solutions are found, the gaps between solutions are divided evenly until this
        difference is reached. By default, gaps are not filled.
    **asked
        See `TaskOptions`.

    Returns
    -------
    (k, dof) array
        New solutions. There are fewer than n if no step from any solution leads to another one.

    Examples
    --------
    Find more solutions of an arm with seven joints, which has infinitely many:

    >>> from eim_ros import Sampler
    >>> from eim_ros.kinematics import spread
    >>> sampler, pose = Sampler("panda"), [0.4, 0.1, 0.5, 1.0, 0.0, 0.0, 0.0]
    >>> spread(sampler.robot, sampler.solve(pose, seed=0).q, pose, 10, seed=0).shape
    (10, 7)
    """
    expect(robot, Robot, "robot", RobotError)
    known, task = robot._finite_rows(solutions, "solutions"), robot.task(pose, **asked)
    finest = -1.0 if finest is None else positive_number(finest, "the difference `finest`")
    step, n = positive_number(step, "the step"), whole_number(n, 0, "n")
    if not max(step, finest) < math.inf:
        raise RobotError(f"`step` and `finest` must be finite, got {step} and {finest}", (step, finest))
    free = redundancy(robot._bounds(asked), asked.get("position_only", False))
    spread = ContinuationOptions(step, finest, free, math.inf)
    return robot.chain.spread(task, spread, known, len(known) + n, checked_generator(seed).random())[len(known) :]


def _effort(asked: TaskOptions, max_iterations: int, patience: int) -> StepOptions:
    tolerances = asked.get("position_tolerance", 1e-6), asked.get("orientation_tolerance", 1e-6)
    most_steps, most_vain = whole_number(max_iterations, 0, "max_iterations"), whole_number(patience, 1, "patience")
    return StepOptions(float(tolerances[0]), float(tolerances[1]), most_steps, most_vain)
