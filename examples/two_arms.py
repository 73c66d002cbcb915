"""Find pairs of configurations in which a Panda and an iiwa hold one tray and keep clear of each other.

Each arm's solutions come from its own sampler in its own base frame. A pair is checked with capsules around the links
of one arm as obstacles for the other.
"""

import numpy as np

from eim_ros import Capsule, Constraints, Sampler
from eim_ros.kinematics import pose_from
from eim_ros.kinematics.collision import CollisionModel

RADIUS = 0.07  # radius of the capsules around the Panda's links [m]
BASES = {"panda": pose_from([0.0, 0.3, 0.0]), "iiwa14": pose_from([0.0, -0.3, 0.0])}  # poses in the world
TRAY = np.array([0.5, 0.0, 0.4])  # centre in the world [m]
GRIPS = {"panda": TRAY + [0.0, 0.15, 0.0], "iiwa14": TRAY - [0.0, 0.15, 0.0]}
DOWNWARD = [1.0, 0.0, 0.0, 0.0]


def capsules(points: np.ndarray) -> list[Capsule]:
    """Return capsules around the lines between consecutive points (n, 3)."""
    made = []
    for begin, end in zip(points[:-1], points[1:], strict=True):
        length = float(np.linalg.norm(end - begin))
        if length > 1e-3:
            along = (end - begin) / length
            _, _, axes = np.linalg.svd(along[None])  # rows: the line's direction and two directions across it
            pose = np.eye(4)
            pose[:3, :3] = np.column_stack([axes[1], np.cross(along, axes[1]), along])
            pose[:3, 3] = 0.5 * (begin + end)
            made.append(Capsule(pose, RADIUS, length))
    return made


samplers = {name: Sampler(name, constraints=Constraints(self_collision=True)) for name in BASES}
found = {}
for name, sampler in samplers.items():
    grip = np.linalg.solve(BASES[name], pose_from(GRIPS[name], DOWNWARD))  # in the arm's base frame
    found[name] = sampler.sample(grip, n=100, seed=0).q

panda, iiwa = samplers["panda"].robot, samplers["iiwa14"].robot
to_iiwa = np.linalg.solve(BASES["iiwa14"], BASES["panda"])
model = CollisionModel(iiwa)
pairs = []
for q in found["panda"]:
    points = panda.skeleton(q) @ to_iiwa[:3, :3].T + to_iiwa[:3, 3]
    among = model.scene(False, capsules(points), 0.02)
    pairs += [(q, other) for other in found["iiwa14"][~among.colliding(found["iiwa14"])]]

n_all = len(found["panda"]) * len(found["iiwa14"])
print(f"{len(pairs)} of {n_all} pairs keep clear of each other")
middle = [(robot.lower + robot.upper) / 2.0 for robot in (panda, iiwa)]
costs = [sum(np.linalg.norm(q - at) for q, at in zip(pair, middle, strict=True)) for pair in pairs]
for name, q in zip(BASES, pairs[int(np.argmin(costs))], strict=True):
    print(name, q.round(3).tolist())
