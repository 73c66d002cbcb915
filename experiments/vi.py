"""`python -m experiments vi` fits a Gaussian mixture to a target density by natural-gradient variational inference.

Seven letters select one of the 432 algorithms of Arenz et al. 2023. Each target has its published settings as defaults;
use --set to override them. The run saves a checkpoint next to the output. --resume continues from the checkpoint with
bitwise identical results, and accepts a larger budget.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from eim_ros.cli.flags import (
    count,
    flag,
    json_flag,
    listed_settings,
    parse,
    quiet_flag,
    seed_flag,
    switch,
    threads_flag,
)
from eim_ros.cli.options import use_threads
from eim_ros.cli.progress import ProgressBar
from eim_ros.core.errors import ConfigurationError, ModelFileError
from eim_ros.core.files import check_outputs, to_json
from eim_ros.core.settings import assignments, chosen
from eim_ros.learning import RunOptions
from eim_ros.learning.gmmvi import GMMVI, GMMVIConfig
from eim_ros.learning.models import GaussianMixture, save_model
from eim_ros.learning.run import Status
from experiments.gmmvi import FILE_PROBLEMS, PROBLEMS, Problem
from experiments.targets.humanoid import HumanoidPosterior
from experiments.targets.planar import PlanarRobot
from experiments.targets.poses import kinematic_start
from experiments.targets.scores import mixture_scores

Target: Any = Literal[tuple({**PROBLEMS, **FILE_PROBLEMS})]  # the choices are known only at run time


@dataclass(frozen=True, kw_only=True)
class FitMixture:
    """Fit a Gaussian mixture to a target density by natural-gradient variational inference.

    Seven letters select one of the 432 algorithms of Arenz et al. 2023. Each target has its published settings as
    defaults. The run saves a checkpoint next to the output, and --resume continues it.
    """

    target: Target = flag(text="Density to fit.")
    urdf: str | None = flag(None, "URDF of the humanoid, for --target talos.", metavar="FILE")
    algorithm: str = flag("samtron", "Algorithm, as a word of seven letters.", metavar="WORD")
    budget: int = count(500000, "Number of evaluations of the target.")
    start: Literal["published", "kinematic"] = flag("published", "How the initial model is made.")
    output: str = flag(text="Model to write (.safetensors).", metavar="FILE")
    seed: int = seed_flag()
    picture: str | None = flag(
        None, "Picture (.png) of postures sampled from the model; only for robots.", metavar="FILE"
    )
    elbo_samples: int = count(20000, "Number of samples for the final ELBO.")
    checkpoint: str | None = flag(None, "Checkpoint (default: OUTPUT.checkpoint).", metavar="FILE")
    checkpoint_every: int = count(50, "Number of iterations between two checkpoints.")
    no_checkpoint: bool = switch("Do not save checkpoints.")
    resume: bool = switch("Continue the interrupted run from its checkpoint.")
    set: tuple[str, ...] = flag((), "A setting; --help-settings lists them.", metavar="NAME=VALUE", repeated=True)
    quiet: bool = quiet_flag()
    json: bool = json_flag()
    threads: int | None = threads_flag()

    @classmethod
    def read(cls, program: str, words: Sequence[str]) -> FitMixture:
        """Read the flags of the command, or list the settings. The defaults of the settings depend on the target."""
        if "--help-settings" in words:
            print(listed_settings(GMMVIConfig()))
            raise SystemExit(0)
        verb: FitMixture = parse(cls, program, words)
        return verb

    def run(self) -> int:
        """Fit the mixture and return the exit code."""
        use_threads(self.threads)
        problem = _problem(self)
        config = _config(self, problem)
        checkpoint = _checkpoint(self)
        check_outputs(
            {
                "--output": self.output,
                "--picture": self.picture,
                "--checkpoint": checkpoint,
            },
            {"--urdf": self.urdf},
        )
        if self.picture is not None:
            from eim_ros.view.style import check_picture_name  # imported here: matplotlib takes a second

            check_picture_name(self.picture)
        generator = torch.Generator().manual_seed(self.seed)
        target = problem.make(generator)
        if self.picture is not None and not isinstance(target, PlanarRobot | HumanoidPosterior):
            raise ConfigurationError(
                f"--picture shows postures of robots, but {self.target} is not a robot; leave it out", self.target
            )
        initial, n_before = _start(self, target, config, generator)
        if n_before:  # the start has used evaluations; at least 1, because 0 means no limit
            config = dataclasses.replace(config, max_evaluations=max(1, self.budget - n_before))
        started = time.process_time()
        with ProgressBar(self.budget, self.target, enabled=not self.quiet, unit="evaluations") as progress:
            result = GMMVI(target, config).fit(
                start=initial,
                generator=generator,
                run=RunOptions([progress], checkpoint, self.checkpoint_every, self.resume),
            )
        seconds = time.process_time() - started
        if result.status is Status.INTERRUPTED:
            rest = "" if checkpoint is None else f"; give --resume to continue from {checkpoint}"
            print(f"interrupted after {result.state.iteration} iterations{rest}")
            return 130
        model = result.state.model.as_mixture()
        figures = {
            "target": self.target,
            "algorithm": config.word,
            "seed": self.seed,
            "status": result.status.value,
            **_scores(target, model, self.elbo_samples, generator),
            "evaluations": n_before + result.state.evaluations,
            "iterations": result.state.iteration,
            "n_components": model.n_components,
            "cpu_seconds": round(sum(result.history.column("cpu_seconds")) if self.resume else seconds, 2),
        }
        save_model(self.output, model, {"training": {**figures, "config": config.to_mapping()}})
        if checkpoint is not None:
            checkpoint.unlink(missing_ok=True)
        if self.picture is not None and isinstance(target, PlanarRobot | HumanoidPosterior):
            _draw(target, model, self.picture)
        if self.json:
            print(to_json({"output": self.output, **figures}))
        else:
            print(f"wrote {self.output}: {_told(figures)}")
        return 0 if result.status is not Status.NON_FINITE else 1


def _problem(args: FitMixture) -> Problem:
    if args.target not in FILE_PROBLEMS:
        return PROBLEMS[args.target]
    if args.urdf is None:
        raise ConfigurationError(
            f"--target {args.target} needs a robot; give --urdf FILE, for TALOS the talos_reduced.urdf of PyPI's "
            "example-robot-data"
        )
    return FILE_PROBLEMS[args.target](Path(args.urdf))


def _config(args: FitMixture, problem: Problem) -> GMMVIConfig:
    given = assignments(args.set)
    if "max_evaluations" in given:
        raise ConfigurationError("max_evaluations is not a setting here; give --budget instead")
    return chosen(problem.config(args.algorithm, args.budget), given)


def _checkpoint(args: FitMixture) -> Path | None:
    path = None if args.no_checkpoint else Path(args.checkpoint or f"{args.output}.checkpoint")
    if args.resume and (path is None or not path.exists()):
        raise ModelFileError(
            f"cannot resume, because there is no checkpoint {path}; leave out --resume to start a new run", str(path)
        )
    return path


def _start(
    args: FitMixture, target: Any, config: GMMVIConfig, generator: torch.Generator
) -> tuple[GaussianMixture | None, int]:
    """Return the initial model, or None for the published model, and its number of evaluations."""
    if args.start == "published":
        return None, 0
    if not hasattr(target, "task"):
        raise ConfigurationError(
            f"--start kinematic needs a robot as target, but {args.target} is not a robot; leave it out", args.target
        )
    start = kinematic_start(target, config.n_components or target.start.n_components, generator)
    return start.mixture, start.n_evaluations


def _scores(target: Any, model: GaussianMixture, n_samples: int, generator: torch.Generator) -> dict[str, Any]:
    """Return the ELBO, estimated from new samples, and the number of modes or goals found, if the target
    defines them.
    """
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
        from experiments.targets.planar import draw_planar_posterior  # here, for the same reason

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
