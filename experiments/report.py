"""Report that compares the claims of the thesis with the result tables of the experiments.

`python -m experiments report` reads DIR/NAME/table.csv of each experiment. The command writes an overview, and a page
with figures for each experiment. The overview also lists missing tables. The command does not fit anything.

A claim consists of its text, its place in the thesis, and a check against a result table. The rows of EIM belong to
setups. A setup has one density ratio estimator and one set of settings. A check uses one setup at a time. Therefore,
results with the settings of the thesis are never mixed with results with our settings. The report lists the differences
between the settings of each setup and the thesis.

A seed counts for a setup if the table contains all its rows, and all rows of the methods without a setup.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from eim_ros.cli.flags import flag, json_flag
from eim_ros.core.errors import ConfigurationError
from eim_ros.core.files import check_outputs, to_json, write_atomically
from experiments.gmmvi_tables import LONG
from experiments.harness import (
    EXPERIMENTS,
    GIVEN_START,
    START,
    TABLE_NAME,
    Experiment,
    comparable,
    experiment_module,
    is_selection,
    of_start,
)
from experiments.pictures import THESIS, method_label
from experiments.table import ResultTable, Row, Value, mean_and_error, summary

Pairs = dict[tuple[Value, ...], tuple[float, float]]


@dataclass(frozen=True)
class Setup:
    """Rows of EIM with one density ratio estimator and one set of settings.

    Attributes
    ----------
    estimator : str
        Density ratio estimator.
    method : str
        Name of the method in the table.
    others : tuple of str
        Other methods with the same settings, such as the modified versions of EIM in thesis 6.1.
    """

    estimator: str
    method: str = "EIM"
    others: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Name in tables."""
        return f"{self.method} (known)" if self.estimator == "known" else method_label(self.method, self.estimator)

    @property
    def key(self) -> dict[str, Value]:
        """Arguments of `ResultTable.where` that select the rows of `method`."""
        return {"method": self.method, "estimator": self.estimator}

    def owns(self, row: Mapping[str, Value]) -> bool:
        """Return whether a row or cell belongs to this setup."""
        method = str(row.get("method", self.method)).removesuffix(START)
        return row["estimator"] == self.estimator and method in (self.method, *self.others)


@dataclass(frozen=True)
class Finding:
    """Result of the check of a claim.

    Attributes
    ----------
    measured : str
        Measurement in words and numbers.
    agrees : bool, optional
        Whether the measurement agrees with the claim; None if the table does not decide this.
    why : str
        Reason for a disagreement, derived from the measurement; empty without a disagreement.
    """

    measured: str
    agrees: bool | None
    why: str = ""

    def __post_init__(self) -> None:
        if (self.agrees is False) != bool(self.why):
            raise ValueError(
                f"a finding needs a reason if and only if it disagrees, got {self.measured!r}, {self.why!r}"
            )


def judged(measured: str, agrees: bool, why: str) -> Finding:
    """Return a finding. A finding is explained only if it disagrees with the claim."""
    return Finding(measured, bool(agrees), "" if agrees else why)


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
        Function from a table and a setup to a finding, or to None if the claim does not concern the setup. This
        function must accept tables with missing rows.
    """

    source: str
    text: str
    check: Callable[[ResultTable, Setup], Finding | None]


def listed(values: Iterable[Value]) -> str:
    """Return values in words, such as "1, 2 and 3"."""
    words = [str(value) for value in values]
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


NOT_RUN = Finding("not run", None)


def paired_means(
    table: ResultTable,
    figure: str,
    by: tuple[str, ...],
    first: Mapping[str, Value],
    second: Mapping[str, Value],
) -> Pairs:
    """Return the means of a column for two methods, over their common seeds.

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
        Mapping from the values of `by` to the two means. Problems with only one of the methods are omitted.
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


