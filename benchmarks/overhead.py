"""Cost of the calls of `Sampler` compared with the solver that answers them.

    python -m benchmarks.overhead [--poses 500] [--seed 11] [--arms UR5] [--output benchmarks/results/overhead.txt]

Poses come from forward kinematics of uniform random configurations. References for `near` are also uniform random
configurations. Columns are median CPU times of a call on one thread [us], with the 99th percentile in brackets:

  solver     the compiled call that the answer needs: a root of a closed form, or one solution by restarts
  solve      `Sampler.solve(pose)` of a transform (4, 4)
  list       the same for a list x y z qx qy qz qw
  limits     `Sampler.with_constraints(limits=...)`
  n = 1 ...  `Sampler.sample(pose, n)`
  near       `Sampler.solve(pose, near=q)`
  near, 1    `Sampler.sample(pose, 1, near=q)`
  all        `Sampler.solve_all(pose)`
  batch      `Sampler.stream(poses, Sampler.solve_all)`, for each pose

The last columns are ratios: `solve` to its solver, and n = 1 to n = 8.
"""

from __future__ import annotations

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks._machine import conditions, cpu_times, print_table
from eim_ros.ik import Sampler
from eim_ros.kinematics import Robot, quaternion_from_matrix
from eim_ros.solver import Patience, StepOptions, solve_poses

sys.path.append(str(Path(__file__).resolve().parents[1] / "test"))
from kinematics.six_joint_arms import URDFS
from kinematics.six_revolute_arms import ARMS

FloatArray = npt.NDArray[np.float64]

INCLUDED = ("ur5e", "panda", "iiwa14")
NAMES = ("UR5, off by 1e-06", "UR5, off by 0.0001", "UR5, off by 0.001", "Jaco 2", "xArm6", "Gen3 lite", "CRX-10iA")
COUNTS = (1, 2, 7, 8, 16)
SAME = 1e-6  # distance below which two solutions count as the same [rad]
N_WARM, N_BLOCK, N_RESTARTS = 20, 100, 3000
COLUMNS = ("solver", "solve", "list", "limits", *(f"n = {n}" for n in COUNTS), "near", "near, 1", "all", "batch")


def arms() -> dict[str, Robot]:
    """Return the arms by name: included arms with their limits, and published arms with limits of +-pi."""
    urdfs = {"UR5": URDFS["UR5"], **{name: ARMS[name] for name in NAMES}}
    urdfs["spherical wrist, off by 1e-4"] = ARMS["spherical wrist, off by 1e-4"]
    urdfs |= {name: urdf for name, urdf in ARMS.items() if name.startswith("random axes")}
    return {name: Robot(urdf) for name, urdf in urdfs.items()} | {name: Robot(name) for name in INCLUDED}


def solver(robot: Robot, poses: FloatArray) -> Callable[[int], object]:
    """Return the compiled call that solves the i-th of the poses."""
    chain, form, task, never = robot.chain, robot.closed_form, robot.task(np.eye(4)), np.inf
    if form is not None:
        options = SAME, False, None, None, 1, never, 1
        return lambda i: form.solutions(chain, task, poses[i : i + 1], *options, [(0.618 * i) % 1.0])
    patience = Patience(np.zeros(3), never, N_RESTARTS, N_RESTARTS)
    effort, numbers = StepOptions(1e-6, 1e-6, 60, 3), np.arange(len(poses), dtype=np.uint64)

    def solve(i: int) -> object:
        return solve_poses(chain, task, effort, poses[i : i + 1], numbers[i : i + 1], patience, 1, 0.01, 1, never)

    return solve


def times(robot: Robot, n_poses: int, seed: int) -> dict[str, FloatArray]:
    """Return the CPU times [us] of all calls by column."""
    rng, sampler = np.random.default_rng(seed), Sampler(robot)
    poses, near = robot.fk(robot.random(n_poses, rng)), robot.random(n_poses, rng)
    lists = [[*pose[:3, 3].tolist(), *quaternion_from_matrix(pose).tolist()] for pose in poses]
    limits = {robot.joint_names[0]: (-0.5, 0.5)}
    calls: dict[str, Callable[[int], object]] = {
        "solver": solver(robot, poses),
        "solve": lambda i: sampler.solve(poses[i]),
        "list": lambda i: sampler.solve(lists[i]),
        "limits": lambda i: sampler.with_constraints(limits=limits),
        "near": lambda i: sampler.solve(poses[i], near=near[i]),
        "near, 1": lambda i: sampler.sample(poses[i], 1, near=near[i]),
        "all": lambda i: sampler.solve_all(poses[i]),
    }
    for n in COUNTS:
        calls[f"n = {n}"] = lambda i, n=n: sampler.sample(poses[i], n)  # type: ignore[misc]
    found = {name: cpu_times(call, n_poses) for name, call in calls.items()}

    def block(i: int) -> None:
        first = N_BLOCK * i % max(n_poses - N_BLOCK + 1, 1)
        some = poses[first : first + N_BLOCK]
        for _ in sampler.stream(some, Sampler.solve_all, n_threads=1, timeout=100.0):
            pass

    found["batch"] = cpu_times(block, max(n_poses // N_BLOCK, 5)) / min(n_poses, N_BLOCK)
    return found


def row(name: str, robot: Robot, n_poses: int, seed: int) -> str:
    """Return the row of an arm."""
    found = times(robot, n_poses, seed)
    middle = {column: float(np.median(each)) for column, each in found.items()}
    cells = (f"{middle[column]:.0f} ({np.percentile(found[column], 99):.0f})" for column in COLUMNS)
    ratios = middle["solve"] / middle["solver"], middle["n = 1"] / middle["n = 8"]
    return f"{name:30}" + "".join(f"{cell:>12}" for cell in cells) + "".join(f"{ratio:8.2f}" for ratio in ratios)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--poses", type=int, default=500, help="number of poses of each arm (default %(default)s)")
    parser.add_argument("--seed", type=int, default=11, help="seed of the poses (default %(default)s)")
    parser.add_argument("--arms", help="measure only arms whose names contain this text")
    parser.add_argument("--output", type=Path, help="also write the table to this file")
    args = parser.parse_args()
    head = [
        f"calls of Sampler next to their solver; {args.poses} poses of each arm; seed {args.seed}; CPU times [us]",
        conditions(("numpy", "pin")),
        "",
        f"{'arm':30}" + "".join(f"{column:>12}" for column in COLUMNS) + f"{'solve':>8}{'1 to 8':>8}",
    ]
    rows = (
        row(name, robot, args.poses, args.seed)
        for name, robot in arms().items()
        if args.arms is None or args.arms in name
    )
    print_table(head, rows, args.output)


if __name__ == "__main__":
    main()
