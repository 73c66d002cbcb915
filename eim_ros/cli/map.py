"""`eim map` surveys the poses that an arm reaches, and `eim list` lists the included robots and models."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from eim_ros.cli.flags import count, device_flag, flag, json_flag, quiet_flag, report, seed_flag
from eim_ros.cli.options import Arm, workers
from eim_ros.core.files import check_outputs


@dataclass(frozen=True, kw_only=True)
class Map:
    """Survey a grid of positions and orientations.

    For each pose the map contains the number of solutions, the number and length of self-motions, and the best
    manipulability. Each finished part is written to a file, and the same command continues an interrupted run.
    """

    arm: Arm
    spacing: float = flag(0.1, "Edge length of a cell [m].", metavar="METRES")
    box: tuple[float, float, float, float, float, float] | None = flag(
        None,
        "Corners of the box of positions in the base frame [m] (default: all positions that the arm reaches).",
        metavar="XMIN YMIN ZMIN XMAX YMAX ZMAX",
    )
    approaches: int = count(20, "Number of approach directions of the tool.")
    rolls: int = count(4, "Number of rotations about each direction.")
    seeds: int = count(32, "Number of seeds of the search at each pose. More seeds find more solutions.")
    seed: int = seed_flag()
    jobs: int | None = count(
        None,
        "Number of processes on this machine (default: one process with one thread per core).",
    )
    scheduler: str | None = flag(None, "Address of a Dask scheduler whose workers compute the map.", metavar="ADDRESS")
    device: str | None = device_flag()
    output: str = flag("map.npz", "Map to write.", metavar="FILE")
    picture: str | None = flag(None, "Picture of slices of the map to write (.png).", metavar="FILE")
    quiet: bool = quiet_flag()
    json: bool = json_flag()

    def run(self) -> int:
        from eim_ros.cli.progress import Bar
        from eim_ros.ik import CapabilityGrid
        from eim_ros.ik.capability import survey

        if self.picture:
            from eim_ros.view.style import check_picture_name

            check_picture_name(self.picture)
        robot, helpers, output = self.arm.load(), workers(self.jobs, self.scheduler), Path(self.output)
        check_outputs({"--output": output, "--picture": self.picture}, {"--robot": self.arm.file})
        options = {
            "n_approaches": self.approaches, "n_rolls": self.rolls, "n_seeds": self.seeds, "seed": self.seed,
        }  # fmt: skip
        if self.box:
            grid = CapabilityGrid(self.box[:3], self.box[3:], self.spacing, **options)
        else:
            grid = CapabilityGrid.around(robot, self.spacing, **options)
        if self.picture:
            from eim_ros.view.capability import draw_capability  # before the survey, to report a missing package early
        began = time.perf_counter()
        with Bar("map", enabled=not self.quiet, unit="poses") as bar:
            found = survey(robot, grid, output, helpers, bar.show, self.device)
        figures: dict[str, Any] = {
            "robot": found.robot,
            "poses": grid.n_poses,
            "reached": round(float((found.n_components > 0).mean()), 4),
            "seconds": round(time.perf_counter() - began, 2),
            "map": str(output),
        }
        if self.picture:
            figures["picture"] = str(draw_capability(found, Path(self.picture)))
        return report(self.json, figures, (f"{name}: {value}" for name, value in figures.items()))


@dataclass(frozen=True, kw_only=True)
class List:
    """List the included robots and models."""

    kind: Literal["robots", "models", "all"] = flag(
        "all",
        "List to print: robots, models, or all (default).",
        positional=True,
    )
    json: bool = json_flag()

    def run(self) -> int:
        found = {"robots": _robots, "models": _models}
        listed = {kind: rows() for kind, rows in found.items() if self.kind in (kind, "all")}
        texts = {kind: [f"  {row['name']:<16} {_described(row)}" for row in rows] for kind, rows in listed.items()}
        return report(self.json, listed, (line for kind, rows in texts.items() for line in (f"{kind}:", *rows)))


def _robots() -> list[dict[str, Any]]:
    from eim_ros.kinematics import SHIPPED_ROBOTS, Robot

    robots = [(name, Robot(name)) for name in SHIPPED_ROBOTS]
    return [
        {"name": name, "joints": robot.dof, "base": robot.base_link, "tip": robot.tip_link} for name, robot in robots
    ]


def _models() -> list[dict[str, Any]]:
    from eim_ros.ik import IKModel
    from eim_ros.ik.prior import SHIPPED_MODELS

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


def _described(row: dict[str, Any]) -> str:
    if "joints" in row:
        return f"{row['joints']:>2} joints, {row['base']} to {row['tip']}"
    return f"{row['robot']}, given a {row['context']}: {row['experts']} experts by {row['learner']}"
