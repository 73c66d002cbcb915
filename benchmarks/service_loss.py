"""Answers of `sample_ik` that never come: many ordinary clients of one request each, and 1e5 requests of a few.

    python benchmarks/service_loss.py [--output benchmarks/results/service_loss.txt]

One real node `ik_server`. First 20 processes at a time, each a new client with rclpy's default quality of service that
asks once and ends, another in its place at once, for five minutes; then 8 processes with `SERVICE_QOS`, which ask one
request after the other. An answer that has not come after `LOST` is lost.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
from _machine import isolate, load_average, processor, running

LOST = 60.0  # [s]; an answer takes milliseconds, on a machine with twenty processes that start a few seconds
READY_WITHIN = 180.0  # [s]
SHOULDER, RADIUS = (
    np.array([0.0, 0.0, 0.36]),
    0.6,
)  # [m] of the iiwa 14: asked for are points on a sphere that it reaches
N_ORDINARY, N_STEADY = 20, 8  # processes at a time


def ask(n_requests: int, seed: int, is_ordinary: bool) -> None:
    """Requests one after the other; prints how many were answered, and the longest time one took [s]."""
    import rclpy

    from eim_ros.nodes import SERVICE_QOS
    from eim_ros.srv import SampleIK

    generator = np.random.default_rng(seed)
    rclpy.init()
    node = rclpy.create_node(f"client_{os.getpid()}")
    given = {} if is_ordinary else {"qos_profile": SERVICE_QOS}
    client = node.create_client(SampleIK, "/ik_server/sample_ik", **given)
    executor = rclpy.executors.SingleThreadedExecutor()
    executor.add_node(node)
    if not client.wait_for_service(READY_WITHIN):
        raise SystemExit("the service did not appear")
    n_answered, longest = 0, 0.0
    for direction in generator.normal(size=(n_requests, 3)):
        request = SampleIK.Request(n_samples=1, position_only=True, refine=True, timeout=5.0)
        position = request.pose.pose.position
        position.x, position.y, position.z = SHOULDER + RADIUS * direction / np.linalg.norm(direction)
        began = time.perf_counter()
        future = client.call_async(request)
        executor.spin_until_future_complete(future, LOST)
        n_answered += future.done()
        longest = max(longest, time.perf_counter() - began)
    print(json.dumps([n_answered, longest]), flush=True)
    os._exit(0)  # what Python and rclpy do at their end takes longer than the request


def start(n_requests: int, seed: int, is_ordinary: bool) -> subprocess.Popen[str]:
    words = [sys.executable, __file__, "--ask", str(n_requests), "--seed", str(seed)]
    return subprocess.Popen([*words, *["--ordinary"] * is_ordinary], stdout=subprocess.PIPE, text=True)


def outcome(process: subprocess.Popen[str]) -> tuple[int, float]:
    """What a client printed, once it has ended."""
    said, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"a client ended with {process.returncode}")
    n_answered, longest = json.loads(said)
    return int(n_answered), float(longest)


def ordinary(duration: float, seed: int) -> tuple[int, int, float]:
    """Requests, answers, and the longest time of one [s]."""
    end = time.monotonic() + duration
    clients = [start(1, seed + index, True) for index in range(N_ORDINARY)]
    n_asked, outcomes = len(clients), []
    while clients:
        for client in [client for client in clients if client.poll() is not None]:
            clients.remove(client)
            outcomes.append(outcome(client))
            if time.monotonic() < end:
                clients.append(start(1, seed + n_asked, True))
                n_asked += 1
        time.sleep(0.01)
    return n_asked, sum(n for n, _ in outcomes), max(longest for _, longest in outcomes)


def steady(n_requests: int, seed: int) -> tuple[int, int, float]:
    """Requests, answers, and the longest time of one [s]."""
    each = -(-n_requests // N_STEADY)
    outcomes = [outcome(client) for client in [start(each, seed + index, False) for index in range(N_STEADY)]]
    return each * N_STEADY, sum(n for n, _ in outcomes), max(longest for _, longest in outcomes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--duration", type=float, default=300.0, help="of the ordinary clients [s]")
    parser.add_argument("--requests", type=int, default=100_000, help="with SERVICE_QOS")
    parser.add_argument("--output", type=Path, help="also write the table there")
    parser.add_argument("--ask", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--ordinary", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.ask:
        ask(args.ask, args.seed, args.ordinary)
    isolate()
    lines = [
        f"answers of sample_ik that never came, seed {args.seed}",
        f"{processor()}, load {load_average()}; Python {platform.python_version()}, rclpy {version('rclpy')}",
        "",
        f"{'clients':<48}{'requests':>10}{'lost':>6}{'longest [s]':>13}{'duration [s]':>14}",
    ]
    with running([sys.executable, "-m", "eim_ros.nodes", "ik_server"]):
        for name, measure in (
            (f"{N_ORDINARY} at a time, default QoS, one request each", lambda: ordinary(args.duration, args.seed)),
            (f"{N_STEADY}, SERVICE_QOS", lambda: steady(args.requests, args.seed)),
        ):
            began = time.monotonic()
            n_asked, n_answered, longest = measure()
            took = time.monotonic() - began
            lines.append(f"{name:<48}{n_asked:>10}{n_asked - n_answered:>6}{longest:>13.2f}{took:>14.0f}")
            print(lines[-1], flush=True)
    text = "\n".join(lines) + "\n"
    print(text, end="")
    if args.output:
        args.output.parent.mkdir(parents=True, exist_ok=True)
        args.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
