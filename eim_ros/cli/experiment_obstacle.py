"""`eim experiment obstacle`: one Gaussian by EM and by EIM for a robot that reaches around a disc."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from eim_ros.cli.settings_flags import add_settings_flags, given_settings
from eim_ros.experiments.obstacle import ObstacleConfig, ObstacleFit, fit_obstacle

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare its flags."""
    add_settings_flags(parser, [ObstacleConfig], {"n_components": "--components"})


def run(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run, print a line per learner, and draw."""
    from eim_ros.viz.obstacle_picture import draw_obstacle

    config = ObstacleConfig.from_mapping(given_settings(args))
    print(f"{'learner':>10} {'collisions':>11} {'distance [m]':>13} {'above the disc':>15}")

    def progress(learner: str, fit: ObstacleFit) -> None:
        print(f"{learner:>10} {fit.collisions:11.3f} {fit.distance:13.4f} {fit.above:15.3f}", flush=True)

    result = fit_obstacle(config, args.random_seed, progress)
    expert = (result.expert_collisions, result.expert_distance, result.expert_above)
    print(f"{'expert':>10} {expert[0]:11.3f} {expert[1]:13.4f} {expert[2]:15.3f}")
    path = folder / "obstacle.png"
    draw_obstacle(result, path)
    print(f"picture: {path}")
    figures = {
        learner: {"collisions": fit.collisions, "distance": fit.distance, "above": fit.above}
        for learner, fit in result.fits.items()
    }
    return {**figures, "picture": str(path)}
