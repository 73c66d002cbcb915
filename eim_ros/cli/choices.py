"""The only map from names on the command line to classes."""

from __future__ import annotations

from eim_ros.ik import KinematicEIMConfig
from eim_ros.inference import EIMConfig, EMConfig, TruncatedEMConfig

__all__ = ["ALGORITHMS", "config_class"]

ALGORITHMS = ("eim", "em", "truncated-em")


def config_class(algorithm: str, kinematics: bool) -> type[EMConfig] | type[TruncatedEMConfig] | type[EIMConfig]:
    """Settings, and by them the learner, of a name and of whether the robot's kinematics are to be used."""
    if algorithm == "em":
        return EMConfig
    if algorithm == "truncated-em":
        return TruncatedEMConfig
    return KinematicEIMConfig if kinematics else EIMConfig
