"""Find where the base of a UR5e must stand on a table to reach all poses over the table without hitting it.

`place_base` counts the solutions of every pose from every candidate, so no seed decides what is reachable. It sorts the
bases by the number of poses reached, then by the worst pose, and refines the best bases. The command `eim place` does
the same. In a benchmark (benchmarks/results/base_placement.txt), bases refined from a grid of 0.2 m were better than
the best bases on a grid of 0.05 m, and took less than a fortieth of the CPU time.
"""

import numpy as np

from eim_ros import Box, Sampler
from eim_ros.ik import base_grid, place_base
from eim_ros.kinematics import pose_from

CORNERS = [(x, y, 0.15) for x in (0.0, 0.5, 1.0) for y in (0.0, 0.6)]  # positions of the hand [m]
poses = np.array([pose_from(corner, [1.0, 0.0, 0.0, 0.0]) for corner in CORNERS])  # the hand points down
table = Box((1.2, 0.8, 0.04), at=(0.5, 0.3, -0.03))

sampler = Sampler("ur5e")
candidates = base_grid((-0.6, 1.6), (-0.6, 1.2), 0.15)  # x, y [m]
found = place_base(sampler, poses, candidates, obstacles=[table])
x, y, z, yaw = found.bases[0]
complete = found.rows(np.flatnonzero(found.n_reached == len(poses)))
print(f"{len(complete)} of {len(found)} bases reach all {len(poses)} poses")
print(f"best: x {x:.2f} m, y {y:.2f} m; {found.n_components[0].min()} or more solutions of each pose")
worst = complete.worst()
print(f"manipulability of the worst pose: {worst[0]:.4f}, but {np.median(worst):.4f} from half of these bases or less")

reached = found.transforms[0] @ sampler.robot.fk(found.q[0])  # transform from the base to the world
print(f"forward kinematics: largest error {np.abs(reached - poses).max():.0e}")
