"""Definition of an experiment, and the run that computes its result table.

An experiment consists of settings, cells, and a function that measures one cell with one seed. A cell is one
combination of the varied quantities, such as a method and a number of components. Each cell and seed give one row of
the result table (`experiments.table`). A row depends only on settings, cell and seed. Therefore, the order and the
process in which a machine computes rows do not change any digit. Other processors and other versions of the code round
differently. Long runs of EIM amplify rounding errors, so single rows may change visibly.

`run_experiment` computes missing rows of the table, and rewrites the table after each row. A run that is killed loses
only the rows in progress. The next run with the same settings completes the table.

`paired` counts the problems in which one method is better than another. Pairs are more informative than means, because
all methods share the data and the start of a problem.

`python -m experiments ./mine.py` runs the `EXPERIMENT` of a file outside of this package in the same way.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
"""Module of each experiment. It defines `EXPERIMENT` and `draw(table, folder) -> paths`. If the thesis makes claims
about the experiment, the module also defines `CLAIMS`, and `SETUPS`, the rows of EIM for which they are checked."""

Cell: TypeAlias = Mapping[str, int | float | str]
START = ", start"  # end of the name of a method whose row measures its start, without any iteration
GIVEN_START = "start"  # method name of the row that measures the common start of all methods


def of_start(cell: Cell) -> tuple[str, bool]:
    """Return the name of a cell's method, and whether the cell is its start."""
    method = str(cell.get("method", ""))
    return method.removesuffix(START), method.endswith(START) or method == GIVEN_START


def with_starts(cells: Sequence[Cell], methods: Sequence[str]) -> list[Cell]:
    """Return the cells. The start of a cell precedes the cell if its method is one of `methods`."""
    found: list[Cell] = []
    for cell in cells:
        if cell["method"] in methods:
            found.append({**cell, "method": f"{cell['method']}{START}"})
        found.append(cell)
    return found


SettingsT = TypeVar("SettingsT", bound=Settings)


@dataclass(frozen=True)
class Outcome:
    """Result of measuring one cell with one seed.

    Attributes
    ----------
    cpu_seconds : float
        CPU time of the fit only [s].
    figures : mapping
        Measured values by column name.
    """

    cpu_seconds: float
    figures: Mapping[str, Value]


@dataclass(frozen=True)
class Preset(Generic[SettingsT]):
    """Settings of a run and its default number of seeds.

    `note` explains in one line what a quick run can and cannot show. The note is empty for a full run. `departures`
    lists differences between the full run and the thesis: in all rows of EIM (key "all"), or in the rows of one method
    or estimator.
    """

    settings: SettingsT
    n_seeds: int
    note: str = ""
    departures: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Experiment(Generic[SettingsT]):
    """Definition of an experiment.

    Attributes
    ----------
    name : str
        Name on the command line.
    summary : str
        Description in one line.
    settings_type : type of Settings
    cells : callable
        Function from settings to all cells. All cells have the same keys. The key "estimator" names the density ratio
        estimator: "network" (the classifier of the thesis), "plug-in", "residual" or "known". For methods without a
        ratio, it is "none".
    measure : callable
        Function from settings, a cell and a seed to an outcome. The outcome must not depend on anything else.
    report : callable, optional
        Function from a table to lines of text, for experiments that need more than the means of `summary`.
    page : callable, optional
        Function from a table to lines of Markdown. The report contains these lines instead of `report`.
    details : callable, optional
        Function from a table to lines of Markdown. The report writes these lines to a file in the folder of the table,
        and links to this file.
    conclusion : callable, optional
        Function from a table to one sentence, for experiments without claims.
    source : str
        Kind of publication that the experiment belongs to, such as "thesis" or "paper".
    figures : mapping of str to str
        Columns for a comparison of results with their starts. The values are names and units for readers.
    by : tuple of str
        Columns that distinguish the problems of this comparison.
    file : Path, optional
        File that defines the experiment, if it is not in this package. `experiment_module` sets it.
    code : str
        Digest of this file, because rows are valid only for the same code.
    """

    name: str
    summary: str
    settings_type: type[SettingsT]
    cells: Callable[[SettingsT], list[Cell]]
    measure: Callable[[SettingsT, Cell, int], Outcome]
    report: Callable[[ResultTable], list[str]] | None = None
    page: Callable[[ResultTable], list[str]] | None = None
    details: Callable[[ResultTable], list[str]] | None = None
    conclusion: Callable[[ResultTable], str] | None = None
    source: str = "thesis"
    figures: Mapping[str, str] = field(default_factory=dict)
    by: tuple[str, ...] = ()
    file: Path | None = None
    code: str = ""

    def versions(self) -> dict[str, str]:
        """Return the versions that a row depends on."""
        return versions() | ({"code": self.code} if self.code else {})

    def preset(self, quick: bool = False) -> Preset[SettingsT]:
        """Return the settings of the full or the quick run from `presets/<name>.yaml`.

        The file contains `seeds`, `full`, and `departures`, which lists the differences from `source`. The quick run
        takes minutes: `quick` contains its different settings, `quick_seeds` its number of seeds, and `quick_note` what
        it can and cannot show. Settings that the file omits keep the default of the settings class. An experiment
        outside of this package needs no such file, but may have one next to the file of the experiment.
        """
        path = PRESETS / f"{self.name.replace('-', '_')}.yaml" if self.file is None else self.file.with_suffix(".yaml")
        content = read_yaml(path) if self.file is None or path.exists() else {}
        unknown = sorted(set(content) - {"seeds", "departures", "full", "quick_seeds", "quick", "quick_note"})
        if unknown:
            raise ConfigurationError(f"{path} has unknown keys: {', '.join(unknown)}", unknown)
        if quick and self.file is not None and "quick" not in content:
            raise ConfigurationError(f"{path} has no key `quick`, so there is no quick run; use --set instead", path)
        values, n_seeds = dict(content.get("full") or {}), int(content.get("seeds", 1))
        note = ""
        if quick:
            values |= content.get("quick") or {}
            n_seeds, note = int(content.get("quick_seeds", 1)), " ".join(str(content.get("quick_note", "")).split())
        departures = {
            str(rows): tuple(" ".join(str(text).split()) for text in texts)
            for rows, texts in (content.get("departures") or {}).items()
        }
        return Preset(self.settings_type.from_mapping(values), n_seeds, note, departures)


