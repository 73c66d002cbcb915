"""Inverse kinematics models of five learners with equal data, experts and seed: quality of raw draws, training time.

    python -m benchmarks.included_models [--robots iiwa14 panda] [--contexts pose position]
        [--output benchmarks/results/included_models.txt] [--save FOLDER]

All learners use the same pairs from `collect`: uniform configurations and the contexts that they reach. Settings are
the presets of `eim train`, except for the numbers of experts and iterations, and for `EIM_SETTINGS`. The EIM models are
the models included in the package. "Start" is the start of EIM, which is the result of five iterations of EM.

`evaluate` computes errors, the share within the limits, entropies and log-likelihood from raw draws, one for each test
context. The column "components" is the share of self-motion components that are near at least one of 200 raw draws,
averaged over 100 poses. Times are CPU times of one thread.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks._machine import load_average, processor, versions
from eim_ros import Robot, Sampler
from eim_ros.core.data_set import DataSet
from eim_ros.ik import IKModel, Training, collect, evaluate
from eim_ros.ik.evaluation import exact_solutions
from eim_ros.ik.training import SmoothingConfig
from eim_ros.learning import EIMConfig, EMConfig
from eim_ros.learning.em import TruncatedEMConfig

N_EXPERTS = {"pose": 1000, "position": 500}
EIM_SETTINGS = {
    "pose": {"n_iterations": 120, "m_step.n_samples": 150, "m_step.gating.n_contexts": 1000},
    "position": {"n_iterations": 120, "m_step.n_samples": 60, "m_step.gating.n_contexts": 200},
}
SMOOTHING = {
    ("iiwa14", "pose"): SmoothingConfig(sigma_floor=0.045),
    ("panda", "pose"): SmoothingConfig(sigma_floor=0.045, limit_softness=0.004),
}  # other settings have their defaults
N_TRAINING, N_TEST = 100_000, 2_000
N_POSES, N_DRAWS, N_SEEDS = 100, 200, 4000


def trainings(name: str, kind: str, n_experts: int, seed: int) -> dict[str, Training]:
    """Return the training of each row for a robot and a context, by its label."""
    eim = EIMConfig.kinematic(n_components=n_experts).replace(**EIM_SETTINGS[kind])
    known = EIMConfig.known_kinematics(n_components=n_experts)
    return {
        "start": Training(eim.replace(n_iterations=0), seed, smoothing=SmoothingConfig()),
        "EIM": Training(eim, seed, smoothing=SMOOTHING.get((name, kind), SmoothingConfig())),
        "truncated EM": Training(TruncatedEMConfig(n_components=n_experts, n_iterations=25), seed),
        "EM, 25 iterations": Training(EMConfig(n_components=n_experts, n_iterations=25), seed),
        "known density": Training(known, seed, known=True),
    }


def share_of_components(model: IKModel, seed: int) -> float:
    """Return the mean share of the self-motion components of a pose that are near raw draws."""
    sampler, rng = Sampler(model=model), np.random.default_rng(seed)
    robot, position_only = sampler.robot, model.context_kind == "position"
    shares = []
    for index, pose in enumerate(robot.fk(robot.random(N_POSES, rng))):
        truth = exact_solutions(robot, pose, N_SEEDS, rng, position_only)
        target = pose[:3, 3] if position_only else pose
        shares.append(truth.share_of_components(sampler.propose(target, N_DRAWS, seed=index).q))
    return float(np.mean(shares))


def row(label: str, training: Training, data: DataSet, test: DataSet, seed: int, folder: Path | None) -> str:
    """Train a model and return its line of the table."""
    began = time.process_time()
    model = training.run(data).model
    seconds = time.process_time() - began
    if folder is not None:
        model.save(
            folder / f"{model.robot.name}_{model.context_kind}_{label.split(',')[0].replace(' ', '_')}.safetensors"
        )
    figures = evaluate(model, test, seed)
    orientation = f"{figures['median_orientation']:7.3f}" if "median_orientation" in figures else "      -"
    return (
        f"{label:18}{figures['median_position']:9.3f}{orientation:>9}{figures['share_in_limits']:9.1%}"
        f"{figures['mean_log_prob']:10.1f}{figures['entropy_marginal']:7.3f}{figures['entropy_conditional']:8.3f}"
        f"{share_of_components(model, seed):9.1%}{seconds:9.0f}"
    )


def report(
    names: list[str],
    kinds: list[str],
    experts: int | None,
    n_training: int,
    seed: int,
    folder: Path | None,
    show: Callable[[str], None],
) -> list[str]:
    """Measure all rows of all tables, show each line at once, and return them."""
    lines: list[str] = []

    def add(line: str) -> None:
        lines.append(line)
        show(line)

    add(f"Models by five learners: {n_training} pairs of uniform configurations, seed {seed}")
    add(f"{processor()}, load {load_average()}; Python {platform.python_version()}, {versions(['numpy', 'torch'])}")
    for name in names:
        for kind in kinds:
            robot = Robot(name)
            data, test = collect(robot, n_training, kind, seed), collect(robot, N_TEST, kind, seed + 1)
            n_experts = N_EXPERTS[kind] if experts is None else experts
            add(f"\n{name}, {kind}: {n_experts} experts")
            add(
                f"{'':18}{'position':>9}{'orient.':>9}{'within':>9}{'log p':>10}{'H(z)':>7}{'H(z|y)':>8}"
                f"{'compo-':>9}{'time':>9}"
            )
            add(f"{'':18}{'[m]':>9}{'[rad]':>9}{'limits':>9}{'[nat]':>10}{'':7}{'':8}{'nents':>9}{'[s]':>9}")
            for label, training in trainings(name, kind, n_experts, seed).items():
                add(row(label, training, data, test, seed, folder))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robots", nargs="+", default=["iiwa14", "panda"])
    parser.add_argument("--contexts", nargs="+", default=["pose", "position"], choices=("pose", "position"))
    parser.add_argument("--experts", type=int, help="number of experts (default: 1000 for poses, 500 for positions)")
    parser.add_argument("--samples", type=int, default=N_TRAINING)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--save", type=Path, help="store the models in this folder")
    given = parser.parse_args()
    if given.save is not None:
        given.save.mkdir(parents=True, exist_ok=True)
    lines = report(
        given.robots,
        given.contexts,
        given.experts,
        given.samples,
        given.seed,
        given.save,
        lambda line: print(line, flush=True),
    )
    if given.output is not None:
        given.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
