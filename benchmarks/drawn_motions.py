"""Motions drawn from a prior: whether the robot can execute them, and whether they reach the demonstrated line.

    python -m benchmarks.drawn_motions [--motions 63] [--seed 0] [--output benchmarks/results/drawn_motions.txt]

The expert demonstrates motions of the planar arm to the line of `planar_simulator`, around its obstacle.
`MotionTraining` fits a prior with its default settings. The simulator then executes 100 motions of each kind:

    default      draws of a prior with the line as the goal of the tip, as `eim train --robot --reach` stores it
    limits       draws of a prior without a goal, within the joint limits of the robot
    recording    draws of a prior without a goal, within the range of the recording (the data set has no limits)
    mixture      the mixture before it is truncated to the joint limits
    ProMP        a single Gaussian with the mean and covariance of the demonstrations' weights, for the same basis

The ends of 10 new demonstrations are also given as via points ("to ends"), with 10 motions each. The column "accepted"
is the share of motions of the mixture that truncation keeps. The column "executed" is the share of drawn motions that
the simulator accepts, and "touching" is the share that touches the obstacle. The distance is from the tip to the line
at the end of a motion [m].

The second table compares EM with EIM for a few experts, in the task of `motion_scores`: 1000 motions that pass a disc
on either side. Each prior draws one motion for each of 200 new contexts. The column "above" is the share of motions
that pass above the disc. The log density is the mean over 200 new demonstrations [nat]. The last column is the status
of the training.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch

from benchmarks import motion_scores as ways
from eim_ros.core.arrays import FloatArray
from eim_ros.core.data_set import DataSet
from eim_ros.kinematics import Robot
from eim_ros.learning import EIMConfig, EMConfig
from eim_ros.learning.models import GaussianMixture
from eim_ros.motion import MotionDistribution, MotionPrior, MotionTraining, TipGoal, ViaPoint
from eim_ros.nodes.planar_simulator.settings import PlanarSettings
from eim_ros.planar import Expert, PlanarSimulator
from eim_ros.planar.motions import MotionConfig, Trajectory, TrajectoryError
from eim_ros.planar.simulator import demonstrate, execute

N_DRAWN, N_POINTS, N_ENDS = 100, 50, 10
MOTION = MotionConfig(n_points=N_POINTS)
N_SHOWN, N_NEW, N_SEEDS = 1000, 200, 3  # numbers of experts in the second table
SETTINGS = PlanarSettings()
ARM, TASK = SETTINGS.arm(), SETTINGS.task()
START = SETTINGS.start_configuration()


def distance(q: FloatArray) -> FloatArray:
    return np.asarray(TASK.distance(ARM.tip(torch.from_numpy(np.ascontiguousarray(q)))).numpy())


def n_executed(motions: FloatArray, duration: float) -> int:
    simulator, times, n = PlanarSimulator(ARM, TASK, start=START), np.linspace(0.0, duration, N_POINTS), 0
    for positions in motions:
        try:
            execute(simulator, Trajectory(times, positions))
            n += 1
        except TrajectoryError:
            pass
    return n


def demonstrated(n_motions: int, seed: int) -> DataSet:
    generator = torch.Generator().manual_seed(seed)
    return demonstrate(
        Expert(ARM, TASK), torch.from_numpy(START), n_motions, generator, MotionConfig(n_points=N_POINTS)
    )


def priors(data_set: DataSet, seed: int) -> tuple[MotionPrior, MotionPrior, str]:
    """Return the priors with limits of the robot and of the recording, and a line about the training."""
    unknown = {name: [None] * ARM.n_links for name in ("lower", "upper")}
    unlimited = DataSet(data_set.context, data_set.sample, {**data_set.description, **unknown})
    runs = [MotionTraining(seed=seed).run(each) for each in (data_set, unlimited)]
    ends = distance(data_set.sample[:, -ARM.n_links :])
    told = f"{len(data_set)} demonstrations, which end {np.median(ends):.3f} m from the line (median)"
    return runs[0].model, runs[1].model, f"{told}; EIM: {runs[0].status.value}"


def promp(prior: MotionPrior, data_set: DataSet) -> MotionDistribution:
    """Return a single Gaussian with the moments of the weights, without limits."""
    positions = data_set.sample.reshape(len(data_set), N_POINTS, ARM.n_links)
    weights = torch.from_numpy(prior.representation.weights(positions))
    covariance = weights.T.cov() + 1e-6 * torch.eye(weights.shape[1], dtype=torch.float64)  # noise floor 1e-3, squared
    mixture = GaussianMixture(torch.zeros(1).double(), weights.mean(0)[None], torch.linalg.cholesky(covariance)[None])
    return MotionDistribution(prior.representation, mixture, *_free())


def _free() -> tuple[FloatArray, FloatArray]:
    return np.full(ARM.n_links, -np.inf), np.full(ARM.n_links, np.inf)


def row(name: str, given: list[MotionDistribution], duration: float, seed: int) -> str:
    """Return the row for motions that are drawn in equal numbers from several distributions."""
    generator, n_each = torch.Generator().manual_seed(seed), N_DRAWN // len(given)
    motions = np.concatenate([each.sample(n_each, generator, N_POINTS).positions for each in given])
    away, executed = distance(motions[:, -1]), n_executed(motions, duration)
    touching = float((TASK.clearance(ARM.points(torch.from_numpy(motions))).amin(-1) <= 0.0).double().mean())
    accepted = np.mean([each.acceptance_rate for each in given])
    shares = f"{accepted:9.4f} {executed / N_DRAWN:9.2f} {touching:9.2f}"
    return f"{name:16} {shares} {np.median(away):20.3f} {(away <= 0.1).mean():12.2f}"


def drawn(n_motions: int, seed: int) -> list[str]:
    """Return the first table."""
    shown = demonstrated(n_motions, seed)
    prior, recorded, told = priors(shown, seed)
    goals = TipGoal("x", float(TASK.start[0])), TipGoal("y", 0.0, float(TASK.end[1]))
    gaussian = promp(prior, shown)
    new = demonstrated(N_ENDS, seed + 1).sample[:, -ARM.n_links :]
    ends = [[ViaPoint(1.0, ARM.joint_names, tuple(q))] for q in new.tolist()]
    kinds = {
        "default": [prior.with_goals(Robot("planar10"), *goals).condition()],
        "limits": [prior.condition()],
        "recording": [recorded.condition()],
        "mixture": [MotionDistribution(prior.representation, prior.condition().mixture, *_free())],
        "ProMP": [gaussian],
        "default, to ends": [prior.condition(None, end) for end in ends],
        "ProMP, to ends": [gaussian.condition(end) for end in ends],
    }
    return [
        f"{N_DRAWN} motions of a prior of {told}, seed {seed}",
        f"{'draws':16} {'accepted':>9} {'executed':>9} {'touching':>9} {'median distance [m]':>20} {'below 0.1 m':>12}",
        *(row(name, given, prior.mean_duration, seed) for name, given in kinds.items()),
    ]


def few_experts() -> list[str]:
    """Return the second table, which contains means over seeds."""
    lines = [
        "",
        f"{N_SHOWN} motions that pass a disc on two ways; few experts, else default settings; mean of {N_SEEDS} seeds",
        f"{'learner':8} {'experts':>7} {'touching':>9} {'above':>6} {'median distance [m]':>20} {'log density':>11}",
    ]
    data = [(ways.demonstrations(N_SHOWN, seed), ways.demonstrations(N_NEW, 1000 + seed)) for seed in range(N_SEEDS)]
    for n_experts in (1, 2, 3):
        for name, config in (("EM", EMConfig), ("EIM", EIMConfig)):
            rows, statuses = [], []
            for seed, (shown, new) in enumerate(data):
                run = MotionTraining(learner=config(n_components=n_experts), seed=seed).run(shown.data_set())
                generator = torch.Generator().manual_seed(seed)
                each = [run.model.condition(c).sample(1, generator).positions for c in new.context.numpy()]
                own = ways.Motions(torch.from_numpy(np.concatenate(each)), new.context)
                away = ways.TASK.distance(ways.ARM.tip(own.positions[:, -1])).median()
                above = (ways.sides(own) > 0).double().mean()
                rows.append([ways.failures(own), float(above), float(away), ways.score(run.model, new).mean()])
                statuses.append(run.status.value)
            touching, up, miss, density = np.mean(rows, axis=0)
            told = ", ".join(dict.fromkeys(statuses))
            lines.append(f"{name:8} {n_experts:7} {touching:9.3f} {up:6.2f} {miss:20.3f} {density:11.1f}  {told}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--motions", type=int, default=63)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="also write the tables to this file")
    args = parser.parse_args()
    torch.set_num_threads(1)
    table = "\n".join([*drawn(args.motions, args.seed), *few_experts()]) + "\n"
    print(table, end="")
    if args.output:
        args.output.write_text(table, encoding="utf-8")


if __name__ == "__main__":
    main()
