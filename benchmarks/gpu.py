"""Kernels for many poses: their answers compared with the solver's, and their speed on a GPU if there is one.

    python -m benchmarks.gpu [--poses 100000] [--timed 4000000] [--seed 1] [--output benchmarks/results/gpu.txt]

First, the kernels run on the processor (`Sampler.on("cpu")`), for poses of random configurations, and of special ones
with round angles, small offsets from them, and joints at limits. Columns:

  undecided  poses that the kernels leave to the processor; for 7 joints those with fewer rows than requested
  empty      poses without a row, although all of them have solutions
  differ     poses with a complete set that differs from the solver's
  claims     complete sets that the solver does not call complete
  rows       rows of all poses; 20 were requested if there is no closed form of six joints
  wrong      rows that miss the pose by more than 1e-6 m or rad, or a limit, as pinocchio's kinematics judge
  error      largest error of a row [m, rad]

Then the same calls run on a GPU, without waiting between start and end, for random poses that are already on the GPU.
Without a GPU, the benchmark names the missing part.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks._machine import conditions, print_table
from eim_ros import Sampler
from eim_ros.core.errors import EimError
from eim_ros.ik.device import DeviceSolutions

sys.path.append(str(Path(__file__).resolve().parents[1] / "test"))
from ik.device.test_device_sampler import ALL, configurations, sampler_of
from kinematics.oracle import Oracle

N_ROWS, JUDGED, AT_ONCE = 20, 20_000, 10_000


def answered(sampler: Sampler, device: str, poses: np.ndarray, seed: int) -> DeviceSolutions:
    """Return all solutions of an arm with a closed form of six joints, or some solutions of another arm."""
    kernels = sampler.on(device)
    if kernels.method == "closed form":
        return kernels.solve_all_batch(poses)
    return kernels.sample_batch(poses, N_ROWS, seed=seed)


def differing(sampler: Sampler, poses: np.ndarray, found: DeviceSolutions) -> tuple[int, int]:
    """Return the numbers of complete sets that differ from the solver's, and that the solver does not call complete."""
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
    """Return the numbers of all rows and of wrong ones, and the largest error of a row."""
    taken = np.arange(found.q.shape[1]) < found.counts[:, None]
    rows, numbers = found.q[taken], np.repeat(np.arange(len(poses)), found.counts)
    robot, wraps = sampler.robot, sampler._setup.bounds[2] > 0.0
    inside = ((rows >= robot.lower) & (rows <= robot.upper) | wraps).all(axis=1)
    off = robot.fk(rows) - poses[numbers]
    wrong = ~inside | (np.abs(off).max(axis=(1, 2)) > 1e-6)
    oracle = Oracle(robot.urdf, robot)
    some = np.random.default_rng(0).permutation(len(rows))[:JUDGED]
    errors = [max(oracle.errors(rows[i], poses[numbers[i]])) for i in some]
    wrong[some] |= np.array(errors) > 1e-6 + 1e-9  # of pinocchio's logarithm
    return len(rows), int(wrong.sum()), float(np.nanmax(found.errors)) if len(rows) else 0.0


def compared(name: str, n: int, seed: int) -> Iterator[str]:
    """Yield lines of the first table for an arm: of random poses, then of special ones."""
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
    """Return a line of the second table: poses per second, on the device and from and to NumPy."""
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


def lines(n: int, n_timed: int, seed: int) -> Iterator[str]:
    """Yield both tables. Without a GPU, the second one is a line that names the missing part."""
    head = "undecided  empty  differ  claims      rows  wrong     error"
    yield f"{'arm':10s} {'method':26s} {'poses':8s}{head}"
    for name in ALL:
        yield from compared(name, n, seed)
    yield ""
    try:
        sampler_of(ALL[0]).on("cuda")
    except EimError as error:
        yield f"Not measured on a GPU: {error}"
        return
    yield "poses per second on the GPU (from and to NumPy)"
    for name in ALL:
        yield on_gpu(name, n_timed, seed)


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
