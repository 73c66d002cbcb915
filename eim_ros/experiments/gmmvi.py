"""Tables of the paper on natural-gradient variational inference (seed 003, tables 5 and 8): algorithms times problems.

Each run writes its figures and its model into the folder of the experiment as it ends. Runs that are there, with the
same settings, are not done again: an experiment that was interrupted goes on, and one of more seeds only adds them.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from eim_ros.distributions import GaussianMixture, load_model, save_model
from eim_ros.errors import ConfigurationError, ModelFileError
from eim_ros.experiments.gmmvi_problems import PROBLEMS, Problem
from eim_ros.inference.variational import GMMVI, GMMVIConfig
from eim_ros.settings import Settings, option
from eim_ros.targets import PlanarRobot, Target
from eim_ros.targets.metrics import effective_components, mean_log_ratio, modes_found

__all__ = ["GMMVIExperimentConfig", "GMMVIRun", "run_gmmvi"]

MANY = 1_000_000_000  # iterations: evaluations are what is bounded
CHUNK = 1000  # samples whose densities are computed at once
OCCUPIED = 0.01  # share of the samples from which on a goal counts as found


@dataclass(frozen=True)
class GMMVIExperimentConfig(Settings):
    """Settings of `run_gmmvi`."""

    targets: tuple[str, ...] = option(
        ("planar-4", "gmm-20", "stm-20", "breast-cancer"), "problems", choices=tuple(PROBLEMS)
    )
    algorithms: tuple[str, ...] = option(
        ("SAMTRON", "SAMYRON", "SEPYFUX", "ZAMTRUX"), "seven-letter words of the paper"
    )
    n_seeds: int = option(3, "runs of each, with seeds that follow each other", minimum=1)
    budget: float = option(1.0, "share of each problem's evaluations", minimum=1e-6)
    n_evaluated: int = option(10_000, "samples that the final ELBO is measured with", minimum=2)


@dataclass(frozen=True)
class GMMVIRun:
    """Outcome of one run.

    Attributes
    ----------
    target, algorithm : str
    seed : int
    elbo, standard_error : float
        Of the model, by new samples [nat].
    modes : int
        Modes of a mixture with a component near, or goals with 1 % of the samples; -1 where neither is known.
    n_components, effective_components : float
    evaluations : int
    cpu_seconds : float
    """

    target: str
    algorithm: str
    seed: int
    elbo: float
    standard_error: float
    modes: int
    n_components: int
    effective_components: float
    evaluations: int
    cpu_seconds: float


def run_gmmvi(
    config: GMMVIExperimentConfig, folder: Path, seed: int = 0, progress: Callable[[GMMVIRun], None] | None = None
) -> list[GMMVIRun]:
    """All runs, those that were done before included.

    Parameters
    ----------
    config : GMMVIExperimentConfig
    folder : Path
        Where a model per run lies, with its figures in it.
    seed : int
        The first seed, of targets, starts and algorithms.
    progress : callable, optional
        Called with each run.
    """
    for word in config.algorithms:
        GMMVIConfig.named(word)  # a wrong word is told before the work
    runs = []
    for name, word, number in _grid(config, seed):
        path = folder / "gmmvi" / f"{name}-{word.lower()}-{number}.safetensors"
        runs.append(_loaded(path, config) or _done(name, word, number, config, path))
        if progress is not None:
            progress(runs[-1])
    return runs


def _grid(config: GMMVIExperimentConfig, seed: int) -> Iterator[tuple[str, str, int]]:
    for name in config.targets:
        for word in config.algorithms:
            for number in range(seed, seed + config.n_seeds):
                yield name, word.upper(), number


def _loaded(path: Path, config: GMMVIExperimentConfig) -> GMMVIRun | None:
    """The run of a file; None if there is none, or one of other settings."""
    try:
        _, document = load_model(path)
    except ModelFileError:
        return None
    same = document.get("budget") == config.budget and document.get("n_evaluated") == config.n_evaluated
    return GMMVIRun(**json.loads(document["run"])) if same else None


def _done(name: str, word: str, seed: int, config: GMMVIExperimentConfig, path: Path) -> GMMVIRun:
    problem = PROBLEMS[name]
    target, generator = problem.make(seed), torch.Generator().manual_seed(seed)
    settings = _settings(problem, word, config.budget)
    start = target.start.mixture(generator, problem.n_components)
    begin = time.process_time()
    fit = GMMVI(target, settings).fit(start, generator)
    seconds = time.process_time() - begin
    model = fit.model
    assert isinstance(model, GaussianMixture)
    sample = model.sample(config.n_evaluated, generator)
    log_ratio = [target.log_prob(part) - model.log_prob(part) for part in sample.split(CHUNK)]
    bound = mean_log_ratio(torch.cat(log_ratio))
    run = GMMVIRun(
        target=name,
        algorithm=word,
        seed=seed,
        elbo=bound.value,
        standard_error=bound.standard_error,
        modes=_modes(target, model, sample),
        n_components=model.n_components,
        effective_components=effective_components(model.log_weights),
        evaluations=int(sum(fit.history.column("evaluations"))),
        cpu_seconds=seconds,
    )
    document: dict[str, Any] = {"budget": config.budget, "n_evaluated": config.n_evaluated}
    path.parent.mkdir(parents=True, exist_ok=True)
    save_model(path, model, document | {"run": json.dumps(asdict(run))})
    return run


def _settings(problem: Problem, word: str, budget: float) -> GMMVIConfig:
    n_evaluations = math.ceil(budget * problem.n_evaluations)
    bounds = {"n_iterations": MANY, "max_evaluations": n_evaluations}
    fixed = problem.fixed_steps if GMMVIConfig.named(word).component_step_size == "fixed" else {}
    try:
        return GMMVIConfig.named(word, **{**problem.settings, **fixed, **bounds})
    except ConfigurationError as error:
        raise ConfigurationError(f"{word} with a budget of {n_evaluations} evaluations: {error}", word) from error


def _modes(target: Target, model: GaussianMixture, sample: torch.Tensor) -> int:
    if isinstance(target, PlanarRobot):
        return int((target.goal_shares(sample) >= OCCUPIED).sum())
    modes = getattr(target, "modes", None)
    return -1 if modes is None else modes_found(model.means, modes, target.mode_radius, model.log_weights)  # type: ignore[attr-defined]
