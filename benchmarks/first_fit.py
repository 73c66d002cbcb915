"""Time before the first iteration of EIM, and quality of its reference density and result, in one or two checkouts.

    git worktree add /tmp/before v0.2.0 && (cd /tmp/before && python setup.py build_ext --inplace)
    python -m benchmarks.first_fit [--old /tmp/before] [--data panda arm] [--seeds 3] [--threads 1]
        [--output benchmarks/results/first_fit.txt]

`EIM(n_components=10)` with its defaults is fitted to several data sets. For iiwa14 and panda, the data are pairs of an
end-effector position and a uniform random configuration. The other data sets are planar arms of 10 joints that reach a
line, windows of synthetic traffic (experiments/traffic.py), and a mixture of 10 Gaussians in 10 dimensions. Both
checkouts use the same data and seeds, and take turns. Columns:

    CPU s, s    CPU and wall-clock time before the first iteration
    reference   mean log-likelihood of 20000 other points (traffic: 5000) under the reference density [nat]
    KL          KL(fitted model || density of the data) [nat]. If the density of the data is unknown, it is replaced by
                a mixture of 200 components, which the new checkout fits to further points by truncated EM. In this
                case, only differences are meaningful. The likelihood of other points is not a measure of quality,
                because EIM selects a part of the data.

With two checkouts, each pair of columns lists the old and the new value.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks._machine import conditions, print_table
from benchmarks._targets import Arm, Mixture
from eim_ros.kinematics import Robot
from eim_ros.learning.eim import EIM
from eim_ros.learning.em import TruncatedEM
from experiments import random_mixture
from experiments.traffic import TrafficConfig, traffic_data

ROOT = Path(__file__).resolve().parents[1]
N_POINTS = N_TEST = 20_000
COLUMNS = ("CPU s", "s", "reference", "KL")
Part = tuple[Tensor, Tensor]
LogProb = Callable[[Tensor, Tensor], Tensor]


def pairs(robot: str, n: int, seed: int) -> Part:
    arm = Robot.from_urdf(robot)
    q = arm.random(n, seed)
    return torch.from_numpy(arm.fk(q)[:, :3, 3].copy()), torch.from_numpy(q)


@lru_cache(maxsize=1)
def judge(name: str) -> LogProb:
    """Return an estimate of the log density of data for which the true density is unknown."""
    config = TrafficConfig(n_samples=40_000)
    data = traffic_data(config, 1000).train if name == "traffic" else pairs(name, 60_000, 1000)
    return TruncatedEM(n_components=200, n_iterations=60, search="partial").fit(data).mixture_of_experts.log_prob


def problem(name: str, seed: int) -> tuple[Part, Part, LogProb]:
    """Return data for training and for testing, and the log density of the data."""
    if name == "traffic":
        windows = traffic_data(TrafficConfig(n_samples=N_POINTS, n_test=5000), seed)
        return windows.train, windows.test, judge(name)
    if name in ("iiwa14", "panda"):
        return pairs(name, N_POINTS, seed), pairs(name, N_TEST, 100 + seed), judge(name)
    generator = torch.Generator().manual_seed(seed)
    target = Arm() if name == "arm" else Mixture(random_mixture(10, 10, generator))
    return target.sample(N_POINTS, generator), target.sample(N_TEST, generator), target.log_prob


class WatchedEIM(EIM):
    """EIM that stores the times of `prepare` and the reference density."""

    def prepare(self, *arguments: Any) -> Any:
        began = time.process_time(), time.perf_counter()
        prepared = super().prepare(*arguments)
        self.seconds = time.process_time() - began[0], time.perf_counter() - began[1]
        self.reference: Any = prepared.state.ratio.base.known
        return prepared


def fit(file: Path, seed: int) -> None:
    """Fit EIM to the data in a file, and write times, a likelihood and samples with log densities to this file."""
    train, test = torch.load(file)
    EIM(n_components=2, n_iterations=1).fit(tuple(part[:500] for part in train))  # loads modules
    learner = WatchedEIM(n_components=10, seed=seed)
    model = learner.fit(train).mixture_of_experts
    sample = model.sample(test[0], torch.Generator().manual_seed(seed))
    likelihood = float(learner.reference.log_density(*test, 0).mean())
    torch.save((*learner.seconds, likelihood, sample, model.log_prob(test[0], sample)), file)


def measured(checkout: Path, train: Part, test: Part, log_prob: LogProb, seed: int, n_threads: int) -> list[float]:
    """Return the columns of one fit with the code of a checkout."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "fit.pt"
        torch.save((train, test), file)
        environment = {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": str(n_threads)}
        command = [sys.executable, __file__, "--fit", str(file), "--seeds", str(seed)]
        subprocess.run(command, env=environment, cwd="/", check=True)
        *figures, sample, log_model = torch.load(file)
    return [*figures, float((log_model - log_prob(test[0], sample)).mean())]


def rows(name: str, checkouts: list[Path], n_seeds: int, n_threads: int) -> Iterator[str]:
    sides = ["old", "new"][-len(checkouts) :]
    yield f"\n{name:8}" + "".join(f"{f'{column}, {side}':>16}" for column in COLUMNS for side in sides)
    table = []
    for seed in range(n_seeds):
        data = problem(name, seed)
        fits = [measured(checkout, *data, seed, n_threads) for checkout in checkouts]
        table.append(np.stack(fits, 1).ravel())
        yield f"seed {seed}  " + "".join(f"{value:16.3f}" for value in table[-1])
    yield "mean    " + "".join(f"{value:16.3f}" for value in np.mean(table, 0))


def main() -> None:
    names = ["iiwa14", "panda", "arm", "traffic", "mixture"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", type=Path, help="checkout to compare with; its modules must be compiled")
    parser.add_argument("--data", nargs="+", choices=names, default=names)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--fit", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    if args.fit:
        return fit(args.fit, args.seeds)
    head = [f"{conditions(['torch', 'numpy'])}; EIM(n_components=10), threads of torch: {args.threads}, 20000 points"]
    checkouts = [ROOT] if args.old is None else [args.old, ROOT]
    table = (row for name in args.data for row in rows(name, checkouts, args.seeds, args.threads))
    print_table(head, table, args.output)


if __name__ == "__main__":
    main()
