"""The only map from names on the command line to classes."""

from __future__ import annotations

from eim_ros.ik import KinematicEIMConfig
from eim_ros.inference import EIMConfig, EMConfig

__all__ = ["ALGORITHMS", "config_class"]

ALGORITHMS = ("eim", "em")


def config_class(algorithm: str, kinematics: bool) -> type[EMConfig] | type[EIMConfig]:
    """Settings, and by them the learner, of a name and of whether the robot's kinematics are to be used."""
    if algorithm == "em":
        return EMConfig
    return KinematicEIMConfig if kinematics else EIMConfig