TABLE_NAME = "table.csv"

Progress = Callable[[int, int, Row | None], None]
Task = tuple[Cell, int]


@dataclass(frozen=True)
class Work:
    """Task of a worker: measure one cell with one seed."""

    experiment: Experiment[Any]
    settings: Settings
    n_threads: int = 1

    def __call__(self, task: Task) -> Row:
        cell, seed = task
        with torch_threads(self.n_threads):
            outcome = self.experiment.measure(self.settings, cell, seed)
        return {
            **cell,
            "seed": seed,
            **outcome.figures,
            "cpu_seconds": round(outcome.cpu_seconds, 3),
            **self.experiment.versions(),
        }


@dataclass(frozen=True)
class FileWork:
    """`Work` for an experiment in a file. Each process reads the file, because its code cannot be pickled."""

    file: Path
    settings: dict[str, Any]
    n_threads: int = 1

    def __call__(self, task: Task) -> Row:
        experiment = experiment_module(str(self.file)).EXPERIMENT
        return Work(experiment, experiment.settings_type.from_mapping(self.settings), self.n_threads)(task)


def is_file(name: str) -> bool:
    """Return whether the name of an experiment is the path of a Python file."""
    return name.endswith(".py")


def experiment_module(name: str) -> ModuleType:
    """Import the module of an included experiment, or run a Python file that defines `EXPERIMENT`.

    `ConfigurationError` is raised if the file does not exist or does not define `EXPERIMENT`.
    """
    if is_file(name):
        return _module_of_file(Path(name).resolve())
    return importlib.import_module(f"experiments.{EXPERIMENTS[name]}")


@functools.cache
def _module_of_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ConfigurationError(f"there is no file {path}; check the path of the experiment", path)
    text = path.read_bytes()
    module = ModuleType(str(path))
    module.__file__ = str(path)
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # last, because modules in this folder must not hide others
    sys.modules[module.__name__] = module  # dataclasses look up the types of their fields there
    exec(compile(text, path, "exec"), module.__dict__)
    experiment = getattr(module, "EXPERIMENT", None)
    if not isinstance(experiment, Experiment):
        raise ConfigurationError(
            f"{path} must define EXPERIMENT = Experiment(...) from experiments.harness, got {experiment!r}", path
        )
    code = f"sha256:{hashlib.sha256(text).hexdigest()[:12]}"
    module.EXPERIMENT = replace(experiment, file=path, code=code)  # type: ignore[attr-defined]
    return module


