"""Benefit of seeds from a model compared with uniform seeds: convergence, steps, distance moved, and preference.

    python -m benchmarks.model_seeds [--models panda_pose iiwa14_pose] [--poses 200]
        [--output benchmarks/results/model_seeds.txt]

1. For each model, 100 seeds at each of 200 reachable poses are solved by `refine` with the patience of the
   sampler. Seeds are uniform within the limits, draws of a single expert fitted by EM to 20,000 uniform configurations,
   or draws of the model. The column "converged" is the share of seeds that reach the pose. The column "steps" is the
   number of steps per solution: the mean number of steps of all seeds, divided by the share that converged. The column
   "moved" is the median Euclidean distance from a seed to its solution [rad].
2. Preference: `sample(pose, 100)` of `panda_table` at the poses of its demonstrations, with and without the model. A
   solution satisfies the preference if all joints are within 0.5 rad of a demonstration.
3. Calls of `sample` without a model, with the model, and for samples of the model (`diversity=0`). The time is the
   median over poses of the shortest of 3 calls. The coverage is the share of all solutions for which each joint of some
   row is within 0.3 rad.

Round trips of the default server are measured by `benchmarks/service_latency.py`.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.spatial import cKDTree

from benchmarks._machine import load_average, processor
from eim_ros import Sampler
from eim_ros.core.data_set import load_data_set
from eim_ros.ik import IKModel, Solutions, Training, collect
from eim_ros.ik.problem import PATIENCE
from eim_ros.kinematics import pose_from_context, refine, share_path
from eim_ros.learning import EMConfig

FloatArray = npt.NDArray[np.float64]

N_SEEDS, N_TRAINING, NEAR = 100, 20_000, 0.5
COUNTS, COVERED = (1, 20, 100, 300, 1000), 0.3


def one_expert(model: IKModel) -> Sampler:
    """Return a sampler of a single expert for the robot of a model."""
    data = collect(model.robot, N_TRAINING, model.context_kind, seed=0)
    return Sampler(model=Training(EMConfig(n_components=1)).run(data).model)


def of_seeds(name: str, n_poses: int, seed: int) -> list[str]:
    """Return the rows of the first table for one model."""
    sampler, rng = Sampler.load(name), np.random.default_rng(seed)
    robot, single = sampler.robot, one_expert(IKModel.load(name))
    sources: dict[str, Callable[[FloatArray, int], FloatArray]] = {
        "uniform": lambda pose, number: robot.random(N_SEEDS, rng),
        "one expert": lambda pose, number: single.propose(pose, N_SEEDS, seed=number).q,
        "model": lambda pose, number: sampler.propose(pose, N_SEEDS, seed=number).q,
    }
    poses = robot.fk(robot.random(n_poses, rng))
    lines = [f"{name}: {sampler.n_experts} experts", f"{'seeds':12}{'converged':>11}{'steps':>8}{'moved':>8}"]
    for label, draw in sources.items():
        converged, steps, moved = [], [], []
        for number, pose in enumerate(poses):
            seeds = draw(pose, number)
            found = refine(robot, seeds, pose, patience=PATIENCE)
            converged.append(found.converged)
            steps.append(found.iterations)
            moved.append(np.linalg.norm(found.positions - seeds, axis=1)[found.converged])
        share = float(np.mean(converged))
        lines.append(f"{label:12}{share:11.1%}{np.mean(steps) / share:8.1f}{np.median(np.concatenate(moved)):8.2f}")
    return lines


def of_preference(n_poses: int) -> list[str]:
    """Return the share of solutions near a demonstration, with and without the model of the demonstrations."""
    data = load_data_set(share_path("config/demonstrations/panda_table.npz"))
    learned, near = Sampler.load("panda_table"), cKDTree(data.sample)
    poses = pose_from_context(data.context)[:: max(1, len(data) // n_poses)][:n_poses]
    lines = ["panda_table: share of 100 solutions near a demonstration"]
    for label, sampler in (("with the model", learned), ("without", Sampler(learned.robot))):
        kept = [
            np.isfinite(near.query(sampler.sample(pose, 100, seed=0).q, p=np.inf, distance_upper_bound=NEAR)[0])
            for pose in poses
        ]
        lines.append(f"{label:16}{np.mean(np.concatenate(kept)):7.1%}")
    return lines


def of_calls(name: str, n_poses: int, seed: int) -> list[str]:
    """Return times and coverage of `sample` without a model, with the model, and for samples of the model."""
    learned, rng = Sampler.load(name), np.random.default_rng(seed)
    plain = Sampler(learned.robot)
    poses = learned.robot.fk(learned.robot.random(n_poses, rng))
    sets = [plain.solve_all(pose, 0.1, max_solutions=100_000, seed=0).q for pose in poses]
    sources: dict[str, Callable[[FloatArray, int, int], Solutions]] = {
        "no model": lambda pose, n, number: plain.sample(pose, n, seed=number),
        "model": lambda pose, n, number: learned.sample(pose, n, seed=number),
        "samples of the model": lambda pose, n, number: learned.sample(pose, n, diversity=0.0, seed=number),
    }
    lines = [
        f"{name}: sample(pose, n)",
        f"{'n':>6}" + "".join(f"{label + ': ms':>26}{'covered':>9}" for label in sources),
    ]
    for n in COUNTS:
        line = f"{n:6}"
        times: dict[str, list[float]] = {label: [] for label in sources}
        covered: dict[str, list[float]] = {label: [] for label in sources}
        for number, pose in enumerate(poses):
            for label, answer in sources.items():
                taken = []
                for _ in range(3):
                    began = time.perf_counter()
                    found = answer(pose, n, number)
                    taken.append(time.perf_counter() - began)
                times[label].append(min(taken))
                away = cKDTree(found.q).query(sets[number], p=np.inf, distance_upper_bound=COVERED)[0]
                covered[label].append(float(np.isfinite(away).mean()))
        for label in sources:
            line += f"{1e3 * np.median(times[label]):26.3f}{np.mean(covered[label]):9.2f}"
        lines.append(line)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["panda_pose", "iiwa14_pose"])
    parser.add_argument("--poses", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    lines = [
        f"Seeds of models, {given.poses} poses, seed {given.seed}",
        f"{processor()}, load {load_average()}; Python {platform.python_version()}",
    ]
    for name in given.models:
        lines += ["", *of_seeds(name, given.poses, given.seed)]
    lines += ["", *of_preference(given.poses)]
    for name in given.models:
        lines += ["", *of_calls(name, given.poses, given.seed)]
    print("\n".join(lines))
    if given.output is not None:
        given.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
