"""`python -m experiments NAME`: run an experiment, print its table and draw its figures. `all` runs every experiment.

Results are the rows of DIR/NAME/table.csv. A run that was interrupted continues where it stopped: only missing rows
are computed. Figures are drawn from the table alone.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eim_ros.cli.main import Parser, run_program
from eim_ros.cli.options import add_settings_flags, add_threads_flag, given_settings, use_threads
from eim_ros.cli.progress import SweepBar
from eim_ros.cli.request_options import count, random_seed
from eim_ros.core.errors import ConfigurationError
from eim_ros.core.files import check_outputs, to_json
from experiments.harness import EXPERIMENTS, TABLE_NAME, experiment_module, run_experiment
from experiments.table import summary

OTHERS = {
    "report": ("report", "compare the result tables with what the thesis says"),
    "vi": ("vi", "fit a Gaussian mixture to a target density by variational inference"),
    "view": ("line_reaching_view", "show the postures of line-reaching in the browser"),
}
PROGRAM = "python -m experiments"
ALL = "all"
FOLDER, QUICK_FOLDER = "build/experiments", "build/experiments/quick"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line of the experiments and return the exit code (see `ExitCode`)."""
    return run_program(PROGRAM, _parsed, sys.argv[1:] if arguments is None else arguments)


def _parsed(words: list[str]) -> argparse.Namespace:
    """Parse the command line. Only the modules of the requested command are imported."""
    parser = Parser(prog=PROGRAM, description=__doc__)
    verbs = parser.add_subparsers(metavar="NAME", required=True)
    asked = words[0] if words else ""
    for name in EXPERIMENTS:
        if name != asked:
            verbs.add_parser(name, help=f"run the experiment {name}")
            continue
        experiment = experiment_module(name).EXPERIMENT
        child = verbs.add_parser(name, help=experiment.summary, description=experiment.summary)
        _add_flags(child)
        add_settings_flags(child, [experiment.settings_type], experiment.aliases)
        child.set_defaults(run=run, names=[name])
    every = verbs.add_parser(
        ALL, help="run all experiments, each with its own settings", description="All experiments."
    )
    _add_flags(every)
    every.set_defaults(run=run, names=list(EXPERIMENTS))
    for name, (module, text) in OTHERS.items():
        if name == asked:
            importlib.import_module(f"experiments.{module}").add_parser(verbs)
        else:
            verbs.add_parser(name, help=text)
    return parser.parse_args(words)


def run(args: argparse.Namespace) -> int:
    """Run experiments and return the exit code."""
    use_threads(args)
    workers = _workers(args)
    results = [_run(name, args, workers) for name in args.names]
    if args.json:
        print(to_json(results[0] if len(results) == 1 else results))
    return 0


def _add_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--seeds", type=count, metavar="N", help="number of seeds (default: as in experiments/presets)")
    add(
        "--random-seed",
        "--seed",
        type=random_seed,
        default=0,
        metavar="FIRST",
        help="the first seed (default %(default)s)",
    )
    add(
        "--quick",
        action="store_true",
        help="smaller settings, for a run of minutes; the limits of such a run are printed first",
    )
    add("--jobs", type=count, default=1, metavar="J", help="number of processes on this machine (default %(default)s)")
    add("--scheduler", metavar="ADDRESS", help="Dask scheduler whose workers are used instead")
    add("--output", metavar="DIR", help=f"folder (default {FOLDER}; of a quick run {QUICK_FOLDER})")
    add("--quiet", action="store_true", help="no progress bar")
    add("--json", action="store_true", help="print one JSON object at the end")
    add_threads_flag(parser)


def _run(name: str, args: argparse.Namespace, workers: Any) -> dict[str, Any]:
    module = experiment_module(name)
    experiment = module.EXPERIMENT
    preset = experiment.preset(args.quick)
    settings = type(preset.settings).from_mapping({**preset.settings.to_mapping(), **given_settings(args)})
    folder = Path(args.output or (QUICK_FOLDER if args.quick else FOLDER)) / name
    given = {f"--{key}": value for key, value in settings.to_mapping().items() if isinstance(value, str)}
    check_outputs({"--output": folder / TABLE_NAME}, given)
    seeds = range(args.random_seed, args.random_seed + (args.seeds or preset.n_seeds))
    if args.quick:
        print(f"{name} --quick: {preset.note}", flush=True)
    with SweepBar(name, enabled=not args.quiet) as bar:
        table = run_experiment(experiment, settings, seeds, folder, workers, bar)
    report = experiment.report or (lambda table: summary(table, list(experiment.cells(settings)[0])))
    print("\n".join(report(table)))
    figures = [str(path) for path in module.draw(table, folder)]
    print(f"table: {folder / TABLE_NAME}")
    for path in figures:
        print(f"figure: {path}")
    return {"experiment": name, "table": str(folder / TABLE_NAME), "rows": len(table.rows), "figures": figures}


def _workers(args: argparse.Namespace) -> Any:
    from eim_ros.core.parallel import DaskWorkers, JoblibWorkers, ThisProcess

    if args.scheduler is not None:
        if args.jobs != 1:
            raise ConfigurationError("--jobs uses this machine, --scheduler uses others: give only one", args.jobs)
        return DaskWorkers(args.scheduler)
    return ThisProcess() if args.jobs == 1 else JoblibWorkers(args.jobs)


if __name__ == "__main__":
    sys.exit(main())
