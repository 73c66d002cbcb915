"""An experiment as data: its settings, its cells, and how one cell is measured with one seed.

A cell is one combination of what varies, such as a method and a number of components. Each cell and seed becomes one
row of the result table (`table`), independent of all others, so that rows can be computed anywhere, in any order.

A run of an experiment: the rows that its table lacks are computed, each is saved as it comes.

The table is written after every row, whole, so that a killed run loses no more than the rows that were being computed;
the next run with the same settings goes on. As each row depends on settings, cell and seed alone, a run in pieces gives
the table of an unbroken one.

In how many of the same problems one method is better than another: pairs of rows of one size and one seed.

All methods of a row's size and seed have the same data and the same start, so that pairs say more than means do.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeAlias, TypeVar

from eim_ros.core.errors import ConfigurationError
from eim_ros.core.files import locked
from eim_ros.core.parallel import ThisProcess, Workers, torch_threads
from eim_ros.core.settings import Settings, read_yaml
from experiments.table import Header, ResultTable, Row, Value, versions

PRESETS = Path(__file__).with_name("presets")
EXPERIMENTS = {
    "adversarial": "adversarial",
    "gmmvi": "gmmvi",
    "kinematics": "kinematics",
    "line-reaching": "line_reaching",
    "nonlinear": "nonlinear",
    "obstacle": "obstacle",
    "projections": "projections",
    "robustness": "robustness",
    "traffic": "traffic",
}
"""Module of each experiment. It defines `EXPERIMENT`, `draw(table, folder) -> paths` and, if the thesis says
something about the experiment, `CLAIMS`."""

Cell: TypeAlias = Mapping[str, int | float | str]


SettingsT = TypeVar("SettingsT", bound=Settings)


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
        """Return the settings of `presets/<name>.yaml`: those of the full run, or of a quick one of minutes.

        The file holds `seeds` and `full`, under `quick` what differs from it, and under `quick_note` what the quick run
        can and cannot show. What it leaves out has the default of the settings' class.
        """
        path = PRESETS / f"{self.name.replace('-', '_')}.yaml"
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


TABLE_NAME = "table.csv"

Progress = Callable[[int, int, Row | None], None]
Task = tuple[Cell, int]


@dataclass(frozen=True)
class Work:
    """What a worker does: measures one cell with one seed."""

    experiment: Experiment[Any]
    settings: Settings

    @torch_threads()
    def __call__(self, task: Task) -> Row:
        cell, seed = task
        outcome = self.experiment.measure(self.settings, cell, seed)
        return {
            **cell,
            "seed": seed,
            **outcome.figures,
            "cpu_seconds": round(outcome.cpu_seconds, 3),
            **versions(),
        }


def experiment_module(name: str) -> ModuleType:
    """Import the module of an experiment."""
    return importlib.import_module(f"experiments.{EXPERIMENTS[name]}")


def run_experiment(
    experiment: Experiment[Any],
    settings: Settings,
    seeds: Sequence[int],
    folder: Path,
    workers: Workers | None = None,
    progress: Progress | None = None,
) -> ResultTable:
    """Complete the table in a folder.

    Parameters
    ----------
    experiment : Experiment
    settings : Settings
        Of the experiment's type.
    seeds : sequence of int
        All cells are measured with each of them. Rows of further seeds, of earlier runs, are kept.
    folder : Path
        Made if it is missing.
    workers : Workers, optional
        This process if missing.
    progress : callable, optional
        Called first, and after each row, with how many of how many rows there are, and the new row.

    Raises
    ------
    ConfigurationError
        The folder holds results of other settings or versions, or another process is writing there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / TABLE_NAME
    cells = experiment.cells(settings)
    order = {_key(cell, cell): number for number, cell in enumerate(cells)}
    with locked(folder):
        table = ResultTable(Header(experiment.name, settings.to_mapping(), versions()))
        if path.exists():
            found = ResultTable.read(path)
            table.header.check(found.header, path)
            table = found
        rows = {(order[_key(row, cells[0])], int(row["seed"])): row for row in table.rows}
        tasks = [(cell, seed) for seed in seeds for number, cell in enumerate(cells) if (number, seed) not in rows]
        total = len(cells) * len(seeds)
        n_done = total - len(tasks)
        if progress is not None:
            progress(n_done, total, None)
        for row in (workers or ThisProcess())(Work(experiment, settings), tasks):
            _check_versions(row, table.header)
            rows[order[_key(row, cells[0])], row["seed"]] = row
            table = table.with_rows(rows[key] for key in sorted(rows))
            table.write(path)
            n_done += 1
            if progress is not None:
                progress(n_done, total, row)
        return table


def _key(row: Row | Cell, names: Cell) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


def _check_versions(row: Row, header: Header) -> None:
    """A worker on another machine may have other versions."""
    different = {name: row[name] for name, version in header.versions.items() if row[name] != version}
    if different:
        raise ConfigurationError(
            f"a worker has other versions than this process ({different}, here {header.versions}); install the same",
            different,
        )


@dataclass(frozen=True)
class Pairs:
    """How often a method's figure is below another's.

    Attributes
    ----------
    n_below : int
    n_pairs : int
    """

    n_below: int
    n_pairs: int

    def __add__(self, other: Pairs) -> Pairs:
        return Pairs(self.n_below + other.n_below, self.n_pairs + other.n_pairs)

    def __str__(self) -> str:
        return f"{self.n_below} of {self.n_pairs}"


def paired(
    table: ResultTable,
    figure: str,
    problem: Sequence[str],
    one: Mapping[str, Value],
    other: Mapping[str, Value],
) -> Pairs:
    """Compare the row of one method with each of another's for the same problem and seed.

    Parameters
    ----------
    table : ResultTable
    figure : str
        A column; the lower the better.
    problem : sequence of str
        Columns that rows of the same problem have in common; the seed is another.
    one, other : mapping
        Values of the rows to be compared (`ResultTable.where`). Of `one` there is at most one row for each problem; of
        `other` there may be several, such as variants: each is a pair.
    """
    names = (*problem, "seed")
    reference = {tuple(row[name] for name in names): row[figure] for row in table.where(**one)}
    rows = [(reference.get(tuple(row[name] for name in names)), row[figure]) for row in table.where(**other)]
    found = [(value, of_other) for value, of_other in rows if value is not None]
    return Pairs(sum(value < of_other for value, of_other in found), len(found))


def pairs_in_words(label: str, pairs: dict[str, Pairs]) -> list[str]:
    """One line for each method that was compared with the labelled one, and one for all of them."""
    found = {name: count for name, count in pairs.items() if count.n_pairs}
    lines = [f"{label} below {name}: {count} pairs" for name, count in found.items()]
    total = sum(found.values(), Pairs(0, 0))
    if len(found) > 1:
        lines.append(f"{label} below all of these: {total} pairs ({total.n_below / total.n_pairs:.0%})")
    return lines
