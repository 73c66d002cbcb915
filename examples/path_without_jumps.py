"""Find a Cartesian path without joint jumps, or detect that there is none: waves over a table and along a wall.

A common method selects, for each pose, the solution nearest to the previous one. Depending on the start, the arm may
then have to jump at a later pose. `Sampler.follow` tracks all self-motion components before it selects a path.
"""

import numpy as np

from eim_ros import Sampler
from eim_ros.kinematics import pose_from

DOWNWARD, FORWARD = [1.0, 0.0, 0.0, 0.0], [0.0, np.sqrt(0.5), 0.0, np.sqrt(0.5)]  # the hand points along -z, x
LARGEST_STEP = 0.3  # [rad]
sampler = Sampler("panda")


def waves(half_width: float, x: float, quaternion: list[float], n_poses: int = 60) -> np.ndarray:
    """Return poses (n_poses, 4, 4) of the hand."""
    along = np.linspace(-1.0, 1.0, n_poses)
    points = [[x, half_width * s, 0.4 + 0.1 * np.cos(3.0 * s)] for s in along]
    return np.array([pose_from(point, quaternion) for point in points])


def largest_step_pose_by_pose(q: np.ndarray, poses: np.ndarray) -> float:
    """Return the largest joint step [rad] on the path from q if each solution is the nearest to the previous one."""
    largest = 0.0
    for pose in poses:
        nearest = sampler.solve(pose, near=q, seed=0)[0]
        largest, q = max(largest, float(np.abs(nearest - q).max())), nearest
    return largest


table = waves(0.5, 0.55, DOWNWARD)
starts = sampler.sample(table[0], n=20, seed=0)
steps = [largest_step_pose_by_pose(q, table[1:]) for q in starts]
n_jumping = sum(step > LARGEST_STEP for step in steps)
print(f"pose by pose: from {n_jumping} of {len(starts)} starts the arm jumps, by up to {max(steps):.2f} rad")

path = sampler.follow(table, seed=0, max_step=LARGEST_STEP)
assert path  # every pose is reached, and no joint jumps
print("follow:", path.message)

wall = waves(0.2, 0.45, FORWARD)
print("along the wall:", sampler.follow(wall, seed=0, max_step=LARGEST_STEP).message)
