"""A preferred posture: the cost that solutions of a redundant arm have the less, the nearer they are to it.

c(q) = sum_j w_j (q_j - p_j)^2,    differences on the circle where a joint is continuous
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from eim_ros.errors import ConfigurationError, did_you_mean
from eim_ros.kinematics import Robot
from eim_ros.kinematics.arguments import is_number
from eim_ros.numerics.arguments import LARGEST, as_number, expect_mapping
from eim_ros.numerics.keywords import names_wrong_keywords

__all__ = ["Posture"]

FloatArray = npt.NDArray[np.float64]


@names_wrong_keywords
@dataclass(frozen=True, eq=False)
class Posture:
    """Preferred values of some joints.

    Attributes
    ----------
    positions : mapping of str to float
        Preferred value of joints by name [rad] or [m]; it may lie outside of the limits. Of no other joint does the
        posture say anything.
    weights : mapping of str to float
        Weight of each, >= 0 and not all 0; 1 where it is left out.
    """

    positions: Mapping[str, float]
    weights: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        expect_mapping(self.positions, "the positions of a posture")
        expect_mapping(self.weights, "the weights of a posture")

    def of(self, robot: Robot) -> tuple[FloatArray, FloatArray]:
        """Preferred values (dof,) and weights (dof,) of all joints, both 0 where there is no preference.

        Raises
        ------
        ConfigurationError
            If a joint is unknown, a value not finite, or no joint has a weight.
        """
        if unknown := [name for name in self.positions if name not in robot.joint_names]:
            known = ", ".join(robot.joint_names) + did_you_mean(unknown[0], robot.joint_names)
            raise ConfigurationError(f"posture: the robot has no joint {unknown[0]!r}; its joints: {known}", unknown)
        if extra := [name for name in self.weights if name not in self.positions]:
            raise ConfigurationError(f"posture: joint {extra[0]!r} has a weight, but no preferred value", extra)
        preferred, weights = np.zeros(robot.dof), np.zeros(robot.dof)
        for name, value in self.positions.items():
            weight = self.weights.get(name, 1.0)
            if not (is_number(value) and is_number(weight)):
                raise ConfigurationError(f"posture: joint {name!r} needs numbers, got {value!r}, {weight!r}", value)
            if not (abs(as_number(value)) <= LARGEST and 0.0 <= as_number(weight) <= LARGEST):
                raise ConfigurationError(
                    f"posture: joint {name!r} needs a finite value and a weight >= 0, got {value} and {weight}",
                    (value, weight),
                )
            j = robot.joint_names.index(name)
            preferred[j], weights[j] = value, weight
        if not weights.any():
            raise ConfigurationError("posture: no joint has a weight", self.weights)
        return preferred, weights

    def costs(self, robot: Robot, positions: FloatArray) -> FloatArray:
        """Cost (n,) of configurations (n, dof)."""
        preferred, weights = self.of(robot)
        difference = positions - preferred
        wrapped = (difference + np.pi) % (2.0 * np.pi) - np.pi
        return np.asarray(np.where(robot.continuous, wrapped, difference) ** 2 @ weights)
