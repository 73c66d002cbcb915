"""Find reachable grasps among obstacles: a glass on a table between walls can be grasped from any side.

All configurations are free of collisions. A planner can use these configurations as its goal set (see `goal_set.py`).
"""

import numpy as np

from eim_ros import Box, Robot, Sampler
from eim_ros.kinematics import pose_from
from eim_ros.kinematics.collision import collisions

GLASS = np.array([0.5, 0.1, 0.15])  # point at which the fingers close [m]
table = Box(pose_from([0.6, 0.0, -0.03]), [0.8, 1.2, 0.06], name="table")
walls = [Box(pose_from([0.55, y, 0.2]), [0.3, 0.04, 0.4], name=name) for name, y in (("left", 0.3), ("right", -0.1))]
obstacles = [table, *walls]


def grasps(n_angles: int) -> np.ndarray:
    """Return poses (2 n, 4, 4): from the side at all angles about the glass, and from above at all hand angles."""
    poses = []
    for angle in np.linspace(0.0, 2.0 * np.pi, n_angles, endpoint=False):
        outward = np.array([np.cos(angle), np.sin(angle), 0.0])
        for approach, across in ((outward, [0.0, 0.0, 1.0]), (np.array([0.0, 0.0, -1.0]), outward)):
            pose = np.eye(4)
            pose[:3, :3] = np.column_stack([across, np.cross(approach, across), approach])
            pose[:3, 3] = GLASS - 0.1 * approach  # the fingers are 0.1 m ahead of the flange
            poses.append(pose)
    return np.array(poses)


robot = Robot("panda")
sampler = Sampler(robot).with_constraints(obstacles=obstacles, self_collision=True, clearance=0.01)
found = sampler.sample_batch(grasps(16), n=20, timeout=20.0, seed=0)
reached = [samples for samples in found.by_pose() if samples]
print(f"{len(reached)} of {found.n_poses} grasps can be reached, by {sum(map(len, reached))} configurations")

# The best configuration is the one farthest from its joint limits.
every = np.concatenate([samples.q for samples in reached])
room = np.minimum(every - robot.lower, robot.upper - every).min(axis=1)
best = every[np.argmax(room)]
assert collisions(robot, best, obstacles) == []
print("the one farthest from its limits:", best.round(3), f"with {room.max():.2f} rad to spare")
