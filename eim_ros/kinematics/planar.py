"""URDF of a planar arm: n links of one length in the x-y plane, each joint about z.

`python -m eim_ros.kinematics.planar 5 > planar5.urdf` writes one.
"""

from __future__ import annotations

import sys

from eim_ros.errors import RobotError

__all__ = ["planar_urdf"]

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
        f"<!-- {n_links} links of {link_length:g} m, written by: python -m eim_ros.kinematics.planar {n_links} -->",
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
