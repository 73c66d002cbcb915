"""`eim demo-planar`: the planar robot's whole circle. Demonstrate, record, import, train, sample, execute, score, draw.

The nodes planar_simulator, demonstrator and demo_recorder run as processes; the robot shows motions of the expert,
which are recorded and imported; a motion prior is trained on them, and scores them. Mixtures over configurations that
reach the line are trained by EM and by EIM on draws of the same expert, and the simulator executes samples of both.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from tqdm import tqdm

from eim_ros.bags.motion_import import MotionForm, import_motions
from eim_ros.bags.selection import Selection
from eim_ros.cli.options import add_threads_flag, use_threads
from eim_ros.cli.processes import ServerProcess, Waiting, ended_by_sigterm
from eim_ros.cli.request_options import count, random_seed
from eim_ros.core.data_set import DataSet, save_data_set
from eim_ros.core.errors import ServiceError
from eim_ros.core.files import check_outputs, to_json
from eim_ros.kinematics import Robot
from eim_ros.learning import EMConfig
from eim_ros.learning.run import Status
from eim_ros.motion import MotionPrior, MotionTraining
from eim_ros.planar import folded
from eim_ros.planar.line_reaching import LineReachingConfig, LineReachingResult, fit_line_reaching
from eim_ros.planar.motions import Motion, reaching_motion

FloatArray = npt.NDArray[np.float64]

SPEED = 5.0  # simulated seconds per second
RATE = 50  # [Hz] of simulated time
LABEL = "demonstration"
LEARNERS = ("EM", "EIM + tip")
ITERATIONS = 60  # of EIM


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the verb."""
    parser = subparsers.add_parser(
        "demo-planar", help="a planar robot: demonstrate, record, train, sample, execute", description=__doc__
    )
    add = parser.add_argument
    add("--motions", type=count, default=30, metavar="N", help="motions to demonstrate (default %(default)s)")
    add("--samples", type=count, default=4000, metavar="N", help="draws of the expert (default %(default)s)")
    add("--components", type=count, default=5, metavar="N", help="components of each mixture (default %(default)s)")
    add("--executed", type=count, default=20, metavar="N", help="samples of each to execute (default %(default)s)")
    add("--random-seed", "--seed", type=random_seed, default=0, help="random seed (default %(default)s)")
    add("--output", default="demo-planar", metavar="FOLDER", help="where everything is written (default %(default)s)")
    add("--json", action="store_true", help="print one JSON object at the end")
    add_threads_flag(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the verb; returns the exit code."""
    folder = Path(args.output)
    check_outputs({"--output": folder / "motions.npz"})
    from eim_ros.nodes.demonstrator.client import PlanarClient  # here: `eim --help` must not need ROS

    use_threads(args)
    domain_id = random.Random(os.getpid()).randint(1, 50)
    os.environ["ROS_DOMAIN_ID"] = str(domain_id)
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    with ended_by_sigterm(), contextlib.ExitStack() as stack:
        nodes = _nodes(args, domain_id, folder)
        for node in nodes:
            stack.enter_context(node)
        try:
            client = stack.enter_context(PlanarClient())
            with Waiting("planar_simulator, demo_recorder and demonstrator", nodes) as waiting:
                client.wait_for_nodes(waiting)
            print(f"1. {args.motions} motions of the expert, simulated at {SPEED:g} times real time and recorded")
            bag = folder / "demonstrations"
            _demonstrate(client, bag, args.motions)

            print("2. The bag becomes a data set")
            motions = _import(bag, folder / "motions.npz")
            print(f"   {len(motions)} motions of {motions.description['n_points']} points")

            print(f"3. Two mixtures of {args.components} Gaussians over configurations, and a motion prior")
            config = LineReachingConfig(
                n_components=(args.components,), n_samples=args.samples, n_iterations=ITERATIONS, learners=LEARNERS
            )
            result = fit_line_reaching(config, args.random_seed)
            prior = _prior(motions, folder / "prior.safetensors", args.random_seed)

            print(f"4. {args.executed} samples of each, executed by the simulator")
            table, samples = _execute(client, result, args)
        except ServiceError:
            for node in nodes:
                node.check()
            raise
    _print(table)
    print(f"5. Score of the motions: {_scores(prior, motions, args.random_seed)}")

    from eim_ros.view.planar import draw_planar_demo  # here: matplotlib takes a second to import

    picture = folder / "planar.png"
    draw_planar_demo(result, samples, table, picture)
    print(f"6. Samples of EM and EIM: {picture}")
    if args.json:
        print(to_json({"executed": table, "n_motions": len(motions), "picture": str(picture)}))
    return 0


def _nodes(args: argparse.Namespace, domain_id: int, folder: Path) -> list[ServerProcess]:
    robot = {"obstacles": "[0.0, 0.0, 0.0]"}
    clock = {"publish_clock": "true", "speed": str(SPEED), "rate": str(RATE), "marker_rate": "1.0"}
    shown = {"n_motions": str(args.motions), "random_seed": str(args.random_seed)}
    expert = {"show_at_start": "false", "recorder": "demo_recorder", **shown}
    return [
        ServerProcess({**robot, **clock}, domain_id, folder, "planar_simulator"),
        ServerProcess(
            {"use_sim_time": "true", "data_directory": str(folder.resolve())}, domain_id, folder, "demo_recorder"
        ),
        ServerProcess({**robot, **expert, "label": LABEL, "use_sim_time": "true"}, domain_id, folder, "demonstrator"),
    ]


def _demonstrate(client: Any, bag: Path, n_motions: int) -> None:
    if bag.exists():
        shutil.rmtree(bag)  # of an earlier demo
    client.start_recording(str(bag.resolve()), "pause")
    with tqdm(total=n_motions, desc="   demonstrations") as bar:
        client.demonstrate(n_motions, bar.update)
    client.stop_recording()


def _import(bag: Path, output: Path) -> DataSet:
    robot = Robot("planar10")
    data_set, _ = import_motions([bag], Selection(robot=robot, labels=(LABEL,)), MotionForm())
    save_data_set(output, data_set)
    return data_set


def _prior(motions: DataSet, output: Path, seed: int) -> MotionPrior:
    training = MotionTraining(learner=EMConfig(n_components=1, n_iterations=20), seed=seed)
    outcome = training.run(motions)
    if outcome.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    prior = outcome.model
    prior.save(output)
    return prior


def _execute(
    client: Any, result: LineReachingResult, args: argparse.Namespace
) -> tuple[dict[str, dict[str, float]], dict[str, FloatArray]]:
    """By model: mean distance to the line and share that reached it, as the simulator tells; and the samples."""
    client.set_task(result.task)
    generator = torch.Generator().manual_seed(args.random_seed + 1)
    table, samples = {}, {}
    for learner in LEARNERS:
        drawn = result.fits[learner, args.components].mixture.sample(args.executed, generator)
        drawn = drawn.clamp(-result.arm.joint_limit, result.arm.joint_limit)
        start = torch.from_numpy(folded(result.arm))
        motions = [reaching_motion(result.arm, start, goal) for goal in drawn]
        table[learner] = _executed(client, result.arm.joint_names, motions, learner)
        samples[learner] = drawn.numpy()
    return table, samples


def _executed(client: Any, joint_names: tuple[str, ...], motions: list[Motion], name: str) -> dict[str, float]:
    bar = tqdm(motions, desc=f"   {name:14}")
    outcomes = [client.execute(joint_names, motion.times, motion.positions) for motion in bar]
    return {
        "mean_distance": float(np.mean([outcome.distance for outcome in outcomes])),
        "share_reached": float(np.mean([outcome.reached for outcome in outcomes])),
    }


def _print(table: dict[str, dict[str, float]]) -> None:
    print(f"   {'':16}{'distance [m]':>14}{'reached the line':>18}")
    for name, figures in table.items():
        print(f"   {name:16}{figures['mean_distance']:14.3f}{100.0 * figures['share_reached']:16.0f} %")


def _scores(prior: MotionPrior, motions: DataSet, seed: int) -> str:
    shape = (len(motions), motions.description["n_points"], len(prior.joint_names))
    shown = motions.sample.reshape(shape)
    bent = np.clip(shown + 0.5 * np.random.default_rng(seed).standard_normal((len(shown), 1, shape[2])), -3.14, 3.14)
    share = [float((prior.score(positions).quantile < 0.05).mean()) for positions in (shown, bent)]
    return f"{share[0]:.0%} of those shown count as outliers, {share[1]:.0%} of those bent by .5 rad"
