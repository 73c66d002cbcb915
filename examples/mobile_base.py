"""Follow a path longer than the arm's reach with a Panda on a mobile base, which is a chain of ten joints.

The joints of the base are part of the URDF: two prismatic joints and a continuous joint below the arm. `follow`
minimises the motion of all joints along the path. A simpler method selects, for each pose, the solution nearest to the
previous one. In this example, its cost is twice as high, and the base drives 3.0 m instead of 1.8 m.
"""

import numpy as np

from eim_ros import Robot, Sampler
from eim_ros.kinematics import pose_from

arm = Robot("panda")
SLIDE = '<limit lower="-3" upper="3" effort="1" velocity="1"/>'
BASE = f"""<link name="floor"/><link name="along_x"/><link name="along_y"/>
<joint name="base_x" type="prismatic"><parent link="floor"/><child link="along_x"/><axis xyz="1 0 0"/>{SLIDE}</joint>
<joint name="base_y" type="prismatic"><parent link="along_x"/><child link="along_y"/><axis xyz="0 1 0"/>{SLIDE}</joint>
<joint name="base_yaw" type="continuous"><parent link="along_y"/><child link="{arm.base_link}"/><axis xyz="0 0 1"/>
</joint></robot>"""
robot = Robot(arm.urdf.replace("</robot>", BASE), tip=arm.tip_link)
sampler = Sampler(robot)
wall = [[x, 0.2 * np.sin(3.0 * x), 0.6 + 0.1 * np.cos(5.0 * x)] for x in np.linspace(-1.5, 1.5, 121)]
poses = np.array([pose_from(point, [1.0, 0.0, 0.0, 0.0]) for point in wall])

print(robot.dof, "joints;", sampler.sample(poses[0], n=100, seed=0).message)
path = sampler.follow(poses, seed=0)
assert path, path.message
print("follow:", path.message)

rows = [path.q[0]]
for pose in poses[1:]:
    rows += list(sampler.solve(pose, near=rows[-1], seed=0).q)


def motion(q: np.ndarray) -> str:
    """Describe how far the base drives, and the cost: the sum of squared steps, where 1 m counts as 6 rad."""
    steps = np.diff(q, axis=0)
    cost = ((np.where(robot.prismatic, 6.0, 1.0) * steps) ** 2).sum()
    return f"the base drives {np.linalg.norm(steps[:, :2], axis=1).sum():.1f} m, cost {cost:.1f} rad^2"


print("planned:", motion(path.q))
print("pose by pose:", motion(np.array(rows)))
