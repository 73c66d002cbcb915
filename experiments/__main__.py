"""`python -m experiments NAME` runs an experiment, prints its table and draws its figures. `all` runs every experiment.

NAME may also be the path of a Python file that defines `EXPERIMENT`, such as ./mine.py.

Results are the rows of DIR/NAME/table.csv. An interrupted run can be continued, because only missing rows are computed.
Figures are drawn from the table only.
"""

from __future__ import annotations

import dataclasses
import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eim_ros.cli.flags import count, flag, json_flag, listed_settings, parse, quiet_flag, seed_flag, switch
from eim_ros.cli.main import Verb, run_program
from eim_ros.cli.options import use_threads, workers
from eim_ros.cli.progress import Bar
from eim_ros.core.errors import ConfigurationError, did_you_mean
from eim_ros.core.files import check_outputs, to_json
from eim_ros.core.parallel import ThisProcess
from eim_ros.core.settings import assignments, chosen
from experiments.harness import EXPERIMENTS, TABLE_NAME, experiment_module, is_file, run_experiment
from experiments.table import summary

OTHERS = {
    "report": ("report", "Report", "compare the result tables with the statements of the thesis"),
    "vi": ("vi", "FitMixture", "fit a Gaussian mixture to a target density by variational inference"),
    "view": ("line_reaching_view", "ViewLine", "show the postures of line-reaching in the browser"),
}
PROGRAM = "python -m experiments"
ALL = "all"
FOLDER, QUICK_FOLDER = "build/experiments", "build/experiments/quick"


@dataclass(frozen=True, kw_only=True)
class Run:
    """Run an experiment, print its table and draw its figures. --help-settings lists its settings."""

    seeds: int | None = count(None, "Number of seeds (default: as in experiments/presets).")
    seed: int = seed_flag(metavar="FIRST")
    quick: bool = switch("Use smaller settings, for a run of a few minutes. The run first prints what it cannot show.")
    jobs: int | None = count(None, "Number of processes on this machine (default: 1).")
    scheduler: str | None = flag(None, "Dask scheduler whose workers compute the rows instead.", metavar="ADDRESS")
    output: str | None = flag(
        None,
        "Folder of the results (default: build/experiments, or build/experiments/quick).",
        metavar="DIR",
    )
    set: tuple[str, ...] = flag((), "Value of a setting, such as n_components=5.", metavar="NAME=VALUE", repeated=True)
    quiet: bool = quiet_flag()
    json: bool = json_flag()
    threads: int | None = count(
        None,
        "Number of threads of torch (default: 1). More threads change the rounding, and thus the results.",
    )
    names: tuple[str, ...] = ()

    def run(self) -> int:
        """Run the experiments and return the exit code."""
        use_threads(self.threads)
        helpers = workers(self.jobs, self.scheduler) or ThisProcess()
        results = [_run(name, self, helpers) for name in self.names]
        if self.json:
            print(to_json(results[0] if len(results) == 1 else results))
        return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line of the experiments and return the exit code (see `ExitCode`)."""
    return run_program(PROGRAM, read, sys.argv[1:] if arguments is None else arguments)


def read(words: list[str]) -> Verb:
    """Read the command line. Only the modules of the requested command are imported."""
    name, rest = words[0] if words else "", words[1:]
    names = [*EXPERIMENTS, ALL, *OTHERS]
    if name in ("-h", "--help"):
        others = "\n".join(f"  {other:<8} {text}" for other, (_, _, text) in OTHERS.items())
        print(f"usage: {PROGRAM} NAME [FLAGS]\n\n{__doc__}\nExperiments: {', '.join(EXPERIMENTS)}\nOthers:\n{others}")
        raise SystemExit(0)
    if name not in names and not is_file(name):
        raise ConfigurationError(
            f"expected NAME or the path of a file *.py, got {name!r}{did_you_mean(name, names)} (see {PROGRAM} --help)"
        )
    program = f"{PROGRAM} {name}"
    if name in OTHERS:
        module, kind, _ = OTHERS[name]
        found = getattr(importlib.import_module(f"experiments.{module}"), kind)
        verb: Verb = found.read(program, rest) if hasattr(found, "read") else parse(found, program, rest)
        return verb
    if name == ALL:
        every: Run = dataclasses.replace(parse(Run, program, rest), names=tuple(EXPERIMENTS))
        return every
    experiment = experiment_module(name).EXPERIMENT
    if "--help-settings" in rest:
        print(listed_settings(experiment.preset("--quick" in rest).settings))
        raise SystemExit(0)
    one: Run = dataclasses.replace(parse(Run, program, rest), names=(name,))
    return one


def _run(name: str, args: Run, workers: Any) -> dict[str, Any]:
    module = experiment_module(name)
    experiment = module.EXPERIMENT
    preset = experiment.preset(args.quick)
    settings = chosen(preset.settings, assignments(args.set))
    folder = Path(args.output or (QUICK_FOLDER if args.quick else FOLDER)) / Path(name).stem
    given = {f"--{key}": value for key, value in settings.to_mapping().items() if isinstance(value, str)}
    check_outputs({"--output": folder / TABLE_NAME}, given)
    seeds = range(args.seed, args.seed + (args.seeds or preset.n_seeds))
    if args.quick and preset.note:
        print(f"{name} --quick: {preset.note}", flush=True)
    with Bar(name, enabled=not args.quiet, unit="rows") as bar:

        def progress(n_done: int, n_rows: int, row: dict[str, Any] | None) -> None:
            names = list(row or {})
            newest = names[: names.index("seed") + 1] if row else []
            bar.show(n_done, n_rows, figures=" ".join(str(row[name]) for name in newest) if row else "")

        table = run_experiment(experiment, settings, seeds, folder, workers, progress, args.threads or 1)
    report = experiment.report or (lambda table: summary(table, list(experiment.cells(settings)[0])))
    print("\n".join(report(table)))
    draw = getattr(module, "draw", None)
    figures = [str(path) for path in draw(table, folder)] if draw else []
    print(f"table: {folder / TABLE_NAME}")
    for path in figures:
        print(f"figure: {path}")
    return {"experiment": name, "table": str(folder / TABLE_NAME), "rows": len(table.rows), "figures": figures}


if __name__ == "__main__":
    sys.exit(main())
