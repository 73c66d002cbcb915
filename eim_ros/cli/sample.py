"""`eim sample`: configurations that reach a pose, without ROS: of a model, or without one all solutions of a robot.

Exit code 0 with at least one valid configuration, 1 if none was found, else as `eim --help` says.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
import numpy.typing as npt

from eim_ros.cli.options import add_robot_flags, given_robot, print_configurations
from eim_ros.cli.request_options import (
    add_constraint_flags,
    add_query_flags,
    add_tool_flag,
    check_pose_length,
    constraints_from,
    order_from,
    posture_from,
    random_seed_or_fresh,
    wants_position_only,
)
from eim_ros.core.errors import ConfigurationError, JointStateError
from eim_ros.core.files import to_json
from eim_ros.ik import Completeness, ErrorCode, Sampler, Samples
from eim_ros.ik.request import SampleRequest
from eim_ros.kinematics import Robot, pose_from
from eim_ros.kinematics.robot import tool_from


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the verb."""
    parser = subparsers.add_parser(
        "sample", help="configurations for a pose, of a model or a robot", description=__doc__
    )
    add_sample_flags(parser)
    parser.set_defaults(run=run)


def add_sample_flags(parser: argparse.ArgumentParser) -> None:
    """Add all flags of a request that is answered here."""
    add = parser.add_argument
    add_query_flags(parser)
    add_constraint_flags(parser)
    add(
        "--model",
        metavar="FILE|NAME",
        help="model of eim train, or a shipped one; without: all solutions of --robot",
    )
    add_robot_flags(parser, default="that of --model")
    add_tool_flag(parser)
    add("--random-seed", "--seed", type=random_seed_or_fresh, default=None, help="negative: a fresh one (default)")
    add("--near", nargs="+", type=float, metavar="VALUE", help="rank by distance to this configuration [rad or m]")
    add("--timeout", type=float, default=1.0, help="longest time to search [s] (default %(default)s)")
    add("--certified", action="store_true", help="all families by closed form, nothing sampled; refused for other arms")
    add("--position-tolerance", type=float, default=1e-6, metavar="M", help="[m] (default %(default)s)")
    add("--orientation-tolerance", type=float, default=1e-6, metavar="RAD", help="[rad] (default %(default)s)")


def run(args: argparse.Namespace) -> int:
    """Run the verb; returns the exit code."""
    samples = sampled(args)[1]
    if args.json:
        print(to_json(samples.to_dict()))
    else:
        print_configurations(samples, args.samples if args.separation is None else 0)
    return exit_code("eim sample", samples)


def wanted_pose(args: argparse.Namespace) -> npt.NDArray[np.float64]:
    """(4, 4) of --pose."""
    check_pose_length(args)
    return pose_from(args.pose[:3], args.pose[3:] or None)


def sampled(args: argparse.Namespace) -> tuple[Robot, Samples]:
    """The robot and the answer that the flags of `add_sample_flags` ask for."""
    pose = wanted_pose(args)
    constraints, order, posture = constraints_from(args), order_from(args), posture_from(args)
    sampler = sampler_from(args)
    if args.near is not None and len(args.near) != sampler.robot.dof:
        names = " ".join(sampler.robot.joint_names)
        raise JointStateError(f"--near needs {sampler.robot.dof} values ({names}), got {len(args.near)}", args.near)
    sampler.prepare()
    request = SampleRequest(
        pose,
        args.samples,
        args.random_seed,
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
        until=None if args.until is None else Completeness(*args.until),
        separation=args.separation,
        certified=args.certified,
        distribution=args.distribution,
        temperature=args.temperature,
    )
    return sampler.robot, sampler.answer(request)


def exit_code(verb: str, samples: Samples) -> int:
    """0 with a solution, else 1; print the reason on stderr if it is no success."""
    if samples.error_code != ErrorCode.SUCCESS:
        print(f"{verb}: {samples.error_code.name}: {samples.message}", file=sys.stderr)
    return 0 if samples else 1


def sampler_from(args: argparse.Namespace) -> Sampler:
    """Of the model, which is held against the robot where one is given; without a model, all solutions of the robot."""
    if args.model is not None:
        if not args.robot:
            given_robot(args)  # refuses links without a robot
        sampler = Sampler.load(args.model, args.robot, args.tip, base=args.base)
    elif (robot := given_robot(args)) is not None:
        sampler = Sampler(robot)
    else:
        raise ConfigurationError("give --model, or --robot for all solutions without a model")
    return sampler if args.tool is None else sampler.with_tool(tool_from(args.tool))
