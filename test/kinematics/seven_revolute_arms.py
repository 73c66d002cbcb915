"""Arms of seven revolute joints without special geometry."""

from __future__ import annotations

import numpy as np
from kinematics.descriptions import chain_urdf, joint


def random_seven(seed: int, limit: float = 2.9) -> str:
    """Return the URDF of an arm with random axes and origins, and the same limits [rad] for all joints."""
    rng = np.random.default_rng(seed)
    limits = f'<limit lower="{-limit}" upper="{limit}" effort="1" velocity="1"/>'
    joints = []
    for i in range(7):
        axis, xyz, rpy = (" ".join(map(str, x)) for x in (rng.normal(size=3), *rng.uniform(-0.3, 0.3, (2, 3))))
        joints.append(
            joint(
                f"j{i}",
                "revolute",
                f"l{i}",
                f"l{i + 1}",
                f'<origin xyz="{xyz}" rpy="{rpy}"/><axis xyz="{axis}"/>{limits}',
            )
        )
    return chain_urdf(*joints)
