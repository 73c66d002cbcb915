"""`eim demo`: the whole circle. Collect, train three models, serve the best, request, draw.

Trains EM, EIM from samples alone, and EIM with kinematic inputs on the same forward kinematics samples; starts the
ROS 2 node with the last one; asks it for configurations that reach a pose; draws them.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from eim_ros.cli.choices import CHOICES, chosen
from eim_ros.cli.options import add_threads_flag, use_threads
from eim_ros.cli.processes import ServerProcess, Waiting, ended_by_sigterm
from eim_ros.cli.progress import ProgressBar
from eim_ros.cli.request_options import count, random_seed
from eim_ros.core.data_set import DataSet, save_data_set
from eim_ros.core.errors import ServiceError
from eim_ros.core.files import check_outputs, to_json
from eim_ros.ik import IKModel, Samples, collect, evaluate
from eim_ros.ik.order import distinct_rows
from eim_ros.kinematics import Robot, context_from_pose, robot_path
from eim_ros.learning import RunOptions
from eim_ros.learning.run import Status

FloatArray = npt.NDArray[np.float64]

LEARNERS = {  # name in the table: algorithm, with kinematic inputs
    "EM": ("em", False),
    "EIM": ("eim", False),
    "EIM + kinematics": ("eim", True),
}
REDUCED = {"EIM": {"ratio.reference.factors": (2.0,), "ratio.reference.starts": 1}}  # to save time
COLUMNS = {
    "rmse_position": "RMSE [m]",
    "median_position": "median [m]",
    "share_in_limits": "in limits",
    "entropy_marginal": "H(z)",
    "entropy_conditional": "H(z|y)",
    "mean_log_prob": "log p [nat]",
}
N_REQUESTS = 21  # of which the median latency is shown


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the verb."""
    parser = subparsers.add_parser(
        "demo", help="the whole circle: collect, train, serve, request, draw", description=__doc__
    )
    add = parser.add_argument
    add("--robot", default="iiwa14", metavar="NAME", help="shipped robot (default %(default)s)")
    add("--samples", type=count, default=10000, metavar="N", help="training pairs (default %(default)s)")
    add("--experts", type=int, default=50, metavar="N", help="experts of each model (default %(default)s)")
    add("-n", type=count, default=100, metavar="N", help="configurations to request (default %(default)s)")
    add("--random-seed", "--seed", type=random_seed, default=0, help="random seed (default %(default)s)")
    add("--output", default="demo", metavar="FOLDER", help="where everything is written (default %(default)s)")
    add("--json", action="store_true", help="print one JSON object at the end")
    add_threads_flag(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the verb; returns the exit code."""
    use_threads(args)
    folder = Path(args.output)
    check_outputs({"--output": folder / "train.npz"}, {"--robot": robot_path(args.robot)})
    robot = Robot(args.robot)
    print(
        f"1. {args.samples} forward kinematics samples of {robot.name}, {robot.dof} joints, by seed {args.random_seed}"
    )
    data_set = collect(robot, args.samples, "position", args.random_seed)
    test = collect(robot, 5000, "position", args.random_seed + 1_000_000)
    save_data_set(folder / "train.npz", data_set)
    save_data_set(folder / "test.npz", test)

    print(f"2. Three mixtures of {args.experts} linear experts; errors are of raw samples, before any refinement")
    table, path = _train(args, robot, data_set, test, folder)
    _print_training(table)

    pose = _demo_pose(robot, args.random_seed)
    print("3. The node ik_server with the last model, and requests to its service")
    answer, latency, all_ = _ask(path, robot, pose, args.n, args.random_seed)
    summary = _summary(robot, answer, latency)
    _print_summary(summary, pose)

    from eim_ros.view import draw_solutions  # here: matplotlib takes a second to import

    picture = folder / "ik_samples.png"
    if all_:
        draw_solutions(robot, all_.positions, pose, picture)
    where = picture if all_ else "no picture"
    print(f"4. All solutions of a pose there, which take no model: {all_.message}: {where}")
    if args.json:
        print(to_json({"training": table, "request": summary, "picture": str(picture) if all_ else None}))
    return 0 if summary["valid"] == args.n else 1


def _train(
    args: argparse.Namespace, robot: Robot, data_set: DataSet, test: DataSet, folder: Path
) -> tuple[dict[str, dict[str, float]], Path]:
    """Figures of each learner on the test data, and the file of the last model."""
    table: dict[str, dict[str, float]] = {}
    path = folder / "model.safetensors"
    for label, (algorithm, kinematics) in LEARNERS.items():
        reduced: dict[str, Any] = REDUCED.get(label, {})
        choice = CHOICES[chosen("ik", algorithm, kinematics)].replaced({"n_components": args.experts, **reduced})
        path = folder / f"{algorithm}{'_kinematics' if kinematics else ''}.safetensors"
        started = time.perf_counter()
        with ProgressBar(choice.learner.n_iterations, f"   {label:<16}") as progress:
            outcome = choice.training(args.random_seed).run(data_set, robot, run=RunOptions([progress]))
        if outcome.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        outcome.model.save(path)
        figures = evaluate(IKModel.load(path), test, args.random_seed)
        table[label] = {**figures, "seconds": time.perf_counter() - started}
    return table, path


def _ask(path: Path, robot: Robot, pose: FloatArray, n: int, seed: int) -> tuple[dict[str, Any], list[float], Samples]:
    """The running service's answer for a position, round-trip times [s] of it, and all solutions of the pose."""
    from eim_ros.nodes import SampleIKClient, samples_of
    from eim_ros.nodes.common.interfaces import SampleIK  # here: `eim --help` must not need ROS
    from eim_ros.nodes.common.messages import pose_message

    domain_id = random.Random(os.getpid()).randint(1, 50)
    os.environ["ROS_DOMAIN_ID"] = str(domain_id)
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    request = SampleIK.Request()
    request.pose.header.frame_id = robot.base_link
    request.pose.pose = pose_message(pose)
    request.n_samples, request.random_seed = n, seed
    request.position_only, request.refine, request.distinct = True, True, True
    with ended_by_sigterm(), ServerProcess({"model": str(path.resolve())}, domain_id, path.parent) as server:
        try:
            with Waiting("ik_server", [server]) as waiting:
                client = SampleIKClient(wait=math.inf, watch=waiting)
            with client:
                latency = []
                for _ in range(N_REQUESTS):
                    started = time.perf_counter()
                    answer = client.sample(request)
                    latency.append(time.perf_counter() - started)
                request.refine = False
                raw = client.sample(request)
                request.refine, request.position_only, request.explore = True, False, 1.0
                all_ = samples_of(client.sample(request))
        except ServiceError:
            server.check()
            raise
    return {**samples_of(answer).to_dict(), "raw_position_error": list(raw.position_error)}, latency, all_


def _summary(robot: Robot, answer: dict[str, Any], latency: list[float]) -> dict[str, Any]:
    positions = np.array(answer["positions"]).reshape(-1, robot.dof)
    raw = np.array(answer["raw_position_error"])
    return {
        "valid": int(sum(answer["valid"])),
        "requested": len(raw),
        "distinct": len(distinct_rows(robot, positions, 0.01)),
        "experts": len(set(answer["expert"])),
        "raw_median_position_error": float(np.median(raw)),
        "refined_max_position_error": max(answer["position_error"], default=math.nan),
        "median_round_trip": float(np.median(latency)),
        "message": answer["message"],
    }


def _print_training(table: dict[str, dict[str, float]]) -> None:
    print("   " + " " * 16 + "".join(f"{title:>12}" for title in COLUMNS.values()) + f"{'time [s]':>12}")
    for label, figures in table.items():
        values = "".join(f"{figures[name]:12.3f}" for name in COLUMNS)
        print(f"   {label:<16}{values}{figures['seconds']:12.0f}")
    print("   log p: of held-out configurations. EIM: with a smaller reference density than its default, to save time")


def _print_summary(summary: dict[str, Any], pose: FloatArray) -> None:
    where = ", ".join(f"{value:.3f}" for value in pose[:3, 3])
    rows = {
        f"valid configurations for ({where}) m": f"{summary['valid']} of {summary['requested']}",
        "distinct (some joint differs by 0.01 rad)": summary["distinct"],
        "experts that proposed them": summary["experts"],
        "median error of raw samples": f"{summary['raw_median_position_error']:.3g} m",
        "largest error after refinement": f"{summary['refined_max_position_error']:.3g} m",
        "median round trip of the service": f"{1e3 * summary['median_round_trip']:.2f} ms",
    }
    for title, value in rows.items():
        print(f"   {title:<44} {value}")


def _demo_pose(robot: Robot, seed: int) -> FloatArray:
    """A reachable pose in front of the robot, well inside its workspace."""
    candidates = robot.random(2000, np.random.default_rng(seed))
    poses = robot.fk(candidates)
    distance = np.linalg.norm(context_from_pose(poses, "position"), axis=1)
    height = poses[:, 2, 3]
    wanted = np.abs(distance - 0.55 * robot.reach) + np.abs(height - 0.35 * robot.reach)
    return np.asarray(poses[np.argmin(wanted)])
