"""`eim list`: what there is by name: shipped robots and models."""

from __future__ import annotations

import argparse
from typing import Any

from eim_ros.core.files import to_json
from eim_ros.ik import IKModel
from eim_ros.ik.prior import SHIPPED_MODELS
from eim_ros.kinematics import SHIPPED_ROBOTS, Robot

KINDS = ("robots", "models")


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the verb."""
    parser = subparsers.add_parser("list", help="shipped robots and models", description=__doc__)
    parser.add_argument("kind", nargs="?", choices=KINDS, metavar="KIND", help="robots or models (default: both)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the verb; returns the exit code."""
    listed = {kind: _LISTS[kind]() for kind in KINDS if args.kind in (None, kind)}
    if args.json:
        print(to_json(listed))
        return 0
    for kind, rows in listed.items():
        print(f"{kind}:")
        for row in rows:
            print(f"  {row['name']:<16} {_told(row)}")
    return 0


def _robots() -> list[dict[str, Any]]:
    robots = [(name, Robot(name)) for name in SHIPPED_ROBOTS]
    return [
        {"name": name, "joints": robot.dof, "base": robot.base_link, "tip": robot.tip_link} for name, robot in robots
    ]


def _models() -> list[dict[str, Any]]:
    models = [(name, IKModel.load(name)) for name in SHIPPED_MODELS]
    return [
        {
            "name": name,
            "robot": model.robot.name,
            "context": model.context_kind,
            "experts": int(model.content.n_components),
            "learner": model.training.get("algorithm"),
        }
        for name, model in models
    ]


def _told(row: dict[str, Any]) -> str:
    if "joints" in row:
        return f"{row['joints']:>2} joints, {row['base']} to {row['tip']}"
    return f"{row['robot']}, given a {row['context']}: {row['experts']} experts by {row['learner']}"


_LISTS = {"robots": _robots, "models": _models}
