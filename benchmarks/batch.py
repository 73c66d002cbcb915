"""Times of calls for many poses: batches, paths and capability maps.

`Sampler.solve_batch` is compared with a loop over the poses. `Sampler.follow` is timed for several numbers of
poses, and capability maps are timed per pose. Times are minimum CPU times over several interleaved runs in one process.
Numbers of threads are compared by wall times, which are only meaningful on an idle machine.

The part "counter" runs batches on one thread while another Python thread counts. It prints the speed of the counter
relative to its speed without a batch, and the wall time of the batch relative to its wall time without a counter. Each
figure is the median of nine alternating pairs. "2 threads" is the speed-up by a second thread, without a counter.

    python -m benchmarks.batch [--quick] [--part batches|counter|paths|maps] [--output FILE]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import resource
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._machine import load_average, processor
from eim_ros.core.parallel import usable_cores
from eim_ros.ik import CapabilityGrid, ErrorCode, Sampler
from eim_ros.ik.capability import PartWork
from eim_ros.kinematics import Box, Robot

UNLIMITED = 1e6  # [s]
# Minimum duration of a batch with a counter, which is long compared with the 5 ms between switches of threads [s].
LEAST_SECONDS = 0.3
TABLE = Box((0.3, 0.3, 0.3), at=(0.5, 0.4, 0.3))
SAMPLERS: dict[str, Callable[[], Sampler]] = {
    "ur5e": lambda: Sampler("ur5e"),
    "panda": lambda: Sampler("panda"),
    "iiwa14": lambda: Sampler("iiwa14"),
    "gen3": lambda: Sampler("gen3"),
    "panda, model": lambda: Sampler.load("panda_pose"),
    "panda, box": lambda: Sampler("panda").with_obstacles([TABLE]),
}


def timed(work: Callable[[], Any]) -> tuple[float, float]:
    """Return the CPU and wall time of a call [s]."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return time.process_time() - cpu, time.perf_counter() - wall


def least(works: dict[str, Callable[[], Any]], n_runs: int) -> dict[str, tuple[float, float]]:
    """Return the minimum CPU and wall time of each call [s]. The calls take turns."""
    found = {name: [timed(work) for _ in range(1)] for name, work in works.items()}
    for _ in range(n_runs - 1):
        for name, work in works.items():
            found[name].append(timed(work))
    return {name: (min(cpu for cpu, _ in times), min(wall for _, wall in times)) for name, times in found.items()}


