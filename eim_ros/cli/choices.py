"""The only map from names on the command line to classes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from eim_ros import targets
from eim_ros.errors import ConfigurationError
from eim_ros.ik import KinematicEIMConfig, KnownKinematicsConfig
from eim_ros.inference import EIMConfig, EMConfig, TruncatedEMConfig
from eim_ros.inference.recorded_fit import FitConfig
from eim_ros.motion import MotionEIMConfig, MotionEMConfig

__all__ = [
    "ALGORITHMS",
    "CONFIGS",
    "TARGETS",
    "TASKS",
    "TargetChoice",
    "config_class",
    "motion_config_class",
]

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


@dataclass(frozen=True)
class TargetChoice:
    """A target of `eim vi`.

    Attributes
    ----------
    make : callable
        Makes it from a generator.
    settings : dict
        Of `GMMVIConfig`, as published for SAMTRON.
    """

    make: Callable[[torch.Generator], targets.Target]
    settings: dict[str, Any] = field(default_factory=dict)


PLANAR = {"n_samples": 100, "delete_after": 10, "add_every": 1, "first_weight_step": 5.0}
GMM = {"n_components": 5, "n_samples": 300, "add_every": 30}
STM = {"n_components": 45, "n_samples": 200, "add_every": 60, "first_weight_step": 1.0}
REGRESSION = {"n_components": 1, "n_samples": 250, "add_every": 25, "first_component_step": 0.01}
TARGETS = {
    "planar1": TargetChoice(lambda generator: targets.planar_robot(1), PLANAR),
    "planar4": TargetChoice(lambda generator: targets.planar_robot(4), PLANAR),
    "gmm20": TargetChoice(lambda generator: targets.random_gaussian_mixture(20, generator), GMM),
    "gmm100": TargetChoice(lambda generator: targets.random_gaussian_mixture(100, generator), GMM),
    "stm20": TargetChoice(lambda generator: targets.random_student_mixture(20, generator), STM),
    "stm300": TargetChoice(lambda generator: targets.random_student_mixture(300, generator), STM),
    "breast-cancer": TargetChoice(lambda generator: targets.breast_cancer(), REGRESSION),
    "breast-cancer-mb": TargetChoice(
        lambda generator: targets.MinibatchTarget(targets.breast_cancer(), 64), REGRESSION
    ),
    "credit": TargetChoice(lambda generator: targets.synthetic_german_credit(), REGRESSION),
    "credit-mb": TargetChoice(
        lambda generator: targets.MinibatchTarget(targets.synthetic_german_credit(), 64), REGRESSION
    ),
    "funnel": TargetChoice(lambda generator: targets.Funnel()),
    "banana": TargetChoice(lambda generator: targets.Banana()),
}


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
