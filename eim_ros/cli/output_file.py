"""A file to be written is checked before the work whose result it is to hold."""

from __future__ import annotations

import os
from pathlib import Path

from eim_ros.errors import ConfigurationError

__all__ = ["check_output"]


def check_output(path: str | Path) -> None:
    """`ConfigurationError` if a file cannot be written at this path; a missing folder is created."""
    destination = Path(os.path.realpath(path))
    if destination.is_dir():
        raise ConfigurationError(f"--output {path} is a folder, expected the name of a file", str(path))
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"cannot create folder {destination.parent}: {error.strerror}", str(path)) from error
    if not os.access(destination.parent, os.W_OK | os.X_OK):
        raise ConfigurationError(f"cannot write --output {path}: no permission in {destination.parent}", str(path))
