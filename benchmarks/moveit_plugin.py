"""The solver of the MoveIt plugin compared with `Sampler`: the nearest solution, and all solutions for six joints.

    python -m benchmarks.moveit_plugin [--poses 1000] [--seed 7] [--robots panda ur5e gen3]
        [--output benchmarks/results/moveit_plugin.txt]

Poses come from forward kinematics of uniform random configurations, and states are also uniform. The solver of the
plugin is compiled without ROS and MoveIt, with the flags of the plugin. It runs on any processor, while Python selects
the module for this processor. Columns:

  solved           poses that the plugin solves, by a check with `Robot.verify`
  Python           poses that `Sampler.solve(pose, near=state)` solves
  same             poses for which all joints of both solutions agree within 1e-3
  nearer, farther  other poses for which the plugin's solution is nearer to the state, or farther, by over 1e-3
  all              poses for which both find the same number of solutions, for six joints
  us, Python       median and 99th percentile of the CPU time of a call for the nearest solution [us]
"""

from __future__ import annotations

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks._machine import conditions, print_table
from eim_ros.ik import Sampler

sys.path.append(str(Path(__file__).resolve().parents[1] / "test"))
from moveit_plugin.test_arm_solver import ENOUGH, OPTIONS, ROOT, found_by

SPEED = ("-O3", "-fno-trapping-math")  # flags of cmake/moveit_plugin.cmake that the test does not use
APART = 1e-3  # [rad]
MOST = 1000  # number of solutions at which solve.cpp ends its search for all
HEADER = (
    f"{'robot':7}{'poses':>7}{'solved':>8}{'Python':>8}{'same':>7}{'nearer':>8}{'farther':>9}{'all':>7}"
    f"{'us':>9}{'p99':>9}{'Python':>9}{'p99':>9}"
)


def compiled(folder: Path) -> Path:
    """Compile the program of the test with the flags of the plugin."""
    program = folder / "solve"
    folders = [f"-I{ROOT}/eim_ros/solver", f"-I{ROOT}/moveit_plugin"]
    source = ROOT / "test/moveit_plugin/solve.cpp"
    subprocess.run([os.environ.get("CXX", "g++"), *OPTIONS, *SPEED, *folders, source, "-o", program], check=True)
    return program


def row(program: Path, name: str, n_poses: int, seed: int) -> str:
    """Compare the answers for random poses of one arm."""
    sampler, rng = Sampler(name), np.random.default_rng(seed)
    robot = sampler.robot
    poses, states = robot.fk(robot.random(n_poses, rng)), robot.random(n_poses, rng)
    plugin = found_by(program, sampler, poses, states)
    n_solved = n_python = n_same = n_nearer = n_farther = n_alike = 0
    times = []
    for i, ((_, n_all, *q), pose, state) in enumerate(zip(plugin, poses, states, strict=True)):
        began = time.process_time()
        answer = sampler.solve(pose, near=state, seed=i, timeout=ENOUGH)
        times.append(1e6 * (time.process_time() - began))
        n_python += bool(answer)
        n_alike += robot.dof == 6 and n_all == len(sampler.sample(pose, MOST, seed=i, timeout=ENOUGH))
        if not q:
            continue
        in_range = np.where(robot.continuous, (np.array(q) + np.pi) % (2.0 * np.pi) - np.pi, q)
        n_solved += bool(robot.verify(in_range, pose)[1].all())
        if not answer:
            continue
        is_same = np.abs(answer[0] - q).max() < APART
        excess = np.linalg.norm(np.subtract(q, state)) - np.linalg.norm(answer[0] - state)
        n_same += is_same
        n_nearer += not is_same and excess < -APART
        n_farther += not is_same and excess > APART
    measures = [measure(of) for of in ([line[0] for line in plugin], times) for measure in (np.median, late)]
    return (
        f"{name:7}{n_poses:>7}{n_solved:>8}{n_python:>8}{n_same:>7}{n_nearer:>8}{n_farther:>9}"
        f"{n_alike if robot.dof == 6 else '-':>7}" + "".join(f"{value:>9.0f}" for value in measures)
    )


def late(times: list[float]) -> float:
    """Return the 99th percentile."""
    return float(np.quantile(times, 0.99))


def main() -> None:
    """Compile the program, and print a row for each robot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--poses", type=int, default=1000, help="number of poses of each robot")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--robots", nargs="+", default=["panda", "ur5e", "gen3"], metavar="NAME")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        program = compiled(Path(folder))
        head = [conditions(["numpy", "pin"]), f"seed {args.seed}", HEADER]
        print_table(head, (row(program, name, args.poses, args.seed) for name in args.robots), args.output)


if __name__ == "__main__":
    main()
