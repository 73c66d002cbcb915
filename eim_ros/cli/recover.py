"""`eim recover`: bags whose recorder was killed get their footer, summary and metadata.yaml, in their place.

Bags of `demo_recorder` are whole after each flush and seldom need it; those of other recorders do.
"""

from __future__ import annotations

import argparse

from eim_ros.bags.reader import recover_bag
from eim_ros.core.files import to_json


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the verb."""
    parser = subparsers.add_parser("recover", help="make bags whole that were cut off", description=__doc__)
    parser.add_argument("bags", nargs="+", metavar="BAG", help="folder of a bag, or MCAP file; is changed")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the verb; returns the exit code."""
    done = {bag: recover_bag(bag) for bag in args.bags}
    if args.json:
        print(to_json({"bags": [{"path": bag, "done": steps} for bag, steps in done.items()]}))
        return 0
    for bag, steps in done.items():
        print(f"{bag}: {'; '.join(steps) or 'is whole'}")
    return 0
