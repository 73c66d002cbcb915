"""`python -m experiments vi`: fit a Gaussian mixture to a target density by natural-gradient variational inference.

Seven letters select one of the 432 algorithms of Arenz et al. 2023. Each target has its published settings as defaults;
flags override them. The run saves a checkpoint next to the output. --resume continues
from it with bitwise identical results, and accepts a larger budget.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import time
from pathlib import Path
from typing import Any

import torch

from eim_ros.cli.options import add_settings_flags, add_threads_flag, given_settings, use_threads
from eim_ros.cli.progress import ProgressBar
from eim_ros.cli.request_options import count, random_seed
from eim_ros.core.errors import ConfigurationError, ModelFileError
from eim_ros.core.files import check_outputs, to_json
from eim_ros.learning import RunOptions
from eim_ros.learning.gmmvi import ALGORITHMS, GMMVI, GMMVIConfig
from eim_ros.learning.models import GaussianMixture, save_model
from eim_ros.learning.run import Status
from experiments.gmmvi import FILE_PROBLEMS, PROBLEMS, Problem
from experiments.targets.humanoid import HumanoidPosterior
from experiments.targets.planar import PlanarRobot
from experiments.targets.poses import kinematic_start
from experiments.targets.scores import mixture_scores

BASIC = ("n_components", "n_samples", "max_components", "add_every", "temperature", "plateau_window")


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command `vi` to the command line."""
    names = ", ".join(f"{word.lower()} ({meaning})" for word, meaning in ALGORITHMS.items())
    parser = subparsers.add_parser(
        "vi",
        help="fit a Gaussian mixture to a target density: variational inference",
        description=__doc__,
        epilog=f"Algorithms: {names}.",
    )
    add = parser.add_argument
    add("--target", choices=(*PROBLEMS, *FILE_PROBLEMS), required=True, help="density to fit")
    add("--urdf", metavar="FILE", help="URDF of the humanoid, for --target talos")
    add("--algorithm", default="samtron", metavar="WORD", help="seven letters (default %(default)s)")
    add("--budget", type=count, default=500_000, metavar="N", help="evaluations of the target (default %(default)s)")
    add("--start", choices=("published", "kinematic"), default="published", help="first model (default %(default)s)")
    add("--output", required=True, metavar="FILE", help="model to write (.safetensors)")
    add("--random-seed", "--seed", type=random_seed, default=0, help="of everything (default %(default)s)")
    add("--picture", metavar="FILE", help="PNG file for postures of a robot, drawn from the model")
    add(
        "--elbo-samples",
        type=count,
        default=20_000,
        metavar="N",
        help="number of samples for the last ELBO (default %(default)s)",
    )
    add("--checkpoint", metavar="FILE", help="checkpoint file (default: OUTPUT.checkpoint)")
    add("--checkpoint-every", type=count, default=50, metavar="N", help="iterations between (default %(default)s)")
    add("--no-checkpoint", action="store_true", help="write no checkpoint")
    add("--resume", action="store_true", help="continue the interrupted run from its checkpoint")
    add("--quiet", action="store_true", help="no progress bar")
    add("--json", action="store_true", help="print one JSON object")
    add_threads_flag(parser)
    add_settings_flags(parser, [GMMVIConfig], {"n_components": "--components"}, BASIC)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Fit the mixture and return the exit code."""
    use_threads(args)
    problem = _problem(args)
    config = _config(args, problem)
    checkpoint = _checkpoint(args)
    check_outputs(
        {
            "--output": args.output,
            "--picture": args.picture,
            "--checkpoint": checkpoint,
        },
        {"--urdf": args.urdf},
    )
    if args.picture is not None:
        from eim_ros.view.figure_file import check_picture_name  # imported here because matplotlib takes a second

        check_picture_name(args.picture)
    generator = torch.Generator().manual_seed(args.random_seed)
    target = problem.make(generator)
    if args.picture is not None and not isinstance(target, PlanarRobot | HumanoidPosterior):
        raise ConfigurationError(f"--picture shows postures of robots; {args.target} is none", args.target)
    initial, n_before = _start(args, target, config, generator)
    if n_before:  # the start's evaluations count too; at least 1, because 0 means no bound
        config = dataclasses.replace(config, max_evaluations=max(1, args.budget - n_before))
    started = time.process_time()
    with ProgressBar(args.budget, args.target, enabled=not args.quiet, unit="evaluations") as progress:
        result = GMMVI(target, config).fit(
            start=initial,
            generator=generator,
            run=RunOptions([progress], checkpoint, args.checkpoint_every, args.resume),
        )
    seconds = time.process_time() - started
    if result.status is Status.INTERRUPTED:
        rest = "" if checkpoint is None else f"; give --resume to continue from {checkpoint}"
        print(f"interrupted after {result.state.iteration} iterations{rest}")
        return 130
    model = result.state.model.as_mixture()
    figures = {
        "target": args.target,
        "algorithm": config.word,
        "seed": args.random_seed,
        "status": result.status.value,
        **_scores(target, model, args.elbo_samples, generator),
        "evaluations": n_before + result.state.evaluations,
        "iterations": result.state.iteration,
        "n_components": model.n_components,
        "cpu_seconds": round(sum(result.history.column("cpu_seconds")) if args.resume else seconds, 2),
    }
    save_model(args.output, model, {"training": {**figures, "config": config.to_mapping()}})
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)
    if args.picture is not None and isinstance(target, PlanarRobot | HumanoidPosterior):
        _draw(target, model, args.picture)
    if args.json:
        print(to_json({"output": args.output, **figures}))
    else:
        print(f"wrote {args.output}: {_told(figures)}")
    return 0 if result.status is not Status.NON_FINITE else 1


def _problem(args: argparse.Namespace) -> Problem:
    if args.target not in FILE_PROBLEMS:
        return PROBLEMS[args.target]
    if args.urdf is None:
        raise ConfigurationError(
            f"--target {args.target} needs a robot: give --urdf FILE, for TALOS the talos_reduced.urdf of PyPI's "
            "example-robot-data"
        )
    return FILE_PROBLEMS[args.target](Path(args.urdf))


def _config(args: argparse.Namespace, problem: Problem) -> GMMVIConfig:
    given = given_settings(args)
    if "max_evaluations" in given:
        raise ConfigurationError("give --budget instead of --max-evaluations", given["max_evaluations"])
    return problem.config(args.algorithm, args.budget, **given)


def _checkpoint(args: argparse.Namespace) -> Path | None:
    path = None if args.no_checkpoint else Path(args.checkpoint or f"{args.output}.checkpoint")
    if args.resume and (path is None or not path.exists()):
        raise ModelFileError(f"nothing to resume: there is no {path}", str(path))
    return path


def _start(
    args: argparse.Namespace, target: Any, config: GMMVIConfig, generator: torch.Generator
) -> tuple[GaussianMixture | None, int]:
    """Return the initial model (None: the target's own) and the number of evaluations it cost."""
    if args.start == "published":
        return None, 0
    if not hasattr(target, "task"):
        raise ConfigurationError(f"a kinematic start needs a robot that reaches; {args.target} is none", args.target)
    start = kinematic_start(target, config.n_components or target.start.n_components, generator)
    return start.mixture, start.n_evaluations


def _scores(target: Any, model: GaussianMixture, n_samples: int, generator: torch.Generator) -> dict[str, Any]:
    """Return the ELBO from fresh samples, and the modes or goals that were found if the target defines them."""
    found = mixture_scores(target, model, n_samples, generator)
    scores: dict[str, Any] = {
        "elbo": _finite(found.elbo.value),
        "elbo_standard_error": _finite(found.elbo.standard_error),
    }
    if found.n_found is not None:
        scores["modes_found"] = found.n_found
    if found.goal_shares is not None:
        scores["goal_shares"] = [round(share, 4) for share in found.goal_shares]
    return scores


def _draw(target: PlanarRobot | HumanoidPosterior, model: GaussianMixture, path: str) -> None:
    if isinstance(target, PlanarRobot):
        from experiments.targets.planar import draw_planar_posterior  # imported here: matplotlib takes a second

        draw_planar_posterior(target, model, path)
    else:
        from experiments.targets.humanoid import draw_humanoid

        draw_humanoid(target, model, path)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _told(figures: dict[str, Any]) -> str:
    end = "budget spent" if figures["status"] == Status.MAX_ITERATIONS.value else figures["status"].replace("_", " ")
    elbo = "minus infinity" if figures["elbo"] is None else f"{figures['elbo']:.3f}"
    found = f", {figures['modes_found']} modes" if "modes_found" in figures else ""
    return (
        f"ELBO {elbo} with {figures['n_components']} components{found} after {figures['evaluations']} evaluations, "
        f"{figures['cpu_seconds']} s of CPU ({end})"
    )