def run_experiment(
    experiment: Experiment[Any],
    settings: Settings,
    seeds: Sequence[int],
    folder: Path,
    workers: Workers | None = None,
    progress: Progress | None = None,
    n_threads: int = 1,
) -> ResultTable:
    """Compute the missing rows of the table in a folder.

    Existing rows are kept, even if the settings select only some cells of the table, such as one of two estimators.

    Parameters
    ----------
    experiment : Experiment
    settings : Settings
        Settings of the experiment's type.
    seeds : sequence of int
        Seeds of all cells. The table keeps rows of other seeds from earlier runs.
    folder : Path
        Folder of the table. It is created if it does not exist.
    workers : Workers, optional
        By default, this process does the work.
    progress : callable, optional
        Function that is called at the start and after each row, with the number of completed rows, the total, and the
        new row.
    n_threads : int
        Number of threads of torch. More than one thread changes the rounding, and thus the results of long runs.

    Returns
    -------
    ResultTable

    Raises
    ------
    ConfigurationError
        If the folder contains results of other settings or versions, or if another process is writing to it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / TABLE_NAME
    cells = experiment.cells(settings)
    order = {_key(cell, cell): number for number, cell in enumerate(cells)}
    with locked(folder):
        table = ResultTable(Header(experiment.name, settings.to_mapping(), experiment.versions()))
        if path.exists():
            found = ResultTable.read(path)
            if not _is_extended(experiment, found.header, table.header):
                table.header.check(found.header, path)
            table = table.with_rows(found.rows)
        rows = {(order[_key(row, cells[0])], int(row["seed"])): row for row in table.rows}
        tasks = [(cell, seed) for seed in seeds for number, cell in enumerate(cells) if (number, seed) not in rows]
        total = len(cells) * len(seeds)
        n_done = total - len(tasks)
        if progress is not None:
            progress(n_done, total, None)
        work = (
            Work(experiment, settings, n_threads)
            if experiment.file is None
            else FileWork(experiment.file, settings.to_mapping(), n_threads)
        )
        for row in (workers or ThisProcess())(work, tasks):
            _check_versions(row, table.header)
            rows[order[_key(row, cells[0])], row["seed"]] = row
            table = table.with_rows(rows[key] for key in sorted(rows))
            table.write(path)
            n_done += 1
            if progress is not None:
                progress(n_done, total, row)
        return table


def _is_extended(experiment: Experiment[Any], old: Header, new: Header) -> bool:
    """Return whether the cells of `new` include the cells of `old`, and all other settings are equal."""
    if (old.experiment, old.versions) != (new.experiment, new.versions):
        return False
    try:
        settings = [experiment.settings_type.from_mapping(header.settings) for header in (old, new)]
    except ConfigurationError:  # the settings are from another version
        return False
    return comparable(settings[0]) == comparable(settings[1]) or is_selection(experiment, *settings)


def comparable(settings: Settings) -> dict[str, Any]:
    """Return the settings by name. Lists of names are sorted, because their order affects only the order of the
    rows.
    """
    values = settings.to_mapping()
    return {
        name: sorted(value) if isinstance(value, list) and all(isinstance(one, str) for one in value) else value
        for name, value in values.items()
    }


def is_selection(experiment: Experiment[Any], part: SettingsT, whole: SettingsT) -> bool:
    """Return whether `part` equals `whole`, except that it selects only some of the cells.

    The rows of `part` are then valid results of `whole`, because rows do not depend on each other.
    """
    found, wanted = comparable(part), comparable(whole)
    changed = [name for name in found if found[name] != wanted[name]]
    return bool(changed) and all(
        _cell_keys(experiment, whole.replace(name, getattr(part, name))) < _cell_keys(experiment, whole)
        for name in changed
    )


def _cell_keys(experiment: Experiment[SettingsT], settings: SettingsT) -> set[tuple[Any, ...]]:
    return {tuple(cell.items()) for cell in experiment.cells(settings)}


def _key(row: Row | Cell, names: Cell) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


def _check_versions(row: Row, header: Header) -> None:
    """Raise `ConfigurationError` if a worker has other versions of libraries. A worker may run on another machine."""
    different = {name: row[name] for name, version in header.versions.items() if row[name] != version}
    if different:
        raise ConfigurationError(
            f"a worker has the versions {different}, but this process has {header.versions}; install the same versions",
            different,
        )


@dataclass(frozen=True)
class Pairs:
    """Number of pairs in which the value of one method is below the value of another method.

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
    """Compare the row of one method with each row of another method for the same problem and seed.

    Parameters
    ----------
    table : ResultTable
    figure : str
        Column to compare; lower is better.
    problem : sequence of str
        Columns that, together with the seed, identify a problem.
    one, other : mapping
        Values that select the rows of each method (`ResultTable.where`). `one` selects at most one row per problem.
        `other` may select several rows, for example of several setups. Each row forms a pair.

    Returns
    -------
    Pairs
    """
    names = (*problem, "seed")
    reference = {tuple(row[name] for name in names): row[figure] for row in table.where(**one)}
    rows = [(reference.get(tuple(row[name] for name in names)), row[figure]) for row in table.where(**other)]
    found = [(value, of_other) for value, of_other in rows if value is not None]
    return Pairs(sum(value < of_other for value, of_other in found), len(found))


def pairs_in_words(label: str, pairs: dict[str, Pairs]) -> list[str]:
    """Return one line per method that is compared with `label`, and one line for all methods together."""
    found = {name: count for name, count in pairs.items() if count.n_pairs}
    lines = [f"{label} below {name}: {count} pairs" for name, count in found.items()]
    total = sum(found.values(), Pairs(0, 0))
    if len(found) > 1:
        lines.append(f"{label} below all of these: {total} pairs ({total.n_below / total.n_pairs:.0%})")
    return lines
