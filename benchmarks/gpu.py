"""Kernels for many poses: comparison of their answers with the solver, and their speed if there is a GPU.

    python -m benchmarks.gpu [--poses 100000] [--timed 4000000] [--seed 1] [--output benchmarks/results/gpu.txt]

First, the kernels run on the processor (`Sampler.on("cpu")`), for poses of random configurations and of special
configurations. Special configurations have round angles, small offsets from round angles, and joints at limits.
Columns:

  undecided  poses that the kernels leave to the processor; for 7 joints, poses with fewer rows than requested
  empty      poses without a row, although all of them have solutions
  differ     poses with a complete set that differs from the solver's set
  claims     complete sets that the solver does not report as complete
  rows       rows of all poses; 20 were requested if there is no closed form of six joints
  wrong      rows that miss the pose by more than 1e-6 m or rad by pinocchio's kinematics, or exceed a limit
  error      largest error of a row [m, rad]

A second table compares maps (`eim map --device cpu`) and base placement (`eim place --device cpu`) with the results
without a device. Columns:

  both, map, device   poses of a coarse map that both reach, only the search from 256 seeds, and only the device
  undecided           poses that the device leaves to the processor
  measure             median difference of the best manipulability, as a share
  bases               bases with another number of poses in reach, of 49

Finally, the calls run on a GPU for random poses that are already on the GPU, and only the end of a call is awaited. A
Panda is mapped and placed on all cores of the processor, and on the GPU. Without a GPU, the benchmark names the missing
part.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks._machine import conditions, print_table
from eim_ros import Sampler
from eim_ros.core.errors import EimError
from eim_ros.ik import CapabilityGrid, base_grid, place_base
from eim_ros.ik.capability import map_sampler, survey
from eim_ros.ik.device import DeviceSolutions
from eim_ros.kinematics import Robot

sys.path.append(str(Path(__file__).resolve().parents[1] / "test"))
from ik.device.test_device_sampler import ALL, PLANAR, configurations, sampler_of
from kinematics.oracle import Oracle

RATED = tuple(name for name in ALL if name not in ("mobile", PLANAR))  # a map needs poses that the arm can reach
N_ROWS, JUDGED, AT_ONCE = 20, 20_000, 10_000


def answered(sampler: Sampler, device: str, poses: np.ndarray, seed: int) -> DeviceSolutions:
    """Return all solutions of an arm with a closed form of six joints, or some solutions of another arm."""
    kernels = sampler.on(device)
    if kernels.method == "closed form":
        return kernels.solve_all_batch(poses)
    return kernels.sample_batch(poses, N_ROWS, seed=seed)


def differing(sampler: Sampler, poses: np.ndarray, found: DeviceSolutions) -> tuple[int, int]:
    """Return the numbers of complete sets that differ from the solver's sets, or that the solver finds incomplete."""
    undecided, n_differing, n_claims = set(found.undecided.tolist()), 0, 0
    answers = (
        each for block in sampler.stream(poses, Sampler.solve_all, seed=0, timeout=1e4) for each in block.by_pose()
    )
    for i, answer in enumerate(answers):
        if i in undecided:
            continue
        n_claims += not (answer.completeness is not None and answer.completeness.is_complete)
        q = found.q[i, : found.counts[i]]
        away = np.abs(q[:, None] - answer.q[None]).max(axis=2)
        same = len(q) == len(answer.q) and (not len(q) or max(away.min(axis=0).max(), away.min(axis=1).max()) < 1e-6)
        n_differing += not same
    return n_differing, n_claims


def judged(sampler: Sampler, poses: np.ndarray, found: DeviceSolutions) -> tuple[int, int, float]:
    """Return the number of rows, the number of wrong rows, and the largest error of a row."""
    taken = np.arange(found.q.shape[1]) < found.counts[:, None]
    rows, numbers = found.q[taken], np.repeat(np.arange(len(poses)), found.counts)
    robot, wraps = sampler.robot, sampler._setup.bounds[2] > 0.0
    inside = ((rows >= robot.lower) & (rows <= robot.upper) | wraps).all(axis=1)
    off = robot.fk(rows) - poses[numbers]
    wrong = ~inside | (np.abs(off).max(axis=(1, 2)) > 1e-6)
    oracle = Oracle(robot.urdf, robot)
    some = np.random.default_rng(0).permutation(len(rows))[:JUDGED]
    errors = [max(oracle.errors(rows[i], poses[numbers[i]])) for i in some]
    wrong[some] |= np.array(errors) > 1e-6 + 1e-9  # pinocchio's logarithm has errors up to 1e-9
    return len(rows), int(wrong.sum()), float(np.nanmax(found.errors)) if len(rows) else 0.0


def compared(name: str, n: int, seed: int) -> Iterator[str]:
    """Yield the lines of the first table for an arm: first random poses, then special poses."""
    sampler = sampler_of(name)
    for special in (False, True):
        poses = sampler.robot.fk(configurations(name, n, special, seed))
        parts = [answered(sampler, "cpu", poses[i : i + AT_ONCE], seed + i) for i in range(0, n, AT_ONCE)]
        q, counts, errors, status = (
            np.concatenate([getattr(part, key) for part in parts]) for key in ("q", "counts", "errors", "status")
        )
        found = DeviceSolutions(q, counts, errors, status, sampler.robot, parts[0].lists_all)
        differ, claims = map(str, differing(sampler, poses, found)) if found.lists_all else ("-", "-")
        n_rows, n_wrong, error = judged(sampler, poses, found)
        kind, n_empty = "special" if special else "random", int((counts == 0).sum())
        yield (
            f"{name:10s} {sampler.on('cpu').method:26s} {kind:8s}{len(found.undecided):9d}{n_empty:7d}{differ:>8s}"
            f"{claims:>8s}{n_rows:10d}{n_wrong:7d}{error:10.1e}"
        )


