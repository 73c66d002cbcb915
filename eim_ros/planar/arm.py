"""Planar arm: n links of length l in the x-y plane, with joints about z, stretched along x at q = 0.

The tip is at l sum_i (cos, sin)(q_1 + ... + q_i). `planar_urdf` returns a URDF of the same arm, with the same names and
frames. The command `python -m eim_ros.planar.arm 5 > planar5.urdf` writes such a file. `joint_velocity` computes joint
velocities for a requested velocity of the tip by damped least squares (Wampler 1986).
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eim_ros.core.checks import with_hints
from eim_ros.core.errors import DataError, RobotError
from eim_ros.core.settings import Settings, option

RADIUS = 0.05
Array = npt.NDArray[np.float64]
DAMPING = 0.1  # damping of `joint_velocity` [m]


@with_hints
@dataclass(frozen=True)
class PlanarArm(Settings):
    """Geometry and limits of a planar arm with equal links and equal joints.

    Examples
    --------
    >>> import torch
    >>> from eim_ros.planar import PlanarArm
    >>> arm = PlanarArm(n_links=3, link_length=0.5)
    >>> arm.tip(torch.zeros(3)).tolist()
    [1.5, 0.0]
    """

    n_links: int = option(10, "number of links, and of joints", minimum=1, maximum=1000)
    link_length: float = option(1.0, "length of each link", unit="m", minimum=1e-6)
    joint_limit: float = option(
        math.pi, "maximum angle of a joint in both directions", unit="rad", minimum=1e-3, maximum=math.pi
    )
    velocity_limit: float = option(3.14, "maximum velocity of a joint", unit="rad/s", minimum=1e-3)

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Joint names from base to tip."""
        return tuple(f"joint_{number}" for number in range(1, self.n_links + 1))

    @property
    def reach(self) -> float:
        """Length of the stretched arm [m]."""
        return self.n_links * self.link_length

    def points(self, q: Tensor) -> Tensor:
        """Return base, joints and tip (..., n_links + 1, 2) [m] of configurations (..., n_links) [rad].

        The result is differentiable.
        """
        angle = q.cumsum(-1)
        links = self.link_length * torch.stack([angle.cos(), angle.sin()], -1)
        return torch.cat([torch.zeros_like(links[..., :1, :]), links.cumsum(-2)], -2)

    def tip(self, q: Tensor) -> Tensor:
        """Return the position of the tip (..., 2) [m]. The result is differentiable."""
        angle = q.cumsum(-1)
        return self.link_length * torch.stack([angle.cos().sum(-1), angle.sin().sum(-1)], -1)

    def within_limits(self, q: Tensor) -> Tensor:
        """Return whether all joints are within their limits, (...) of bool."""
        return (q.abs() <= self.joint_limit).all(-1)


def wrapped(angle: Tensor) -> Tensor:
    """Wrap angles to [-pi, pi)."""
    return torch.remainder(angle + math.pi, 2.0 * math.pi) - math.pi


def elbow_side(points: Tensor) -> Tensor:
    """Return the side (...) of the line from base to tip where most of the arm is: 1 for left, -1 for right.

    The side is the sign of the area that the points (..., n_links + 1, 2) of base, joints and tip enclose.

    Examples
    --------
    >>> import torch
    >>> from eim_ros.planar import PlanarArm, elbow_side
    >>> arm = PlanarArm(n_links=2)
    >>> elbow_side(arm.points(torch.tensor([[0.5, -1.0], [-0.5, 1.0]]))).tolist()
    [1, -1]
    """
    before, after = points[..., :-1, :], points[..., 1:, :]
    area = (before[..., 0] * after[..., 1] - before[..., 1] * after[..., 0]).sum(-1)
    return torch.where(area < 0.0, 1, -1)  # an arm on the left encloses its area clockwise


