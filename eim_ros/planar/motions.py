"""Motions of a planar arm from a start to configurations of the expert, around the obstacles.

    q(s) = start + (goal - start) m(s) + sum_k w_k b_k(s),    s = t / duration

m is the minimum-jerk profile. The bumps b_k(s) = 16 s^2 (1 - s)^2 T_k(2 s - 1) contain Chebyshev polynomials T_k. At
both ends, the bumps and their first derivatives are zero. Gradient descent on missing clearance and exceeded joint
limits improves random weights w_k, as in CHOMP (Zucker et al. 2013). If a motion still touches an obstacle, it is
planned again.

A `Trajectory` is checked once against the arm, and can be evaluated at any time. Between two points, a joint moves
linearly, or along a cubic if the points have velocities.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eim_ros.core.errors import ConfigurationError, EimError
from eim_ros.core.settings import Settings, option
from eim_ros.planar.arm import PlanarArm
from eim_ros.planar.expert import Expert

N_CHECKED = 400  # number of points of a motion at which clearance is checked
N_PLANNED = 48  # number of points of a motion at which clearance is improved
LEARNING_RATE = 0.03
Array = npt.NDArray[np.float64]
SUBDIVISION = 16  # number of parts of a segment; a cubic is checked at the ends of each part
ROUNDING = 1e-9  # relative tolerance of limits, for rounding errors of the sender


@dataclass(frozen=True)
class MotionConfig(Settings):
    """Settings for planning and timing motions."""

    n_points: int = option(101, "number of points of a trajectory", minimum=2)
    speed: float = option(0.5, "maximum velocity of a joint, as a share of its limit", minimum=1e-3, maximum=1.0)
    least_duration: float = option(1.0, "duration of the shortest motion", unit="s", minimum=1e-3)
    margin: float = option(0.05, "clearance along the motion", unit="m", minimum=0.0)
    n_bumps: int = option(4, "number of polynomials that bend the motion of a joint", minimum=1)
    spread: float = option(
        0.3, "initial standard deviation of their weights, which makes motions differ", unit="rad", minimum=0.0
    )
    n_steps: int = option(150, "number of gradient steps", minimum=1)
    n_tries: int = option(
        6, "attempts per motion that collides, each with new random weights of larger spread", minimum=1
    )


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Points of all joints of an arm, in the arm's joint order.

    Attributes
    ----------
    times : (n_points,) float64
        Times since the start of the trajectory [s], ascending.
    positions : (n_points, n_links) float64
        Joint positions [rad].
    velocities : (n_points, n_links) float64 or None
        Joint velocities [rad/s].
    """

    times: Array
    positions: Array
    velocities: Array | None = None

    @property
    def duration(self) -> float:
        """Time of the last point [s]."""
        return float(self.times[-1])

    def at(self, time: float) -> Array:
        """Return the positions (n_links,) [rad] at a time [s].

        Before the first point the result is the first point, and after the last point it is the last point.
        """
        after = int(np.searchsorted(self.times, time, side="right"))
        if after == 0 or after == len(self.times):
            return np.asarray(self.positions[min(after, len(self.times) - 1)])
        begin, span = self.times[after - 1], self.times[after] - self.times[after - 1]
        share, (first, last) = (time - begin) / span, self.positions[after - 1 : after + 1]
        if self.velocities is None:
            return np.asarray(first + share * (last - first))
        leaving, arriving = span * self.velocities[after - 1 : after + 1]
        s2, s3 = share**2, share**3
        cubic = (2 * s3 - 3 * s2 + 1) * first + (s3 - 2 * s2 + share) * leaving
        return np.asarray(cubic + (3 * s2 - 2 * s3) * last + (s3 - s2) * arriving)

    def starting_from(self, q: Array) -> Trajectory:
        """Return the trajectory with q (n_links,) as a new point at time 0, unless it already begins at time 0."""
        if self.times[0] <= 0.0:
            return self
        still = None if self.velocities is None else np.vstack([np.zeros_like(q), self.velocities])
        return Trajectory(np.concatenate([[0.0], self.times]), np.vstack([q, self.positions]), still)


def draw_motions(
    expert: Expert, start: Tensor, n_motions: int, generator: torch.Generator, config: MotionConfig | None = None
) -> list[Trajectory]:
    """Draw evenly timed motions of an expert from a start (n_links,) [rad] to samples of its posterior.

    A sample is skipped if no free path to it is found.

    Raises
    ------
    ConfigurationError
        If the start touches an obstacle, the goal is out of reach, or most samples cannot be reached.
    """
    config = config or MotionConfig()
    if float(expert.task.clearance(expert.arm.points(start))) <= 0.0:
        raise ConfigurationError(
            "the arm touches an obstacle at the start of its motions: move the start or the obstacle", start.tolist()
        )
    motions: list[Trajectory] = []
    for _ in range(4):
        goals = expert.draw(n_motions, generator)
        ways, free = plan(expert, start, goals, generator, config)
        motions += [_timed(expert.arm, way, config) for way in ways[free]]
        if len(motions) >= n_motions:
            return motions[:n_motions]
    raise ConfigurationError(
        "for most goals, no path around the obstacles was found: move the start or an obstacle",
        len(motions),
    )