def timed(call: Callable[[], object], wait: Callable[[], object], n: int = 5) -> float:
    """Return the median time of a call [s], after a first call that compiles the kernel."""
    call(), wait()
    times = []
    for _ in range(n):
        began = time.perf_counter()
        call(), wait()
        times.append(time.perf_counter() - began)
    return float(np.median(times))


def on_gpu(name: str, n: int, seed: int) -> str:
    """Return a line of the last table: poses per second, with arrays on the device and with NumPy arrays."""
    import torch

    sampler = sampler_of(name)
    poses = sampler.robot.fk(configurations(name, n, False, seed))
    there, kernels = torch.from_numpy(poses).cuda(), sampler.on("cuda")
    calls = {"one": lambda given: kernels.solve_batch(given, seed=seed)}
    if kernels.method == "closed form":
        calls["all"] = kernels.solve_all_batch
    line = f"{name:10s} {kernels.method:26s}"
    for wanted, call in calls.items():
        rates = [n / timed(lambda: call(given), torch.cuda.synchronize) for given in (there, poses)]  # noqa: B023
        line += f" {wanted}: {rates[0]:.1e} ({rates[1]:.1e})"
    return line


def rated(name: str, seed: int) -> str:
    """Return a line of the table about maps and placement."""
    sampler = sampler_of(name)
    robot, line = sampler.robot, f"{name:10s} {sampler.on('cpu').method:26s}"
    with tempfile.TemporaryDirectory() as folder:
        grid = CapabilityGrid.around(robot, robot.reach / 4, n_approaches=10, n_rolls=2, n_seeds=256, seed=seed)
        expected, found = (survey(robot, grid, Path(folder, f"{on}.npz"), device=on) for on in (None, "cpu"))
    reached, also = expected.n_components > 0, found.n_components > 0
    best = found.manipulability[reached & also] / expected.manipulability[reached & also]
    kernels = map_sampler(robot).on("cpu")
    n_undecided = "-"
    if kernels.method == "closed form":
        n_undecided = str(len(kernels.measured_batch(grid.poses(0, grid.n_poses), 1, seed=seed).undecided))
    shares = f"{np.median(np.abs(best - 1.0)):9.1e}" if len(best) else f"{'-':>9s}"
    poses, bases = placement(robot, seed)
    counts = [
        {tuple(base): count for base, count in zip(each.bases.tolist(), each.n_reached.tolist(), strict=True)}
        for each in (place_base(sampler, poses, bases, n_refined=0, device=on) for on in (None, "cpu"))
    ]
    n_other = sum(counts[0][base] != counts[1][base] for base in counts[0])
    sets = f"{(reached & also).sum():8d}{(reached & ~also).sum():6d}{(also & ~reached).sum():8d}"
    return f"{line}{grid.n_poses:8d}{sets}{n_undecided:>11s}{shares}{n_other:7d}"


def placement(robot: Robot, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return 10 poses in the world that the arm reaches from its base at the origin, and 49 bases near the origin."""
    poses = robot.fk(robot.random(10, np.random.default_rng(seed)))
    width = robot.reach / 2
    return poses, base_grid((-width, width), (-width, width), 2 * width / 6 + 1e-9)


def consumers_on_gpu(seed: int, spacing: float = 0.05) -> Iterator[str]:
    """Yield the times of a map and of a base placement for the Panda, on the processor and on the GPU."""
    sampler = Sampler("panda")
    grid = CapabilityGrid.around(sampler.robot, spacing, n_approaches=50, n_rolls=4, seed=seed)
    poses, bases = placement(sampler.robot, seed)
    place_base(sampler, poses, bases[:1], n_refined=0, device="cuda")  # compiles
    for on in ("cuda", None):
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            found = survey(sampler.robot, grid, Path(folder, "map.npz"), device=on)
        mapped = time.perf_counter()
        place_base(sampler, poses, bases, n_refined=0, device=on)
        placed, share = time.perf_counter() - mapped, float((found.n_components > 0).mean())
        told = f"map of {grid.n_poses} poses {mapped - began:.1f} s ({share:.2%} reached)"
        yield f"panda      {on or 'processor':26s} {told}, {len(bases)} bases {placed:.2f} s"


def lines(n: int, n_timed: int, seed: int) -> Iterator[str]:
    """Yield all tables. Without a GPU, a line names the missing part."""
    head = "undecided  empty  differ  claims      rows  wrong     error"
    yield f"{'arm':10s} {'method':26s} {'poses':8s}{head}"
    for name in ALL:
        yield from compared(name, n, seed)
    yield ""
    yield f"{'arm':10s} {'method':26s}   poses    both   map  device  undecided  measure  bases"
    for name in RATED:
        yield rated(name, seed)
    yield ""
    try:
        sampler_of(ALL[0]).on("cuda")
    except EimError as error:
        yield f"Not measured on a GPU: {error}"
        return
    yield "poses per second on the GPU (from and to NumPy)"
    for name in ALL:
        yield on_gpu(name, n_timed, seed)
    yield from consumers_on_gpu(seed)


def main() -> int:
    """Compare the kernels with the solver, then measure them if there is a GPU."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--poses", type=int, default=100_000, help="poses of each arm that are compared")
    parser.add_argument("--timed", type=int, default=4_000_000, help="poses of each arm that are measured")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    head = [
        conditions(("numpy", "pin", "torch")),
        f"{given.poses} random and as many special poses of each arm, seed {given.seed}",
        "",
    ]
    print_table(head, lines(given.poses, given.timed, given.seed), given.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
