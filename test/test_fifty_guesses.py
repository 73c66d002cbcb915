"""Lines that users of MoveIt, pinocchio and roboticstoolbox would write before they read any documentation."""

from __future__ import annotations

import copy
import pickle
import xml.etree.ElementTree as ElementTree
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import eim_ros
from eim_ros import Box, Cylinder, Robot, Sampler, Sphere
from eim_ros.core.errors import EimError
from eim_ros.kinematics import share_path

GUESSES = [
    # loading
    "Robot('panda')",
    "Robot('ur5e').tip_link",
    "Robot('panda', tip_link='panda_link7')",
    "Robot.from_urdf('panda')",
    "Sampler.from_urdf('panda')",
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
    # a second fifty, by someone who had not seen the first
    "Robot.from_urdf(robot.urdf)",
    "Robot.from_urdf('panda', base_link='panda_link0', ee_link='panda_link8')",
    "Sampler('panda', ee_link='panda_link8')",
    "Sampler(robot.urdf)",
    "repr(sampler)",
    "robot.base_link",
    "robot.joint_limits",
    "robot.upper, robot.lower",
    "robot.inverse_kinematics(matrix)",
    "robot.with_tool([0, 0, 0.1])",
    "robot.with_tool(matrix)",
    "sampler.sample(matrix)",
    "sampler.sample(matrix.tolist(), 5)",
    "sampler.sample((0.4, 0.1, 0.5), 5)",
    "sampler.sample(([0.4, 0.1, 0.5], [1, 0, 0, 0]), 5)",
    "sampler.sample(pose, num_samples=5)",
    "sampler.sample(pose, n_samples=5, seed=0)",
    "sampler.sample(pose, n_solutions=5)",
    "sampler.sample(pose, 5).to_dict()",
    "sampler.sample(pose, 5).joint_names",
    "sampler.sample(pose, 5).q.shape",
    "len(sampler.sample(pose, 5))",
    "str(sampler.sample(pose))",
    "sampler.solve(pose).position_error",
    "bool(sampler.solve([3, 0, 0, 1, 0, 0, 0]))",
    "sampler.solve(pose, near=list(q))",
    "sampler.solve(pose, near=dict(zip(robot.joint_names, q)))",
    "sampler.solve(pose, q_init=q)",
    "sampler.solve(pose, initial_guess=q)",
    "sampler.solve(pose, x0=q)",
    "sampler.solve(pose, time_limit=0.5)",
    "sampler.solve_ik(pose)",
    "sampler.all_solutions(pose)",
    "sampler.cartesian_path([pose, pose])",
    "sampler.sample_batch([matrix, matrix], 5)",
    "sampler.sample_batch(np.stack([matrix, matrix]), 5)",
    "sampler.solve_batch([pose, pose])",
    "sampler.with_obstacles([Box((0.1, 0.1, 0.1), at=[0.5, 0, 0.2])]).sample(pose, 5)",
    "Box(size=[0.1, 0.1, 0.1], pose=matrix)",
    "copy.deepcopy(sampler).sample(pose, 3)",
    "pickle.loads(pickle.dumps(sampler)).sample(pose, 3)",
    "np.stack(list(sampler.sample(pose, 5)))",
    "max(sampler.sample(pose, 5), key=robot.manipulability)",
    "[robot.fk(q) for q in sampler.sample(pose, 5)]",
    "sampler.robot.fk(sampler.solve(pose)[0])",
    # a third list, by users of ten libraries
    "Robot('Panda')",
    "Robot('file://' + str(share_path('urdf/panda.urdf')))",
    "Robot(ElementTree.fromstring(robot.urdf))",
    "Sampler(urdf_string=robot.urdf)",
    "sampler.dof, sampler.joint_names, sampler.joint_limits, sampler.tip_link",
    "sampler.fkine(sampler.random_q())",
    "sampler.jacobian(q), sampler.jacob0(q), sampler.manipulability(q)",
    "sampler.sample(pose, 5).solutions",
    "sampler.solve(pose_stamped)",
    "sampler.follow([pose_stamped, pose_stamped])",
    "sampler.solve({'position': [0.4, 0.1, 0.5], 'orientation': {'x': 1, 'y': 0, 'z': 0, 'w': 0}})",
    "sampler.solve(position=[0.4, 0.1, 0.5], orientation=[1, 0, 0, 0])",
    "sampler.solve(position=[0.4, 0.1, 0.5])",
    "sampler.solve(xyz=[0.4, 0.1, 0.5], rpy=[180, 0, 0], degrees=True)",
    "sampler.solve(pos=[0.4, 0.1, 0.5], quat_wxyz=[0, 1, 0, 0])",
    "sampler.solve(translation=matrix[:3, 3], rotation=matrix[:3, :3])",
    "sampler.solve((matrix[:3, :3], matrix[:3, 3]))",
    "sampler.sample(pose, k=5)",
    "sampler.solve_many([pose, pose]).n_valid",
    "sampler.with_tool(xyz=[0, 0, 0.1], rpy=[0, 0, 0])",
    "Sphere([0.5, 0, 0.2], r=0.1)",
    "Box(dims=[0.1, 0.1, 0.1], position=[0.5, 0, 0.2])",
    "Cylinder(radius=0.1, height=0.5, position=[0.5, 0, 0.2])",
    "sampler.with_constraints(fixed_joints={'panda_joint7': 0.0}, avoid_collisions=True)",
]


