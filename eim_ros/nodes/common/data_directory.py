"""The rule for every path that comes over ROS: it leads into the data directory of the node, or it is refused.

DDS does not say who sends a request. So the user who starts a node chooses one directory with the read-only parameter
`data_directory`, and requests read and write only there, by relative paths or absolute ones inside it. Parameters and
launch arguments given at the start are not restricted. docs/security.md lists every path.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Collection, Iterator
from pathlib import Path, PurePath
from typing import BinaryIO

from eim_ros.core.errors import PathError
from eim_ros.core.files import described_file

# O_NONBLOCK: to open a pipe would wait for its other end
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
_LONGEST_NAME = 200  # characters of a path that a message repeats


class DataDirectory:
    """The directory that remote callers may name files of.

    Parameters
    ----------
    path : str or Path
        Empty: `eim_ros` in the ROS home, which is $ROS_HOME or else ~/.ros. It is made when something is first written.
    max_file_size : int
        Size of the largest file that is opened to be read [byte].

    Attributes
    ----------
    path : Path
        Absolute.
    """

    def __init__(self, path: str | Path = "", max_file_size: int = 2**63 - 1) -> None:
        home = Path(os.environ.get("ROS_HOME") or "~/.ros")
        self.path = Path(os.path.abspath((Path(path) if path else home / "eim_ros").expanduser()))
        self._max_file_size = max_file_size

    def chosen(self, path: str) -> Path:
        """A path that was given at the start: anywhere, but relative ones count from the data directory, too."""
        return self.path / Path(path).expanduser()

    def resolve(self, name: str) -> Path:
        """The path, absolute and without links, that a remote caller means.

        Raises
        ------
        PathError
            If it leads out of the directory. The message does not depend on what exists there.
        """
        root = Path(os.path.realpath(self.path))
        with contextlib.suppress(ValueError, OSError):  # null bytes, text that is no file name
            found = os.path.realpath(root.joinpath(*self._parts(name, root)))
            path = Path(found)
            if path.is_relative_to(root) and os.path.realpath(found) == found:  # behind a loop links are left in it
                return path
        raise PathError(
            f"path {_shown(name)} is refused: a path that comes over ROS must be printable and lead into {self.path} "
            "(parameter data_directory), without '~', and without '..' and links that lead out of it",
            name,
        )

    def readable(self, name: str) -> Path:
        """The resolved path of a file that may be read; `PathError` as `resolve` and `check_file`."""
        return self.check_file(self.resolve(name))

    def check_file(self, path: Path) -> Path:
        """The path, if it leads to a regular file within the limit of size; it is opened without waiting.

        Raises
        ------
        PathError
            If there is none (a folder, a pipe, a socket, a device), it is too large, or it cannot be read.
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
        """The path, if nothing is there, or a file of ours that the request wants to replace.

        Parameters
        ----------
        path : Path
        kinds : collection of str
            As `eim_ros.core.files.described_file` names them.
        overwrite : bool

        Raises
        ------
        PathError
            If there is something else, or it is not to be replaced.
        """
        if not os.path.lexists(path):
            return path
        if not overwrite:
            raise PathError(f"{path} exists: give another path, or set overwrite to replace a file of ours", str(path))
        with _opened(path) as file:
            found = described_file(file)
        if found not in kinds:
            raise PathError(
                f"{path} is not replaced: it is {found or 'of an unknown format'}, expected {' or '.join(kinds)}; give "
                "another path",
                str(path),
            )
        return path

    def _parts(self, name: str, root: Path) -> tuple[str, ...]:
        """Parts of a path relative to the directory; `ValueError` if the path leaves it, regardless of links."""
        if name.startswith("~") or not name.isprintable():  # line breaks would forge lines of the log
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
    """A regular file; `PathError` says why there is none."""
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):  # a device would notice that it is opened
            raise PathError(f"cannot read {path}: it is no regular file", str(path))
        with os.fdopen(os.open(path, _FLAGS), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # it was exchanged meanwhile
                raise PathError(f"cannot read {path}: it is no regular file", str(path))
            yield file
    except OSError as error:
        raise PathError(f"cannot read {path}: {error.strerror or error}", str(path)) from error


def _shown(name: str) -> str:
    return repr(name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}...")
