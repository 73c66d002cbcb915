"""Variational inference in many dimensions: time, memory and -ELBO of short runs, next to the paper's long ones.

    python -m benchmarks.variational_large [--seed 0] [--urdf talos_reduced.urdf] [--targets gmm100 ...] [--output FILE]

Each target runs on one thread in a separate process. The reported peak memory of the process includes Python and torch.
The paper's figures are for its SAMTRON on its own data, after half an hour (gmm100) or a day (the others) on five to
eight cores. Here, "wine" is synthetic data of the same shape, so its -ELBO is not comparable. TALOS needs its URDF from
PyPI's example-robot-data.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from benchmarks._machine import load_average, processor, versions
from eim_ros.learning.gmmvi import GMMVI
from experiments.gmmvi import FILE_PROBLEMS, PROBLEMS
from experiments.targets.scores import mixture_scores

SPLIT = {"adaptation.n_refined": 10, "adaptation.delete_after": 20}


@dataclass(frozen=True)
class ShortRun:
    """Algorithm, evaluations, settings that differ from the problem's, and the paper's -ELBO [nat] on similar data."""

    word: str
    n_evaluations: int
    settings: dict[str, Any] = field(default_factory=dict)
    paper: float | None = None


RUNS = {
    "gmm100": ShortRun("SAMTRON", 200_000, {}, 0.01),
    "stm300": ShortRun("SAMTRON", 20_000, {"n_components": 10, "n_samples": 100, "own_samples": True}, 14.96),
    "wine": ShortRun("SEMTRON", 40_000, {"component_step.first": 0.5}),
    "talos": ShortRun("LAMTRON", 1_000_000, {"n_samples": 100, "adaptation.max_components": 60, **SPLIT}, -24.43),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--urdf", type=Path, help="of TALOS")
    parser.add_argument("--targets", nargs="+", choices=RUNS, default=list(RUNS))
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    lines = [
        f"short runs, one thread, CPU seconds; {versions(['torch', 'numpy'])}; {processor()}",
        f"load average when it began: {load_average()}",
        "",
        f"{'target':>8} {'dimensions':>10} {'algorithm':>14} {'seed':>4} {'evaluations':>12} {'-ELBO':>10} {'+-':>6} "
        f"{'paper':>8} {'s':>7} {'MB':>6} {'components':>11}  found",
    ]
    print("\n".join(lines), flush=True)
    for name in args.targets:
        if name in FILE_PROBLEMS and args.urdf is None:
            continue
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            lines.append(pool.apply(row, (name, args.seed, args.urdf)))
        print(lines[-1], flush=True)
        if args.output:
            args.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


def row(name: str, seed: int, urdf: Path | None) -> str:
    """Fit one target and return its row of the table."""
    torch.set_num_threads(1)
    short_run, generator = RUNS[name], torch.Generator().manual_seed(seed)
    problem = PROBLEMS[name] if urdf is None or name not in FILE_PROBLEMS else FILE_PROBLEMS[name](urdf)
    target = problem.make(generator)
    config = problem.config(short_run.word, short_run.n_evaluations, **short_run.settings)
    start = target.start.mixture(generator, config.n_components or None)
    began = time.process_time()
    result = GMMVI(target, config).fit(start=start, generator=generator)
    seconds = time.process_time() - began
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    scores = mixture_scores(target, result.model, 2000, torch.Generator().manual_seed(7))
    found = "" if scores.n_found is None else f"{scores.n_found} of {scores.n_modes} modes"
    paper = "" if short_run.paper is None else f"{short_run.paper:.2f}"
    algorithm = f"{short_run.word} split" if config.adaptation.n_refined else short_run.word
    return (
        f"{name:>8} {target.n_dims:>10} {algorithm:>14} {seed:>4} {result.state.evaluations:>12} "
        f"{-scores.elbo.value:>10.2f} {scores.elbo.standard_error:>6.2f} {paper:>8} {seconds:>7.1f} {megabytes:>6} "
        f"{result.model.n_components:>11}  {found}"
    )


if __name__ == "__main__":
    main()
