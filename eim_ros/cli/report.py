"""`eim report`: what the thesis says of each experiment beside what result tables say, as a page with figures.

Reads DIR/NAME/table.csv of `eim experiment`; a table that is missing is said to be. Nothing is fitted.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
from pathlib import Path
from typing import Any

from eim_ros.cli.experiment import EXPERIMENTS
from eim_ros.numerics import write_atomically
from eim_ros.numerics.output_file import check_outputs
from eim_ros.numerics.strict_json import to_json

__all__ = ["add_parser", "run"]

TABLES, OUTPUT = "benchmarks/results/experiments", "docs/report"
PAGE = "index.md"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the verb."""
    parser = subparsers.add_parser("report", help="result tables beside what the thesis says", description=__doc__)
    add = parser.add_argument
    add("--tables", default=TABLES, metavar="DIR", help="folder of result tables (default %(default)s)")
    add("--output", default=OUTPUT, metavar="FOLDER", help=f"of {PAGE} and figures (default %(default)s)")
    add("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the verb; returns the exit code."""
    from eim_ros.experiments.report import complete_seeds, report_text
    from eim_ros.experiments.sweep import TABLE_NAME
    from eim_ros.experiments.table import ResultTable

    folder, tables = Path(args.output), Path(args.tables)
    paths = {name: tables / name / TABLE_NAME for name in EXPERIMENTS}
    check_outputs({"--output": folder / PAGE}, {f"--tables {name}": path for name, path in paths.items()})
    found = {}
    for name, path in paths.items():  # all are read before anything is written
        experiment = importlib.import_module(f"eim_ros.experiments.{EXPERIMENTS[name][0]}").EXPERIMENT
        table = ResultTable.read(path) if path.exists() else None
        found[name] = experiment, table, table and complete_seeds(experiment, table, path)
    sections = [_section(name, *found[name], folder, paths[name]) for name in EXPERIMENTS]
    link = Path(os.path.relpath(tables, folder)).as_posix()
    command = "make report" if (args.tables, args.output) == (TABLES, OUTPUT) else f"eim report --tables {args.tables}"
    write_atomically(folder / PAGE, report_text(sections, args.tables, link, command).encode())
    missing = [one.experiment.name for one in sections if one.table is None]
    if args.json:
        print(to_json({"report": str(folder / PAGE), "missing": missing}))
    else:
        print(f"report: {folder / PAGE}")
        if missing:
            print(f"without tables of: {', '.join(missing)}")
    return 0


def _section(name: str, experiment: Any, table: Any, complete: Any, folder: Path, path: Path) -> Any:
    """Of an experiment: draw its figures, where a seed is complete, into the folder of the report."""
    from eim_ros.experiments.report import Section

    module, picture = EXPERIMENTS[name]
    claims = f"eim_ros.experiments.claims.{module}"
    is_complete = complete is not None and bool(complete.rows)
    drawn = importlib.import_module(f"eim_ros.viz.{picture}").draw(complete, folder / name) if is_complete else []
    return Section(
        experiment,
        importlib.import_module(claims).CLAIMS if importlib.util.find_spec(claims) else (),
        complete if is_complete else table,
        len(table.rows) - len(complete.rows) if is_complete else 0,
        is_complete,
        Path(os.path.relpath(path, folder)).as_posix(),
        [figure.relative_to(folder).as_posix() for figure in drawn],
    )
