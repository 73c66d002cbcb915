"""Report that compares the thesis' claims with the result tables of the experiments.

`python -m experiments report` reads DIR/NAME/table.csv of each experiment, writes a page with figures, and lists
missing tables. Everything comes from the tables; nothing is fitted.

A claim consists of its text, its place in the thesis, and a check against a result table. A check looks at the rows of
one density ratio estimator at a time, so results of the thesis' classifier and of a plug-in density are never mixed.
Only complete seeds count. If no seed is complete, the report shows the rows that exist, without figures. It states how
much of the full settings a table covers before it shows any numbers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from tyro.conf import arg

from eim_ros.cli.options import Json
from eim_ros.core.errors import ConfigurationError
from eim_ros.core.files import check_outputs, to_json, write_atomically
from eim_ros.core.settings import Settings
from experiments.harness import EXPERIMENTS, TABLE_NAME, Experiment, experiment_module
from experiments.table import ResultTable, Value, summary

ALWAYS_SHOWN = ("network", "plug-in")  # the thesis' classifier, and a fitted density over the model's own

Pairs = dict[tuple[Value, ...], tuple[float, float]]


@dataclass(frozen=True)
class Finding:
    """Result of checking a claim against a table.

    Attributes
    ----------
    measured : str
        Measurement in words and figures.
    agrees : bool, optional
        Whether the measurement agrees with the claim; None if the table does not decide it.
    """

    measured: str
    agrees: bool | None


@dataclass(frozen=True)
class Claim:
    """Statement of the thesis with its check.

    Attributes
    ----------
    source : str
        Section and figure of the thesis.
    text : str
        One sentence.
    check : callable
        Function from a table and a density ratio estimator to a finding, or None if the table has no rows for it. It
        must accept tables in which any row is missing.
    estimators : tuple of str
        Estimators to check. Those of `ALWAYS_SHOWN` are reported even if their rows are missing.
    """

    source: str
    text: str
    check: Callable[[ResultTable, str], Finding | None]
    estimators: tuple[str, ...] = (*ALWAYS_SHOWN, "residual")

    def findings(self, table: ResultTable) -> dict[str, Finding]:
        """Return the findings by estimator."""
        found = {estimator: self.check(table, estimator) for estimator in self.estimators}
        missing = Finding("no rows", None)
        return {name: one or missing for name, one in found.items() if one is not None or name in ALWAYS_SHOWN}


def paired_means(
    table: ResultTable,
    figure: str,
    by: tuple[str, ...],
    first: Mapping[str, Value],
    second: Mapping[str, Value],
) -> Pairs:
    """Return the means of a figure for two methods, over the seeds that both have.

    Parameters
    ----------
    table : ResultTable
    figure : str
        Column to average.
    by : tuple of str
        Columns that identify a problem. Methods are compared within each problem.
    first, second : mapping
        Values that select the rows of each method.

    Returns
    -------
    dict
        Mapping from the values of `by` to the two means, without problems that only one method has.
    """
    values: list[dict[tuple[Value, ...], float]] = [
        {(*(row[name] for name in by), row["seed"]): float(row[figure]) for row in table.where(**conditions)}
        for conditions in (first, second)
    ]
    pairs: dict[tuple[Value, ...], list[tuple[float, float]]] = {}
    for key in values[0]:
        if key in values[1]:
            pairs.setdefault(key[:-1], []).append((values[0][key], values[1][key]))
    means = {key: np.mean(some, axis=0) for key, some in pairs.items()}
    return {key: (float(mean[0]), float(mean[1])) for key, mean in means.items()}


ESTIMATORS = {"network": "classifier", "plug-in": "plug-in", "residual": "plug-in + network", "known": "density known"}
VERDICTS = {True: "yes", False: "**no**", None: "undecided"}
OPENING = """# The claims of the thesis, measured

