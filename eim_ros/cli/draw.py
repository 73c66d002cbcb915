"""`eim draw`: a picture of an arm in the configurations that reach a pose, as `eim sample` finds them; PNG or SVG.

Exit code 0 with at least one valid configuration, 1 if none was found and nothing was drawn, else as `eim --help` says.
"""

from __future__ import annotations

import argparse

from eim_ros.cli.sample import add_sample_flags, exit_code, sampled, wanted_pose
from eim_ros.core.files import check_outputs, to_json


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the verb."""
    parser = subparsers.add_parser("draw", help="a picture of a pose's configurations", description=__doc__)
    add_sample_flags(parser)
    parser.add_argument(
        "--output", default="solutions.png", metavar="FILE", help="picture, .png or .svg (default %(default)s)"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the verb; returns the exit code."""
    from eim_ros.view import draw_solutions  # here: matplotlib takes a second to import
    from eim_ros.view.figure_file import check_picture_name

    check_picture_name(args.output)
    check_outputs({"--output": args.output}, {"--model": args.model, "--robot": args.robot})
    robot, samples = sampled(args)
    if samples:
        draw_solutions(robot, samples.positions[samples.valid], wanted_pose(args), args.output)
        told = {"picture": str(args.output), "n": int(samples.valid.sum()), "message": samples.message}
        print(to_json(told) if args.json else f"{samples.message}: {args.output}")
    return exit_code("eim draw", samples)
