"""Pairs of pose and configuration that a robot showed: collected from its joint states or by sampling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from eim_ros.data import DataSet
from eim_ros.data.joint_matching import JointMatcher
from eim_ros.errors import DataError
from eim_ros.ik.model import describe_robot
from eim_ros.kinematics import Robot, context_from_pose

__all__ = ["PairCollector", "pair_data_set"]

LIMIT_TOLERANCE = 1e-6  # [rad] or [m]

FloatArray = npt.NDArray[np.float64]


def pair_data_set(
    robot: Robot, configurations: FloatArray, poses: FloatArray, context_kind: str, about: dict[str, Any]
) -> DataSet:
    """Data set as `eim train` reads it.

    Parameters
    ----------
    robot : Robot
    configurations : (n, dof)
        [rad] or [m].
    poses : (n, 4, 4)
        Of the tip in the base frame.
    context_kind : str
        "position" or "pose", as in `collect`.
    about : dict
        Further entries of the description, among them "source".
    """
    description = {**about, "robot": describe_robot(robot), "context_kind": context_kind}
    return DataSet(context_from_pose(poses, context_kind), configurations, description)


class PairCollector:
    """Collects configurations that are complete, finite, within limits and not too close to the one before.

    Parameters
    ----------
    robot : Robot
    context_kind : str
        "position" or "pose".
    n_wanted : int
        Pairs after which it is full.
    min_distance : float
        Least change of some joint between two configurations of joint states [rad] or [m].
    """

    def __init__(self, robot: Robot, context_kind: str, n_wanted: int, min_distance: float) -> None:
        self.robot = robot
        self._context_kind, self._min_distance = context_kind, min_distance
        self.n_wanted = n_wanted
        self._matcher = JointMatcher(robot.joint_names)
        self._rows: list[FloatArray] = []
        self.n_dropped = 0
        self.problem = ""

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def is_full(self) -> bool:
        """Whether there are as many as wanted."""
        return len(self._rows) >= self.n_wanted

    def add_state(self, names: Sequence[str], positions: npt.ArrayLike) -> bool:
        """Take a joint state; False, with the reason in `problem`, if it is left out."""
        values, problem = self._matcher.match(names, positions)
        if values is None:
            return self._drop(f"a joint state was {problem}" if problem == "not finite" else f"joint state: {problem}")
        robot = self.robot
        wrapped = (values + np.pi) % (2.0 * np.pi) - np.pi
        values = np.where(robot.continuous, wrapped, values)
        if not robot.within_limits(values, LIMIT_TOLERANCE)[0]:
            outside = np.maximum(robot.lower - values, values - robot.upper)
            worst = int(np.argmax(outside))
            return self._drop(f"{robot.joint_names[worst]} is out of its limits by {outside[worst]:.3g}")
        if self._rows and np.abs(values - self._rows[-1]).max() < self._min_distance:
            return self._drop("closer to the one before than min_distance")
        self._add(values)
        return True

    def sample(self, n: int, rng: np.random.Generator) -> None:
        """Add configurations drawn uniformly within the limits, not more than wanted."""
        for values in self.robot.sample_configurations(min(n, self.n_wanted - len(self)), rng):
            self._add(values)

    def data_set(self, about: dict[str, Any]) -> DataSet:
        """What was collected; `DataError` if that is nothing."""
        if not self._rows:
            raise DataError("nothing was collected", 0)
        configurations = np.array(self._rows)
        poses = self.robot.forward(configurations)
        return pair_data_set(self.robot, configurations, poses, self._context_kind, about)

    def _add(self, values: FloatArray) -> None:
        self._rows.append(values)
        self.problem = ""

    def _drop(self, reason: str) -> bool:
        self.n_dropped += 1
        self.problem = reason
        return False
