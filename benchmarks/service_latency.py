"""Round trip of `sample_ik` for n = 1, 100, 1000 refined positions, beside an empty service in the same run.

    python benchmarks/service_latency.py [--output benchmarks/results/service_latency.txt]

Four processes: the real node `ik_server` with the shipped model, another one told to use shared memory, a server of an
empty service (lifecycle_msgs/GetState answered without work), and this client; these two are as rclpy makes them. Calls
alternate between the services, so that all see the same machine; poses are forward kinematics of random configurations.
Reported are medians, minima and the ratio of the medians.
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

import numpy as np
from _machine import isolate, processor, running

from eim_ros.nodes.common.middleware import TRANSPORTS_VARIABLE

ROUNDS = 300
WARM_UP = 30
SIZES = (1, 100, 1000)
SERVERS = {"": "ik_server", ", shared memory": "ik_server_of_shared_memory"}
SERVERS_READY_WITHIN = 180.0  # [s]: the first start compiles the kernels


def serve_empty() -> None:
    """The empty service, in a process of its own."""
    import rclpy
    from lifecycle_msgs.srv import GetState

    rclpy.init()
    node = rclpy.create_node("empty_server")
    node.create_service(GetState, "~/empty", lambda request, response: response)
    with contextlib.suppress(KeyboardInterrupt, rclpy.executors.ExternalShutdownException):
        rclpy.spin(node)


def measure(seed: int, rounds: int) -> tuple[dict[str, np.ndarray], tuple[float, float]]:
    """Round trips (rounds,) [s] of each kind of call; shares of requests solved and of wanted configurations valid."""
    import rclpy
    from lifecycle_msgs.srv import GetState

    from eim_ros.kinematics import Robot
    from eim_ros.nodes.common.activation import wait_until_active
    from eim_ros.nodes.common.interfaces import SampleIK
    from eim_ros.nodes.common.qos import SERVICE_QOS

    robot = Robot.load("iiwa14")
    poses = robot.forward(robot.sample_configurations(rounds + WARM_UP, np.random.default_rng(seed)))
    rclpy.init()
    node = rclpy.create_node("latency_client")
    executor = rclpy.executors.SingleThreadedExecutor()
    executor.add_node(node)
    empty = node.create_client(GetState, "/empty_server/empty")
    samples = {
        kind: node.create_client(SampleIK, f"/{name}/sample_ik", qos_profile=SERVICE_QOS)
        for kind, name in SERVERS.items()
    }
    for client in (empty, *samples.values()):
        if not client.wait_for_service(SERVERS_READY_WITHIN):
            raise SystemExit(f"{client.srv_name} did not appear")
    for name in SERVERS.values():
        wait_until_active(node, f"/{name}", SERVERS_READY_WITHIN, executor=executor)

    def timed(client: rclpy.client.Client, request: object) -> tuple[float, object]:
        began = time.perf_counter()
        future = client.call_async(request)
        executor.spin_until_future_complete(future, 60.0)
        return time.perf_counter() - began, future.result()

    sizes = [(n, kind) for n in SIZES for kind in SERVERS]
    times: dict[str, list[float]] = {"empty": [], **{f"n = {n}{kind}": [] for n, kind in sizes}, "server n = 100": []}
    n_solved = n_valid = 0
    for index, pose in enumerate(poses):
        calls: list[tuple[str, float]] = [("empty", timed(empty, GetState.Request())[0])]
        for n, kind in sizes:
            request = _request(SampleIK, robot.base_link, pose, n, seed + index)
            elapsed, answer = timed(samples[kind], request)
            calls.append((f"n = {n}{kind}", elapsed))
            n_solved += answer.error_code == SampleIK.Response.SUCCESS
            n_valid += sum(answer.valid)
            if n == 100 and not kind:
                calls.append(("server n = 100", answer.elapsed))
        if index >= WARM_UP:
            for name, elapsed in calls:
                times[name].append(elapsed)
    rclpy.shutdown()
    shares = (n_solved / (len(sizes) * len(poses)), n_valid / (sum(n for n, _ in sizes) * len(poses)))
    return {name: np.array(values) for name, values in times.items()}, shares


def _request(service: type, frame: str, pose: np.ndarray, n: int, seed: int) -> object:
    request = service.Request(n_samples=n, random_seed=seed, position_only=True, refine=True, timeout=5.0)
    request.pose.header.frame_id = frame
    position = request.pose.pose.position
    position.x, position.y, position.z = map(float, pose[:3, 3])
    return request


def report(times: dict[str, np.ndarray], shares: tuple[float, float], seed: int) -> str:
    """The table, with what is needed to repeat it."""
    reference = np.median(times["empty"])
    lines = [
        "Round trip of sample_ik (position only, refined to 1e-6 m) beside an empty service, in the same run",
        f"seed {seed}, {len(times['empty'])} calls of each kind, alternating",
        f"requests solved {shares[0]:.2%}, valid configurations of those asked for {shares[1]:.2%}",
        f"{processor()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; Python {platform.python_version()}, "
        f"rclpy {version('rclpy')}, torch {version('torch')}",
        "",
        f"{'call':<26}{'median [ms]':>12}{'min [ms]':>10}{'p90 [ms]':>10}{'ratio of medians':>18}",
    ]
    for name, values in times.items():
        label = "inside the server, 100" if name.startswith("server") else name
        middle, least, p90 = np.median(values), values.min(), np.quantile(values, 0.9)
        lines.append(
            f"{label:<26}{1e3 * middle:>12.3f}{1e3 * least:>10.3f}{1e3 * p90:>10.3f}{middle / reference:>18.2f}"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--output", type=Path, help="also write the table there")
    parser.add_argument("--serve-empty", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve_empty:
        serve_empty()
        return
    isolate()
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "SUBNET"  # as by default; LOCALHOST brings shared memory
    server = [sys.executable, "-m", "eim_ros.nodes", "ik_server"]
    sharing = [
        "env",
        f"{TRANSPORTS_VARIABLE}=DEFAULT",
        *server,
        "--ros-args",
        "-r",
        f"__node:={SERVERS[', shared memory']}",
    ]
    with running(server), running(sharing), running([sys.executable, __file__, "--serve-empty"]):
        table = report(*measure(args.seed, args.rounds), args.seed)
    print(table, end="")
    if args.output:
        args.output.parent.mkdir(parents=True, exist_ok=True)
        args.output.write_text(table, encoding="utf-8")


if __name__ == "__main__":
    main()
