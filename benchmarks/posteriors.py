"""`GMMVI(target).fit()` without settings: gap to the evidence, errors of means, and modes found.

    python -m benchmarks.posteriors [--database FOLDER] [--seeds 2] [--targets funnel ...] [--output FILE]

The gap is log Z - ELBO, from 20000 new samples of the model. For the targets of Blessing et al. 2024 ("Beyond ELBOs"),
Z is known to be 1. For the logistic regressions, log Z comes from bridge sampling between the model and 10000 samples
by Hamiltonian Monte Carlo. For the other targets, log Z comes from samples of the model by importance weighting. This
estimate is reliable if the column "share", the effective sample size divided by the number of samples, is high.

The mean error is the largest difference between a mean of the model and the mean of the reference draws, in standard
deviations of the reference draws. Reference draws are from posteriordb, or from Hamiltonian Monte Carlo. With 10000
reference draws, the mean error has an accuracy of about 0.01.

Set --database to a clone of https://github.com/stan-dev/posteriordb. Without it, the posteriors of posteriordb are
skipped.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks._machine import load_average, processor, versions
from benchmarks._posteriordb import POSTERIORS, Posterior, posterior, reference
from eim_ros.learning.gmmvi import GMMVI
from eim_ros.learning.models import GaussianMixture
from experiments import targets
from experiments.targets.posterior_samples import posterior_samples
from experiments.targets.regression import LogisticRegression
from experiments.targets.scores import (
    bridge_log_normaliser,
    importance_log_normaliser,
    mean_log_ratio,
    modes_found,
    reverse_effective_sample_size,
)

N_SAMPLES = 20_000
N_REFERENCE = 10_000
N_FOR_MEANS = 200_000  # number of samples whose mean has an error of 0.002 standard deviations
ANALYTIC: dict[str, Callable[[torch.Generator], Any]] = {
    "gmm20": lambda generator: targets.random_gaussian_mixture(20, generator),
    "stm20": lambda generator: targets.random_student_mixture(20, generator),
    "funnel": lambda generator: targets.Funnel(),
    "banana": lambda generator: targets.Banana(),
    "breast-cancer": lambda generator: targets.breast_cancer(),
    "credit": lambda generator: targets.synthetic_german_credit(),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", type=Path, help="clone of posteriordb")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument(
        "--first-target-seed",
        type=int,
        default=0,
        help="first seed of random targets; four targets are random if it is above 0",
    )
    parser.add_argument("--targets", nargs="+", choices=[*ANALYTIC, *POSTERIORS], default=[*ANALYTIC, *POSTERIORS])
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    lines = [
        f"GMMVI(target, seed=seed).fit(), one thread, CPU seconds; {versions(['torch', 'numpy'])}; {processor()}",
        f"load average when it began: {load_average()}",
        "",
        f"{'target':>39} {'of':>5} {'dimensions':>10} {'seed':>4} {'evaluations':>11} {'status':>14} {'s':>6} "
        f"{'components':>10} {'gap':>7} {'+-':>6} {'share':>6} {'mean error':>10}  found",
    ]
    print("\n".join(lines), flush=True)
    first = args.first_target_seed
    for name in args.targets:
        if name in POSTERIORS and args.database is None:
            continue
        for target_seed in range(first, first + 4) if first and name in ("gmm20", "stm20") else (first,):
            for seed in range(args.seeds):
                lines.append(row(name, target_seed, seed, args.database))
                print(lines[-1], flush=True)
                if args.output:
                    args.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


def row(name: str, target_seed: int, seed: int, database: Path) -> str:
    """Fit one target without settings and return its row of the table."""
    generator = torch.Generator().manual_seed(target_seed)
    target: Any = posterior(database, name) if name in POSTERIORS else ANALYTIC[name](generator)
    began = time.process_time()
    result = GMMVI(target, seed=seed).fit()
    seconds = time.process_time() - began
    model, generator = result.model, torch.Generator().manual_seed(7)
    assert isinstance(model, GaussianMixture)
    sample = model.sample(N_SAMPLES, generator)
    log_ratio = target.log_prob(sample) - model.log_prob(sample)
    elbo, log_z = mean_log_ratio(log_ratio), getattr(target, "log_normaliser", None)
    error, found = "", ""
    if isinstance(target, LogisticRegression):
        draws = posterior_samples(target, N_REFERENCE, generator).samples
        log_z = bridge_log_normaliser(log_ratio, target.log_prob(draws) - model.log_prob(draws))
        error = _largest_error(model.mean, draws.mean(0), draws.std(0))
    elif isinstance(target, Posterior):
        ours = target.parameters(model.sample(N_FOR_MEANS, generator)).mean(0)
        error = _largest_error(ours, *reference(database, name, target.names))
    elif hasattr(target, "modes"):
        n_found = modes_found(model.means, target.modes, target.mode_radius, model.log_weights)
        found = f"{n_found} of {len(target.modes)} modes"
    if log_z is None:
        log_z = importance_log_normaliser(log_ratio).value
    return (
        f"{name:>39} {target_seed if name in ('gmm20', 'stm20') else '':>5} {target.n_dims:>10} {seed:>4} "
        f"{result.state.evaluations:>11} {result.status.value:>14} {seconds:>6.1f} {model.n_components:>10} "
        f"{log_z - elbo.value:>7.3f} {elbo.standard_error:>6.3f} {reverse_effective_sample_size(log_ratio):>6.3f} "
        f"{error:>10}  {found}"
    ).rstrip()


def _largest_error(mean: Tensor, expected: Tensor, deviation: Tensor) -> str:
    return f"{float(((mean - expected) / deviation).abs().max()):.3f}"


if __name__ == "__main__":
    main()