VERDICTS = {True: "yes", False: "**no**", None: "undecided"}
OPENING = """# Claims of the thesis, compared with measurements

{conclusion}

This report compares claims of the thesis ([Becker 2019](#sources)) about EIM with measurements of this package.
`{command}` writes it from the result tables in [`{tables}`]({link}).

*Classifier* is the density ratio estimator of the thesis, a network that distinguishes data from samples of the model.
*Plug-in* fits a density to the data by EM and divides it by the density of the model. *Plug-in + network* corrects this
ratio with a classifier. *Known* uses the density of the target or the kinematics instead of a network.

*EIM, thesis* follows the thesis exactly. It always uses the classifier, and fits quadratic surrogates to its values. It
uses importance weights and the bounds of tables B.1 and B.2, fits a new gating in each iteration, and returns the last
model. It starts from a fit by EM, because the thesis describes a start only in 6.2. *EIM* has the same bounds and
networks, but it uses gradients of the classifier and updates the gating directly. It checks whether the classifier
helps, and returns the best model. If there is a plug-in density, EIM starts from it. Because such a start may already
be almost as good as the result, a table on each page shows start and result. Other tables list all other differences.
The report skips seeds with missing results.
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
        Claims of the thesis about the experiment; may be empty.
    tables : mapping
        Rows that count for each setup, including the rows of methods without a setup. The key is None if there are no
        setups.
    table : ResultTable, optional
        All rows that count, or None if no row counts.
    link : str
        Path from the report to the table.
    figures : sequence of str
        Paths from the report to the figures.
    """

    experiment: Experiment[Any]
    claims: Sequence[Claim]
    tables: Mapping[Setup | None, ResultTable]
    table: ResultTable | None = None
    link: str = ""
    figures: Sequence[str] = ()

    def findings(self, claim: Claim) -> dict[Setup, Finding]:
        """Return the findings for all setups that a claim concerns."""
        found = {one: claim.check(rows, one) if rows.rows else NOT_RUN for one, rows in self.tables.items() if one}
        return {one: finding for one, finding in found.items() if finding is not None}


def counted_rows(
    experiment: Experiment[Any], setups: Sequence[Setup], table: ResultTable, path: Path
) -> dict[Setup | None, ResultTable]:
    """Return the rows that count for each setup of a table.

    A seed counts if it has all cells of the setup and all cells that belong to no setup, except starts and long runs.
    Setups without any cell in the settings of the table are omitted. If there are no setups, the key is None.

    Raises
    ------
    ConfigurationError
        If the table at `path` belongs to another experiment, or has settings that this version does not know.
    """
    if table.header.experiment != experiment.name:
        raise ConfigurationError(
            f"{path} contains results of {table.header.experiment}, not of {experiment.name}", str(path)
        )
    try:
        cells = experiment.cells(experiment.settings_type.from_mapping(table.settings))
    except ConfigurationError as error:
        raise ConfigurationError(
            f"{path} contains results of another version ({error}); run `python -m experiments {experiment.name}` "
            "again",
            str(path),
        ) from error
    names = list(cells[0])

    def key(row: Row) -> tuple[Any, ...]:
        return tuple(row.get(name) for name in names)

    optional = {key(dict(cell)) for cell in cells if of_start(cell)[1] or cell.get("run") == LONG}
    owners = {key(dict(cell)): next((one for one in setups if one.owns(cell)), None) for cell in cells}
    seeds: dict[int, set[tuple[Any, ...]]] = {}
    for row in table.rows:
        seeds.setdefault(row["seed"], set()).add(key(row))
    found: dict[Setup | None, ResultTable] = {}
    chosen: list[Setup | None] = [one for one in setups if one in owners.values()]
    for setup in chosen or [None]:
        expected = {cell for cell, owner in owners.items() if owner in (setup, None)}
        finished = {seed for seed, keys in seeds.items() if keys >= expected - optional}
        found[setup] = table.with_rows(row for row in table.rows if row["seed"] in finished and key(row) in expected)
    return found


