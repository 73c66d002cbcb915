"""Action of `trainer`: time to cancel a goal in each phase, and longest time without feedback.

    python -m benchmarks.training_action [--output benchmarks/results/training_action.txt]

There are two processes: the real node and this client. A cancellation is timed from the request to the result. The data
are random smooth motions, because the quality of the models does not matter here.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np

from benchmarks._machine import isolate, running

SERVER_READY_WITHIN = 60.0  # time limit for the start [s]
LONGEST_WAIT = 120.0  # time limit for an answer [s]
WATCHED = 10.0  # duration of observed feedback in each phase [s]
N_POINTS, N_JOINTS = 50, 7
PHASES = {
    "reading": ("em", ("n-starts=1000", "iterations=1000000", "tolerance=0")),
    "preparing": ("eim", ("ratio.reference.starts=1000000",)),
    "fitting": ("eim", ("iterations=1000000", "ratio.reference.factors=1", "ratio.reference.starts=1")),
    "fitting by EM": ("em", ("n-starts=1000", "iterations=1000000", "tolerance=0")),
}


def save_motions(path: Path, seed: int) -> None:
    """Save 2000 random motions of seven joints."""
    from eim_ros.core.data_set import DataSet, save_data_set

    rng, n = np.random.default_rng(seed), 2000
    phase = np.linspace(0.0, 1.0, N_POINTS)
    waves = np.stack([np.sin((k + 1) * np.pi * phase) / (k + 1) for k in range(5)])
    positions = np.einsum("njk,kp->npj", rng.standard_normal((n, N_JOINTS, 5)), waves)
    description = {
        "task": "motion",
        "joint_names": [f"joint_{number}" for number in range(1, N_JOINTS + 1)],
        "n_points": N_POINTS,
        "context_names": [],
    }
    save_data_set(path, DataSet(np.zeros((n, 0)), positions.reshape(n, -1), description))


def measure(rounds: int, folder: Path) -> str:
    """Train, watch and cancel in each phase; return the report."""
    import rclpy
    from rclpy.action import ActionClient

    from eim_ros.nodes.common.interfaces import Train

    data, output = folder / "motions.npz", folder / "model.safetensors"
    save_motions(data, 0)
    rclpy.init()
    node = rclpy.create_node("training_client")
    executor = rclpy.executors.SingleThreadedExecutor()
    executor.add_node(node)
    client = ActionClient(node, Train, "/trainer/train")
    if not client.wait_for_server(SERVER_READY_WITHIN):
        raise SystemExit("the action did not appear")
    told: list[tuple[float, str]] = []

    def finished(future: rclpy.task.Future) -> object:
        executor.spin_until_future_complete(future, LONGEST_WAIT)
        if not future.done():
            raise SystemExit("no answer")
        return future.result()

    lines = []
    for name, (algorithm, settings) in PHASES.items():
        phase, watched = name.partition(" ")[0], 0.0 if name == "reading" else WATCHED
        cancels, gaps, seconds = [], [], 0
        for _ in range(rounds):
            told.clear()
            goal = Train.Goal(task="motion", data=str(data), algorithm=algorithm, output=str(output), overwrite=True)
            goal.settings = ["experts=20", *settings]
            sent = client.send_goal_async(
                goal, feedback_callback=lambda m: told.append((time.perf_counter(), m.feedback.phase))
            )
            handle = finished(sent)
            if not handle.accepted:
                raise SystemExit(f"{name}: the goal was rejected")
            ended, accepted = handle.get_result_async(), time.perf_counter()
            end = accepted + LONGEST_WAIT
            while not any(each == phase for _, each in told) and not ended.done() and time.perf_counter() < end:
                executor.spin_once(0.05)
            reached = time.perf_counter()
            while time.perf_counter() < reached + watched and not ended.done():
                executor.spin_once(0.05)
            began = time.perf_counter()
            finished(handle.cancel_goal_async())
            result = finished(ended).result
            cancels.append(time.perf_counter() - began)
            times = np.array([accepted, *(when for when, _ in told), began])
            gaps.append(np.diff(times[times <= began]).max())
            seconds += began - accepted
            if not result.message.startswith("canceled") or output.exists():
                raise SystemExit(f"{name}: {result.message}")
        lines.append(f"{name:<16}{rounds:>8}{max(cancels):>20.3f}{max(gaps):>22.3f}{seconds:>14.1f}")
    rclpy.shutdown()
    head = [
        "Action of trainer: 2000 motions of 7 joints, 20 experts; no canceled training left a model",
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; Python {platform.python_version()}, "
        f"rclpy {version('rclpy')}",
        "",
        f"{'canceled while':<16}{'goals':>8}{'longest cancel [s]':>20}{'longest silence [s]':>22}{'watched [s]':>14}",
    ]
    return "\n".join([*head, *lines]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, help="also write the table there")
    args = parser.parse_args()
    isolate()
    command = [sys.executable, "-m", "eim_ros.nodes", "trainer"]
    with tempfile.TemporaryDirectory() as folder, running([*command, "--data_directory", folder]):
        table = measure(args.rounds, Path(folder))
    print(table, end="")
    if args.output:
        args.output.parent.mkdir(parents=True, exist_ok=True)
        args.output.write_text(table, encoding="utf-8")


if __name__ == "__main__":
    main()
