"""Round trip of `sample_ik` for n = 1, 100 and 1000, compared with an empty service in the same run.

    python -m benchmarks.service_latency [--output benchmarks/results/service_latency.txt]

There are three processes: `ik_server` with default settings, a plain server that uses only rclpy, and this client. The
plain server answers without any work. It has services of an almost empty type (lifecycle_msgs/GetState) and of the type
SampleIK, so the table shows which share of a round trip is due to the message. Calls alternate between the services, so
that all of them have the same load. Poses come from forward kinematics of random configurations.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._machine import isolate, processor, running

ITSELF = [sys.executable, "-m", "benchmarks.service_latency"]

ROUNDS = 300
WARM_UP = 30
SIZES = (1, 100, 1000)
READY_WITHIN = 180.0  # time limit for the start [s]


def serve_plain() -> None:
    """Serve two services with rclpy that answer without work."""
    import rclpy
    from lifecycle_msgs.srv import GetState

    from eim_ros.srv import SampleIK

    rclpy.init()
    node = rclpy.create_node("plain_server")
    for service_type, name in ((GetState, "~/empty"), (SampleIK, "~/sample_ik")):
        node.create_service(service_type, name, lambda request, response: response)
    with contextlib.suppress(KeyboardInterrupt, rclpy.executors.ExternalShutdownException):
        rclpy.spin(node)


def measure(seed: int, rounds: int) -> tuple[dict[str, np.ndarray], float]:
    """Return round trips (rounds,) [s] for each kind of call, and the share of solved requests."""
    import rclpy
    from geometry_msgs.msg import Pose
    from lifecycle_msgs.srv import GetState

    from eim_ros.kinematics import Robot, quaternion_from_matrix
    from eim_ros.msg import ErrorCodes
    from eim_ros.nodes import SERVICE_QOS, wait_until_active
    from eim_ros.srv import SampleIK

    robot = Robot("iiwa14")
    poses = robot.fk(robot.random(rounds + WARM_UP, np.random.default_rng(seed)))
    rclpy.init()
    node = rclpy.create_node("latency_client")
    executor = rclpy.executors.SingleThreadedExecutor()
    executor.add_node(node)
    empty = node.create_client(GetState, "/plain_server/empty")
    unsolved = node.create_client(SampleIK, "/plain_server/sample_ik", qos_profile=SERVICE_QOS)
    solved = node.create_client(SampleIK, "/ik_server/sample_ik", qos_profile=SERVICE_QOS)
    for client in (empty, unsolved, solved):
        if not client.wait_for_service(READY_WITHIN):
            raise SystemExit(f"the service {client.srv_name} did not appear within {READY_WITHIN:g} s")
    wait_until_active(node, "/ik_server", READY_WITHIN, executor=executor)

    def timed(client: Any, asked: Any) -> tuple[float, Any]:
        began = time.perf_counter()
        future = client.call_async(asked)
        executor.spin_until_future_complete(future, 60.0)
        return time.perf_counter() - began, future.result()

    def request(pose: np.ndarray, n: int, seed: int) -> Any:
        asked = SampleIK.Request(n_samples=n, seed=seed, timeout=5.0, poses=[Pose()])
        p, r = asked.poses[0].position, asked.poses[0].orientation
        p.x, p.y, p.z = pose[:3, 3].tolist()
        r.x, r.y, r.z, r.w = quaternion_from_matrix(pose).tolist()
        return asked

    times: dict[str, list[float]] = {}
    n_solved = 0
    for index, pose in enumerate(poses):
        calls = [
            ("empty service", timed(empty, GetState.Request())[0]),
            ("SampleIK, not solved", timed(unsolved, request(pose, 1, seed))[0]),
        ]
        for n in SIZES:
            elapsed, answer = timed(solved, request(pose, n, seed + index))
            answer = answer.solutions
            calls += [(f"n = {n}", elapsed), (f"n = {n}, in the server", answer.elapsed)]
            n_solved += answer.error_code.val == ErrorCodes.SUCCESS
        if index >= WARM_UP:
            for name, elapsed in calls:
                times.setdefault(name, []).append(elapsed)
    rclpy.shutdown()
    return {name: np.array(values) for name, values in times.items()}, n_solved / (len(SIZES) * len(poses))


def report(times: dict[str, np.ndarray], solved: float, seed: int) -> str:
    """Return the table, with the settings needed to repeat it."""
    reference = np.median(times["empty service"])
    lines = [
        "Round trip of sample_ik, default server (iiwa14_pose), next to an empty service in the same run",
        f"seed {seed}, {len(times['empty service'])} calls of each kind, alternating; requests solved {solved:.2%}",
        f"{processor()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; Python {platform.python_version()}, "
        f"rclpy {version('rclpy')}",
        "",
        f"{'call':<26}{'median [ms]':>12}{'min [ms]':>10}{'p90 [ms]':>10}{'ratio of medians':>18}",
    ]
    for name, values in times.items():
        middle, least, p90 = np.median(values), values.min(), np.quantile(values, 0.9)
        lines.append(
            f"{name:<26}{1e3 * middle:>12.3f}{1e3 * least:>10.3f}{1e3 * p90:>10.3f}{middle / reference:>18.2f}"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--output", type=Path, help="also write the table to this file")
    parser.add_argument("--serve-plain", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve_plain:
        serve_plain()
        return
    isolate()
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "SUBNET"  # the default
    server = [sys.executable, "-m", "eim_ros.nodes", "ik_server"]
    with running(server), running([*ITSELF, "--serve-plain"]):
        table = report(*measure(args.seed, args.rounds), args.seed)
    print(table, end="")
    if args.output:
        args.output.parent.mkdir(parents=True, exist_ok=True)
        args.output.write_text(table, encoding="utf-8")


if __name__ == "__main__":
    main()
