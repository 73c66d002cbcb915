"""CPU time of an iteration of conditional EIM for up to K = 1000 linear experts, with dx = 7, dy = 3 and N = 10000.

    python -m benchmarks.eim_iteration [--output benchmarks/results/eim_iteration.txt]

The first table times only the component update on one thread, after the density ratio is trained. The update resamples
contexts for each expert, computes gradients of the ratio, fits the quadratic surrogates, and solves all trust-region
projections. The ratio is a network with two layers of 128 units. The projection is compared with the version of the
thesis, which projects one expert at a time and minimises the two-variable dual (thesis A.16) by L-BFGS-B.

The second table times complete iterations for pairs of a position and a uniform configuration of the iiwa14, started by
EM. It lists the median of 5 iterations after the first, and the shares of the ratio, the gating, the experts, and the
choice of the model. The ratio is a plug-in density of 100 experts and a network with two layers of 128 units, trained
for 2 epochs. The auxiliary distribution is exact or truncated. By default, it is truncated with 200 experts or more.

The third table times complete fits with default settings: a ring of 8 modes in two dimensions, and the iiwa14 with its
kinematics as inputs of the ratio. The column "start" is the time for EM and for the density of the data.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize

from eim_ros.ik import SmoothingConfig, collect
from eim_ros.ik.training import KinematicInputs
from eim_ros.kinematics import Robot, share_path
from eim_ros.learning import EIMConfig, Pairs, RatioConfig
from eim_ros.learning.adaptation import AdaptationState
from eim_ros.learning.data import checked_data
from eim_ros.learning.eim import EIM
from eim_ros.learning.eim.iteration import EIMIteration, EIMState
from eim_ros.learning.eim.m_step import update_experts, update_gating
from eim_ros.learning.em import TruncatedEM, TruncatedEMConfig
from eim_ros.learning.models import LinearExperts, MixtureOfExperts, SoftmaxGating
from eim_ros.learning.models.mixture_of_experts import draw_contexts
from eim_ros.learning.projections import QuadraticSurrogate, fit_to_gradients, project_experts
from eim_ros.learning.ratio import NetworkRatio, StandardisedInputs
from eim_ros.learning.ratio.choice import density_ratio, smoothed
from eim_ros.learning.run import History

DX, DY, N_CONTEXTS, N_SAMPLES = 7, 3, 10000, 100
KL_BOUND, ENTROPY_LOSS_BOUND = 0.02, 0.05
PLAIN_EXPERTS = 20  # number of experts timed with the plain version, whose time is extrapolated

EXACT = 10**9  # threshold on the number of components that is never reached, so the auxiliary distribution stays exact
REFERENCE_COMPONENTS, N_GATING_CONTEXTS, N_ITERATIONS = 100, 200, 6
N_RING, RING_MODES, RING_RADIUS, RING_DEVIATION = 2000, 8, 3.0, 0.3
N_ARM_EXPERTS = 50
PARTS = ("ratio", "gating", "experts", "kept")


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
    lines += ["", f"plain dual: extrapolated from {PLAIN_EXPERTS} experts", "", *_iterations(args.seed)]
    lines += ["", *_default_fits(args.seed)]
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


def _iterations(seed: int) -> list[str]:
    """Return the table of complete iterations."""
    robot = Robot(share_path("urdf/iiwa14.urdf"))
    pairs = collect(robot, N_CONTEXTS, "position", seed)
    data = checked_data((torch.as_tensor(pairs.context), torch.as_tensor(pairs.sample)))
    reference = _start(REFERENCE_COMPONENTS, data, seed)
    lines = [
        f"complete iteration of EIM, N = {N_CONTEXTS}, {N_GATING_CONTEXTS} contexts for the gating, {N_SAMPLES} "
        f"samples per expert, plug-in density of {REFERENCE_COMPONENTS} experts",
        "CPU seconds of the median iteration, shares of its parts, error delta of the truncated auxiliary distribution",
        "",
        f"{'K':>5} {'auxiliary':>12} {'iteration':>10} " + " ".join(f"{part:>8}" for part in PARTS) + f" {'delta':>9}",
    ]
    for n_components in (50, 200, 1000):
        start = _start(n_components, data, seed)
        for name, exact_below in (("truncated", 200), ("exact", EXACT)):
            if n_components < 200 and name == "truncated":
                continue
            times, error = _iteration(start, reference, data, exact_below, seed)
            total = sum(times.values())
            shares = " ".join(f"{100.0 * times[part] / total:>7.0f}%" for part in PARTS)
            lines.append(f"{n_components:>5} {name:>12} {total:>10.3f} {shares} {error:>9.1e}")
    return lines


def _start(n_components: int, data: Pairs, seed: int) -> MixtureOfExperts:
    config = TruncatedEMConfig(n_components=n_components, n_iterations=10, tolerance=0.0)
    generator = torch.Generator().manual_seed(seed)
    return TruncatedEM(config).fit((data.context, data.sample), generator=generator).mixture_of_experts


def _iteration(
    model: MixtureOfExperts, reference: MixtureOfExperts, data: Pairs, exact_below: int, seed: int
) -> tuple[dict[str, float], float]:
    """Return the median CPU seconds of each part, without the first iteration, and the last error delta."""
    config = EIMConfig.from_mapping(
        {
            "n_components": model.n_components,
            "m_step.gating.n_contexts": N_GATING_CONTEXTS,
            "m_step.n_samples": N_SAMPLES,
            "ratio.auxiliary.exact_below": exact_below,
        }
    )
    generator = torch.Generator().manual_seed(seed)
    inputs = StandardisedInputs.from_data(data.context, data.sample)
    ratio = density_ratio(config.ratio, inputs, reference, data, generator)
    fitting = EIMIteration.from_samples(config, inputs, data)
    state = EIMState(model, model, ratio, generator, 0, AdaptationState.first(model))
    seconds, errors = _timed_steps(fitting, state, N_ITERATIONS, stops=False)
    return {part: float(np.median(values[1:])) for part, values in seconds.items()}, errors[-1]


def _timed_steps(
    fitting: EIMIteration, state: EIMState, n_iterations: int, *, stops: bool
) -> tuple[dict[str, list[float]], list[float]]:
    """Run the parts of the steps of `EIMIteration` one by one.

    Return the CPU seconds of each part in each iteration, and the error delta of each iteration. If `stops` is true,
    the stopping rules of a fit apply.
    """
    assert fitting.inputs is not None
    m_step, generator, history = fitting.config.resolved_m_step, state.generator, History()
    seconds: dict[str, list[float]] = {part: [] for part in PARTS}
    errors = []
    for iteration in range(n_iterations):
        clock, model = [time.process_time()], state.model
        data = smoothed(fitting.inputs, fitting.data, iteration, generator)
        report = state.ratio.fit(data, model, iteration, generator)
        clock.append(time.process_time())
        gated, record, _ = update_gating(m_step, model, state.ratio, data.context, generator)
        clock.append(time.process_time())
        following, of_experts = update_experts(m_step, gated, state.ratio, data.context, generator)
        clock.append(time.process_time())
        kept = fitting.better(following, state, data.context)
        clock.append(time.process_time())
        state = dataclasses.replace(state, model=following, kept=kept, iteration=iteration + 1)
        for part, begin, end in zip(PARTS, clock, clock[1:], strict=False):
            seconds[part].append(end - begin)
        errors.append(report.auxiliary_error)
        history = history.with_record({**report.record(), **record, **of_experts})
        if stops and fitting.finished(history):
            break
    return seconds, errors


def _default_fits(seed: int) -> list[str]:
    """Return the table of complete fits."""
    robot = Robot(share_path("urdf/iiwa14.urdf"))
    pairs = collect(robot, N_CONTEXTS, "position", seed)
    context, sample = torch.as_tensor(pairs.context), torch.as_tensor(pairs.sample)
    inputs = KinematicInputs.from_data(robot, "position", context, SmoothingConfig())
    cases: list[tuple[str, EIM, Any]] = [
        (f"ring, K = {RING_MODES}", EIM(n_components=RING_MODES), _ring(seed)),
        (f"arm, K = {N_ARM_EXPERTS}", EIM(EIMConfig.kinematic(n_components=N_ARM_EXPERTS), inputs), (context, sample)),
    ]
    lines = [
        f"complete fit with default settings; CPU seconds, shares of its parts; {N_RING} samples of the ring, "
        f"{N_CONTEXTS} of the arm",
        "",
        f"{'':>12} {'iterations':>10} {'fit':>8} {'start':>8} " + " ".join(f"{part:>8}" for part in PARTS),
    ]
    for name, learner, data in cases:
        started = time.process_time()
        prepared = learner.prepare(data, None, torch.Generator().manual_seed(seed))
        times = {"start": time.process_time() - started}
        assert isinstance(prepared.algorithm, EIMIteration)
        seconds, errors = _timed_steps(prepared.algorithm, prepared.state, prepared.n_iterations, stops=True)
        times |= {part: sum(values) for part, values in seconds.items()}
        total = sum(times.values())
        shares = " ".join(f"{100.0 * value / total:>7.0f}%" for value in times.values())
        lines.append(f"{name:>12} {len(errors):>10} {total:>8.2f} {shares}")
    return lines


def _ring(seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    angle = 2.0 * math.pi / RING_MODES * torch.randint(RING_MODES, (N_RING,), generator=generator).double()
    noise = torch.randn(N_RING, 2, generator=generator, dtype=torch.float64)
    return RING_RADIUS * torch.stack([angle.cos(), angle.sin()], -1) + RING_DEVIATION * noise


def _timed(times: dict[str, float], name: str, function: Callable[[], Any]) -> Any:
    """Return the result of a function and store its minimum CPU time over three runs."""
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
    """Minimise the dual of one expert by L-BFGS-B with its gradient, and return (eta, omega) (thesis A.16, A.17)."""
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
