"""Lines that users of MoveIt, pinocchio and roboticstoolbox may write before they read any documentation.

Each line runs, or its error names the mistake. No name of another library silently has a different meaning here.
"""

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
from eim_ros.kinematics import pose_from, share_path

POSE = [0.4, 0.1, 0.5, 1.0, 0.0, 0.0, 0.0]  # x, y, z [m], quaternion x, y, z, w
ENOUGH = 60.0  # timeout that is long enough for a slow machine [s]
SOME_JOINTS = {"panda_joint1": 0.0, "panda_joint4": -1.5}
BOXES = [Box(pose_from((0.5, 0, 0.2)), (0.2, 0.2, 0.4))]

GUESSES = [
    # loading
    "Robot('panda')",
    "Robot('ur5e').tip_link",
    "Robot.from_urdf('panda')",
    "Sampler(Robot('panda'))",
    "Sampler('panda', tip='panda_link7')",
    "robot.dof",
    "robot.joint_names",
    "robot.limits",
    # forward kinematics
    "robot.fk(q)",
    "robot.fk(list(q))",
    "robot.jacobian(q)",
    "robot.random()",
    "robot.manipulability(q)",
    # one solution
    "sampler.solve(pose)",
    "sampler.solve(matrix)",
    "sampler.solve([0.4, 0.1, 0.5])",
    "sampler.solve(([0.4, 0.1, 0.5], Rotation.from_euler('x', 180, degrees=True)))",
    "sampler.solve(pose, near=q)",
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
    "sampler.with_tool([0, 0, 0.1]).solve(pose)",
    "sampler.follow([pose, pose])",
    # fifty guesses by a person who did not know the first fifty
    "Robot.from_urdf(robot.urdf)",
    "Sampler(robot.urdf)",
    "repr(sampler)",
    "robot.base_link",
    "robot.upper, robot.lower",
    "robot.with_tool([0, 0, 0.1])",
    "robot.with_tool(matrix)",
    "sampler.sample(matrix)",
    "sampler.sample(matrix.tolist(), 5)",
    "sampler.sample((0.4, 0.1, 0.5), 5)",
    "sampler.sample(([0.4, 0.1, 0.5], [1, 0, 0, 0]), 5)",
    "sampler.sample(pose, 5).to_dict()",
    "sampler.sample(pose, 5).joint_names",
    "sampler.sample(pose, 5).q.shape",
    "len(sampler.sample(pose, 5))",
    "str(sampler.sample(pose))",
    "sampler.solve(pose).position_error",
    "bool(sampler.solve([3, 0, 0, 1, 0, 0, 0]))",
    "sampler.solve(pose, near=list(q))",
    "sampler.solve(pose, near=dict(zip(robot.joint_names, q)))",
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
    # guesses by users of ten libraries
    "Robot('Panda')",
    "Robot('file://' + str(share_path('urdf/panda.urdf')))",
    "Robot(ElementTree.fromstring(robot.urdf))",
    "sampler.solve(pose_stamped)",
    "sampler.follow([pose_stamped, pose_stamped])",
    "sampler.solve({'position': [0.4, 0.1, 0.5], 'orientation': {'x': 1, 'y': 0, 'z': 0, 'w': 0}})",
    "sampler.solve((matrix[:3, :3], matrix[:3, 3]))",
]


