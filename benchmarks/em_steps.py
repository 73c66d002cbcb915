"""EM for many components: CPU time, objective and joint evaluations of EM, truncated EM and scikit-learn.

    python -m benchmarks.em_steps [--seed 0] [--skip-large] [--output benchmarks/results/em_steps.txt]

The data are N = 20000 points in D = 10 dimensions of a random mixture (means uniform in [-1, 1]^D, covariances A'A +
I/50). Data and model have K = 50, 200 or 1000 components with full covariances. All learners use one thread and the
same number of iterations. They have the same start: data points as means, a quarter of the covariance of the data, and
equal weights. Seconds are CPU times of the process per iteration. For scikit-learn, the table lists the mean over
iterations without the initialisation. For our learners, it lists the median, and the mean including the dense first
iteration of truncated EM. The objective is the mean log-likelihood under the final model with all components. Ratios
are relative to scikit-learn in the same run. The last part fits K = 4000 components to N = 100000 points from a k-means
start, and reports the peak memory of its process.
"""

from __future__ import annotations

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import argparse
import platform
import resource
import subprocess
import sys
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from sklearn.mixture import GaussianMixture as SklearnMixture
from torch import Tensor

from benchmarks._machine import processor
from eim_ros.learning import EMConfig, FitResult
from eim_ros.learning.em import EM, TruncatedEM, TruncatedEMConfig
from eim_ros.learning.models import GaussianMixture, MixtureOfExperts
from experiments import random_mixture

ITSELF = [sys.executable, "-m", "benchmarks.em_steps"]

