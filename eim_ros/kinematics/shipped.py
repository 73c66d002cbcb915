"""Files that come with the package (urdf/, config/, launch/), in a checkout and in an installed package alike."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

from eim_ros.errors import MissingFileError, RobotError, did_you_mean
from eim_ros.numerics.arguments import checked_path

__all__ = ["SHIPPED_ROBOTS", "robot_path", "share_path", "shipped_urdf"]

SHIPPED_ROBOTS = (
    "fetch",
    "gen3",
    "iiwa14",
    "panda",
    "planar3",
    "planar5",
    "planar10",
    "sawyer",
    "ur3e",
    "ur5",
    "ur5e",
    "ur10e",
    "xarm7",
)
DESCRIPTIONS = "robot_descriptions"  # a package of many robots, by names such as ur5_description


def share_path(relative: str) -> Path:
    """Path of a shipped file or folder, such as "urdf/iiwa14.urdf".

    Looked for beside the package (checkout, editable install), in `share/eim_ros` of the prefix that the package is
    installed in (pip, also with --user or --target; colcon) and of each entry of AMENT_PREFIX_PATH.

    Raises
    ------
    MissingFileError
        With the folders that were searched. It is a `FileNotFoundError`, too.
    """
    relative = str(checked_path(relative, MissingFileError))
    above = Path(__file__).resolve().parents[2:6]  # the package is in <prefix>/lib/python3.x/site-packages
    prefixes = [*above, *map(Path, filter(None, os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)))]
    folders = [above[0], *(prefix / "share" / "eim_ros" for prefix in prefixes)]
    for folder in folders:
        candidate = folder / relative
        if os.path.exists(candidate):  # unlike Path.exists false for a name that is too long
            return candidate
    searched = ", ".join(str(folder) for folder in folders)
    raise MissingFileError(f"{relative} of eim_ros is not installed; searched {searched}", relative)


def shipped_urdf(name: str) -> Path:
    """Path of a shipped robot's URDF."""
    try:
        return share_path(f"urdf/{name}.urdf")
    except FileNotFoundError as error:
        raise RobotError(str(error), name) from error


def robot_path(name_or_path: str | Path) -> Path:
    """Path of a robot's URDF, given as such, by the name of a shipped robot, or by one of `robot_descriptions`.

    Raises
    ------
    RobotError
        For a name that is none of them, with those that are nearest to it.
    """
    path = checked_path(name_or_path, RobotError)
    name = str(path)
    if name in SHIPPED_ROBOTS:
        return shipped_urdf(name)
    if not name.isidentifier() or os.path.exists(path):
        return path
    described = _described(name)
    if described is not None:
        return described
    raise RobotError(
        f"no shipped robot {name!r}: there are {', '.join(SHIPPED_ROBOTS)}; any other by the path of its URDF, or by "
        f"its name in {DESCRIPTIONS} where that is installed{did_you_mean(name, SHIPPED_ROBOTS)}",
        name,
    )


def _described(name: str) -> Path | None:
    """The file of a robot of `robot_descriptions`, which fetches it first where it has to; None where there is none."""
    try:
        module = importlib.import_module(f"{DESCRIPTIONS}.{name}")
    except ModuleNotFoundError:
        return None
    except Exception as error:  # of what it fetches by: no network, no disk
        raise RobotError(f"{DESCRIPTIONS} cannot bring {name!r}: {error}", name) from error
    path = getattr(module, "URDF_PATH", None) or getattr(module, "XACRO_PATH", None)
    if path is None:
        raise RobotError(f"{DESCRIPTIONS} has no URDF of {name!r}, only MJCF, which is not read: convert it", name)
    return Path(path)
