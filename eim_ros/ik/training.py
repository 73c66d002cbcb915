"""From a data set of an arm to an inverse kinematics model: by EM, truncated EM, EIM, EIM with kinematic inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from eim_ros.data import DataSet
from eim_ros.errors import DataError
from eim_ros.ik.collection import context_kind_of, robot_of
from eim_ros.ik.kinematic_inputs import KinematicEIMConfig, KinematicInputs
from eim_ros.ik.model import IKModel
from eim_ros.inference import FitResult
from eim_ros.inference.recorded_fit import Callback, FitConfig, RecordedFit, algorithm_of
from eim_ros.kinematics import Robot
from eim_ros.numerics import Status

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
    config : EMConfig, TruncatedEMConfig, EIMConfig or KinematicEIMConfig
        Decides the algorithm: EM, truncated EM, EIM from samples alone, EIM with kinematic inputs.
    seed : int
        Of all randomness.
    device : str
        Where EIM runs: "cpu", "cuda".
    """

    config: FitConfig
    seed: int = 0
    device: str = "cpu"

    @property
    def algorithm(self) -> str:
        return "eim-kinematics" if isinstance(self.config, KinematicEIMConfig) else algorithm_of(self.config)

    def run(
        self,
        data_set: DataSet,
        robot: Robot | None = None,
        *,
        callbacks: Sequence[Callback] = (),
        checkpoint: Path | None = None,
        checkpoint_every: int = 10,
        resume: bool = False,
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

        Returns
        -------
        TrainingRun
        """
        robot, kind = robot_of(data_set, robot), context_kind_of(data_set)
        if not len(data_set):
            raise DataError("the data set is empty", 0)
        context = torch.from_numpy(data_set.context).to(self.device)
        sample = torch.from_numpy(data_set.sample).to(self.device)
        inputs = None
        if isinstance(self.config, KinematicEIMConfig):
            inputs = KinematicInputs.from_data(robot, kind, context, self.config)
        fit = RecordedFit(self.config, self.seed, self.algorithm, callbacks, checkpoint, checkpoint_every, resume)
        result, record = fit.run(context, sample, inputs)
        mixture = result.mixture_of_experts.to(device="cpu")
        record["data_seed"] = data_set.description.get("seed")
        return TrainingRun(IKModel(mixture, robot, kind, record), result)
