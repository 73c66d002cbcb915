"""`eim experiment NAME`: run an experiment, print its table, draw its figures; `eim experiment all` runs every one.

Results are rows of DIR/NAME/table.csv. A run that was killed goes on where it was: only missing rows are computed.
Figures are drawn from the table alone. Each takes --seeds, --random-seed, --quick, --jobs, --output and --json.
"""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path
from typing import Any

from eim_ros.cli.progress import SweepBar
from eim_ros.cli.settings_flags import add_settings_flags, given_settings
from eim_ros.cli.threads import add_threads_flag, use_threads
from eim_ros.cli.whole_numbers import count, random_seed
from eim_ros.errors import ConfigurationError
from eim_ros.numerics.output_file import check_outputs
from eim_ros.numerics.strict_json import to_json

__all__ = ["add_parser", "run"]

# A module of eim_ros.experiments with EXPERIMENT, and one of eim_ros.viz with draw(table, folder) -> paths.
EXPERIMENTS = {
    "adversarial": ("adversarial", "adversarial_picture"),
    "gmmvi": ("gmmvi", "gmmvi_picture"),
    "kinematics": ("kinematics", "kinematics_picture"),
    "line-reaching": ("line_reaching", "line_reaching_picture"),
    "nonlinear": ("nonlinear", "nonlinear_picture"),
    "obstacle": ("obstacle", "obstacle_picture"),
    "projections": ("projections", "projections_picture"),
    "robustness": ("robustness", "robustness_picture"),
    "traffic": ("traffic", "traffic_picture"),
}
ALL = "all"
FOLDER, QUICK_FOLDER = "experiments", "experiments/quick"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the verb."""
    parser = subparsers.add_parser(
        "experiment", help="run an experiment, print its table, draw its figures", description=__doc__
    )
    names = parser.add_subparsers(metavar="NAME", required=True)
    for name in EXPERIMENTS:
        experiment = _experiment(name)
        child = names.add_parser(name, help=experiment.summary, description=experiment.summary)
        _add_flags(child)
        add_settings_flags(child, [experiment.settings_type], experiment.aliases)
        child.set_defaults(run=run, names=[name])
    every = names.add_parser(ALL, help="all of them, with their own settings", description="All experiments.")
    _add_flags(every)
    every.set_defaults(run=run, names=list(EXPERIMENTS))


def run(args: argparse.Namespace) -> int:
    """Run the verb; returns the exit code."""
    use_threads(args)
    workers = _workers(args)
    results = [_run(name, args, workers) for name in args.names]
    if args.json:
        print(to_json(results[0] if len(results) == 1 else results))
    return 0


def _add_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--seeds", type=count, metavar="N", help="how many seeds (default: what config/experiments says)")
    add(
        "--random-seed",
        "--seed",
        type=random_seed,
        default=0,
        metavar="FIRST",
        help="the first of them (default %(default)s)",
    )
    add(
        "--quick", action="store_true", help="smaller settings, for a run of minutes; it says first what it cannot show"
    )
    add("--jobs", type=count, default=1, metavar="J", help="processes of this machine (default %(default)s)")
    add("--scheduler", metavar="ADDRESS", help="Dask scheduler whose workers do the work instead")
    add("--output", metavar="DIR", help=f"folder (default {FOLDER}; of a quick run {QUICK_FOLDER})")
    add("--quiet", action="store_true", help="no progress bar")
    add("--json", action="store_true", help="print one JSON object at the end")
    add_threads_flag(parser)


def _run(name: str, args: argparse.Namespace, workers: Any) -> dict[str, Any]:
    from eim_ros.experiments.summary import summary
    from eim_ros.experiments.sweep import TABLE_NAME, run_experiment

    experiment = _experiment(name)
    preset = experiment.preset(args.quick)
    settings = type(preset.settings).from_mapping({**preset.settings.to_mapping(), **given_settings(args)})
    folder = Path(args.output or (QUICK_FOLDER if args.quick else FOLDER)) / name
    given = {f"--{key}": value for key, value in settings.to_mapping().items() if isinstance(value, str)}
    check_outputs({"--output": folder / TABLE_NAME}, given)
    seeds = range(args.random_seed, args.random_seed + (args.seeds or preset.n_seeds))
    if args.quick:
        print(f"{name} --quick: {preset.note}", flush=True)
    picture = importlib.import_module(f"eim_ros.viz.{EXPERIMENTS[name][1]}")  # what is missing shows before the work
    with SweepBar(name, enabled=not args.quiet) as bar:
        table = run_experiment(experiment, settings, seeds, folder, workers, bar)
    report = experiment.report or (lambda table: summary(table, list(experiment.cells(settings)[0])))
    print("\n".join(report(table)))
    figures = [str(path) for path in picture.draw(table, folder)]
    print(f"table: {folder / TABLE_NAME}")
    for path in figures:
        print(f"figure: {path}")
    return {"experiment": name, "table": str(folder / TABLE_NAME), "rows": len(table.rows), "figures": figures}


def _experiment(name: str) -> Any:
    return importlib.import_module(f"eim_ros.experiments.{EXPERIMENTS[name][0]}").EXPERIMENT


def _workers(args: argparse.Namespace) -> Any:
    from eim_ros.numerics.workers import DaskWorkers, JoblibWorkers, ThisProcess

    if args.scheduler is not None:
        if args.jobs != 1:
            raise ConfigurationError("--jobs is for this machine, --scheduler for others: give one of them", args.jobs)
        return DaskWorkers(args.scheduler)
    return ThisProcess() if args.jobs == 1 else JoblibWorkers(args.jobs)
