"""`eim demo-planar`: a planar robot that reaches a line, from demonstrations to the execution of samples."""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import numpy.typing as npt
from tyro.conf import arg

from eim_ros.cli.options import Count, Json, Seed, Threads, use_threads
from eim_ros.cli.processes import ServerProcess, Waiting, ended_by_sigterm, use_own_domain
from eim_ros.cli.progress import Bar
from eim_ros.core.errors import ServiceError
from eim_ros.core.files import check_outputs, to_json

if TYPE_CHECKING:
    from eim_ros.core.data_set import DataSet
    from eim_ros.motion import MotionPrior
    from eim_ros.planar import Trajectory
    from eim_ros.planar.line_reaching import LineReachingResult

FloatArray = npt.NDArray[np.float64]

SPEED = 5.0  # simulated seconds per second
RATE = 50  # [Hz] of simulated time
LABEL = "demonstration"
LEARNERS = ("EM", "EIM + tip")
ITERATIONS = 60  # number of iterations of EIM


@dataclass(frozen=True, kw_only=True)
class DemoPlanar:
    """Demonstrate, record, train, sample and execute with a planar robot.

    The nodes planar_simulator, demonstrator and demo_recorder run as processes. The robot shows motions of the expert,
    which are recorded and imported. A motion prior is trained on them and scores them. EM and EIM learn mixtures over
    configurations that reach the line from draws of the same expert, and the simulator executes samples of both.
    """

    motions: Count = 30
    """Number of motions to demonstrate."""
    samples: Count = 4000
    """Number of draws from the expert."""
    components: Count = 5
    """Number of components of each mixture."""
    executed: Count = 20
    """Number of samples of each mixture to execute."""
    seed: Seed = 0
    """Random seed."""
    output: Annotated[str, arg(metavar="FOLDER")] = "demo-planar"
    """Folder for all files."""
    json: Json = False
    threads: Threads = None

    def run(self) -> int:
        folder = Path(self.output)
        check_outputs({"--output": folder / "motions.npz"})
        from eim_ros.nodes.demonstrator.client import PlanarClient
        from eim_ros.planar.line_reaching import LineReachingConfig, fit_line_reaching

        use_threads(self.threads)
        domain_id = use_own_domain()
        with ended_by_sigterm(), contextlib.ExitStack() as stack:
            nodes = _nodes(self, domain_id, folder)
            for node in nodes:
                stack.enter_context(node)
            try:
                client = stack.enter_context(PlanarClient())
                with Waiting("planar_simulator, demo_recorder and demonstrator", nodes) as waiting:
                    client.wait_for_nodes(waiting)
                print(f"1. {self.motions} motions of the expert, simulated at {SPEED:g} times real time and recorded")
                bag = folder / "demonstrations"
                _demonstrate(client, bag, self.motions)

                print("2. The bag becomes a data set")
                motions = _import(bag, folder / "motions.npz")
                print(f"   {len(motions)} motions of {motions.description['n_points']} points")

                print(f"3. Two mixtures of {self.components} Gaussians over configurations, and a motion prior")
                config = LineReachingConfig(
                    n_components=(self.components,), n_samples=self.samples, n_iterations=ITERATIONS, learners=LEARNERS
                )
                result = fit_line_reaching(config, self.seed)
                prior = _prior(motions, folder / "prior.safetensors", self.seed)

                print(f"4. {self.executed} samples of each, executed by the simulator")
                table, samples = _execute(client, result, self)
            except ServiceError:
                for node in nodes:
                    node.check()
                raise
        _print(table)
        print(f"5. Score of the motions: {_scores(prior, motions, self.seed)}")

        from eim_ros.view.planar import draw_planar_demo  # imported here: matplotlib takes a second

        picture = folder / "planar.png"
        draw_planar_demo(result, samples, table, picture)
        print(f"6. Samples of EM and EIM: {picture}")
        if self.json:
            print(to_json({"executed": table, "n_motions": len(motions), "picture": str(picture)}))
        return 0


def _nodes(flags: DemoPlanar, domain_id: int, folder: Path) -> list[ServerProcess]:
    robot = {"obstacles": "[0.0, 0.0, 0.0]"}
    clock = {"publish_clock": "true", "speed": str(SPEED), "rate": str(RATE), "marker_rate": "1.0"}
    shown = {"n_motions": str(flags.motions), "seed": str(flags.seed)}
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
        shutil.rmtree(bag)  # remove the results of an earlier run
    client.start_recording(str(bag.resolve()), "pause")
    with Bar("   demonstrations", n_motions) as bar:
        client.demonstrate(n_motions, bar.advance)
    client.stop_recording()


def _import(bag: Path, output: Path) -> DataSet:
    from eim_ros.bags.importing import MotionForm, import_motions
    from eim_ros.bags.selection import Selection
    from eim_ros.core.data_set import save_data_set
    from eim_ros.kinematics import Robot

    robot = Robot("planar10")
    data_set, _ = import_motions([bag], Selection(robot=robot, labels=(LABEL,)), MotionForm())
    save_data_set(output, data_set)
    return data_set


def _prior(motions: DataSet, output: Path, seed: int) -> MotionPrior:
    from eim_ros.learning import EMConfig
    from eim_ros.learning.run import Status
    from eim_ros.motion import MotionTraining

    outcome = MotionTraining(learner=EMConfig(n_components=1, n_iterations=20), seed=seed).run(motions)
    if outcome.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    prior = outcome.model
    prior.save(output)
    return prior


def _execute(
    client: Any, result: LineReachingResult, flags: DemoPlanar
) -> tuple[dict[str, dict[str, float]], dict[str, FloatArray]]:
    """Return the mean distance to the line and the share that reached it for each model, and the samples."""
    import torch

    from eim_ros.planar import folded
    from eim_ros.planar.motions import reaching_motion

    client.set_task(result.task)
    generator = torch.Generator().manual_seed(flags.seed + 1)
    table, samples = {}, {}
    for learner in LEARNERS:
        drawn = result.fits[learner, flags.components].mixture.sample(flags.executed, generator)
        drawn = drawn.clamp(-result.arm.joint_limit, result.arm.joint_limit)
        start = torch.from_numpy(folded(result.arm))
        motions = [reaching_motion(result.arm, start, goal) for goal in drawn]
        table[learner] = _executed(client, result.arm.joint_names, motions, learner)
        samples[learner] = drawn.numpy()
    return table, samples


def _executed(client: Any, joint_names: tuple[str, ...], motions: list[Trajectory], name: str) -> dict[str, float]:
    outcomes = []
    with Bar(f"   {name:14}", len(motions)) as bar:
        for motion in motions:
            outcomes.append(client.execute(joint_names, motion.times, motion.positions))
            bar.advance()
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
    return f"{share[0]:.0%} of the demonstrations count as outliers, {share[1]:.0%} of those bent by 0.5 rad"
