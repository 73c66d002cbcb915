"""Kinematics of a branching robot in torch, for many postures at once. Serial arms use the compiled class `Robot`.

Frames are composed level by level from the base, for all joints of a level and all postures together. Gradients of
functions of positions and rotations follow from statics. The gradient with respect to a position acts as a force f on
the frame that carries it. Its torque about the origin of the base is r x f, plus the gradient with respect to
rotations. The derivative with respect to joint j, with axis a_j at o_j, is

    a_j . (M_j - o_j x F_j)   (revolute),      a_j . F_j   (prismatic),

where F_j and M_j are the sums of forces and torques over all frames that joint j carries.

`read_tree` reads a robot from its URDF, with the joints between the base and some tips as degrees of freedom. All other
joints are fixed at zero, or at the limit nearest to zero. The masses of their links move with the joint above.
"""

from __future__ import annotations

import itertools
import math
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eim_ros.core.errors import RobotError
from eim_ros.kinematics.catalogue import read_urdf_source
from eim_ros.kinematics.urdf import UrdfJoint, UrdfTree, parse_urdf


@dataclass(frozen=True)
class TreeFrames:
    """Frames of the base and of each joint, relative to the base.

    Attributes
    ----------
    rotations : Tensor (n_samples, n_joints + 1, 3, 3)
        The first rotation belongs to the base.
    origins : Tensor (n_samples, n_joints + 1, 3)
        [m].
    """

    rotations: Tensor
    origins: Tensor


@dataclass(frozen=True)
class KinematicTree:
    """Tree of the joints between a base and some tips.

    Attributes
    ----------
    joint_names : tuple of str
        Names ordered by depth, like the columns of postures.
    lower, upper : Tensor (n_joints,)
        Limits [rad] or [m]; infinite for continuous joints.
    parents : Tensor (n_joints,) of int64
        Parent frame of each joint: 0 for the base, j + 1 for joint j.
    level_sizes : tuple of int
        Number of joints at each depth.
    placements : Tensor (n_joints, 3, 4)
        Transform of each joint in its parent's frame, at value zero.
    axes : Tensor (n_joints, 3)
        Unit axes in the frames of the joints.
    prismatic : Tensor (n_joints,) of bool
    masses : Tensor (n_joints + 1,)
        Mass of all links that move with each frame [kg].
    mass_centres : Tensor (n_joints + 1, 3)
        Centre of this mass in the frame [m].
    tip_frames : tuple of int
        Frame to which each tip is fixed.
    tip_placements : Tensor (n_tips, 3, 4)
        Transform of each tip in its frame.
    """

    joint_names: tuple[str, ...]
    lower: Tensor
    upper: Tensor
    parents: Tensor
    level_sizes: tuple[int, ...]
    placements: Tensor
    axes: Tensor
    prismatic: Tensor
    masses: Tensor
    mass_centres: Tensor
    tip_frames: tuple[int, ...]
    tip_placements: Tensor

    @property
    def n_joints(self) -> int:
        return len(self.joint_names)

    def forward(self, q: Tensor) -> TreeFrames:
        """Return the frames of postures (n_samples, n_joints) [rad] or [m]. The result is differentiable."""
        fixed, sine, cosine = self._rotation_terms
        angle = q.masked_fill(self.prismatic, 0.0)[..., None, None]
        turned = fixed + angle.sin() * sine + (1.0 - angle.cos()) * cosine
        slide = q.masked_fill(~self.prismatic, 0.0).unsqueeze(-1)
        moved = self.placements[:, :, 3] + slide * (self.placements[:, :, :3] @ self.axes.unsqueeze(-1)).squeeze(-1)
        rotations = [torch.eye(3, dtype=q.dtype).expand(len(q), 1, 3, 3)]
        origins = [q.new_zeros(len(q), 1, 3)]
        first = 0
        for size, parents in zip(self.level_sizes, self._parents_in_level, strict=True):
            level = slice(first, first + size)
            rotation, origin = rotations[-1][:, parents], origins[-1][:, parents]
            rotations.append(rotation @ turned[:, level])
            origins.append(origin + (rotation @ moved[:, level].unsqueeze(-1)).squeeze(-1))
            first += size
        return TreeFrames(torch.cat(rotations, 1), torch.cat(origins, 1))

    def tip(self, frames: TreeFrames, index: int) -> tuple[Tensor, Tensor]:
        """Return the rotation (n_samples, 3, 3) and position (n_samples, 3) [m] of a tip in the base frame."""
        frame, placement = self.tip_frames[index], self.tip_placements[index]
        rotation = frames.rotations[:, frame]
        return rotation @ placement[:, :3], frames.origins[:, frame] + rotation @ placement[:, 3]

    def centre_of_mass(self, frames: TreeFrames) -> Tensor:
        """Return the centre of mass in the base frame, (n_samples, 3) [m]."""
        share = self.masses / self.masses.sum()
        return (share.unsqueeze(-1) * self._mass_points(frames)).sum(1)

    def force_on_centre(self, frames: TreeFrames, force: Tensor) -> tuple[Tensor, Tensor]:
        """Distribute a force (n_samples, 3) on the centre of mass over the frames.

        Return forces, and torques about the origin of the base, (n_samples, n_joints + 1, 3) each.
        """
        share = (self.masses / self.masses.sum()).unsqueeze(-1)
        forces = share * force.unsqueeze(1)
        return forces, torch.linalg.cross(self._mass_points(frames), forces)

    def joint_gradient(self, frames: TreeFrames, forces: Tensor, torques: Tensor) -> Tensor:
        """Return derivatives (n_samples, n_joints), given forces, and torques about the origin of the base.

        Forces and torques have the shape (n_samples, n_joints + 1, 3).
        """
        carried_force, carried_torque = self._carried @ forces, self._carried @ torques
        axis = (frames.rotations[:, 1:] @ self.axes.unsqueeze(-1)).squeeze(-1)
        about_joint = carried_torque - torch.linalg.cross(frames.origins[:, 1:], carried_force)
        return (axis * torch.where(self.prismatic.unsqueeze(-1), carried_force, about_joint)).sum(-1)

    def _mass_points(self, frames: TreeFrames) -> Tensor:
        return frames.origins + (frames.rotations @ self.mass_centres.unsqueeze(-1)).squeeze(-1)

    @cached_property
    def _rotation_terms(self) -> tuple[Tensor, Tensor, Tensor]:
        """P, P K and P K^2, where P (I + sin K + (1 - cos) K^2) is a joint's rotation (Rodrigues)."""
        x, y, z = self.axes.unbind(-1)
        zero = torch.zeros_like(x)
        cross = torch.stack([zero, -z, y, z, zero, -x, -y, x, zero], -1).unflatten(-1, (3, 3))
        placed = self.placements[:, :, :3]
        return placed, placed @ cross, placed @ cross @ cross

    @cached_property
    def _parents_in_level(self) -> tuple[Tensor, ...]:
        """Index of each joint's parent among the frames of the level above."""
        starts = itertools.accumulate((0, 1, *self.level_sizes))
        parts = self.parents.split(list(self.level_sizes))
        return tuple(part - start for part, start in zip(parts, starts, strict=False))

    @cached_property
    def _carried(self) -> Tensor:
        """Matrix (n_joints, n_joints + 1) with 1 where a joint carries a frame."""
        carried = torch.zeros(self.n_joints, self.n_joints + 1, dtype=self.axes.dtype)
        for joint in range(self.n_joints):
            frame = joint + 1
            while frame > 0:
                carried[frame - 1, joint + 1] = 1.0
                frame = int(self.parents[frame - 1])
        return carried


FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Mount:
    """Frame of the tree that moves a link, and the transform (4, 4) of the link in this frame."""

    frame: int
    transform: FloatArray


def read_tree(source: str | Path, tips: Sequence[str], base: str | None = None) -> KinematicTree:
    """Read a robot from a URDF.

    Parameters
    ----------
    source : str or Path
        Path, or XML text, of a URDF.
    tips : sequence of str
        Links whose poses are needed. The joints between these links and the base are free.
    base : str, optional
        Link above all tips. By default, the root.

    Returns
    -------
    KinematicTree

    Raises
    ------
    RobotError
        If the file cannot be read, a tip does not descend from the base, or no link has a mass. The error is also
        raised if a free joint is a mimic joint, or is not revolute, continuous or prismatic.
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
    """Return the free joints by depth, each joint once."""
    if not tips:
        raise RobotError("a tree needs at least one tip link", tips)
    levels: list[list[UrdfJoint]] = []
    for tip in tips:
        moving = [joint for joint in urdf.chain(base, tip)[2] if joint.moves]
        for depth, joint in enumerate(moving):
            if joint.mimic is not None:
                raise RobotError(
                    f"joint {joint.name!r} follows {joint.mimic.joint!r}, but a tree supports only independent joints; "
                    f"choose tips above {joint.name!r}",
                    joint.name,
                )
            levels += [[]] if depth == len(levels) else []
            if joint not in levels[depth]:
                levels[depth].append(joint)
    return levels


def _mounted(
    urdf: UrdfTree, base: str, frames: dict[str, int]
) -> tuple[dict[str, _Mount], dict[str, int], dict[str, FloatArray]]:
    """Return the mount of each link below the base, and the parent frame and placement of each free joint."""
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
    """Return the mass (n_frames,), and its centre (n_frames, 3), of all links that move with each frame."""
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
            raise RobotError(f"the inertia of link {link.get('name')!r} must contain numbers: {error}") from error
        masses[mount.frame] += mass
    if not masses.sum() > 0.0:
        raise RobotError("no link of the robot has a mass: its URDF lacks <inertial> elements")
    return masses, moments / np.where(masses > 0.0, masses, 1.0)[:, None]


def _held(joint: UrdfJoint) -> FloatArray:
    """Return the transform (4, 4) of a fixed joint at its value nearest to zero."""
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
    """Return the placement (4, 4) of a joint in its parent link.

    Rotations are about the fixed axes x, y and z, in this order.
    """
    (cr, cp, cy), (sr, sp, sy) = ([function(angle) for angle in joint.origin_rpy] for function in (math.cos, math.sin))
    transform = np.eye(4)
    transform[:3, :3] = [
        [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
        [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
        [-sp, cp * sr, cp * cr],
    ]
    transform[:3, 3] = joint.origin_xyz
    return transform
