"""`eim sample`: configurations that reach a pose, from a model file, without ROS.

Exit code 0 with at least one valid configuration, 1 if none was found, 2 on bad input.
"""

from __future__ import annotations

import argparse
import json
import sys

import numpy as np

from eim_ros.cli.configurations import print_configurations
from eim_ros.cli.constraint_flags import add_constraint_flags, constraints_from, order_from, posture_from
from eim_ros.cli.query_flags import add_query_flags, check_pose_length, wants_position_only
from eim_ros.cli.whole_numbers import seed_or_fresh
from eim_ros.errors import JointStateError
from eim_ros.ik import ErrorCode, Sampler
from eim_ros.ik.samples import to_mapping
from eim_ros.kinematics import pose_from

__all__ = ["add_parser", "run"]


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the verb."""
    parser = subparsers.add_parser("sample", help="configurations for a pose, from a model file", description=__doc__)
    add = parser.add_argument
    add_query_flags(parser)
    add_constraint_flags(parser)
    add("--model", required=True, metavar="FILE|NAME", help="model of eim train, or a shipped one")
    add("--seed", type=seed_or_fresh, default=None, help="random seed; negative: a fresh one (default)")
    add("--near", nargs="+", type=float, metavar="VALUE", help="rank by distance to this configuration [rad or m]")
    add("--timeout", type=float, default=1.0, help="longest time to search [s] (default %(default)s)")
    add("--position-tolerance", type=float, default=1e-6, metavar="M", help="[m] (default %(default)s)")
    add("--orientation-tolerance", type=float, default=1e-6, metavar="RAD", help="[rad] (default %(default)s)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the verb; returns the exit code."""
    check_pose_length(args)
    pose = pose_from(args.pose[:3], args.pose[3:] or None)
    constraints, order, posture = constraints_from(args), order_from(args), posture_from(args)
    sampler = Sampler.load(args.model)
    if args.near is not None and len(args.near) != sampler.robot.dof:
        names = " ".join(sampler.robot.joint_names)
        raise JointStateError(f"--near needs {sampler.robot.dof} values ({names}), got {len(args.near)}", args.near)
    sampler.prepare()
    samples = sampler.sample(
        pose,
        args.samples,
        args.seed,
        near=None if args.near is None else np.array(args.near),
        position_only=wants_position_only(args),
        refine=args.refine,
        distinct=args.distinct,
        position_tolerance=args.position_tolerance,
        orientation_tolerance=args.orientation_tolerance,
        timeout=args.timeout,
        order=order,
        explore=args.explore,
        constraints=constraints,
        posture=posture,
    )
    answer = to_mapping(samples)
    if args.json:
        print(json.dumps(answer))
    else:
        print_configurations(answer)
    if samples.error_code != ErrorCode.SUCCESS:
        print(f"eim sample: {samples.error_code.name}: {samples.message}", file=sys.stderr)
    return 0 if samples.valid.any() else 1
