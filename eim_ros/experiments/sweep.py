"""A run of an experiment: the rows that its table lacks are computed, each is saved as it comes.

The table is written after every row, whole, so that a killed run loses no more than the rows that were being computed;
the next run with the same settings goes on. As each row depends on settings, cell and seed alone, a run in pieces gives
the table of an unbroken one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eim_ros.errors import ConfigurationError
from eim_ros.experiments.experiment import Cell, Experiment
from eim_ros.experiments.table import Header, ResultTable, Row, versions
from eim_ros.numerics.locked_folder import locked
from eim_ros.numerics.threads import torch_threads
from eim_ros.numerics.workers import ThisProcess, Workers
from eim_ros.settings import Settings

__all__ = ["TABLE_NAME", "Progress", "Work", "run_experiment"]

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
