"""I- against M-projection: three targets with known answers, projected by the package's own learners.

What is found is stored beside what is known, see `closed_form_facts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from eim_ros.distributions import Gaussian, GaussianMixture
from eim_ros.experiments.closed_form_facts import Fact, Isotropic, MeanField, TwoModes, isotropic, mean_field, two_modes
from eim_ros.experiments.experiment import Cell, Experiment, Outcome, timed
from eim_ros.experiments.table import ResultTable, Row
from eim_ros.experiments.univariate_projection import IProjection
from eim_ros.settings import Settings, option

__all__ = ["EXPERIMENT", "Projections", "ProjectionsConfig", "projections_of"]


@dataclass(frozen=True)
class ProjectionsConfig(Settings):
    """Settings of the experiment."""

    n_samples: int = option(4000, "samples per iteration of an I-projection", minimum=2)
    n_iterations: int = option(60, "iterations with each bound of the KL", minimum=1)
    n_sweeps: int = option(40, "sweeps of the mean field's coordinate ascent", minimum=3)


@dataclass(frozen=True)
class Projections:
    """Everything that was found."""

    two_modes: TwoModes
    isotropic: Isotropic
    mean_field: MeanField
    facts: tuple[Fact, ...]


def projections_of(rows: Sequence[Row]) -> Projections:
    """What the rows of one seed hold, for the picture and the list of facts."""
    parts: dict[str, dict[str, Any]] = {
        row["target"]: {name: _restored(value) for name, value in row["parameters"].items()} for row in rows
    }
    return Projections(
        TwoModes(**parts["two modes"]),
        Isotropic(**parts["isotropic"]),
        MeanField(**parts["mean field"]),
        tuple(Fact(*entry) for row in rows for entry in row["facts"]),
    )


def _cells(config: ProjectionsConfig) -> list[Cell]:
    return [{"target": target, "estimator": "known"} for target in ("two modes", "isotropic", "mean field")]


def _measure(config: ProjectionsConfig, cell: Cell, seed: int) -> Outcome:
    project = IProjection(config.n_samples, config.n_iterations, seed)
    found: TwoModes | Isotropic | MeanField
    if cell["target"] == "two modes":
        (found, facts), seconds = timed(lambda: two_modes(project))
    elif cell["target"] == "isotropic":
        (found, facts), seconds = timed(lambda: isotropic(project))
    else:
        (found, facts), seconds = timed(lambda: mean_field(project, config.n_sweeps))
    figures = {
        "largest_error": max(abs(fact.found - fact.exact) for fact in facts),
        "facts": [[fact.case, fact.quantity, fact.found, fact.exact] for fact in facts],
        "parameters": {name: _stored(value) for name, value in vars(found).items()},
    }
    return Outcome(seconds, figures)


def _report(table: ResultTable) -> list[str]:
    """All facts, found beside exact, of every seed."""
    lines = [f"{'seed':>4} {'case':<44} {'quantity':<24} {'found':>12} {'exact':>12}"]
    for seed in table.distinct("seed"):
        for fact in projections_of(table.where(seed=seed)).facts:
            found = round(fact.found, 6) + 0.0  # no minus before a zero
            lines.append(f"{seed:4d} {fact.case:<44} {fact.quantity:<24} {found:12.6f} {fact.exact:12.6f}")
    return lines


EXPERIMENT = Experiment(
    "projections",
    "I- against M-projection: closed-form facts beside what the learners find",
    ProjectionsConfig,
    _cells,
    _measure,
    {},
    _report,
)


def _stored(value: Gaussian | GaussianMixture | Tensor) -> dict[str, list[Any]] | list[Any]:
    """Numbers of a density by their names, or of a tensor."""
    if isinstance(value, Tensor):
        return list(value.tolist())
    return {name: tensor.tolist() for name, tensor in vars(value).items()}


def _restored(value: dict[str, list[Any]] | list[Any]) -> Gaussian | GaussianMixture | Tensor:
    if isinstance(value, list):
        return torch.tensor(value, dtype=torch.float64)
    tensors = {name: torch.tensor(numbers, dtype=torch.float64) for name, numbers in value.items()}
    return GaussianMixture(**tensors) if "log_weights" in tensors else Gaussian(**tensors)
