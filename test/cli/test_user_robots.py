"""`eim collect`, `train`, `evaluate` and `sample` work with URDFs of users, and in real processes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli.command import Command, eim_process, validity
from cli.conftest import FAST, FAST_EIM, sets
from ik.arms import CONTINUOUS, ONE_JOINT
from kinematics.descriptions import chain_urdf, joint, random_urdf
from kinematics.oracle import Oracle

from eim_ros.kinematics import Robot, quaternion_from_matrix, share_path

HALF_TURN, TURN = "3.141592653589793", "6.283185307179586"
WIDE = '<limit lower="-2.9" upper="2.9" effort="1" velocity="1"/>'
SMALL = ("--quiet", "--experts", 8, "--iterations", 4, *sets("start.em_iterations=3", "exact.n_contexts=300"))
WRONG_ANGLE = 2e-8  # accuracy of the oracle's logarithm near zero [rad]


def _hinge(i: int, axis: str, xyz: str = "0 0 0") -> str:
    return joint(f"j{i}", "revolute", f"l{i}", f"l{i + 1}", f'<origin xyz="{xyz}"/><axis xyz="{axis}"/>{WIDE}')


def ur5() -> str:
    """Return the URDF of a UR5 whose joints may turn by one revolution in each direction."""
    return share_path("urdf/ur5.urdf").read_text().replace(HALF_TURN, TURN)


def sliding() -> str:
    """Return the URDF of the Stanford arm, which has a shoulder, a sliding third joint and a wrist."""
    travel = '<limit lower="0.2" upper="0.9" effort="1" velocity="1"/>'
    return chain_urdf(
        _hinge(0, "0 0 1", "0 0 0.41"),
        _hinge(1, "0 1 0", "0 0.154 0"),
        joint("telescope", "prismatic", "l2", "l3", f'<axis xyz="0 0 1"/>{travel}'),
        _hinge(3, "0 0 1"),
        _hinge(4, "0 1 0"),
        _hinge(5, "0 0 1"),
        joint("tool", "fixed", "l6", "l7", '<origin xyz="0 0 0.26"/>'),
        name="stanford",
    )


def snake() -> str:
    """Return the URDF of an arm with fifty joints, alternately about y and z."""
    return chain_urdf(*(_hinge(i, "0 1 0" if i % 2 else "0 0 1", "0 0 0.05") for i in range(50)), name="snake")


ROBOTS = {"ur5": ur5(), "sliding": sliding(), "continuous": CONTINUOUS, "one_joint": ONE_JOINT, "snake": snake()}


class UserRobot:
    """Model that the command line has trained for a URDF, with pinocchio as the oracle."""

    def __init__(self, eim: Command, folder: Path, urdf: str, context: str) -> None:
        self._eim, self.context = eim, context
        path, data, self.model = folder / "arm.urdf", folder / "d.npz", folder / "m.safetensors"
        path.write_text(urdf)
        words = ("collect", "--robot", path, "--samples", 400, "--context", context, "--output", data)
        assert eim(*words).code == 0
        words = ("train", "--robot", path, "--data", data, "--algorithm", "known-density", "--output", self.model)
        outcome = eim(*words, *SMALL)
        assert (outcome.code, outcome.err) == (0, "")
        self.robot = Robot(path)
        self.oracle = Oracle(urdf, self.robot)

    def words_of(self, pose: np.ndarray) -> tuple[object, ...]:
        quaternion = quaternion_from_matrix(pose) if self.context == "pose" else ()
        return ("--pose", *pose[:3, 3], *quaternion)

    def sample(self, pose: np.ndarray, *words: object) -> Any:
        """Return the answer of `eim sample`, after checking its valid rows by pinocchio and the limits."""
        outcome = self._eim("sample", "--model", self.model, *self.words_of(pose), "--timeout", 60, "--json", *words)
        assert outcome.code == 0, outcome.err
        answer = outcome.json
        assert answer["joint_names"] == list(self.robot.joint_names)
        positions = np.array(answer["positions"])
        assert len(positions) == len(validity(answer))
        assert all(validity(answer))
        within = (positions >= self.robot.lower) & (positions <= self.robot.upper)
        assert (within | self.robot.continuous).all()
        for q in positions:
            distance, angle = self.oracle.errors(q, pose)
            assert distance <= 1e-6 + 1e-12
            assert angle <= 1e-6 + WRONG_ANGLE or self.context == "position"
        return answer


def reached(robot: Robot, seed: int) -> np.ndarray:
    """Return the pose (4, 4) of a random configuration."""
    return robot.fk(robot.random(1, np.random.default_rng(seed))[0])


@pytest.mark.parametrize(
    ("name", "context"),
    [("ur5", "pose"), ("sliding", "position"), ("continuous", "pose"), ("one_joint", "position"), ("snake", "pose")],
)
def test_a_users_urdf_is_trained_and_sampled(eim: Command, tmp_path: Path, name: str, context: str) -> None:
    user = UserRobot(eim, tmp_path, ROBOTS[name], context)
    for seed in range(3):
        found = user.sample(reached(user.robot, seed), "-n", 20, "--seed", 1)["positions"]
        assert 1 <= len(found) <= 20  # the arm may have fewer than 20 distinct solutions


def test_near_is_measured_on_the_circle_for_continuous_joints(eim: Command, tmp_path: Path) -> None:
    """On the circle, a solution at -3.1 is nearer to 3.1 than a solution at 2.9."""
    user = UserRobot(eim, tmp_path, ROBOTS["continuous"], "position")
    wanted = user.robot.fk(np.array([-3.1, 0.4, -0.7]))
    answer = user.sample(wanted, "-n", 50, "--seed", 1, "--near", 3.1, 0.4, -0.7)
    difference = np.abs(np.array(answer["positions"]) - [3.1, 0.4, -0.7])
    distance = np.linalg.norm(np.minimum(difference, 2.0 * np.pi - difference), axis=1)
    assert distance[0] < 0.1
    assert (np.diff(distance) >= 0.0).all()


def test_one_joint_has_one_solution_on_its_circle_and_none_beside_it(eim: Command, tmp_path: Path) -> None:
    user = UserRobot(eim, tmp_path, ROBOTS["one_joint"], "position")
    angle = 0.7
    wanted = user.robot.fk(np.array([angle]))
    np.testing.assert_allclose(user.sample(wanted, "-n", 5)["positions"], [[angle]], rtol=0, atol=1e-5)
    outcome = eim("sample", "--model", user.model, "--pose", 0.3, 0.0, 0.1, "-n", 5, "--timeout", 0.2, "--json")
    assert outcome.code == 1
    assert re.search(r"TIMED_OUT: .* no solution found in \d+ restarts; the best attempt is off by 0.2 m", outcome.err)
    assert (outcome.json["n"], outcome.json["valid"]) == (0, [])


def test_shipped_robot_trained_in_a_real_process(eim: Command, tmp_path: Path, data: Path) -> None:
    path = tmp_path / "m.safetensors"
    words = ("train", "--robot", "planar3", "--data", data, "--output", path, "--json", *FAST_EIM, "--iterations", 3)
    trained = eim_process(*words)
    assert (trained.code, trained.err, trained.json["algorithm"]) == (0, "", "eim-kinematics")
    assert eim("evaluate", "--model", path, "--data", data, "--json").json["rmse_position"] < 4.0
    answer = eim("sample", "--model", path, "--pose", 1, -1, 0, "-n", 30, "--timeout", 60, "--json").json
    assert validity(answer) == [True] * 30
    reached = Robot("planar3").fk(np.array(answer["positions"]))[:, :3, 3]
    assert np.allclose(reached, [1.0, -1.0, 0.0], rtol=0, atol=1e-6)


def test_urdf_of_a_user_with_base_and_tip(eim: Command, tmp_path: Path) -> None:
    """The robot is a tree with all joint types and missing meshes. The context is the complete pose."""
    path = tmp_path / "arm.urdf"
    path.write_text(random_urdf(5, 8))
    flags = ("--robot", path, "--base", "l0", "--tip", "l8")
    data, model = tmp_path / "d.npz", tmp_path / "m.safetensors"
    assert eim("collect", *flags, "--samples", 300, "--context", "pose", "--output", data).code == 0
    trained = eim("train", *flags, "--data", data, "--algorithm", "em", "--output", model, "--iterations", 5, *FAST)
    assert trained.code == 0, trained.err
    figures = eim("evaluate", "--model", model, "--data", data, "--json").json
    assert 0.0 < figures["median_orientation"] <= np.pi
    path.unlink()  # the model contains its robot
    robot = Robot(random_urdf(5, 8), "l8", base="l0")
    q = robot.random(1, np.random.default_rng(0))[0]
    wanted = robot.fk(q)
    answer = eim("sample", "--model", model, "--pose", *wanted[:3, 3], "-n", 20, "--timeout", 60, "--json").json
    assert answer["joint_names"] == list(robot.joint_names)
    oracle = Oracle(random_urdf(5, 8), robot)
    errors = [oracle.errors(np.array(row), wanted)[0] for row in answer["positions"]]
    assert validity(answer) == [True] * len(errors)
    assert max(errors) <= 1e-6 + 1e-12