def report_pages(sections: Sequence[Section], tables: str, link: str, command: str) -> dict[str, str]:
    """Return the pages of the report in Markdown, by file name: the overview, and a page for each experiment.

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
    opening = OPENING.format(conclusion=_conclusion(sections), command=command, tables=tables, link=link)
    parts = [opening, _overview(sections), _iterations(sections)]
    versions = [_versions(one.table) for one in sections if one.table is not None]
    usual = max(versions, key=versions.count, default="")
    if usual:
        parts += [f"{usual}\n"]
    pages = {_page_of(one): _section(one, tables, usual) for one in sections}
    return {PAGE: "\n".join([*parts, SOURCES]), **pages}


def _page_of(one: Section) -> str:
    return f"{one.experiment.name}.md"


def _conclusion(sections: Sequence[Section]) -> str:
    """Return the numbers of checks that agree, with the settings of the thesis and with other settings."""
    words = []
    for name, is_of_thesis in (("the thesis' settings", True), ("other settings and density ratios", False)):
        verdicts = [
            finding.agrees
            for one in sections
            for claim in one.claims
            for setup, finding in one.findings(claim).items()
            if finding.agrees is not None and (setup.key == THESIS_SETUP.key) is is_of_thesis
        ]
        if verdicts:
            words.append(f"With {name}, {_share(verdicts)}.")
    if not words:
        return "The tables do not contain enough rows to decide a claim."
    return f"**Each check compares a claim of the thesis with one row of results. {' '.join(words)}**"


def _share(verdicts: Sequence[bool]) -> str:
    return f"{sum(verdicts)} of {len(verdicts)} checks {'agrees' if sum(verdicts) == 1 else 'agree'}"


def _versions(table: ResultTable) -> str:
    """Return the versions that computed the rows. A table from several machines may have several versions."""
    of_rows = {
        name: list(dict.fromkeys(str(row.get(name, version)) for row in table.rows))
        for name, version in table.header.versions.items()
    }
    texts = (f"{name} {' and '.join(sorted(found))}" for name, found in of_rows.items())
    return f"Versions: {', '.join(texts)}."


def _overview(sections: Sequence[Section]) -> str:
    lines = [
        "The table shows the number of confirmed claims, out of all claims that the results decide:",
        "",
        "| experiment | setting | seeds | with the thesis' settings | other rows |",
        "|---|---|---|---|---|",
    ]
    for one in sections:
        name = one.experiment.name
        if one.table is None:
            lines.append(f"| [{name}]({name}.md) | not run | | | |")
            continue
        findings = [one.findings(claim) for claim in one.claims]
        scores = {setup: _score(findings, setup) for setup in one.tables if setup}
        thesis = " ".join(score for setup, score in scores.items() if setup.key == THESIS_SETUP.key)
        others = "; ".join(f"{v.label}: {score}" for v, score in scores.items() if v.key != THESIS_SETUP.key and score)
        lines.append(
            f"| [{name}]({name}.md) | {_setting(one.experiment, one.table)[0]} | {n_seeds(one.tables.values())} | "
            f"{thesis} | {others} |"
        )
    return "\n".join([*lines, ""])


THESIS_SETUP = Setup("network", THESIS)


def _iterations(sections: Sequence[Section]) -> str:
    """Return a table of the changes by the iterations of EIM, in the first measure of each experiment."""
    lines = [
        "The next table shows the start and the result of EIM's iterations, as medians over the problems:",
        "",
        "| experiment | figure | EM | rows of EIM |",
        "|---|---|---|---|",
    ]
    for one in sections:
        if one.table is None or not one.experiment.figures:
            continue
        column, text = next(iter(one.experiment.figures.items()))
        of_em = [row for row in one.table.where(method="EM") if column in row]
        problems = list(dict.fromkeys(_problem(one.experiment, row) for row in of_em))
        em = median(mean_and_error(one.table.where(method="EM", **dict(problem)), column)[0] for problem in problems)
        rows = []
        for setup in filter(None, one.tables):
            pairs = [_start_and_result(one.table, column, {**setup.key, **dict(problem)}) for problem in problems]
            found = [pair for pair in pairs if len(pair) == 2]
            if found:
                rows.append(f"{setup.label}: {' → '.join(f'{median(side):.3g}' for side in zip(*found, strict=True))}")
        if rows:
            name = one.experiment.name
            lines.append(f"| [{name}]({name}.md) | {text.replace('|', BAR)} | {em:.3g} | {'; '.join(rows)} |")
    return "\n".join([*lines, ""]) if len(lines) > 4 else ""


def n_seeds(tables: Iterable[ResultTable]) -> str:
    """Return the number of seeds in tables, such as "3", or "1 to 3" if they differ."""
    counts = [len(table.distinct("seed")) for table in tables if table.rows]
    return str(counts[0]) if len(set(counts)) == 1 else f"{min(counts)} to {max(counts)}"


def _score(findings: Sequence[Mapping[Setup, Finding]], setup: Setup) -> str:
    verdicts = [one[setup].agrees for one in findings if setup in one]
    decided = [verdict for verdict in verdicts if verdict is not None]
    return f"{sum(decided)} of {len(decided)}" if decided else ""


def _section(one: Section, tables: str, usual_versions: str) -> str:
    """Return the page of an experiment: its conclusion, its figures, and the tables behind them."""
    experiment, table = one.experiment, one.table
    lines = [f"# {experiment.name}", "", f"{experiment.summary[:1].upper()}{experiment.summary[1:]}.", ""]
    if table is None:
        lines += [f"**Not run.** `python -m experiments {experiment.name} --output {tables}` runs it.", ""]
        if one.claims:
            lines += [*(f"- {claim.text} ({claim.source})" for claim in one.claims), ""]
        return "\n".join(lines)
    lines += _conclusions(one)
    for path in one.figures:
        lines += [f"![{experiment.name}]({path})", ""]
    versions = _versions(table)
    lines += [_provenance(one, table) + (f" {versions}" if versions != usual_versions else ""), ""]
    if one.claims:
        lines += ["| the thesis says | row | we measured | agrees |", "|---|---|---|---|"]
        lines += [*(line for claim in one.claims for line in _lines(one, claim)), ""]
        lines += starts_table(one, table)
        lines += ["| row | differs from the thesis | seeds |", "|---|---|---|", *_rows(one, table)]
        return "\n".join([*lines, ""])
    lines += starts_table(one, table)
    if experiment.page is not None:
        departures = experiment.preset().departures.get("all", ())
        lines += [f"Differences from the {experiment.source}: {'; '.join(departures)}.", ""] if departures else []
        lines += experiment.page(table)
        if experiment.details is not None:
            lines += [
                "",
                f"More tables and reasons for differences: [{DETAILS}]({Path(one.link).parent.as_posix()}/{DETAILS}).",
            ]
    else:
        text = experiment.report or (
            lambda table: summary(table, list(experiment.cells(experiment.settings_type())[0]))
        )
        lines += ["```", *text(table), "```"]
    return "\n".join([*lines, ""])


def _conclusions(one: Section) -> list[str]:
    """Return the number of checks that agree, and each claim with the rows that contradict it, as Markdown."""
    if one.experiment.conclusion is not None and one.table is not None:
        text = one.experiment.conclusion(one.table)
        return [f"**{text}**", ""] if text else []
    findings = {claim: one.findings(claim) for claim in one.claims}
    verdicts = [finding.agrees for found in findings.values() for finding in found.values()]
    decided = [verdict for verdict in verdicts if verdict is not None]
    if not decided:
        return []
    lines = [f"**{_share(decided)} with the thesis**. There is one check for each claim and each row of results.", ""]
    for claim, found in findings.items():
        against = {setup.label: finding.why for setup, finding in found.items() if finding.agrees is False}
        if against:
            reasons = dict.fromkeys(against.values())
            rows = (
                f"{listed(label for label, why in against.items() if why == reason)}: {reason}" for reason in reasons
            )
            lines.append(f"- Not confirmed: {claim.text} {'; '.join(rows)}.")
    return [*lines, ""] if len(lines) > 2 else lines


def starts_table(one: Section, table: ResultTable) -> list[str]:
    """Return a table, as Markdown, with the result of EM, and with the start and the result of each setup.

    All values are means over the seeds with the row. Without a start, only the result is shown.
    """
    experiment = one.experiment
    problems = list(dict.fromkeys(_problem(experiment, row) for row in table.where(method="EM")))
    names = [", ".join(f"{WORDS.get(name, name)} {value}" for name, value in problem) or "" for problem in problems]
    lines = []
    for column, text in experiment.figures.items():
        lines += [f"| {text.replace('|', BAR)}: start → result | {' | '.join(names)} |", f"|---{'|---' * len(names)}|"]
        for label, key in (("EM", {"method": "EM"}), *((setup.label, setup.key) for setup in one.tables if setup)):
            cells = [_from_start(table, column, {**key, **dict(problem)}) for problem in problems]
            lines += [f"| {label} | {' | '.join(cells)} |"] if any(cells) else []
        lines.append("")
    return lines


WORDS = {"n_dims": "d =", "n_components": "k =", "robot": "", "target": ""}  # names of columns in the report


def _problem(experiment: Experiment[Any], row: Row) -> tuple[tuple[str, Value], ...]:
    return tuple((name, row[name]) for name in experiment.by)


def _from_start(table: ResultTable, column: str, key: Mapping[str, Value]) -> str:
    return " → ".join(f"{value:.3g}" for value in _start_and_result(table, column, key))


def _start_and_result(table: ResultTable, column: str, key: Mapping[str, Value]) -> list[float]:
    """Return the mean values of a start and of its result, if the table contains them."""
    rows = table.where(**key)
    if not rows:
        return []
    others = {name: value for name, value in key.items() if name not in ("method", "estimator")}
    own = table.where(**{**key, "method": f"{key['method']}{START}"})
    starts = own or (table.where(**others, method=GIVEN_START) if str(key["method"]).startswith("EIM") else [])
    seeds = {row["seed"] for row in starts}
    paired = [row for row in rows if row["seed"] in seeds] or rows
    return [mean_and_error(some, column)[0] for some in (starts, paired) if some]


def _provenance(one: Section, table: ResultTable) -> str:
    kind, differences = _setting(one.experiment, table)
    seeds = ", ".join(map(str, sorted(table.distinct("seed"))))
    apart = f" Differences from the full setting: {'; '.join(differences)}." if differences else ""
    minutes = sum(row["cpu_seconds"] for row in table.rows) / 60.0
    return (
        f"**Setting: {kind}**, seeds {seeds}: [{len(table.rows)} rows]({one.link}), {minutes:.1f} minutes of "
        f"CPU time.{apart}"
    )


def _rows(one: Section, table: ResultTable) -> list[str]:
    """Return one table line per setup, with its departures from the thesis and its number of completed seeds.

    The departures of a method are listed only for its first setup.
    """
    departures = one.experiment.preset().departures
    kind = _setting(one.experiment, table)[0]
    if kind != "FULL":
        departures = {"all": (f"{kind} settings",)}
    lines: list[str] = []
    first: dict[str, str] = {}
    for setup, rows in one.tables.items():
        if setup is None:
            continue
        of_setup = [*departures.get("all", ()), *departures.get(setup.method, ())]
        if of_setup and setup.method in first:
            of_setup = [f"as {first[setup.method]}"]
        first.setdefault(setup.method, setup.label)
        of_setup += departures.get(setup.estimator, ())
        lines.append(f"| {setup.label} | {'; '.join(of_setup)} | {len(rows.distinct('seed'))} |")
    return lines


def _lines(one: Section, claim: Claim) -> list[str]:
    """Return the table lines of a claim, one per measured setup. Only the first line contains the text of the claim.

    Explanations are not repeated.
    """
    measured = {v: finding for v, finding in one.findings(claim).items() if len(one.tables[v].rows)}
    lines = []
    given: set[str] = set()
    for number, (setup, finding) in enumerate(measured.items()):
        why = "as above" if finding.why in given else finding.why
        given |= {finding.why} - {""}
        cells = [
            f"{claim.text} ({claim.source})" if number == 0 else "",
            setup.label,
            finding.measured,
            VERDICTS[finding.agrees] + (f": {why}" if why else ""),
        ]
        lines.append(f"| {' | '.join(text.replace('|', BAR) for text in cells)} |")
    return lines


BAR = "\\|"  # a bar within a table cell


def _setting(experiment: Experiment[Any], table: ResultTable) -> tuple[str, list[str]]:
    """Return the name of the preset of a table, and its differences from the full preset.

    A table with only some cells of a preset has the name of this preset.
    """
    settings = experiment.settings_type.from_mapping(table.settings)
    found = comparable(settings)
    full, quick = (experiment.preset(is_quick).settings for is_quick in (False, True))
    wanted = comparable(full)
    differences = [_difference(name, value, wanted[name]) for name, value in found.items() if value != wanted[name]]
    for name, preset in (("FULL", full), ("QUICK", quick)):
        if found == comparable(preset) or is_selection(experiment, settings, preset):
            return name, differences
    return "OTHER", differences


def _difference(name: str, value: Any, full: Any) -> str:
    if isinstance(value, list) and isinstance(full, list) and set(value) < set(full):
        return f"{name} without {' and '.join(str(one) for one in full if one not in value)}"
    return f"{name} {value} (full: {full})"


TABLES, OUTPUT = "benchmarks/results/experiments", "docs/report"
PAGE = "index.md"
DETAILS = "tables.md"  # page in the folder of the result table


@dataclass(frozen=True, kw_only=True)
class Report:
    """Compare the result tables with the statements of the thesis."""

    tables: str = flag(TABLES, "Folder of the result tables.", metavar="DIR")
    output: str = flag(OUTPUT, "Folder of the report and its figures.", metavar="FOLDER")
    json: bool = json_flag()

    def run(self) -> int:
        """Write the report and return the exit code."""
        folder, tables = Path(self.output), Path(self.tables)
        paths = {name: tables / name / TABLE_NAME for name in EXPERIMENTS}
        details = {
            f"{DETAILS} of {name}": path.with_name(DETAILS)
            for name, path in paths.items()
            if path.exists() and experiment_module(name).EXPERIMENT.details
        }
        pages = {f"--output, {page}": folder / page for page in (PAGE, *(f"{name}.md" for name in EXPERIMENTS))}
        check_outputs({**pages, **details}, {f"--tables {name}": path for name, path in paths.items()})
        found = {}
        # Read all tables before the first page is written. An error then does not leave an incomplete report.
        for name, path in paths.items():
            experiment = experiment_module(name).EXPERIMENT
            table = ResultTable.read(path) if path.exists() else None
            setups = getattr(experiment_module(name), "SETUPS", ())
            counted = counted_rows(experiment, setups, table, path) if table else {}
            found[name] = counted, table and union(table, counted.values())
        sections = [_read_section(name, *found[name], folder, paths[name]) for name in EXPERIMENTS]
        link = Path(os.path.relpath(tables, folder)).as_posix()
        command = (
            "make report"
            if (self.tables, self.output) == (TABLES, OUTPUT)
            else f"python -m experiments report --tables {self.tables}"
        )
        for page, text in report_pages(sections, self.tables, link, command).items():
            write_atomically(folder / page, text.encode())
        for one in sections:
            if one.experiment.details is not None and one.table is not None:
                lines = one.experiment.details(one.table)
                write_atomically(paths[one.experiment.name].with_name(DETAILS), "\n".join([*lines, ""]).encode())
        missing = [one.experiment.name for one in sections if one.table is None]
        if self.json:
            print(to_json({"report": str(folder / PAGE), "missing": missing}))
        else:
            print(f"report: {folder / PAGE}")
            if missing:
                print(f"not run: {', '.join(missing)}")
        return 0


def union(table: ResultTable, selections: Iterable[ResultTable]) -> ResultTable | None:
    """Return the rows of a table in any of the selections, or None if there are no rows."""
    chosen = {id(row) for one in selections for row in one.rows}
    return table.with_rows(row for row in table.rows if id(row) in chosen) if chosen else None


def _read_section(
    name: str,
    tables: Mapping[Setup | None, ResultTable],
    table: ResultTable | None,
    folder: Path,
    path: Path,
) -> Section:
    """Build the section of one experiment. If a seed counts, draw the figures into the folder of the report."""
    module = experiment_module(name)
    return Section(
        module.EXPERIMENT,
        getattr(module, "CLAIMS", ()),
        tables,
        table,
        Path(os.path.relpath(path, folder)).as_posix(),
        [figure.relative_to(folder).as_posix() for figure in (module.draw(table, folder / name) if table else [])],
    )
