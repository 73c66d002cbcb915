"""Arms with fewer than six joints."""

from __future__ import annotations

from kinematics.descriptions import chain_urdf, joint


def _arm(rows: tuple[tuple[str, str, float, float], ...]) -> str:
    joints = [
        joint(
            f"j{i}",
            "revolute",
            f"l{i}",
            f"l{i + 1}",
            f'<origin xyz="{xyz}"/><axis xyz="{axis}"/>'
            f'<limit lower="{lower}" upper="{upper}" effort="1" velocity="1"/>',
        )
        for i, (xyz, axis, lower, upper) in enumerate(rows)
    ]
    tip = joint("tip_joint", "fixed", f"l{len(rows)}", f"l{len(rows) + 1}", '<origin xyz="0.1 0 0"/>')
    return chain_urdf(*joints, tip)


FIVE_JOINTS = _arm(  # axes of an SO-100: a turning base, three parallel axes, and the roll of the gripper
    (
        ("0 0 0.05", "0 0 1", -2.0, 2.0),
        ("0.03 0 0.05", "0 1 0", -1.75, 1.75),
        ("0.03 0 0.11", "0 1 0", -1.7, 1.7),
        ("0.13 0 0", "0 1 0", -1.66, 1.66),
        ("0.06 0 0", "1 0 0", -2.8, 2.8),
    )
)
FOUR_JOINTS = _arm(
    (
        ("0 0 0.1", "0 0 1", -2.5, 2.5),
        ("0 0 0.05", "0 1 0", -1.6, 1.6),
        ("0 0 0.2", "0 1 0", -2.4, 2.4),
        ("0 0 0.2", "0 1 0", -1.8, 1.8),
    )
)
