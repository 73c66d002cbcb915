"""The learners on the command line: their names, and the settings that each of them takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from eim_ros.core.errors import ConfigurationError
from eim_ros.core.settings import Setting, Settings, described, is_within
from eim_ros.ik import SmoothingConfig, Training
from eim_ros.ik.training import KNOWN_SMOOTHING, FitConfig
from eim_ros.learning import EIMConfig, EMConfig
from eim_ros.learning.em import TruncatedEMConfig
from eim_ros.motion import MotionConfig, MotionTraining
from eim_ros.motion.training import N_COMPONENTS

TASKS = ("ik", "motion")
ALGORITHMS = ("eim", "em", "truncated-em", "known-density")


@dataclass(frozen=True)
class Choice:
    """Settings of a training.

    Attributes
    ----------
    learner : EMConfig, TruncatedEMConfig or EIMConfig
    smoothing, known
        As in `Training`.
    motion : MotionConfig, optional
        Only for motion priors.
    """

    learner: FitConfig
    smoothing: SmoothingConfig | None = None
    known: bool = False
    motion: MotionConfig | None = None

    def settings(self) -> dict[str, Setting]:
        """Return the settings that have an effect, by dotted name."""
        unused = EIMConfig.unused_with_target if self.known else self.learner.unused
        found = {name: one for name, one in described(self.learner).items() if not is_within(name, unused)}
        for group, settings in self._groups().items():
            found |= {f"{group}.{name}": one for name, one in described(settings).items()}
        return found

    def replaced(self, values: Mapping[str, Any]) -> Choice:
        """Return the choice with other values of known dotted names."""
        groups: dict[str, Any] = {}
        for group, settings in self._groups().items():
            inner = {name[len(group) + 1 :]: value for name, value in values.items() if name.startswith(f"{group}.")}
            try:
                groups[group] = settings.replace(**inner)
            except ConfigurationError as error:
                raise ConfigurationError(f"{group}.{error}", error.value) from None
        own = {name: value for name, value in values.items() if name.partition(".")[0] not in groups}
        return replace(self, learner=self.learner.replace(**own), **groups)

    def training(self, random_seed: int, device: str = "cpu") -> Training:
        """Return the training of an inverse kinematics model."""
        return Training(self.learner, random_seed, device, self.smoothing, self.known)

    def motion_training(self, random_seed: int, device: str = "cpu") -> MotionTraining:
        """Return the training of a motion prior."""
        assert self.motion is not None and not isinstance(self.learner, TruncatedEMConfig)
        return MotionTraining(self.motion, self.learner, random_seed, device)

    def _groups(self) -> dict[str, Settings]:
        groups = {"smoothing": self.smoothing, "motion": self.motion}
        return {name: settings for name, settings in groups.items() if settings is not None}


CHOICES = {
    "eim": Choice(EIMConfig.kinematic(), SmoothingConfig()),
    "eim --no-kinematics": Choice(EIMConfig()),
    "known-density": Choice(EIMConfig.known_kinematics(), KNOWN_SMOOTHING, known=True),
    "em": Choice(EMConfig()),
    "truncated-em": Choice(TruncatedEMConfig()),
    "eim --task motion": Choice(EIMConfig(n_components=N_COMPONENTS), motion=MotionConfig()),
    "em --task motion": Choice(EMConfig(n_components=N_COMPONENTS), motion=MotionConfig()),
}
"""All learners with their defaults, by the words that choose them."""


def chosen(task: str, algorithm: str, kinematics: bool = True) -> str:
    """Return the name in `CHOICES` of a task, a learner, and whether to use the robot's kinematics."""
    if task == "motion":
        if algorithm not in ("eim", "em"):
            raise ConfigurationError(f"motion priors are learnt by eim or em, not by {algorithm}", algorithm)
        return f"{algorithm} --task motion"
    return algorithm if kinematics or algorithm != "eim" else "eim --no-kinematics"
