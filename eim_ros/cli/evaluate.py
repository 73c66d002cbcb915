"""`eim evaluate`: how good the raw samples of a model are, on test data."""

from __future__ import annotations

import argparse

from eim_ros.cli.request_options import random_seed
from eim_ros.core.data_set import load_data_set
from eim_ros.core.files import to_json
from eim_ros.ik import IKModel, evaluate


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the verb."""
    parser = subparsers.add_parser(
        "evaluate", help="errors, limits, entropies and likelihood of a model's raw samples", description=__doc__
    )
    parser.add_argument("--model", required=True, metavar="FILE|NAME", help="model of eim train, or a shipped one")
    parser.add_argument("--data", required=True, metavar="FILE", help="test data of eim collect")
    parser.add_argument(
        "--random-seed", "--seed", type=random_seed, default=0, help="random seed of the samples (default %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the verb; returns the exit code."""
    figures = evaluate(IKModel.load(args.model), load_data_set(args.data), args.random_seed)
    if args.json:
        print(to_json(figures))
    else:
        units = {"position": "m", "orientation": "rad", "prob": "nat"}
        for name, value in figures.items():
            unit = units.get(name.rpartition("_")[2], "")
            print(f"{name:<24} {value:10.4f}{' ' + unit if unit else ''}")
    return 0