def reaching_motion(arm: PlanarArm, start: Tensor, goal: Tensor, config: MotionConfig | None = None) -> Trajectory:
    """Return the direct motion from a start (n_links,) to a goal (n_links,) [rad]. Obstacles are ignored.

    Examples
    --------
    >>> import torch
    >>> from eim_ros.planar import PlanarArm
    >>> from eim_ros.planar.motions import reaching_motion
    >>> arm = PlanarArm(n_links=2)
    >>> goal = torch.tensor([0.5, 0.2], dtype=torch.float64)
    >>> motion = reaching_motion(arm, torch.zeros_like(goal), goal)
    >>> motion.positions.shape, motion.positions[-1].round(3).tolist()
    ((101, 2), [0.5, 0.2])
    """
    config = config or MotionConfig()
    share = torch.linspace(0.0, 1.0, N_CHECKED, dtype=torch.float64)
    still = torch.zeros(1, config.n_bumps, arm.n_links, dtype=torch.float64)
    return _timed(arm, _way(start, goal.unsqueeze(0), still, share)[0], config)


def plan(
    expert: Expert, start: Tensor, goals: Tensor, generator: torch.Generator, config: MotionConfig
) -> tuple[Tensor, Tensor]:
    """Plan paths from a start (n_links,) to goals (n, n_links) [rad], around the obstacles of an expert.

    Return configurations (n, 400, n_links) [rad], evenly spaced in time. Also return whether each path (n,) is within
    the joint limits and has a distance of at least half the margin from all obstacles.
    """
    weights = torch.zeros(len(goals), config.n_bumps, expert.arm.n_links, dtype=torch.float64)
    free = torch.zeros(len(goals), dtype=torch.bool)
    share = torch.linspace(0.0, 1.0, N_CHECKED, dtype=torch.float64)
    for attempt in range(config.n_tries):
        left = (~free).nonzero().flatten()
        if len(left) == 0:
            break
        noise = torch.randn(len(left), *weights.shape[1:], generator=generator, dtype=weights.dtype)
        found = _improved(expert, start, goals[left], config.spread * (1.0 + attempt) * noise, config)
        way = _way(start, goals[left], found, share)
        clear = expert.task.clearance(expert.arm.points(way)).amin(-1) > 0.5 * config.margin
        weights[left] = found
        free[left] = clear & expert.arm.within_limits(way).all(-1)
    return _way(start, goals, weights, share), free


def _improved(expert: Expert, start: Tensor, goals: Tensor, weights: Tensor, config: MotionConfig) -> Tensor:
    """Improve weights (n, n_bumps, n_links) by gradient descent on missing clearance and exceeded limits.

    The gradient is zero for paths that have enough clearance and are within the limits.
    """
    share = torch.linspace(0.0, 1.0, N_PLANNED, dtype=torch.float64)
    weights = weights.clone().requires_grad_(True)
    optimiser = torch.optim.Adam([weights], lr=LEARNING_RATE)
    for _ in range(config.n_steps):
        way = _way(start, goals, weights, share)
        lacking = (2.0 * config.margin - expert.task.clearance(expert.arm.points(way))).clamp_min(0.0)
        beyond = (way.abs() - 0.98 * expert.arm.joint_limit).clamp_min(0.0)
        cost = lacking.square().sum() + beyond[:, 1:-1].square().sum()
        if float(cost.detach()) == 0.0:
            break
        optimiser.zero_grad()
        cost.backward()
        optimiser.step()
    return weights.detach()


def _way(start: Tensor, goals: Tensor, weights: Tensor, share: Tensor) -> Tensor:
    """Return configurations (n, n_points, n_links) at shares (n_points,) of the duration."""
    profile = share**3 * (10.0 - 15.0 * share + 6.0 * share.square())
    angle = torch.arccos((2.0 * share - 1.0).clamp(-1.0, 1.0))
    bumps = torch.stack([16.0 * (share * (1.0 - share)).square() * (k * angle).cos() for k in range(weights.shape[1])])
    return start + profile.unsqueeze(-1) * (goals - start).unsqueeze(-2) + bumps.mT @ weights


def _timed(arm: PlanarArm, way: Tensor, config: MotionConfig) -> Trajectory:
    """Return the fastest motion along the path that the settings allow."""
    steepest = float(way.diff(dim=0).abs().max()) * (len(way) - 1)
    duration = max(config.least_duration, steepest / (config.speed * arm.velocity_limit))
    index = np.linspace(0.0, len(way) - 1.0, config.n_points)
    columns = [np.interp(index, np.arange(len(way)), column) for column in way.T.numpy()]
    return Trajectory(np.linspace(0.0, math.ceil(100.0 * duration) / 100.0, config.n_points), np.stack(columns, 1))


