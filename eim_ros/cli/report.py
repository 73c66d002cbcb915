"""`eim report`: what the thesis says of each experiment beside what result tables say, as a page with figures.

Reads DIR/NAME/table.csv of `eim experiment`; a table that is missing is said to be. Nothing is fitted.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
from pathlib import Path

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
    from eim_ros.experiments.report import Section, complete_seeds, report_text
    from eim_ros.experiments.sweep import TABLE_NAME
    from eim_ros.experiments.table import ResultTable

    folder, tables = Path(args.output), Path(args.tables)
    read = {f"--tables {name}": tables / name / TABLE_NAME for name in EXPERIMENTS}
    check_outputs({"--output": folder / PAGE}, read)
    found = {}
    for name, (module, _) in EXPERIMENTS.items():  # all are read before anything is written
        experiment = importlib.import_module(f"eim_ros.experiments.{module}").EXPERIMENT
        path = tables / name / TABLE_NAME
        table = ResultTable.read(path) if path.exists() else None
        found[name] = experiment, table, table and complete_seeds(experiment, table, path)
    sections = []
    for name, (experiment, table, complete) in found.items():
        module, picture = EXPERIMENTS[name]
        claims = f"eim_ros.experiments.claims.{module}"
        figures = []
        if complete is not None and complete.rows:
            drawn = importlib.import_module(f"eim_ros.viz.{picture}").draw(complete, folder / name)
            figures = [path.relative_to(folder).as_posix() for path in drawn]
        sections.append(
            Section(
                experiment,
                importlib.import_module(claims).CLAIMS if importlib.util.find_spec(claims) else (),
                complete,
                len(table.rows) - len(complete.rows) if table and complete else 0,
                Path(os.path.relpath(tables / name / TABLE_NAME, folder)).as_posix(),
                figures,
            )
        )
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
