"""Early stopping by the likelihood of validation data, as an algorithm around the algorithm of a learner."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from eim_ros.learning.data import Pairs
from eim_ros.learning.models.gaussian import tensors_of
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts
from eim_ros.learning.run import Algorithm, History

VALIDATION = "validation_log_likelihood"  # name in the history


def mean_log_prob(model: MixtureOfExperts, data: Pairs) -> float:
    """Return the mean log density of the data [nat]."""
    return float(model.log_prob(data.context, data.sample).mean())


VALIDATED = "validated."  # prefix of the tensors of the best model in a checkpoint


@dataclass(frozen=True)
class ValidatedState:
    """State of a learner, with the model that has the highest likelihood of the validation data so far."""

    learner: Any
    best: MixtureOfExperts
    best_value: float

    @property
    def model(self) -> MixtureOfExperts:
        model: MixtureOfExperts = self.learner.model
        return model

    @property
    def kept(self) -> MixtureOfExperts:
        return self.best

    @property
    def iteration(self) -> int:
        return int(self.learner.iteration)

    def tensors(self) -> dict[str, Tensor]:
        best = {f"{VALIDATED}{name}": value for name, value in self.best.tensors().items()}
        value = torch.tensor([self.best_value], dtype=torch.float64)
        return {**self.learner.tensors(), **best, "validated_value": value}


@dataclass(frozen=True)
class Validated:
    """Algorithm that stops when the likelihood of validation data has not risen for `patience` iterations."""

    algorithm: Algorithm[Any]
    data: Pairs
    patience: int

    def step(self, state: ValidatedState) -> tuple[ValidatedState, dict[str, float]]:
        following, record = self.algorithm.step(state.learner)
        reached = mean_log_prob(following.model, self.data)
        record = {**record, VALIDATION: reached}
        if reached > state.best_value:
            return ValidatedState(following, following.model, reached), record
        return ValidatedState(following, state.best, state.best_value), record

    def restore(self, state: ValidatedState, tensors: dict[str, Tensor], iteration: int) -> ValidatedState:
        best = MixtureOfExperts.from_tensors(tensors_of(VALIDATED, tensors)).to(device=state.best.device)
        own = {name: value for name, value in tensors.items() if not name.startswith(VALIDATED)}
        return ValidatedState(
            self.algorithm.restore(state.learner, own, iteration), best, float(tensors["validated_value"])
        )

    def finished(self, history: History) -> bool:
        """Return whether the learner has converged or the likelihood has not risen.

        If EM has several starts, only the last one ends early.
        """
        starts = history.column("start")
        records = [record for record in history.records if not starts or record["start"] == starts[-1]]
        values = [record.get(VALIDATION, -math.inf) for record in records]
        last_start = not starts or starts[-1] == self.n_starts - 1
        waited = len(values) - 1 - values.index(max(values))
        return (last_start and waited >= self.patience) or self.algorithm.finished(history)

    @property
    def n_starts(self) -> int:
        return int(getattr(getattr(self.algorithm, "config", None), "n_starts", 1))
