"""Files that are either whole or absent: write to a temporary file, fsync, rename."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

__all__ = ["temporary_beside", "write_atomically"]


def write_atomically(path: str | Path, content: bytes) -> None:
    """Write bytes so that a reader, or a crash, sees the old file or the new one, never a part.

    Parameters
    ----------
    path : str or Path
        Destination; its folder is created if it is missing. Where a file exists its permissions are kept, and a
        link stays a link. What is no regular file, such as a pipe or /dev/null, is written to, not replaced.
    content : bytes
        The whole file.
    """
    destination = Path(os.path.realpath(path))
    destination.parent.mkdir(parents=True, exist_ok=True)
    if destination.exists() and not destination.is_file():
        destination.write_bytes(content)
        return
    temporary = temporary_beside(destination)
    kept = stat.S_IMODE(destination.stat().st_mode) if destination.exists() else None
    mode = 0o666 if kept is None else kept & 0o666  # the umask is taken off, as from any new file
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            if kept is not None:
                os.chmod(temporary, kept)
            os.fsync(file.fileno())
        os.replace(temporary, destination)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    directory = os.open(destination.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def temporary_beside(destination: Path) -> Path:
    """A new name, in the folder of a file and like its own, for what becomes that file."""
    return destination.with_name(f".{destination.name}.{secrets.token_hex(8)}")
