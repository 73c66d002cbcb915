"""Circles followed by arms with continuous joints: no row of a path turns a joint by a full turn.

    python -m benchmarks.circles [--circles 100] [--seed 123] [--output benchmarks/results/circles.txt]

A circle has a random plane, a radius of 2 to 12 cm and 61 poses, starts at a random reachable pose and keeps its
orientation. Circles that leave the workspace are counted and replaced. Columns:

  continuous  circles that the arm follows without a jump
  jumps       circles for which `follow` reports jumps
  too long    paths without a reported jump that have a step above 0.3 rad in the returned rows
  turned      paths whose rows have a step that would be shorter by a full turn of a joint
  outside     circles that were replaced
  median      CPU time of a path on one thread [ms]
"""

from __future__ import annotations

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import argparse
import re
import sys
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks._machine import conditions, print_table
from eim_ros.ik import Sampler
from eim_ros.kinematics import Robot

sys.path.append(str(Path(__file__).resolve().parents[1] / "test"))
from kinematics.six_revolute_arms import ARMS

FloatArray = npt.NDArray[np.float64]

N_POSES, MAX_STEP = 61, 0.3
HEADER = (
    f"{'arm':10}{'circles':>9}{'continuous':>12}{'jumps':>7}{'too long':>10}{'turned':>8}{'outside':>9}{'median':>9}"
)


def jaco() -> Robot:
    """Return a Jaco 2, whose joints 1, 4, 5 and 6 are continuous."""
    parts = re.split(r"(?=<joint )", ARMS["Jaco 2"])
    for i in (1, 4, 5, 6):
        parts[i] = parts[i].replace('type="revolute"', 'type="continuous"')
    return Robot("".join(parts))


def circle(robot: Robot, rng: np.random.Generator) -> FloatArray:
    """Return the poses (N_POSES, 4, 4) of a closed circle."""
    start = robot.fk(robot.random(1, rng))[0]
    radius, (u, v) = rng.uniform(0.02, 0.12), np.linalg.qr(rng.normal(size=(3, 2)))[0].T
    angle = np.linspace(0.0, 2.0 * np.pi, N_POSES)[:, None]
    poses = np.repeat(start[None], N_POSES, axis=0)
    poses[:, :3, 3] += radius * ((np.cos(angle) - 1.0) * u + np.sin(angle) * v)
    return poses


def row(name: str, robot: Robot, n_circles: int, seed: int) -> str:
    """Follow circles with one arm."""
    rng, sampler = np.random.default_rng(seed), Sampler(robot)
    jumps = too_long = turned = outside = 0
    spent: list[float] = []
    while len(spent) < n_circles:
        poses, begin = circle(robot, rng), time.process_time()
        path = sampler.follow(poses, seed=len(spent))
        if np.isnan(path.q).any():
            outside += 1
            continue
        spent.append(1e3 * (time.process_time() - begin))
        steps = np.abs(np.diff(path.q, axis=0))
        shorter = np.abs((steps + np.pi) % (2.0 * np.pi) - np.pi) < steps - 1e-9
        jumps += bool(len(path.jumps))
        too_long += not len(path.jumps) and bool(steps.max() > MAX_STEP + 1e-9)
        turned += bool(shorter[:, robot.continuous].any())
    return (
        f"{name:10}{n_circles:>9}{n_circles - jumps:>12}{jumps:>7}{too_long:>10}{turned:>8}{outside:>9}"
        f"{np.median(spent):>9.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--circles", type=int, default=100)
    parser.add_argument("--seed", type=int, default=123)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    head = [
        f"Circles of {N_POSES} poses, steps of at most {MAX_STEP:g} rad, seed {args.seed}",
        conditions(("numpy", "eim_ros")),
        "",
        HEADER,
    ]
    arms = {"Gen3": Robot("gen3"), "Jaco 2": jaco()}
    print_table(head, (row(name, robot, args.circles, args.seed) for name, robot in arms.items()), args.output)


if __name__ == "__main__":
    main()
