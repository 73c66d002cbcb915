"""The only map from names of learners on the command line to classes; targets have theirs in `gmmvi_problems`."""

from __future__ import annotations

from eim_ros.core.errors import ConfigurationError
from eim_ros.ik import KinematicEIMConfig, KnownKinematicsConfig
from eim_ros.ik.training import FitConfig
from eim_ros.learning import EIMConfig, EMConfig
from eim_ros.learning.em import TruncatedEMConfig
from eim_ros.motion import MotionEIMConfig, MotionEMConfig

TASKS = ("ik", "motion")
ALGORITHMS = ("eim", "em", "truncated-em", "known-density")
CONFIGS = (
    KinematicEIMConfig,
    KnownKinematicsConfig,
    EIMConfig,
    EMConfig,
    TruncatedEMConfig,
    MotionEIMConfig,
    MotionEMConfig,
)


def config_class(algorithm: str, kinematics: bool) -> type[FitConfig]:
    """Settings, and by them the learner, of a name and of whether the robot's kinematics are to be used."""
    if algorithm == "em":
        return EMConfig
    if algorithm == "truncated-em":
        return TruncatedEMConfig
    if algorithm == "known-density":
        return KnownKinematicsConfig
    return KinematicEIMConfig if kinematics else EIMConfig


def motion_config_class(algorithm: str) -> type[MotionEMConfig] | type[MotionEIMConfig]:
    """The same for motion priors; `ConfigurationError` for a learner that there is not."""
    if algorithm == "em":
        return MotionEMConfig
    if algorithm == "eim":
        return MotionEIMConfig
    raise ConfigurationError(f"motion priors are learnt by eim or em, not by {algorithm}", algorithm)
