"""A Cartesian path without jumps of the joints, and where there is none: waves along a wall, drawn by a Panda.

Solved pose by pose, nearest solution first, the arm runs into a corner of its joint space and has to jump.
`sample_path` follows all families of solutions before it chooses one.
"""

import numpy as np

from eim_ros.ik import Sampler, sample_path
from eim_ros.kinematics import pose_from

TOWARDS_THE_WALL = [0.0, np.sqrt(0.5), 0.0, np.sqrt(0.5)]  # the hand points along x
LARGEST_STEP = 0.3  # [rad]
sampler = Sampler.of("panda")


def waves(half_width: float, n_poses: int = 60) -> np.ndarray:
    """Poses (n_poses, 4, 4) of the hand."""
    along = np.linspace(-1.0, 1.0, n_poses)
    places = [[0.45, half_width * s, 0.4 + 0.1 * np.cos(3.0 * s)] for s in along]
    return np.array([pose_from(place, TOWARDS_THE_WALL) for place in places])


def pose_by_pose(poses: np.ndarray) -> np.ndarray:
    """Configurations (n_poses, 7), each the nearest to the one before."""
    q, path = None, []
    for pose in poses:
        q = sampler.sample(pose, n=1, random_seed=0, near=q)[0]
        path.append(q)
    return np.array(path)


wide = waves(0.5)
steps = np.abs(np.diff(pose_by_pose(wide), axis=0)).max(axis=1)
print(f"pose by pose: {(steps > LARGEST_STEP).sum()} jumps, the largest of {steps.max():.2f} rad")

path = sample_path(sampler, wide, random_seed=0, largest_step=LARGEST_STEP)
assert path.valid.all()
print("sample_path:", path.message)

print("in the middle of the wall:", sample_path(sampler, waves(0.2), random_seed=0, largest_step=LARGEST_STEP).message)
