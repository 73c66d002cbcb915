"""Arms with six revolute joints and no special geometry: cost, completeness and lost roots of all solutions of a pose.

    python -m benchmarks.general_6r [--poses 5000] [--judged 20] [--seed 11]
        [--output benchmarks/results/general_6r.txt]

The arms are a UR5, the same with frames off by small amounts as a calibration gives them, arms from published
parameters, a spherical wrist that is slightly off, and random axes (test/kinematics/six_revolute_arms.py). Poses come
from forward kinematics of uniform random configurations. Columns:

  prepared  time to choose the order of eliminations, once for each arm [ms]
  roots     mean number of roots of a pose
  complete  share of poses whose roots are known to be complete
  lost      number of poses where the generating configuration is not among the roots (1e-5 rad), and how many of these
            were reported complete
  special   the same for configurations on a grid of 15 degrees; singular ones do not count as lost
  seeds     number of judged poses where refined seeds (1e-9 m and rad) find a root that we do not have, and how many of
            these were reported complete
  call      CPU time of the call for all roots of one pose, median and 99th percentile [us]
  batch     CPU time of a pose in a call for all poses [us]
  solve_all CPU time of the default call for all solutions, median [us]

Times are CPU times on one thread.
"""

from __future__ import annotations

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks._machine import conditions, cpu_times, print_table
from eim_ros.ik import Sampler
from eim_ros.kinematics import Robot

sys.path.append(str(Path(__file__).resolve().parents[1] / "test"))
from kinematics.six_joint_arms import URDFS
from kinematics.six_revolute_arms import ARMS, random_axes

FloatArray = npt.NDArray[np.float64]

SAME = 1e-5  # distance below which solutions count as one [rad]
REGULAR = 1e-4  # least singular value of the Jacobian of a regular configuration
N_SEEDS, N_AT_ONCE = 40_000, 10_000
TIMED = 1000  # poses
N_RANDOM = 10
FINE = 1e-9  # tolerance of refined seeds [m, rad]
GRID = np.pi / 12.0
HEADER = (
    f"{'arm':30}{'prepared':>9}{'roots':>7}{'complete':>10}{'lost':>8}{'special':>9}{'':>10}{'seeds':>7}"
    f"{'call':>8}{'p99':>7}{'batch':>7}{'solve_all':>11}"
)


def away(rows: FloatArray, q: FloatArray) -> FloatArray:
    """Return the largest difference of a joint on the circle [rad]."""
    return np.asarray(np.abs((rows - q + np.pi) % (2.0 * np.pi) - np.pi).max(axis=-1))


