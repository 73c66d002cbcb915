"""How the collision shapes of a robot's description are read: its meshes, and which pairs of links are not checked."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from eim_ros.errors import RobotError
from eim_ros.numerics.keywords import names_wrong_keywords

__all__ = ["CollisionOptions", "disabled_pairs"]

MESHES = ("exact", "hulls", "none")


@names_wrong_keywords
@dataclass(frozen=True)
class CollisionOptions:
    """Of a robot; the default reads the meshes of its description as they are.

    Attributes
    ----------
    meshes : {"exact", "hulls", "none"}
        Meshes as they are, the convex hull of each (faster), or none: then primitives alone are checked.
    package_paths : sequence of str or Path
        Folders with packages, or of packages, in which meshes are looked for before those of the environment.
    srdf : str
        Text of an SRDF: pairs of links are checked but those that it disables. Empty, or where it disables none: but
        neighbours in the chain, and those that collide almost always.
    packages_only : bool
        Whether meshes must lie in packages, as those of a description from a topic must: see `find_mesh`.
    """

    meshes: str = "exact"
    package_paths: Sequence[str | Path] = ()
    srdf: str = field(default="", repr=False)
    packages_only: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.meshes, str) or self.meshes not in MESHES:
            raise RobotError(f"meshes must be one of {', '.join(MESHES)}, got {self.meshes!r}", self.meshes)
        is_list = isinstance(self.package_paths, Sequence) and not isinstance(self.package_paths, str)
        if not is_list or not all(isinstance(path, (str, Path)) for path in self.package_paths):
            raise RobotError(f"package_paths must be a list of folders, got {self.package_paths!r}", self.package_paths)
        if not isinstance(self.srdf, str):
            raise RobotError("srdf must be the text of an SRDF", self.srdf)


def disabled_pairs(srdf: str) -> Callable[[str, str], bool] | None:
    """Tells whether an SRDF disables the collisions of two links; None of an SRDF that disables none at all.

    Raises
    ------
    RobotError
        If it is no SRDF.
    """
    try:
        root = ElementTree.fromstring(srdf.strip() or "<robot/>")
    except (ElementTree.ParseError, ValueError) as error:
        raise RobotError(f"the SRDF is no well-formed XML: {error}", srdf[:200]) from error
    disabled, enabled = (
        {frozenset((pair.get("link1", ""), pair.get("link2", ""))) for pair in root.findall(f"{kind}_collisions")}
        for kind in ("disable", "enable")
    )
    if root.find("disable_collisions") is None and root.find("disable_default_collisions") is None:
        return None
    silent = {link.get("link", "") for link in root.findall("disable_default_collisions")}

    def is_disabled(first: str, second: str) -> bool:
        pair = frozenset((first, second))
        return pair in disabled or (bool(pair & silent) and pair not in enabled)

    return is_disabled
