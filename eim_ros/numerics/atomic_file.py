"""Files that are either whole or absent: write to a temporary file, fsync, rename."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

__all__ = ["write_atomically"]


def write_atomically(path: str | Path, content: bytes) -> None:
    """Write bytes so that a reader, or a crash, sees the old file or the new one, never a part.

    Parameters
    ----------
    path : str or Path
        Destination; its folder is created if it is missing.
    content : bytes
        The whole file.
    """
    destination = Path(path)
    destination.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=destination.parent, prefix=f".{destination.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, destination)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    directory = os.open(destination.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _umask() -> int:
    """The process' umask; `mkstemp` ignores it and makes files that only their owner can read."""
    current = os.umask(0)
    os.umask(current)
    return current
