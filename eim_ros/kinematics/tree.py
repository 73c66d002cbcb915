"""Kinematics of a branching robot in torch: frames of the links, centre of mass, gradients by forces; many postures.

Frames are composed level by level from the base, all joints of a level and all postures at once. A function of
positions and rotations is differentiated as statics does it: let f_b be its gradient in the position of what moves with
joint b, and m_b = sum r x f + moments the torque about the base's origin. Then its derivative in joint j with axis a_j
at o_j is

    a_j . (M_j - o_j x F_j)   (revolute),      a_j . F_j   (prismatic),

F_j and M_j being the sums over all that joint j carries. Serial arms have the compiled `Robot`.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

__all__ = ["KinematicTree", "TreeFrames"]


@dataclass(frozen=True)
class TreeFrames:
    """Frames of the base and of each joint, in the base's frame.

    Attributes
    ----------
    rotations : Tensor (n_samples, n_joints + 1, 3, 3)
        The base's first.
    origins : Tensor (n_samples, n_joints + 1, 3)
        [m].
    """

    rotations: Tensor
    origins: Tensor


@dataclass(frozen=True)
class KinematicTree:
    """Joints on the ways from the base to some tips; all other joints are held at zero.

    Attributes
    ----------
    joint_names : tuple of str
        By their depth, as the columns of postures are.
    lower, upper : Tensor (n_joints,)
        Limits [rad] or [m]; infinite of continuous joints.
    parents : Tensor (n_joints,) of int64
        Frame that each joint is mounted in, 0 for the base, j + 1 for joint j.
    level_sizes : tuple of int
        Number of joints of each depth.
    placements : Tensor (n_joints, 3, 4)
        Of each joint in its parent's frame, at value zero.
    axes : Tensor (n_joints, 3)
        In the joint's own frame, of length 1.
    prismatic : Tensor (n_joints,) of bool
    masses : Tensor (n_joints + 1,)
        [kg], of all that moves with each frame.
    mass_centres : Tensor (n_joints + 1, 3)
        In that frame [m].
    tip_frames : tuple of int
        Frame that each tip is fixed to.
    tip_placements : Tensor (n_tips, 3, 4)
        In that frame.
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
        """Frames of postures (n_samples, n_joints) [rad] or [m]; differentiable."""
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
        """Rotation (n_samples, 3, 3) and position (n_samples, 3) of a tip in the base's frame."""
        frame, placement = self.tip_frames[index], self.tip_placements[index]
        rotation = frames.rotations[:, frame]
        return rotation @ placement[:, :3], frames.origins[:, frame] + rotation @ placement[:, 3]

    def centre_of_mass(self, frames: TreeFrames) -> Tensor:
        """In the base's frame, (n_samples, 3) [m]."""
        share = self.masses / self.masses.sum()
        return (share.unsqueeze(-1) * self._mass_points(frames)).sum(1)

    def force_on_centre(self, frames: TreeFrames, force: Tensor) -> tuple[Tensor, Tensor]:
        """Forces and torques (n_samples, n_joints + 1, 3) on the frames of one (n_samples, 3) on the centre of mass."""
        share = (self.masses / self.masses.sum()).unsqueeze(-1)
        forces = share * force.unsqueeze(1)
        return forces, torch.linalg.cross(self._mass_points(frames), forces)

    def joint_gradient(self, frames: TreeFrames, forces: Tensor, torques: Tensor) -> Tensor:
        """Derivatives (n_samples, n_joints) from forces and torques about the base (n_samples, n_joints + 1, 3)."""
        carried_force, carried_torque = self._carried @ forces, self._carried @ torques
        axis = (frames.rotations[:, 1:] @ self.axes.unsqueeze(-1)).squeeze(-1)
        about_joint = carried_torque - torch.linalg.cross(frames.origins[:, 1:], carried_force)
        return (axis * torch.where(self.prismatic.unsqueeze(-1), carried_force, about_joint)).sum(-1)

    def _mass_points(self, frames: TreeFrames) -> Tensor:
        return frames.origins + (frames.rotations @ self.mass_centres.unsqueeze(-1)).squeeze(-1)

    @cached_property
    def _rotation_terms(self) -> tuple[Tensor, Tensor, Tensor]:
        """P, P K and P K^2: a joint's rotation is P (I + sin K + (1 - cos) K^2) (Rodrigues)."""
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
        """1 where a joint carries a frame, (n_joints, n_joints + 1)."""
        carried = torch.zeros(self.n_joints, self.n_joints + 1, dtype=self.axes.dtype)
        for joint in range(self.n_joints):
            frame = joint + 1
            while frame > 0:
                carried[frame - 1, joint + 1] = 1.0
                frame = int(self.parents[frame - 1])
        return carried
