"""The reachable pose that is nearest to a target pose, for targets that an arm may not reach.

The distance of a configuration from the target is

    sqrt((w_p e_p)^2 + (w_o e_o)^2)

with the position error e_p [m], the orientation error e_o [rad], and two weights. A priority makes one weight much
larger than the other. The other error is then only minimised among configurations with the smallest priority error.

The distance is minimised by the method of Levenberg and Marquardt, starting from uniformly drawn configurations. A
joint that would exceed a limit is fixed at this limit. The best configurations are improved by Newton's method. If one
error has priority, its weight grows in stages, because the first steps would otherwise follow a narrow valley.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from eim_ros.core.arrays import FloatArray
from eim_ros.core.checks import as_number
from eim_ros.core.errors import ConfigurationError
from eim_ros.core.files import to_json
from eim_ros.ik.order import distinct_rows
from eim_ros.ik.problem import Problem
from eim_ros.kinematics import Robot

Priority = Literal["position", "orientation"] | tuple[float, float]

N_STARTS, N_KEPT = 256, 48
FEW_STEPS, MANY_STEPS = 15, 30
FIRST_WEIGHT, LATER_WEIGHTS = 3.0, (30.0, 300.0, 3000.0)  # weight of the error that has priority [1/m, 1/rad]
LONGEST_STEP = 0.5  # [rad, m]
SHORTEST_STEP = 1e-9  # the descent ends at a shorter step [rad, m]
STEP = 1e-6  # step of finite differences [rad, m]
EQUAL = 1e-5  # priority errors that differ by less count as equal [m, rad]
DISTINCT = 0.01  # configurations count as one if they are closer than this in every joint [rad, m]


@dataclass(frozen=True, eq=False)
class NearestPose:
    """The configuration whose pose is nearest to a target.

    Attributes
    ----------
    joint_names : tuple of str
    q : (dof,)
        Configuration within the limits [rad, m]; NaN if no valid configuration was found.
    pose : (4, 4)
        Pose of the tip in this configuration.
    position_error : float
        Distance from the target [m]. If there are tolerances, only the amount that exceeds them counts.
    orientation_error : float
        Angle to the target [rad].
    is_exact : bool
        Whether both errors are within the tolerances of a solution (1e-6 by default).
    others : (n, dof)
        Other local minima, the best first.
    in_time : bool
        Whether the search ended before the deadline.

    Examples
    --------
    Find the nearest pose to a target that is 2 m in front of the arm and out of reach:

    >>> from eim_ros import Sampler
    >>> nearest = Sampler("panda").solve_nearest_pose([2.0, 0.0, 0.4, 1.0, 0.0, 0.0, 0.0], seed=0, timeout=10.0)
    >>> nearest.is_exact, round(nearest.position_error, 2), nearest.q.shape
    (False, 1.14, (7,))
    """

    joint_names: tuple[str, ...]
    q: FloatArray
    pose: FloatArray
    position_error: float
    orientation_error: float
    is_exact: bool
    others: FloatArray
    in_time: bool = True

    def __bool__(self) -> bool:
        """Return whether there is a configuration."""
        return not bool(np.isnan(self.q).any())

    def __repr__(self) -> str:
        """Return the errors and the configuration in two lines."""
        errors = f"off by {self.position_error:.3g} m and {self.orientation_error:.3g} rad"
        values = " ".join(f"{value:.4f}" for value in self.q.tolist())
        return f"NearestPose: {errors}; {len(self.others)} other local minima\nq: {values}"

    def to_json(self) -> str:
        """Return the answer as JSON with the names of `eim_ros/srv/SolveNearestIK`, for one target."""
        return to_json(
            {
                "joint_names": self.joint_names,
                "positions": self.q,
                "position_error": self.position_error,
                "orientation_error": self.orientation_error,
                "exact": self.is_exact,
                "in_time": self.in_time,
            }
        )


def checked_priority(priority: Priority) -> tuple[float, float, str]:
    """Return the weights of position [1/m] and orientation [1/rad], and the error that has priority, or ""."""
    if priority in ("position", "orientation"):
        return (FIRST_WEIGHT, 1.0, "position") if priority == "position" else (1.0, FIRST_WEIGHT, "orientation")
    try:
        weights = [as_number(weight) for weight in priority]
    except TypeError:
        weights = []
    if isinstance(priority, str) or len(weights) != 2 or not min(weights) >= 0.0 or not 0.0 < max(weights) < np.inf:
        raise ConfigurationError(
            "priority must be 'position', 'orientation', or two weights of at least 0 [1/m, 1/rad], not both 0; "
            f"got {priority!r}",
            priority,
        )
    return weights[0], weights[1], ""


def nearest_pose(problem: Problem, priority: Priority, start: FloatArray | None = None) -> NearestPose:
    """Search for the configuration whose pose is nearest to the target of a problem.

    With a `start` (dof,), the answer is the local minimum that a descent from `start` leads to.
    """
    position_weight, orientation_weight, first = checked_priority(priority)
    search = Descent(problem)
    rng = np.random.default_rng(problem.seed)
    lower, upper = problem.bounds[:2]
    starts = rng.uniform(lower, upper, (N_STARTS, len(lower))) if start is None else np.clip(start, lower, upper)[None]
    weights = position_weight, orientation_weight
    q = search.run(starts, weights, FEW_STEPS, by_newton=False)
    stages = [weights]
    if first == "position":
        stages = [(weight, 1.0) for weight in LATER_WEIGHTS]
    elif first == "orientation":
        stages = [(1.0, weight) for weight in LATER_WEIGHTS]
    q = q[np.argsort(search.costs(q, stages[0]), kind="stable")]
    q = q[distinct_rows(problem.robot, q, DISTINCT)][:N_KEPT]
    for stage in stages:
        q = search.run(q, stage, MANY_STEPS, by_newton=True)
    return _chosen(problem, search, q, stages[-1], first)


def _chosen(problem: Problem, search: Descent, q: FloatArray, weights: tuple[float, float], first: str) -> NearestPose:
    """Return the best collision-free configuration, with the other local minima in `others`."""
    robot, constraints = problem.robot, problem.setup.constraints
    if problem.is_checked:
        q = q[problem.allowed(q)]
    if not len(q):
        nothing = np.full(robot.dof, np.nan)
        return NearestPose(
            robot.joint_names, nothing, np.full((4, 4), np.nan), np.nan, np.nan, False, q, not search.is_late
        )
    position, orientation = robot.verify(
        q, problem.pose, position_only=problem.position_only, tolerances=problem.tolerances
    )[0]
    if first:
        main, other = (position, orientation) if first == "position" else (orientation, position)
        order = np.lexsort((other, np.floor((main - main.min()) / EQUAL)))
    else:
        order = np.argsort(np.hypot(weights[0] * position, weights[1] * orientation), kind="stable")
    q, position, orientation = q[order], position[order], orientation[order]
    rows = distinct_rows(robot, q, DISTINCT)
    is_exact = position[0] <= constraints.position_tolerance and orientation[0] <= constraints.orientation_tolerance
    return NearestPose(
        robot.joint_names,
        q[0],
        robot.fk(q[0]),
        float(position[0]),
        float(orientation[0]),
        bool(is_exact),
        q[rows][1:],
        not search.is_late,
    )


@dataclass(eq=False)
class Descent:
    """Descent that moves many configurations towards a target pose at once.

    Attributes
    ----------
    problem : Problem
    is_late : bool
        Whether the deadline passed.
    """

    problem: Problem
    is_late: bool = False
    _robot: Robot = field(init=False)
    _twist_axis: int = field(init=False)

    def __post_init__(self) -> None:
        self._robot = self.problem.robot
        tolerances = self.problem.tolerances
        self._tolerances = np.zeros(6) if tolerances is None else tolerances
        self._twist_axis = 2 - int(np.argmax(self._tolerances[:2:-1]))

    def costs(self, q: FloatArray, weights: tuple[float, float]) -> FloatArray:
        """Return half the squared weighted distance (n,) of configurations (n, dof) from the target."""
        residuals = self._residuals(self._robot.fk(q)) * _columns(weights)
        return np.asarray(0.5 * (residuals**2).sum(axis=1))

    def run(self, q: FloatArray, weights: tuple[float, float], n_steps: int, by_newton: bool) -> FloatArray:
        """Descend from configurations (n, dof) by Newton's method, or by the method of Levenberg and Marquardt."""
        lower, upper = self.problem.bounds[:2]
        damping, costs = np.full(len(q), 1e-3), self.costs(q, weights)
        open_rows = np.arange(len(q))
        for _ in range(n_steps):
            if time.perf_counter() >= self.problem.deadline:
                self.is_late = True
                break
            at = q[open_rows]
            gradient, curvature = self._model(at, weights)
            if by_newton:
                curvature = self._hessian(at, weights)
            is_held = ((at <= lower) & (gradient > 0.0)) | ((at >= upper) & (gradient < 0.0)) | (lower == upper)
            step = _step(gradient, curvature, is_held, damping[open_rows])
            tried = np.clip(at + step, lower, upper)
            new_costs = self.costs(tried, weights)
            is_better = new_costs < costs[open_rows]
            q[open_rows[is_better]] = tried[is_better]
            costs[open_rows[is_better]] = new_costs[is_better]
            damping[open_rows] *= np.where(is_better, 0.2, 5.0)
            has_moved = (np.abs(tried - at).max(axis=1) > SHORTEST_STEP) & (damping[open_rows] < 1e9)
            open_rows = open_rows[has_moved]
            if not len(open_rows):
                break
        return q

    def _residuals(self, poses: FloatArray) -> FloatArray:
        """Return the errors (n, 6) of poses (n, 4, 4) beyond the tolerances, in the frame of the target."""
        target = self.problem.pose
        turned = target[:3, :3].T @ poses[:, :3, :3]
        errors = np.empty((len(poses), 6))
        errors[:, :3] = (poses[:, :3, 3] - target[:3, 3]) @ target[:3, :3]
        errors[:, 3:] = 0.0 if self.problem.position_only else self._rotation(turned)
        return np.asarray(np.sign(errors) * np.maximum(np.abs(errors) - self._tolerances, 0.0))

    def _rotation(self, turned: FloatArray) -> FloatArray:
        """Return rotations (n, 3, 3) as vectors (n, 3). With tolerances, these are a swing and a twist.

        `TaskOptions` defines the swing and the twist.
        """
        from scipy.spatial.transform import Rotation

        if not self._tolerances[3:].any():
            return np.asarray(Rotation.from_matrix(turned).as_rotvec())
        k = self._twist_axis
        i, j = (k + 1) % 3, (k + 2) % 3
        axis = turned[:, :, k]
        sine = np.hypot(axis[:, i], axis[:, j])
        angle = np.arctan2(sine, axis[:, k])
        share = np.divide(angle, sine, out=np.zeros_like(angle), where=sine > 1e-12)
        vectors = np.zeros((len(turned), 3))
        vectors[:, i], vectors[:, j] = -share * axis[:, j], share * axis[:, i]
        twisted = np.swapaxes(Rotation.from_rotvec(vectors).as_matrix(), 1, 2) @ turned
        vectors[:, k] = np.arctan2(twisted[:, j, i] - twisted[:, i, j], twisted[:, i, i] + twisted[:, j, j])
        return vectors

    def _model(self, q: FloatArray, weights: tuple[float, float]) -> tuple[FloatArray, FloatArray]:
        """Return the gradients (n, dof) of the costs, and their Gauss-Newton matrices (n, dof, dof)."""
        from scipy.spatial.transform import Rotation

        poses, jacobians = self._robot.fk(q), self._robot.jacobian(q)
        rows = np.empty((len(q), 6, q.shape[1]))
        rows[:, :3] = self.problem.pose[:3, :3].T @ jacobians[:, :3]
        residuals = self._residuals(poses)
        rows[:, :3] *= residuals[:, :3, None] != 0.0
        if self.problem.position_only:
            rows[:, 3:] = 0.0
        else:  # finite differences of the residual for rotations of the tip about its own axes
            slopes = np.empty((len(q), 3, 3))
            for axis in range(3):
                for sign in (1.0, -1.0):
                    turned = poses.copy()
                    turned[:, :3, :3] = (
                        poses[:, :3, :3] @ Rotation.from_rotvec(sign * STEP * np.eye(3)[axis]).as_matrix()
                    )
                    part = self._residuals(turned)[:, 3:] / (2.0 * STEP)
                    slopes[:, :, axis] = part if sign > 0.0 else slopes[:, :, axis] - part
            rows[:, 3:] = slopes @ np.swapaxes(poses[:, :3, :3], 1, 2) @ jacobians[:, 3:]
        scale = _columns(weights)
        rows, residuals = rows * scale[:, None], residuals * scale
        return np.einsum("nij,ni->nj", rows, residuals), np.einsum("nij,nik->njk", rows, rows)

    def _hessian(self, q: FloatArray, weights: tuple[float, float]) -> FloatArray:
        """Return the second derivatives (n, dof, dof) of the costs by finite differences of the gradients."""
        n, dof = q.shape
        shifts = STEP * np.concatenate([np.eye(dof), -np.eye(dof)])
        gradients = self._model((q[:, None] + shifts).reshape(-1, dof), weights)[0].reshape(n, 2, dof, dof)
        hessian = (gradients[:, 0] - gradients[:, 1]) / (2.0 * STEP)
        return np.asarray(0.5 * (hessian + np.swapaxes(hessian, 1, 2)))


def _columns(weights: tuple[float, float]) -> FloatArray:
    return np.repeat(np.array(weights), 3)


def _step(
    gradient: FloatArray, curvature: FloatArray, is_held: npt.NDArray[np.bool_], damping: FloatArray
) -> FloatArray:
    """Return damped Newton steps (n, dof) of the joints that are not fixed at a limit."""
    free = ~is_held
    curvature = curvature * free[:, :, None] * free[:, None, :]
    values, vectors = np.linalg.eigh(curvature)
    largest = np.abs(values).max(axis=1, keepdims=True) + 1e-12
    values = np.maximum(np.abs(values), 1e-9 * largest) + damping[:, None] * largest
    along = np.einsum("nij,ni->nj", vectors, gradient * free)
    step = -np.einsum("nij,nj->ni", vectors, along / values) * free
    longest = np.abs(step).max(axis=1, keepdims=True)
    return np.asarray(step * np.minimum(1.0, LONGEST_STEP / np.maximum(longest, 1e-12)))
