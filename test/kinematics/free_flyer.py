"""Robot that reaches any pose with three sliding and three revolute joints."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pinocchio as pin
from kinematics.descriptions import chain_urdf, joint

from eim_ros.kinematics import Robot

__all__ = ["difference"]

WIDE = '<limit lower="-9" upper="9" effort="1" velocity="1"/>'
AXES = ["1 0 0", "0 1 0", "0 0 1", "0 0 1", "0 1 0", "1 0 0"]
FREE_FLYER = Robot(
    chain_urdf(
        *(
            joint(f"j{i}", "prismatic" if i < 3 else "revolute", f"l{i}", f"l{i + 1}", f'<axis xyz="{axis}"/>{WIDE}')
            for i, axis in enumerate(AXES)
        )
    )
)


def difference(tip: np.ndarray, target: np.ndarray, tolerances: Sequence[float]) -> tuple[float, float]:
    """Return by how much a tip (4, 4) exceeds the tolerances of a target, in position [m] and orientation [rad]."""
    q = np.concatenate([tip[:3, 3], pin.rpy.matrixToRpy(tip[:3, :3])[::-1]])
    np.testing.assert_allclose(FREE_FLYER.fk(q), tip, rtol=0, atol=1e-13)
    position, orientation = FREE_FLYER.pose_errors(q, target, tolerances)
    return position[0], orientation[0]
