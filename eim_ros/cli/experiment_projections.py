"""`eim experiment projections`: closed-form facts about I- and M-projections, beside what the learners find."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import Any

from eim_ros.cli.settings_flags import add_settings_flags, given_settings
from eim_ros.experiments.projections import ProjectionsConfig, project_all

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare its flags."""
    add_settings_flags(parser, [ProjectionsConfig], {})


def run(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run, print a line per fact, and draw."""
    from eim_ros.viz.projections_picture import draw_projections

    result = project_all(ProjectionsConfig.from_mapping(given_settings(args)), args.random_seed)
    print(f"{'case':<44} {'quantity':<24} {'found':>12} {'exact':>12}")
    case = ""
    for fact in result.facts:
        found = round(fact.found, 6) + 0.0  # no minus before a zero
        print(f"{fact.case if fact.case != case else '':<44} {fact.quantity:<24} {found:12.6f} {fact.exact:12.6f}")
        case = fact.case
    path = folder / "projections.png"
    draw_projections(result, path)
    print(f"picture: {path}")
    return {"facts": [dataclasses.asdict(fact) for fact in result.facts], "picture": str(path)}
