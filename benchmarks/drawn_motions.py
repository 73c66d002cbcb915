"""Motions that are drawn from a prior: can the robot execute them, and do they reach the line that was demonstrated?

    python -m benchmarks.drawn_motions [--motions 63] [--seed 0] [--output benchmarks/results/drawn_motions.txt]

The expert demonstrates motions of the planar arm to the line of `planar_simulator`, around its obstacle.
`MotionTraining` fits a prior with its default settings. The simulator then executes 100 motions of each kind:

    mixture      the mixture before it is truncated to the joint limits
    limits       default draws, within the joint limits of the robot
    recording    default draws if the data set has no limits, within the range of the recording
    reaching     draws within the limits that end within 0.05 m of the line

Accepted is the share of the motions of the mixture that remain. Executed is the share of the drawn motions that the
simulator does not refuse. The distance is from the tip to the line at the end of a motion [m].
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch

from eim_ros.core.arrays import FloatArray
from eim_ros.core.data_set import DataSet
from eim_ros.motion import MotionDistribution, MotionPrior, MotionTraining, TaskPoint
from eim_ros.nodes.planar_simulator.settings import PlanarSettings
from eim_ros.planar import Expert, PlanarSimulator
from eim_ros.planar.motions import MotionConfig, Trajectory, TrajectoryError
from eim_ros.planar.simulator import demonstrate, execute

N_DRAWN, N_POINTS = 100, 50
TOLERANCE = 0.05  # [m] of the ends
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


def priors(n_motions: int, seed: int) -> tuple[MotionPrior, MotionPrior, str]:
    """Return the priors with limits of the robot and of the recording, and a line about the training."""
    generator = torch.Generator().manual_seed(seed)
    data_set = demonstrate(Expert(ARM, TASK), torch.from_numpy(START), n_motions, generator, MotionConfig(n_points=50))
    unknown = {name: [None] * ARM.n_links for name in ("lower", "upper")}
    unlimited = DataSet(data_set.context, data_set.sample, {**data_set.description, **unknown})
    runs = [MotionTraining(seed=seed).run(each) for each in (data_set, unlimited)]
    ends = distance(data_set.sample[:, -ARM.n_links :])
    told = f"{len(data_set)} demonstrations, which end {np.median(ends):.3f} m from the line (median)"
    return runs[0].model, runs[1].model, f"{told}; EIM: {runs[0].status.value}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--motions", type=int, default=63)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="also write the table there")
    args = parser.parse_args()
    torch.set_num_threads(1)
    prior, recorded, told = priors(args.motions, args.seed)
    limited, free = prior.condition(), np.full(ARM.n_links, np.inf)
    kinds: dict[str, MotionDistribution] = {
        "mixture": MotionDistribution(prior.representation, limited.mixture, -free, free),
        "limits": limited,
        "recording": recorded.condition(),
        "reaching": limited.reaching(TaskPoint(distance, TOLERANCE)),
    }
    lines = [
        f"{N_DRAWN} motions of a prior of {told}, seed {args.seed}",
        f"{'draws':12} {'accepted':>9} {'executed':>9} {'median distance [m]':>20} {'within 0.1 m':>13}",
    ]
    for name, given in kinds.items():
        samples = given.sample(N_DRAWN, torch.Generator().manual_seed(args.seed), N_POINTS)
        away, executed = distance(samples.positions[:, -1]), n_executed(samples.positions, prior.mean_duration)
        shares = f"{given.acceptance_rate:9.4f} {executed / N_DRAWN:9.2f}"
        lines.append(f"{name:12} {shares} {np.median(away):20.3f} {(away <= 0.1).mean():13.2f}")
    table = "\n".join(lines) + "\n"
    print(table, end="")
    if args.output:
        args.output.write_text(table, encoding="utf-8")


if __name__ == "__main__":
    main()
