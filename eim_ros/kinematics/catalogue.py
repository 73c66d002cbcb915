"""Robot descriptions from any source: included files, other packages, paths, objects of other libraries, xacro, MJCF.

The module also locates the other files of this package (config/, launch/), in a checkout or in an installation.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import threading
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from eim_ros.core.checks import checked_path
from eim_ros.core.errors import MeshError, MissingFileError, RobotError, did_you_mean
from eim_ros.kinematics.meshes import find_mesh
from eim_ros.kinematics.mjcf import Description, is_mjcf, urdf_of_mjcf
from eim_ros.kinematics.packages import find_package, missing_package

SHIPPED_ROBOTS = (
    "fetch",
    "gen3",
    "iiwa14",
    "panda",
    "planar3",
    "planar5",
    "planar10",
    "sawyer",
    "ur3e",
    "ur5",
    "ur5e",
    "ur10e",
    "xarm7",
)
"""Names of the included robots, for `Robot` and `Sampler`."""
MAKERS = {"franka": "panda", "kuka": "iiwa14", "kinova": "gen3", "rethink": "sawyer", "ufactory": "xarm7"}
DESCRIPTIONS = "robot_descriptions"  # package with many robots, under names such as ur5_description
XML_METHODS = ("to_xml_string", "write_xml_string")  # methods of urdf_parser_py and yourdfpy
_xacro_lock = threading.Lock()  # xacro keeps its arguments in global variables


def share_path(relative: str) -> Path:
    """Return the path of an included file or folder, such as "urdf/iiwa14.urdf".

    The folder that contains the package is searched first, for checkouts and editable installs. Then `share/eim_ros` is
    searched in the installation prefix (pip, also with --user or --target; colcon) and in each entry of
    AMENT_PREFIX_PATH.

    Raises
    ------
    MissingFileError
        If the file does not exist. The message lists the searched folders. The error is also a `FileNotFoundError`.

    Examples
    --------
    >>> from eim_ros.kinematics import share_path
    >>> share_path("urdf/panda.urdf").name
    'panda.urdf'
    """
    relative = str(checked_path(relative, MissingFileError))
    above = Path(__file__).resolve().parents[2:6]  # the package is in <prefix>/lib/python3.x/site-packages
    prefixes = [*above, *map(Path, filter(None, os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)))]
    folders = [above[0], *(prefix / "share" / "eim_ros" for prefix in prefixes)]
    for folder in folders:
        candidate = folder / relative
        if os.path.exists(candidate):  # returns False for a name that is too long, unlike Path.exists
            return candidate
    searched = ", ".join(str(folder) for folder in folders)
    raise MissingFileError(
        f"{relative} of eim_ros is not installed (searched: {searched}): install eim_ros again", relative
    )


def robot_path(name_or_path: str | Path, package_paths: Sequence[str | Path] = ()) -> Path:
    """Return the path of a description, given by a path, an included robot, or a name in `robot_descriptions`.

    A path may also be `package://NAME/...`. Packages are also searched in `package_paths`, see `find_mesh`.

    Raises
    ------
    RobotError
        If the name is unknown. The message suggests similar names.

    Examples
    --------
    >>> from eim_ros.kinematics import robot_path
    >>> robot_path("ur5e").name
    'ur5e.urdf'
    """
    path = checked_path(name_or_path, RobotError)
    name = str(path)
    if isinstance(name_or_path, str) and name_or_path.startswith(("package://", "file://")):
        return _named_file(name_or_path, None, package_paths)
    included = name if name in SHIPPED_ROBOTS or os.path.exists(path) else name.lower()
    if included in SHIPPED_ROBOTS:
        try:
            return share_path(f"urdf/{included}.urdf")
        except MissingFileError as error:
            raise RobotError(str(error), name) from error
    if not name.isidentifier() or os.path.exists(path):
        return path
    described = _described(name)
    if described is not None:
        return described
    raise RobotError(
        f"there is no included robot {name!r}, only {', '.join(SHIPPED_ROBOTS)}. For other robots, give "
        f"the path of the URDF, or the name in {DESCRIPTIONS} if this package is installed{_similar(name)}",
        name,
    )


def _named_file(name: str, near: Path | None, package_paths: Sequence[str | Path]) -> Path:
    """Return the path of a file `package://...` or `file://...`, followed by the xacro arguments after its name."""
    file, xacro, arguments = name.partition(".xacro ")
    try:
        path = find_mesh(file + xacro.rstrip(), near, package_paths)
    except MeshError as error:
        raise RobotError(str(error).removeprefix("mesh "), name) from error
    return Path(f"{path} {arguments}") if arguments else path


def read_srdf(source: str | Path, near: Path | None, package_paths: Sequence[str | Path] = ()) -> str:
    """Return the text of an SRDF, which is the source itself or the content of the file that the source names.

    A package in `package://NAME/...` is also searched near the file of the robot. A xacro file is expanded.

    Raises
    ------
    RobotError
        If the file cannot be read.
    """
    source = str(source)
    if not source.strip() or source.lstrip("\ufeff \t\r\n").startswith("<"):
        return source
    is_named = source.startswith(("package://", "file://"))
    content = read_urdf_source(_named_file(source, near, package_paths) if is_named else source, package_paths)
    return content if isinstance(content, str) else content.decode(errors="replace")


def _similar(name: str) -> str:
    """Return the end of a message that suggests an included robot with a name similar to, or contained in, `name`."""
    parts = MAKERS | {robot: robot for robot in SHIPPED_ROBOTS}
    within = max((part for part in parts if part in name.lower()), key=len, default=None)
    return f"; did you mean {parts[within]}?" if within else did_you_mean(name, SHIPPED_ROBOTS)


def _described(name: str) -> Path | None:
    """Return the file of a robot from `robot_descriptions`, which may download it; None if there is no such robot."""
    try:
        module = importlib.import_module(f"{DESCRIPTIONS}.{name}")
    except ModuleNotFoundError:
        return None
    except Exception as error:  # the download may fail in many ways
        raise RobotError(f"{DESCRIPTIONS} cannot load {name!r}: {error}", name) from error
    paths = (getattr(module, kind, None) for kind in ("URDF_PATH", "XACRO_PATH", "MJCF_PATH"))
    path = next(filter(None, paths), None)
    if path is None:
        raise RobotError(f"{DESCRIPTIONS} has no URDF, xacro or MJCF of {name!r}", name)
    return Path(path)


def checked_source(source: Any) -> str | Path:
    """Return a name, a path or a description (XML); objects of urdf_parser_py, yourdfpy and ElementTree become XML.

    Raise `RobotError` for other objects.
    """
    if isinstance(source, (str, os.PathLike)):
        return source  # type: ignore[return-value]  # checked_path reads other path objects
    if isinstance(source, (ElementTree.Element, ElementTree.ElementTree)):
        root = source.getroot() if isinstance(source, ElementTree.ElementTree) else source
        return ElementTree.tostring(root, encoding="unicode")
    for name in XML_METHODS:
        if callable(method := getattr(source, name, None)):
            text = method()
            return text.decode() if isinstance(text, bytes) else str(text)
    raise RobotError(
        "a robot must be the name of an included robot, or the path or text of a URDF, got an object of type "
        f"{type(source).__name__}",
        source,
    )


def read_urdf_source(source: str | Path, package_paths: Sequence[str | Path] = ()) -> str | bytes:
    """Return the URDF of a source, see `read_description`."""
    return read_description(source, package_paths).text


def read_description(source: str | Path, package_paths: Sequence[str | Path] = ()) -> Description:
    """Return the URDF of a source, with remarks on parts that could not be converted.

    The URDF is the source itself if it starts with '<', otherwise the content of the file that it names. The content is
    not decoded, because the XML parser detects the encoding. An MJCF file is converted. An MJCF text is not converted,
    because it may include any file. A file that ends in .xacro is expanded with the arguments that follow its name,
    such as "ur.urdf.xacro name:=ur ur_type:=ur5e". Other files are never expanded, because xacro evaluates Python and
    may include any file. `$(find NAME)` also searches `package_paths`, see `find_mesh`.
    """
    if isinstance(source, str) and source.lstrip("\ufeff \t\r\n").startswith("<"):
        return Description(source.lstrip("\ufeff \t\r\n"))
    path, arguments = _with_arguments(source)
    if path.suffix == ".xacro":
        return Description(expanded_xacro(path, arguments, package_paths))
    try:
        text = path.read_bytes()
    except (OSError, ValueError) as error:
        cause = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise RobotError(f"cannot read robot description {str(path)[:200]!r}: {cause}", str(path)) from error
    return urdf_of_mjcf(path) if is_mjcf(text) else Description(text)


def urdf_folder(source: str | Path) -> Path | None:
    """Return the folder of the file that a source names; None for XML text."""
    if isinstance(source, str) and source.lstrip("\ufeff \t\r\n").startswith("<"):
        return None
    return _with_arguments(source)[0].absolute().parent


def _with_arguments(source: str | Path) -> tuple[Path, dict[str, str]]:
    """Return the path of a file, and the arguments NAME:=VALUE after the name of a xacro file."""
    path, words = checked_path(source, RobotError).expanduser(), str(source).split(".xacro ")
    if len(words) != 2 or not all(":=" in word for word in words[1].split()):
        return path, {}
    pairs = (word.partition(":=")[::2] for word in words[1].split())
    return Path(words[0] + ".xacro").expanduser(), dict(pairs)


def expanded_xacro(path: Path, arguments: Mapping[str, str], package_paths: Sequence[str | Path] = ()) -> str:
    """Expand a xacro file to a URDF; raise `RobotError` if xacro is not installed or fails.

    `$(find NAME)` searches packages in the same order as `find_mesh`.
    """
    by_hand = f"xacro {path.name} ARGUMENT:=VALUE > robot.urdf"
    try:
        xacro = importlib.import_module("xacro")
    except ImportError as error:
        raise RobotError(
            f"{path} is a xacro file, but xacro is not installed: run pip install xacro (ROS includes it), or expand "
            f"the file by {by_hand}",
            str(path),
        ) from error
    try:
        with _finding_packages(path.absolute().parent, package_paths):
            return str(xacro.process_file(str(path), mappings=dict(arguments)).toxml())
    except (Exception, SystemExit) as error:  # the XML parser and Python expressions in the file may raise anything
        told = " ".join(str(error).split()) or type(error).__name__
        missing = re.search(r"package '([^']+)' not found", told)
        remedy = (
            f"package {missing[1]!r} is not found: {missing_package(missing[1])}"
            if missing
            else f"{told}; if arguments are missing, write them after the name of the file: '{path.name} NAME:=VALUE'"
        )
        raise RobotError(f"xacro cannot expand {path}: {remedy}", str(path)) from error


@contextlib.contextmanager
def _finding_packages(near: Path, package_paths: Sequence[str | Path]) -> Iterator[None]:
    """Let xacro's `$(find NAME)` search packages as `packages.py` does, so that no ROS installation is needed."""
    substitution: Any = importlib.import_module("xacro.substitution_args")

    def find(name: str) -> str:
        folder = find_package(name, near, package_paths)
        if folder is None:
            raise LookupError(f"package '{name}' not found")
        return str(folder)

    with _xacro_lock:
        before = substitution._eval_find
        substitution._eval_find = substitution._eval_dict["find"] = find
        try:
            yield
        finally:
            substitution._eval_find = substitution._eval_dict["find"] = before
