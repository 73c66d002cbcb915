"""Files that come with the package (urdf/, config/, launch/), in a checkout and in an installed package alike."""

from __future__ import annotations

import os
from pathlib import Path

from eim_ros.errors import RobotError

__all__ = ["SHIPPED_ROBOTS", "robot_path", "share_path", "shipped_urdf"]

SHIPPED_ROBOTS = ("iiwa14", "panda", "planar3", "planar5", "planar10", "ur5")


def share_path(relative: str) -> Path:
    """Path of a shipped file or folder, such as "urdf/iiwa14.urdf".

    Looked for beside the package (checkout, editable install), in `share/eim_ros` of the prefix that the package is
    installed in (pip, also with --user or --target; colcon) and of each entry of AMENT_PREFIX_PATH.

    Raises
    ------
    FileNotFoundError
        With the folders that were searched.
    """
    above = Path(__file__).resolve().parents[2:6]  # the package is in <prefix>/lib/python3.x/site-packages
    prefixes = [*above, *map(Path, filter(None, os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)))]
    folders = [above[0], *(prefix / "share" / "eim_ros" for prefix in prefixes)]
    for folder in folders:
        candidate = folder / relative
        if candidate.exists():
            return candidate
    searched = ", ".join(str(folder) for folder in folders)
    raise FileNotFoundError(f"{relative} of eim_ros is not installed; searched {searched}")


def shipped_urdf(name: str) -> Path:
    """Path of a shipped robot's URDF."""
    try:
        return share_path(f"urdf/{name}.urdf")
    except FileNotFoundError as error:
        raise RobotError(str(error), name) from error


def robot_path(name_or_path: str | Path) -> Path:
    """Path of a robot's URDF, given as such or by the name of a shipped robot."""
    return shipped_urdf(str(name_or_path)) if str(name_or_path) in SHIPPED_ROBOTS else Path(name_or_path)
