"""Kinematic simulator of a planar arm, and demonstrations recorded in it.

The simulator is of first order, which means that there are no masses and no torques. In each tick, every joint moves
towards the position of the trajectory at the end of the tick, as far as its velocity limit allows. Tick n is at time
n / rate, independent of the clock of the computer, so time does not drift.

`demonstrate` executes motions of the expert and keeps the successful motions. Its data set has the same description as
a data set from `eim import --task motion`, so motion priors can learn from both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eim_ros.core.checks import with_hints
from eim_ros.core.data_set import DataSet
from eim_ros.core.errors import ConfigurationError, DataError
from eim_ros.planar.arm import PlanarArm
from eim_ros.planar.expert import Expert
from eim_ros.planar.motions import MotionConfig, Trajectory, TrajectoryError, checked_trajectory, draw_motions
from eim_ros.planar.task import PlanarTask

Array = npt.NDArray[np.float64]

FOLD = 1.4  # angle between a folded link and the x axis [rad]


@dataclass(frozen=True)
class Outcome:
    """State of the robot relative to its task.

    Attributes
    ----------
    distance : float
        Distance of the tip to the goal [m].
    reached : bool
        Whether the distance is within the tolerance of the task.
    clearance : float
        Smallest distance between the links and the obstacles [m]. It is negative inside an obstacle and infinite
        without obstacles.
    collision : bool
        Whether a link touches an obstacle.
    success : bool
        Whether the goal is reached without a collision since the last reset, new task or new trajectory.
    moving : bool
        Whether a trajectory is being executed.
    """

    distance: float
    reached: bool
    clearance: float
    collision: bool
    success: bool
    moving: bool


def folded(arm: PlanarArm) -> Array:
    """Return the configuration (n_links,) [rad] of an arm that is folded in zigzag along the x axis.

    The folded arm is short and has no preferred side.

    Examples
    --------
    >>> from eim_ros.planar import PlanarArm, folded
    >>> folded(PlanarArm(n_links=3)).tolist()
    [1.4, -2.8, 2.8]
    """
    q = 2.0 * FOLD * (-1.0) ** np.arange(arm.n_links)
    q[0] = FOLD
    return np.clip(q, -arm.joint_limit, arm.joint_limit)


@with_hints
class PlanarSimulator:
    """Simulation of a robot with a task.

    The rate is the number of ticks per second [1/s]. The start (n_links,) [rad] is the configuration at the beginning
    and after a reset. The default start is `folded`.

    Examples
    --------
    Execute a trajectory of one second in 200 ticks:

    >>> from eim_ros.planar import PlanarArm, PlanarSimulator, point_task
    >>> arm = PlanarArm(n_links=2)
    >>> simulator = PlanarSimulator(arm, point_task((2.0, 0.0)), start=[0.5, 0.0])
    >>> simulator.execute(arm.joint_names, [0.0, 1.0], [[0.5, 0.0], [0.0, 0.0]])
    >>> while simulator.outcome.moving:
    ...     simulator.step()
    >>> simulator.tick, simulator.outcome.success
    (200, True)
    """

    def __init__(self, arm: PlanarArm, task: PlanarTask, rate: int = 200, start: Array | None = None) -> None:
        self.arm, self.task, self.rate = arm, task, rate
        self.start = folded(arm) if start is None else np.array(start, dtype=np.float64)
        if self.start.shape != (arm.n_links,) or not (np.abs(self.start) <= arm.joint_limit).all():
            raise ConfigurationError(
                f"the start must be {arm.n_links} angles from {-arm.joint_limit:.4g} to {arm.joint_limit:.4g} rad, got "
                f"{self.start.tolist()}",
                self.start.tolist(),
            )
        self.tick = 0
        self._begin_tick = 0  # tick at which the trajectory was received
        self._delay = 0.0  # time from that tick to time 0 of the trajectory [s]
        self.q: Array
        self.velocity: Array
        self._trajectory: Trajectory | None
        self.reset()

    @property
    def time(self) -> float:
        """Simulated time since the beginning [s]."""
        return self.tick / self.rate

    @property
    def points(self) -> Array:
        """Current positions of base, joints and tip (n_links + 1, 2) [m]."""
        return self._points

    @property
    def outcome(self) -> Outcome:
        """Current outcome."""
        return self._outcome

    def execute(
        self,
        joint_names: Sequence[str],
        times: Sequence[float],
        positions: Sequence[Sequence[float]],
        velocities: Sequence[Sequence[float]] = (),
        delay: float = 0.0,
    ) -> None:
        """Replace the current trajectory, see `checked_trajectory`. Without points, the robot stops.

        `delay` is the time from now to time 0 of the trajectory [s]. It is negative if time 0 is in the past.

        Raises
        ------
        TrajectoryError
            If the trajectory is invalid or already over. Nothing changes in this case.
        """
        if len(times) == 0 and len(positions) == 0:
            self._trajectory = None
            self._look()
            return
        trajectory = checked_trajectory(self.arm, joint_names, times, positions, velocities)
        if delay + trajectory.duration < 0.0:
            raise TrajectoryError(f"the trajectory ended {-delay - trajectory.duration:.3g} s ago", delay)
        self._trajectory = trajectory.starting_from(self.q)
        self._begin_tick, self._delay = self.tick, delay
        self._collided = False
        self._look()

    def step(self) -> None:
        """Simulate one tick."""
        self.tick += 1
        if self._trajectory is None:  # at rest, points and outcome do not change
            if self.velocity.any():
                self.velocity = np.zeros(self.arm.n_links)
            return
        before = self.q
        since = (self.tick - self._begin_tick) / self.rate - self._delay
        if since >= 0.0:
            most = self.arm.velocity_limit / self.rate
            duration = self._trajectory.duration
            is_over = since >= duration - 1e-9  # a delay need not be a multiple of a tick
            aim = self._trajectory.at(duration if is_over else since)
            gap = aim - self.q
            self.q = self.q + np.clip(gap, -most, most)
            if is_over and (np.abs(gap) <= most).all():
                self.q = aim.copy()
                self._trajectory = None
        self.velocity = (self.q - before) * self.rate
        self._look()

    def reset(self) -> None:
        """Move the robot to its start immediately. The simulated time continues."""
        self.q = self.start.copy()
        self.velocity = np.zeros(self.arm.n_links)
        self._trajectory = None
        self.set_task(self.task)

    def set_task(self, task: PlanarTask) -> None:
        """Replace the task."""
        self.task = task
        self._collided = False
        self._look()

    def _look(self) -> None:
        points = self.arm.points(torch.from_numpy(self.q))
        distance = float(self.task.distance(points[-1]))
        clearance = float(self.task.clearance(points))
        reached, collision = distance <= self.task.tolerance, clearance <= 0.0
        self._collided = self._collided or collision
        self._points: Array = points.numpy()
        self._outcome = Outcome(
            distance, reached, clearance, collision, reached and not self._collided, self._trajectory is not None
        )


def execute(simulator: PlanarSimulator, motion: Trajectory) -> Outcome:
    """Execute a motion from the simulator's start, and return its outcome.

    Raises
    ------
    TrajectoryError
        If the motion cannot be executed.
    """
    simulator.reset()
    simulator.execute(simulator.arm.joint_names, motion.times.tolist(), motion.positions.tolist())
    while simulator.outcome.moving:
        simulator.step()
    return simulator.outcome


def demonstrate(
    expert: Expert,
    start: Tensor,
    n_motions: int,
    generator: torch.Generator,
    config: MotionConfig | None = None,
) -> DataSet:
    """Return a data set of motions that fulfil the expert's task in the simulator, see `draw_motions`."""
    motions = draw_motions(expert, start, n_motions, generator, config)
    simulator = PlanarSimulator(expert.arm, expert.task, start=start.numpy())
    done = [motion for motion in motions if execute(simulator, motion).success]
    return motion_data_set(expert.arm, done, {"source": "planar expert", "planar_task": expert.task.to_mapping()})


def motion_data_set(arm: PlanarArm, motions: Sequence[Trajectory], about: dict[str, object]) -> DataSet:
    """Return a data set without contexts, in which each row contains the points of a motion in sequence.

    All motions must have the same number of points.
    """
    if not motions:
        raise DataError("a data set needs at least one motion", 0)
    n_points = len(motions[0].times)
    description = {
        "task": "motion",
        "joint_names": list(arm.joint_names),
        "n_points": n_points,
        "durations": [float(motion.times[-1]) for motion in motions],
        "context_names": [],
        "labels": ["expert"] * len(motions),
        "lower": [-arm.joint_limit] * arm.n_links,
        "upper": [arm.joint_limit] * arm.n_links,
        **about,
    }
    sample = np.stack([motion.positions.ravel() for motion in motions])
    return DataSet(np.zeros((len(motions), 0)), sample, description)
