"""The answer for a path of poses: configurations, the steps between them, and time stamps.

If only velocities are limited, joints move at constant velocity between two configurations. The duration of a step is
then the largest |dq| / velocity. If accelerations are limited, too, the library toppra times a motion along a spline.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from eim_ros.core.arrays import BoolArray, FloatArray, IntArray
from eim_ros.core.checks import is_number, numbers_of, with_hints
from eim_ros.core.errors import ConfigurationError
from eim_ros.core.files import finite
from eim_ros.ik.candidates import ErrorCode
from eim_ros.kinematics import Robot

MAX_STEP = 0.3  # default of the largest change of a revolute joint between two poses [rad]
MAX_SLIDE = 0.05  # default of the largest change of a prismatic joint [m]
GRID = 8  # number of intervals between two configurations in which toppra checks the limits
SHORTEST = 1e-6  # smallest interval of the spline's parameter, as a share of the sum; keeps equal rows apart


@with_hints
@dataclass(frozen=True, eq=False)
class JointPath:
    """One configuration for each pose of a path.

    Execute a path only if its error code is SUCCESS. Otherwise the path is false, its length is 0 and iteration yields
    nothing. The incomplete result remains available in `q`, which always has one row for each pose.

    Attributes
    ----------
    joint_names : tuple of str
    q : (n_poses, dof)
        Configurations [rad] or [m]; NaN for poses without a configuration. Values of continuous joints are unwrapped,
        so they may be outside [-π, π]. If the limits of another joint allow more than one revolution, the
        2π-equivalent values with the fewest jumps are chosen.
    position_error, orientation_error : (n_poses,)
        Errors by forward kinematics [m], [rad]; infinite for poses without a configuration.
    valid : (n_poses,) of bool
        Whether the configuration satisfies the tolerances, the limits and the collision checks.
    examined : (n_poses,) of bool
        Whether the pose was examined in time. An examined pose that is not valid has no known solution. A pose that was
        not examined may have a solution.
    max_step : float
        Largest change of a joint between successive rows of `q`, including the step from `near` [rad] or [m]. Poses
        without a configuration are skipped.
    n_reached : int
        Number of poses, from the first pose on, that can be reached without steps that are too large. If time ran out,
        the number is that of the path `q`, and another path may reach more poses.
    nearest_miss : float
        Smallest step from the last pose reached to a known solution of the next pose [rad] or [m]. It is infinite if
        the next pose has no solution, and 0 if all poses are reached. If time ran out, it is the step of the path `q`.
    jumps : (n_jumps,) of int, optional
        Indices of the poses that the path jumps to, because some joint moves farther than allowed or the straight
        motion collides. The path has as few jumps as the solutions found allow, except for jumps caused by limits of
        more than one revolution. Poses without a configuration are skipped. The value is None for a failed path of a
        service, which does not report jumps.
    error_code : ErrorCode
        SUCCESS if every pose is solved and no step is too large. NO_IK_SOLUTION if it is proven that no such path
        exists. TIMED_OUT if no such path was found in time.
    message : str
    elapsed : float
        Time of the call [s].

    Examples
    --------
    Move the tip of a Panda 0.2 m to the side:

    >>> import numpy as np
    >>> from eim_ros import Sampler
    >>> poses = [[0.4, y, 0.5, 1.0, 0.0, 0.0, 0.0] for y in np.linspace(-0.1, 0.1, 11)]
    >>> path = Sampler("panda").follow(poses, max_step=0.3, seed=0)
    >>> bool(path), path.q.shape, path.max_step <= 0.3
    (True, (11, 7), True)
    """

    joint_names: tuple[str, ...]
    q: FloatArray
    position_error: FloatArray
    orientation_error: FloatArray
    valid: BoolArray
    examined: BoolArray
    max_step: float
    n_reached: int
    nearest_miss: float
    jumps: IntArray | None
    error_code: ErrorCode
    message: str
    elapsed: float

    @classmethod
    def not_begun(cls, joint_names: tuple[str, ...], n_poses: int, message: str, elapsed: float) -> JointPath:
        """Return the answer for the case that no pose was examined in time."""
        errors, none = np.full(n_poses, np.inf), np.zeros(n_poses, dtype=np.bool_)
        found = (joint_names, np.full((n_poses, len(joint_names)), np.nan), errors, errors, none, none)
        return cls(*found, 0.0, 0, math.inf, np.empty(0, dtype=np.int64), ErrorCode.TIMED_OUT, message, elapsed)

    def times(
        self,
        velocities: npt.ArrayLike,
        accelerations: npt.ArrayLike | None = None,
        *,
        near: npt.ArrayLike | None = None,
    ) -> FloatArray:
        """Return the earliest time (n_poses,) at which each pose can be reached, with 0 at the first pose [s].

        Without accelerations, joints move at constant velocity between two poses. With accelerations, the joints follow
        a spline through the configurations, and are at rest at both ends.

        Parameters
        ----------
        velocities : float or (dof,) array_like
            Largest velocity of all joints or of each joint [rad/s] or [m/s], such as `Robot.velocity_limits`.
        accelerations : float or (dof,) array_like, optional
            Largest acceleration of all joints or of each joint [rad/s^2] or [m/s^2]. It requires the library toppra.
        near : (dof,) array_like, optional
            Configuration at time 0. Default: the first row of the path.

        Raises
        ------
        ConfigurationError
            If a pose has no configuration, a limit is not positive and finite, or toppra is needed but not installed.

        Examples
        --------
        >>> from eim_ros import Sampler
        >>> line = [[0.4, y, 0.5, 1.0, 0.0, 0.0, 0.0] for y in (-0.1, 0.0, 0.1)]
        >>> times = Sampler("panda").follow(line, max_step=0.5, seed=0).times(1.0)
        >>> times.shape, float(times[0])
        ((3,), 0.0)
        """
        if np.isnan(self.q).any():
            raise ConfigurationError(
                "times need a configuration for every pose, but some poses of the path have none", self.message
            )
        n_joints, rows = len(self.joint_names), self.q
        if near is not None:
            rows = np.concatenate([numbers_of(near, (n_joints,), "near")[None], rows])
        largest = _positive(velocities, n_joints, "velocities")
        if accelerations is None:
            times = velocity_times(rows, largest)
        else:
            times = acceleration_times(rows, largest, _positive(accelerations, n_joints, "accelerations"))
        return times[len(rows) - len(self.q) :]

    def to_json(self) -> str:
        """Return the path as JSON with the names of `eim_ros/srv/FollowIK`; numbers that are not finite become null."""
        fields: dict[str, Any] = {
            "error_code": {"val": int(self.error_code), "message": self.message},
            "joint_names": self.joint_names,
            "n": len(self.q),
            "positions": self.q,
        }
        for name in ("position_error", "orientation_error", "valid", "examined", "max_step", "elapsed"):
            fields[name] = getattr(self, name)
        return json.dumps(finite(fields))

    def __bool__(self) -> bool:
        """Return whether all poses are reached by steps that are small enough."""
        return self.error_code == ErrorCode.SUCCESS

    def __repr__(self) -> str:
        """Return the outcome and the ends of the path in at most three lines."""
        ends = (" ".join(f"{value:.4f}" for value in row.tolist()) for row in self.q[:: max(len(self.q) - 1, 1)])
        return "\n".join([f"JointPath: {self.message}", *ends])

    def __len__(self) -> int:
        """Return the number of configurations of a successful path, otherwise 0."""
        return len(self.q) if self else 0

    def __iter__(self) -> Iterator[FloatArray]:
        """Iterate over the configurations (dof,) of a successful path. An unsuccessful path yields nothing."""
        return iter(self.q[: len(self)])


def _positive(values: npt.ArrayLike, n_joints: int, name: str, given: object = None) -> FloatArray:
    """Return values (n_joints,) from one value for all joints or one for each. Error messages show `given`."""
    is_one = is_number(values) or getattr(values, "shape", None) == ()
    found = numbers_of(values, () if is_one else (n_joints,), name)
    if not (found > 0.0).all():
        given = values if given is None else given
        raise ConfigurationError(f"{name} must be positive, got {given!r}", given)
    return np.broadcast_to(found, n_joints)


def velocity_times(rows: FloatArray, velocities: FloatArray) -> FloatArray:
    """Return the earliest times (n,) [s] of configurations (n, dof) with velocity limits (dof,). The first is 0."""
    durations = (np.abs(np.diff(rows, axis=0)) / velocities).max(axis=1, initial=0.0)
    return np.concatenate([[0.0], np.cumsum(durations)])


def acceleration_times(rows: FloatArray, velocities: FloatArray, accelerations: FloatArray) -> FloatArray:
    """Return the earliest times (n,) along a spline through configurations, from rest to rest [s].

    Raises
    ------
    ConfigurationError
        If toppra is not installed, or finds no times.
    """
    try:
        import toppra
        from toppra import algorithm, constraint
    except ImportError as error:
        raise ConfigurationError("accelerations need the library toppra: run `pip install toppra`") from error
    if len(rows) < 2 or not np.diff(rows, axis=0).any():
        return np.zeros(len(rows))
    lengths = np.diff(velocity_times(rows, velocities))
    knots = np.concatenate([[0.0], np.cumsum(np.maximum(lengths, SHORTEST * lengths.sum()))])
    grid = np.interp(np.arange(GRID * (len(rows) - 1) + 1) / GRID, np.arange(len(rows)), knots)
    limits = [
        constraint.JointVelocityConstraint(np.stack([-velocities, velocities], axis=1)),
        constraint.JointAccelerationConstraint(np.stack([-accelerations, accelerations], axis=1)),
    ]
    problem = algorithm.TOPPRA(limits, toppra.SplineInterpolator(knots, rows), gridpoints=grid)
    speeds = problem.compute_parameterization(0.0, 0.0)[1]
    if speeds is None:
        raise ConfigurationError(
            "toppra finds no times for this path within these accelerations: allow larger accelerations", accelerations
        )
    durations = 2.0 * np.diff(grid) / (speeds[1:] + speeds[:-1])
    return np.concatenate([[0.0], np.cumsum(durations)])[::GRID]


def largest_steps(
    robot: Robot,
    n_poses: int,
    max_step: float | npt.ArrayLike | Mapping[str, float] | None,
    times: npt.ArrayLike | None,
    near: FloatArray | None,
) -> FloatArray:
    """Return the largest step of each joint to each pose (n_poses, dof), see `Sampler.follow`."""
    steps = np.tile(_steps_of(max_step, robot), (n_poses, 1))
    if times is None:
        return steps
    return np.asarray(np.minimum(steps, robot.velocity_limits * _durations(times, n_poses, near)[:, None]))


def _steps_of(max_step: float | npt.ArrayLike | Mapping[str, float] | None, robot: Robot) -> FloatArray:
    """Return the largest step of each joint (dof,)."""
    steps = np.where(robot.prismatic, MAX_SLIDE, MAX_STEP)
    if isinstance(max_step, Mapping):
        names = list(robot.joint_names)
        if unknown := [name for name in max_step if name not in names]:
            raise ConfigurationError(
                f"max_step names {unknown[0]!r}, which is not a joint; the joints are {', '.join(names)}", max_step
            )
        indices = [names.index(name) for name in max_step]
        steps[indices] = _positive(list(max_step.values()), len(indices), "max_step", max_step)
    elif max_step is not None:
        steps[:] = _positive(max_step, robot.dof, "max_step")
    return steps


def _durations(times: npt.ArrayLike, n_poses: int, near: FloatArray | None) -> FloatArray:
    """Return the duration (n_poses,) of the step to each pose [s]; infinite for the first pose without `near`."""
    stamps = numbers_of(times, (n_poses,), "times")
    durations = np.diff(stamps, prepend=-math.inf if near is None else 0.0)
    if not (durations > 0.0).all():
        start = "" if near is None else ", and the first must be positive, because time 0 is at `near`"
        raise ConfigurationError(f"times must increase{start}", times)
    return durations
