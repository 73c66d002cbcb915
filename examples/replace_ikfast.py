"""Replace IKFast: find all solutions of an arm with six joints, without generating code for each arm.

`get_ik` has the interface of IKFast's Python bindings. It takes a position and a rotation, and returns a list of joint
vectors. An answer of `Sampler` also states whether the set is complete. The same call solves a calibrated UR5e. Its
axes are neither parallel nor intersecting, so its solutions are computed by elimination.
"""

import re
import time

import numpy as np

from eim_ros import Robot, Sampler


def get_ik(sampler: Sampler, translation: np.ndarray, rotation: np.ndarray) -> list[list[float]]:
    """Return all solutions, like the function of the same name in IKFast."""
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = rotation, translation
    return sampler.solve_all(pose).q.tolist()


def calibrated(robot: Robot, rng: np.random.Generator) -> Robot:
    """Return a robot whose joints differ from the drawing by up to 0.5 mm and 0.5 mrad, as in any real arm."""

    def changed(match: re.Match[str]) -> str:
        values = np.array(match[2].split(), dtype=float) + rng.uniform(-5e-4, 5e-4, 3)
        return f'{match[1]}="{values[0]!s} {values[1]!s} {values[2]!s}"'

    joints = robot.urdf.index("<joint")
    text = robot.urdf[:joints] + re.sub(r'(rpy|(?<=<origin )xyz)="([^"]*)"', changed, robot.urdf[joints:])
    return Robot(text, tip=robot.tip_link)


rng = np.random.default_rng(0)
drawn = Robot("ur5e")
for name, robot in (("UR5e", drawn), ("calibrated UR5e", calibrated(drawn, rng))):
    sampler = Sampler(robot)
    poses = robot.fk(robot.random(1000, rng))
    began = time.process_time()
    counts = [len(get_ik(sampler, pose[:3, 3], pose[:3, :3])) for pose in poses]
    spent = 1e3 * (time.process_time() - began)
    print(f"{name}: {np.mean(counts):.2f} solutions of a pose, none for {counts.count(0)} of {len(poses)} poses")
    answers = [sampler.solve_all(pose) for pose in poses[:200]]
    off = max(np.abs(robot.fk(each.q) - pose).max() for each, pose in zip(answers, poses, strict=False))
    share = np.mean([each.is_complete for each in answers])
    print(f"  complete: {share:.0%}, largest error {off:.0e}, {spent:.0f} us of CPU time per pose")
