"""Raw draws of EM and EIM for a Panda that reaches around a post on two ways: how many collide.

    python -m benchmarks.table_ways [--seeds 5] [--output benchmarks/results/table_ways.txt]
    python -m benchmarks.table_ways --picture docs/pictures/table_ways.png

The data are config/demonstrations/panda_table.npz. The last 50 of 250 motions are held out. Both learners have their
default settings; "EIM+kin" is EIM with forward kinematics as inputs, the default of `eim train`. The seed is the
seed of the learner. Each row judges 20 raw draws of `Sampler.propose` at each of 100 held-out poses.

"collide" is the share of draws that touch post, table or the arm itself. "left" and "right" are shares of draws whose
joints are all within 0.5 rad of a demonstration on that side. "distance" is the median distance of the flange to its
pose [m]. "log-lik" is the mean log density of held-out demonstrations [nat]. Times are CPU seconds on one thread.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from scipy.spatial import KDTree

from benchmarks._machine import processor
from eim_ros import Sampler
from eim_ros.core.data_set import DataSet, load_data_set
from eim_ros.ik import IKModel, SmoothingConfig, Training
from eim_ros.kinematics import share_path
from eim_ros.kinematics.collision import CollisionModel
from eim_ros.learning import EIMConfig, EMConfig
from experiments.table_demonstrations import N_POINTS, OBSTACLES, ROBOT, swivel

FloatArray = npt.NDArray[np.float64]

N_HELD_OUT = 50 * N_POINTS  # rows at the end
EVERY = N_POINTS // 2  # two poses of each motion are judged
N_DRAWS = 20  # at each pose
NEAR = 0.5  # [rad]
ROWS = (("EM", 1), ("EIM", 1), ("EIM+kin", 1), ("EM", 2), ("EIM", 2), ("EM", 4), ("EM", 8))


def data_sets() -> tuple[DataSet, DataSet]:
    """Return the demonstrations for training and the held-out ones."""
    data = load_data_set(share_path("config/demonstrations/panda_table.npz"))
    parts = slice(-N_HELD_OUT), slice(-N_HELD_OUT, None, EVERY)
    training, held_out = (DataSet(data.context[part], data.sample[part], data.description) for part in parts)
    return training, held_out


def fitted(learner: str, n_experts: int, seed: int, data: DataSet) -> IKModel:
    """Fit a model with default settings."""
    if learner == "EM":
        training = Training(EMConfig(n_components=n_experts), seed=seed)
    elif learner == "EIM":
        training = Training(EIMConfig(n_components=n_experts), seed=seed)
    else:
        training = Training(EIMConfig.kinematic(n_components=n_experts), seed=seed, smoothing=SmoothingConfig())
    return training.run(data, ROBOT).model


def judged(model: IKModel, held_out: DataSet, demonstrated: FloatArray) -> dict[str, float]:
    """Return the columns of the table for a model.

    Parameters
    ----------
    model : IKModel
    held_out : DataSet
    demonstrated : (n, 7)
        Configurations that define the two ways.
    """
    sampler, poses = Sampler(model=model), ROBOT.fk(held_out.sample)
    answers = [sampler.propose(pose, N_DRAWS, seed=seed) for seed, pose in enumerate(poses)]
    q = np.concatenate([answer.q for answer in answers])
    is_right = swivel(demonstrated) > 0.0
    far = [KDTree(demonstrated[side]).query(q, p=np.inf)[0] for side in (~is_right, is_right)]
    density = model.mixture.log_prob(torch.from_numpy(held_out.context), torch.from_numpy(held_out.sample))
    return {
        "collide": float(CollisionModel(ROBOT).scene(True, OBSTACLES, 0.0).colliding(q).mean()),
        "left": float((far[0] < NEAR).mean()),
        "right": float((far[1] < NEAR).mean()),
        "distance": float(np.median(np.concatenate([answer.position_error for answer in answers]))),
        "log-lik": float(density.mean()),
    }


def report(n_seeds: int, output: Path | None) -> None:
    """Print the table, and write it to a file."""
    training, held_out = data_sets()
    lines = [
        f"Panda around a post, {len(training)} pairs, {len(held_out)} held-out poses, {N_DRAWS} draws each",
        f"torch {torch.__version__}, {processor()}",
        f"{'learner':8} {'experts':>7} {'seed':>4} {'collide':>9} {'left':>8} {'right':>8} {'distance':>9} "
        f"{'log-lik':>9} {'CPU [s]':>8}",
    ]
    print("\n".join(lines), flush=True)
    for learner, n_experts in ROWS:
        rows = []
        for seed in [*range(n_seeds), "mean"]:
            if seed == "mean":
                row = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
            else:
                began = time.process_time()
                model = fitted(learner, n_experts, int(seed), training)
                seconds = time.process_time() - began
                row = {**judged(model, held_out, training.sample), "seconds": seconds}
                rows.append(row)
            lines.append(
                f"{learner:8} {n_experts:7} {seed:>4} {row['collide']:9.1%} {row['left']:8.1%} {row['right']:8.1%} "
                f"{row['distance']:9.3f} {row['log-lik']:9.4g} {row['seconds']:8.1f}"
            )
            print(lines[-1], flush=True)
    if output:
        output.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--picture", type=Path)
    args = parser.parse_args()
    report(args.seeds, args.output)


if __name__ == "__main__":
    main()
