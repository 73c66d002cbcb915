"""An experiment as data: its settings, its cells, and how one cell is measured with one seed.

A cell is one combination of what varies, such as a method and a number of components. Each cell and seed becomes one
row of the result table (`table`), independent of all others, so that rows can be computed anywhere, in any order.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from eim_ros.distributions import GaussianMixture, MixtureOfExperts
from eim_ros.errors import ConfigurationError
from eim_ros.experiments.table import ResultTable, Value
from eim_ros.inference import FitResult
from eim_ros.kinematics.shipped import share_path
from eim_ros.numerics import Status
from eim_ros.settings import Settings, read_yaml

__all__ = ["RATIOS", "Cell", "Experiment", "Outcome", "Preset", "completed", "timed"]

Cell: TypeAlias = Mapping[str, int | float | str]

RATIOS = ("residual", "network", "plug-in")  # EIM's estimators from samples, its default first

SettingsT = TypeVar("SettingsT", bound=Settings)
ResultT = TypeVar("ResultT")


@dataclass(frozen=True)
class Outcome:
    """What was measured.

    Attributes
    ----------
    cpu_seconds : float
        Of the fit alone [s].
    figures : mapping
        Columns of the table, by name.
    """

    cpu_seconds: float
    figures: Mapping[str, Value]


@dataclass(frozen=True)
class Preset(Generic[SettingsT]):
    """Settings of a run, and with how many seeds it is made unless more or fewer are asked for.

    `note` says in one line what a quick run can and cannot show; it is empty for a full run.
    """

    settings: SettingsT
    n_seeds: int
    note: str = ""


@dataclass(frozen=True)
class Experiment(Generic[SettingsT]):
    """An experiment.

    Attributes
    ----------
    name : str
        On the command line.
    summary : str
        One line.
    settings_type : type of Settings
    cells : callable
        From settings to all cells. Each has the same names, among them "estimator", of the density ratio: "network"
        (the thesis' classifier), "plug-in", "residual", "known"; "none" for methods without a ratio.
    measure : callable
        From settings, a cell and a seed to an outcome, which depends on nothing else.
    aliases : mapping
        Short flags for settings.
    report : callable, optional
        Lines of text from a table, where means of figures (`summary`) do not tell enough.
    """

    name: str
    summary: str
    settings_type: type[SettingsT]
    cells: Callable[[SettingsT], list[Cell]]
    measure: Callable[[SettingsT, Cell, int], Outcome]
    aliases: Mapping[str, str]
    report: Callable[[ResultTable], list[str]] | None = None

    def preset(self, quick: bool = False) -> Preset[SettingsT]:
        """Settings of `config/experiments/<name>.yaml`: those of the full run, or of a quick one of minutes.

        The file holds `seeds` and `full`, under `quick` what differs from it, and under `quick_note` what the quick run
        can and cannot show. What it leaves out has the default of the settings' class.
        """
        path = share_path(f"config/experiments/{self.name.replace('-', '_')}.yaml")
        content = read_yaml(path)
        unknown = sorted(set(content) - {"seeds", "full", "quick_seeds", "quick", "quick_note"})
        if unknown:
            raise ConfigurationError(f"{path} has unknown parts {', '.join(unknown)}", unknown)
        values, n_seeds = dict(content.get("full") or {}), int(content.get("seeds", 1))
        note = ""
        if quick:
            values |= content.get("quick") or {}
            n_seeds, note = int(content.get("quick_seeds", 1)), " ".join(str(content.get("quick_note", "")).split())
        return Preset(self.settings_type.from_mapping(values), n_seeds, note)


def timed(work: Callable[[], ResultT]) -> tuple[ResultT, float]:
    """A result and the CPU time [s] of this process that it took."""
    started = time.process_time()
    return work(), time.process_time() - started


def completed(result: FitResult[Any]) -> MixtureOfExperts | GaussianMixture:
    """The model of a fit; Ctrl-C, which ended the fit early, goes on to the caller: half a fit is no result."""
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return result.model
