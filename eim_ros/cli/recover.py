"""`eim recover`: bags whose recorder was killed get their footer, summary and metadata.yaml, in their place.

Bags of `demo_recorder` are whole after each flush and seldom need it; those of other recorders do.
"""

from __future__ import annotations

import argparse

from eim_ros.data.bag_reader import recover_bag

__all__ = ["add_parser", "run"]


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the verb."""
    parser = subparsers.add_parser("recover", help="make bags whole that were cut off", description=__doc__)
    parser.add_argument("bags", nargs="+", metavar="BAG", help="folder of a bag, or MCAP file; is changed")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the verb; returns the exit code."""
    for bag in args.bags:
        done = recover_bag(bag)
        print(f"{bag}: {'; '.join(done) or 'is whole'}")
    return 0
