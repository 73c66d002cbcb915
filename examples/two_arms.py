"""Let a Panda and an iiwa hold a tray without collisions, first at a given pose of the tray and then at any pose.

If the pose of the tray is given, each arm has a separate set of solutions, and every pair is a solution for both arms.
If the tray may be anywhere, only the pose of one hand relative to the other is given. The chain from hand to hand has
14 joints, and `Robot(base=..., tip=...)` finds it in a URDF with both arms. Collisions between the arms then count as
self-collisions. benchmarks/results/two_arms.txt compares the result with brute force.
"""

import re

import numpy as np

from eim_ros import Constraints, Robot, Sampler
from eim_ros.kinematics import pose_from
from eim_ros.kinematics.collision import CollisionModel

DOWN = [1.0, 0.0, 0.0, 0.0]  # the hands point down
BASES = {"panda": "0 0.3 0", "iiwa14": "0 -0.3 0"}  # positions in the world [m]


def arm(name: str) -> str:
    """Return the links and joints of an arm on a mount in the world as a part of a URDF. Names have a prefix."""
    robot = Robot(name)
    text = re.sub(r'\b(name|link|joint)="', rf'\1="{name}_', robot.urdf)
    joint = f'<joint name="{name}_mount" type="fixed"><parent link="world"/><child link="{name}_{robot.base_link}"/>'
    return text[text.index(">") + 1 : text.rindex("</robot>")] + f'{joint}<origin xyz="{BASES[name]}"/></joint>'


urdf = '<robot name="pair"><link name="world"/>' + "".join(map(arm, BASES)) + "</robot>"
tips = {name: f"{name}_{Robot(name).tip_link}" for name in BASES}
pair = Robot(urdf, base=tips["panda"], tip=tips["iiwa14"])
scene = CollisionModel(pair).scene(True)

# The pose of the tray is given: pairs of solutions.
hands = {"panda": [0.5, 0.15, 0.4], "iiwa14": [0.5, -0.15, 0.4]}  # in the world [m]
found = {
    name: Sampler(Robot(urdf, base="world", tip=tips[name])).sample([*hands[name], *DOWN], 50, seed=0).q
    for name in BASES
}
pairs = np.array(
    [[*left[::-1], *right] for left in found["panda"] for right in found["iiwa14"]]
)  # joints from hand to hand
free = pairs[~scene.colliding(pairs)]
print(f"given tray: {len(free)} of {len(pairs)} pairs keep clear of each other and of themselves")

# Now only the pose of one hand relative to the other is given, so the pair can hold the tray anywhere.
relative = np.linalg.inv(pose_from(hands["panda"], DOWN)) @ pose_from(hands["iiwa14"], DOWN)
anywhere = Sampler(pair, constraints=Constraints(self_collision=True)).sample(relative, 100, seed=0)
trays = Robot(urdf, base="world", tip=tips["panda"]).fk(anywhere.q[:, 6::-1])[:, :3, 3]
print(f"any tray: {anywhere.message}, at heights from {trays[:, 2].min():.2f} to {trays[:, 2].max():.2f} m")
print(f"largest error {np.abs(pair.fk(anywhere.q) - relative).max():.0e}")
