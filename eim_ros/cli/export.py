"""`eim export`: motions of `eim import` for other programs, so far as a data set of LeRobot."""

from __future__ import annotations

import argparse
from pathlib import Path

from eim_ros.cli.request_options import count
from eim_ros.core.data_set import load_data_set
from eim_ros.core.files import check_outputs, to_json
from eim_ros.motion.lerobot import export_to_lerobot


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the verb."""
    parser = subparsers.add_parser("export", help="write motions for other programs", description=__doc__)
    add = parser.add_argument
    add("data", metavar="DATA", help="data set of motions (.npz), of eim import or eim motion sample")
    add("--lerobot", required=True, metavar="FOLDER", help="new folder; needs LeRobot's own library")
    add("--fps", type=count, default=30, metavar="N", help="frames per second (default %(default)s)")
    add("--task", default="", metavar="TEXT", help="what a motion without a label does (default: motion)")
    add("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the verb; returns the exit code."""
    folder = Path(args.lerobot)
    if not folder.exists():  # else the export says so
        check_outputs({"--lerobot": folder}, {"DATA": args.data})
    n_episodes, n_frames = export_to_lerobot(load_data_set(args.data), folder, args.fps, args.task)
    if args.json:
        print(to_json({"lerobot": args.lerobot, "n_episodes": n_episodes, "n_frames": n_frames, "fps": args.fps}))
    else:
        print(f"wrote {n_episodes} episodes, {n_frames} frames at {args.fps} per second, to {folder}")
    return 0
