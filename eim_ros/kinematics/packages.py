"""Search for ROS packages that are named by xacro files, meshes, SRDFs, and robots `package://NAME/...`.

These folders are searched in this order:

1. each folder of `package_paths`: the folder itself, and the packages in it, including packages in repositories;
2. near the file that names the package: the folders above the file, and the packages next to the file's own package, up
   to the source folder `src` of the workspace, or two levels up if there is no such folder;
3. `share` of each entry of AMENT_PREFIX_PATH;
4. the entries of ROS_PACKAGE_PATH, as in 1.

Packages near the file come before packages of the environment, because a checkout may be newer than an installation.
"""

from __future__ import annotations

import os
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from pathlib import Path

from eim_ros.core.errors import option_name

MANIFEST, SOURCE = "package.xml", "src"
DEPTH = 3  # levels below a given folder or `src`: a repository, a group of packages, a package
FLAT = 2  # levels below other folders, which may contain many other files
SKIPPED = {"build", "install", "log"}  # folders of colcon next to the source folder
IGNORED = {"AMENT_IGNORE", "CATKIN_IGNORE", "COLCON_IGNORE"}  # colcon skips folders with these files


def package_folders(name: str, near: Path | None, package_paths: Sequence[str | Path] = ()) -> Iterator[Path]:
    """Yield the possible folders of a package in the order of the search. The folders may not exist.

    Parameters
    ----------
    name : str
    near : Path or None
        Folder of the file that names the package; None if the text does not come from a file.
    package_paths : sequence of str or Path
    """
    for path in package_paths:
        yield from _within(Path(path).expanduser(), name)
    if near is not None:
        yield from (above for above in (near, *near.parents) if name in (above.name, package_name(above)))
        for folder in _source_folders(near):
            yield from _within(folder, name, DEPTH if folder.name == SOURCE else FLAT)
    for prefix in entries("AMENT_PREFIX_PATH"):
        yield prefix / "share" / name
    for path in entries("ROS_PACKAGE_PATH"):
        yield from _within(path, name)


def find_package(name: str, near: Path | None, package_paths: Sequence[str | Path] = ()) -> Path | None:
    """Return the folder of a package, or None if it is not found."""
    return next((folder for folder in package_folders(name, near, package_paths) if folder.is_dir()), None)


def missing_package(name: str) -> str:
    """Return the remedy for a missing package, for error messages."""
    return (
        f"source the workspace with package {name!r} (this sets AMENT_PREFIX_PATH or ROS_PACKAGE_PATH), or give the "
        f"folder that contains the package as {option_name('package_paths')}"
    )


def package_name(folder: Path) -> str | None:
    """Return the name in the package.xml of a folder; None if the file does not exist or cannot be read."""
    try:
        return (ElementTree.parse(folder / MANIFEST).findtext("name") or "").strip() or None
    except (OSError, ValueError, ElementTree.ParseError):
        return None


def entries(variable: str) -> list[Path]:
    """Return the folders in an environment variable."""
    return [Path(entry) for entry in os.environ.get(variable, "").split(os.pathsep) if entry]


def _source_folders(near: Path) -> Iterator[Path]:
    """Yield the folders with the packages next to the package of a file; none if the file is not in a package."""
    own = next((above for above in (near, *near.parents) if (above / MANIFEST).is_file()), None)
    if own is None:
        return
    yield own.parent
    above = own.parents[: DEPTH + 1]
    yield next((folder for folder in above if folder.name == SOURCE), own.parent.parent)
    if own.parent.name == "share" and len(own.parents) > 2:  # colcon installs each package with its own prefix
        yield from (share for prefix in _folders(own.parents[2]) if (share := prefix / "share").is_dir())


def _folders(folder: Path) -> list[Path]:
    try:
        return sorted(entry for entry in folder.iterdir() if entry.is_dir())
    except OSError:
        return []


def _within(root: Path, name: str, depth: int = DEPTH) -> Iterator[Path]:
    """Yield the folders of a package in a folder. The folder itself may also be the package."""
    direct = root / name
    if package_name(direct) in (None, name):
        yield direct
    if root.name == name:
        yield root
    for path, folders, files in os.walk(root, followlinks=True) if root != root.parent else ():
        folder = Path(path)
        if MANIFEST in files and folder != direct and package_name(folder) == name:
            yield folder
        is_deepest = len(folder.relative_to(root).parts) >= depth
        is_package = MANIFEST in files and folder != root
        if is_deepest or is_package or not IGNORED.isdisjoint(files):
            folders.clear()
        folders[:] = sorted(each for each in folders if each[0] != "." and each not in SKIPPED)