class TrajectoryError(EimError):
    """Error for a trajectory with other joints, values beyond the limits, or invalid times or values."""


def checked_trajectory(
    arm: PlanarArm,
    joint_names: Sequence[str],
    times: Sequence[float],
    positions: Sequence[Sequence[float]],
    velocities: Sequence[Sequence[float]] = (),
) -> Trajectory:
    """Create a trajectory from the parts of a message.

    The names are all joints of the arm, in the order of the columns. Times since the start [s] must ascend and must not
    be negative. Positions [rad] have one row per time and one column per joint. Velocities [rad/s] have the same shape.
    Without velocities, the sequence or its rows are empty.

    Raises
    ------
    TrajectoryError
        If the trajectory is rejected. The message contains the reason.

    Examples
    --------
    >>> from eim_ros.planar import PlanarArm, checked_trajectory
    >>> arm = PlanarArm(n_links=2)
    >>> trajectory = checked_trajectory(arm, arm.joint_names, [0.0, 1.0], [[0.0, 0.0], [0.5, 0.2]])
    >>> trajectory.duration, trajectory.at(0.5).tolist()
    (1.0, [0.25, 0.1])
    """
    order = _order(arm, list(joint_names))
    n_points = len(times)
    if n_points == 0 or len(positions) != n_points:
        raise TrajectoryError(
            f"a trajectory needs points and a time for each point, got {len(positions)} points and {n_points} times",
            n_points,
        )
    when = np.array(times, dtype=np.float64)
    if not np.isfinite(when).all() or when[0] < 0.0 or (np.diff(when) <= 0.0).any():
        raise TrajectoryError("the times of a trajectory must be finite, at least 0 and increasing", when.tolist())
    where = _table("positions", positions, arm)[:, order]
    given = [len(row) > 0 for row in velocities]
    if any(given) and (len(given) != n_points or not all(given)):
        raise TrajectoryError(
            "some points of a trajectory have no velocities: give velocities for all points, or for none", sum(given)
        )
    speed = _table("velocities", velocities, arm)[:, order] if any(given) else None
    trajectory = Trajectory(when, where, speed)
    _check_limits(arm, trajectory)
    return trajectory


def _order(arm: PlanarArm, names: list[str]) -> list[int]:
    """Return the column of each joint of the arm."""
    missing, unknown = sorted(set(arm.joint_names) - set(names)), sorted(set(names) - set(arm.joint_names))
    if missing or unknown or len(names) != len(set(names)):
        said = [f"{what} {', '.join(some)}" for what, some in (("lacks", missing), ("names unknown", unknown)) if some]
        raise TrajectoryError(f"the trajectory {' and '.join(said) or 'names a joint more than once'}", names)
    return [names.index(name) for name in arm.joint_names]


def _table(what: str, rows: Sequence[Sequence[float]], arm: PlanarArm) -> Array:
    for number, row in enumerate(rows):
        if len(row) != arm.n_links:
            raise TrajectoryError(f"point {number} has {len(row)} {what} for {arm.n_links} joints", number)
    table = np.array([list(row) for row in rows], dtype=np.float64)
    if not np.isfinite(table).all():
        raise TrajectoryError(f"the {what} of a trajectory must be finite", what)
    return table


def _check_limits(arm: PlanarArm, trajectory: Trajectory) -> None:
    when = trajectory.times
    if trajectory.velocities is not None:
        shares = np.arange(SUBDIVISION) / SUBDIVISION
        when = np.append((when[:-1, None] + shares * np.diff(when)[:, None]).ravel(), when[-1])
    where = np.array([trajectory.at(time) for time in when])
    most = np.abs(where)
    if (most > arm.joint_limit * (1.0 + ROUNDING)).any():
        row, joint = np.unravel_index(most.argmax(), most.shape)
        raise TrajectoryError(
            f"{arm.joint_names[joint]} would be at {where[row, joint]:.4g} rad after {when[row]:.4g} s; its limit is "
            f"{arm.joint_limit:.4g} rad",
            float(where[row, joint]),
        )
    speed = np.abs(np.diff(where, axis=0)) / np.diff(when)[:, None]
    if (speed > arm.velocity_limit * (1.0 + ROUNDING)).any():
        row, joint = np.unravel_index(speed.argmax(), speed.shape)
        raise TrajectoryError(
            f"{arm.joint_names[joint]} would move at {speed[row, joint]:.4g} rad/s after {when[row]:.4g} s; its limit "
            f"is {arm.velocity_limit:.4g} rad/s",
            float(speed[row, joint]),
        )
