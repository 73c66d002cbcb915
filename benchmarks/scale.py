"""Time and memory of `stream` for a million poses, with two worker processes of joblib and Dask.

Each task draws 20000 reachable poses, streams them on one thread and keeps only counts, so memory does not grow with
the number of poses. The table lists the CPU time of the workers per pose, which hardly depends on other load. It also
lists poses per second of wall time and of CPU time ("per core"), and the resident memory of the workers after their
first and last task.

    python -m benchmarks.scale [--poses 1000000] [--output FILE]
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import dask
import joblib
import numpy as np

from benchmarks._machine import conditions, load_average, print_table
from eim_ros.ik import Sampler

PART, N_WORKERS = 20_000, 2
ENOUGH = 1e6  # [s]
CASES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("panda", "solve", {}),
    ("ur5e", "sample", {"n": 20}),  # up to all eight solutions
)


class Part(NamedTuple):
    """Figures of one task."""

    process: int
    n_poses: int
    n_solved: int
    n_rows: int
    cpu: float  # CPU time of the stream [s]
    memory: float  # [MB], resident after the task
    ended: float  # [s], wall clock


def resident() -> float:
    """Return the resident memory of this process [MB]."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def work(sampler: Sampler, operation: str, options: dict[str, Any], number: int) -> Part:
    """Stream one part of the poses."""
    poses = sampler.robot.fk(sampler.robot.random(PART, number))
    began, counts = time.process_time(), np.zeros(2, np.int64)
    stream = sampler.stream(
        poses, getattr(Sampler, operation), seed=number * PART, n_threads=1, timeout=ENOUGH, **options
    )
    for block in stream:
        counts += np.count_nonzero(block.n_valid), len(block)
    cpu = time.process_time() - began
    return Part(os.getpid(), len(poses), int(counts[0]), int(counts[1]), cpu, resident(), time.time())


def by_joblib(task: Callable[[int], Part], n_parts: int) -> list[Part]:
    return list(joblib.Parallel(n_jobs=N_WORKERS)(joblib.delayed(task)(number) for number in range(n_parts)))


def by_dask(task: Callable[[int], Part], n_parts: int) -> list[Part]:
    parts = [dask.delayed(task)(number) for number in range(n_parts)]
    return list(dask.compute(*parts, scheduler="processes", num_workers=N_WORKERS))


def rows(n_poses: int) -> Iterator[str]:
    yield (
        f"{'arm':7s}{'operation':14s}{'by':8s}{'poses':>9s}{'solved':>11s}{'rows':>10s}{'CPU us/pose':>13s}"
        f"{'poses/s':>10s}{'per core':>10s}{'memory of workers MB, first, last task':>42s}{'load':>17s}"
    )
    for name, operation, options in CASES:
        task = partial(work, Sampler(name), operation, options)
        for label, run in (("joblib", by_joblib), ("dask", by_dask)):
            run(task, N_WORKERS)  # starts joblib's workers
            began, before = time.time(), load_average()
            parts = run(task, -(-n_poses // PART))
            wall = time.time() - began
            workers = [
                sorted((part for part in parts if part.process == process), key=lambda part: part.ended)
                for process in sorted({part.process for part in parts})
            ]
            memory = ", ".join(f"{own[0].memory:.0f} to {own[-1].memory:.0f}" for own in workers)
            total, cpu = sum(part.n_poses for part in parts), sum(part.cpu for part in parts)
            solved, n_rows = sum(part.n_solved for part in parts), sum(part.n_rows for part in parts)
            called = operation + "".join(f", {key}={value}" for key, value in options.items())
            yield (
                f"{name:7s}{called:14s}{label:8s}{total:9d}{solved / total:11.4%}{n_rows:10d}{1e6 * cpu / total:13.2f}"
                f"{total / wall:10.0f}{total / cpu:10.0f}{memory:>42s}{before:>17s}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--poses", type=int, default=1_000_000)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    head = [conditions(["joblib", "dask", "numpy"]), f"tasks of {PART} poses, {N_WORKERS} worker processes"]
    print_table(head, rows(args.poses), args.output)


if __name__ == "__main__":
    main()