REFUSED = {
    "robot.fk({'panda_joint4': -1.5})": r"joint_names",
    "robot.neutral": r"give joint values",
    "sampler.solve(pose, orientation=[1, 0, 0, 0])": r"\(position, quaternion\)",
    "sampler.solve(position=[0.4, 0.1, 0.5], orientation=[1, 0, 0, 0], rpy=[0, 0, 0])": r"one of orientation",
    "sampler.solve({'position': [0.4, 0.1, 0.5], 'orientatoin': [1, 0, 0, 0]})": r"one of orientation",
    "sampler.solve(camera_pose)": r"frame 'camera'.*base frame",
    "sampler.sample([pose, pose], 10)": r"sample_batch",
    "sampler.with_obstacles([Box([0.1, 0.1, 0.1], [0.5, 0.0, 0.2])]).solve(pose)": r"Box\(pose, size\)",
    "eim_ros.load_robot('panda')": r'Robot\("arm.urdf"\)',
    "eim_ros.IKSolver('panda')": r"Sampler\(.*solve\(pose\)",
    "robot.ik(matrix, q0=q)": r"near=q to Sampler",
    "robot.in_collision(q)": r"collisions\(robot, q, obstacles\)",
    "sampler.add_obstacle(matrix)": r"with_obstacles",
    "sampler.sample(pose[:3], pose[3:])": r"\(position, orientation\)",
    "sampler.sample(pose, 5).best": r"solutions\[0\]",
    "sampler.sample(pose[:3] + [3.14, 0, 0])": r"rpy=",
    "sampler.sample(pose, degrees=True)": r"radians",
    "sampler.solve(pose, near=np.degrees(q))": r"radians",
    "sampler.solve(pose, seed=q)": r"near=q",
    "Sampler('panda', tool=matrix)": r"with_tool",
    "Box([0.1, 0.1, 0.1])": r"Box\(size, at=position\)",
    "Sphere(0.1, [0.5, 0.0, 0.2])": r"comes first",
    "Robot('package://my_robot/arm.urdf')": r"'my_robot' \(AMENT_PREFIX_PATH",
    "Robot(object())": r"path of a URDF or its text, got a object",
    "eim_ros.compute_ik(pose)": r"Sampler\(robot\)\.solve\(pose\)",
    "sampler.calculateInverseKinematics(0, 5, pose[:3])": r"did you mean solve\?",
    "sampler.is_reachable(pose)": r"solve\(pose\) is true",
    "sampler.nearest(pose, q)": r"near=q",
    "sampler.solve(pose, limits={})": r"with_constraints\(limits={joint: \(lower, upper\)}\)",
    "sampler.solve(pose, elbow='up')": r"branch={\"elbow\": \"up\"}",
    "sampler.solve(pose, mask=[1, 1, 1, 0, 0, 0])": r"tolerances=",
    "Sampler('panda', collision=False)": r"self_collision=",
    "sampler.sample(pose, 5).to_numpy()": r"np\.asarray\(solutions\)",
    "sampler.save('sampler.bin')": r"pickle",
    "robot.getJointLimits()": r"did you mean limits\?",
    "robot.get_jacobian(q)": r"did you mean jacobian\?",
    "robot.forwardKinematics(q)": r"did you mean fk\?",
    "robot.fkine(q, degrees=True)": r"radians",
    "robot.fk(q, link='panda_link4')": r"Robot\(source, tip=",
    "sampler.solve(pose, link_name='panda_link7')": r"Sampler\(robot, tip=",
    "sampler.solve(pose, num_attempts=10)": r"timeout=",
    "sampler.solve(pose, return_all=True)": r"solve_all",
    "sampler.refine(q, pose)": r"has no attribute 'refine'",  # of a robot, which ignores constraints
    "sampler.set_limits({'panda_joint1': (0, 1)})": r"with_constraints\(limits=",
    "sampler.sample(pose, 5)['q']": r"rows are chosen by",
    "sampler.sample(pose, 5).is_valid": r"did you mean valid\?",
    "sampler.sample(pose, 5).pos_error": r"position_error",
    "sampler.sample(pose, 5).to_csv('solutions.csv')": r"to_dict",
    "Cylinder(radius=0.1, height=0.5)": r"at=position",
    "eim_ros.Chain": r"Robot\(\"arm.urdf\"\)",
    "eim_ros.place_base(sampler, [pose], [[0, 0, 0, 0]])": r"it is eim_ros\.ik\.place_base",
}  # guesses that cannot be meant, with the hint that they get


