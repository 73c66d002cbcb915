"""Arms with sliding joints, and with four and five joints: completeness and cost of `Sampler.solve_all`.

    python -m benchmarks.slides [--poses 100] [--judged 20] [--seed 11] [--output benchmarks/results/slides.txt]

The arms are from test/kinematics/slide_arms.py. Poses come from forward kinematics of uniform random configurations
within the limits. Tasks are complete poses, and poses with a free roll about the z axis of the tool. Columns:

  found     mean number of solutions of a pose
  complete  share of poses whose answer is known to be complete
  proven    share of poses whose answer is certified, if certificates are requested; "-" if they are not available
  lost      number of poses where the generating configuration is not in the answer, and how many of these were
            reported complete; singular configurations do not count
  seeds     number of judged poses where 4000 refined seeds find a solution that is not in the answer, and how many of
            these were reported complete
  unseen    number of solutions of judged poses that no seed finds; all were verified
  median    CPU time of a call [ms], and its 99th percentile

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

from benchmarks._machine import conditions, print_table
from eim_ros.core.errors import ConfigurationError
from eim_ros.ik import Sampler
from eim_ros.kinematics import Robot, refine
from eim_ros.kinematics.tolerances import TaskOptions

sys.path.append(str(Path(__file__).resolve().parents[1] / "test"))
from kinematics.slide_arms import FREE_ROLL, SHORT, SLIDING

FloatArray = npt.NDArray[np.float64]

# distance below which two solutions count as the same [rad, m]; solutions within 1e-6 of a pose may be 1e-3 apart
SAME = 0.02
REGULAR = 1e-3  # smallest singular value of the Jacobian at a regular configuration
N_SEEDS = 4000
PRECISE = 1e-9  # tolerance of refined seeds [m, rad]
HEADER = (
    f"{'arm':34}{'task':>6}{'found':>7}{'complete':>10}{'proven':>8}{'lost':>9}{'seeds':>9}{'unseen':>8}"
    f"{'median':>9}{'p99':>8}"
)


class Case:
    """An arm and a task."""

    def __init__(self, urdf: str, is_roll_free: bool) -> None:
        self.robot = Robot(urdf)
        self.asked: TaskOptions = {"tolerances": FREE_ROLL} if is_roll_free else {}
        sampler = Sampler(self.robot)
        self.sampler = sampler.with_constraints(**self.asked) if is_roll_free else sampler

    def away(self, rows: FloatArray, q: FloatArray) -> FloatArray:
        """Return the largest difference of a joint. Revolute joints are compared on the circle."""
        off = rows - q
        return np.asarray(
            np.abs(np.where(self.robot.prismatic, off, (off + np.pi) % (2.0 * np.pi) - np.pi)).max(axis=-1)
        )

    def is_regular(self, q: FloatArray, pose: FloatArray) -> bool:
        """Return whether the solution is isolated, because the Jacobian of the task has full column rank."""
        jacobian = self.robot.jacobian(q[None])[0]
        if self.asked:  # rotation about the z axis of the target is free
            jacobian = np.vstack([jacobian[:3], pose[:3, :2].T @ jacobian[3:]])
        return bool(np.linalg.svd(jacobian, compute_uv=False)[-1] > REGULAR)

    def judged(self, pose: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return distinct regular solutions that refined seeds find."""
        errors = {"position_tolerance": PRECISE, "orientation_tolerance": PRECISE}
        refined = refine(self.robot, self.robot.random(N_SEEDS, rng), pose, **errors, **self.asked)  # type: ignore[arg-type]
        kept: list[FloatArray] = []
        for q in refined.positions[refined.converged]:
            if self.is_regular(q, pose) and (not kept or self.away(np.array(kept), q).min() > SAME):
                kept.append(q)
        return np.array(kept).reshape(-1, self.robot.dof)

    def is_proven(self, pose: FloatArray) -> bool | None:
        """Return whether an answer is certified on request, or None if certificates are not available."""
        try:
            report = self.sampler.solve_all(pose, guarantee="certified").completeness
            return report is not None and report.certified
        except ConfigurationError:
            return None


