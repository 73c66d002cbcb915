"""Default settings of the learners of `eim train`, by task and name. This module needs torch.

Some learners have a further group of settings. This group is a separate argument of `Training` or `MotionTraining`.
"""

from __future__ import annotations

from dataclasses import dataclass

from eim_ros.ik import SmoothingConfig
from eim_ros.ik.training import KNOWN_SMOOTHING, FitConfig
from eim_ros.learning import EIMConfig, EMConfig, TruncatedEMConfig
from eim_ros.motion import MotionConfig
from eim_ros.motion.training import N_COMPONENTS


@dataclass(frozen=True)
class KinematicEIMConfig(EIMConfig):
    """Settings of `EIM`."""

    smoothing: SmoothingConfig = SmoothingConfig()


@dataclass(frozen=True)
class KnownDensityConfig(EIMConfig):
    """Settings of `EIM`."""

    unused = EIMConfig.unused_with_target

    smoothing: SmoothingConfig = KNOWN_SMOOTHING


@dataclass(frozen=True)
class MotionEIMConfig(EIMConfig):
    """Settings of `EIM`."""

    motion: MotionConfig = MotionConfig()


@dataclass(frozen=True)
class MotionEMConfig(EMConfig):
    """Settings of `EM`."""

    motion: MotionConfig = MotionConfig()


DEFAULTS: dict[tuple[str, str], FitConfig] = {
    ("ik", "eim"): EIMConfig(),
    ("ik", "eim-kinematics"): KinematicEIMConfig.kinematic(),
    ("ik", "em"): EMConfig(),
    ("ik", "known-density"): KnownDensityConfig.known_kinematics(),
    ("ik", "truncated-em"): TruncatedEMConfig(),
    ("motion", "eim"): MotionEIMConfig(n_components=N_COMPONENTS),
    ("motion", "em"): MotionEMConfig(n_components=N_COMPONENTS),
}