This report compares claims of the thesis ([Becker 2019](#sources)) about EIM with measurements of this package.
`{command}` writes it from the result tables in [`{tables}`]({link}).

*Classifier* is the density ratio estimator of the thesis, a network that distinguishes data from samples of the model.
*Plug-in* divides a density fitted to the data by EM by the density of the model.

Results of QUICK settings need not apply to FULL ones. FULL, IN PART: some settings of a full run are missing.
INCOMPLETE: no seed is finished yet.
"""
SOURCES = """## Sources

P. Becker, *Expected Information Maximization: Using the I-Projection for Mixture Density Estimation*, Master's thesis,
TU Darmstadt, 2019.
"""


@dataclass(frozen=True)
class Section:
    """Section of the report about one experiment.

    Attributes
    ----------
    experiment : Experiment
    claims : sequence of Claim
        Claims of the thesis; empty if it makes none.
    table : ResultTable, optional
        Rows of the complete seeds, or all rows if no seed is complete. None if there is no table file.
    n_left_out : int
        Number of rows of other seeds.
    complete : bool
        Whether `table` contains complete seeds.
    link : str
        Path from the report to the table.
    figures : sequence of str
        Paths from the report to the figures.
    """

    experiment: Experiment[Any]
    claims: Sequence[Claim]
    table: ResultTable | None = None
    n_left_out: int = 0
    complete: bool = True
    link: str = ""
    figures: Sequence[str] = ()


def complete_seeds(experiment: Experiment[Any], table: ResultTable, path: Path) -> ResultTable:
    """Return a table with only the rows of seeds that have all cells.

    Raises
    ------
    ConfigurationError
        If the table at `path` is of another experiment, or has settings that this version does not know.
    """
    if table.header.experiment != experiment.name:
        raise ConfigurationError(
            f"{path} holds results of {table.header.experiment}, not of {experiment.name}", str(path)
        )
    try:
        cells = experiment.cells(experiment.settings_type.from_mapping(table.settings))
    except ConfigurationError as error:
        raise ConfigurationError(
            f"{path} holds results of another version ({error}): run `python -m experiments {experiment.name}` again",
            str(path),
        ) from error
    names = list(cells[0])
    wanted = {tuple(cell[name] for name in names) for cell in cells}
    found: dict[int, set[tuple[Any, ...]]] = {}
    for row in table.rows:
        found.setdefault(row["seed"], set()).add(tuple(row.get(name) for name in names))
    return table.with_rows(row for row in table.rows if found[row["seed"]] >= wanted)


def report_text(sections: Sequence[Section], tables: str, link: str, command: str) -> str:
    """Return the report in Markdown.

    Parameters
    ----------
    sections : sequence of Section
    tables : str
        Folder of the tables, as shown to readers.
    link : str
        Path from the report to this folder.
    command : str
        Command that creates the report.
    """
    parts = [OPENING.format(command=command, tables=tables, link=link), _overview(sections)]
    versions = dict.fromkeys(_versions(one.table) for one in sections if one.table is not None and one.table.rows)
    if len(versions) == 1:
        parts += [f"{next(iter(versions))}\n"]
    return "\n".join([*parts, *(_section(one, tables, len(versions) > 1) for one in sections), SOURCES])


def _versions(table: ResultTable) -> str:
    return f"Versions: {', '.join(f'{name} {version}' for name, version in table.header.versions.items())}."


def _overview(sections: Sequence[Section]) -> str:
    lines = [
        "Number of claims that agree, among the claims that the tables decide:",
        "",
        "| experiment | setting | seeds | classifier | plug-in | others |",
        "|---|---|---|---|---|---|",
    ]
    for one in sections:
        name = one.experiment.name
        if one.table is None or not one.table.rows:
            lines.append(f"| [{name}](#{name}) | **no table** | | | | |")
            continue
        kind = _kind(one, one.table)
        findings = [claim.findings(one.table) for claim in one.claims]
        columns = [_score(findings, [estimator]) for estimator in ALWAYS_SHOWN]
        others = _score(findings, [key for key in ESTIMATORS if key not in ALWAYS_SHOWN])
        n_seeds = len(one.table.distinct("seed"))
        lines.append(f"| [{name}](#{name}) | {kind} | {n_seeds} | {' | '.join(columns)} | {others} |")
    return "\n".join([*lines, ""])


def _score(findings: Sequence[Mapping[str, Finding]], estimators: Sequence[str]) -> str:
    verdicts = [one[key].agrees for one in findings for key in estimators if key in one]
    decided = [verdict for verdict in verdicts if verdict is not None]
    return f"{sum(decided)} of {len(decided)}" if decided else ""


def _section(one: Section, tables: str, with_versions: bool) -> str:
    experiment, table = one.experiment, one.table
    lines = [f"## {experiment.name}", "", f"{experiment.summary[:1].upper()}{experiment.summary[1:]}.", ""]
    if table is None or not table.rows:
        lines += [f"**No table.** `python -m experiments {experiment.name} --output {tables}` creates it.", ""]
        if one.claims:
            lines += [*(f"- {claim.text} ({claim.source})" for claim in one.claims), ""]
        return "\n".join(lines)
    lines += [_provenance(one, table) + (f" {_versions(table)}" if with_versions else ""), ""]
    if departures := experiment.preset().departures:
        lines += [f"Differs from the {experiment.source}: {'; '.join(departures)}.", ""]
    if one.claims:
        lines += ["| the thesis says | estimator | we measured | agrees |", "|---|---|---|---|"]
        lines += [line for claim in one.claims for line in _lines(claim, table)]
    elif experiment.page is not None:
        lines += experiment.page(table)
    else:
        text = experiment.report or (
            lambda table: summary(table, list(experiment.cells(experiment.settings_type())[0]))
        )
        lines += ["```", *text(table), "```"]
    for path in one.figures:
        lines += ["", f"![{experiment.name}]({path})"]
    return "\n".join([*lines, ""])


def _provenance(one: Section, table: ResultTable) -> str:
    kind, (_, differences) = _kind(one, table), _setting(one.experiment, table)
    seeds = ", ".join(map(str, sorted(table.distinct("seed"))))
    left_out = f" {one.n_left_out} rows of unfinished seeds are left out." if one.n_left_out else ""
    apart = f" Unlike the full setting: {'; '.join(differences)}." if differences else ""
    minutes = sum(row["cpu_seconds"] for row in table.rows) / 60.0
    return (
        f"**Setting: {kind}**, seeds {seeds}: [{len(table.rows)} rows]({one.link}), {minutes:.1f} minutes of "
        f"CPU time.{left_out}{apart}"
    )


def _lines(claim: Claim, table: ResultTable) -> list[str]:
    """Return the table lines of a claim, one per estimator; only the first contains the claim's text."""
    lines = []
    for number, (estimator, finding) in enumerate(claim.findings(table).items()):
        words = f"{claim.text} ({claim.source})" if number == 0 else ""
        words, measured = (text.replace("|", "\\|") for text in (words, finding.measured))
        lines.append(f"| {words} | {ESTIMATORS[estimator]} | {measured} | {VERDICTS[finding.agrees]} |")
    return lines


def _kind(one: Section, table: ResultTable) -> str:
    return _setting(one.experiment, table)[0] + ("" if one.complete else ", INCOMPLETE")


def _setting(experiment: Experiment[Any], table: ResultTable) -> tuple[str, list[str]]:
    """Return the name of the preset that a table belongs to, and its differences from the full preset.

    "FULL, IN PART" is a table with some of the full run's cells.
    """
    found = _comparable(experiment.settings_type.from_mapping(table.settings))
    full, quick = (_comparable(experiment.preset(is_quick).settings) for is_quick in (False, True))
    differences = [_difference(name, value, full[name]) for name, value in found.items() if value != full[name]]
    if found in (full, quick):
        return "FULL" if found == full else "QUICK", differences
    in_part = all(_is_part(experiment, full, {name: found[name]}) for name in found if found[name] != full[name])
    return "FULL, IN PART" if in_part else "NEITHER FULL NOR QUICK", differences


def _difference(name: str, value: Any, full: Any) -> str:
    if isinstance(value, list) and isinstance(full, list) and set(value) < set(full):
        return f"{name} without {' and '.join(str(one) for one in full if one not in value)}"
    return f"{name} {value} (full: {full})"


def _is_part(experiment: Experiment[Any], full: dict[str, Any], changed: dict[str, Any]) -> bool:
    """Return whether a changed setting only removes cells of the full run.

    The remaining rows are then valid results of the full run, because no row depends on others.
    """
    all_cells, cells = (
        {tuple(cell.items()) for cell in experiment.cells(experiment.settings_type.from_mapping(values))}
        for values in (full, {**full, **changed})
    )
    return cells < all_cells


def _comparable(settings: Settings) -> dict[str, Any]:
    """Return the settings by name, with lists of names sorted, because their order only affects the row order."""
    values = settings.to_mapping()
    return {
        name: sorted(value) if isinstance(value, list) and all(isinstance(one, str) for one in value) else value
        for name, value in values.items()
    }


TABLES, OUTPUT = "benchmarks/results/experiments", "docs/report"
PAGE = "index.md"


@dataclass(frozen=True, kw_only=True)
class Report:
    """Compare the result tables with the statements of the thesis."""

    tables: Annotated[str, arg(metavar="DIR")] = TABLES
    """Folder of the result tables."""
    output: Annotated[str, arg(metavar="FOLDER")] = OUTPUT
    """Folder of the report and its figures."""
    json: Json = False

    def run(self) -> int:
        """Write the report and return the exit code."""
        folder, tables = Path(self.output), Path(self.tables)
        paths = {name: tables / name / TABLE_NAME for name in EXPERIMENTS}
        check_outputs({"--output": folder / PAGE}, {f"--tables {name}": path for name, path in paths.items()})
        found = {}
        for name, path in paths.items():  # read all tables before writing anything, so that an error leaves no files
            experiment = experiment_module(name).EXPERIMENT
            table = ResultTable.read(path) if path.exists() else None
            found[name] = experiment, table, table and complete_seeds(experiment, table, path)
        sections = [_read_section(name, *found[name], folder, paths[name]) for name in EXPERIMENTS]
        link = Path(os.path.relpath(tables, folder)).as_posix()
        command = (
            "make report"
            if (self.tables, self.output) == (TABLES, OUTPUT)
            else f"python -m experiments report --tables {self.tables}"
        )
        write_atomically(folder / PAGE, report_text(sections, self.tables, link, command).encode())
        missing = [one.experiment.name for one in sections if one.table is None]
        if self.json:
            print(to_json({"report": str(folder / PAGE), "missing": missing}))
        else:
            print(f"report: {folder / PAGE}")
            if missing:
                print(f"without tables of: {', '.join(missing)}")
        return 0


def _read_section(name: str, experiment: Any, table: Any, complete: Any, folder: Path, path: Path) -> Any:
    """Build the section of one experiment, and draw its figures into the report's folder if a seed is complete."""
    module = experiment_module(name)
    is_complete = complete is not None and bool(complete.rows)
    drawn = module.draw(complete, folder / name) if is_complete else []
    return Section(
        experiment,
        getattr(module, "CLAIMS", ()),
        complete if is_complete else table,
        len(table.rows) - len(complete.rows) if is_complete else 0,
        is_complete,
        Path(os.path.relpath(path, folder)).as_posix(),
        [figure.relative_to(folder).as_posix() for figure in drawn],
    )
