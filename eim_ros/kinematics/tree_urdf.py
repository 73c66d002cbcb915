"""A branching robot from its URDF: the joints on the ways to some tips, and the masses of all links.

Every link is mounted on the last of these joints above it; joints that lead to no tip are held at zero, or at their
limit that is nearest to it.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from eim_ros.errors import RobotError
from eim_ros.kinematics.link_tree import UrdfJoint, UrdfTree
from eim_ros.kinematics.tree import KinematicTree
from eim_ros.kinematics.urdf import parse_urdf, read_urdf_source

__all__ = ["read_tree"]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Mount:
    """Frame of the tree that a link moves with, and its transform (4, 4) in that frame."""

    frame: int
    transform: FloatArray


def read_tree(source: str | Path, tips: Sequence[str], base: str | None = None) -> KinematicTree:
    """Read a robot.

    Parameters
    ----------
    source : str or Path
        Path, or XML text, of a URDF.
    tips : sequence of str
        Links whose poses are wanted; the joints on the ways to them are free.
    base : str, optional
        Link that all tips descend from; default the root.

    Raises
    ------
    RobotError
        If the file cannot be read, a tip does not descend from the base, a joint on the way is of another type than
        revolute, continuous or prismatic or follows another, or no link has a mass.
    """
    text = read_urdf_source(source)
    urdf = parse_urdf(text)
    base = urdf.root() if base is None else base
    levels = _levels(urdf, tips, base)
    free = [joint for level in levels for joint in level]
    mounts, parents, placements = _mounted(urdf, base, {joint.name: i + 1 for i, joint in enumerate(free)})
    masses, centres = _lumped(text, mounts, len(free) + 1)
    limits = [(-math.inf, math.inf) if joint.kind == "continuous" else (joint.lower, joint.upper) for joint in free]
    return KinematicTree(
        joint_names=tuple(joint.name for joint in free),
        lower=torch.tensor([low for low, _ in limits], dtype=torch.float64),
        upper=torch.tensor([high for _, high in limits], dtype=torch.float64),
        parents=torch.tensor([parents[joint.name] for joint in free]),
        level_sizes=tuple(map(len, levels)),
        placements=torch.from_numpy(np.array([placements[joint.name][:3] for joint in free])),
        axes=torch.tensor([joint.axis for joint in free], dtype=torch.float64)
        / torch.tensor([[math.hypot(*joint.axis)] for joint in free], dtype=torch.float64),
        prismatic=torch.tensor([joint.kind == "prismatic" for joint in free]),
        masses=torch.from_numpy(masses),
        mass_centres=torch.from_numpy(centres),
        tip_frames=tuple(mounts[tip].frame for tip in tips),
        tip_placements=torch.from_numpy(np.array([mounts[tip].transform[:3] for tip in tips])),
    )


def _levels(urdf: UrdfTree, tips: Sequence[str], base: str) -> list[list[UrdfJoint]]:
    """Free joints by their depth, each once."""
    if not tips:
        raise RobotError("a tree needs at least one tip link", tips)
    levels: list[list[UrdfJoint]] = []
    for tip in tips:
        moving = [joint for joint in urdf.chain(base, tip)[2] if joint.moves]
        for depth, joint in enumerate(moving):
            if joint.mimic is not None:
                raise RobotError(
                    f"joint {joint.name!r} follows {joint.mimic.joint!r}; a tree takes independent joints only: choose "
                    "tips above it",
                    joint.name,
                )
            levels += [[]] if depth == len(levels) else []
            if joint not in levels[depth]:
                levels[depth].append(joint)
    return levels


def _mounted(
    urdf: UrdfTree, base: str, frames: dict[str, int]
) -> tuple[dict[str, _Mount], dict[str, int], dict[str, FloatArray]]:
    """Mount of each link below the base; parent frame and placement of each free joint."""
    children: dict[str, list[UrdfJoint]] = {}
    for joint in urdf.joints:
        children.setdefault(joint.parent, []).append(joint)
    mounts = {base: _Mount(0, np.eye(4))}
    parents: dict[str, int] = {}
    placements: dict[str, FloatArray] = {}
    waiting = [base]
    while waiting:
        link = waiting.pop()
        for joint in children.get(link, ()):
            placement = mounts[link].transform @ _transform(joint)
            if joint.name in frames:
                parents[joint.name], placements[joint.name] = mounts[link].frame, placement
                mounts[joint.child] = _Mount(frames[joint.name], np.eye(4))
            else:
                mounts[joint.child] = _Mount(mounts[link].frame, placement @ _held(joint))
            waiting.append(joint.child)
    return mounts, parents, placements


def _lumped(text: str | bytes, mounts: dict[str, _Mount], n_frames: int) -> tuple[FloatArray, FloatArray]:
    """Masses (n_frames,) and their centres (n_frames, 3) of all that moves with each frame."""
    masses, moments = np.zeros(n_frames), np.zeros((n_frames, 3))
    for link in ElementTree.fromstring(text).findall("link"):
        mount, inertial = mounts.get(link.get("name", "")), link.find("inertial")
        element = None if inertial is None else inertial.find("mass")
        if mount is None or inertial is None or element is None:
            continue
        origin = inertial.find("origin")
        place = "0 0 0" if origin is None else origin.get("xyz", "0 0 0")
        try:
            mass, centre = float(element.get("value", "")), np.array([float(word) for word in place.split()])
            moments[mount.frame] += mass * (mount.transform[:3, :3] @ centre + mount.transform[:3, 3])
        except ValueError as error:
            raise RobotError(f"the inertia of link {link.get('name')!r} is not made of numbers: {error}") from error
        masses[mount.frame] += mass
    if not masses.sum() > 0.0:
        raise RobotError("no link of the robot has a mass: its URDF lacks <inertial> elements")
    return masses, moments / np.where(masses > 0.0, masses, 1.0)[:, None]


def _held(joint: UrdfJoint) -> FloatArray:
    """Transform (4, 4) of a joint that is held, by its value nearest to zero."""
    transform = np.eye(4)
    value = min(max(0.0, joint.lower), joint.upper) if joint.moves and joint.mimic is None else 0.0
    if joint.mimic is not None:
        value = joint.mimic.offset
    if value == 0.0:
        return transform
    axis = np.array(joint.axis) / math.hypot(*joint.axis)
    if joint.kind == "prismatic":
        transform[:3, 3] = value * axis
    else:
        x, y, z = axis
        cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
        transform[:3, :3] += math.sin(value) * cross + (1.0 - math.cos(value)) * cross @ cross
    return transform


def _transform(joint: UrdfJoint) -> FloatArray:
    """Placement (4, 4) of a joint in its parent link: rotations about the fixed axes x, y, z in turn."""
    (cr, cp, cy), (sr, sp, sy) = ([function(angle) for angle in joint.origin_rpy] for function in (math.cos, math.sin))
    transform = np.eye(4)
    transform[:3, :3] = [
        [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
        [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
        [-sp, cp * sr, cp * cr],
    ]
    transform[:3, 3] = joint.origin_xyz
    return transform