@pytest.fixture
def names() -> dict[str, Any]:
    robot = Robot("panda")
    message = SimpleNamespace(
        position=SimpleNamespace(x=0.4, y=0.1, z=0.5), orientation=SimpleNamespace(x=1.0, y=0.0, z=0.0, w=0.0)
    )
    pose = [0.4, 0.1, 0.5, 1.0, 0.0, 0.0, 0.0]
    q = np.array([0.0, 0.3, 0.0, -1.8, 0.0, 2.1, 0.8])
    return {
        "np": np,
        "copy": copy,
        "pickle": pickle,
        "eim_ros": eim_ros,
        "Rotation": Rotation,
        "Box": Box,
        "Cylinder": Cylinder,
        "Sphere": Sphere,
        "ElementTree": ElementTree,
        "share_path": share_path,
        "pose_stamped": SimpleNamespace(header=SimpleNamespace(frame_id="panda_link0"), pose=message),
        "camera_pose": SimpleNamespace(header=SimpleNamespace(frame_id="camera"), pose=message),
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


@pytest.mark.parametrize(
    "parts",
    [
        {"xyz": [0.4, 0.1, 0.5], "rpy": [170.0, 20.0, 30.0], "degrees": True},
        {"position": [0.4, 0.1, 0.5], "rpy": np.radians([170.0, 20.0, 30.0])},
        {"pos": [0.4, 0.1, 0.5], "quat": Rotation.from_euler("xyz", [170, 20, 30], degrees=True).as_quat()},
        {"translation": [0.4, 0.1, 0.5], "rotation": Rotation.from_euler("xyz", [170, 20, 30], degrees=True)},
        {
            "position": [0.4, 0.1, 0.5],
            "quaternion_wxyz": np.roll(Rotation.from_euler("xyz", [170, 20, 30], degrees=True).as_quat(), 1),
        },
    ],
)
def test_parts_of_a_pose_are_that_pose(parts: dict[str, Any]) -> None:
    rotation = Rotation.from_euler("xyz", [170, 20, 30], degrees=True).as_matrix()
    reached = Robot("ur5e").fk(Sampler("ur5e").solve(**parts)[0])
    np.testing.assert_allclose(reached[:3, :3], rotation, atol=1e-5)  # the tolerance of a solution is 1e-6 rad
    np.testing.assert_allclose(reached[:3, 3], [0.4, 0.1, 0.5], atol=1e-5)


def test_a_position_in_millimetres_gets_a_hint() -> None:
    assert Sampler("panda").solve([400, 100, 500, 1, 0, 0, 0]).message.endswith("positions are in metres")
