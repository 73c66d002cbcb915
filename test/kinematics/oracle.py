"""Pinocchio's results for a chain of the original URDF, as the reference for the compiled kernels."""

from __future__ import annotations

import numpy as np
import pinocchio as pin

from eim_ros.kinematics import Robot

__all__ = ["Oracle"]


class Oracle:
    """Poses and Jacobians of `robot`, computed by pinocchio. Joints outside of the chain are in neutral position."""

    def __init__(self, urdf: str, robot: Robot) -> None:
        self.model = pin.buildModelFromXML(urdf, True)  # True: move mimic joints
        self.data = self.model.createData()
        self.base, self.tip = (
            self.model.getFrameId(link, pin.FrameType.BODY) for link in (robot.base_link, robot.tip_link)
        )
        self.joints = [self.model.joints[self.model.getJointId(name)] for name in robot.joint_names]

    def configuration(self, q: np.ndarray) -> np.ndarray:
        """Return the configuration in pinocchio's form, which describes a continuous joint by cosine and sine."""
        full = pin.neutral(self.model)
        for joint, value in zip(self.joints, q, strict=True):
            full[joint.idx_q : joint.idx_q + joint.nq] = [value] if joint.nq == 1 else [np.cos(value), np.sin(value)]
        return full

    def forward(self, q: np.ndarray) -> np.ndarray:
        """Return the pose (4, 4) of the tip in the base frame."""
        return self._pose(q, self.tip)

    def link_pose(self, q: np.ndarray, link: str) -> np.ndarray:
        """Return the pose (4, 4) of any link in the base frame."""
        return self._pose(q, self.model.getFrameId(link, pin.FrameType.BODY))

    def jacobian(self, q: np.ndarray) -> np.ndarray:
        """Return the Jacobian (6, dof) in the base frame; linear rows come first."""
        full = pin.computeFrameJacobian(self.model, self.data, self.configuration(q), self.tip, pin.LOCAL_WORLD_ALIGNED)
        pin.updateFramePlacements(self.model, self.data)
        to_base = self.data.oMf[self.base].rotation.T
        columns = full.reshape(6, -1)[:, [joint.idx_v for joint in self.joints]]
        return np.concatenate([to_base @ columns[:3], to_base @ columns[3:]])

    def errors(self, q: np.ndarray, pose: np.ndarray) -> tuple[float, float]:
        """Return the distance [m] and the angle [rad] between a pose and the pose that a configuration reaches."""
        reached = self.forward(q)
        angle = np.linalg.norm(pin.log3(reached[:3, :3].T @ pose[:3, :3]))
        return float(np.linalg.norm(reached[:3, 3] - pose[:3, 3])), float(angle)

    def _pose(self, q: np.ndarray, frame: int) -> np.ndarray:
        pin.framesForwardKinematics(self.model, self.data, self.configuration(q))
        return (self.data.oMf[self.base].inverse() * self.data.oMf[frame]).homogeneous
