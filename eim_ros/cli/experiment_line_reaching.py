"""`eim experiment line-reaching`: mixtures of growing size by EM and EIM on a planar robot that reaches a line."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from eim_ros.cli.settings_flags import add_settings_flags, given_settings
from eim_ros.experiments.line_reaching import LineFit, LineReachingConfig, fit_line_reaching

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare its flags."""
    add_settings_flags(parser, [LineReachingConfig], {"n_components": "--components"})


def run(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run, print a line per fit, and draw."""
    from eim_ros.viz.line_reaching_picture import draw_line_reaching

    config = LineReachingConfig.from_mapping(given_settings(args))
    print(f"{'components':>10} {'learner':>10} {'distance [m]':>13} {'within .1 m':>12} {'coverage':>9}")

    def progress(learner: str, n_components: int, fit: LineFit) -> None:
        row = f"{n_components:10d} {learner:>10} {fit.distance:13.4f} {fit.near:12.3f} {fit.coverage:9.3f}"
        print(row, flush=True)

    result = fit_line_reaching(config, args.random_seed, progress)
    path = folder / "line_reaching.png"
    draw_line_reaching(result, path)
    print(f"picture: {path}")
    figures = [
        {
            "learner": learner,
            "n_components": n_components,
            "distance": fit.distance,
            "near": fit.near,
            "coverage": fit.coverage,
        }
        for (learner, n_components), fit in result.fits.items()
    ]
    return {"fits": figures, "picture": str(path)}
