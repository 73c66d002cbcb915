"""Links and joints of a URDF as a tree, and the serial chain from base to tip that is cut out of it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from eim_ros.errors import RobotError, did_you_mean

__all__ = ["Mimic", "UrdfJoint", "UrdfTree", "listed"]

MOVING_TYPES = ("revolute", "continuous", "prismatic")
MOST_MOVABLE = 64  # joints of a chain, followers included


@dataclass(frozen=True)
class Mimic:
    """A joint that follows another: value = multiplier * source value + offset."""

    joint: str
    multiplier: float
    offset: float


@dataclass(frozen=True)
class UrdfJoint:
    """One joint element; `lower` and `upper` are in [rad] or [m], infinite where the type has no limits."""

    name: str
    kind: str
    parent: str
    child: str
    origin_xyz: tuple[float, ...]
    origin_rpy: tuple[float, ...]
    axis: tuple[float, ...]
    lower: float
    upper: float
    mimic: Mimic | None

    @property
    def moves(self) -> bool:
        """Whether the joint has a value of its own or follows one."""
        return self.kind in MOVING_TYPES


@dataclass(frozen=True)
class UrdfTree:
    """Links and joints of a URDF, and its text without anything that is not kinematics or a collision shape."""

    name: str
    links: tuple[str, ...]
    joints: tuple[UrdfJoint, ...]
    text: str

    def root(self) -> str:
        """The only link without a parent."""
        children = {joint.child for joint in self.joints}
        roots = [link for link in self.links if link not in children]
        if len(roots) != 1:
            described = f"it has {len(roots)}: {listed(roots)}" if roots else "its joints form a loop"
            raise RobotError(f"a URDF must have one root link, {described}", roots)
        return roots[0]

    def leaf(self) -> str:
        """The only link without a child."""
        parents = {joint.parent for joint in self.joints}
        leaves = [link for link in self.links if link not in parents]
        if len(leaves) != 1:
            raise RobotError(
                f"robot {self.name!r} branches, so its tip link must be named; its leaves are {listed(leaves)}", leaves
            )
        return leaves[0]

    def chain(self, base: str | None = None, tip: str | None = None) -> tuple[str, str, tuple[UrdfJoint, ...]]:
        """Joints from base to tip, in order.

        Parameters
        ----------
        base : str, optional
            First link; default the root.
        tip : str, optional
            Last link; default the only leaf.

        Returns
        -------
        base, tip : str
            The links used.
        joints : tuple of UrdfJoint
            All joints between them, the fixed ones included.
        """
        base = self.root() if base is None else base
        tip = self.leaf() if tip is None else tip
        for role, link in (("base", base), ("tip", tip)):
            if not isinstance(link, str) or link not in self.links:
                known = listed(self.links) + did_you_mean(str(link), self.links)
                raise RobotError(f"robot {self.name!r} has no {role} link {link!r}; its links: {known}", link)
        if base == tip:
            raise RobotError(f"base and tip are the same link {base!r}: there is no joint between them", base)
        joints = self._path_up(tip, base)
        _check_chain(joints, base, tip)
        return base, tip, joints

    def _path_up(self, tip: str, base: str) -> tuple[UrdfJoint, ...]:
        to_parent = {joint.child: joint for joint in self.joints}
        path: list[UrdfJoint] = []
        link = tip
        while link != base:
            joint = to_parent.get(link)
            if joint is None:
                if base in _subtree(self.joints, tip):
                    hint = f"the chain runs from {tip!r} to {base!r}: exchange them"
                else:
                    hint = "they are on different branches"
                raise RobotError(
                    f"no serial chain from {base!r} to {tip!r}: {base!r} is no ancestor of {tip!r}; {hint}", (base, tip)
                )
            if len(path) > len(self.joints):
                raise RobotError(f"the joints above link {tip!r} form a loop", tip)
            path.append(joint)
            link = joint.parent
        return tuple(reversed(path))


def listed(names: Iterable[str]) -> str:
    """Names for a message, the first dozen of them."""
    names = list(names)
    shown = ", ".join(repr(name) for name in names[:12])
    return f"{shown} and {len(names) - 12} more" if len(names) > 12 else shown


def _check_chain(joints: tuple[UrdfJoint, ...], base: str, tip: str) -> None:
    """Number of joints, their types and axes, and followed joints of one chain."""
    if (n_movable := sum(joint.moves for joint in joints)) > MOST_MOVABLE:
        raise RobotError(
            f"the chain from {base!r} to {tip!r} has {n_movable} movable joints, at most {MOST_MOVABLE} are supported: "
            "choose a base or a tip link that is nearer to the other",
            n_movable,
        )
    sources = {joint.name for joint in joints if joint.moves and joint.mimic is None}
    for joint in joints:
        if joint.kind not in (*MOVING_TYPES, "fixed"):
            raise RobotError(
                f"joint {joint.name!r} between {base!r} and {tip!r} is of type {joint.kind!r}; supported are "
                f"{', '.join(MOVING_TYPES)} and fixed",
                joint.name,
            )
        if joint.moves and math.hypot(*joint.axis) < 1e-9:
            raise RobotError(f"joint {joint.name!r} has the zero vector as its axis", joint.axis)
        if joint.moves and joint.mimic is not None and joint.mimic.joint not in sources:
            raise RobotError(
                f"joint {joint.name!r} mimics {joint.mimic.joint!r}, which is no independent joint of the chain from "
                f"{base!r} to {tip!r}",
                joint.mimic.joint,
            )
    if not sources:
        raise RobotError(f"no movable joint between {base!r} and {tip!r}", (base, tip))


def _subtree(joints: tuple[UrdfJoint, ...], link: str) -> set[str]:
    found = {link}
    while grown := {joint.child for joint in joints if joint.parent in found} - found:
        found |= grown
    return found
