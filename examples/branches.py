"""Select solutions by branch: shoulder left or right, elbow up or down, wrist flip or no-flip.

A UR5e reaches a pose in eight ways with different labels. `Constraints(branch=...)` keeps only solutions of a branch.
If the answer is complete, no solution of the branch is missing. With seven joints, the elbow turns about the line from
shoulder to wrist, and "up" is the upper half of its circle. Paths also stay in a branch. The script prints:

    UR5e: 8 solutions
      left      up        no-flip   first joint at -0.08 rad
      left      down      no-flip   first joint at -0.08 rad
      ...
    elbow up and no flip: 2 solutions, complete: True
    iiwa 14: elbow up in 90 % of 168 solutions, and in 100 % of 152 solutions of the branch
    any path: elbow uuuuuuuuuuddddddddddd
    path of the branch: elbow uuuuuuuuuuuuuuuuuuuuu
    the branch 'elbow' is not defined for robot 'panda', because its first three axes, or ...
"""

import numpy as np

from eim_ros import EimError, Sampler

sampler = Sampler("ur5e")
pose = [0.4, 0.1, 0.3, 1.0, 0.0, 0.0, 0.0]  # [m], and a quaternion x, y, z, w
solutions = sampler.solve_all(pose)
print(f"UR5e: {len(solutions)} solutions")
for *labels, q in zip(*solutions.branches.values(), solutions.q, strict=True):
    print("  " + "".join(f"{label:10}" for label in labels) + f"first joint at {q[0]:.2f} rad")

some = sampler.with_constraints(branch={"elbow": "up", "wrist": "no-flip"}).solve_all(pose)
print(f"elbow up and no flip: {len(some)} solutions, complete: {some.is_complete}")

sampler = Sampler("iiwa14")
upper = sampler.with_constraints(branch={"elbow": "up"})
line = [[0.4, y, 0.5, 1.0, 0.0, 0.0, 0.0] for y in np.linspace(-0.2, 0.2, 21)]
answers = [each.solve_all(line[0], seed=0) for each in (sampler, upper)]
shares = [f"{100.0 * np.mean(each.branches['elbow'] == 'up'):.0f} % of {len(each)} solutions" for each in answers]
print(f"iiwa 14: elbow up in {shares[0]}, and in {shares[1]} of the branch")

for name, each in (("any path", sampler), ("path of the branch", upper)):
    labels = sampler.robot.branches.labels(each.follow(line, seed=0).q)["elbow"]
    print(f"{name}: elbow {''.join(label[0] for label in labels)}")

try:
    Sampler("panda").with_constraints(branch={"elbow": "up"})
except EimError as error:
    print(error)
