"""Joint paths of straight lines by `Sampler.follow`, compared with a brute-force graph.

    python -m benchmarks.lines [--lines 100] [--poses 40] [--seed 0] [--output FILE]

The lines are for a Panda and an iiwa 14, and start at the pose of a random configuration within the limits. They have a
random direction, a length of 0.1 to 0.5 m and a constant orientation. A joint may move by at most 0.1 rad between
poses. The graph has 10000 solutions of each pose, spread evenly over its traced self-motion components (`diversity=1`),
and all sufficiently small steps between these solutions. The default `Sampler.follow` is correct if it finds a path
whenever the graph has one. It must not report that there is no path if the graph has one. Forward kinematics, limits
and steps of each path are verified independently of the graph.

Further lines have 600 poses without a timeout, and 600, 2000 and 10000 poses with a timeout of 1 s. The complete call
may exceed the timeout by at most 10 % and 50 ms. Times are CPU times of one thread, unless stated otherwise.

The last lines have three poses with steps of at most 0.8 rad. A sphere is at the place that the tip of a Panda would
pass halfway between the first two poses. If no path is found and there is no proof, ten other seeds are tried. The case
is solvable if one of these seeds finds a path.
"""

from __future__ import annotations

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import argparse
import platform
import time
from pathlib import Path

import numpy as np
from scipy.spatial import cKDTree

from benchmarks._machine import load_average, processor, versions
from eim_ros.ik import ErrorCode, JointPath, Sampler
from eim_ros.kinematics import Robot, Sphere

ARMS = ("panda", "iiwa14")
N_BRUTE, STEP, LONG = 10_000, 0.1, 600
UNLIMITED = 60.0  # timeout, which is used up if there is neither a path nor a proof [s]
RADII, FREE_STEP, OTHERS, PATIENCE = (0.005, 0.02, 0.04, 0.06), 0.8, 10, 10.0  # [m], [rad], seeds, [s]
TIMEOUT, HURRIED_ARMS, HURRIED = 1.0, (*ARMS, "gen3", "ur5"), (600, 2000, 10_000)


