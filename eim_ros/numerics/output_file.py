"""Files to be written are checked before the work whose result they are to hold: that they can be written, and that
none of them is read by the same work, by whatever path, link or hard link.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from eim_ros.errors import ConfigurationError
from eim_ros.numerics.atomic_file import temporary_beside

__all__ = ["check_outputs"]


def check_outputs(
    outputs: Mapping[str, str | Path | None], inputs: Mapping[str, str | Path | None] | None = None
) -> None:
    """Refuse outputs that cannot be written, and those that are inputs; missing folders of outputs are created.

    Parameters
    ----------
    outputs : mapping of str to path
        Files by what the user calls them, such as the flag; one without a path does not count.
    inputs : mapping of str to path, optional
        Files, or folders with files, that are read; one that is no path of anything, such as a name, does not count.

    Raises
    ------
    ConfigurationError
    """
    written = {name: Path(path) for name, path in outputs.items() if path}
    read = {name: Path(path) for name, path in (inputs or {}).items() if path}
    for name, path in written.items():
        for other, source in read.items():
            if _is_in(path, source):
                raise ConfigurationError(
                    f"{name} {path} would overwrite what {other} {source} reads: give another file", str(path)
                )
        _check_writable(name, path)
    _check_different(written)


def _is_in(path: Path, source: Path) -> bool:
    """Whether a path leads to an existing file, or to one of a folder's, such as those of a bag."""
    try:
        files = source.iterdir() if source.is_dir() else (source,)
        return path.is_file() and any(path.samefile(file) for file in files if file.is_file())
    except OSError:  # nothing can be read there: told by who reads it
        return False


def _check_different(outputs: Mapping[str, Path]) -> None:
    places: dict[str, str] = {}
    for name, path in outputs.items():
        other = places.setdefault(os.path.realpath(path), name)
        if other != name:
            raise ConfigurationError(f"{other} and {name} are the same file {path}: give different ones", str(path))


def _check_writable(name: str, path: Path) -> None:
    destination = Path(os.path.realpath(path))
    if destination.is_dir():
        raise ConfigurationError(f"{name} {path} is a folder, expected the name of a file", str(path))
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"cannot write {name} {path}: cannot create folder {destination.parent}: {error.strerror}", str(path)
        ) from error
    if destination.exists() and not destination.is_file():  # a pipe or a device
        return
    try:  # to ask for permissions is not enough: root has all of them, also where no file can be made
        trial = temporary_beside(destination)
        os.close(os.open(trial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        trial.unlink()
    except OSError as error:
        raise ConfigurationError(
            f"cannot write {name} {path}: no file can be made in {destination.parent}: {error.strerror}", str(path)
        ) from error
