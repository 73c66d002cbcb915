"""Mesh files of a URDF: resolution of `package://`, `file://` and relative names, and reading with coal.

The unit stored in a COLLADA file is applied, as in RViz. Coal itself would read the file as if it were in metres.
"""

from __future__ import annotations

import math
import os
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt

from eim_ros.core.arrays import FloatArray
from eim_ros.core.checks import LARGEST, as_numbers
from eim_ros.core.deadlines import Effort
from eim_ros.core.errors import ConstraintError, MeshError, option_name
from eim_ros.kinematics.packages import entries, missing_package, package_folders

UNIT = re.compile(rb"<unit\b[^>]*\bmeter\s*=\s*[\"']([^\"']*)[\"']")
UNIT_WITHIN = 65536  # length of the start of a COLLADA file that is searched for the unit [byte]
STL_HEADER, STL_TRIANGLE = 84, 50  # [byte]

_effort = Effort(3e-9)  # [s] per byte


@dataclass(frozen=True)
class MeshLimits:
    """Limits for reading a mesh: maximum file size [byte] and maximum number of triangles."""

    most_bytes: int = 50_000_000
    most_triangles: float = math.inf


USUAL_LIMITS = MeshLimits()


def find_mesh(
    filename: str, folder: Path | None, package_paths: Sequence[str | Path] = (), *, packages_only: bool = False
) -> Path:
    """Return the path of a mesh file named in a URDF.

    Parameters
    ----------
    filename : str
        `package://NAME/...`, `file://...`, an absolute path, or a path relative to the URDF.
    folder : Path or None
        Folder of the URDF; None if it is unknown.
    package_paths : sequence of str or Path
        Folders that contain packages, or folders of packages. They are searched first, see
        `eim_ros.kinematics.packages`.
    packages_only : bool
        Whether meshes must lie in package folders. Set it to true for URDFs from untrusted sources, such as a topic.

    Raises
    ------
    MeshError
        If the file does not exist, or if the name leaves its package through `..`. The message lists the paths that
        were searched.
    """
    given = [Path(path).expanduser() for path in package_paths]
    places: list[Path] = []
    for name in dict.fromkeys((filename, unquote(filename))):
        for root, place in _places(name, folder, given, packages_only):
            if root is not None and not place.is_relative_to(root):
                continue
            if place.is_file():
                return place
            places.append(place)
    looked = ", ".join(map(str, dict.fromkeys(places))) or "no folder"
    if filename.startswith("package://"):
        package = filename.removeprefix("package://").partition("/")[0]
        cure = f"{missing_package(package)}; a name with '..' must not lead out of its package"
    elif packages_only:
        cure = "if a description comes over ROS, its meshes must be in packages, as package://NAME/..."
    elif Path(filename.removeprefix("file://")).is_absolute():
        cure = "correct the name in the URDF"
    else:
        cure = (
            "relative names start in the folder of the URDF, so give its path instead of its text, or give the folder "
            "of "
            f"the package as {option_name('package_paths')}"
        )
    raise MeshError(f"mesh {filename!r} does not exist (searched: {looked}); {cure}", filename)


def _places(
    name: str, folder: Path | None, given: Sequence[Path], packages_only: bool
) -> Iterator[tuple[Path | None, Path]]:
    """Yield the possible paths of a mesh, each with the folder that must contain it, or None for any folder.

    If a path must be in a folder, `..` is resolved. Symbolic links are not resolved, because in a workspace that was
    built with `--symlink-install` they point outside the packages.
    """
    if name.startswith("package://"):
        package, _, rest = name.removeprefix("package://").partition("/")
        if package not in ("", ".", ".."):
            for root in map(_absolute, package_folders(package, folder, given)):
                yield root, _absolute(root / rest)
        return
    if "://" in name and not name.startswith("file://"):
        raise MeshError(f"mesh {name!r} is neither a package:// nor a file:// name, nor a path", name)
    path = Path(name.removeprefix("file://"))
    if path.is_absolute():
        if not packages_only:
            yield None, path
        else:
            installed = (prefix / "share" for prefix in entries("AMENT_PREFIX_PATH"))
            for root in map(_absolute, [*given, *installed, *entries("ROS_PACKAGE_PATH")]):
                yield root, _absolute(path)
        return
    if folder is not None and not packages_only:
        yield None, folder / path
    for root in map(_absolute, given):
        yield root, _absolute(root / path)


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))


