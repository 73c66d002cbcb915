"""From a data set of an arm to an inverse kinematics model: by EM, truncated EM, EIM, EIM with kinematic inputs."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from eim_ros.data import DataSet
from eim_ros.errors import DataError
from eim_ros.ik.collection import context_kind_of, robot_of
from eim_ros.ik.kinematic_inputs import KinematicEIMConfig, KinematicInputs
from eim_ros.ik.model import IKModel
from eim_ros.inference import (
    EIM,
    EM,
    Checkpoint,
    EIMConfig,
    EMConfig,
    FitResult,
    State,
    TruncatedEM,
    TruncatedEMConfig,
)
from eim_ros.kinematics import Robot
from eim_ros.numerics import Status

__all__ = ["Training", "TrainingRun"]

Callback = Callable[[State, dict[str, float]], None]


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

    config: EMConfig | TruncatedEMConfig | EIMConfig
    seed: int = 0
    device: str = "cpu"

    @property
    def algorithm(self) -> str:
        if isinstance(self.config, EMConfig):
            return "em"
        if isinstance(self.config, TruncatedEMConfig):
            return "truncated-em"
        return "eim-kinematics" if isinstance(self.config, KinematicEIMConfig) else "eim"

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
        generator = torch.Generator(self.device).manual_seed(self.seed)
        saved = None if checkpoint is None else Checkpoint(checkpoint, checkpoint_every, self._identity(data_set))
        started = time.process_time()
        learner: EM | TruncatedEM | EIM
        if isinstance(self.config, EMConfig):
            learner = EM(self.config)
        elif isinstance(self.config, TruncatedEMConfig):
            learner = TruncatedEM(self.config)
        else:
            inputs = None
            if isinstance(self.config, KinematicEIMConfig):
                inputs = KinematicInputs.from_data(robot, kind, context, self.config)
            learner = EIM(self.config, inputs)
        result: FitResult[Any] = learner.fit(
            (context, sample), generator=generator, callbacks=callbacks, checkpoint=saved, resume=resume
        )
        record = {
            **self._description(),
            "status": result.status.value,
            "iterations": result.state.iteration,
            "cpu_seconds": round(time.process_time() - started, 1),
            "n_samples": len(data_set),
            "data_seed": data_set.description.get("seed"),
            "torch": torch.__version__,
        }
        mixture = result.mixture_of_experts.to(device="cpu")
        return TrainingRun(IKModel(mixture, robot, kind, record), result)

    def _description(self) -> dict[str, Any]:
        return {"algorithm": self.algorithm, "config": self.config.to_mapping(), "seed": self.seed}

    def _identity(self, data_set: DataSet) -> str:
        """Digest of everything but the number of iterations, so that a resumed run may be a longer one."""
        description = self._description()
        description["config"].pop("n_iterations")
        digest = hashlib.sha256(json.dumps(description, sort_keys=True).encode())
        digest.update(data_set.context.tobytes())
        digest.update(data_set.sample.tobytes())
        return digest.hexdigest()
