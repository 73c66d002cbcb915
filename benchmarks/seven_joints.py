"""Arms with seven revolute joints: the share of poses whose solutions are proven complete, cost, and a check.

    python -m benchmarks.seven_joints [--poses 100] [--random 20] [--judged 10] [--seed 21]
        [--output benchmarks/results/seven_joints.txt]

Each call is `solve_all(pose, guarantee="certified")`, with solutions at most 0.3 rad apart along their curves. Poses
come from forward kinematics of uniform random configurations. Random arms have random axes and limits of +-2.9 rad.
Each random arm has a fifth of the poses. The arm "panda 1e-05" is a calibrated arm, where the frame of each joint is
off by up to 1e-5 m along and 1e-5 rad about its axes. Columns:

  form        proof of completeness: a closed form with one joint as parameter, or elimination. Elimination is tried
              after a nominal arm in closed form, if there is one
  prepared    CPU time to prepare the arm, once [ms]
  components  mean number of self-motion components
  proven      share of poses whose answers are certified
  median ...  CPU time of a call on one thread [ms]
  judged      number of proven poses that refined seeds judge, and how many of these have solutions farther than
              0.05 rad from an answer with solutions at most 0.04 rad apart
  special     number of proven poses of configurations with special angles, as in `benchmarks.invariants`, and how many
              of their answers lack the configuration. These calls may take 0.05 s
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
from scipy.spatial import cKDTree

from benchmarks._machine import conditions, print_table
from benchmarks.invariants import lacks, special_configuration
from eim_ros.ik import Sampler
from eim_ros.kinematics import Robot, refine

sys.path.append(str(Path(__file__).resolve().parents[1] / "test"))
from kinematics.descriptions import chain_urdf, joint
from kinematics.seven_revolute_arms import calibrated, random_seven

FloatArray = npt.NDArray[np.float64]

SPACING, DENSE, MISSED = 0.3, 0.04, 0.05  # [rad]
N_SEEDS = 4000
TIMEOUT = 20.0  # [s]
SHORT = 0.05  # timeout for special configurations [s]
SHIPPED = ("panda", "iiwa14", "xarm7", "gen3", "sawyer", "fetch")
OFF = ("1e-06", "1e-05", "0.0001", "0.001")  # [m], [rad]: errors of the frames of calibrated arms
CALIBRATED = tuple(f"{name} {off}" for name in ("panda", "iiwa14") for off in OFF)
RIZON = (  # Flexiv Rizon 4: origin [m], rotation [rad], axis, limits [rad] of each joint
    ("0 0 0.155", f"0 0 {np.pi}", "0 0 1", 2.8798, -2.8798),
    ("0 0.03 0.21", "0 0 0", "0 1 0", 2.3562, -2.3562),
    ("0 0.035 0.205", "0 0 0", "0 0 1", 3.0543, -3.0543),
    ("-0.02 -0.03 0.19", f"0 0 {np.pi}", "0 1 0", 2.7751, -1.9548),
    ("-0.02 0.025 0.195", f"0 0 {np.pi}", "0 0 1", 3.0543, -3.0543),
    ("0 0.03 0.19", "0 0 0", "0 1 0", 4.6251, -1.4835),
    ("-0.015 0.073 0.11", f"0 {-np.pi / 2} 0", "0 0 1", 3.0543, -3.0543),
)
HEADER = (
    f"{'arm':14}{'form':>13}{'prepared':>10}{'components':>12}{'proven':>8}{'median':>9}{'p90':>8}{'p99':>8}{'max':>8}"
    f"{'judged':>9}{'special':>12}"
)


def arm_named(name: str) -> Robot:
    """Return an arm. Fetch's arm is returned without its torso, which is a prismatic joint."""
    if name == "rizon4":
        joints = (
            f'<origin xyz="{xyz}" rpy="{rpy}"/><axis xyz="{axis}"/>'
            f'<limit lower="{lower}" upper="{upper}" effort="1" velocity="1"/>'
            for xyz, rpy, axis, upper, lower in RIZON
        )
        return Robot(
            chain_urdf(*(joint(f"j{i}", "revolute", f"l{i}", f"l{i + 1}", extra) for i, extra in enumerate(joints)))
        )
    if name in CALIBRATED:
        nominal, off = name.split()
        return calibrated(Robot(nominal), float(off))
    if name.startswith("random"):
        return Robot(random_seven(int(name.split()[-1])))
    return Robot(name, base="torso_lift_link") if name == "fetch" else Robot(name)


