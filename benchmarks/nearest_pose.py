"""The nearest reachable pose compared with brute force, for arms with four, five and seven joints.

    python -m benchmarks.nearest_pose [--poses 500] [--starts 10] [--seed 77]
        [--output benchmarks/results/nearest_pose.txt]

Positions of reachable poses are scaled by 0.7 to 1.6, and orientations are random, so hardly any pose is reachable. The
distance from a pose is the norm of the position error [m] and 0.2 times the orientation error [rad]. Brute force runs
scipy's least_squares from random configurations. Columns:

  farther, nearer   poses for which the answer is farther, or nearer, than the best of brute force by over 1e-3
  largest           largest excess over brute force
  median, p99       CPU time of a call on one thread [ms]
  brute             median CPU time of brute force [ms]
"""

from __future__ import annotations

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import argparse
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks._machine import conditions, print_table
from eim_ros.ik import Sampler
from eim_ros.kinematics import Robot

sys.path.append(str(Path(__file__).resolve().parents[1] / "test"))
from ik.test_nearest_pose import ARMS, brute_force, targets

WEIGHTS = (1.0, 0.2)  # weights of position [m] and orientation [rad]
APART = 1e-3
TIMEOUT = 60.0  # [s]
HEADER = f"{'arm':12}{'poses':>7}{'farther':>9}{'nearer':>8}{'largest':>10}{'median':>9}{'p99':>8}{'brute':>8}"


def row(name: str, n_poses: int, n_starts: int, seed: int) -> str:
    """Compare the answers for random poses of one arm with brute force."""
    robot = Robot(ARMS[name])
    sampler = Sampler(robot)
    excess, ours, brute = [], [], []
    for i, pose in enumerate(targets(robot, n_poses, seed)):
        begin = time.process_time()
        answer = sampler.solve_nearest_pose(pose, WEIGHTS, seed=i, timeout=TIMEOUT)
        ours.append(1e3 * (time.process_time() - begin))
        begin = time.process_time()
        best = brute_force(robot, pose, WEIGHTS, n_starts, seed + 1 + i)
        brute.append(1e3 * (time.process_time() - begin))
        excess.append(np.hypot(WEIGHTS[0] * answer.position_error, WEIGHTS[1] * answer.orientation_error) - best)
    over = np.array(excess)
    return (
        f"{name:12}{n_poses:>7}{np.sum(over > APART):>9}{np.sum(over < -APART):>8}{over.max():>10.1e}"
        f"{np.median(ours):>9.1f}{np.quantile(ours, 0.99):>8.0f}{np.median(brute):>8.0f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--poses", type=int, default=500)
    parser.add_argument("--starts", type=int, default=10)
    parser.add_argument("--seed", type=int, default=77)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    head = [
        f"Nearest reachable pose, weights {WEIGHTS[0]:g} and {WEIGHTS[1]:g}; {args.starts} starts of brute force.",
        f"seed {args.seed}, one thread",
        conditions(("numpy", "scipy", "eim_ros")),
        "",
        HEADER,
    ]
    print_table(head, (row(name, args.poses, args.starts, args.seed) for name in ARMS), args.output)


if __name__ == "__main__":
    main()
