"""CPU time of the component update of conditional EIM for K = 10, 100, 1000 linear experts, dx = 7, dy = 3.

    python benchmarks/eim_iteration.py [--output benchmarks/results/eim_iteration.txt]

One thread. The update is everything that happens to the experts in an iteration once the density ratio is trained:
contexts are resampled for each expert, samples drawn, the gradient of the ratio taken (a network of 2 x 128), the
quadratic surrogates fitted, and all trust-region projections solved. The parts are timed apart, and the projection is
compared with the plain version: one expert at a time, its two-variable dual (thesis A.16) minimised by L-BFGS-B, as
the thesis does.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize

from eim_ros.distributions import LinearExperts, MixtureOfExperts, SoftmaxGating
from eim_ros.inference import NetworkRatio, RatioConfig, StandardisedInputs
from eim_ros.inference.density_ratio import Pairs
from eim_ros.inference.eim import draw_contexts
from eim_ros.projections import QuadraticSurrogate, fit_to_gradients, project_experts

DX, DY, N_CONTEXTS, N_SAMPLES = 7, 3, 10000, 100
KL_BOUND, ENTROPY_LOSS_BOUND = 0.02, 0.05
PLAIN_EXPERTS = 20  # of which the plain version's time is extrapolated


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    lines = [
        f"component update of EIM, dx = {DX}, dy = {DY}, {N_SAMPLES} samples per expert, one thread, seed {args.seed}",
        f"torch {torch.__version__}, Python {platform.python_version()}, {platform.machine()}; CPU seconds, best of 3",
        "",
        f"{'K':>5} {'resample':>9} {'gradient':>9} {'surrogate':>9} {'project':>9} {'update':>9} "
        f"{'plain dual':>11} {'plain/ours':>11}",
    ]
    for n_components in (10, 100, 1000):
        times = _measure(n_components, args.seed)
        update = sum(times[part] for part in ("resample", "gradient", "surrogate", "project"))
        lines.append(
            f"{n_components:>5} {times['resample']:>9.4f} {times['gradient']:>9.4f} {times['surrogate']:>9.4f} "
            f"{times['project']:>9.4f} {update:>9.4f} {times['plain']:>11.4f} "
            f"{times['plain'] / times['project']:>11.0f}"
        )
    lines += ["", f"plain dual: extrapolated from {PLAIN_EXPERTS} experts"]
    text = "\n".join(lines) + "\n"
    print(text, end="")
    if args.output:
        args.output.write_text(text, encoding="utf-8")


def _measure(n_components: int, seed: int) -> dict[str, float]:
    generator = torch.Generator().manual_seed(seed)
    model, data = _problem(n_components, generator)
    ratio = NetworkRatio(
        RatioConfig(dropout=0.0, initial_epochs=2),
        StandardisedInputs.from_data(data.context, data.sample),
        generator,
        torch.device("cpu"),
    )
    ratio.fit(data, model, 0, generator)
    times: dict[str, float] = {}
    local = _timed(times, "resample", lambda: draw_contexts(model, data.context, N_SAMPLES, generator))
    residual = torch.randn(n_components, N_SAMPLES, DX, generator=generator, dtype=torch.float64)

    def gradient() -> torch.Tensor:
        mean = local @ model.experts.weights.mT + model.experts.biases.unsqueeze(1)
        sample = mean + residual @ model.experts.scale_trils.mT
        flat = ratio.gradient(local.reshape(-1, DY), sample.reshape(-1, DX))
        return flat.reshape(residual.shape) @ model.experts.scale_trils

    slope = _timed(times, "gradient", gradient)
    surrogate = _timed(times, "surrogate", lambda: fit_to_gradients(residual, local, slope))
    _timed(times, "project", lambda: project_experts(model.experts, surrogate, KL_BOUND, ENTROPY_LOSS_BOUND))
    count = min(PLAIN_EXPERTS, n_components)
    _timed(times, "plain", lambda: [_plain_dual(surrogate, i) for i in range(count)])
    times["plain"] *= n_components / count
    return times


def _timed(times: dict[str, float], name: str, function: Callable[[], Any]) -> Any:
    """Result of a function whose least CPU time of three runs is noted."""
    best = float("inf")
    for _ in range(3):
        started = time.process_time()
        result = function()
        best = min(best, time.process_time() - started)
    times[name] = best
    return result


def _problem(n_components: int, generator: torch.Generator) -> tuple[MixtureOfExperts, Pairs]:
    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    factors = 0.3 * torch.eye(DX, dtype=torch.float64) + 0.05 * torch.tril(normal(n_components, DX, DX), -1)
    experts = LinearExperts(0.5 * normal(n_components, DX, DY), normal(n_components, DX), factors)
    model = MixtureOfExperts(SoftmaxGating(normal(n_components, DY), normal(n_components)), experts)
    context = normal(N_CONTEXTS, DY)
    return model, Pairs(context, normal(N_CONTEXTS, DX))


def _plain_dual(surrogate: QuadraticSurrogate, index: int) -> np.ndarray:
    """Multipliers (eta, omega) of one expert by L-BFGS-B on the dual and its gradient (thesis A.16, A.17)."""
    curvature = surrogate.curvature[index].numpy()
    moment = (surrogate.linear[index] @ surrogate.context_moment[index] @ surrogate.linear[index].T).numpy()
    identity = np.eye(DX)
    lowest = max(0.0, -float(np.linalg.eigvalsh(curvature)[0]) - 1.0 + 1e-6)

    def dual(multipliers: np.ndarray) -> tuple[float, np.ndarray]:
        eta, omega = multipliers
        a = eta + 1.0
        precision = a * identity + curvature
        covariance = np.linalg.inv(precision)
        spread = (a + omega) * covariance
        log_det = np.linalg.slogdet(spread)[1]
        shift = np.trace(covariance @ moment @ covariance)
        kl = 0.5 * (np.trace(spread) - DX - log_det + shift)
        value = eta * KL_BOUND + omega * ENTROPY_LOSS_BOUND + 0.5 * np.trace(covariance @ moment)
        value += 0.5 * (a + omega) * log_det
        return float(value), np.array([KL_BOUND - kl, ENTROPY_LOSS_BOUND + 0.5 * log_det])

    start = np.array([lowest + 10.0, 1.0])
    return minimize(dual, start, jac=True, method="L-BFGS-B", bounds=[(lowest, None), (0.0, None)]).x


if __name__ == "__main__":
    main()
