"""Check of paths in ROS requests. Paths outside the data directory of the node are rejected.

DDS does not identify the sender of a request. Therefore, the user who starts a node chooses one directory with the
read-only parameter `data_directory`. Requests can read and write only in this directory, with relative or absolute
paths. Parameters and launch arguments at start-up are not restricted. docs/reference/paths.md lists all paths.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
from collections.abc import Collection, Iterator
from pathlib import Path, PurePath
from typing import BinaryIO

from eim_ros.core.errors import PathError
from eim_ros.core.files import described_file

# Without O_NONBLOCK, opening a pipe would block until its other end is open.
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
_LONGEST_NAME = 200  # maximum number of characters of a path in an error message


class DataDirectory:
    """Directory of files that remote callers may name.

    By default, the directory is `eim_ros` in the ROS home, which is $ROS_HOME or ~/.ros. The first write creates the
    directory. Files of more than `max_file_size` [byte] are not read.
    """

    def __init__(self, path: str | Path = "", max_file_size: int = 2**63 - 1) -> None:
        home = Path(os.environ.get("ROS_HOME") or "~/.ros")
        self.path = Path(os.path.abspath((Path(path) if path else home / "eim_ros").expanduser()))
        self._max_file_size = max_file_size

    def chosen(self, path: str) -> Path:
        """Convert a path from start-up to an absolute path.

        Such a path may be outside the data directory. A relative path starts in the data directory.
        """
        return self.path / Path(path).expanduser()

    def resolve(self, name: str) -> Path:
        """Return the absolute path of a file named by a remote caller, with all symbolic links resolved.

        `PathError` is raised if the path leads out of the directory. The message does not reveal which files exist
        outside.
        """
        root = Path(os.path.realpath(self.path))
        with contextlib.suppress(ValueError, OSError):  # null bytes, and other invalid file names
            found = os.path.realpath(root.joinpath(*self._parts(name, root)))
            # realpath does not resolve links after a loop
            if Path(found).is_relative_to(root) and os.path.realpath(found) == found:
                return Path(found)
        raise PathError(
            f"path {_shown(name)} is refused: paths received over ROS must be printable, without '~', and must lie in "
            f"{self.path} (parameter data_directory) after '..' and links are resolved",
            name,
        )

    def readable(self, name: str) -> Path:
        """Return the resolved path of a readable file. Raise `PathError` like `resolve` and `check_file`."""
        return self.check_file(self.resolve(name))

    def check_file(self, path: Path) -> Path:
        """Return the path if it leads to a readable regular file within the size limit. Never block.

        `PathError` is raised if the path does not exist or is not a regular file, but a folder, pipe, socket or device.
        The error is also raised if the file is too large or cannot be read.
        """
        with _opened(path) as file:
            size = os.fstat(file.fileno()).st_size
        if size > self._max_file_size:
            raise PathError(
                f"cannot read {path}: it has {size} bytes, expected at most {self._max_file_size} (parameter "
                "max_file_size)",
                size,
            )
        return path

    def check_replaceable(self, path: Path, kinds: Collection[str], overwrite: bool) -> Path:
        """Return the path if it does not exist, or if the request may replace the file.

        `kinds` are the kinds of files that may be replaced, as described by `eim_ros.core.files.described_file`.
        `PathError` is raised if the path exists and `overwrite` is false, or if the file is of another kind.
        """
        if not os.path.lexists(path):
            return path
        if not overwrite:
            raise PathError(
                f"{path} exists: give another path, or set overwrite to replace a file of eim_ros", str(path)
            )
        with _opened(path) as file:
            found = described_file(file)
        if found not in kinds:
            raise PathError(
                f"{path} is not replaced, because it is {found or 'of an unknown format'}, not {' or '.join(kinds)}; "
                "give another path",
                str(path),
            )
        return path

    def unused(self, folder: str, stem: str, suffix: str = "") -> Path:
        """Return the path of a new file or folder. A number follows the stem if the stem alone exists.

        `folder` is a path from start-up; see `chosen`.
        """
        names = itertools.chain([stem], (f"{stem}_{number}" for number in itertools.count(2)))
        paths = (self.chosen(folder) / f"{name}{suffix}" for name in names)
        return next(path for path in paths if not path.exists())

    def _parts(self, name: str, root: Path) -> tuple[str, ...]:
        """Return the parts of a path relative to the directory. Raise `ValueError` if the path leaves the directory.

        Links are not followed. Therefore, the result does not depend on existing files.
        """
        if name.startswith("~") or not name.isprintable():  # line breaks could forge log lines
            raise ValueError
        path, depth = PurePath(name), 0
        if path.is_absolute():
            path = path.relative_to(self.path if path.is_relative_to(self.path) else root)
        for part in path.parts:
            depth += -1 if part == ".." else 1
            if depth < 0:
                raise ValueError
        return path.parts


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file for reading. Raise `PathError` with the reason if the file cannot be opened."""
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):  # checked first; opening a device can have effects
            raise PathError(f"cannot read {path}: it is not a regular file", str(path))
        with os.fdopen(os.open(path, _FLAGS), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # the file may have been replaced since
                raise PathError(f"cannot read {path}: it is not a regular file", str(path))
            yield file
    except OSError as error:
        raise PathError(f"cannot read {path}: {error.strerror or error}", str(path)) from error


def _shown(name: str) -> str:
    return repr(name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}...")
