"""A fit whose settings choose the learner and which leaves a record: what trainings of all tasks share."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor

from eim_ros.learning.configs import EIMConfig, EMConfig, KnownDensityEIMConfig
from eim_ros.learning.eim.eim import EIM, KnownDensityEIM
from eim_ros.learning.em.em import EM
from eim_ros.learning.em.truncated import TruncatedEM, TruncatedEMConfig
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts
from eim_ros.learning.ratio.inputs import RatioInputs
from eim_ros.learning.run import Checkpoint, FitResult, State
from eim_ros.learning.target import Target

FitConfig: TypeAlias = EMConfig | TruncatedEMConfig | EIMConfig | KnownDensityEIMConfig
Callback: TypeAlias = Callable[[State, dict[str, float]], None]


def algorithm_of(config: FitConfig) -> str:
    """Name of the learner that the settings are for."""
    if isinstance(config, EMConfig):
        return "em"
    if isinstance(config, TruncatedEMConfig):
        return "truncated-em"
    return "known-density" if isinstance(config, KnownDensityEIMConfig) else "eim"


@dataclass(frozen=True)
class RecordedFit:
    """A fit to be made.

    Attributes
    ----------
    config : EMConfig, TruncatedEMConfig, EIMConfig or KnownDensityEIMConfig
        Decides the learner.
    seed : int
        Of all randomness.
    algorithm : str
        Its name in the record.
    callbacks : sequence of callable
        Called after each iteration with the state and its record.
    checkpoint : Path, optional
        File for checkpoints every `checkpoint_every` iterations; `resume` continues from it.
    """

    config: FitConfig
    seed: int
    algorithm: str
    callbacks: Sequence[Callback] = ()
    checkpoint: Path | None = None
    checkpoint_every: int = 10
    resume: bool = False

    def run(
        self,
        context: Tensor,
        sample: Tensor,
        inputs: RatioInputs | None = None,
        initial: MixtureOfExperts | None = None,
        target: Target | None = None,
    ) -> tuple[FitResult[Any], dict[str, Any]]:
        """Fit to contexts (n, n_context) and samples (n, n_dims), where these are.

        Parameters
        ----------
        context, sample : Tensor
        inputs : RatioInputs, optional
            Of EIM's density ratio.
        initial : MixtureOfExperts, optional
            Start; the learner's own if missing.
        target : optional
            Known density, for the settings that need one, see `KnownDensityEIM`.

        Returns
        -------
        result : FitResult
        record : dict
            JSON-compatible: algorithm, settings, seed, status, iterations, CPU time [s], number of samples.
        """
        generator = torch.Generator(sample.device).manual_seed(self.seed)
        saved = None
        if self.checkpoint is not None:
            saved = Checkpoint(self.checkpoint, self.checkpoint_every, self._identity(context, sample))
        started = time.process_time()
        result: FitResult[Any] = self._learner(inputs, target).fit(
            (context, sample), initial, generator, callbacks=self.callbacks, checkpoint=saved, resume=self.resume
        )
        return result, {
            **self._description(),
            "status": result.status.value,
            "iterations": result.state.iteration,
            "cpu_seconds": round(time.process_time() - started, 1),
            "n_samples": len(sample),
            "torch": torch.__version__,
        }

    def _learner(self, inputs: RatioInputs | None, target: Target | None) -> EM | TruncatedEM | EIM | KnownDensityEIM:
        if isinstance(self.config, EMConfig):
            return EM(self.config)
        if isinstance(self.config, TruncatedEMConfig):
            return TruncatedEM(self.config)
        if isinstance(self.config, KnownDensityEIMConfig):
            return KnownDensityEIM(target, self.config)
        return EIM(self.config, inputs)

    def _description(self) -> dict[str, Any]:
        return {"algorithm": self.algorithm, "config": self.config.to_mapping(), "seed": self.seed}

    def _identity(self, context: Tensor, sample: Tensor) -> str:
        """Digest of everything but the number of iterations, so that a resumed run may be a longer one."""
        description = self._description()
        description["config"].pop("n_iterations")
        digest = hashlib.sha256(json.dumps(description, sort_keys=True).encode())
        digest.update(context.cpu().numpy().tobytes())
        digest.update(sample.cpu().numpy().tobytes())
        return digest.hexdigest()
