"""`eim experiment NAME`: run an experiment, print its table, draw its picture.

Each takes --output, --random-seed and --json.
"""

from __future__ import annotations

import argparse
import importlib
import json
from pathlib import Path

from eim_ros.cli.output_file import check_output
from eim_ros.cli.threads import add_threads_flag, use_threads
from eim_ros.cli.whole_numbers import random_seed

__all__ = ["add_parser", "run"]

# Each is a module experiment_NAME of this package (with _ for -) with `add_arguments(parser)` and `run(args, folder)`,
# which returns the figures for --json.
EXPERIMENTS = {
    "gmmvi": "natural-gradient variational inference with mixtures: the tables of VIPS, iBayes-GMM and GMMVI",
    "line-reaching": "mixtures by EM and EIM for a planar robot that reaches a line (thesis 6.3, figures 6.4, 6.5)",
    "nonlinear": "one neural expert on three univariate targets, by EM and EIM (thesis 6.6, figure 6.8)",
    "obstacle": "one Gaussian by EM and EIM for a planar robot that reaches around a disc (thesis figure 1.1)",
    "projections": "I- against M-projection: closed-form facts beside what the learners find",
    "robustness": "EM and EIM from random starts on a sine (thesis 6.2, figure 6.3)",
}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the verb."""
    parser = subparsers.add_parser(
        "experiment", help="run an experiment, print its table, draw its picture", description=__doc__
    )
    names = parser.add_subparsers(metavar="NAME", required=True)
    for name, summary in EXPERIMENTS.items():
        child = names.add_parser(name, help=summary, description=summary)
        child.add_argument("--output", default="experiments", metavar="DIR", help="folder (default %(default)s)")
        child.add_argument(
            "--random-seed",
            "--seed",
            type=random_seed,
            default=0,
            help="random seed of everything (default %(default)s)",
        )
        child.add_argument("--json", action="store_true", help="print one JSON object at the end")
        add_threads_flag(child)
        module = importlib.import_module(f"eim_ros.cli.experiment_{name.replace('-', '_')}")
        module.add_arguments(child)
        child.set_defaults(run=run, experiment=module)


def run(args: argparse.Namespace) -> int:
    """Run the verb; returns the exit code."""
    use_threads(args)
    folder = Path(args.output)
    check_output(folder / "picture.png")
    figures = args.experiment.run(args, folder)
    if args.json:
        print(json.dumps(figures))
    return 0
