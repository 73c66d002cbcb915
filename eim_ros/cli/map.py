"""`eim map --robot arm.urdf`: what an arm can do where. A grid of positions and orientations, and of each pose how many
solutions and families of them, how long their self-motions are, and the best manipulability.

Parts are written as they are done: a run that was killed goes on where it was.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from tqdm import tqdm

from eim_ros.cli.options import add_robot_flags, robot_file, robot_from
from eim_ros.cli.request_options import count, random_seed
from eim_ros.core.errors import ConfigurationError
from eim_ros.core.files import check_outputs, to_json

BOX = ("XMIN", "YMIN", "ZMIN", "XMAX", "YMAX", "ZMAX")


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the verb."""
    parser = subparsers.add_parser("map", help="what an arm can do where: a capability map", description=__doc__)
    add_robot_flags(parser)
    add = parser.add_argument
    add("--spacing", type=float, default=0.1, metavar="METRES", help="edge of a cell [m] (default %(default)s)")
    add("--box", type=float, nargs=6, metavar=BOX, help="positions in the base frame (default: all that are reached)")
    add("--approaches", type=count, default=20, metavar="N", help="directions of the tool (default %(default)s)")
    add("--rolls", type=count, default=4, metavar="N", help="turns about each of them (default %(default)s)")
    add("--seeds", type=count, default=32, metavar="N", help="seeds of a pose: more find more (default %(default)s)")
    add("--random-seed", "--seed", type=random_seed, default=0, metavar="S", help="default %(default)s")
    add("--jobs", type=count, metavar="J", help="processes of this machine (default: one, with a thread for each core)")
    add("--scheduler", metavar="ADDRESS", help="Dask scheduler whose workers do the work instead")
    add("--output", default="map.npz", metavar="FILE", help="the map (default %(default)s)")
    add("--picture", metavar="FILE", help="a picture of slices, PNG")
    add("--quiet", action="store_true", help="no progress bar")
    add("--json", action="store_true", help="print one JSON object at the end")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the verb; returns the exit code."""
    from eim_ros.ik import CapabilityGrid
    from eim_ros.ik.capability import survey

    if args.picture:
        from eim_ros.view.figure_file import check_picture_name

        check_picture_name(args.picture)
    robot, workers, output = robot_from(args), _workers(args), Path(args.output)
    outputs = {"--output": output} | ({"--picture": Path(args.picture)} if args.picture else {})
    check_outputs(outputs, {"--robot": robot_file(args)})
    asked = {
        "n_approaches": args.approaches, "n_rolls": args.rolls, "n_seeds": args.seeds, "seed": args.random_seed,
    }  # fmt: skip
    if args.box:
        grid = CapabilityGrid(tuple(args.box[:3]), tuple(args.box[3:]), args.spacing, **asked)
    else:
        grid = CapabilityGrid.around(robot, args.spacing, **asked)
    if args.picture:
        from eim_ros.view.capability import draw_capability  # what is missing shows before the work
    began = time.perf_counter()
    with tqdm(desc="map", file=sys.stderr, disable=args.quiet, unit=" poses", unit_scale=True, total=0) as bar:

        def progress(n_done: int, n_poses: int) -> None:
            if not bar.total:
                bar.reset(n_poses)
                bar.initial = n_done  # they tell nothing about the time that the others will take
            bar.update(n_done - bar.n)
            bar.refresh()

        found = survey(robot, grid, output, workers, progress)
    figures: dict[str, Any] = {
        "robot": found.robot,
        "poses": grid.n_poses,
        "reached": round(float((found.n_components > 0).mean()), 4),
        "seconds": round(time.perf_counter() - began, 2),
        "map": str(output),
    }
    if args.picture:
        figures["picture"] = str(draw_capability(found, Path(args.picture)))
    if args.json:
        print(to_json(figures))
    else:
        print("\n".join(f"{name}: {value}" for name, value in figures.items()))
    return 0


def _workers(args: argparse.Namespace) -> Any:
    from eim_ros.core.parallel import DaskWorkers, JoblibWorkers

    if args.scheduler is not None:
        if args.jobs is not None:
            raise ConfigurationError("--jobs is for this machine, --scheduler for others: give one of them", args.jobs)
        return DaskWorkers(args.scheduler)
    return None if args.jobs is None else JoblibWorkers(args.jobs)
