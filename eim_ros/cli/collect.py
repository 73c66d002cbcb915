"""`eim collect`: pairs of configurations and what they reach, by forward kinematics."""

from __future__ import annotations

import argparse

from eim_ros.cli.options import add_robot_flags, robot_file, robot_from
from eim_ros.cli.progress import ProgressBar
from eim_ros.cli.request_options import count, count_or_none, random_seed
from eim_ros.core.data_set import save_data_set
from eim_ros.core.files import check_outputs, to_json
from eim_ros.ik import collect
from eim_ros.kinematics import CONTEXT_KINDS


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the verb."""
    parser = subparsers.add_parser(
        "collect", help="sample configurations of a robot and what they reach", description=__doc__
    )
    add_robot_flags(parser)
    parser.add_argument(
        "--samples", type=count, default=10000, metavar="N", help="number of pairs (default %(default)s)"
    )
    parser.add_argument(
        "--context",
        choices=tuple(CONTEXT_KINDS),
        default="position",
        help="what a model is to be conditioned on: the tip's position, or its full pose (default %(default)s)",
    )
    parser.add_argument(
        "--solutions-per-pose",
        type=count_or_none,
        default=0,
        metavar="N",
        help="draw so many from all solutions of each pose, evenly; 0: uniform configurations (default)",
    )
    parser.add_argument("--output", required=True, metavar="FILE", help="data set to write (.npz)")
    parser.add_argument(
        "--random-seed", "--seed", type=random_seed, default=0, help="random seed (default %(default)s)"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the verb; returns the exit code."""
    check_outputs({"--output": args.output}, {"--robot": robot_file(args)})
    robot = robot_from(args)
    with ProgressBar(0, "collecting", enabled=bool(args.solutions_per_pose) and not args.quiet):
        data_set = collect(robot, args.samples, args.context, args.random_seed, args.solutions_per_pose)
    save_data_set(args.output, data_set)
    if args.json:
        answer = {
            "output": args.output,
            "n_samples": len(data_set),
            "context": args.context,
            "joint_names": list(robot.joint_names),
        }
        print(to_json(answer))
    else:
        chain = f"{robot.base_link} to {robot.tip_link}, {robot.dof} joints"
        print(f"wrote {len(data_set)} pairs of {robot.name} ({chain}) to {args.output}")
    return 0
