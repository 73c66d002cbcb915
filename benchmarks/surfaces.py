"""Coverage of the solution set of arms with more than one redundant direction, compared with uniform seeds.

    python -m benchmarks.surfaces [--poses 20] [--output benchmarks/results/surfaces.txt]

The cases are eight joints (an iiwa 14 on a revolute joint), an iiwa 14 on two prismatic joints, and positions of an
iiwa 14. The truth of a pose consists of 100000 refined uniform seeds. Coverage is the share of these solutions whose
Euclidean distance from an answer is at most 0.3 or 0.6 rad (or m). The hole is the largest of these distances. The
first row is the default call without a model. The second row has the same number of solutions from restarts alone
(`diversity=0`). The third row is `refine` with as many uniform seeds as fit into the CPU time of the default call. It
returns many more solutions than requested. Times are CPU times of one thread, averaged over poses.
"""

from __future__ import annotations

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import argparse
import platform
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.spatial import cKDTree

from benchmarks._machine import load_average, processor, versions
from eim_ros.ik import Sampler
from eim_ros.kinematics import Robot, refine, share_path

N_TRUE, N_TIMED = 100_000, 2000  # number of seeds
NEAR = (0.3, 0.6)  # [rad, m]
TURNING = """<link name="root"/><joint name="turn" type="revolute"><parent link="root"/><child link="{base}"/>
<origin xyz="0 0 0.2" rpy="0.7 0 0"/><axis xyz="0 0 1"/><limit lower="-2.5" upper="2.5" effort="1" velocity="1"/>
</joint>"""
SLIDING = """<link name="root"/><link name="sledge"/>
<joint name="along_x" type="prismatic"><parent link="root"/><child link="sledge"/><axis xyz="1 0 0"/>
<limit lower="-1" upper="1" effort="1" velocity="1"/></joint>
<joint name="along_y" type="prismatic"><parent link="sledge"/><child link="{base}"/><axis xyz="0 1 0"/>
<limit lower="-1" upper="1" effort="1" velocity="1"/></joint>"""


def on(below: str) -> Robot:
    """Return an iiwa 14 mounted on other joints."""
    text, arm = share_path("urdf/iiwa14.urdf").read_text(encoding="utf-8"), Robot("iiwa14")
    return Robot(text.replace("</robot>", below.format(base=arm.base_link) + "</robot>"), arm.tip_link, base="root")


def timed(solve: Callable[[], np.ndarray]) -> tuple[np.ndarray, float]:
    began = time.process_time()
    rows = solve()
    return rows, time.process_time() - began


def measured(robot: Robot, position_only: bool, n: int, n_poses: int, seed: int) -> dict[str, np.ndarray]:
    """Return the number of solutions, milliseconds, covered shares and the hole for each method."""
    rng, sampler = np.random.default_rng(seed), Sampler(robot).with_constraints(position_only=position_only)
    figures: dict[str, list[list[float]]] = {}

    def refined(n_seeds: int, pose: np.ndarray) -> np.ndarray:
        found = refine(robot, robot.random(n_seeds, rng), pose, position_only=position_only)
        return found.positions[found.converged]

    def sampled(pose: np.ndarray, diversity: float | None) -> np.ndarray:
        answer = sampler.sample(pose, n, diversity=diversity, seed=int(rng.integers(2**31)))
        return answer.q

    for pose in robot.fk(robot.random(n_poses, rng)):
        truth = refined(N_TRUE, pose)
        sampled(pose, None), refined(N_TIMED, pose)  # warm-up
        default, seconds = timed(lambda pose=pose: sampled(pose, None))
        _, of_seeds = timed(lambda pose=pose: refined(N_TIMED, pose))
        n_seeds = max(1, int(N_TIMED * seconds / of_seeds))
        ways = {
            "default call": (default, seconds),
            "diversity=0": timed(lambda pose=pose: sampled(pose, 0.0)),
            "refine, equal time": timed(lambda pose=pose, n_seeds=n_seeds: refined(n_seeds, pose)),
        }
        for name, (rows, taken) in ways.items():
            away = cKDTree(rows).query(truth)[0] if len(rows) else np.full(len(truth), np.inf)
            figures.setdefault(name, []).append(
                [len(rows), 1e3 * taken, *(100.0 * np.mean(away <= near) for near in NEAR), away.max()]
            )
    return {name: np.mean(rows, axis=0) for name, rows in figures.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--poses", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="also write the table to this file")
    args = parser.parse_args()
    lines = [
        f"arms with more than one free direction, {args.poses} poses each, seed {args.seed}, CPU time of one thread",
        f"{processor()}, load {load_average()}; Python {platform.python_version()}; {versions(('numpy', 'scipy'))}",
        "",
        f"{'arm':<24}{'n':>7}  {'way':<26}{'solutions':>10}{'ms':>8}{'within .3':>11}{'within .6':>11}{'hole':>7}",
    ]
    print("\n".join(lines), flush=True)
    cases = {
        "8 joints": (on(TURNING), False),
        "2 sliding + 7 joints": (on(SLIDING), False),
        "iiwa 14, positions": (Robot("iiwa14"), True),
    }
    for name, (robot, position_only) in cases.items():
        for n in (100, 1000):
            for way, (n_found, ms, *shares, hole) in measured(robot, position_only, n, args.poses, args.seed).items():
                covered = "".join(f"{share:9.1f} %" for share in shares)
                lines.append(f"{name:<24}{n:>7}  {way:<26}{n_found:>10.0f}{ms:>8.2f}{covered}{hole:>7.2f}")
                print(lines[-1], flush=True)
    if args.output:
        args.output.parent.mkdir(parents=True, exist_ok=True)
        args.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