def passing_side(points: Tensor, center: Tensor) -> Tensor:
    """Return the side (...) of the arm on which a disc is, seen from base to tip: 1 for right, -1 for left.

    If the arm points to the right, 1 means that it passes above the disc. No link may touch the centre (2,) of the
    disc. The arm is given by the points (..., n_links + 1, 2) of base, joints and tip.

    Examples
    --------
    A stretched arm passes above a disc with a negative y coordinate:

    >>> import torch
    >>> from eim_ros.planar import PlanarArm, passing_side
    >>> arm = PlanarArm(n_links=2)
    >>> int(passing_side(arm.points(torch.zeros(2)), torch.tensor([1.0, -0.5])))
    1
    """
    away = points - center
    before, after = away[..., :-1, :], away[..., 1:, :]
    cross = before[..., 0] * after[..., 1] - before[..., 1] * after[..., 0]
    turned = torch.atan2(cross, (before * after).sum(-1)).sum(-1)  # angle swept by the arm as seen from the disc
    return torch.where(turned < 0.0, 1, -1)


def planar_urdf(n_links: int, link_length: float = 1.0) -> str:
    """Return the URDF text of an arm with `n_links` revolute joints and limits of -pi and pi.

    The base link is `base_link` and the tip link is `tip_link`. The arm is stretched along x at q = 0. Each link has
    one collision capsule with a radius of 0.05 m, written as a cylinder and two spheres. `link_length` is in [m].

    Examples
    --------
    >>> from eim_ros.kinematics import Robot
    >>> from eim_ros.planar.arm import planar_urdf
    >>> Robot(planar_urdf(4)).dof
    4
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


def joint_velocity(arm: PlanarArm, q: Array, linear: Array, angular: float = 0.0) -> Array:
    """Return joint velocities (n_links,) [rad/s] for a requested velocity of the tip, x and y (2,) [m/s].

    Damped least squares balances the error of the tip's velocity against the size of the joint velocities. Near a
    singularity, the joints therefore remain slow, and the tip does not follow exactly. `angular` is the angular
    velocity of the tip [rad/s]; 0 leaves its rotation free.

    Examples
    --------
    Turn a stretched two-link arm so that the tip moves along y at 0.1 m/s:

    >>> import numpy as np
    >>> from eim_ros.planar import PlanarArm
    >>> from eim_ros.planar.arm import joint_velocity
    >>> joint_velocity(PlanarArm(n_links=2), np.zeros(2), np.array([0.0, 0.1])).round(3).tolist()
    [0.04, 0.02]
    """
    if not (np.isfinite(linear).all() and np.isfinite(angular)):
        raise DataError(f"a requested velocity must be finite, got {[*linear, angular]}", [*linear, angular])
    points = arm.points(torch.from_numpy(q)).numpy()
    lever = points[-1] - points[:-1]
    jacobian, wish = np.stack([-lever[:, 1], lever[:, 0]]), np.asarray(linear, dtype=np.float64)
    if angular != 0.0:
        jacobian, wish = np.vstack([jacobian, np.ones(arm.n_links)]), np.append(wish, angular)
    damped = jacobian @ jacobian.T + DAMPING**2 * np.eye(len(jacobian))
    return np.asarray(jacobian.T @ np.linalg.solve(damped, wish))


def target_after(arm: PlanarArm, q: Array, velocity: Array, duration: float) -> Array:
    """Return the configuration (n_links,) after a motion of `duration` [s] at a joint velocity (n_links,) [rad/s].

    If a joint is too fast, all joints are slowed down by the same factor. The result is clipped to the joint limits.
    """
    if velocity.shape != (arm.n_links,) or not np.isfinite(velocity).all():
        raise DataError(
            f"requested joint velocities must be {arm.n_links} finite numbers, got {velocity.tolist()}",
            velocity.tolist(),
        )
    fastest = float(np.abs(velocity).max())
    slowed = velocity * min(1.0, 0.99 * arm.velocity_limit / fastest) if fastest > 0.0 else velocity
    return np.asarray(np.clip(q + duration * slowed, -arm.joint_limit, arm.joint_limit))


if __name__ == "__main__":
    sys.stdout.write(planar_urdf(int(sys.argv[1])))