def row(name: str, urdf: str, is_roll_free: bool, n_poses: int, n_judged: int, seed: int) -> str:
    """Return the row of an arm and a task."""
    case, rng = Case(urdf, is_roll_free), np.random.default_rng(seed)
    configurations = case.robot.random(n_poses, rng)
    poses = case.robot.fk(configurations)
    if is_roll_free:  # turned by a random angle
        angles = rng.uniform(-np.pi, np.pi, n_poses)
        turns = np.tile(np.eye(4), (n_poses, 1, 1))
        turns[:, 0, 0] = turns[:, 1, 1] = np.cos(angles)
        turns[:, 1, 0], turns[:, 0, 1] = np.sin(angles), -np.sin(angles)
        poses = poses @ turns
    case.sampler.solve_all(poses[0], seed=0)  # not measured, because it prepares the arm
    n_found = n_complete = n_lost = n_false = n_missing = n_missing_false = n_unseen = 0
    times = np.empty(n_poses)
    proofs: list[bool | None] = []
    for i, (q, pose) in enumerate(zip(configurations, poses, strict=True)):
        began = time.process_time()
        found = case.sampler.solve_all(pose, seed=0)
        times[i] = time.process_time() - began
        is_complete = found.completeness is not None and found.completeness.is_complete
        n_found, n_complete = n_found + len(found), n_complete + is_complete
        if (not len(found) or case.away(found.q, q).min() > SAME) and case.is_regular(q, pose):
            n_lost, n_false = n_lost + 1, n_false + is_complete
        if i < n_judged:
            seen = case.judged(pose, rng)
            is_missing = any(not len(found) or case.away(found.q, other).min() > SAME for other in seen)
            n_missing, n_missing_false = n_missing + is_missing, n_missing_false + (is_missing and is_complete)
            n_unseen += sum(not len(seen) or case.away(seen, other).min() > SAME for other in found.q)
            proofs.append(case.is_proven(pose))
    proven = "-" if None in proofs else f"{100.0 * np.mean(np.array(proofs, dtype=np.float64)):.0f}%"
    return (
        f"{name:34}{'roll' if is_roll_free else 'pose':>6}{n_found / n_poses:7.2f}{100.0 * n_complete / n_poses:9.1f}%"
        f"{proven:>8}{f'{n_lost} ({n_false})':>9}{f'{n_missing} ({n_missing_false})':>9}{n_unseen:8}"
        f"{1e3 * np.median(times):9.2f}{1e3 * np.percentile(times, 99):8.2f}"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--poses", type=int, default=100, help="number of poses of each arm (default %(default)s)")
    parser.add_argument(
        "--judged",
        type=int,
        default=20,
        help="number of poses of each arm that are judged by refined seeds (default %(default)s)",
    )
    parser.add_argument("--seed", type=int, default=11, help="seed of the poses (default %(default)s)")
    parser.add_argument("--arms", help="measure only arms whose names contain this text")
    parser.add_argument("--output", type=Path, help="also write the table to this file")
    args = parser.parse_args()
    head = [
        f"solve_all; {args.poses} poses of each arm, seed {args.seed}; {args.judged} judged by {N_SEEDS} seeds",
        conditions(("numpy", "pin")),
        "in brackets: lost or missing although reported complete; times [ms]",
        "",
        HEADER,
    ]
    cases = [(name, urdf, False) for name, urdf in (SLIDING | SHORT).items()]
    cases += [(name, SHORT[name], True) for name in SHORT if name.startswith("RRRR")]
    rows = (
        row(name, urdf, is_roll_free, args.poses, args.judged, args.seed)
        for name, urdf, is_roll_free in cases
        if args.arms is None or args.arms in name
    )
    print_table(head, rows, args.output)


if __name__ == "__main__":
    main()
