"""Names of branches compared with a judge, and answers of a branch compared with all solutions.

    python -m benchmarks.branches [--poses 2000] [--seed 0] [--output benchmarks/results/branches.txt]

Poses are those of uniform configurations. Each pose is solved by `solve_all` (by `sample` with 20 solutions for seven
joints), and once more with a random branch of shoulder, elbow and wrist as a constraint. The judge reads labels off the
joint frames of pinocchio, see test/kinematics/branch_judge.py. Columns:

  solutions   solutions of all poses
  boundary    those without a label, because they are on a boundary
  agree       those with the labels of the judge
  of branch   solutions with the constraint
  outside     those that are in another branch, according to the judge
  missing     solutions of the branch that the answer lacks; poses with a solution but no answer for seven joints
  complete    answers of the branch that are complete
  all, branch CPU time of an answer on one thread, without and with the constraint, median [us]
"""

from __future__ import annotations

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import argparse
import itertools
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks._machine import conditions, print_table
from eim_ros.ik import Sampler, Solutions
from eim_ros.kinematics import Robot
from eim_ros.kinematics.branches import NAMES

sys.path.append(str(Path(__file__).resolve().parents[1] / "test"))
from kinematics.branch_judge import ARMS, labels_of

N_SAMPLES, ENOUGH = 20, 60.0  # solutions of seven joints; time limit [s]
COLUMNS = ("solutions", "boundary", "agree", "of branch", "outside", "missing", "complete", "all", "branch")
HEADER = f"{'arm':14}" + "".join(f"{name:>11}" for name in COLUMNS)


def answer(sampler: Sampler, pose: np.ndarray) -> tuple[Solutions, float]:
    """Return the answer to a pose, and its CPU time [us]."""
    began = time.process_time()
    if sampler.robot.dof == 6:
        found = sampler.solve_all(pose, timeout=ENOUGH)
    else:
        found = sampler.sample(pose, N_SAMPLES, seed=0, timeout=ENOUGH)
    return found, 1e6 * (time.process_time() - began)


def row(name: str, n_poses: int, seed: int) -> str:
    """Solve the poses of one arm."""
    drawing, rng = ARMS[name], np.random.default_rng(seed)
    sampler = Sampler(Robot(drawing.urdf))
    branches = list(itertools.product(*NAMES.values()))
    samplers = {labels: sampler.with_constraints(branch=dict(zip(NAMES, labels, strict=True))) for labels in branches}
    counts, spent = dict.fromkeys(COLUMNS[:7], 0), list[tuple[float, float]]()
    for q in sampler.robot.random(n_poses, rng):
        pose, branch = sampler.robot.fk(q), branches[rng.integers(len(branches))]
        (everything, of_all), (found, of_branch) = answer(sampler, pose), answer(samplers[branch], pose)
        labels = list(zip(*(everything.branches[key].tolist() for key in NAMES), strict=True))
        judged = labels_of(drawing, everything.q)
        counts["solutions"] += len(everything)
        counts["boundary"] += sum("" in one for one in labels)
        counts["agree"] += sum(one == other for one, other in zip(labels, judged, strict=True))
        counts["of branch"] += len(found)
        counts["outside"] += sum(labels != branch for labels in labels_of(drawing, found.q))
        n_known = judged.count(branch)
        counts["missing"] += max(n_known - len(found), 0) if sampler.robot.dof == 6 else bool(n_known) and not found
        counts["complete"] += found.is_complete
        spent.append((of_all, of_branch))
    times = "".join(f"{value:>11.0f}" for value in np.median(spent, axis=0))
    return f"{name:14}" + "".join(f"{value:>11}" for value in counts.values()) + times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--poses", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    head = [
        f"{args.poses} poses of each arm, seed {args.seed}",
        conditions(("numpy", "pin", "eim_ros")),
        "",
        HEADER,
    ]
    print_table(head, (row(name, args.poses, args.seed) for name in ARMS), args.output)


if __name__ == "__main__":
    main()
