"""Model changes of `ik_server` under load: lost answers, and latencies during a change and otherwise.

    python -m benchmarks.model_swap [--output benchmarks/results/model_swap.txt]

There are two processes: the real node with the shipped model, and this client. The client sends 100 requests per second
(10 refined positions of the iiwa each). From time to time, it loads another model: the shipped mixture with its experts
in reverse order. Latencies are measured from the time at which a request was due, so they include delays of the client.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import numpy as np

from benchmarks._machine import isolate, processor, running

RATE = 100.0  # [1/s]
PAUSE = 2.0  # time between two changes [s]
N_CONFIGURATIONS = 10
SERVER_READY_WITHIN = 180.0  # time limit for the start [s]
LONGEST_WAIT = 30.0  # time limit for the last answers [s]


def save_reversed(path: Path) -> None:
    """Save the shipped model with its experts in reverse order: equally good, but with other answers to a seed."""
    from eim_ros.ik import IKModel
    from eim_ros.ik.prior import DEFAULT_MODEL
    from eim_ros.learning.models import LinearExperts, MixtureOfExperts, SoftmaxGating

    model = IKModel.load(DEFAULT_MODEL)
    gating, experts = model.mixture.gating, model.mixture.experts
    assert isinstance(gating, SoftmaxGating) and isinstance(experts, LinearExperts)
    turned = MixtureOfExperts(
        SoftmaxGating(gating.weights.flip(0), gating.biases.flip(0)),
        LinearExperts(experts.weights.flip(0), experts.biases.flip(0), experts.scale_trils.flip(0)),
    )
    IKModel(turned, model.robot, model.context_kind, model.training).save(path)


def measure(n_swaps: int, seed: int, folder: Path) -> str:
    """Send requests and change models; return the report."""
    import rclpy
    from geometry_msgs.msg import Pose

    from eim_ros.ik.prior import DEFAULT_MODEL
    from eim_ros.kinematics import Robot
    from eim_ros.nodes import SERVICE_QOS, wait_until_active
    from eim_ros.nodes.common.interfaces import LoadModel, SampleIK

    other = folder / "reversed.safetensors"
    save_reversed(other)
    paths = [str(other), DEFAULT_MODEL]
    robot = Robot("iiwa14")
    n = round(RATE * PAUSE * (n_swaps + 1))
    targets = robot.fk(robot.random(n, np.random.default_rng(seed)))[:, :3, 3]
    rclpy.init()
    node = rclpy.create_node("swap_client")
    executor = rclpy.executors.SingleThreadedExecutor()
    executor.add_node(node)
    sample = node.create_client(SampleIK, "/ik_server/sample_ik", qos_profile=SERVICE_QOS)
    load = node.create_client(LoadModel, "/ik_server/load_model")
    for client in (sample, load):
        if not client.wait_for_service(SERVER_READY_WITHIN):
            raise SystemExit(f"{client.srv_name} did not appear")
    wait_until_active(node, "/ik_server", SERVER_READY_WITHIN, executor=executor)
    due, answered, codes, swaps = np.full(n, np.nan), np.full(n, np.nan), Counter(), []

    def ask(index: int) -> None:
        request = SampleIK.Request(n_samples=N_CONFIGURATIONS, seed=seed + index, timeout=5.0, poses=[Pose()])
        request.header.frame_id = robot.base_link
        request.constraints.position_only = True
        point = request.poses[0].position
        point.x, point.y, point.z = map(float, targets[index])

        def take(future: rclpy.task.Future) -> None:
            answered[index] = time.perf_counter()
            codes[future.result().solutions.error_code.val] += 1

        sample.call_async(request).add_done_callback(take)

    def swap() -> None:
        began = time.perf_counter()
        record = [began, np.nan, False]
        swaps.append(record)

        def take(future: rclpy.task.Future) -> None:
            record[1:] = [time.perf_counter(), future.result().success]

        request = LoadModel.Request(path=paths[len(swaps) % 2 - 1])
        load.call_async(request).add_done_callback(take)

    began, sent = time.perf_counter() + 0.1, 0
    while sent < n:
        executor.spin_once(max(0.0, began + sent / RATE - time.perf_counter()))
        while sent < n and time.perf_counter() >= began + sent / RATE:
            due[sent] = began + sent / RATE
            ask(sent)
            sent += 1
        if len(swaps) < n_swaps and time.perf_counter() >= began + PAUSE * (len(swaps) + 1):
            swap()
    end = time.perf_counter() + LONGEST_WAIT
    while np.isnan(answered).any() and time.perf_counter() < end:
        executor.spin_once(0.1)
    rclpy.shutdown()
    return report(due, answered, codes, np.array(swaps, dtype=np.float64), seed)


def report(due: np.ndarray, answered: np.ndarray, codes: Counter[int], swaps: np.ndarray, seed: int) -> str:
    """Return the table, with the settings needed to repeat it."""
    from eim_ros.ik import ErrorCode

    latency = answered - due
    during = np.zeros(len(due), dtype=bool)
    for began, ended, _ in swaps:
        during |= (due >= began) & (due <= ended)
    by_code = ", ".join(f"{ErrorCode(code).name} {number}" for code, number in sorted(codes.items()))
    lines = [
        f"Exchange of the model of ik_server at {RATE:.0f} requests per second, {N_CONFIGURATIONS} refined positions "
        "each",
        f"seed {seed}, {len(due)} requests, {len(swaps)} exchanges, of which {int(swaps[:, 2].sum())} successful, each "
        f"in {np.median(swaps[:, 1] - swaps[:, 0]):.3f} s (median)",
        f"{processor()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; Python {platform.python_version()}, "
        f"rclpy {version('rclpy')}",
        "",
        f"answers lost {int(np.isnan(answered).sum())} of {len(due)}; answers by code: {by_code}",
        "",
        f"{'latency':<24}{'requests':>9}{'median [ms]':>13}{'p90 [ms]':>10}{'longest [ms]':>14}",
    ]
    for name, rows in (("during an exchange", during), ("otherwise", ~during)):
        values = 1e3 * latency[rows & ~np.isnan(latency)]
        figures = (np.median(values), np.quantile(values, 0.9), values.max())
        lines.append(f"{name:<24}{len(values):>9}{figures[0]:>13.2f}{figures[1]:>10.2f}{figures[2]:>14.2f}")
    ratio = np.nanmedian(latency[during]) / np.nanmedian(latency[~during])
    lines.append(f"ratio of the medians {ratio:.2f}")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--swaps", type=int, default=10)
    parser.add_argument("--output", type=Path, help="also write the table there")
    args = parser.parse_args()
    isolate()
    command = [sys.executable, "-m", "eim_ros.nodes", "ik_server"]
    with tempfile.TemporaryDirectory() as folder, running([*command, "--data_directory", folder]):
        table = measure(args.swaps, args.seed, Path(folder))
    print(table, end="")
    if args.output:
        args.output.parent.mkdir(parents=True, exist_ok=True)
        args.output.write_text(table, encoding="utf-8")


if __name__ == "__main__":
    main()
