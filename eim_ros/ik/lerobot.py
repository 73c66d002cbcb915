"""Kinematics for the processors of LeRobot, such as `InverseKinematicsEEToJoints` of SO-100 and SO-101.

`LeRobotKinematics` has the methods of `lerobot.model.RobotKinematics` and replaces it without the library placo. Each
call minimises the pose error within the joint limits until it converges, whereas LeRobot's class takes a single step.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from eim_ros.core.arrays import FloatArray
from eim_ros.core.errors import ConfigurationError
from eim_ros.ik.sampler import Sampler
from eim_ros.kinematics import Robot


class LeRobotKinematics:
    """Forward kinematics and nearest configuration of an arm, in degrees like the motors of LeRobot.

    Parameters
    ----------
    robot : Robot, str or Path
        Robot, or a URDF file. Its chain ends at the gripper and has revolute joints.
    joint_names : sequence of str, optional
        Joints in the order of the motors. The default is the robot's order.
    timeout : float
        Longest time of a call [s].

    Examples
    --------
    >>> import numpy as np
    >>> from eim_ros.ik.lerobot import LeRobotKinematics
    >>> kinematics = LeRobotKinematics("panda")
    >>> q = np.array([0.0, -30.0, 0.0, -120.0, 0.0, 90.0, 45.0])
    >>> pose = kinematics.forward_kinematics(q)
    >>> pose[:3, 3] += [0.02, 0.0, 0.0]
    >>> moved = kinematics.inverse_kinematics(q, pose)
    >>> float(np.abs(kinematics.forward_kinematics(moved) - pose).max()) < 1e-6
    True

    In a pipeline of LeRobot:

        InverseKinematicsEEToJoints(kinematics=LeRobotKinematics("so101.urdf"), motor_names=[...])
    """

    def __init__(
        self, robot: Robot | str | Path, joint_names: Sequence[str] | None = None, *, timeout: float = 1.0
    ) -> None:
        self.robot = robot if isinstance(robot, Robot) else Robot(robot)
        self.joint_names = list(self.robot.joint_names if joint_names is None else joint_names)
        if sorted(self.joint_names) != sorted(self.robot.joint_names):
            raise ConfigurationError(
                f"joint_names must contain the robot's joints, {', '.join(self.robot.joint_names)}, in any order; "
                f"got {', '.join(self.joint_names)}",
                self.joint_names,
            )
        self._order = [self.joint_names.index(name) for name in self.robot.joint_names]
        self._sampler, self._timeout = Sampler(self.robot), timeout

    def forward_kinematics(self, joint_pos_deg: npt.ArrayLike) -> FloatArray:
        """Return the pose (4, 4) of the tip for joint positions [deg]; ignore further values, such as a gripper's."""
        return np.asarray(self.robot.fk(self._configuration(joint_pos_deg)))

    def inverse_kinematics(
        self,
        current_joint_pos: npt.ArrayLike,
        desired_ee_pose: npt.ArrayLike,
        position_weight: float = 1.0,
        orientation_weight: float = 0.01,
    ) -> FloatArray:
        """Return joint positions (n,) [deg] whose pose is as near to the desired pose as possible.

        The error is minimised from the current positions, so the result may be a local minimum. The minimisation ends
        early if time runs out.

        Parameters
        ----------
        current_joint_pos : (n,)
            Current joint positions [deg]. Further values, such as a gripper's, are returned unchanged.
        desired_ee_pose : (4, 4)
        position_weight, orientation_weight : float
            Weights of the errors [1/m, 1/rad]. By default, an arm with five joints reaches the position at the expense
            of the orientation.
        """
        current = np.array(current_joint_pos, dtype=np.float64)
        weights = position_weight, orientation_weight
        nearest = self._sampler.solve_nearest_pose(
            desired_ee_pose, weights, start=self._configuration(current), seed=0, timeout=self._timeout
        )
        if nearest:
            current[self._order] = np.rad2deg(nearest.q)
        return current

    def _configuration(self, joint_pos_deg: npt.ArrayLike) -> FloatArray:
        values = np.asarray(joint_pos_deg, dtype=np.float64)
        if values.ndim != 1 or len(values) < self.robot.dof:
            raise ConfigurationError(
                f"expected at least {self.robot.dof} joint positions, got shape {values.shape}", values
            )
        return np.asarray(np.deg2rad(values[self._order]))