def on_circles(robot: Robot, q: FloatArray) -> FloatArray:
    """Return configurations in which the sine and the cosine replace the angle of each continuous joint."""
    circles = [np.sin(q[:, robot.continuous]), np.cos(q[:, robot.continuous])]
    return np.concatenate([q[:, ~robot.continuous], *circles], axis=1)


def has_missed(sampler: Sampler, pose: FloatArray, rng: np.random.Generator) -> bool:
    """Return whether refined seeds lead to solutions that are far from a dense answer."""
    robot = sampler.robot
    answer = sampler.solve_all(pose, DENSE, guarantee="certified", seed=0, timeout=TIMEOUT, max_solutions=100_000)
    refined = refine(robot, robot.random(N_SEEDS, rng), pose)
    found = refined.positions[refined.converged]
    if not answer.certified or not len(found):
        return False
    if not answer:
        return True
    tree = cKDTree(on_circles(robot, answer.q[answer.valid]))
    return bool(tree.query(on_circles(robot, found))[0].max() > MISSED)


def special(sampler: Sampler, count: int, seed: int) -> tuple[int, int]:
    """Return how many answers for special configurations are proven, and how many of them lack the configuration."""
    rng, n_proven, n_lacking = np.random.default_rng(seed), 0, 0
    for i in range(count):
        q = special_configuration(rng, sampler.robot)
        options = {"max_spacing": SPACING, "timeout": SHORT, "max_solutions": 10_000, "seed": i}
        answer = sampler.solve_all(sampler.robot.fk(q), guarantee="certified", **options)
        n_proven += answer.certified
        n_lacking += answer.certified and lacks(sampler.robot, answer, q)
    return n_proven, n_lacking


def row(name: str, n_poses: int, n_judged: int, n_special: int, seed: int) -> str:
    """Return the row of an arm."""
    robot = arm_named(name)
    sampler, rng = Sampler(robot), np.random.default_rng(seed)
    began = time.process_time()
    form = "closed form" if robot.parameterised_form else "elimination" if robot.general_7r else "none"
    prepared = time.process_time() - began
    times, counts, proven = np.empty(n_poses), [], []
    poses = robot.fk(robot.random(n_poses + 1, rng))
    sampler.solve_all(poses[-1], SPACING, guarantee="certified", seed=0, timeout=TIMEOUT)
    for i, pose in enumerate(poses[:-1]):
        began = time.process_time()
        answer = sampler.solve_all(pose, SPACING, guarantee="certified", seed=i, timeout=TIMEOUT)
        times[i] = time.process_time() - began
        counts.append(answer.completeness.n_components)
        proven.append(answer.certified)
    judged = poses[:-1][proven][:n_judged]
    n_missed = sum(has_missed(sampler, pose, rng) for pose in judged)
    n_proven, n_lacking = special(sampler, n_special, seed)
    quantiles = "".join(f"{1e3 * x:8.1f}" for x in np.quantile(times, [0.9, 0.99, 1.0]))
    return (
        f"{name:14}{form:>13}{1e3 * prepared:10.1f}{np.mean(counts):12.1f}{100.0 * np.mean(proven):7.0f}%"
        f"{1e3 * np.median(times):9.1f}{quantiles}{f'{len(judged)} ({n_missed})':>9}"
        f"{f'{n_proven} ({n_lacking})':>12}"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--poses", type=int, default=100, help="number of poses of each arm (default %(default)s)")
    parser.add_argument("--random", type=int, default=20, help="number of random arms (default %(default)s)")
    parser.add_argument(
        "--judged", type=int, default=10, help="number of poses judged by refined seeds (default %(default)s)"
    )
    parser.add_argument(
        "--special", type=int, default=300, help="number of special configurations (default %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=21, help="seed of the poses (default %(default)s)")
    parser.add_argument("--arms", help="measure only arms whose names contain this text")
    parser.add_argument("--output", type=Path, help="also write the table to this file")
    args = parser.parse_args()
    head = [
        f"all solutions of arms of seven revolute joints, proven complete; {args.poses} poses each, seed {args.seed}; "
        f"{N_SEEDS} seeds judge a pose",
        conditions(("numpy", "pin")),
        f"times [ms]; {args.special} special configurations; in brackets: poses with solutions that the answer lacks",
        "",
        HEADER,
    ]
    names = (*SHIPPED, "rizon4", *CALIBRATED, *(f"random, {seed}" for seed in range(args.random)))
    chosen = (name for name in names if args.arms is None or args.arms in name)

    def row_of(name: str) -> str:
        share = 5 if name.startswith("random") else 1
        return row(name, max(args.poses // share, 1), args.judged, args.special // share, args.seed)

    print_table(head, map(row_of, chosen), args.output)


if __name__ == "__main__":
    main()
