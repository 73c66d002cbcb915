"""Planar arm: links in the x-y plane, each joint about z, stretched along x at q = 0.

The tip of an arm of n links of length l is l sum_i (cos, sin)(q_1 + ... + q_i); names, frames and limits are those of
`eim_ros.kinematics.planar.planar_urdf`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.settings import Settings, option

__all__ = ["PlanarArm", "elbow_side", "passing_side", "wrapped"]


@dataclass(frozen=True)
class PlanarArm(Settings):
    """Geometry and limits of a planar arm, the same for all joints."""

    n_links: int = option(10, "links, and joints", minimum=1, maximum=1000)
    link_length: float = option(1.0, "length of each link", unit="m", minimum=1e-6)
    joint_limit: float = option(
        math.pi, "largest angle of a joint, either way", unit="rad", minimum=1e-3, maximum=math.pi
    )
    velocity_limit: float = option(3.14, "largest velocity of a joint", unit="rad/s", minimum=1e-3)

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Names from base to tip."""
        return tuple(f"joint_{number}" for number in range(1, self.n_links + 1))

    @property
    def reach(self) -> float:
        """Length of the stretched arm [m]."""
        return self.n_links * self.link_length

    def points(self, q: Tensor) -> Tensor:
        """Base, joints and tip (..., n_links + 1, 2) [m] of configurations (..., n_links) [rad]; differentiable."""
        angle = q.cumsum(-1)
        links = self.link_length * torch.stack([angle.cos(), angle.sin()], -1)
        return torch.cat([torch.zeros_like(links[..., :1, :]), links.cumsum(-2)], -2)

    def tip(self, q: Tensor) -> Tensor:
        """Position of the tip (..., 2) [m]; differentiable."""
        angle = q.cumsum(-1)
        return self.link_length * torch.stack([angle.cos().sum(-1), angle.sin().sum(-1)], -1)

    def tip_angle(self, q: Tensor) -> Tensor:
        """Direction of the last link (...) [rad]."""
        return q.sum(-1)

    def within_limits(self, q: Tensor) -> Tensor:
        """Whether all joints are within their limits, (...) of bool."""
        return (q.abs() <= self.joint_limit).all(-1)


def wrapped(angle: Tensor) -> Tensor:
    """The same angle in [-pi, pi)."""
    return torch.remainder(angle + math.pi, 2.0 * math.pi) - math.pi


def elbow_side(points: Tensor) -> Tensor:
    """On which side of the line from base to tip most of the arm is, (...): 1 left, -1 right, by the enclosed area.

    Parameters
    ----------
    points : Tensor (..., n_links + 1, 2)
    """
    before, after = points[..., :-1, :], points[..., 1:, :]
    area = (before[..., 0] * after[..., 1] - before[..., 1] * after[..., 0]).sum(-1)
    return torch.where(area < 0.0, 1, -1)  # an arm that bulges to the left comes back clockwise


def passing_side(points: Tensor, center: Tensor) -> Tensor:
    """On which side a disc is passed on the way from base to tip, (...): 1 leaves it on the right, as an arm above it.

    Parameters
    ----------
    points : Tensor (..., n_links + 1, 2)
    center : Tensor (2,)
        Of the disc, which no link touches.
    """
    away = points - center
    before, after = away[..., :-1, :], away[..., 1:, :]
    cross = before[..., 0] * after[..., 1] - before[..., 1] * after[..., 0]
    turned = torch.atan2(cross, (before * after).sum(-1)).sum(-1)  # as seen from the disc
    return torch.where(turned < 0.0, 1, -1)
