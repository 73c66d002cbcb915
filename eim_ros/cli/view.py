"""`eim view`: a page in the browser: drag the target, and see all solutions of an arm, or what a model makes of it.

With --prior, a second tab shows motions of a motion prior.

Exit code 0 when ended by Ctrl-C, else as `eim --help` says.
"""

from __future__ import annotations

import argparse
import sys
import threading
import webbrowser
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from eim_ros.cli.options import add_robot_flags, robot_file
from eim_ros.cli.request_options import add_tool_flag, check_pose_length, count, port, random_seed
from eim_ros.cli.sample import sampler_from
from eim_ros.core.errors import ConfigurationError
from eim_ros.core.files import to_json
from eim_ros.kinematics import Robot, pose_from

if TYPE_CHECKING:
    from eim_ros.view.motion_tab import MotionStudy
    from eim_ros.view.page import Page


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the verb."""
    parser = subparsers.add_parser(
        "view", help="solutions in the browser, while the target is dragged", description=__doc__
    )
    add_robot_flags(parser, default="that of --model")
    add = parser.add_argument
    add("--model", metavar="FILE|NAME", help="model of eim train, or a shipped one; without: all solutions of --robot")
    add_tool_flag(parser)
    add("--prior", metavar="FILE", help="motion prior of eim train --task motion, of --robot: a tab of its motions")
    add("--data", metavar="FILE", help="demonstrations of the prior, shown beside what it draws")
    add(
        "--pose",
        nargs="+",
        type=float,
        metavar="VALUE",
        help="first target: x y z [m], or x y z qx qy qz qw (default: one amid the workspace)",
    )
    add("-n", "--samples", type=count, metavar="N", default=50, help="solutions to show (default %(default)s)")
    add("--position-only", action="store_true", default=None, help="any orientation will do")
    add(
        "--package-path",
        action="append",
        default=[],
        metavar="FOLDER",
        help="where the meshes' packages are; repeatable",
    )
    add("--random-seed", "--seed", type=random_seed, default=0, help="of the solutions (default %(default)s)")
    add_page_flags(parser)
    parser.set_defaults(run=run)


def add_page_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that say where a page is served, and whether a browser is opened."""
    add = parser.add_argument
    add(
        "--host", default="127.0.0.1", help="address to serve on; 0.0.0.0 for other machines, too (default %(default)s)"
    )
    add("--port", type=port, default=8080, help="0: any that is free (default %(default)s)")
    add("--json", action="store_true", help="print the address as one JSON object")
    add("--no-browser", action="store_true", help="print the address, and open no browser")


def run(args: argparse.Namespace) -> int:
    """Run the verb; returns the exit code."""
    _check(args)
    if args.pose is not None:
        check_pose_length(args)
    pose = None if args.pose is None else pose_from(args.pose[:3], args.pose[3:] or None)
    return serve(_page(args, pose), args)


def serve(page: Page, args: argparse.Namespace) -> int:
    """Print the address of a page, open it in a browser, and wait for Ctrl-C; returns the exit code."""
    try:
        told = {"url": page.url, "robot": page.robot.name}
        print(to_json(told) if args.json else f"{page.robot.name}: {page.url} (Ctrl-C ends it)", flush=True)
        if page.told:
            print(f"eim view: {page.told}", file=sys.stderr)
        if not args.no_browser:
            webbrowser.open(page.url)
        threading.Event().wait()
    except KeyboardInterrupt:
        return 0
    finally:
        page.close()
    return 0


def _check(args: argparse.Namespace) -> None:
    if args.data is not None and args.prior is None:
        raise ConfigurationError("--data are demonstrations of --prior: give it too", args.data)


def _page(args: argparse.Namespace, pose: npt.NDArray[np.float64] | None) -> Page:
    """The page with its tabs; what has to be told of the robot is told before viser is missed."""
    sampler = sampler_from(args)
    motions = None if args.prior is None else _motions(args, sampler.robot)
    from eim_ros.view.page import Page

    page = Page(
        sampler,
        source=robot_file(args),
        package_paths=args.package_path,
        pose=pose,
        n=args.samples,
        position_only=args.position_only,
        host=args.host,
        port=args.port,
        seed=args.random_seed,
        extra_tab=None if motions is None else "Motions",
    )
    if motions is not None:
        from eim_ros.view.motion_tab import MotionTab

        MotionTab(page, motions, args.random_seed)
    return page


def _motions(args: argparse.Namespace, robot: Robot) -> MotionStudy:
    from eim_ros.core.data_set import load_data_set
    from eim_ros.motion import Demonstrations, MotionPrior  # imported here: torch takes a second
    from eim_ros.view.motion_tab import MotionStudy

    shown = None if args.data is None else Demonstrations.from_data_set(load_data_set(args.data))
    return MotionStudy(robot, MotionPrior.load(args.prior), shown)
