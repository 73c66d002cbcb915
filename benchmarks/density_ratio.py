"""KL(model || target) and CPU time of EIM with each estimator of the density ratio, compared with EM.

    python -m benchmarks.density_ratio [--problems "mixture (10, 10)"] [--estimators plug-in] [--seeds 5]
        [--network-seeds 1] [--iterations 200] [--output benchmarks/results/density_ratio.txt]

Each run uses one thread, 10000 training points, and 10000 samples of the model for the KL. Some targets are random
mixtures (means uniform in [-1, 1]^d, covariances A'A + I/50) with as many components as the model. The model cannot
represent the other targets (see _targets.py). Networks without a plug-in density are slow, so they run only with the
first seeds. Their variants run only on mixtures. Estimators:

    plug-in           density fitted once to the data, no network
    residual          the same density and a network
    network           a network only
    network, kliep    a network only, with another objective of the Bregman family; the same for lsif
    network, thesis   settings of the thesis: 3 x 50 units, dropout 0.1, bounds of 0.005 nat (table B.1), k-means start
    network, products the same start and bounds; one layer of 100 units, with products of coordinates as further
                      inputs; no data are held out, as in thesis 6.1
    EM, EM of 8       maximum likelihood from one k-means start, and from the likeliest of eight

The time of EIM includes the choice of its start. For plug-in and residual, the start is the best of several EM fits and
of subsets of the components of the fitted density. If there is only a network, the start is the best EM fit. The column
"start [s]" is the CPU time before the first iteration, and "s/iteration" is the mean CPU time of an iteration.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from benchmarks._targets import Arm, Branches, Curve, Mixture, Ring, Target
from eim_ros.learning import EIMConfig, EMConfig, FitResult
from eim_ros.learning.eim import EIM
from eim_ros.learning.em import EM
from eim_ros.learning.models import GaussianMixture, MixtureOfExperts
from eim_ros.learning.ratio import FeatureInputs
from experiments import random_mixture

N_POINTS = N_SAMPLES = 10_000
THESIS = {
    "ratio.estimator": "network",
    "ratio.hidden_layers": (50, 50, 50),
    "ratio.dropout": 0.1,
    "ratio.learning_rate": 1e-3,
    "ratio.batch_size": 1000,
    "ratio.n_epochs": 10,
    "start.n_starts": 1,
    "start.em_iterations": 0,
    "m_step.kl_bound": 0.005,
    "m_step.gating.kl_bound": 0.005,
    "m_step.entropy_loss_bound": 0.05,
    "m_step.gating.entropy_loss_bound": 0.05,
}
ESTIMATORS = {
    "plug-in": {"ratio.estimator": "plug-in"},
    "residual": {"ratio.estimator": "residual"},
    "network": {"ratio.estimator": "network"},
    "network, kliep": {"ratio.estimator": "network", "ratio.objective": "kliep"},
    "network, lsif": {"ratio.estimator": "network", "ratio.objective": "lsif"},
    "network, thesis": THESIS,
    "network, products": {
        **THESIS,
        "ratio.quadratic": True,
        "ratio.hidden_layers": (100,),
        "ratio.batch_size": 250,
        "ratio.n_epochs": 2,
        "ratio.validation_share": 0.0,
    },
}


@dataclass(frozen=True)
class Problem:
    """Target for each seed, number of components, and optional features for the network."""

    target: Callable[[torch.Generator], Target]
    n_components: int
    features: Callable[[Tensor, Tensor], Tensor] | None = None


def _mixture(n_dims: int, n_components: int) -> Problem:
    return Problem(lambda generator: Mixture(random_mixture(n_dims, n_components, generator)), n_components)


def _tip(context: Tensor, sample: Tensor) -> Tensor:
    return Arm().tip(sample).unsqueeze(-1)


PROBLEMS = {
    "mixture (2, 2)": _mixture(2, 2),
    "mixture (10, 10)": _mixture(10, 10),
    "mixture (20, 10)": _mixture(20, 10),
    "two modes, 1 component": Problem(
        lambda generator: Mixture(
            GaussianMixture(
                torch.zeros(2).double(),
                torch.tensor([[-2.0, 0.0], [2.0, 0.0]]).double(),
                0.5 * torch.eye(2).double().expand(2, 2, 2),
            )
        ),
        1,
    ),
    "ring, 5 components": Problem(lambda generator: Ring(), 5),
    "curve in 5 d, 5 components": Problem(lambda generator: Curve(), 5),
    "arm of 10 joints, 5 components": Problem(lambda generator: Arm(), 5),
    "the same, tip as a feature": Problem(lambda generator: Arm(), 5, _tip),
    "two branches, 2 experts": Problem(lambda generator: Branches(), 2),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--estimators", nargs="+", choices=ESTIMATORS, default=list(ESTIMATORS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--network-seeds", type=int, default=1)
    parser.add_argument("--iterations", type=int, default=200)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    lines = [
        f"density ratio estimators, {args.iterations} iterations of EIM, {N_POINTS} points, one thread, seeds 0 to "
        f"{args.seeds - 1}",
        f"torch {torch.__version__}, Python {platform.python_version()}, {platform.machine()}; CPU seconds",
    ]
    print("\n".join(lines))
    for name in args.problems:
        lines += ["", f"{name:31} {'KL mean':>8} {'start [s]':>9} {'s/iteration':>11}   KL of each seed"]
        print("\n".join(lines[-2:]))
        seeds = {
            estimator: args.network_seeds if estimator.startswith("network") else args.seeds
            for estimator in args.estimators
            if name.startswith("mixture") or not estimator.startswith("network,")
        }
        for line in _table(PROBLEMS[name], seeds, args.seeds, args.iterations):
            lines.append(line)
            print(line, flush=True)
    if args.output:
        args.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _table(problem: Problem, estimators: dict[str, int], n_seeds: int, n_iterations: int) -> list[str]:
    runs: dict[str, list[tuple[float, float, float]]] = {}
    for seed in range(n_seeds):
        generator = torch.Generator().manual_seed(seed)
        target = problem.target(generator)
        context, sample = target.sample(N_POINTS, generator)
        for name, n_starts in (("EM", 1), ("EM of 8", 8)):
            learner = EM(EMConfig(n_components=problem.n_components, n_iterations=200, n_starts=n_starts))
            runs.setdefault(name, []).append(_measured(learner, target, context, sample, seed))
        for name in [name for name, count in estimators.items() if seed < count]:
            inputs = None
            if problem.features is not None:
                inputs = FeatureInputs.from_data(context, sample, problem.features)
            config = EIMConfig.from_mapping(
                {"n_components": problem.n_components, "n_iterations": n_iterations, **ESTIMATORS[name]}
            )
            runs.setdefault(name, []).append(_measured(EIM(config, inputs), target, context, sample, seed))
    return [_line(name, results) for name, results in runs.items()]


def _measured(
    learner: EM | EIM, target: Target, context: Tensor, sample: Tensor, seed: int
) -> tuple[float, float, float]:
    """Return the KL, the CPU seconds before the first iteration, and the CPU seconds per iteration."""
    began = time.process_time()
    result: FitResult = learner.fit((context, sample), generator=torch.Generator().manual_seed(1000 + seed))
    total = time.process_time() - began
    iterations = result.history.column("cpu_seconds")
    kl = _divergence(result.mixture_of_experts, target, context, 2000 + seed)
    return kl, total - sum(iterations), sum(iterations) / max(1, len(iterations))


def _divergence(model: MixtureOfExperts, target: Target, context: Tensor, seed: int) -> float:
    """Return KL(model || target) [nat], averaged over contexts and estimated with N_SAMPLES samples of the model."""
    chosen = context[:N_SAMPLES]
    drawn = model.sample(chosen, torch.Generator().manual_seed(seed))
    return float((model.log_prob(chosen, drawn) - target.log_prob(chosen, drawn)).mean())


def _line(name: str, results: list[tuple[float, float, float]]) -> str:
    mean = [sum(column) / len(results) for column in zip(*results, strict=True)]
    each = ", ".join(f"{kl:.4f}" if kl < 0.1 else f"{kl:.3f}" for kl, _, _ in results)
    return f"{name:31} {mean[0]:>8.4f} {mean[1]:>9.1f} {mean[2]:>11.4f}   {each}"


if __name__ == "__main__":
    main()
