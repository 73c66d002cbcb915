"""`eim request`: sampled joint configurations for a pose, from a running `ik_server`.

Exit code 0 with at least one valid configuration, 1 when the server answers with none, 2 on bad input or when there is
no server.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from eim_ros.cli.main import code_of
from eim_ros.cli.request_options import (
    add_constraint_flags,
    add_query_flags,
    add_tool_flag,
    check_pose_length,
    constraints_from,
    order_from,
    posture_from,
    wants_position_only,
)
from eim_ros.core.errors import ConfigurationError, EimError, PoseError

if TYPE_CHECKING:
    from eim_ros.nodes import SampleIKClient


_PATIENCE = 5.0  # [s] beyond the server's own timeout, for a queue in front of it


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the verb."""
    parser = subparsers.add_parser(
        "request",
        help="ask a running ik_server for joint configurations",
        description="Ask a running ik_server for joint configurations of a pose of the tip link.",
    )
    add_query_flags(parser)
    add_constraint_flags(parser)
    add = parser.add_argument
    add("--random-seed", "--seed", type=int, default=-1, help="negative: a fresh one (default)")
    add(
        "--near",
        nargs="+",
        metavar="JOINT",
        help="rank by distance to this configuration: a value [rad or m] for each joint, or NAME=VALUE for each",
    )
    add("--timeout", type=float, default=0.0, help="longest time to search [s]; 0: the server's default")
    add("--position-tolerance", type=float, default=0.0, metavar="M", help="[m]; 0: the server's default")
    add("--orientation-tolerance", type=float, default=0.0, metavar="RAD", help="[rad]; 0: the server's default")
    add("--frame", default="", help="frame of the pose, any of tf, as it is now (default: the server's base link)")
    add("--tip", default="", help="link that is to reach the pose (default: the server's)")
    add_tool_flag(parser)
    add("--service", default="/ik_server/sample_ik", metavar="NAME", help="service (default %(default)s)")
    add("--wait", type=float, default=5.0, metavar="SECONDS", help="wait until it is active (default %(default)s)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the verb; returns the exit code."""
    try:
        _check(args)
        from eim_ros.cli.options import print_configurations  # here: `eim --help` must not need numpy or ROS
        from eim_ros.core.files import to_json
        from eim_ros.ik import ErrorCode
        from eim_ros.nodes import SampleIKClient, samples_of

        with SampleIKClient(args.service, args.wait) as client:
            samples = samples_of(client.sample(_request(args, client), _longest_wait(args)))
    except (EimError, ImportError) as error:
        return _fail(error, code_of(error))
    if args.json:
        print(to_json(samples.to_dict()))
    elif len(samples) or samples.best_attempt is not None:
        print_configurations(samples, args.samples if args.separation is None else 0)
    if samples.error_code != ErrorCode.SUCCESS:
        _fail(f"{samples.error_code.name}: {samples.message}", 1)
    return 0 if samples else 1


def _check(args: argparse.Namespace) -> None:
    """Refuse what no message can carry, or no server would serve."""
    check_pose_length(args)
    if not all(map(math.isfinite, args.pose)):
        raise PoseError(f"--pose must be finite, got {args.pose}", args.pose)
    if len(args.pose) == 7 and abs(math.hypot(*args.pose[3:]) - 1.0) > 1e-3:
        raise PoseError(f"the quaternion of --pose must have length 1, got {math.hypot(*args.pose[3:]):.6g}", args.pose)
    if not -(2**63) <= args.random_seed < 2**63:
        raise ConfigurationError(f"--random-seed must fit in 64 bits, got {args.random_seed}", args.random_seed)
    _near(args.near or [])
    constraints_from(args)
    order_from(args)
    posture_from(args)
    if args.explore is not None and not 0.0 <= args.explore <= 1.0:
        raise ConfigurationError(f"--explore must be from 0 to 1, got {args.explore}", args.explore)
    for name in ("timeout", "position_tolerance", "orientation_tolerance", "wait"):
        value = getattr(args, name)
        if not (math.isfinite(value) and value >= 0.0):
            raise ConfigurationError(f"--{name.replace('_', '-')} must be at least 0, got {value}", value)
    if not args.service.startswith("/"):
        raise ConfigurationError(f"--service must be a full name such as /ik_server/sample_ik, got {args.service!r}")


def _request(args: argparse.Namespace, client: SampleIKClient) -> Any:
    """Message of the arguments; what they leave open about the robot is asked from the server."""
    from eim_ros.nodes.common.interfaces import SampleIK

    joint_names = client.joint_names() if args.near else []
    request = SampleIK.Request()
    request.pose.header.frame_id = args.frame
    position, quaternion = request.pose.pose.position, request.pose.pose.orientation
    position.x, position.y, position.z = args.pose[:3]
    if len(args.pose) == 7:
        quaternion.x, quaternion.y, quaternion.z, quaternion.w = args.pose[3:]
    if args.near:
        names, numbers = _near(args.near)
        if not names and len(numbers) != len(joint_names):
            expected = f"{len(joint_names)} values ({' '.join(joint_names)})"
            raise ConfigurationError(f"--near needs {expected}, got {len(numbers)}", args.near)
        request.near.name, request.near.position = names or joint_names, numbers
    request.n_samples = args.samples
    request.tip_link = args.tip
    if args.tool is not None:
        from eim_ros.kinematics.robot import tool_from  # here as above
        from eim_ros.nodes.common.messages import pose_message

        request.tool = pose_message(tool_from(args.tool))
    request.random_seed = args.random_seed
    request.timeout = args.timeout
    request.position_tolerance = args.position_tolerance
    request.orientation_tolerance = args.orientation_tolerance
    request.position_only = wants_position_only(args)
    request.refine = args.refine
    request.distinct = args.refine if args.distinct is None else args.distinct
    order = order_from(args) or {}
    request.order, request.order_weights = list(order), list(order.values())
    if args.explore is not None:
        request.explore = args.explore
    if args.until is not None:
        request.confidence, request.missed_share = args.until
    if args.separation is not None:
        request.separation = args.separation
    if args.distribution is not None:
        request.distribution, request.temperature = args.distribution, args.temperature
    posture = posture_from(args)
    if posture is not None:
        request.posture.name = list(posture.positions)
        request.posture.position = list(posture.positions.values())
        request.posture_weights = list(posture.weights.values())
    constraints = constraints_from(args)
    if constraints is not None:
        from eim_ros.nodes.ik_server.constraints import fill_constraints  # here: it takes seconds to import

        fill_constraints(request, constraints)
    return request


def _near(values: Sequence[str]) -> tuple[list[str], list[float]]:
    """Names and numbers of `--near`; no names where plain numbers are given."""
    pairs = [value.rpartition("=") for value in values]
    named = [separator for _, separator, _ in pairs if separator]
    try:
        numbers = [float(number) for _, _, number in pairs]
    except ValueError as error:
        raise ConfigurationError(f"--near needs numbers, or NAME=NUMBER for each joint: {error}", values) from error
    if len(named) not in (0, len(values)):
        raise ConfigurationError("--near needs a name for each joint, or for none", values)
    return [name for name, _, _ in pairs] if named else [], numbers


def _longest_wait(args: argparse.Namespace) -> float:
    """How long to wait for the answer [s]; the server's own default timeout is not known here."""
    return float(args.timeout or 30.0) + _PATIENCE


def _fail(reason: object, code: int) -> int:
    print(f"eim request: {' '.join(str(reason).split())}", file=sys.stderr)
    return code
