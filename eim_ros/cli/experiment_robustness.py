"""`eim experiment robustness`: log-likelihoods of EM and EIM from the same random starts."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from eim_ros.cli.settings_flags import add_settings_flags, given_settings
from eim_ros.experiments.robustness import RobustnessConfig, compare_robustness

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare its flags."""
    add_settings_flags(parser, [RobustnessConfig], {"n_starts": "--starts", "n_components": "--experts"})


def run(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run, print a line per start and the means, and draw."""
    from eim_ros.viz.robustness_picture import draw_robustness

    config = RobustnessConfig.from_mapping(given_settings(args))
    print(f"{'start':>5} {'EM':>10} {'EIM':>10}   log-likelihood per test sample [nat]")

    def progress(number: int, em: float, eim: float) -> None:
        print(f"{number:5d} {em:10.3f} {eim:10.3f}", flush=True)

    result = compare_robustness(config, args.random_seed, progress)
    print(f"{'mean':>5} {sum(result.em) / len(result.em):10.3f} {sum(result.eim) / len(result.eim):10.3f}")
    shares = [result.share_at_optimum(values) for values in (result.em, result.eim)]
    print(f"at the global optimum ({result.optimum:.3f}): EM {shares[0]:.0%}, EIM {shares[1]:.0%} of the starts")
    path = folder / "robustness.png"
    draw_robustness(result, path)
    print(f"picture: {path}")
    return {"em": list(result.em), "eim": list(result.eim), "optimum": result.optimum, "picture": str(path)}
