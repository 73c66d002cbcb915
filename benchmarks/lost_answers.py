"""Answers of `sample_ik` that never come: many ordinary clients of one request each, and 1e5 requests of a few.

    python benchmarks/lost_answers.py [--output benchmarks/results/lost_answers.txt]

One real node `ik_server`. First 20 processes at a time, each a new client with rclpy's default quality of service that
asks once and ends as a program does (node destroyed, context shut down), another in its place at once, for five
minutes: of a server as it is by default, which talks by UDP, and of one told to use shared memory. Then 8 processes of
`SampleIKClient`, which uses `SERVICE_QOS`, one request after the other, of the former. A server whose middleware locks
up ends, and is started again as by a launch file with `respawn:=true`: how often that was is in the table. The ordinary
clients are forks of a process that has imported rclpy and done nothing else, so that there are many of them: each makes
a context, a participant and sockets of its own. A client that does not see the service within `READY_WITHIN` is
undiscovered, an answer that has not come after `LOST` is lost; a process that fails, or is stuck in the middleware,
after its answer has come has ended badly.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

import numpy as np
from _machine import isolate, load_average, processor, running

from eim_ros.nodes.common.middleware import TRANSPORTS_VARIABLE
from eim_ros.nodes.common.process import LOCKED_UP

LOST = 60.0  # [s]; an answer takes milliseconds, on a machine with twenty processes that start a second or two
READY_WITHIN = 180.0  # [s]
SHOULDER, RADIUS = np.array([0.0, 0.0, 0.36]), 0.6  # [m] of the iiwa 14: asked for are points of a sphere in its reach
SERVERS: dict[str, dict[str, str]] = {"default": {}, "shared memory": {TRANSPORTS_VARIABLE: "DEFAULT"}}
N_ORDINARY, N_STEADY = 20, 8  # processes at a time
ENDS_WITHIN = 30  # [s]
ANSWERED, IS_LOST, UNDISCOVERED, FAILED, ENDED_BADLY = range(5)  # how a request, or the process of a client, ends


def ask_once(direction: np.ndarray, tell: Callable[[int], None]) -> None:
    """One request of a client as anyone writes it; tells how it went, then ends."""
    import rclpy

    from eim_ros.srv import SampleIK

    rclpy.init()
    node = rclpy.create_node(f"client_{os.getpid()}")
    client = node.create_client(SampleIK, "/ik_server/sample_ik")
    result = UNDISCOVERED
    if client.wait_for_service(READY_WITHIN):
        future = client.call_async(request(direction))
        rclpy.spin_until_future_complete(node, future, timeout_sec=LOST)
        result = ANSWERED if future.done() else IS_LOST
    tell(result)
    signal.alarm(ENDS_WITHIN)  # kills
    node.destroy_node()
    rclpy.shutdown()


def request(direction: np.ndarray) -> object:
    """For a point in a direction."""
    from eim_ros.srv import SampleIK

    asked = SampleIK.Request(n_samples=1, position_only=True, refine=True, timeout=5.0)
    position = asked.pose.pose.position
    position.x, position.y, position.z = SHOULDER + RADIUS * direction / np.linalg.norm(direction)
    return asked


def ordinary(duration: float, seed: int) -> Counter[int]:
    """Clients that ask once, forked from this process, which must not have begun to use rclpy; how many ended how."""
    import rclpy  # noqa: F401  each fork would import them again

    import eim_ros.srv  # noqa: F401

    generator = np.random.default_rng(seed)
    results, told = os.pipe()
    end = time.monotonic() + duration
    n_running = n_asked = n_bad_ends = 0
    while n_running or time.monotonic() < end:
        if n_running < N_ORDINARY and time.monotonic() < end:
            direction = generator.normal(size=3)
            if os.fork() == 0:
                status = 1
                try:
                    ask_once(direction, lambda result: os.write(told, bytes([result])))
                    status = 0
                finally:
                    os._exit(status)
            n_running, n_asked = n_running + 1, n_asked + 1
            continue
        _, status = os.wait()
        if status:
            print(f"a client ended with {os.waitstatus_to_exitcode(status)}", file=sys.stderr, flush=True)
        n_running -= 1
        n_bad_ends += status != 0
    os.close(told)
    with os.fdopen(results, "rb") as pipe:
        ends = Counter(pipe.read())
    return Counter({**ends, FAILED: n_asked - ends.total(), ENDED_BADLY: n_bad_ends})


def steady(n_requests: int, seed: int) -> Counter[int]:
    """Requests of one client with `SERVICE_QOS`, one after the other; how many ended how."""
    from eim_ros.errors import ServiceError
    from eim_ros.nodes import SampleIKClient

    ends: Counter[int] = Counter()
    try:
        client = SampleIKClient(wait=READY_WITHIN)
    except ServiceError:
        return Counter({UNDISCOVERED: n_requests})
    with client:
        for direction in np.random.default_rng(seed).normal(size=(n_requests, 3)):
            try:
                client.sample(request(direction), LOST)
                ends[ANSWERED] += 1
            except ServiceError:
                ends[IS_LOST] += 1
    return ends


def in_processes(words: list[str], seeds: range) -> Counter[int]:
    """What this program counts as a process for each seed, all at once."""
    command = [sys.executable, __file__, *words]
    processes = [subprocess.Popen([*command, "--seed", str(seed)], stdout=subprocess.PIPE, text=True) for seed in seeds]
    ends: Counter[int] = Counter()
    for process in processes:
        said, _ = process.communicate()
        if process.returncode:
            raise SystemExit(f"clients ended with {process.returncode}")
        ends.update({int(code): n for code, n in json.loads(said).items()})
    return ends


@contextlib.contextmanager
def respawned(environment: dict[str, str]) -> Iterator[list[int]]:
    """A server that is started again when it has ended; its exit codes until now."""
    codes: list[int] = []
    done = threading.Event()
    command = ["env", *(f"{name}={value}" for name, value in environment.items())]
    command += [sys.executable, "-m", "eim_ros.nodes", "ik_server"]

    def keep() -> None:
        while not done.is_set():
            with running(command) as server:
                while server.poll() is None and not done.wait(0.5):
                    pass
                codes.extend([] if server.returncode is None else [server.returncode])

    keeper = threading.Thread(target=keep)
    keeper.start()
    try:
        yield codes
    finally:
        done.set()
        keeper.join()


def measured(name: str, words: list[str], seeds: range, kind: str) -> str:
    """A line of the table: of clients in processes, with a server of their own."""
    with respawned(SERVERS[kind]) as codes:
        began = time.monotonic()
        ends = in_processes(words, seeds)
        took = time.monotonic() - began
    if set(codes) - {LOCKED_UP}:
        raise SystemExit(f"servers ended with {codes}")
    sent = ends[ANSWERED] + ends[IS_LOST]
    return (
        f"{name:<48}{kind:<15}{sent:>7}{ends[ANSWERED]:>10}{ends[IS_LOST]:>6}{ends[UNDISCOVERED]:>13}"
        f"{ends[FAILED]:>8}{ends[ENDED_BADLY]:>13}{len(codes):>11}{took:>10.0f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--duration", type=float, default=300.0, help="of the ordinary clients, each transport [s]")
    parser.add_argument("--requests", type=int, default=100_000, help="with SERVICE_QOS")
    parser.add_argument("--output", type=Path, help="also write the table there")
    parser.add_argument("--part", choices=("ordinary", "steady"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.part:
        is_ordinary = args.part == "ordinary"
        ends = ordinary(args.duration, args.seed) if is_ordinary else steady(args.requests, args.seed)
        print(json.dumps(ends))
        return
    isolate()
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "SUBNET"  # as by default; LOCALHOST brings shared memory
    machine = f"{processor()}; Python {platform.python_version()}, rclpy {version('rclpy')}"
    lines = [
        f"answers of sample_ik that never came, seed {args.seed}",
        f"{machine}; load {load_average()}",
        "",
        f"{'clients':<48}{'server':<15}{'sent':>7}{'answered':>10}{'lost':>6}{'undiscovered':>13}{'failed':>8}"
        f"{'ended badly':>13}{'respawned':>11}{'took [s]':>10}",
    ]
    print(*lines, sep="\n", flush=True)
    once = ["--part", "ordinary", "--duration", str(args.duration)]
    many = ["--part", "steady", "--requests", str(-(-args.requests // N_STEADY))]
    steady_seeds = range(args.seed, args.seed + N_STEADY)
    parts = [
        (f"{N_ORDINARY} at a time, default QoS, one request each", once, range(args.seed, args.seed + 1), kind)
        for kind in SERVERS
    ]
    for part in (*parts, (f"{N_STEADY}, SERVICE_QOS", many, steady_seeds, "default")):
        lines.append(measured(*part))
        print(lines[-1], flush=True)
        lines[1] = f"{machine}; load at the end {load_average()}"
        if args.output:
            args.output.parent.mkdir(parents=True, exist_ok=True)
            args.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
