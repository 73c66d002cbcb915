"""Files that come with the package (urdf/, config/, launch/), in a checkout and in an installed package alike."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from eim_ros.errors import RobotError

__all__ = ["SHIPPED_ROBOTS", "share_path", "shipped_urdf"]

SHIPPED_ROBOTS = ("iiwa14", "panda", "planar3", "planar5", "planar10", "ur5")


def share_path(relative: str) -> Path:
    """Path of a shipped file or folder, such as "urdf/iiwa14.urdf".

    Looked for beside the package (checkout, editable install), in `<prefix>/share/eim_ros` of this Python (pip) and of
    each entry of AMENT_PREFIX_PATH (colcon).

    Raises
    ------
    FileNotFoundError
        With the folders that were searched.
    """
    checkout = Path(__file__).resolve().parents[2]
    prefixes = [sys.prefix, *os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)]
    folders = [checkout, *(Path(prefix) / "share" / "eim_ros" for prefix in prefixes if prefix)]
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
