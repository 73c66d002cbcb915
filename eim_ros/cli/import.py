"""`eim import`: bags of recorded joint states become a data set; says what it left out and why.

Bags are folders or files of rosbag2 (MCAP or sqlite3), whole or cut off, with joint states or trajectories; tables are
CSV or NPZ.
"""

from __future__ import annotations

import argparse
import math
from typing import Any

from eim_ros.bags.motion_import import MotionForm, import_motions
from eim_ros.bags.pair_import import PairForm, import_pairs
from eim_ros.bags.segmentation import Cuts
from eim_ros.bags.selection import BagReport, Selection, lines
from eim_ros.cli.options import add_robot_flags, given_robot, robot_file
from eim_ros.cli.request_options import count
from eim_ros.core.data_set import METHODS, DataSet, save_data_set
from eim_ros.core.errors import ConfigurationError
from eim_ros.core.files import check_outputs, to_json
from eim_ros.ik.data import pair_data_set
from eim_ros.ik.prior import describe_robot
from eim_ros.kinematics import CONTEXT_KINDS

TASKS = {"motion": "motions", "ik": "pairs"}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the verb."""
    parser = subparsers.add_parser("import", help="turn recorded bags into a data set", description=__doc__)
    parser.add_argument(
        "bags", nargs="+", metavar="BAG", help="folder of a bag, its file (.mcap, .db3), or a table (.csv, .npz)"
    )
    parser.add_argument("--output", required=True, metavar="FILE", help="data set to write (.npz)")
    parser.add_argument(
        "--task",
        choices=tuple(TASKS),
        default="motion",
        help="motion: each segment is one motion; ik: poses of the tip and configurations (default %(default)s)",
    )
    add_robot_flags(parser, default="that of the data set")
    parser.add_argument("--joints", metavar="A,B,...", help="wanted joints in their order (default: of the robot)")
    parser.add_argument("--joint-topic", metavar="TOPIC", help="joint states or trajectories (default: the only one)")
    parser.add_argument("--label-topic", metavar="TOPIC", help="labels (default: the only one named .../segment)")
    parser.add_argument("--label", action="append", default=[], help="only segments of this label; may be repeated")
    parser.add_argument("--skip-label", action="append", default=[], metavar="LABEL", help="not these; may be repeated")
    parser.add_argument(
        "--context",
        action="append",
        default=[],
        metavar="WHAT",
        help="motion: start, or a topic of points, poses or numbers, may be repeated (default: none); "
        "ik: position or pose (default position)",
    )
    parser.add_argument("--points", type=_points, default=50, help="of each motion (default %(default)s)")
    parser.add_argument("--method", choices=METHODS, default="linear", help="of resampling (default %(default)s)")
    parser.add_argument("--rate", type=_positive, metavar="HZ", help="ik: pairs per second (default: each joint state)")
    parser.add_argument("--pose-topic", metavar="TOPIC", help="ik: poses of the tip (default: forward kinematics)")
    parser.add_argument(
        "--time",
        choices=("header", "arrival"),
        default="header",
        help="which times of the messages count (default %(default)s)",
    )
    parser.add_argument(
        "--max-gap", type=_positive, default=0.2, metavar="S", help="longest time without (default %(default)s s)"
    )
    parser.add_argument(
        "--max-speed",
        type=_positive,
        default=Cuts.max_speed,
        metavar="V",
        help="a joint that is faster has jumped (default %(default)s rad/s or m/s)",
    )
    parser.add_argument(
        "--min-jump",
        type=_positive,
        default=Cuts.min_jump,
        metavar="D",
        help="a joint that moves less has not (default %(default)s rad or m)",
    )
    parser.add_argument(
        "--min-displacement",
        type=_positive,
        default=MotionForm.min_displacement,
        metavar="D",
        help="a robot whose joints all move less stands still (default %(default)s rad or m)",
    )
    parser.add_argument(
        "--min-duration", type=_positive, default=0.1, metavar="S", help="of a motion (default %(default)s s)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the verb; returns the exit code."""
    check_outputs({"--output": args.output}, {"--robot": robot_file(args), **{f"BAG {bag}": bag for bag in args.bags}})
    selection = _selection(args)
    data_set, reports = _pairs(args, selection) if args.task == "ik" else _motions(args, selection)
    save_data_set(args.output, data_set)
    what = TASKS[args.task]
    if args.json:
        print(to_json(_answer(args, data_set, reports)))
        return 0
    for report in reports:
        print("\n".join(lines(report, what)))
    print(f"wrote {len(data_set)} {what} to {args.output}")
    return 0


def _selection(args: argparse.Namespace) -> Selection:
    robot = given_robot(args)
    joints = tuple(name.strip() for name in args.joints.split(",")) if args.joints else None
    if joints and (not all(joints) or len(set(joints)) < len(joints)):
        raise ConfigurationError(f"--joints {args.joints}: expected different names, separated by commas", joints)
    if joints and robot and joints != robot.joint_names:
        raise ConfigurationError(
            f"--joints {args.joints} are not those of robot '{robot.name}', {','.join(robot.joint_names)}; give one "
            "of the two",
            joints,
        )
    return Selection(
        joint_names=joints,
        robot=robot,
        joint_topic=args.joint_topic,
        label_topic=args.label_topic,
        labels=tuple(args.label),
        skipped_labels=tuple(args.skip_label),
        cuts=Cuts(args.max_gap, args.max_speed, args.min_jump, use_arrival=args.time == "arrival"),
    )


def _motions(args: argparse.Namespace, selection: Selection) -> tuple[DataSet, list[BagReport]]:
    if args.pose_topic or args.rate:
        raise ConfigurationError("--pose-topic and --rate are for --task ik", args.task)
    form = MotionForm(args.points, args.method, tuple(args.context), args.min_duration, args.min_displacement)
    data_set, reports = import_motions(args.bags, selection, form)
    if selection.robot is None:
        return data_set, reports
    description = {**data_set.description, "robot": describe_robot(selection.robot)}
    return DataSet(data_set.context, data_set.sample, description), reports


def _pairs(args: argparse.Namespace, selection: Selection) -> tuple[DataSet, list[BagReport]]:
    robot = selection.robot
    if robot is None:
        raise ConfigurationError("--task ik needs --robot", args.robot)
    kinds = args.context or ["position"]
    if len(kinds) > 1 or kinds[0] not in CONTEXT_KINDS:
        raise ConfigurationError(f"--context of --task ik must be one of {', '.join(CONTEXT_KINDS)}", kinds)
    poses, configurations, reports = import_pairs(
        args.bags, selection, PairForm(args.pose_topic, args.rate, args.method)
    )
    source = f"bags, poses of {args.pose_topic}" if args.pose_topic else "bags, poses by forward kinematics"
    return pair_data_set(robot, configurations, poses, kinds[0], {"source": source}), reports


def _answer(args: argparse.Namespace, data_set: DataSet, reports: list[BagReport]) -> dict[str, Any]:
    description = data_set.description
    names = description["joint_names"] if args.task == "motion" else description["robot"]["joint_names"]
    return {
        "output": args.output,
        "task": args.task,
        "n_samples": len(data_set),
        "joint_names": names,
        "bags": [report.to_json() for report in reports],
    }


def _points(text: str) -> int:
    value = count(text)
    if value < 2:
        raise argparse.ArgumentTypeError("a motion has at least 2 points")
    return value


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"expected a number, got {text!r}") from error
    if not (math.isfinite(value) and value > 0.0):
        raise argparse.ArgumentTypeError(f"must be positive, got {text}")
    return value
