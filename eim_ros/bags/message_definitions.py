"""Definitions of message types, as bags carry them: those of ROS 2 from rosbags, others as they are installed."""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path

from rosbags.typesys import Stores, TypesysError, get_types_from_msg, get_typestore
from rosbags.typesys.store import Typestore

from eim_ros.errors import DataError

__all__ = ["definition", "standard_types"]


@functools.cache
def standard_types() -> Typestore:
    """The types of ROS 2 Kilted, which also writes and reads their messages."""
    return get_typestore(Stores.ROS2_KILTED)


@functools.cache
def definition(name: str) -> tuple[str, str]:
    """Definition of a type with all it consists of (schema ros2msg), and its hash (RIHS01).

    Parameters
    ----------
    name : str
        Such as "sensor_msgs/msg/JointState".

    Raises
    ------
    DataError
        When the type is neither one of ROS 2 nor installed below the share folder of a prefix in AMENT_PREFIX_PATH or
        of this Python.
    """
    types = standard_types()
    try:
        _register(name, types)
        return types.generate_msgdef(name, ros_version=2)[0], types.hash_rihs01(name)
    except (TypesysError, KeyError, ValueError, OSError) as error:
        raise DataError(f"no definition of the message type {name}: {error}", name) from error


def _register(name: str, types: Typestore) -> None:
    """Add a type, and those of its fields, unless they are known."""
    if name in types.fielddefs:
        return
    found = get_types_from_msg(_installed(name).read_text(encoding="utf-8"), name)
    for _, fields in found.values():
        for _, description in fields:
            for part in _names(description):
                _register(part, types)
    types.register(found)


def _names(description: object) -> list[str]:
    """Names of message types in the description of a field: rosbags nests pairs of a kind and a name or a pair."""
    if not isinstance(description, tuple):
        return []
    if len(description) == 2 and isinstance(description[1], str):
        return [description[1]] if "/" in description[1] else []
    return [name for part in description for name in _names(part)]


def _installed(name: str) -> Path:
    package, _, kind = name.partition("/")
    for prefix in (*os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep), sys.prefix):
        path = Path(prefix) / "share" / package / f"{kind}.msg"
        if prefix and path.is_file():
            return path
    raise KeyError(f"share/{package}/{kind}.msg is not installed")
