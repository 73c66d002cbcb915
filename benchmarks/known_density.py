"""KL(model || target) of inference with a known density on random mixtures, started from 10000 samples.

    python -m benchmarks.known_density [--seeds 5] [--output benchmarks/results/known_density.txt]

The KL is the mean of -log r with r = target/model over 10000 samples of the model. If r is close to 1 at all samples,
the mean of r - 1 - log r is used instead. It is also unbiased, and its noise vanishes with the KL, so it resolves small
values. The default start is the likeliest of several EM fits from k-means; the last column shows the result of
inference from a single k-means start. Times are CPU seconds on one thread, for the start and for an iteration of
inference.
"""

from __future__ import annotations

import argparse
import platform
import time
from pathlib import Path

import torch

from eim_ros.learning import EIMConfig, EMConfig
from eim_ros.learning.eim import EIM
from eim_ros.learning.em import EM
from eim_ros.learning.models import GaussianMixture
from experiments import random_mixture

N_SAMPLES = 10_000
NEAR = 0.01  # a missing component changes log r by more than this at every sample
CASES = ((2, 2, True), (10, 10, True), (10, 10, False), (20, 10, True))  # dimensions, components, equal weights


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    lines = [
        f"inference with a known density, {N_SAMPLES} samples for the start, one thread, seeds 0 to {args.seeds - 1}",
        f"torch {torch.__version__}, Python {platform.python_version()}, {platform.machine()}; CPU seconds",
        "",
        f"{'d':>3} {'K':>3} {'weights':>8} {'seed':>4} {'KL of start':>12} {'KL':>10} {'iterations':>10} "
        f"{'status':>15} {'start [s]':>10} {'s/iteration':>12} {'KL from k-means':>16}",
    ]
    print("\n".join(lines), flush=True)
    for n_dims, n_components, equal in CASES:
        worst = 0.0
        for seed in range(args.seeds):
            line, kl = _measure(n_dims, n_components, equal, seed)
            worst = max(worst, kl)
            lines.append(line)
            print(line, flush=True)
        lines += [f"worst of ({n_dims}, {n_components}): {worst:.1e}", ""]
        print("\n".join(lines[-2:]), flush=True)
    if args.output:
        args.output.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


def _measure(n_dims: int, n_components: int, equal: bool, seed: int) -> tuple[str, float]:
    generator = torch.Generator().manual_seed(seed)
    target = random_mixture(n_dims, n_components, generator, equal_weights=equal)
    sample = target.sample(N_SAMPLES, generator)
    config = EIMConfig.known_density(n_components=n_components)
    started = time.process_time()
    settings = EMConfig(
        n_components=n_components, n_iterations=config.start.em_iterations, n_starts=config.start.n_starts
    )
    start = EM(settings).fit(sample, generator=generator).model
    begun = time.process_time()
    result = EIM(config, target=target).fit(sample, start, generator=generator)
    ended = time.process_time()
    kl = _divergence(result.model, target, generator)
    plain = EIMConfig.known_density(n_components=n_components, **{"start.em_iterations": 0})
    alone = _divergence(EIM(plain, target=target).fit(sample, generator=generator).model, target, generator)
    iterations = result.state.iteration
    return (
        f"{n_dims:>3} {n_components:>3} {'equal' if equal else 'random':>8} {seed:>4} "
        f"{_divergence(start, target, generator):>12.4f} {kl:>10.1e} {iterations:>10} {result.status.value:>15} "
        f"{begun - started:>10.2f} {(ended - begun) / iterations:>12.4f} {alone:>16.1e}"
    ), kl


def _divergence(model: GaussianMixture, target: GaussianMixture, generator: torch.Generator) -> float:
    sample = model.sample(N_SAMPLES, generator)
    log_ratio = target.log_prob(sample) - model.log_prob(sample)
    near = bool((log_ratio.abs() < NEAR).all())
    return float((torch.expm1(log_ratio) - log_ratio if near else -log_ratio).mean())


if __name__ == "__main__":
    main()
