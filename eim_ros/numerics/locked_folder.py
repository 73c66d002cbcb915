"""A folder in which one process at a time writes results."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

from eim_ros.errors import ConfigurationError

__all__ = ["locked"]


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes from writing there, too; the lock ends with the process, however that ends."""
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ConfigurationError(
                f"another run is writing results to {folder}; wait for it, or give another --output", str(folder)
            ) from error
        yield