class Arm:
    """An arm and the calls that are measured."""

    def __init__(self, urdf: str) -> None:
        self.robot = Robot(urdf)
        began = time.process_time()
        form = self.robot.closed_form
        self.prepared = time.process_time() - began
        if form is None:
            raise SystemExit("this arm has no closed form")
        self.form = form

    def roots(self, pose: FloatArray) -> tuple[FloatArray, bool]:
        """Return the roots of a pose, and whether they are complete."""
        found = self.form.roots(self.robot.chain, self.robot.task(pose), SAME)
        return found.positions, found.is_complete and not found.is_singular

    def lost(self, configurations: FloatArray) -> tuple[int, int, int, int]:
        """Return the number of roots, complete poses, lost configurations, and lost ones that were said complete."""
        n_roots = n_complete = n_lost = n_false = 0
        for q, pose in zip(configurations, self.robot.fk(configurations), strict=True):
            roots, is_complete = self.roots(pose)
            n_roots += len(roots)
            n_complete += is_complete
            if not len(roots) or away(roots, q).min() > SAME:
                jacobian = self.robot.jacobian(q[None])[0]
                is_lost = np.linalg.svd(jacobian, compute_uv=False)[-1] > REGULAR
                n_lost += is_lost
                n_false += is_lost and is_complete
        return n_roots, n_complete, n_lost, n_false

    def judged(self, poses: FloatArray, rng: np.random.Generator) -> tuple[int, int]:
        """Return the number of poses where seeds find more, and how many of them were reported complete."""
        n_missing = n_false = 0
        for pose in poses:
            roots, is_complete = self.roots(pose)
            is_missing = False
            for _ in range(N_SEEDS // N_AT_ONCE):
                refined = self.robot.refine(
                    self.robot.random(N_AT_ONCE, rng), pose, position_tolerance=FINE, orientation_tolerance=FINE
                )
                found = refined.positions[refined.converged]
                nearest = np.min([away(found, root) for root in roots], axis=0) if len(roots) else np.ones(len(found))
                is_missing |= bool(nearest.max(initial=0.0) > 1e-3)  # seeds end before they are exact where roots meet
            n_missing += is_missing
            n_false += is_missing and is_complete
        return n_missing, n_false

    def times(self, poses: FloatArray) -> tuple[float, float, float, float]:
        """Return the median and 99th percentile of a call, the time of a pose in a batch, and of `solve_all` [us]."""
        robot, form, sampler = self.robot, self.form, Sampler(self.robot)
        tasks = [robot.task(pose) for pose in poses]
        calls = cpu_times(lambda i: form.roots(robot.chain, tasks[i], SAME), len(poses))
        batch = cpu_times(lambda _: form.solutions(robot.chain, tasks[0], poses, SAME), 5) / len(poses)
        everything = cpu_times(lambda i: sampler.solve_all(poses[i]), len(poses))
        return (
            float(np.median(calls)),
            float(np.percentile(calls, 99)),
            float(np.median(batch)),
            float(np.median(everything)),
        )


def row(name: str, urdf: str, n_poses: int, n_judged: int, seed: int) -> str:
    """Return the row of an arm."""
    arm, rng = Arm(urdf), np.random.default_rng(seed)
    configurations = arm.robot.random(n_poses, rng)
    n_roots, n_complete, n_lost, n_false = arm.lost(configurations)
    special = np.asarray(GRID * rng.integers(-12, 13, (max(n_poses // 5, 1), 6)), dtype=np.float64)
    _, n_special, n_special_lost, n_special_false = arm.lost(special)
    poses = arm.robot.fk(configurations)
    n_missing, n_missing_false = arm.judged(poses[:n_judged], rng)
    call, slow, batch, everything = arm.times(poses[:TIMED])
    return (
        f"{name:30}{1e3 * arm.prepared:9.0f}{n_roots / n_poses:7.2f}{100.0 * n_complete / n_poses:9.2f}%"
        f"{f'{n_lost} ({n_false})':>8}{f'{n_special_lost} ({n_special_false})':>9}"
        f"{100.0 * n_special / len(special):9.1f}%{f'{n_missing} ({n_missing_false})':>7}"
        f"{call:8.1f}{slow:7.0f}{batch:7.1f}{everything:11.0f}"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--poses", type=int, default=5000, help="of each arm (default %(default)s)")
    parser.add_argument("--judged", type=int, default=20, help="of these, by refined seeds (default %(default)s)")
    parser.add_argument("--seed", type=int, default=11, help="of the poses (default %(default)s)")
    parser.add_argument("--arms", help="only arms whose names contain this")
    parser.add_argument("--output", type=Path, help="file for the table, as well")
    args = parser.parse_args()
    head = [
        f"all roots of arms of six revolute joints; {args.poses} poses each, a fifth as many on the grid; "
        f"seed {args.seed}; {args.judged} poses judged by {N_SEEDS} seeds",
        conditions(("numpy", "pin")),
        "in brackets: lost although reported complete; special: lost, and share complete; times [us], prepared [ms]",
        "",
        HEADER,
    ]
    arms = {"UR5": URDFS["UR5"], **ARMS}
    arms |= {f"random axes, {seed}": random_axes(seed) for seed in range(N_RANDOM)}
    rows = (
        row(name, urdf, args.poses, args.judged, args.seed)
        for name, urdf in arms.items()
        if args.arms is None or args.arms in name
    )
    print_table(head, rows, args.output)


if __name__ == "__main__":
    main()
