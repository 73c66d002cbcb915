"""Treat joints without limits as circles: a Gen3 has four of them, and an angle of 3.1 is close to -3.1.

A solver that subtracts angles computes a distance of 6.2 rad between 3.1 and -3.1. In this package, `near`, distances
and paths use the shorter way around. The nearest solution and the angles of paths do not jump at pi, because a
controller cannot follow jumps.
"""

import numpy as np

from eim_ros import Robot, Sampler
from eim_ros.kinematics import pose_from

robot = Robot("gen3")
sampler = Sampler(robot)
print("continuous:", [name for name, turns in zip(robot.joint_names, robot.continuous, strict=True) if turns])

# The arm is at an angle of 3.1 rad. The nearest solution is beyond pi.
now = np.array([3.1, 0.6, 0.1, 1.2, -3.1, 1.0, 3.12])
pose = robot.fk(now + [0.1, 0.0, 0.05, 0.0, -0.1, 0.05, 0.1])
nearest = sampler.solve(pose, near=now, seed=0).q[0]
print(f"nearest: largest motion {np.abs(nearest - now).max():.2f} rad, largest angle {np.abs(nearest).max():.2f} rad")
plain = sampler.sample(pose, 1000, seed=0).q
by_subtraction = plain[np.linalg.norm(plain - now, axis=1).argmin()]
motion = (by_subtraction - now + np.pi) % (2.0 * np.pi) - np.pi
print(f"solution chosen by subtraction: largest motion {np.abs(motion).max():.2f} rad")

# On a circle around the base, the first joint makes more than a complete revolution.
angles = np.linspace(0.0, 2.5 * np.pi, 150)
circle = np.array([pose_from([0.5 * np.cos(a), 0.5 * np.sin(a), 0.4], rpy=(np.pi, 0.0, a)) for a in angles])
path = sampler.follow(circle, seed=0)
assert path, path.message
first = path.q[:, 0]
print(f"circle: the first joint turns by {np.ptp(first):.1f} rad, largest step {np.abs(np.diff(first)).max():.2f} rad")