N_POINTS, N_DIMS, N_ITERATIONS = 20000, 10, 10
N_STATES, N_NEIGHBOURS = 5, 16
LARGE_POINTS, LARGE_COMPONENTS, LARGE_ITERATIONS = 100000, 4000, 10
FLOOR = 1e-6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--skip-large", action="store_true", help="skip the part with K = 4000 and N = 100000")
    parser.add_argument("--only-large", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.only_large:
        print(_large(args.seed), end="")
        return
    lines = [
        f"EM of full covariances, N = {N_POINTS}, D = {N_DIMS}, {N_ITERATIONS} iterations, one thread, "
        f"seed {args.seed}",
        f"scikit-learn {version('scikit-learn')}, torch {torch.__version__}, Python {platform.python_version()}, "
        f"{processor()}; CPU seconds per iteration",
        f"truncated: C' = {N_STATES}, G = {N_NEIGHBOURS}; loss: objective of full EM less that of the row [nat]",
    ]
    _warm_up()
    for n_components in (50, 200, 1000):
        lines += _compare(n_components, args.seed)
    if not args.skip_large:
        command = [*ITSELF, "--only-large", "--seed", str(args.seed)]
        lines += ["", subprocess.run(command, check=True, capture_output=True, text=True).stdout.rstrip()]
    text = "\n".join(lines) + "\n"
    print(text, end="")
    if args.output:
        args.output.write_text(text, encoding="utf-8")


def _compare(n_components: int, seed: int) -> list[str]:
    """Return the table of one number of components."""
    generator = torch.Generator().manual_seed(seed)
    points = random_mixture(N_DIMS, n_components, generator).sample(N_POINTS, generator)
    factor = 0.5 * torch.linalg.cholesky(torch.cov(points.T))
    chosen = torch.randperm(N_POINTS, generator=generator)[:n_components]
    start = GaussianMixture(
        torch.zeros(n_components, dtype=torch.float64), points[chosen], factor.expand(n_components, -1, -1).contiguous()
    )
    truncated = {"n_iterations": N_ITERATIONS, "tolerance": 0.0, "covariance_floor": FLOOR, "n_states": N_STATES}
    learners = {
        "full": EM(EMConfig(n_iterations=N_ITERATIONS, tolerance=0.0, covariance_floor=FLOOR)),
        "truncated, full search": TruncatedEM(TruncatedEMConfig(search="full", **truncated)),
        "truncated, partial": TruncatedEM(TruncatedEMConfig(search="partial", n_neighbours=N_NEIGHBOURS, **truncated)),
    }
    peer_seconds, peer_objective = _peer(points, start)
    lines = ["", f"K = {n_components}"]
    lines += [f"{'':24} {'median':>8} {'mean':>8} {'ratio':>7} {'objective':>10} {'loss':>8} {'joints/(N K)':>13}"]
    results = {name: learner.fit(points, start) for name, learner in learners.items()}
    objectives = {name: _objective(result, points) for name, result in results.items()}
    best = objectives["full"]
    lines += [_row("scikit-learn", peer_seconds, peer_seconds, 1.0, peer_objective, best, [1.0])]
    for name, result in results.items():
        seconds = result.history.column("cpu_seconds")
        shares = result.history.column("joint_evaluations") or [1.0]
        median, mean = float(np.median(seconds)), float(np.mean(seconds))
        lines.append(_row(name, median, mean, peer_seconds / median, objectives[name], best, shares))
    return lines


def _row(
    name: str, median: float, mean: float, ratio: float, objective: float, best: float, shares: list[float]
) -> str:
    joints = f"{100.0 * float(np.mean(shares)):.1f} %"
    if len(shares) > 1 and shares[-1] < 1.0:
        joints += f", last {100.0 * shares[-1]:.1f} %"
    return f"{name:24} {median:8.4f} {mean:8.4f} {ratio:6.1f}x {objective:10.4f} {best - objective:8.4f} {joints:>13}"


def _peer(points: Tensor, start: GaussianMixture) -> tuple[float, float]:
    """Return scikit-learn's CPU seconds per iteration and its objective."""
    precisions = torch.cholesky_inverse(start.scale_trils)
    model = _TimedMixture(
        start.n_components,
        covariance_type="full",
        tol=0.0,
        reg_covar=FLOOR,
        max_iter=N_ITERATIONS,
        init_params="random_from_data",
        weights_init=start.weights.numpy(),
        means_init=start.means.numpy(),
        precisions_init=precisions.numpy(),
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn warns because the fit stops before convergence
        model.fit(points.numpy())
    # the additional E-step at the end of the fit is not timed
    seconds = (model.finished[-1] - model.started[0]) / len(model.finished)
    return seconds, float(model.score(points.numpy()))


class _TimedMixture(SklearnMixture):
    """Mixture of scikit-learn that records the CPU time at the start of each E-step and the end of each M-step."""

    def fit(self, X: np.ndarray, y: None = None) -> _TimedMixture:
        self.started: list[float] = []
        self.finished: list[float] = []
        return super().fit(X, y)

    def _e_step(self, *args: object, **options: object) -> tuple[float, np.ndarray]:
        self.started.append(time.process_time())
        return super()._e_step(*args, **options)

    def _m_step(self, *args: object, **options: object) -> None:
        super()._m_step(*args, **options)
        self.finished.append(time.process_time())


def _objective(result: FitResult, points: Tensor) -> float:
    model = result.mixture_of_experts
    return _mean_log_prob(model, points)


def _mean_log_prob(model: MixtureOfExperts, points: Tensor) -> float:
    return float(torch.cat([model.log_prob(rows[:, :0], rows) for rows in points.split(1000)]).mean())


def _large(seed: int) -> str:
    """Return a report on K = 4000, N = 100000. It runs in a separate process, in which the peak memory is measured."""
    _warm_up()
    generator = torch.Generator().manual_seed(seed)
    points = random_mixture(N_DIMS, LARGE_COMPONENTS, generator).sample(LARGE_POINTS, generator)
    config = TruncatedEMConfig(
        n_components=LARGE_COMPONENTS, n_iterations=LARGE_ITERATIONS, tolerance=0.0, covariance_floor=FLOOR
    )
    began = time.process_time()
    result = TruncatedEM(config).fit(points, generator=generator)
    total = time.process_time() - began
    seconds = result.history.column("cpu_seconds")
    shares = result.history.column("joint_evaluations")
    free = result.history.column("free_energy")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return (
        f"K = {LARGE_COMPONENTS}, N = {LARGE_POINTS}, truncated, partial: k-means start {total - sum(seconds):.1f} s, "
        f"dense first iteration {seconds[0]:.2f} s, median iteration {np.median(seconds):.3f} s,\n"
        f"joints/(N K) {100.0 * np.mean(shares):.1f} % over {LARGE_ITERATIONS} iterations, last "
        f"{100.0 * shares[-1]:.2f} %, free energy {free[0]:.4f} to {free[-1]:.4f}, log-likelihood of 10000 points "
        f"{_mean_log_prob(result.mixture_of_experts, points[:10000]):.4f},\npeak memory {peak:.2f} GiB\n"
    )


def _warm_up() -> None:
    """Make the calls that load modules before the timing starts."""
    points = torch.randn(100, N_DIMS, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    config = TruncatedEMConfig(n_components=10, n_iterations=3, tolerance=0.0, search="partial", n_states=2)
    TruncatedEM(config).fit(points)


if __name__ == "__main__":
    main()
