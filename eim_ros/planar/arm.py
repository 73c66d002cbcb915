"""Planar arm: links in the x-y plane, each joint about z, stretched along x at q = 0.

The tip of an arm of n links of length l is l sum_i (cos, sin)(q_1 + ... + q_i); names, frames and limits are those of
`eim_ros.planar.arm.planar_urdf`.

URDF of a planar arm: n links of one length in the x-y plane, each joint about z.

`python -m eim_ros.planar.arm 5 > planar5.urdf` writes one.

Driving the arm by the velocity of its tip: damped least squares (Wampler 1986), within the joint limits.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eim_ros.core.errors import DataError, RobotError
from eim_ros.core.settings import Settings, option


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


RADIUS = 0.05


def planar_urdf(n_links: int, link_length: float = 1.0) -> str:
    """URDF text of an arm with as many revolute joints as links, limits -pi..pi.

    The base link is `base_link`, the tip `tip_link`; stretched along x at q = 0. Each link carries one capsule of
    radius 0.05 m: a cylinder and two spheres.

    Parameters
    ----------
    n_links : int
        At least 1.
    link_length : float
        [m], longer than 0.
    """
    if isinstance(n_links, bool) or n_links < 1 or not link_length > 0.0:
        raise RobotError(f"a planar arm needs n_links >= 1 and link_length > 0, got {n_links}, {link_length}", n_links)
    lines = [
        '<?xml version="1.0"?>',
        f"<!-- {n_links} links of {link_length:g} m, written by: python -m eim_ros.planar.arm {n_links} -->",
        f'<robot name="planar{n_links}">',
        '  <link name="base_link"/>',
    ]
    for i in range(1, n_links + 1):
        start = 0.0 if i == 1 else link_length
        parent = "base_link" if i == 1 else f"link_{i - 1}"
        lines += [*_capsule_link(f"link_{i}", link_length), *_joint(f"joint_{i}", parent, f"link_{i}", start)]
    lines += [
        '  <link name="tip_link"/>',
        '  <joint name="tip_joint" type="fixed">',
        f'    <parent link="link_{n_links}"/>',
        '    <child link="tip_link"/>',
        f'    <origin xyz="{link_length:g} 0 0" rpy="0 0 0"/>',
        "  </joint>",
        "</robot>",
    ]
    return "\n".join(lines) + "\n"


def _capsule_link(name: str, length: float) -> list[str]:
    shapes = [
        ("cylinder", f"{length / 2:g} 0 0", f'<cylinder radius="{RADIUS:g}" length="{length:g}"/>'),
        ("start", "0 0 0", f'<sphere radius="{RADIUS:g}"/>'),
        ("end", f"{length:g} 0 0", f'<sphere radius="{RADIUS:g}"/>'),
    ]
    collisions = [
        f'    <collision name="{name}_capsule_{part}"><origin xyz="{xyz}" rpy="0 1.5707963267948966 0"/>'
        f"<geometry>{geometry}</geometry></collision>"
        for part, xyz, geometry in shapes
    ]
    return [f'  <link name="{name}">', *collisions, "  </link>"]


def _joint(name: str, parent: str, child: str, x: float) -> list[str]:
    return [
        f'  <joint name="{name}" type="revolute">',
        f'    <parent link="{parent}"/>',
        f'    <child link="{child}"/>',
        f'    <origin xyz="{x:g} 0 0" rpy="0 0 0"/>',
        '    <axis xyz="0 0 1"/>',
        '    <limit lower="-3.141592653589793" upper="3.141592653589793" effort="100" velocity="3.14"/>',
        "  </joint>",
    ]


if __name__ == "__main__":
    sys.stdout.write(planar_urdf(int(sys.argv[1])))


Array = npt.NDArray[np.float64]

DAMPING = 0.1  # [m]


def joint_velocity(arm: PlanarArm, q: Array, linear: Array, angular: float = 0.0) -> Array:
    """Joint velocities (n_links,) [rad/s] that move the tip as wished, as nearly and as gently as possible.

    Parameters
    ----------
    arm : PlanarArm
    q : (n_links,)
        [rad].
    linear : (2,)
        Velocity of the tip, x and y [m/s].
    angular : float
        Its rotation [rad/s]; 0: it may turn as it likes.
    """
    if not (np.isfinite(linear).all() and np.isfinite(angular)):
        raise DataError("a wished velocity must be finite", [*linear, angular])
    points = arm.points(torch.from_numpy(q)).numpy()
    lever = points[-1] - points[:-1]
    jacobian, wish = np.stack([-lever[:, 1], lever[:, 0]]), np.asarray(linear, dtype=np.float64)
    if angular != 0.0:
        jacobian, wish = np.vstack([jacobian, np.ones(arm.n_links)]), np.append(wish, angular)
    damped = jacobian @ jacobian.T + DAMPING**2 * np.eye(len(jacobian))
    return np.asarray(jacobian.T @ np.linalg.solve(damped, wish))


def target_after(arm: PlanarArm, q: Array, velocity: Array, duration: float) -> Array:
    """Configuration (n_links,) after a time [s] at this velocity, slowed down to the arm's limits as a whole."""
    if velocity.shape != (arm.n_links,) or not np.isfinite(velocity).all():
        raise DataError(f"wished joint velocities must be {arm.n_links} finite numbers", velocity.tolist())
    fastest = float(np.abs(velocity).max())
    slowed = velocity * min(1.0, 0.99 * arm.velocity_limit / fastest) if fastest > 0.0 else velocity
    return np.asarray(np.clip(q + duration * slowed, -arm.joint_limit, arm.joint_limit))
