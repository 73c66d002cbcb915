"""Time of an iteration of each learner on the processor and on a GPU, for 10, 100 and 1000 components.

    python -m benchmarks.learner_devices [--components 10 100 1000] [--threads 1] [--seed 0]
        [--output benchmarks/results/learner_devices.txt]

EM and EIM learn from 20,000 pairs of a position and a configuration of the iiwa14. Both start with the same step of EM.
EIM has one small reference density, because only its iterations are timed. GMMVI and VIPS (ZAMTRUX) approximate a curve
in 20 dimensions, whose density takes little time. A cell is the median wall-clock time of iterations 2 to 5 [s]. All
other settings are defaults. VIPS has at most 100 components. Without a GPU, the table has one column of times.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks._machine import conditions, print_table
from benchmarks._targets import Curve
from eim_ros.ik import collect
from eim_ros.kinematics import Robot
from eim_ros.learning import EIM, EM, GMMVI, GMMVIConfig, RunOptions, TruncatedEM, random_start

N_PAIRS, N_DIMS, N_ITERATIONS = 20_000, 20, 5
LARGEST = {"VIPS": 100}  # with 1000 components, an iteration takes minutes
SHORT = {"ratio.reference.factors": (2.0,), "ratio.reference.starts": 1, "ratio.reference.iterations": 2}
Fit = Callable[[int, torch.Generator, RunOptions], Any]


def on_pairs(learner: Callable[..., Any], **settings: Any) -> Fit:
    """Return a fit to pairs of the arm that begins after one step of EM."""

    def fit(n: int, generator: torch.Generator, run: RunOptions) -> Any:
        pairs = collect(Robot("iiwa14"), N_PAIRS, "position", 0)
        data = torch.as_tensor(pairs.context), torch.as_tensor(pairs.sample)
        start = EM(n_components=n, n_iterations=1, seed=0).fit(data).model
        return learner(n_iterations=N_ITERATIONS, **settings).fit(data, start, generator=generator, run=run)

    return fit


def on_density(settings: GMMVIConfig) -> Fit:
    """Return a fit to the density of a curve."""

    def fit(n: int, generator: torch.Generator, run: RunOptions) -> Any:
        start = random_start(n_dims=N_DIMS, n_components=n)
        learner = GMMVI(lambda y: Curve(N_DIMS).log_prob(y, y), settings, n_iterations=N_ITERATIONS)
        return learner.fit(start=start, generator=generator, run=run)

    return fit


FITS = {
    "EM": on_pairs(EM, tolerance=0.0),
    "truncated EM": on_pairs(TruncatedEM, tolerance=0.0),
    "EIM": on_pairs(EIM, **SHORT),
    "EIM, plug-in ratio": on_pairs(EIM, **SHORT, **{"ratio.estimator": "plug-in"}),
    "EIM, network ratio": on_pairs(EIM, **SHORT, **{"ratio.estimator": "network"}),
    "GMMVI": on_density(GMMVIConfig()),
    "VIPS": on_density(GMMVIConfig.named("ZAMTRUX")),
}


def seconds(fit: Fit, n: int, device: str, seed: int) -> float:
    """Return the median time of an iteration after the first one."""
    ends: list[float] = []

    def note(*_: Any) -> None:
        if device != "cpu":
            torch.cuda.synchronize()
        ends.append(time.perf_counter())

    fit(n, torch.Generator(device).manual_seed(seed), RunOptions([note]))
    return float(np.median(np.diff(ends)))


def rows(devices: list[str], numbers: list[int], seed: int) -> Iterator[str]:
    yield f"\n{'learner':20}{'components':>12}" + "".join(f"{device:>10}" for device in devices)
    for name, fit in FITS.items():
        for n in numbers:
            if n > LARGEST.get(name, n):
                continue
            times = [seconds(fit, n, device, seed) for device in devices]
            yield f"{name:20}{n:12d}" + "".join(f"{each:10.4f}" for each in times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--components", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    devices = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    head = [f"{conditions(['torch', 'numpy'])}; threads of torch on the processor: {args.threads}, seed {args.seed}"]
    head += [] if len(devices) == 2 else ["Not measured on a GPU: torch finds none on this machine."]
    print_table(head, rows(devices, args.components, args.seed), args.output)


if __name__ == "__main__":
    main()
