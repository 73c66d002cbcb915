"""`eim experiment gmmvi`: the tables of the paper on natural-gradient variational inference; goes on where it ended."""

from __future__ import annotations

import argparse
import math
import statistics
from dataclasses import asdict
from pathlib import Path
from typing import Any

from eim_ros.cli.settings_flags import add_settings_flags, given_settings
from eim_ros.experiments.gmmvi import GMMVIExperimentConfig, GMMVIRun, run_gmmvi
from eim_ros.experiments.gmmvi_problems import PROBLEMS

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare its flags."""
    add_settings_flags(parser, [GMMVIExperimentConfig], {"n_seeds": "--seeds"})


def run(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run what is not done, print a line per run and the table, and draw."""
    from eim_ros.viz.gmmvi_picture import draw_gmmvi

    config = GMMVIExperimentConfig.from_mapping(given_settings(args))
    print(f"{'target':<21} {'algorithm':<9} seed {'-ELBO [nat]':>20} modes components evaluations CPU [s]")

    def progress(done: GMMVIRun) -> None:
        modes = "" if done.modes < 0 else str(done.modes)
        print(
            f"{done.target:<21} {done.algorithm:<9} {done.seed:4d} {-done.elbo:10.3f} +- {done.standard_error:6.3f} "
            f"{modes:>5} {done.n_components:10d} {done.evaluations:11d} {done.cpu_seconds:7.1f}",
            flush=True,
        )

    runs = run_gmmvi(config, folder, args.random_seed, progress)
    print(f"\n{'-ELBO':<21} {'algorithm':<9} {'mean':>10} {'3 sigma':>8} {'paper':>8}")
    for name in config.targets:
        for word in dict.fromkeys(done.algorithm for done in runs):
            values = [-done.elbo for done in runs if done.target == name and done.algorithm == word]
            published = PROBLEMS[name].published.get(word)
            paper = "" if published is None else f"{published:8.2f}"
            print(f"{name:<21} {word:<9} {statistics.fmean(values):10.3f} {_three_sigma(values):8.3f} {paper}")
    path = folder / "gmmvi.png"
    draw_gmmvi(runs, path)
    print(f"picture: {path}")
    return {"runs": [asdict(done) for done in runs], "picture": str(path)}


def _three_sigma(values: list[float]) -> float:
    """Three standard errors of the mean, as the paper has them; NaN of a single run."""
    return 3.0 * statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
