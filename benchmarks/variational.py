"""Variational inference: CPU time compared with gmmvi from PyPI at equal evaluations, and quality of long runs.

    python -m benchmarks.variational [--peer PYTHON] [--seeds 3] [--skip-quality] [--targets gmm20 ...] [--output FILE]

Speed: SAMTRON on one thread. Both implementations use the same target, start and settings. They stop before an
iteration that could exceed the number of evaluations in `SPEED`, because one more iteration can matter. For example,
planar4 gains up to 2 nat per iteration at 200,000 evaluations. The seconds exclude the first three iterations, in which
TensorFlow traces its graphs. Set --peer to an interpreter with gmmvi and TensorFlow (`pip install gmmvi` in a separate
environment). Without --peer, the columns of gmmvi are empty.

Defaults: planar4 by `GMMVI(target).fit()`, and by gmmvi with its default settings for planar4, up to the same number of
evaluations. The seconds are for the complete run.

Quality: algorithms and settings of `QUALITY`. The table lists -ELBO from 20000 new samples with its standard error, and
the modes found. For the planar robot, it lists the share of samples at each goal instead. The algorithms of the paper
do not split components. "kinematic" marks a run that starts from `kinematic_start`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks._machine import load_average, processor, versions
from eim_ros.core.settings import flattened
from eim_ros.learning.gmmvi import GMMVI, GMMVIConfig, Modules
from eim_ros.learning.models import GaussianMixture
from experiments.gmmvi import PROBLEMS
from experiments.targets import kinematic_start
from experiments.targets.scores import MixtureScores, mixture_scores

WORKER = Path(__file__).with_name("_gmmvi_worker.py")
N_TRACED = 3
N_COMPONENTS_OF_PEER = 300  # value in the file planar_robot_4.yml of gmmvi
N_BY_DEFAULT = 200_000
SPEED = {"planar4": 500_000, "gmm20": 200_000, "stm20": 207_000, "breast-cancer": 101_000}  # number of evaluations


@dataclass(frozen=True)
class LongRun:
    """Algorithm, number of evaluations, changed settings, and number of components of a kinematic start."""

    target: str
    word: str
    n_evaluations: int
    settings: dict[str, Any]
    n_kinematic: int = 0


SMALL = {"component_step.first": 0.05, "component_step.largest": 0.05}
QUALITY = {
    "gmm20": LongRun("gmm20", "SAMTRON", 800_000, {"n_samples": 100}),
    "stm20": LongRun(
        "stm20",
        "LAMTRON",
        1_300_000,
        {
            "n_samples": 50,
            "adaptation.add_every": 30,
            "adaptation.n_refined": 24,
            "adaptation.delete_after": 20,
            "adaptation.max_components": 240,
        },
    ),
    "breast-cancer": LongRun(
        "breast-cancer",
        "LAMTRON",
        1_000_000,
        {
            "n_samples": 50,
            "adaptation.add_every": 20,
            "adaptation.n_refined": 16,
            "adaptation.delete_after": 20,
            "adaptation.max_components": 160,
            "component_step.largest": 0.05,
        },
    ),
    "planar4": LongRun(
        "planar4",
        "LAMTRON",
        1_500_000,
        {
            "n_samples": 30,
            "adaptation.add_every": 2,
            "adaptation.n_refined": 250,
            "adaptation.least_refinement": 0.0,
            "adaptation.delete_after": 10,
            "adaptation.max_components": 2000,
            **SMALL,
        },
        n_kinematic=1000,
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", metavar="PYTHON", help="Python interpreter with gmmvi and TensorFlow")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--skip-quality", action="store_true")
    parser.add_argument("--skip-speed", action="store_true")
    parser.add_argument("--skip-defaults", action="store_true")
    parser.add_argument("--targets", nargs="+", choices=QUALITY, default=list(QUALITY), help="targets of the long runs")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    lines: list[str] = []

    def tell(*new: str) -> None:
        lines.extend(new)
        print("\n".join(new), flush=True)
        if args.output:
            args.output.write_text("\n".join(lines) + "\n", encoding="utf-8")

    tell(
        f"one thread, CPU seconds; {versions(['torch', 'numpy'])}; {processor()}",
        f"load average when it began: {load_average()}",
        "",
    )
    if not args.skip_speed:
        tell(
            f"{'target':>14} {'seed':>4} {'evaluations':>12} {'ELBO':>9} {'s':>7} {'gmmvi':>12} {'ELBO':>9} {'s':>7} "
            f"{'times faster':>13}"
        )
        for name, budget in SPEED.items():
            for seed in range(args.first_seed, args.first_seed + args.seeds):
                tell(_speed(name, budget, seed, args.peer))
        tell("")
    if not args.skip_defaults:
        tell(f"{'target':>14} {'seed':>4} {'evaluations':>12} {'ELBO':>9} {'s':>7} {'gmmvi':>12} {'ELBO':>9} {'s':>7}")
        for seed in range(args.first_seed, args.first_seed + args.seeds):
            tell(_defaults("planar4", seed, args.peer))
        tell("")
    if not args.skip_quality:
        tell(
            f"{'target':>20} {'algorithm':>14} {'seed':>4} {'evaluations':>12} {'-ELBO':>9} {'+-':>6} {'s':>7} "
            f"{'components':>11}  found"
        )
        for name in args.targets:
            for seed in range(args.first_seed, args.first_seed + args.seeds):
                tell(_quality(QUALITY[name], seed))


def _fitted(target: Any, config: GMMVIConfig, generator: torch.Generator, start: GaussianMixture) -> tuple[Any, float]:
    began = time.process_time()
    result = GMMVI(target, config).fit(start=start, generator=generator)
    return result, time.process_time() - began


def _scores(target: Any, model: GaussianMixture) -> MixtureScores:
    return mixture_scores(target, model, 20_000, torch.Generator().manual_seed(7))


def _speed(name: str, budget: int, seed: int, peer: str | None) -> str:
    generator = torch.Generator().manual_seed(seed)
    target = PROBLEMS[name].make(generator)
    start = target.start.mixture(generator, PROBLEMS[name].settings.get("n_components"))
    result, _ = _fitted(target, PROBLEMS[name].config("SAMTRON", budget), generator, start)
    records = result.history.records[N_TRACED:]
    seconds = sum(record["cpu_seconds"] for record in records)
    evaluations = sum(record["evaluations"] for record in records)
    elbo = _scores(target, result.model).elbo.value
    line = f"{name:>14} {seed:>4} {result.state.evaluations:>12} {elbo:>9.3f} {seconds:>7.2f}"
    if peer is None:
        return line
    theirs = _peer(peer, target, start, name, budget, seed)
    ratio = theirs["seconds"] / theirs["evaluations"] / (seconds / evaluations)
    total = theirs["evaluations"] + theirs["traced_evaluations"]
    return f"{line} {total:>12.0f} {theirs['elbo']:>9.3f} {theirs['seconds']:>7.2f} {ratio:>13.1f}"


def _defaults(name: str, seed: int, peer: str | None) -> str:
    target = PROBLEMS[name].make(torch.Generator().manual_seed(seed))
    began = time.process_time()
    result: Any = GMMVI(target, seed=seed, max_evaluations=N_BY_DEFAULT).fit()
    seconds = time.process_time() - began
    elbo = _scores(target, result.model).elbo.value
    line = f"{name:>14} {seed:>4} {result.state.evaluations:>12} {elbo:>9.3f} {seconds:>7.2f}"
    if peer is None:
        return line
    start = target.start.mixture(torch.Generator().manual_seed(seed), N_COMPONENTS_OF_PEER)
    theirs = _peer(peer, target, start, name, N_BY_DEFAULT, seed, defaults=True)
    evaluations = theirs["evaluations"] + theirs["traced_evaluations"]
    return f"{line} {evaluations:>12.0f} {theirs['elbo']:>9.3f} {theirs['seconds'] + theirs['tracing']:>7.2f}"


def _peer(
    peer: str, target: Any, start: GaussianMixture, name: str, budget: int, seed: int, *, defaults: bool = False
) -> dict[str, float]:
    config = PROBLEMS[name].config("SAMTRON", budget)
    modules = Modules.of(config)
    settings = {
        "defaults": defaults,
        **flattened(GMMVIConfig, config.to_mapping()),
        "component_step.first": modules.component_step_size.first,
        "weight_step.first": modules.weight_step_size.first,
    }
    problem = {
        "weights": start.log_weights.exp(),
        "means": start.means,
        "covariances": start.scale_trils @ start.scale_trils.mT,
    }
    if hasattr(target, "scale_trils"):
        problem |= {"target_means": target.means, "target_covariances": target.scale_trils @ target.scale_trils.mT}
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder, "problem.npz"), **{key: value.numpy() for key, value in problem.items()})
        described = json.dumps({**settings, "name": name, "budget": budget, "seed": seed})
        Path(folder, "settings.json").write_text(described, encoding="utf-8")
        command = [peer, str(WORKER), str(Path(folder, "problem.npz")), str(Path(folder, "settings.json"))]
        outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    if outcome.returncode != 0:
        sys.exit(f"{peer} could not run gmmvi: {outcome.stderr[-500:]}")
    theirs: dict[str, float] = json.loads(outcome.stdout.splitlines()[-1])
    return theirs


def _quality(long_run: LongRun, seed: int) -> str:
    generator, problem = torch.Generator().manual_seed(seed), PROBLEMS[long_run.target]
    target, config = problem.make(generator), problem.config(long_run.word, long_run.n_evaluations, **long_run.settings)
    if long_run.n_kinematic:
        start = kinematic_start(target, long_run.n_kinematic, generator).mixture
    else:
        start = target.start.mixture(generator, config.n_components or None)
    result, seconds = _fitted(target, config, generator, start)
    scores = _scores(target, result.model)
    found = ""
    if scores.goal_shares is not None:
        found = "goals " + " ".join(f"{share:.3f}" for share in scores.goal_shares)
    elif scores.n_found is not None:
        found = f"{scores.n_found} of {scores.n_modes} modes"
    label = f"{long_run.target} kinematic" if long_run.n_kinematic else long_run.target
    algorithm = f"{long_run.word} split" if config.adaptation.n_refined else long_run.word
    return (
        f"{label:>20} {algorithm:>14} {seed:>4} {result.state.evaluations:>12} {-scores.elbo.value:>9.3f} "
        f"{scores.elbo.standard_error:>6.3f} {seconds:>7.1f} {result.model.n_components:>11}  {found}"
    )


if __name__ == "__main__":
    main()