def seconds_to_read(path: Path) -> float:
    """Estimate the time to read a file [s], because reading cannot be interrupted."""
    return _effort.seconds(path.stat().st_size)


def read_mesh(
    path: Path, scale: npt.ArrayLike = 1.0, limits: MeshLimits = USUAL_LIMITS
) -> tuple[FloatArray, npt.NDArray[np.int64]]:
    """Read the vertices (n, 3) [m] and faces (m, 3) of all parts of a mesh file.

    Raises
    ------
    MeshError
        If the file does not exist, contains no readable mesh, or exceeds the limits.
    ConstraintError
        If the scale is not one or three finite numbers other than 0.
    """
    from pinocchio import coal  # deferred because the import is slow

    try:
        factors = as_numbers(scale)
    except (TypeError, ValueError):
        factors = np.empty(0)
    if factors.shape not in ((), (3,)) or not (np.abs(factors) <= LARGEST).all() or not factors.all():
        raise ConstraintError(f"the scale of a mesh must be one or three numbers other than 0, got {scale!r}", scale)
    if not path.is_file():
        raise MeshError(f"mesh {str(path)!r} does not exist: correct its path", str(path))
    began, size = perf_counter(), path.stat().st_size
    if size > limits.most_bytes:
        raise MeshError(
            f"mesh {str(path)!r} has {size / 1e6:.1f} MB, but at most {limits.most_bytes / 1e6:.1f} MB are allowed: "
            "simplify it, or raise the limit (CollisionOptions.most_mesh_bytes, or the parameter max_mesh_bytes of "
            "ik_server)",
            size,
        )
    _check_triangles(path, _triangles_of_stl(path, size), limits)
    try:
        model = coal.MeshLoader(coal.BV_AABB).load(str(path), np.full(3, _unit(path)))
    except (ValueError, RuntimeError) as error:
        cause = str(error).partition("message:")[2].strip() or str(error)
        raise MeshError(f"mesh {str(path)!r} cannot be read: {' '.join(cause.split())[:300]}", str(path)) from error
    _check_triangles(path, model.num_tris, limits)
    vertices = np.array(model.vertices()) * factors
    triangles = map(model.tri_indices, range(model.num_tris))
    faces = np.array([[corners[0], corners[1], corners[2]] for corners in triangles])
    if not len(faces):
        raise MeshError(f"mesh {str(path)!r} has no triangles: give a mesh with at least one triangle", str(path))
    if not np.isfinite(vertices).all():
        raise MeshError(
            f"mesh {str(path)!r} has vertices with NaN or infinite coordinates: correct the file", str(path)
        )
    if factors.ndim and np.prod(factors) < 0.0:
        faces = faces[:, ::-1]  # mirroring reverses the orientation of the triangles
    _effort.took(size, perf_counter() - began)
    return vertices, faces.astype(np.int64)


def _check_triangles(path: Path, n: int, limits: MeshLimits) -> None:
    if n > limits.most_triangles:
        raise MeshError(
            f"mesh {str(path)!r} has {n} triangles, but only {max(limits.most_triangles, 0):.0f} more are allowed: "
            "simplify it, or raise the limit (CollisionOptions.most_triangles, or the parameter max_triangles of "
            "ik_server)",
            n,
        )


def _triangles_of_stl(path: Path, size: int) -> int:
    """Return the number of triangles in the header of a binary STL file; 0 for other files."""
    if path.suffix.lower() != ".stl" or size < STL_HEADER:
        return 0
    with path.open("rb") as file:
        (n,) = struct.unpack("<I", file.read(STL_HEADER)[-4:])
    return int(n) if size == STL_HEADER + STL_TRIANGLE * n else 0


def _unit(path: Path) -> float:
    """Return the length unit of a file [m], which is 1 unless a COLLADA file specifies another unit."""
    if path.suffix.lower() != ".dae":
        return 1.0
    with path.open("rb") as file:
        found = UNIT.search(file.read(UNIT_WITHIN))
    try:
        unit = float(found[1]) if found else 1.0
    except ValueError:
        unit = np.nan
    if not 0.0 < unit < np.inf:
        raise MeshError(
            f"the unit of mesh {str(path)!r} must be a positive number of metres: correct <unit meter=...>", str(path)
        )
    return unit