REFUSED = {
    "robot.fk({'panda_joint4': -1.5})": r"joint_names",
    "sampler.solve({'position': [0.4, 0.1, 0.5], 'orientatoin': [1, 0, 0, 0]})": r"one of orientation",
    "sampler.solve(camera_pose)": r"frame 'camera'.*base frame",
    "sampler.sample([pose, pose], 10)": r"sample_batch",
    "sampler.with_obstacles([Box([0.1, 0.1, 0.1], [0.5, 0.0, 0.2])]).solve(pose)": r"Box\(pose, size\)",
    "sampler.sample(pose[:3], pose[3:])": r"\(position, orientation\)",
    "sampler.sample(pose[:3] + [3.14, 0, 0])": r"rpy=",
    "sampler.solve(pose, near=np.degrees(q))": r"radians",
    "sampler.solve(pose, seed=q)": r"near=q",
    "Box([0.1, 0.1, 0.1])": r"Box\(size, at=position\)",
    "Sphere(0.1, [0.5, 0.0, 0.2])": r"a position as its first argument",
    "Robot('package://my_robot/arm.urdf')": r"'my_robot' .*AMENT_PREFIX_PATH",
    "Robot(object())": r"path or text of a URDF, got an object of type object",
    "sampler.save('sampler.bin')": r"pickle",
    "sampler.refine(q, pose)": r"has no attribute 'refine'",  # refine() needs a robot
    "sampler.sample(pose, 5)['q']": r"rows must be selected by",
    "Cylinder(radius=0.1, height=0.5)": r"at=position",
    "Sphere(center=[0.5, 0.0, 0.2], radius=0.1)": r"Sphere\(size, at=position\)",
    "Box(dims=[0.1, 0.1, 0.1], position=[0.5, 0, 0.2])": r"Box\(size, at=position\)",
    "eim_ros.place_base(sampler, [pose], [[0, 0, 0, 0]])": r"it is eim_ros\.ik\.place_base",
    "Robot('panda', tip_link='panda_link7')": "did you mean tip",
    "sampler.solve(pose, q0=q)": "did you mean near",
    "sampler.solve(pose, seed_state=q)": "did you mean near",
    "Robot.from_urdf('panda', base_link='panda_link0', ee_link='panda_link8')": "did you mean base",
    "Sampler('panda', ee_link='panda_link8')": "did you mean tip",
    "sampler.sample(pose, num_samples=5)": "did you mean n",
    "sampler.solve(pose, time_limit=0.5)": "did you mean timeout",
    "Sampler(urdf_string=robot.urdf)": "did you mean robot",
    "sampler.solve(position=[0.4, 0.1, 0.5], orientation=[1, 0, 0, 0])": "did you mean pose",
    "sampler.solve(xyz=[0.4, 0.1, 0.5], rpy=[180, 0, 0], degrees=True)": "did you mean pose",
    "Sphere([0.5, 0, 0.2], r=0.1)": "did you mean radius",
    "sampler.with_constraints(fixed_joints={'panda_joint7': 0.0}, avoid_collisions=True)": "did you mean fixed",
    "sampler.sample(pose, degrees=True)": "angles in radians",
    "Sampler('panda', tool=matrix)": r"with_tool\(pose\)",
    "sampler.solve(pose, limits={})": r"with_constraints\(limits=",
    "sampler.solve(pose, mask=[1, 1, 1, 0, 0, 0])": r"with_constraints\(tolerances=",
    "Sampler('panda', collision=False)": r"with_constraints\(self_collision=",
    "sampler.solve(pose, link_name='panda_link7')": r"with_tip\(link\)",
    "sampler.solve(pose, return_all=True)": r"solve_all\(pose\)",
    "sampler.solve(pose, initial_position=q)": "did you mean near",
    "sampler.solve(pose, position_threshold=1e-3)": r"with_constraints\(position_tolerance=",
    "sampler.sample(pose, n=100, random_state=0)": "did you mean seed",
    "sampler.solve(pose, ilimit=30)": "did you mean timeout",
    "robot.ikine_LM(pose)": r"Sampler\(robot\)",
    "sampler.IK(pose)": r"solve\(pose\)",
    "sampler.solve_all(pose).joint_positions": "use q",
    "eim_ros.IKSolver('panda')": "did you mean Sampler",
    "eim_ros.compute_ik(pose)": "did you mean Sampler",
}  # guesses that cannot work, with the hint in the error


UNKNOWN = {
    "Sampler.from_urdf('panda')": "from_urdf",
    "robot.n": "n",
    "robot.qlim": "qlim",
    "robot.fkine(q)": "fkine",
    "robot.forward_kinematics(q)": "forward_kinematics",
    "robot.random_configuration()": "random_configuration",
    "sampler.ik(pose)": "ik",
    "robot.ik(pose)": "ik",
    "robot.inverse_kinematics(matrix)": "inverse_kinematics",
    "sampler.solve_ik(pose)": "solve_ik",
    "sampler.all_solutions(pose)": "all_solutions",
    "sampler.cartesian_path([pose, pose])": "cartesian_path",
    "sampler.dof, sampler.joint_names, sampler.joint_limits, sampler.tip_link": "dof",
    "sampler.fkine(sampler.random_q())": "fkine",
    "sampler.sample(pose, 5).solutions": "solutions",
    "sampler.solve_many([pose, pose]).n_valid": "solve_many",
    "sampler.with_tool(xyz=[0, 0, 0.1], rpy=[0, 0, 0])": "xyz",
    "robot.neutral": "neutral",
    "robot.in_collision(q)": "in_collision",
    "sampler.add_obstacle(matrix)": "add_obstacle",
    "sampler.sample(pose, 5).best": "best",
    "sampler.calculateInverseKinematics(0, 5, pose[:3])": "calculateInverseKinematics",
    "sampler.is_reachable(pose)": "is_reachable",
    "sampler.nearest(pose, q)": "nearest",
    "sampler.sample(pose, 5).to_numpy()": "to_numpy",
    "robot.getJointLimits()": "getJointLimits",
    "robot.fk(q, link='panda_link4')": "link",
    "sampler.solve(pose, num_attempts=10)": "num_attempts",
    "sampler.set_limits({'panda_joint1': (0, 1)})": "set_limits",
    "sampler.sample(pose, 5).is_valid": "is_valid",
    "sampler.sample(pose, 5).to_csv('solutions.csv')": "to_csv",
}  # names from other libraries, with the word that the error names


