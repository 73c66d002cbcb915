"""CPU times of the calls of `Sampler` in two checkouts, measured in one run, to detect calls that became slower.

    git worktree add /tmp/before v0.2.0 && (cd /tmp/before && python setup.py build_ext --inplace)
    python -m benchmarks.solver /tmp/before [--arms ur5e panda] [--seed 3] [--output benchmarks/results/solver.txt]

Both checkouts solve the same poses of uniform random configurations with the same seeds. They take turns, and each
block of calls is repeated. A figure is the median over blocks of the smallest CPU time of a call on one thread [us].
The ratio is the new time divided by the old time. Times of batches are per pose.
"""

from __future__ import annotations

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
ARMS = ("ur5e", "panda", "iiwa14", "gen3", "panda_table")
N_POSES, N_BLOCKS, N_TURNS = 60, 6, 5
UNHURRIED = {"timeout": 60.0}


def calls(sampler: Any, poses: np.ndarray, near: np.ndarray) -> dict[str, Callable[[list[int]], int]]:
    """Return calls by name. A call is a function of indices of poses that returns the number of solutions."""

    def each(answer: Callable[[int], Any]) -> Callable[[list[int]], int]:
        return lambda some: sum(len(answer(i)) for i in some)

    def batch(answer: Callable[[np.ndarray], Any]) -> Callable[[list[int]], int]:
        return lambda some: len(answer(np.concatenate([poses[some]] * 8))) // 8

    return {
        "solve": each(lambda i: sampler.solve(poses[i], seed=i)),
        "solve near": each(lambda i: sampler.solve(poses[i], near=near[i], seed=i)),
        "sample 5": each(lambda i: sampler.sample(poses[i], 5, seed=i, **UNHURRIED)),
        "sample 20": each(lambda i: sampler.sample(poses[i], 20, seed=i, **UNHURRIED)),
        "sample 100": each(lambda i: sampler.sample(poses[i], 100, seed=i, **UNHURRIED)),
        "solve_all": each(lambda i: sampler.solve_all(poses[i], seed=i, **UNHURRIED)),
        "solve_batch": batch(lambda all_: sampler.solve_batch(all_, n_threads=1, seed=0, **UNHURRIED)),
        "sample_batch 20": batch(lambda all_: sampler.sample_batch(all_, 20, n_threads=1, seed=0, **UNHURRIED)),
    }


def serve() -> None:
    """Answer each line "arm seed call block" by JSON with the CPU time of a call [s] and a number of solutions."""
    from eim_ros import Sampler

    prepared: dict[tuple[str, str], dict[str, Callable[[list[int]], int]]] = {}
    for line in sys.stdin:
        arm, seed, name, block = line.rstrip("\n").split("\t")
        if (arm, seed) not in prepared:
            sampler, rng = Sampler.load(arm) if "_" in arm else Sampler(arm), np.random.default_rng(int(seed))
            q = sampler.robot.random(N_POSES, rng)
            prepared[arm, seed] = calls(sampler, sampler.robot.fk(q), sampler.robot.random(N_POSES, rng))
        some, call = list(range(int(block), N_POSES, N_BLOCKS)), prepared[arm, seed][name]
        began = time.process_time()
        n = call(some)
        seconds = (time.process_time() - began) / len(some) / (8 if "batch" in name else 1)
        print(json.dumps([seconds, n]), flush=True)


def side(checkout: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    command = [sys.executable, __file__, "--serve"]
    return subprocess.Popen(command, env=environment, cwd="/", stdin=-1, stdout=-1, text=True)


def ask(process: subprocess.Popen[str], *words: object) -> tuple[float, int]:
    assert process.stdin is not None and process.stdout is not None
    print(*words, sep="\t", file=process.stdin, flush=True)
    seconds, n = json.loads(process.stdout.readline())
    return seconds, n


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("old", type=Path, help="checkout to compare with; its modules must be compiled")
    parser.add_argument(
        "--arms", nargs="+", default=list(ARMS), help="names of robots, or of models, which contain an underscore"
    )
    parser.add_argument("--seed", type=int, default=3, help="seed of the poses (default %(default)s)")
    parser.add_argument("--output", type=Path, help="also write the table to this file")
    arguments = parser.parse_args()
    from benchmarks._machine import conditions  # imported here, because the old checkout does not have this function

    names = list(calls(None, np.empty(0), np.empty(0)))
    lines = [
        conditions(["numpy"]),
        f"{'arm':14}{'call':18}{'old us':>10}{'new us':>10}{'ratio':>8}{'rows old, new':>16}",
    ]
    sides = [side(arguments.old.resolve()), side(ROOT)]
    print("\n".join(lines), flush=True)
    for arm in arguments.arms:
        for name in names:
            least, found = np.full((2, N_BLOCKS), np.inf), [0, 0]
            for turn in range(N_TURNS):
                for block in range(N_BLOCKS):
                    for number, process in enumerate(sides):
                        seconds, n = ask(process, arm, arguments.seed, name, block)
                        least[number, block] = min(least[number, block], seconds)
                        found[number] += n if turn == 0 else 0
            old, new = 1e6 * np.median(least, axis=1)
            lines.append(f"{arm:14}{name:18}{old:10.1f}{new:10.1f}{new / old:8.2f}{found[0]:8d}{found[1]:8d}")
            print(lines[-1], flush=True)
    if arguments.output:
        arguments.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["--serve"] else main()
