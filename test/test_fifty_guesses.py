"""Fifty lines that users of MoveIt, pinocchio and roboticstoolbox would write before they read any documentation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from eim_ros import Box, Robot, Sampler, Sphere
from eim_ros.core.errors import EimError

GUESSES = [
    # loading
    "Robot('panda')",
    "Robot('ur5e').tip_link",
    "Robot('panda', tip_link='panda_link7')",
    "Robot.from_urdf('panda')",
    "Sampler(Robot('panda'))",
    "Sampler('panda', tip='panda_link7')",
    "robot.n",
    "robot.nq",
    "robot.dof",
    "robot.joint_names",
    "robot.lower_limits",
    "robot.limits",
    "robot.qlim",
    # forward kinematics
    "robot.fk(q)",
    "robot.fkine(q)",
    "robot.forward_kinematics(q)",
    "robot.fk(list(q))",
    "robot.jacobian(q)",
    "robot.jacob0(q)",
    "robot.random()",
    "robot.random_configuration()",
    "robot.manipulability(q)",
    # one solution
    "sampler.solve(pose)",
    "sampler.solve(matrix)",
    "sampler.solve([0.4, 0.1, 0.5])",
    "sampler.solve(([0.4, 0.1, 0.5], Rotation.from_euler('x', 180, degrees=True)))",
    "sampler.solve(pose, q0=q)",
    "sampler.solve(pose, seed_state=q)",
    "sampler.solve(pose, near=q)",
    "sampler.ik(pose)",
    "robot.ik(pose)",
    "robot.ikine_LM(matrix)",
    "sampler.solve(pose).q",
    "sampler.solve(pose)[0]",
    # many solutions
    "sampler.solve_all(pose)",
    "sampler.sample(pose, n=50)",
    "sampler.sample(pose, 50, seed=1)",
    "sampler.solve_all(pose).to_dict()",
    "list(sampler.solve_all(pose))",
    "np.asarray(sampler.solve_all(pose))",
    "sampler.with_constraints(limits={'panda_joint1': (-1, 1)}).solve(pose)",
    "sampler.with_constraints(fixed={'panda_joint1': 0.0}).sample(pose, 5)",
    "sampler.with_obstacles(Sphere(center=[0.5, 0.0, 0.2], radius=0.1)).solve(pose)",
    "sampler.with_tool([0, 0, 0.1]).solve(pose)",
    "sampler.follow([pose, pose])",
]


REFUSED = {
    "robot.fk({'panda_joint4': -1.5})": r"joint_names",
    "robot.neutral": r"give joint values",
    "sampler.solve(position=[0.4, 0.1, 0.5], orientation=[1, 0, 0, 0])": r"\(position, quaternion\)",
    "sampler.sample([pose, pose], 10)": r"sample_batch",
    "sampler.with_obstacles([Box([0.1, 0.1, 0.1], [0.5, 0.0, 0.2])]).solve(pose)": r"Box\(pose, size\)",
}  # guesses that cannot be meant, with the hint that they get


@pytest.fixture
def names() -> dict[str, Any]:
    robot = Robot("panda")
    pose = [0.4, 0.1, 0.5, 1.0, 0.0, 0.0, 0.0]
    q = np.array([0.0, 0.3, 0.0, -1.8, 0.0, 2.1, 0.8])
    return {
        "np": np,
        "Rotation": Rotation,
        "Box": Box,
        "Sphere": Sphere,
        "Robot": Robot,
        "Sampler": Sampler,
        "robot": robot,
        "sampler": Sampler(robot),
        "pose": pose,
        "q": q,
        "matrix": robot.fk(q),
    }


@pytest.mark.parametrize("guess", GUESSES)
def test_a_first_guess_runs(guess: str, names: dict[str, Any]) -> None:
    eval(guess, names)


@pytest.mark.parametrize("guess", REFUSED)
def test_other_guesses_get_a_hint(guess: str, names: dict[str, Any]) -> None:
    with pytest.raises((AttributeError, EimError), match=REFUSED[guess]):
        eval(guess, names)
