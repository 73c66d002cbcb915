"""URDF texts for the tests: all joint types, unusual axes, mimic joints, side branches and missing meshes."""

from __future__ import annotations

import numpy as np

__all__ = ["CASES", "chain_urdf", "joint", "random_urdf"]

FURNITURE = """
  <visual><geometry><mesh filename="package://nowhere/meshes/link.dae"/></geometry></visual>
  <collision><geometry><mesh filename="package://nowhere/meshes/link.stl" scale="1 1 1"/></geometry></collision>
  <collision name="hull"><origin xyz="0 0 0.1" rpy="0 0 0"/><geometry><sphere radius="0.1"/></geometry></collision>
  <inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>
"""


def joint(name: str, kind: str, parent: str, child: str, extra: str = "") -> str:
    """Return a joint element. `extra` may contain its origin, axis, limit and mimic."""
    return f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>{extra}</joint>'


def chain_urdf(*joints: str, n_links: int | None = None, name: str = "test") -> str:
    """Return the URDF of a robot with links l0, l1, ... and these joints."""
    links = "".join(f'<link name="l{i}"/>' for i in range(len(joints) + 1 if n_links is None else n_links))
    return f'<robot name="{name}">{links}{"".join(joints)}</robot>'


LIMIT = '<limit lower="-2" upper="1.5" effort="1" velocity="1"/>'
SLIDE = '<limit lower="-0.3" upper="0.6" effort="1" velocity="1"/>'

ALL_TYPES = chain_urdf(
    joint("turn", "continuous", "l0", "l1", '<origin xyz="0.1 -0.2 0.3" rpy="0.4 0.5 -0.6"/><axis xyz="0 0 1"/>'),
    joint("slide", "prismatic", "l1", "l2", f'<origin rpy="1.2 0 0"/><axis xyz="1 2 -2"/>{SLIDE}'),
    joint("weld", "fixed", "l2", "l3", '<origin xyz="0.2 0.1 0" rpy="0 0.7 0.1"/>'),
    joint("hinge", "revolute", "l3", "l4", f'<origin xyz="0 0 0.4"/><axis xyz="0 -1 0"/>{LIMIT}'),
    joint("hinge2", "revolute", "l4", "l5", f'<origin xyz="0.3 0 0"/>{LIMIT}'),  # default axis: x
    joint("weld2", "fixed", "l5", "l6", '<origin xyz="0 0 0.2" rpy="0.1 0.2 0.3"/>'),
)

FOLLOWERS = chain_urdf(
    joint("lead", "revolute", "l0", "l1", f'<origin xyz="0 0 0.3"/><axis xyz="0 1 0"/>{LIMIT}'),
    joint(
        "shadow",
        "revolute",
        "l1",
        "l2",
        '<origin xyz="0 0.1 0.3"/><axis xyz="1 1 0"/><limit lower="-9" upper="9" effort="1" velocity="1"/>'
        '<mimic joint="lead" multiplier="-0.5" offset="0.3"/>',
    ),
    joint("wrist", "revolute", "l2", "l3", f'<origin xyz="0.2 0 0" rpy="0.3 0 0"/><axis xyz="0 0 1"/>{LIMIT}'),
    joint(
        "rail",
        "prismatic",
        "l3",
        "l4",
        '<origin xyz="0 0 0.1"/><axis xyz="0 0 1"/><limit lower="-9" upper="9" effort="1" velocity="1"/>'
        '<mimic joint="lead" multiplier="0.2" offset="-0.1"/>',
    ),
    joint("tool", "fixed", "l4", "l5", '<origin xyz="0.1 0 0"/>'),
)


def random_urdf(seed: int, n_joints: int) -> str:
    """Return a tree with side branches and missing meshes, whose links l0 ... ln form a chain of random joints."""
    rng = np.random.default_rng(seed)
    links = [f'<link name="l{i}">{FURNITURE}</link>' for i in range(n_joints + 1)]
    joints = []
    for i in range(n_joints):
        kind = str(rng.choice(["revolute", "revolute", "continuous", "prismatic", "fixed"])) if i else "revolute"
        xyz, rpy, axis = rng.normal(size=3) * 0.4, rng.uniform(-3, 3, 3), rng.normal(size=3)
        lower, upper = np.sort(rng.uniform(-2.5, 2.5, 2))
        extra = (
            f'<origin xyz="{_words(xyz)}" rpy="{_words(rpy)}"/><axis xyz="{_words(axis)}"/>'
            f'<limit lower="{lower}" upper="{upper}" effort="1" velocity="1"/>'
        )
        joints.append(joint(f"j{i}", kind, f"l{i}", f"l{i + 1}", extra))
        links.append(f'<link name="branch{i}"/>')
        joints.append(joint(f"branch_joint{i}", "revolute", f"l{i}", f"branch{i}", '<axis xyz="0 0 1"/>' + LIMIT))
    extras = '<transmission name="t"/><gazebo reference="l1"><material>Gazebo/Red</material></gazebo>'
    return f'<?xml version="1.0"?>\n<robot name="random{seed}">{"".join(links + joints)}{extras}</robot>'


def _words(values: np.ndarray) -> str:
    return " ".join(repr(float(value)) for value in values)


# name: (URDF, base, tip)
CASES: dict[str, tuple[str, str | None, str | None]] = {
    "all_types": (ALL_TYPES, None, None),
    "followers": (FOLLOWERS, None, None),
    "base_in_the_middle": (ALL_TYPES, "l2", "l5"),
    **{f"random{seed}": (random_urdf(seed, 3 + seed), "l0", f"l{3 + seed}") for seed in range(6)},
    "random_inner": (random_urdf(7, 12), "l2", "l11"),
}
