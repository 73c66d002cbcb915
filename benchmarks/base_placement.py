"""Base placement by solution sets compared with brute force: restarts of a numerical solver on grids of bases.

    python -m benchmarks.base_placement [--poses 6] [--starts 30] [--seed 0] [--output FILE]

The poses lie over a table of 1.0 x 0.6 m, with the hand tilted by up to 0.6 rad from straight down. The bases stand up
to 0.6 m around it, on the floor of the table. Brute force solves each pose from each base by damped Gauss-Newton steps
from random starts, see _pinocchio_restarts.py; poses beyond the reach of the arm cost it nothing. Columns:

  bases      candidates
  CPU        CPU time [s]
  pairs      pairs of a base and a pose that are reached
  missed     pairs that the other method reaches from the same bases, confirmed by forward kinematics of pinocchio
  solutions  distinct solutions up to revolutions, mean of the pairs that both reach (six joints only)
  all        bases that reach all poses
  best       manipulability of the worst pose from the best base, rated by the sets
"""

from __future__ import annotations

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks._machine import conditions, print_table
from benchmarks._pinocchio_restarts import Restarts, distinct
from eim_ros.ik import BasePlacements, Sampler, base_grid, place_base
from eim_ros.kinematics import pose_from

ROBOTS = ("ur5e", "iiwa14", "panda")
TABLE, AROUND, TILT = np.array([1.0, 0.6]), 0.6, 0.6  # [m], [m], [rad]
PAIRS_AT_ONCE = 2000
HEADER = "arm     method               spacing   bases      CPU   pairs  missed  solutions     all     best"


def poses_on_table(n: int, rng: np.random.Generator) -> np.ndarray:
    """Return poses (n, 4, 4) of the hand."""
    places = rng.uniform([0.0, 0.0, 0.1], [*TABLE, 0.4], (n, 3))
    turns = rng.uniform([-TILT, -TILT, -np.pi], [TILT, TILT, np.pi], (n, 3)) + [np.pi, 0.0, 0.0]
    return np.array([pose_from(place, rpy=turn) for place, turn in zip(places, turns, strict=True)])


def bases_around(spacing: float) -> np.ndarray:
    """Return the grid of bases."""
    return base_grid((-AROUND, TABLE[0] + AROUND), (-AROUND, TABLE[1] + AROUND), spacing)


def brute_force(
    sampler: Sampler, poses: np.ndarray, bases: np.ndarray, n_starts: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of solutions (n, n_poses) and the largest manipulability (n, n_poses)."""
    rival, robot = Restarts.of(sampler.robot), sampler.robot
    counts, best = np.zeros((len(bases), len(poses)), dtype=int), np.zeros((len(bases), len(poses)))
    inverse = np.array([np.linalg.inv(pose_from(base[:3], rpy=(0.0, 0.0, base[3]))) for base in bases])
    targets = inverse[:, None] @ poses
    near = np.argwhere(np.linalg.norm(targets[..., :3, 3], axis=2) <= robot.reach)
    for first in range(0, len(near), PAIRS_AT_ONCE):
        pairs = near[first : first + PAIRS_AT_ONCE]
        owners = np.repeat(np.arange(len(pairs)), n_starts)
        q, reached = rival.solve(targets[tuple(pairs[owners].T)], rng)
        values = np.where(reached, robot.manipulability(q), 0.0)
        best[tuple(pairs.T)] = values.reshape(len(pairs), n_starts).max(axis=1)
        for number, pair in enumerate(pairs):
            rows = q[owners == number][reached[owners == number]]
            counts[tuple(pair)] = len(distinct(rows)) if robot.dof == 6 else len(rows)
    return counts, best


def n_confirmed(sampler: Sampler, poses: np.ndarray, found: BasePlacements, wanted: np.ndarray) -> int:
    """Return how many wanted pairs (n, n_poses) the configurations of an answer reach, according to pinocchio."""
    rival, n = Restarts.of(sampler.robot), 0
    for transform, q, some in zip(found.transforms, found.q, wanted, strict=True):
        if some.any():
            off = np.abs(transform @ rival.forward(q[some])[0] - poses[some]).max(axis=(1, 2))
            n += int((off < 3e-6).sum())
    return n


def line(name: str, method: str, spacing: float, spent: float, figures: tuple[object, ...]) -> str:
    """Return a line of the table."""
    n_bases, pairs, missed, solutions, reaching, best = figures
    head = f"{name:8}{method:20}{spacing:8.2f}{n_bases:8}{spent:9.1f}"
    return head + f"{pairs:>8}{missed:>8}{solutions:>11}{reaching:>8}{best:9.4f}"


def rows(name: str, args: argparse.Namespace) -> Iterator[str]:
    """Compare the methods for one arm."""
    rng = np.random.default_rng(args.seed)
    sampler, poses = Sampler(name), poses_on_table(args.poses, rng)
    for spacing in args.spacings:
        bases = bases_around(spacing)
        began = time.process_time()
        counts, best = brute_force(sampler, poses, bases, args.starts, rng)
        middle = time.process_time()
        found = place_base(sampler, poses, bases, n_refined=0)
        spent = middle - began, time.process_time() - middle
        order = [np.flatnonzero((bases == base).all(axis=1))[0] for base in found.bases]
        counts, best = counts[order], best[order]
        theirs, ours = counts > 0, found.reached
        worst = np.where(theirs, best, np.inf).min(axis=1)
        worst[np.isinf(worst)] = 0.0
        favourite = int(np.lexsort((worst, theirs.sum(axis=1)))[-1])
        missed = n_confirmed(sampler, poses, found, ours & ~theirs), np.count_nonzero(theirs & ~ours)
        methods = ("brute force", theirs, counts, favourite), ("sets", ours, found.n_components, 0)
        for i, (method, reached, solutions, row) in enumerate(methods):
            mean = f"{solutions[theirs & ours].mean():.3f}" if sampler.robot.dof == 6 else "-"
            figures = len(bases), reached.sum(), missed[i], mean, reached.all(axis=1).sum(), found.worst()[row]
            yield line(name, method, spacing, spent[i], figures)
    for spacing in args.refined:
        bases = bases_around(spacing)
        began = time.process_time()
        found = place_base(sampler, poses, bases)
        figures = len(bases), found.reached.sum(), "-", "-", found.reached.all(axis=1).sum(), found.worst()[0]
        yield line(name, "sets, refined", spacing, time.process_time() - began, figures)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--poses", type=int, default=6)
    parser.add_argument("--starts", type=int, default=30)
    parser.add_argument("--spacings", type=float, nargs="+", default=[0.1, 0.05])
    parser.add_argument("--refined", type=float, nargs="+", default=[0.2, 0.1])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    head = [
        f"{args.poses} poses, {args.starts} starts per pose of brute force, seed {args.seed}",
        conditions(("numpy", "pin", "eim_ros")),
        "",
        HEADER,
    ]
    print_table(head, (row for name in ROBOTS for row in rows(name, args)), args.output)


if __name__ == "__main__":
    main()
