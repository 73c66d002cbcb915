"""Adaptive and fixed numbers of components: EIM adds components where they are needed and deletes useless ones.

    python -m benchmarks.adaptive_components [--seeds 3] [--output benchmarks/results/adaptive_components.txt]
    python -m benchmarks.adaptive_components --target samples [--output benchmarks/results/adaptive_components_eim.txt]

Mixtures: the targets have ten components and are known by their density (GMMVI's GMM targets). Means are uniform in
[-50, 50]^d, and covariances are A'A + I, where the entries of A have standard deviation 0.1 d. The start is one
component as wide as the means are spread, or 20 components with means drawn from it. KL is the divergence KL(model ||
target) [nat]; a model that finds a single mode has log 10 = 2.30.

Experts: inverse kinematics of the iiwa for positions, with known kinematics. Starts are EM fits to all samples, or only
to the half with the elbow (joint 4) bent to one side. Figures are the RMSE [m] and the ELBO [nat, up to a constant] of
raw samples. The last one is the share of samples with the elbow on the side that the one-sided start lacks.

With --target samples, EIM learns from samples alone and is compared with EM. Mixtures are learned from 3000 samples in
10 dimensions with each estimator of the density ratio. Experts are learned from 10000 samples with the kinematics in
the estimator. Settings are the defaults, except the number of iterations (100, or 40 for experts) and those that add
and delete components. The network that starts from one component over all modes also takes larger steps (KL bound 0.3,
unlimited loss of entropy). EM has 10 components or the number that EIM found with the default estimator. It starts from
k-means, once or as the best of eight.

All runs use one thread; times are CPU seconds.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks._machine import processor, versions
from eim_ros.core.data_set import DataSet
from eim_ros.ik import SmoothingConfig, Training, collect, evaluate
from eim_ros.kinematics import Robot
from eim_ros.learning import EIMConfig, EMConfig
from eim_ros.learning.eim import EIM
from eim_ros.learning.em import EM, TruncatedEMConfig
from eim_ros.learning.models import GaussianMixture

N_MODES = 10
WIDTH = 30.0  # standard deviation of the start, as wide as the means are spread
GROWTH: dict[str, Any] = {"adaptation.add_every": 5, "adaptation.max_components": 60, "adaptation.delete_after": 30}
WIDE_STEPS: dict[str, Any] = {"m_step.kl_bound": 0.3, "m_step.entropy_loss_bound": 1e9}
ELBOW = 3  # index of joint 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--target", choices=("known", "samples"), default="known")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    lines = [f"seeds 0 to {args.seeds - 1}, {processor()}, {versions(('torch', 'numpy'))}", ""]
    print("\n".join(lines))
    parts = {"known": (_mixtures, _experts), "samples": (_mixtures_from_samples, _experts_from_samples)}
    for part in (part(args.seeds) for part in parts[args.target]):
        for line in part:
            print(line, flush=True)
            lines.append(line)
    if args.output:
        args.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _mixtures(n_seeds: int) -> Any:
    yield f"{'d':>3} {'seed':>4} {'components':>16} {'modes':>6} {'KL':>8} {'K':>4} {'evaluations':>12} {'CPU [s]':>8}"
    ways: tuple[tuple[str, int, dict[str, Any]], ...] = (
        ("1, fixed", 1, {}),
        ("20, fixed", 20, {}),
        ("1, adaptive", 1, GROWTH),
        ("20, adaptive", 20, GROWTH),
    )
    for n_dims in (10, 20):
        for seed in range(n_seeds):
            target = _target(n_dims, seed)
            for name, n_start, settings in ways:
                yield f"{n_dims:>3} {seed:>4} {name:>16} {_mixture_row(target, n_start, seed, settings)}"
    yield ""


def _target(n_dims: int, seed: int) -> GaussianMixture:
    generator = torch.Generator().manual_seed(seed)
    options: dict[str, Any] = {"generator": generator, "dtype": torch.float64}
    means = 100.0 * torch.rand(N_MODES, n_dims, **options) - 50.0
    factors = 0.1 * n_dims * torch.randn(N_MODES, n_dims, n_dims, **options)
    covariances = factors.mT @ factors + torch.eye(n_dims, dtype=torch.float64)
    log_weights = torch.full((N_MODES,), -math.log(N_MODES), dtype=torch.float64)
    return GaussianMixture(log_weights, means, torch.linalg.cholesky(covariances))


def _mixture_row(target: GaussianMixture, n_start: int, seed: int, settings: dict[str, Any]) -> str:
    generator = torch.Generator().manual_seed(seed)
    means = torch.zeros(1, target.n_dims, dtype=torch.float64)
    if n_start > 1:
        means = WIDTH * torch.randn(n_start, target.n_dims, generator=generator, dtype=torch.float64)
    factors = WIDTH * torch.eye(target.n_dims, dtype=torch.float64).expand(n_start, -1, -1)
    start = GaussianMixture(torch.full((n_start,), -math.log(n_start), dtype=torch.float64), means, factors)
    config = EIMConfig.known_density(n_iterations=400, **WIDE_STEPS, **settings, **{"m_step.n_samples": 300})
    started = time.process_time()
    result = EIM(config, target=target).fit(start=start, generator=generator)
    seconds = time.process_time() - started
    evaluations = sum(result.history.column("evaluations"))
    return f"{_mixture_figures(result.model, target, generator)} {evaluations:>12.0f} {seconds:>8.1f}"


def _mixture_figures(model: GaussianMixture, target: GaussianMixture, generator: torch.Generator) -> str:
    sample = model.sample(10_000, generator)
    kl = float((model.log_prob(sample) - target.log_prob(sample)).mean())
    nearest = target.log_responsibilities(sample).argmax(-1)
    n_found = int((torch.bincount(nearest, minlength=N_MODES) > 0.01 * len(sample) / N_MODES).sum())
    return f"{n_found:>6} {kl:>8.3f} {len(model.means):>4}"


def _experts(n_seeds: int) -> Any:
    yield (
        f"{'start':>16} {'seed':>4} {'experts':>10} {'K':>4} {'ELBO':>8} {'RMSE':>6} {'H(z)':>6} "
        f"{'other side':>10} {'CPU [s]':>8}"
    )
    robot = Robot("iiwa14")
    growth = {"adaptation.add_every": 2, "adaptation.n_added": 6, "adaptation.max_components": 400}
    ways: tuple[tuple[str, bool, int, dict[str, Any]], ...] = (
        ("all samples", False, 200, {}),
        ("all samples", False, 400, {}),
        ("all samples", False, 200, growth),
        ("one elbow side", True, 200, {}),
        ("one elbow side", True, 200, growth),
    )
    for seed in range(n_seeds):
        data_set, test = collect(robot, 40_000, "position", seed), collect(robot, 3000, "position", seed + 1000)
        side = data_set.sample[:, ELBOW] > 0.0
        for name, half, n_experts, settings in ways:
            used = dataclasses.replace(data_set, context=data_set.context[side], sample=data_set.sample[side])
            started = time.process_time()
            em = TruncatedEMConfig(n_components=n_experts, n_iterations=10, tolerance=0.0)
            initial = Training(em, seed).run(used if half else data_set).model
            config = EIMConfig.known_kinematics(n_iterations=80, **settings)
            outcome = Training(config, seed, known=True).run(data_set, initial=initial)
            seconds = time.process_time() - started
            yield (
                f"{name:>16} {seed:>4} {'adaptive' if settings else 'fixed':>10} "
                f"{outcome.model.mixture.n_components:>4} {_experts_row(outcome, test)} {seconds:>8.0f}"
            )


def _experts_row(outcome: Any, test: DataSet) -> str:
    figures = evaluate(outcome.model, test)
    other = _other_side(outcome, test)
    elbo = float(np.mean(outcome.result.history.column("elbo")[-5:]))
    return f"{elbo:>8.2f} {figures['rmse_position']:>6.3f} {figures['entropy_marginal']:>6.3f} {other:>10.2f}"


def _mixtures_from_samples(n_seeds: int) -> Any:
    yield f"{'seed':>4} {'learner':>35} {'modes':>6} {'KL':>8} {'K':>4} {'CPU [s]':>8}"
    for seed in range(n_seeds):
        target = _target(10, seed)
        data = target.sample(3000, torch.Generator().manual_seed(1000 + seed))
        n_found = 0
        ways: tuple[tuple[str, dict[str, Any]], ...] = (
            ("residual 10, fixed", {"n_components": 10}),
            ("residual 1, adaptive", {"n_components": 1, **GROWTH}),
            ("network 10, fixed", {"n_components": 10}),
            ("network 1, adaptive, wide steps", {"n_components": 1, **GROWTH, **WIDE_STEPS}),
        )
        for name, settings in ways:
            learner = EIM(n_iterations=100, seed=seed, **settings, **{"ratio.estimator": name.split()[0]})
            row, n_components = _samples_row(learner, data, target, seed)
            n_found = n_found or (n_components if "adaptation.add_every" in settings else 0)
            yield f"{seed:>4} {f'EIM {name}':>35} {row}"
        for n_components, n_starts in ((10, 1), (10, 8), (n_found, 1), (n_found, 8)):
            row, _ = _samples_row(EM(n_components=n_components, n_starts=n_starts, seed=seed), data, target, seed)
            yield f"{seed:>4} {f'EM {n_components}, starts {n_starts}':>35} {row}"
    yield ""


def _samples_row(learner: EIM | EM, data: torch.Tensor, target: GaussianMixture, seed: int) -> tuple[str, int]:
    started = time.process_time()
    model = learner.fit(data).model
    seconds = time.process_time() - started
    figures = _mixture_figures(model, target, torch.Generator().manual_seed(seed))
    return f"{figures} {seconds:>8.1f}", len(model.means)


def _experts_from_samples(n_seeds: int) -> Any:
    yield (
        f"{'start':>16} {'seed':>4} {'learner':>14} {'K':>4} {'RMSE':>6} {'H(z)':>6} {'other side':>10} {'CPU [s]':>8}"
    )
    robot = Robot("iiwa14")
    growth = {"adaptation.add_every": 2, "adaptation.n_added": 4, "adaptation.max_components": 100}
    for seed in range(n_seeds):
        data_set, test = collect(robot, 10_000, "position", seed), collect(robot, 2000, "position", seed + 1000)
        side = data_set.sample[:, ELBOW] > 0.0
        used = dataclasses.replace(data_set, context=data_set.context[side], sample=data_set.sample[side])
        half = Training(EMConfig(n_components=50, n_iterations=10), seed).run(used).model
        ways: tuple[tuple[str, str, Any, Any], ...] = (
            ("all samples", "EM", EMConfig(n_components=100), None),
            ("one elbow side", "EIM fixed", EIMConfig.kinematic(n_iterations=40), half),
            ("one elbow side", "EIM adaptive", EIMConfig.kinematic(n_iterations=40, **growth), half),
        )
        for start, name, config, initial in ways:
            started = time.process_time()
            smoothing = SmoothingConfig() if isinstance(config, EIMConfig) else None
            outcome = Training(config, seed, smoothing=smoothing).run(data_set, initial=initial)
            seconds = time.process_time() - started
            figures = evaluate(outcome.model, test)
            yield (
                f"{start:>16} {seed:>4} {name:>14} {outcome.model.mixture.n_components:>4} "
                f"{figures['rmse_position']:>6.3f} {figures['entropy_marginal']:>6.3f} "
                f"{_other_side(outcome, test):>10.2f} {seconds:>8.0f}"
            )


def _other_side(outcome: Any, test: DataSet) -> float:
    """Return the share of samples with the elbow on the side that the one-sided start lacks."""
    sample = outcome.model.mixture.sample(torch.from_numpy(test.context), torch.Generator().manual_seed(0))
    return float(np.mean(sample.numpy()[:, ELBOW] < 0.0))


if __name__ == "__main__":
    main()
