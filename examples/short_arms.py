"""Solve arms with four and five joints, such as LeRobot's SO-100 and SO-101: free rotations and near poses.

An arm with fewer than six joints reaches few complete poses. Tasks that leave a rotation free have solutions, and
closed forms find all of them. If a pose is out of reach, the answer is empty, and `solve_nearest_pose` returns the best
compromise. The arm in this script has the joints of an SO-101. If you have the URDF, use `Robot("so101.urdf")`.
"""

import numpy as np

from eim_ros import Robot, Sampler

JOINTS = {  # axis, and position in the frame of the previous joint [m]
    "shoulder_pan": ("0 0 1", "0 0 0.06"),
    "shoulder_lift": ("0 1 0", "0.03 0 0.05"),
    "elbow_flex": ("0 1 0", "0.03 0 0.11"),
    "wrist_flex": ("0 1 0", "0.13 0 0"),
    "wrist_roll": ("1 0 0", "0.06 0 0"),
    "gripper": ("1 0 0", "0.1 0 0"),  # fixed
}


def urdf() -> str:
    """Return the URDF of the arm."""
    text, parent = '<robot name="so101"><link name="base"/>', "base"
    for name, (axis, xyz) in JOINTS.items():
        kind = "fixed" if name == "gripper" else "revolute"
        text += f'<link name="{name}_link"/><joint name="{name}" type="{kind}"><parent link="{parent}"/>'
        text += f'<child link="{name}_link"/><origin xyz="{xyz}"/><axis xyz="{axis}"/>'
        text += '<limit lower="-1.9" upper="1.9" effort="1" velocity="5"/></joint>'
        parent = f"{name}_link"
    return text + "</robot>"


robot = Robot(urdf())
sampler = Sampler(robot)
# the hand may turn about the vertical axis
turned = sampler.with_constraints(tolerances=[0.0, 0.0, 0.0, 0.0, 0.0, np.inf])
stiff = turned.with_constraints(fixed={"wrist_roll": 0.0})  # four joints
poses = {
    "from above": [0.20, 0.05, 0.05, 0.0, np.sqrt(0.5), 0.0, np.sqrt(0.5)],  # x, y, z [m], quaternion x, y, z, w
    "from the front": [0.30, 0.05, 0.12, 0.0, 0.0, 0.0, 1.0],  # the gripper points along x
}
for name, pose in poses.items():
    print(f"{name}:")
    for task, each in (("complete pose", sampler), ("free turn", turned), ("free turn, four joints", stiff)):
        found = each.solve_all(pose, seed=0)
        print(f"  {task}: {len(found)} solutions, complete: {found.is_complete}")
    nearest = sampler.solve_nearest_pose(pose, seed=0)
    print(f"  nearest pose: {nearest.position_error:.4f} m and {nearest.orientation_error:.2f} rad away")
