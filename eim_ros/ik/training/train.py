"""From a data set of an arm to an inverse kinematics model.

By EM, truncated EM, EIM, EIM with kinematic inputs, or inference with known kinematics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from eim_ros.data import DataSet
from eim_ros.distributions import MixtureOfExperts
from eim_ros.errors import ConfigurationError, DataError, ModelFileError
from eim_ros.ik.model import IKModel
from eim_ros.ik.training.collect import context_kind_of, robot_of
from eim_ros.ik.training.inputs import KinematicEIMConfig, KinematicInputs, SmoothingConfig
from eim_ros.ik.training.target import KinematicTarget, KnownKinematicsConfig
from eim_ros.inference import FitResult, TruncatedEM, TruncatedEMConfig
from eim_ros.inference.learner_arguments import checked_device
from eim_ros.inference.recorded_fit import Callback, FitConfig, RecordedFit, algorithm_of
from eim_ros.kinematics import Robot
from eim_ros.numerics import Status
from eim_ros.numerics.arguments import checked_whole, expect
from eim_ros.numerics.threads import torch_threads
from eim_ros.numerics.work import tell
from eim_ros.settings import Settings

__all__ = ["Training", "TrainingRun"]


@dataclass(frozen=True)
class TrainingRun:
    """Outcome of a training: the model, how the run ended, and its records."""

    model: IKModel
    result: FitResult[Any]

    @property
    def status(self) -> Status:
        return self.result.status


@dataclass(frozen=True)
class Training:
    """What is to be trained.

    Attributes
    ----------
    config : EMConfig, TruncatedEMConfig, EIMConfig, KinematicEIMConfig or KnownKinematicsConfig
        Decides the algorithm: EM, truncated EM, EIM from samples alone, EIM with kinematic inputs, inference with known
        kinematics.
    random_seed : int
        Of all randomness.
    device : str
        Where EIM runs: "cpu", "cuda".
    """

    config: FitConfig
    random_seed: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        expect(self.config, Settings, "config")
        checked_whole(self.random_seed, 0, "the random seed")
        checked_device(self.device)

    @property
    def algorithm(self) -> str:
        return "eim-kinematics" if isinstance(self.config, KinematicEIMConfig) else algorithm_of(self.config)

    @torch_threads()
    def run(
        self,
        data_set: DataSet,
        robot: Robot | None = None,
        *,
        callbacks: Sequence[Callback] = (),
        checkpoint: Path | None = None,
        checkpoint_every: int = 10,
        resume: bool = False,
        initial: IKModel | None = None,
        prior: IKModel | None = None,
    ) -> TrainingRun:
        """Train.

        Parameters
        ----------
        data_set : DataSet
        robot : Robot, optional
            Must be the data set's own.
        callbacks : sequence of callable
            Called after each iteration with the state and its record.
        checkpoint : Path, optional
            File for checkpoints every `checkpoint_every` iterations; `resume` continues from it.
        initial : IKModel, optional
            Start, a model of the same robot and context; the learner's own if missing.
        prior : IKModel, optional
            Only with known kinematics: a model of demonstrations, of the same robot and context, whose density the
            target is multiplied by. So preferences and accuracy come together.

        Returns
        -------
        TrainingRun
        """
        robot, kind = robot_of(data_set, robot), context_kind_of(data_set)
        if not len(data_set):
            raise DataError("the data set is empty", 0)
        context = torch.from_numpy(data_set.context).to(self.device)
        sample = torch.from_numpy(data_set.sample).to(self.device)
        start = None if initial is None else _mixture_of(initial, "initial model", robot, kind)
        if prior is not None and not isinstance(self.config, KnownKinematicsConfig):
            raise ConfigurationError(f"a prior is for known-density, not for {self.algorithm}", self.algorithm)
        inputs = target = None
        if isinstance(self.config, SmoothingConfig):
            inputs = KinematicInputs.from_data(robot, kind, context, self.config)
        if isinstance(self.config, KnownKinematicsConfig) and inputs is not None:
            demonstrated = None if prior is None else _mixture_of(prior, "prior", robot, kind).to(device=self.device)
            target = KinematicTarget(inputs, None if demonstrated is None else demonstrated.log_prob)
            if start is None:
                start = self._by_em(context, sample)
        fit = RecordedFit(
            self.config, self.random_seed, self.algorithm, callbacks, checkpoint, checkpoint_every, resume
        )
        result, record = fit.run(context, sample, inputs, start, target)
        mixture = result.mixture_of_experts.to(device="cpu")
        record["data_seed"] = data_set.description.get("seed")
        record["data_source"] = data_set.description.get("source")
        return TrainingRun(IKModel(mixture, robot, kind, record), result)

    def _by_em(self, context: Tensor, sample: Tensor) -> MixtureOfExperts:
        """Truncated EM: a sound start costs a few percent of what follows."""
        assert isinstance(self.config, KnownKinematicsConfig)
        config = TruncatedEMConfig(
            n_components=self.config.n_components, n_iterations=self.config.initial_em_iterations, tolerance=0.0
        )
        generator = torch.Generator(sample.device).manual_seed(self.random_seed)
        result = TruncatedEM(config).fit(
            (context, sample),
            generator=generator,
            callbacks=[lambda state, record: tell("start", state.iteration, config.n_iterations)],
        )
        if result.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return result.mixture_of_experts


def _mixture_of(model: IKModel, role: str, robot: Robot, kind: str) -> MixtureOfExperts:
    """The mixture of a model that has to be of the robot and context of the data."""
    expect(model, IKModel, f"the {role}", ModelFileError)
    if model.robot.fingerprint != robot.fingerprint or model.context_kind != kind:
        raise ModelFileError(
            f"the {role} is of robot '{model.robot.name}' and context {model.context_kind}, the data are of "
            f"'{robot.name}' and {kind}",
            model.robot.name,
        )
    return model.mixture