def line(robot: Robot, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return poses (n, 4, 4) along a random straight line."""
    poses = np.repeat(robot.fk(robot.random(1, rng)), n, axis=0)
    way = rng.normal(size=3)
    poses[:, :3, 3] += np.linspace(0.0, rng.uniform(0.1, 0.5), n)[:, None] * way / np.linalg.norm(way)
    return poses


def has_path(sampler: Sampler, poses: np.ndarray) -> bool:
    """Return whether small steps between 10000 solutions of each pose lead from the first pose to the last pose."""
    assert not sampler.robot.continuous.any()
    reached = None
    for pose in poses:
        answer = sampler.sample(pose, N_BRUTE, timeout=UNLIMITED, diversity=1.0, seed=0)
        rows = answer.q
        if reached is not None:
            if not len(reached) or not len(rows):
                return False
            away, _ = cKDTree(reached).query(rows, p=np.inf, distance_upper_bound=STEP * (1.0 + 1e-9))
            rows = rows[np.isfinite(away)]
        reached = rows
    return bool(len(reached))


def is_right(robot: Robot, path: JointPath, poses: np.ndarray) -> bool:
    """Return whether a path reaches all poses within the limits and with sufficiently small steps."""
    away = np.abs(robot.fk(path.q) - poses).max()
    steps = np.abs(np.diff(path.q, axis=0)).max()
    return bool(away < 1e-5 and robot.within_limits(path.q).all() and steps <= STEP + 1e-9)


def judged(name: str, n_lines: int, n_poses: int, seed: int) -> str:
    sampler, rng = Sampler(name), np.random.default_rng(seed)
    counts = dict.fromkeys(("graph", "found", "missed", "wrong", "more"), 0)
    times = []
    for index in range(n_lines):
        poses = line(sampler.robot, n_poses, rng)
        began = time.process_time()
        path = sampler.follow(poses, timeout=UNLIMITED, seed=index, max_step=STEP)
        times.append(time.process_time() - began)
        is_found, is_there = path.error_code == ErrorCode.SUCCESS, has_path(sampler, poses)
        counts["graph"] += is_there
        counts["found"] += is_found
        counts["missed"] += is_there and not is_found
        counts["more"] += is_found and not is_there
        counts["wrong"] += is_found and not is_right(sampler.robot, path, poses)
        if is_there != is_found:
            print(f"line {index}: graph {is_there}, {path.message}", flush=True)
    found = f"found {counts['found']}, of which the graph lacks {counts['more']} and {counts['wrong']} are wrong"
    return (
        f"{name:<8}{n_lines} lines of {n_poses} poses: the graph has a path of {counts['graph']}; {found}; missed, "
        f"where the graph has one: {counts['missed']}; median {np.median(times):.2f} s, at most {max(times):.2f} s"
    )


def long_lines(name: str, n_lines: int, seed: int) -> str:
    sampler, rng = Sampler(name), np.random.default_rng(seed)
    times: list[tuple[float, float]] = []
    n_found = 0
    for index in range(n_lines):
        poses = line(sampler.robot, LONG, rng)
        began, began_cpu = time.perf_counter(), time.process_time()
        path = sampler.follow(poses, timeout=UNLIMITED, seed=index)
        times.append((time.process_time() - began_cpu, time.perf_counter() - began))
        n_found += path.error_code == ErrorCode.SUCCESS
    cpu, wall = np.array(times).T
    return (
        f"{name:<8}{n_lines} lines of {LONG} poses, {n_found} with a path: CPU median {np.median(cpu):.2f} s, at most "
        f"{cpu.max():.2f} s; wall median {np.median(wall):.2f} s, at most {wall.max():.2f} s"
    )


def hurried(name: str, n_poses: int, n_lines: int, seed: int) -> str:
    """Compare wall and CPU time of the complete call with its timeout."""
    sampler, rng = Sampler(name), np.random.default_rng(seed)
    times, n_found, n_examined = [], 0, 0
    for index in range(n_lines):
        poses = line(sampler.robot, n_poses, rng)
        began, began_cpu = time.perf_counter(), time.process_time()
        path = sampler.follow(poses, timeout=TIMEOUT, seed=index)
        times.append((time.perf_counter() - began, time.process_time() - began_cpu))
        n_found += bool(path)
        n_examined += int(path.examined.sum())
    wall, cpu = np.array(times).max(axis=0)
    return (
        f"{name:<8}{n_lines} lines of {n_poses} poses, timeout {TIMEOUT:g} s: {n_found} with a path, "
        f"{n_examined / (n_lines * n_poses):.0%} of poses examined; at most {wall:.2f} s of wall time, {cpu:.2f} s CPU"
    )


def among_spheres(n_cases: int, seed: int) -> str:
    """Follow lines whose straight motions would hit a sphere."""
    sampler, rng = Sampler("panda"), np.random.default_rng(seed)
    times, counts = list[float](), dict.fromkeys(("found", "proven", "missed", "late", "cases"), 0)
    while counts["cases"] < n_cases:
        x, y, z = rng.uniform(0.35, 0.55), rng.uniform(0.15, 0.28), rng.uniform(0.3, 0.6)
        radius, index = float(rng.choice(RADII)), counts["cases"]
        poses = [[x, side, z, 1.0, 0.0, 0.0, 0.0] for side in (-y, 0.0, y)]
        free = sampler.follow(poses, max_step=FREE_STEP, seed=index, timeout=PATIENCE)
        if not free:
            continue
        middle = sampler.robot.fk(0.5 * (free.q[:1] + free.q[1:2]))[0, :3, 3]
        among = sampler.with_obstacles([Sphere(middle, radius)])
        began = time.process_time()
        path = among.follow(poses, max_step=FREE_STEP, seed=index, timeout=PATIENCE)
        counts["cases"] += 1
        if path:
            times.append(time.process_time() - began)
            counts["found"] += 1
        elif path.error_code == ErrorCode.NO_IK_SOLUTION:
            counts["proven"] += 1
        else:
            others = (
                among.follow(poses, max_step=FREE_STEP, seed=1000 + k, timeout=6.0 * PATIENCE) for k in range(OTHERS)
            )
            counts["missed" if any(others) else "late"] += 1
    return (
        f"panda   {n_cases} lines around a sphere, timeout {PATIENCE:g} s: found {counts['found']}, proven to have "
        f"none {counts['proven']}; refused at the timeout {counts['missed'] + counts['late']}, of which another seed "
        f"finds {counts['missed']} in 60 s; CPU median {np.median(times):.3f} s, at most {max(times):.2f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=100)
    parser.add_argument("--poses", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="also write the lines to this file")
    args = parser.parse_args()
    told = [
        f"joint paths of straight lines, seed {args.seed}, steps of at most {STEP} rad",
        f"{processor()}, load {load_average()}; Python {platform.python_version()}; {versions(('numpy', 'scipy'))}",
        "",
    ]
    for name in ARMS:
        told.append(judged(name, args.lines // 2, args.poses, args.seed))
        print(told[-1], flush=True)
    for name in ARMS:
        told.append(long_lines(name, max(args.lines // 10, 1), args.seed + 1))
        print(told[-1], flush=True)
    for name in HURRIED_ARMS:
        for n_poses in HURRIED:
            told.append(hurried(name, n_poses, max(args.lines // 20, 1), args.seed + 2))
            print(told[-1], flush=True)
    told.append(among_spheres(args.lines, args.seed + 3))
    print(told[-1], flush=True)
    if args.output:
        args.output.parent.mkdir(parents=True, exist_ok=True)
        args.output.write_text("\n".join(told) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
