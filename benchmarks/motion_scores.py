"""Scores of motion priors: area under the ROC curve that separates held-out from perturbed demonstrations.

    python -m benchmarks.motion_scores [--output benchmarks/results/motion_scores.txt]

In the demonstrations, a planar arm of ten joints unfolds until its tip is on a line, and passes a disc on either side.
The expert of `eim_ros.planar` draws the final configuration, and the motion towards it is random and smooth. Motions
that touch the disc are rejected, so all demonstrations come from one posterior. The context is the final position of
the tip on the line. Priors are learned by EM and by EIM with the same settings. "start" is EIM without iterations. The
priors score new demonstrations and two kinds of perturbed demonstrations:

    bump A     new demonstrations with a smooth deviation of A rad (norm over joints), random in direction and time
    average    averages of two demonstrations that pass the disc on different sides
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch

from eim_ros.core.data_set import DataSet
from eim_ros.learning import EIMConfig, EMConfig
from eim_ros.motion import Demonstrations, MotionPrior, MotionTraining
from eim_ros.planar import Expert, ExpertConfig, PlanarArm, line_task, passing_side

ARM = PlanarArm()
TASK = line_task((7.5, -1.0), (7.5, 1.0), (4.5, 0.0, 1.0))
FOLDED = (1.3, *(-2.6, 2.6) * 4, -2.6)  # configuration at the start [rad]
START_DEVIATION = 0.02  # [rad]
# standard deviations of sines with 1, 2, ... half periods per motion [rad]
WAY_DEVIATIONS = (0.3, 0.1, 0.05, 0.03, 0.02, 0.01)
N_POINTS = 50
BUMP_WIDTH = 0.1  # standard deviation of the bump, in units of the phase
AMPLITUDES = (0.1, 0.2, 0.3, 0.5)  # [rad]
CANDIDATES = 6  # number of motions drawn for each demonstration, because most touch the disc


@dataclass(frozen=True)
class Motions:
    """Motions (n, N_POINTS, n_links) [rad] and their contexts (n, 1) [m]."""

    positions: torch.Tensor
    context: torch.Tensor

    def data_set(self) -> DataSet:
        description = {
            "task": "motion",
            "joint_names": list(ARM.joint_names),
            "n_points": N_POINTS,
            "durations": [2.0] * len(self.positions),
            "context_names": ["goal_y"],
            "labels": [],
            "lower": [None] * ARM.n_links,
            "upper": [None] * ARM.n_links,
            "limits_source": "robot",
        }
        return DataSet(self.context.numpy(), self.positions.flatten(1).numpy(), description)


def demonstrations(n: int, seed: int) -> Motions:
    """Draw motions that reach the line without touching the disc."""
    generator = torch.Generator().manual_seed(seed)
    n_candidates = CANDIDATES * n
    last = Expert(ARM, TASK, ExpertConfig(final_moves=50)).draw(n_candidates, generator)

    def noise(deviation: float) -> torch.Tensor:
        return deviation * torch.randn(n_candidates, 1, ARM.n_links, generator=generator, dtype=torch.float64)

    phase = torch.linspace(0.0, 1.0, N_POINTS, dtype=torch.float64)[:, None]
    smooth = 10.0 * phase**3 - 15.0 * phase**4 + 6.0 * phase**5
    first = torch.tensor(FOLDED, dtype=torch.float64) + noise(START_DEVIATION)
    positions = first + (last[:, None] - first) * smooth
    for number, deviation in enumerate(WAY_DEVIATIONS, 1):
        positions = positions + noise(deviation) * torch.sin(number * torch.pi * phase)
    rows = (clearance(positions) > 0.0).nonzero().flatten()[:n]
    if len(rows) < n:
        raise SystemExit(
            f"only {len(rows)} of {n_candidates} motions do not touch the disc, but {n} are needed; increase CANDIDATES"
        )
    return Motions(positions[rows], ARM.tip(last[rows])[:, 1:])


def clearance(positions: torch.Tensor) -> torch.Tensor:
    """Return the smallest distance (n,) between the links and the disc in each motion [m]."""
    return TASK.clearance(ARM.points(positions)).amin(-1)


def sides(motions: Motions) -> torch.Tensor:
    """Return the side (n,) of the disc on which each motion ends, 1 or -1."""
    return passing_side(ARM.points(motions.positions[:, -1]), TASK.obstacles[0, :2])


def bumped(motions: Motions, amplitude: float, generator: torch.Generator) -> Motions:
    """Add a smooth deviation to each motion."""
    n = len(motions.positions)
    direction = torch.randn(n, 1, ARM.n_links, generator=generator, dtype=torch.float64)
    direction = amplitude * direction / direction.norm(dim=-1, keepdim=True)
    center = 0.2 + 0.6 * torch.rand(n, 1, 1, generator=generator, dtype=torch.float64)
    phase = torch.linspace(0.0, 1.0, N_POINTS, dtype=torch.float64)[:, None]
    shape = torch.exp(-0.5 * ((phase - center) / BUMP_WIDTH).square())
    return Motions(motions.positions + direction * shape, motions.context)


def averages(motions: Motions) -> Motions:
    """Return averages of two demonstrations with similar contexts that pass the disc on different sides."""
    side, order = sides(motions), torch.argsort(motions.context[:, 0])
    left, right = (order[side[order] == value] for value in (1, -1))
    n = min(len(left), len(right))
    pairs = [part[torch.linspace(0, len(part) - 1, n).round().long()] for part in (left, right)]
    positions, context = (sum(x[rows] for rows in pairs) / 2.0 for x in (motions.positions, motions.context))
    return Motions(positions, context)


def area_under_curve(good: np.ndarray, bad: np.ndarray) -> float:
    """Return the probability that a good score is above a bad score (Mann and Whitney), where ties count half."""
    bad = np.sort(bad)
    below = 0.5 * (np.searchsorted(bad, good, "left") + np.searchsorted(bad, good, "right"))
    return float(below.mean() / len(bad))


def score(prior: MotionPrior, motions: Motions) -> np.ndarray:
    """Return log-densities (n,) [nat]."""
    checked = Demonstrations.from_data_set(motions.data_set())
    return prior.score(checked.positions, checked.context).log_prob


def failures(motions: Motions) -> float:
    """Return the share of motions that touch the disc."""
    return float((clearance(motions.positions) <= 0.0).double().mean())


def measure(n: int, n_components: int, seeds: int) -> str:
    trained: dict[str, Callable[[], EMConfig | EIMConfig]] = {
        "EM": lambda: EMConfig(n_components=n_components),
        "start": lambda: EIMConfig(n_components=n_components, n_iterations=0),
        "EIM": lambda: EIMConfig(n_components=n_components),
    }
    names = ["average", *(f"bump {amplitude:g}" for amplitude in AMPLITUDES)]
    areas: dict[str, list[list[float]]] = {learner: [] for learner in trained}
    touching: dict[str, list[float]] = {learner: [] for learner in trained}
    seconds: dict[str, list[float]] = {learner: [] for learner in trained}
    shares = []
    for seed in range(seeds):
        data, fresh = demonstrations(n, seed), demonstrations(n // 2, 1000 + seed)
        generator = torch.Generator().manual_seed(seed)
        perturbed = [averages(fresh), *(bumped(fresh, amplitude, generator) for amplitude in AMPLITUDES)]
        shares.append([float((sides(data) > 0).double().mean()), *(failures(motions) for motions in perturbed)])
        for learner, config in trained.items():
            began = time.process_time()
            prior = MotionTraining(learner=config(), seed=seed).run(data.data_set()).model
            seconds[learner].append(time.process_time() - began)
            good = score(prior, fresh)
            areas[learner].append([area_under_curve(good, score(prior, motions)) for motions in perturbed])
            drawn = [
                prior.condition(context).sample(1, generator).positions[0] for context in fresh.context[:500].numpy()
            ]
            touching[learner].append(float((clearance(torch.from_numpy(np.stack(drawn))) <= 0.0).double().mean()))
            print(f"seed {seed} {learner}: {np.round(areas[learner][-1], 4)}", flush=True)
    share = np.mean(shares, axis=0)
    lines = [
        "Area under the ROC curve: log densities of new demonstrations against those of perturbed ones",
        f"{n} demonstrations and {n // 2} new ones; {n_components} experts, all other "
        f"settings by default; mean (least) of seeds 0 to {seeds - 1}",
        f"Python {platform.python_version()}, torch {version('torch')}, {os.cpu_count()} cores",
        f"{share[0]:.2f} of the demonstrations pass the disc above it, none touches it",
        "",
        f"{'perturbation':<14}{'touch the disc':>15}" + "".join(f"{learner:>18}" for learner in trained),
    ]
    for index, name in enumerate(names):
        row = f"{name:<14}{share[1 + index]:>15.2f}"
        for learner in trained:
            values = np.array(areas[learner])[:, index]
            row += f"{values.mean():>10.4f} ({values.min():.3f})"
        lines.append(row)
    lines.append("")
    for learner in trained:
        lines.append(
            f"{learner}: {np.mean(touching[learner]):.3f} of its own motions touch the disc; "
            f"{np.mean(seconds[learner]):.1f} s of CPU"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--demonstrations", type=int, default=1000)
    parser.add_argument("--experts", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--output", type=Path, help="also write the table to this file")
    args = parser.parse_args()
    torch.set_num_threads(1)
    table = measure(args.demonstrations, args.experts, args.seeds)
    print(table, end="")
    if args.output:
        args.output.parent.mkdir(parents=True, exist_ok=True)
        args.output.write_text(table, encoding="utf-8")


if __name__ == "__main__":
    main()
