"""`eim demo`: collect samples, train three models, serve the last one, and draw a picture of solutions."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from eim_ros.cli.flags import count, flag, json_flag, seed_flag, switch, threads_flag
from eim_ros.cli.options import use_threads
from eim_ros.cli.processes import ServerProcess, Waiting, ended_by_sigterm, in_own_domain
from eim_ros.core.arrays import FloatArray
from eim_ros.core.errors import ServiceError
from eim_ros.core.files import check_outputs, to_json

if TYPE_CHECKING:
    from eim_ros.cli.demo_planar import DemoPlanar
    from eim_ros.core.data_set import DataSet
    from eim_ros.ik import Solutions
    from eim_ros.kinematics import Robot


LEARNERS = {  # name in the table: algorithm, and whether its inputs are kinematic
    "EM": ("em", False),
    "EIM": ("eim", False),
    "EIM + kinematics": ("eim", True),
}
REDUCED: dict[str, Mapping[str, Any]] = {
    "EIM": {"ratio.reference.factors": (2.0,), "ratio.reference.starts": 1}
}  # fewer sizes and starts than the defaults, to save time
COLUMNS = {
    "rmse_position": "RMSE [m]",
    "median_position": "median [m]",
    "share_in_limits": "in limits",
    "entropy_marginal": "H(z)",
    "entropy_conditional": "H(z|y)",
    "mean_log_prob": "log p [nat]",
}
N_REQUESTS = 21  # number of requests for the median latency


@dataclass(frozen=True, kw_only=True)
class Demo:
    """Collect, train, serve, request and draw.

    EM, EIM from samples alone, and EIM with kinematic inputs are trained on the same samples of the forward kinematics.
    Then the ROS 2 node is started with the last model. It returns configurations that reach a position. All solutions
    of a pose at this position are drawn to a file.
    """

    robot: str = flag("iiwa14", "Included robot.", metavar="NAME")
    samples: int = count(10000, "Number of training pairs.")
    experts: int = flag(50, "Number of experts of each model.")
    n: int = count(100, "Number of configurations to request.", short="-n")
    seed: int = seed_flag()
    output: str = flag("demo", "Folder for all files.", metavar="FOLDER")
    json: bool = json_flag()
    threads: int | None = threads_flag()
    planar: bool = switch(
        "Run the demo of a planar robot instead: demonstrate, record, train, sample and execute. `eim demo --planar "
        "--help` explains its flags."
    )

    @classmethod
    def read(cls, words: Sequence[str]) -> Demo | DemoPlanar:
        """Read the flags of this demo, or of the planar demo if --planar is given."""
        from eim_ros.cli.demo_planar import DemoPlanar
        from eim_ros.cli.flags import parse

        kind, program = (DemoPlanar, "eim demo --planar") if "--planar" in words else (cls, "eim demo")
        verb: Demo | DemoPlanar = parse(kind, program, [word for word in words if word != "--planar"])
        return verb

    def run(self) -> int:
        from eim_ros.core.data_set import save_data_set
        from eim_ros.ik import collect
        from eim_ros.kinematics import Robot, robot_path

        folder = Path(self.output)
        check_outputs({"--output": folder / "train.npz"}, {"--robot": robot_path(self.robot)})
        robot = Robot(self.robot)
        use_threads(self.threads)
        print(
            f"1. {self.samples} configurations of {robot.name} ({robot.dof} joints) and their poses are drawn with "
            f"seed {self.seed}"
        )
        data_set = collect(robot, self.samples, "position", self.seed)
        test = collect(robot, 5000, "position", self.seed + 1_000_000)
        save_data_set(folder / "train.npz", data_set)
        save_data_set(folder / "test.npz", test)

        print(
            f"2. Three mixtures of {self.experts} linear experts are trained; the errors are those of raw samples, "
            "before refinement"
        )
        table, path = self._train(robot, data_set, test, folder)
        _print_training(table)

        pose = _demo_pose(robot, self.seed)
        print("3. The node ik_server loads the last model and answers requests")
        answer, raw, all_, latency = _ask(path, robot, pose, self.n, self.seed)
        summary = _summary(robot, answer, raw, latency)
        _print_summary(summary, pose)

        from eim_ros.view import draw_solutions  # imported here: matplotlib takes a second

        picture = folder / "ik_samples.png"
        if all_:
            draw_solutions(robot, all_.q, pose, picture)
        where = picture if all_ else "no picture"
        print(f"4. All solutions of a pose at that position, found without a model: {all_.message}: {where}")
        if self.json:
            print(to_json({"training": table, "request": summary, "picture": str(picture) if all_ else None}))
        return 0 if summary["valid"] == self.n else 1

    def _train(
        self, robot: Robot, data_set: DataSet, test: DataSet, folder: Path
    ) -> tuple[dict[str, dict[str, float]], Path]:
        """Return the results of each learner on the test data, and the file of the last model."""
        from eim_ros.cli.progress import ProgressBar
        from eim_ros.cli.train import default_settings, learner_of
        from eim_ros.ik import IKModel, Training, evaluate
        from eim_ros.learning import RunOptions
        from eim_ros.learning.run import Status

        table: dict[str, dict[str, float]] = {}
        path = folder / "model.safetensors"
        for label, (algorithm, kinematics) in LEARNERS.items():
            default = default_settings("ik", algorithm, kinematics)
            config = default.replace(n_components=self.experts, **REDUCED.get(label, {}))
            path = folder / f"{algorithm}{'_kinematics' if kinematics else ''}.safetensors"
            started = time.perf_counter()
            with ProgressBar(config.n_iterations, f"   {label:<16}") as progress:
                training = Training(learner_of(config), self.seed, smoothing=getattr(config, "smoothing", None))
                outcome = training.run(data_set, robot, run=RunOptions([progress]))
            if outcome.status is Status.INTERRUPTED:
                raise KeyboardInterrupt
            outcome.model.save(path)
            figures = evaluate(IKModel.load(path), test, self.seed)
            table[label] = {**figures, "seconds": time.perf_counter() - started}
        return table, path


def _ask(
    path: Path, robot: Robot, pose: FloatArray, n: int, seed: int
) -> tuple[Solutions, Solutions, Solutions, list[float]]:
    """Return the answer of the service for a position, raw draws, all solutions of the pose, and round-trip
    times [s].
    """
    from eim_ros.nodes import IKClient, solutions_of
    from eim_ros.nodes.common import interfaces
    from eim_ros.nodes.common.messages import pose_message

    services = {name: getattr(interfaces, name) for name in ("SampleIK", "DrawIK")}
    requests = {name: service.Request() for name, service in services.items()}
    for request in requests.values():
        request.header.frame_id, request.poses = robot.base_link, [pose_message(pose)]
        request.n_samples, request.seed = n, seed
        request.constraints.position_only = True
    sample, draw = requests.values()
    sample.diversity, draw.density = 0.0, "proposal"
    latency = []
    with (
        ended_by_sigterm(),
        in_own_domain() as domain_id,
        ServerProcess({"model": str(path.resolve())}, domain_id, path.parent) as server,
    ):
        try:
            with Waiting("ik_server", [server]) as waiting:
                client = IKClient(services["SampleIK"], "/ik_server/sample_ik", math.inf, waiting)
            with client:
                for _ in range(N_REQUESTS):
                    started = time.perf_counter()
                    answer = client.call(sample)
                    latency.append(time.perf_counter() - started)
                sample.constraints.position_only, sample.diversity = False, 1.0
                all_ = client.call(sample)
            with IKClient(services["DrawIK"], "/ik_server/draw_ik") as client:
                raw = client.call(draw)
        except ServiceError:
            server.check()
            raise
    return solutions_of(answer), solutions_of(raw), solutions_of(all_), latency


def _summary(robot: Robot, answer: Solutions, raw: Solutions, latency: list[float]) -> dict[str, Any]:
    from eim_ros.ik.order import distinct_rows

    return {
        "valid": int(answer.valid.sum()),
        "requested": len(raw),
        "distinct": len(distinct_rows(robot, answer.q, 0.01)),
        "experts": len(set(answer.expert.tolist())),
        "raw_median_position_error": float(np.median(raw.position_error)),
        "refined_max_position_error": float(answer.position_error.max(initial=0.0)),
        "median_round_trip": float(np.median(latency)),
        "message": answer.message,
    }


def _print_training(table: dict[str, dict[str, float]]) -> None:
    print("   " + " " * 16 + "".join(f"{title:>12}" for title in COLUMNS.values()) + f"{'time [s]':>12}")
    for label, figures in table.items():
        values = "".join(f"{figures[name]:12.3f}" for name in COLUMNS)
        print(f"   {label:<16}{values}{figures['seconds']:12.0f}")
    print(
        "   log p is the mean over held-out configurations. To save time, EIM compares fewer reference densities than "
        "by default"
    )


def _print_summary(summary: dict[str, Any], pose: FloatArray) -> None:
    where = ", ".join(f"{value:.3f}" for value in pose[:3, 3])
    rows = {
        f"valid configurations for ({where}) m": f"{summary['valid']} of {summary['requested']}",
        "distinct ones (a joint differs by 0.01 rad)": summary["distinct"],
        "experts that proposed these configurations": summary["experts"],
        "median error of raw samples": f"{summary['raw_median_position_error']:.3g} m",
        "largest error after refinement": f"{summary['refined_max_position_error']:.3g} m",
        "median round trip of the service": f"{1e3 * summary['median_round_trip']:.2f} ms",
    }
    for title, value in rows.items():
        print(f"   {title:<44} {value}")


def _demo_pose(robot: Robot, seed: int) -> FloatArray:
    """Return a reachable pose in front of the robot, well inside its workspace."""
    from eim_ros.kinematics import context_from_pose

    candidates = robot.random(2000, np.random.default_rng(seed))
    poses = robot.fk(candidates)
    distance = np.linalg.norm(context_from_pose(poses, "position"), axis=1)
    height = poses[:, 2, 3]
    wanted = np.abs(distance - 0.55 * robot.reach) + np.abs(height - 0.35 * robot.reach)
    return np.asarray(poses[np.argmin(wanted)])
