"""A robot description with macros, expanded by ROS's own xacro where that is installed."""

from __future__ import annotations

import importlib
from pathlib import Path

from eim_ros.errors import RobotError

__all__ = ["expanded_xacro"]


def expanded_xacro(path: Path) -> str:
    """The URDF of a xacro file, with the defaults of its arguments.

    Raises
    ------
    RobotError
        Where xacro is not installed, or cannot expand the file.
    """
    by_hand = f"xacro {path.name} ARGUMENT:=VALUE > robot.urdf"
    try:
        xacro = importlib.import_module("xacro")
    except ImportError as error:
        raise RobotError(
            f"{path} is a xacro file: install xacro (it comes with ROS, or pip install xacro), or expand it: {by_hand}",
            str(path),
        ) from error
    try:
        return str(xacro.process_file(str(path)).toxml())
    except (Exception, SystemExit) as error:  # of many kinds: the XML parser's, evaluated Python's
        told = " ".join(str(error).split()) or type(error).__name__
        raise RobotError(
            f"xacro cannot expand {path}: {told}; where it needs arguments: {by_hand}", str(path)
        ) from error
