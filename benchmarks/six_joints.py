"""Arms with six joints: cost and completeness of all solutions of a pose, compared with EAIK and ssik.

    python -m benchmarks.six_joints [--poses 100000] [--judged 100] [--output benchmarks/results/six_joints.txt]

The arms are three UR arms, a Puma, two industrial arms with their published lengths, and random arms of each kind with
a closed form (test/kinematics/six_joint_arms.py). Poses come from forward kinematics of uniform random configurations.
Columns:

  lost      number of poses where the generating configuration is not among the roots (0.01 rad); for singular poses,
            this configuration is one of infinitely many
  missed    number of judged poses where 10000 refined seeds (1e-9 m and rad) find a solution that we do not find
  unseen    number of our solutions that no seed finds; all of our solutions are verified
  solve_all CPU time of the default call for all solutions, including those that differ by revolutions [us]
  roots     CPU time of the call for all polished roots, of EAIK's call and of ssik's generated solver [us]
  EAIK      number of poses where EAIK returns fewer solutions than we do, and of wrong answers that are not marked

Times are minimum CPU times on one thread over five rounds, in which the solvers take turns.
"""

from __future__ import annotations

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import argparse
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks._machine import processor, versions
from benchmarks._peers import Case, eaik_solver, ssik_artifact
from eim_ros.core.files import write_atomically
from eim_ros.ik import Sampler
from eim_ros.kinematics import Robot, refine

sys.path.append(str(Path(__file__).resolve().parents[1] / "test"))
from kinematics.six_joint_arms import KINDS, URDFS, random_arm

DIFFERENT = 0.01  # smallest distance between distinct solutions [rad]
RIGHT = 1e-6  # tolerance of the position [m] and of the rotation's entries
TIMED, ROUNDS, N_SEEDS = 300, 5, 10_000
WAYS = ("solve_all", "roots", "EAIK", "ssik")
FINE = {"position_tolerance": 1e-9, "orientation_tolerance": 1e-9}


def away(rows: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return the largest difference of a joint on the circle [rad]."""
    return np.abs((rows - q + np.pi) % (2.0 * np.pi) - np.pi).max(axis=-1)


def different(rows: np.ndarray) -> int:
    kept: list[np.ndarray] = []
    for row in rows:
        if not kept or away(np.array(kept), row).min() > DIFFERENT:
            kept.append(row)
    return len(kept)


def compared_with_eaik(robot: Robot, poses: np.ndarray) -> str:
    try:
        solve = eaik_solver(robot)
    except ImportError:
        return "not installed"
    if solve is None:
        return "none"
    fewer = wrong = 0
    for pose in poses:
        rows, is_marked = solve(pose)
        off = np.abs(robot.fk(rows) - pose).max(axis=(1, 2)) if len(rows) else np.empty(0)
        wrong += int(((off > RIGHT) & ~is_marked).sum())
        roots = robot.closed_form.roots(robot.chain, robot.task(pose), DIFFERENT)
        fewer += different(rows[off <= RIGHT]) < len(roots)
    return f"{fewer} fewer, {wrong} wrong"


def least_times(ways: dict[str, Callable[[np.ndarray], object]], poses: np.ndarray) -> dict[str, float]:
    """Return the time of a call [us]."""
    times = dict.fromkeys(ways, np.inf)
    for _ in range(ROUNDS):
        for name, way in ways.items():
            began = time.process_time_ns()
            for pose in poses:
                way(pose)
            times[name] = min(times[name], 1e-3 * (time.process_time_ns() - began) / len(poses))
    return times


def times_of(robot: Robot, urdf: str, poses: np.ndarray) -> dict[str, float]:
    sampler, form = Sampler(robot), robot.closed_form
    tasks = {pose.tobytes(): robot.task(pose) for pose in poses}
    ways: dict[str, Callable[[np.ndarray], object]] = {
        "solve_all": sampler.solve_all,
        "roots": lambda pose: form.roots(robot.chain, tasks[pose.tobytes()], DIFFERENT),
    }
    try:
        if solve := eaik_solver(robot):
            ways["EAIK"] = solve
    except ImportError:
        pass
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "arm.urdf")
            path.write_text(urdf, encoding="utf-8")
            arm = ssik_artifact(Case(robot, path, (RIGHT, RIGHT)))
            arm.solve(poses[0])
            ways["ssik"] = arm.solve
    except Exception as error:  # a peer may reject an arm for any reason
        print(f"ssik: {type(error).__name__}: {' '.join(str(error).split())[:100]}", file=sys.stderr)
    return least_times(ways, poses)


def row(name: str, urdf: str, n_poses: int, n_judged: int) -> str:
    robot, rng = Robot(urdf), np.random.default_rng(11)
    configurations = robot.random(n_poses, rng)
    poses = robot.fk(configurations)
    chain, form = robot.chain, robot.closed_form
    lost, counts = 0, np.zeros(17, dtype=int)
    for q, pose in zip(configurations, poses, strict=True):
        roots = form.roots(chain, robot.task(pose), DIFFERENT).positions
        lost += not len(roots) or away(roots, q).min() > DIFFERENT
        counts[len(roots)] += 1
    missed = unseen = 0
    for pose in poses[:n_judged]:
        roots = form.roots(chain, robot.task(pose), DIFFERENT).positions
        refined = refine(robot, robot.random(N_SEEDS, rng), pose, **FINE)
        found = refined.positions[refined.converged]
        missed += bool(np.min([away(found, root) for root in roots], axis=0).max(initial=0.0) > DIFFERENT)
        unseen += sum(away(found, root).min(initial=np.inf) > DIFFERENT for root in roots)
    times = times_of(robot, urdf, poses[:TIMED])
    timed = " " + "".join(f"{times[way]:9.1f}" if way in times else f"{'-':>9}" for way in WAYS)
    mean = (counts @ np.arange(len(counts))) / n_poses
    found_out = f"{name:28}{mean:6.2f}{lost:6d}{f'{missed}/{n_judged}':>9}{unseen:8d}"
    return f"{found_out}{timed}      {compared_with_eaik(robot, poses[:TIMED])}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--poses", type=int, default=100_000, help="number of poses of each real arm (default %(default)s)"
    )
    parser.add_argument(
        "--judged",
        type=int,
        default=100,
        help="number of poses of each arm that are judged by refined seeds (default %(default)s)",
    )
    parser.add_argument(
        "--random", type=int, default=2, help="number of random arms of each kind, which get a tenth of the poses"
    )
    parser.add_argument("--output", type=Path, help="also write the table to this file")
    args = parser.parse_args()
    lines = [
        f"all solutions of arms of six joints, {args.poses} poses each ({args.poses // 10} of random arms), seed 11",
        f"{processor()}; Python {platform.python_version()}; {versions(('EAIK', 'ssik', 'numpy'))}",
        "",
        f"{'arm':28}{'roots':>6}{'lost':>6}{'missed':>9}{'unseen':>8}{'solve_all':>10}{'roots':>9}{'EAIK':>9}"
        f"{'ssik':>9} us   EAIK, {TIMED} poses",
    ]
    print("\n".join(lines), flush=True)
    cases = [(name, urdf, args.poses, args.judged) for name, urdf in URDFS.items()]
    cases += [
        (f"{kind}, {seed}", random_arm(kind, seed), args.poses // 10, args.judged // 5)
        for kind in KINDS
        for seed in range(args.random)
    ]
    for case in cases:
        lines.append(row(*case))
        print(lines[-1], flush=True)
    if args.output:
        write_atomically(args.output, ("\n".join(lines) + "\n").encode())


if __name__ == "__main__":
    main()
