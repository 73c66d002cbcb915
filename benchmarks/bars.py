"""Bars test: how often truncated EM finds all bars, and at what cost, for binary sparse coding and noisy-OR.

    python -m benchmarks.bars [--seed 0] [--n-seeds 10] [--starts 3] [--output benchmarks/results/bars.txt]

The data are 1000 images of 5 x 5 pixels with 10 bars, 2 of them per image on average. The models have as many causes as
there are bars and the default settings: 30 of 1024 states per image, 30 suggestions per image and iteration. Each seed
fixes the data, the starts and the search. Two runs are compared: from the first start alone, and from the best of
several starts after 50 iterations. The column "found" is the number of bars found, F the mean free energy [nat], and
"from truth" the F of a run from the true parameters. The column "least rise" is the smallest increase of F between two
iterations; only rounding makes it negative. Times are CPU seconds on one thread.
"""

from __future__ import annotations

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import argparse
import itertools
import platform
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from benchmarks._machine import processor
from eim_ros.learning import MultipleCauseEM
from eim_ros.learning.discrete.causes import BinarySparseCoding, NoisyOr
from experiments.bars import additive_bars, n_bars_found, noisy_or_bars

N_IMAGES, SIZE = 1000, 5
MODELS = {
    "binary sparse coding": (additive_bars, BinarySparseCoding),
    "noisy-OR": (noisy_or_bars, NoisyOr),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--n-seeds", type=int, default=10)
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    args = parser.parse_args()
    seeds = range(args.seed, args.seed + args.n_seeds)
    head = (
        f"bars test, {N_IMAGES} images of {SIZE} x {SIZE}, {2 * SIZE} bars, seeds {seeds[0]} to {seeds[-1]}",
        f"torch {torch.__version__}, Python {platform.python_version()}, {processor()}",
    )
    lines = []
    for line in itertools.chain(head, *(_report(name, seeds, args.starts) for name in args.models)):
        print(line, flush=True)
        lines.append(line)
    if args.output:
        args.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _report(name: str, seeds: range, n_starts: int) -> Iterator[str]:
    """Yield the lines of a report, each as soon as its figures are known."""
    truth, kind = MODELS[name]
    yield from ("", name)
    yield (
        f"{'seed':>4} {'starts':>7} {'found':>6} {'F':>9} {'from truth':>11} {'iterations':>11} {'least rise':>11} "
        f"{'CPU [s]':>8}"
    )
    complete = {1: 0, n_starts: 0}
    for seed in seeds:
        generator = torch.Generator().manual_seed(seed)
        true = truth(SIZE)
        sample = true.sample(N_IMAGES, generator)
        starts = [kind.start(sample, 2 * SIZE, generator) for _ in range(n_starts)]
        best = MultipleCauseEM().fit(sample, true).history.column("free_energy")[-1]
        for n in complete:
            began = time.process_time()
            result = MultipleCauseEM().fit(sample, starts[:n], torch.Generator().manual_seed(seed))
            seconds = time.process_time() - began
            found = n_bars_found(result.state.model.weights, true.weights)
            complete[n] += found == 2 * SIZE
            values = result.history.column("free_energy")
            yield (
                f"{seed:4d} {n:7d} {found:6d} {values[-1]:9.3f} {best:11.3f} {len(values):11d} "
                f"{np.diff(values).min():11.1e} {seconds:8.1f}"
            )
    for n, count in complete.items():
        yield f"all bars in {count} of {len(seeds)} seeds with {n} start{'s' if n > 1 else ''}"


if __name__ == "__main__":
    main()
