"""Goals of the tip that motions reach. A goal is a plane, or a line for a planar arm.

A goal that all demonstrations reach belongs to the prior. `MotionPrior.with_goals` stores this goal, and all samples
then reach it. Without it, samples miss the goal slightly, because small errors of many joints add up at the tip.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from eim_ros.core.arrays import FloatArray
from eim_ros.core.checks import is_number, with_hints
from eim_ros.core.errors import ConfigurationError, DataError, RobotError, did_you_mean
from eim_ros.kinematics import Robot
from eim_ros.motion.demonstrations import Demonstrations
from eim_ros.motion.distribution import TaskPoint

AXES = "xyz"
DEFAULT_TOLERANCE = 0.05  # [m]


@with_hints
@dataclass(frozen=True)
class TipGoal:
    """Plane in which the tip lies at a phase of a motion.

    Attributes
    ----------
    axis : str
        Coordinate of the tip in the frame of the base link: "x", "y" or "z".
    value : float or str
        Value of this coordinate [m], or the name of the entry of the context that contains the value.
    tolerance : float
        Maximum distance from the value [m].
    phase : float
        0 at the start, 1 at the end of the motion.

    Examples
    --------
    The tip ends within 5 cm of a line. The context contains the x coordinate of the line:

    >>> from eim_ros.motion import TipGoal
    >>> TipGoal.parse("x=line_x:0.05")
    TipGoal(axis='x', value='line_x', tolerance=0.05, phase=1.0)
    """

    axis: str
    value: float | str
    tolerance: float = DEFAULT_TOLERANCE
    phase: float = 1.0

    def __post_init__(self) -> None:
        if not (isinstance(self.axis, str) and len(self.axis) == 1 and self.axis in AXES):
            raise DataError(f"the axis of a goal must be x, y or z, got {self.axis!r}", self.axis)
        if not (self.value if isinstance(self.value, str) else is_number(self.value) and math.isfinite(self.value)):
            raise DataError(f"the value of a goal must be a number or a name, got {self.value!r}", self.value)
        TaskPoint(np.zeros_like, self.tolerance, self.phase)  # raises an error for invalid values

    @classmethod
    def parse(cls, word: str) -> TipGoal:
        """Parse a goal such as "x=5", "x=5:0.02" or "x=line_x"."""
        axis, _, rest = word.partition("=")
        value, _, tolerance = rest.partition(":")
        try:
            return cls(axis, _number_or_name(value), float(tolerance or DEFAULT_TOLERANCE))
        except (ValueError, DataError) as error:
            raise ConfigurationError(
                f"a goal must be AXIS=VALUE or AXIS=VALUE:TOLERANCE with an axis x, y or z, got {word!r}: {error}",
                word,
            ) from error

    def task(self, robot: Robot, joint_names: Sequence[str], context: Mapping[str, float]) -> TaskPoint:
        """Return the task for a prior with these joints and for a context given by names."""
        value = context[self.value] if isinstance(self.value, str) else self.value
        return TaskPoint(lambda q: np.abs(self._coordinate(robot, joint_names, q) - value), self.tolerance, self.phase)

    def check_demonstrated(self, robot: Robot, motions: Demonstrations) -> None:
        """Raise `DataError` if less than half of the motions reach the goal. Such a goal is probably a mistake."""
        row = round(self.phase * (motions.positions.shape[1] - 1))
        reached = self._coordinate(robot, motions.joint_names, motions.positions[:, row])
        value = self.value
        wanted = motions.context[:, motions.context_names.index(value)] if isinstance(value, str) else value
        n_reaching = int((np.abs(reached - wanted) <= self.tolerance).sum())
        if 2 * n_reaching < len(motions):
            told = value if isinstance(value, str) else f"{value:g}"
            raise DataError(
                f"{n_reaching} of {len(motions)} demonstrations are within {self.tolerance:g} m of "
                f"{self.axis}={told} at phase {self.phase:g}, where {self.axis} ranges from {reached.min():.3g} to "
                f"{reached.max():.3g} m; correct the goal or its tolerance",
                n_reaching,
            )

    def _coordinate(self, robot: Robot, joint_names: Sequence[str], q: FloatArray) -> FloatArray:
        """Return the coordinate (n,) [m] of the tip in configurations (n, n_joints)."""
        order = [list(joint_names).index(name) for name in robot.joint_names]
        return np.asarray(robot.fk(q[:, order])[:, AXES.index(self.axis), 3])


def check_goals(
    goals: Sequence[TipGoal], robot: Robot | None, joint_names: Sequence[str], context_names: Sequence[str]
) -> None:
    """Raise an `EimError` unless the goals are possible for motions of these joints and contexts."""
    if goals and robot is None:
        raise ConfigurationError(
            "goals of the tip need a robot, which this prior does not contain: give --robot, or train with --robot",
            goals,
        )
    if robot is not None and set(robot.joint_names) != set(joint_names):
        raise DataError(
            f"the motions have joints {', '.join(joint_names)}, but robot '{robot.name}' has "
            f"{', '.join(robot.joint_names)}",
            robot.name,
        )
    for goal in goals:
        if isinstance(goal.value, str) and goal.value not in context_names:
            known = ", ".join(context_names) or "none"
            raise DataError(
                f"the value of a goal is {goal.value}, which is not in the context; the context has {known}"
                f"{did_you_mean(goal.value, context_names)}",
                goal.value,
            )


def stored_goals(robot: Robot | None, goals: Sequence[TipGoal]) -> dict[str, Any]:
    """Return the entries that store the robot and the goals in a model file."""
    if robot is None:
        return {}
    described = {"urdf": robot.urdf, "base_link": robot.base_link, "tip_link": robot.tip_link}
    return {"robot": described, "goals": [asdict(goal) for goal in goals]}


def restored_goals(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields `robot` and `goals` of a prior from a model file. Older files have neither."""
    if "robot" not in document:
        return {}
    urdf, base, tip = (str(document["robot"][name]) for name in ("urdf", "base_link", "tip_link"))
    if not urdf.startswith("<"):  # prevents `Robot` from reading a file that an untrusted model names
        raise RobotError("its URDF is not XML", urdf)
    goals = tuple(TipGoal(**goal) for goal in document["goals"])
    return {"robot": Robot.quietly(urdf, tip, base=base), "goals": goals}


def _number_or_name(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