def batches(name: str, n_poses: int, n_runs: int) -> None:
    robot = Robot(name)
    sampler, poses = Sampler(robot), robot.fk(robot.random(n_poses, np.random.default_rng(0)))
    few, cores = poses[: max(n_poses // 50, 100)], usable_cores()

    def stream() -> None:
        for _ in sampler.stream(poses, sampler.solve, timeout=UNLIMITED, seed=0):
            pass

    works: dict[str, tuple[int, Callable[[], Any]]] = {
        "solve_batch, 1 thread": (
            n_poses,
            lambda: sampler.solve_batch(poses, n_threads=1, timeout=UNLIMITED, seed=0),
        ),
        f"solve_batch, {cores} threads": (n_poses, lambda: sampler.solve_batch(poses, timeout=UNLIMITED, seed=0)),
        f"stream, {cores} threads": (n_poses, stream),
        "Sampler.solve, one by one": (len(few), lambda: [sampler.solve(pose, seed=0) for pose in few]),
        "n = 100, 1 thread": (len(few), lambda: sampler.sample_batch(few, 100, n_threads=1, timeout=UNLIMITED, seed=0)),
        f"n = 100, {cores} threads": (len(few), lambda: sampler.sample_batch(few, 100, timeout=UNLIMITED, seed=0)),
    }
    print(f"\n{name}, {n_poses} reachable poses, one solution each (n = 100: {len(few)}); us for each pose")
    times = least({label: work for label, (_, work) in works.items()}, n_runs)
    for label, (count, _) in works.items():
        cpu, wall = times[label]
        print(f"  {label:36s} CPU {1e6 * cpu / count:8.2f}   wall {1e6 * wall / count:8.2f}")
    answers = sampler.solve_batch(poses, timeout=UNLIMITED, seed=0)
    print(f"  solved: {(answers.error_codes == ErrorCode.SUCCESS).mean():.4%}")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    stream()
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"  peak memory grown by the stream: {(after - before) / 1024:.1f} MB")
    cpu, wall = timed(lambda: sampler.solve_batch(poses, timeout=0.05, n_threads=1, seed=0))
    print(f"  timeout of 0.05 s: {wall:.3f} s")


class Counter(threading.Thread):
    """Python thread that counts until it is stopped."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.n, self.is_stopped = 0, False

    def run(self) -> None:
        while not self.is_stopped:
            self.n += 1


def counted(work: Callable[[], Any]) -> tuple[float, float]:
    """Return the counts per second during a call, and the wall time of the call [s]."""
    counter = Counter()
    counter.start()
    _, seconds = timed(work)
    counter.is_stopped = True
    counter.join()
    return counter.n / seconds, seconds


def beside_counter(name: str, n_pairs: int) -> None:
    sampler = SAMPLERS[name]()
    robot, rng = sampler.robot, np.random.default_rng(0)
    near = robot.random(1, rng)[0]

    def stream(poses: np.ndarray, n_threads: int) -> None:
        for _ in sampler.stream(poses, sampler.solve, timeout=UNLIMITED, n_threads=n_threads, seed=0):
            pass

    def sample(n: int) -> Callable[[np.ndarray, int], Any]:
        return lambda poses, n_threads: sampler.sample_batch(poses, n, timeout=UNLIMITED, n_threads=n_threads, seed=0)

    def solve(near: np.ndarray | None) -> Callable[[np.ndarray, int], Any]:
        return lambda poses, n_threads: sampler.solve_batch(
            poses, near=near, timeout=UNLIMITED, n_threads=n_threads, seed=0
        )

    works = {"solve_batch": solve(None), "solve_batch, near": solve(near), "stream": stream}
    works |= {f"sample_batch, n = {n}": sample(n) for n in (1, 20, 100)}
    works["sample(20), one by one"] = lambda poses, _: [sampler.sample(pose, 20, seed=0) for pose in poses]
    for label, work in works.items():
        poses = robot.fk(robot.random(32, rng))
        while (seconds := timed(lambda poses=poses, work=work: work(poses, 1))[1]) < LEAST_SECONDS:
            poses = robot.fk(robot.random(1 + int(len(poses) * min(8.0, 1.3 * LEAST_SECONDS / seconds)), rng))
        rows = []
        for _ in range(n_pairs):
            alone = timed(lambda poses=poses, work=work: work(poses, 1))[1]
            two = timed(lambda poses=poses, work=work: work(poses, 2))[1]
            free = counted(lambda: time.sleep(0.1))[0]
            speed, beside = counted(lambda poses=poses, work=work: work(poses, 1))
            rows.append((speed / free, beside / alone, alone / two, 1e6 * alone / len(poses)))
        speed, slower, gain, each = np.median(rows, axis=0)
        print(
            f"  {name:14s}{label:22s}{len(poses):8d} poses {each:9.1f} us   counter {speed:5.0%}   "
            f"batch x {slower:5.2f}   2 threads {gain:4.2f}"
        )


def line(robot: Robot, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return poses on a straight line of 0.25 m, starting at a random configuration away from the limits.

    The distance from the limits makes a continuous path likely.
    """
    q = 0.8 * robot.random(1, rng)[0]
    poses = np.repeat(robot.fk(q)[None], n, axis=0)
    way = rng.normal(size=3)
    poses[:, :3, 3] += np.linspace(0.0, 0.25, n)[:, None] * way / np.linalg.norm(way)
    return poses


def paths(name: str, sizes: list[int], n_lines: int) -> None:
    sampler = Sampler(name)
    print(f"\n{name}, follow, {n_lines} straight lines of .25 m, CPU s, median / largest")
    for n in sizes:
        rng = np.random.default_rng(2)
        times: dict[bool, list[float]] = {True: [], False: []}
        for _ in range(n_lines):
            poses = line(sampler.robot, n, rng)
            began = time.process_time()
            path = sampler.follow(poses, timeout=UNLIMITED, seed=0)
            times[path.error_code == ErrorCode.SUCCESS].append(time.process_time() - began)
        told = [
            f"{label}: {len(some)}" + (f", {np.median(some):.3f} / {max(some):.3f}" if some else "")
            for label, some in (("paths", times[True]), ("none", times[False]))
        ]
        print(f"  {n:4d} poses   {';  '.join(told)}")


def maps(name: str, n_parts: int) -> None:
    robot = Robot(name)
    grid = CapabilityGrid.around(robot, 0.08, n_approaches=20, n_rolls=4)
    work, last = PartWork(robot, grid, 1), grid.n_poses // 8192
    parts = np.linspace(0, last, n_parts + 2).astype(int)[1:-1]
    began, n_poses, n_reached = time.process_time(), 0, 0
    for part in parts.tolist():
        figures = work(part)[1]
        n_poses, n_reached = n_poses + len(figures), n_reached + int((figures[:, 1] > 0).sum())
    each = (time.process_time() - began) / n_poses
    print(f"\n{name}, capability map of {grid.n_poses} poses, {n_poses} computed, {n_reached / n_poses:.1%} reached")
    print(f"  CPU {1e6 * each:.1f} us for each pose, so 1e6 poses take {1e6 * each / 2.0:.0f} s on 2 cores")


class _Both(io.TextIOBase):
    """Stream that writes to standard output and also stores the text."""

    def __init__(self, kept: io.StringIO) -> None:
        self._shown, self._kept = sys.stdout, kept

    def write(self, text: str) -> int:
        self._shown.write(text)
        self._shown.flush()
        return self._kept.write(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument(
        "--part", choices=("batches", "counter", "paths", "maps"), help="measure only this part (default: all parts)"
    )
    parser.add_argument("--output", type=Path, help="also write the output to this file")
    args = parser.parse_args()
    quick, told = args.quick, io.StringIO()
    with contextlib.redirect_stdout(_Both(told)):
        print(f"{processor()}, {usable_cores()} cores, load before {load_average()}")
        if args.part in (None, "batches"):
            batches("panda", 5000 if quick else 100_000, 2 if quick else 3)
        for name in SAMPLERS if args.part in (None, "counter") else ():
            beside_counter(name, 3 if quick else 9)
        for name in ("panda", "iiwa14") if args.part in (None, "paths") else ():
            paths(name, [48, 200] if quick else [48, 200, 600], 2 if quick else 8)
        if args.part in (None, "maps"):
            maps("iiwa14", 1 if quick else 4)
        print(f"load after {load_average()}")
    if args.output:
        args.output.write_text(told.getvalue(), encoding="utf-8")


if __name__ == "__main__":
    main()
