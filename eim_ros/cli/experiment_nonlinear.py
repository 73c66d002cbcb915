"""`eim experiment nonlinear`: one neural expert on three univariate targets, by EM and EIM."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from eim_ros.cli.settings_flags import add_settings_flags, given_settings
from eim_ros.experiments.nonlinear import NonlinearConfig, TargetFits, fit_nonlinear

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare its flags."""
    add_settings_flags(parser, [NonlinearConfig], {})


def run(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run, print a line per target and learner, and draw."""
    from eim_ros.viz.nonlinear_picture import draw_nonlinear

    config = NonlinearConfig.from_mapping(given_settings(args))
    columns = f"{'KL(model || target) [nat]':>26} {'near a mode':>12} {'on one mode':>12} {'CPU [s]':>8}"
    print(f"{'target':<10} {'':<4} {columns}")

    def progress(name: str, fits: TargetFits) -> None:
        for learner in ("EM", "EIM"):
            value, error = fits.kl[learner]
            seconds = f"{fits.cpu_seconds:8.1f}" if learner == "EIM" else ""
            shares = f"{fits.near[learner]:12.4f} {fits.on_one_mode[learner]:12.4f}"
            print(f"{name:<10} {learner:<4} {value:16.4f} +- {error:6.4f} {shares} {seconds}", flush=True)

    result = fit_nonlinear(config, args.random_seed, progress)
    path = folder / "nonlinear.png"
    draw_nonlinear(result, path)
    print(f"picture: {path}")
    return {
        **{name: {"kl": fits.kl, "near": fits.near, "on_one_mode": fits.on_one_mode, "cpu_seconds": fits.cpu_seconds}
           for name, fits in result.fits.items()},
        "picture": str(path),
    }  # fmt: skip
