"""Carry an object without collisions: a Panda holds a rod, which must hit neither the shelf nor the arm.

The object in the hand becomes a link of the URDF that is fixed to the flange, so all checks include it. The first line
of the output shows that many solutions without this link are free of collisions only for the empty hand.
"""

import numpy as np

from eim_ros import Box, Robot, Sampler
from eim_ros.kinematics.collision import CollisionModel

ROD = """<link name="rod"><collision><origin xyz="0 0 0.12" rpy="1.5708 0 0"/>
<geometry><cylinder radius="0.02" length="0.5"/></geometry></collision></link>
<joint name="grip" type="fixed"><parent link="panda_link8"/><child link="rod"/></joint></robot>"""

empty = Robot("panda")
loaded = Robot(empty.urdf.replace("</robot>", ROD), tip=empty.tip_link)
shelf = [
    Box((0.5, 0.9, 0.02), at=(0.65, 0.0, 0.25), name="lower board"),
    Box((0.5, 0.9, 0.02), at=(0.65, 0.0, 0.75), name="upper board"),
    Box((0.5, 0.02, 0.5), at=(0.65, 0.45, 0.5), name="side"),
]
forward = [0.0, np.sqrt(0.5), 0.0, np.sqrt(0.5)]  # the hand points along x
poses = np.array([[0.45, y, 0.5, *forward] for y in np.linspace(-0.3, 0.3, 7)])

scene = CollisionModel(loaded).scene(True, shelf)
for name, robot in (("empty hand", empty), ("with the rod", loaded)):
    sampler = Sampler(robot).with_constraints(obstacles=shelf, self_collision=True)
    answers = sampler.sample_batch(poses, 50, seed=0, timeout=30.0)
    share = np.mean(scene.colliding(answers.q))
    print(
        f"{name}: {np.count_nonzero(answers.n_valid)} of {len(poses)} poses; the rod hits in {share:.0%} of solutions"
    )

# Motions between poses are also checked with the rod.
into = [[x, 0.0, 0.5, *forward] for x in np.linspace(0.3, 0.5, 21)]
path = sampler.follow(into, seed=0, timeout=30.0)
print("into the shelf:", path.message)