@pytest.fixture
def names() -> dict[str, Any]:
    robot = Robot("panda")
    message = SimpleNamespace(
        position=SimpleNamespace(x=0.4, y=0.1, z=0.5), orientation=SimpleNamespace(x=1.0, y=0.0, z=0.0, w=0.0)
    )
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
        "pose": POSE,
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


@pytest.mark.parametrize("guess", UNKNOWN)
def test_name_of_another_library_is_an_error_that_names_it(guess: str, names: dict[str, Any]) -> None:
    with pytest.raises((AttributeError, TypeError, EimError), match=f"'{UNKNOWN[guess]}'"):
        eval(guess, names)


@pytest.mark.parametrize(
    "parts",
    [
        {"position": [0.4, 0.1, 0.5], "rpy": [170.0, 20.0, 30.0], "degrees": True},
        {"position": [0.4, 0.1, 0.5], "rpy": np.radians([170.0, 20.0, 30.0])},
        {
            "position": [0.4, 0.1, 0.5],
            "quaternion_wxyz": np.roll(Rotation.from_euler("xyz", [170, 20, 30], degrees=True).as_quat(), 1),
        },
    ],
)
def test_parts_of_a_pose_are_that_pose(parts: dict[str, Any]) -> None:
    rotation = Rotation.from_euler("xyz", [170, 20, 30], degrees=True).as_matrix()
    reached = Robot("ur5e").fk(Sampler("ur5e").solve(parts)[0])
    np.testing.assert_allclose(reached[:3, :3], rotation, atol=1e-5)  # solutions have a tolerance of 1e-6 rad
    np.testing.assert_allclose(reached[:3, 3], [0.4, 0.1, 0.5], atol=1e-5)


def test_a_position_in_millimetres_gets_a_hint() -> None:
    assert Sampler("panda").solve([400, 100, 500, 1, 0, 0, 0]).message.endswith("positions are in metres")


@pytest.fixture(scope="module")
def sampler() -> Sampler:
    return Sampler("panda")


def test_density_may_be_a_function(sampler: Sampler) -> None:
    warm, cold = (
        sampler.draw(POSE, 200, density=lambda q: (q[:, 0] - 0.5) ** 2, temperature=temperature, seed=0).q[:, 0]
        for temperature in (10.0, 0.01)
    )
    assert np.abs(cold - 0.5).mean() < 0.5 * np.abs(warm - 0.5).mean()


@pytest.mark.parametrize("operation", [Sampler.solve, Sampler.sample, Sampler.solve_all])
def test_near_may_name_some_joints(sampler: Sampler, operation: Any) -> None:
    found = operation(sampler, POSE, near=SOME_JOINTS, seed=0, timeout=ENOUGH)
    columns = [sampler.robot.joint_names.index(name) for name in SOME_JOINTS]
    costs = ((found.q[:, columns] - list(SOME_JOINTS.values())) ** 2).sum(axis=1)
    assert found and (np.diff(costs) >= -1e-9).all()


@pytest.mark.parametrize("n", [1, 1000])
def test_printed_solutions_fit_on_a_screen(sampler: Sampler, n: int) -> None:
    assert len(repr(sampler.sample(POSE, n)).splitlines()) <= 10


def samplers() -> list[Sampler]:
    plain, learned = Sampler("panda"), Sampler.load("panda_pose")
    return [plain, learned, plain.with_tool([0, 0, 0.1]), learned.with_tool([0, 0, 0.1]).with_obstacles(BOXES)]


@pytest.mark.parametrize("which", range(4), ids=["plain", "model", "tool", "model with tool and obstacles"])
def test_a_pickled_sampler_answers_as_before(which: int) -> None:
    given = samplers()[which]
    given.sample(POSE, 3, seed=0, timeout=ENOUGH)  # fills the caches
    copied = pickle.loads(pickle.dumps(given))
    before, after = (each.sample(POSE, 20, seed=1, timeout=ENOUGH) for each in (given, copied))
    np.testing.assert_array_equal(after.q, before.q)
    np.testing.assert_array_equal(after.log_prob, before.log_prob)
    assert copied.constraints.self_collision == given.constraints.self_collision


def test_pickled_solutions_keep_densities_that_were_read() -> None:
    read, unread = (Sampler.load("panda_pose").sample(POSE, 5, seed=0, timeout=ENOUGH) for _ in range(2))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps((read.log_prob, read)))[1].log_prob, read.log_prob)
    assert np.isnan(pickle.loads(pickle.dumps(unread)).log_prob).all()
