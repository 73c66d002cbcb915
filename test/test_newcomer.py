"""What a newcomer writes first works as written: the examples of the documentation, and likely guesses."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pinocchio
import pytest
from scipy.spatial.transform import Rotation

from eim_ros import Sampler
from eim_ros.ik import Completeness, Solutions
from eim_ros.kinematics import Box, pose_from

POSE = [0.4, 0.1, 0.5, 1.0, 0.0, 0.0, 0.0]  # x, y, z [m], quaternion x, y, z, w
ENOUGH = 60.0  # [s]: no answer depends on the speed of the machine
SOME_JOINTS = {"panda_joint1": 0.0, "panda_joint4": -1.5}


@pytest.fixture(scope="module")
def sampler() -> Sampler:
    return Sampler("panda")


@pytest.fixture(scope="module")
def poses(sampler: Sampler) -> np.ndarray:
    start = np.array([0.0, 0.3, 0.0, -1.8, 0.0, 2.1, 0.8])
    return sampler.robot.fk(start + np.linspace(0.0, 0.3, 8)[:, None])


def test_examples_of_single_poses(sampler: Sampler) -> None:
    solutions = sampler.sample(POSE, 100)
    assert len(solutions) == 100
    solution = sampler.solve(POSE)
    assert solution and solution.q[0].shape == (7,)
    solution = sampler.solve(POSE, near=SOME_JOINTS)
    assert solution and len(solution) == 1
    q_now = np.zeros(7)
    ten = sampler.sample(POSE, 10, near=q_now)
    assert (np.diff(np.linalg.norm(ten.q - q_now, axis=1)) >= 0.0).all()
    everything = sampler.solve_all(POSE, guarantee=Completeness(), timeout=ENOUGH)
    assert everything.completeness is not None and everything.completeness.is_complete
    proven = Sampler("ur5e").solve_all(POSE, guarantee="certified")
    assert proven.certified
    draws = sampler.draw(POSE, 1000)
    assert draws.effective_sample_size == 1000.0
    warm = sampler.draw(POSE, 200, density=lambda q: (q[:, 3] + 1.5) ** 2, temperature=0.1)
    assert len(warm) == 200


def test_examples_of_many_poses(sampler: Sampler, poses: np.ndarray) -> None:
    q_now = np.array([0.0, 0.3, 0.0, -1.8, 0.0, 2.1, 0.8])
    path = sampler.follow(poses, near=q_now, timeout=ENOUGH)
    assert path, path.message
    many = sampler.sample_batch(poses, 20, seed=0, timeout=ENOUGH)
    assert many.n_per_pose.tolist() == [20] * len(poses)
    saved = list(sampler.stream(poses, Sampler.solve_all, max_spacing=0.5, timeout=ENOUGH))
    assert Solutions.concatenate(saved).n_poses == len(poses)


def test_examples_of_constraints_tables_and_models(sampler: Sampler) -> None:
    cell = sampler.with_tool([0, 0, 0.1, 0, 0, 0, 1]).with_obstacles(BOXES)
    safe = cell.with_constraints(self_collision=True, clearance=0.01, limits={"panda_joint1": (-1, 1)})
    found = safe.sample(POSE, 20, timeout=ENOUGH)
    assert found and (np.abs(found.q[:, 0]) <= 1.0).all()
    solutions = sampler.sample(POSE, 5)
    copied = pickle.loads(pickle.dumps(solutions))
    np.testing.assert_array_equal(copied.q, solutions.q)
    learned = Sampler.load("panda_pose")
    assert (np.diff(learned.sample(POSE, 5, order="density", timeout=ENOUGH).log_prob) <= 0.0).all()


BOXES = [Box(pose_from((0.5, 0, 0.2)), (0.2, 0.2, 0.4))]


def test_table_has_a_list_of_equal_length_for_each_joint_and_property(sampler: Sampler) -> None:
    table = sampler.sample(POSE, 5).to_dict()
    assert list(table)[:7] == list(sampler.robot.joint_names)
    assert {"position_error", "orientation_error", "valid", "expert", "log_prob"} <= set(table)
    assert {len(column) for column in table.values()} == {5}


POSE_FORMS: dict[str, Any] = {
    "lists": pose_from(POSE[:3], POSE[3:]).tolist(),
    "position and rotation": (POSE[:3], Rotation.from_quat(POSE[3:])),
    "pinocchio": pinocchio.SE3(pose_from(POSE[:3], POSE[3:])),
}


@pytest.mark.parametrize("form", POSE_FORMS)
def test_pose_in_any_form_is_taken(sampler: Sampler, form: str) -> None:
    np.testing.assert_allclose(sampler.solve(POSE_FORMS[form], seed=0).q, sampler.solve(POSE, seed=0).q, atol=1e-9)


@pytest.mark.parametrize("operation", [Sampler.solve, Sampler.sample, Sampler.solve_all])
def test_near_may_name_some_joints(sampler: Sampler, operation: Any) -> None:
    found = operation(sampler, POSE, near=SOME_JOINTS, seed=0, timeout=ENOUGH)
    columns = [sampler.robot.joint_names.index(name) for name in SOME_JOINTS]
    costs = ((found.q[:, columns] - list(SOME_JOINTS.values())) ** 2).sum(axis=1)
    assert found and (np.diff(costs) >= -1e-9).all()


def test_the_seed_decides(sampler: Sampler) -> None:
    first, again = (sampler.sample(POSE, 20, seed=3, timeout=ENOUGH).q for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_three_numbers_are_a_position_of_a_tool(sampler: Sampler) -> None:
    tool = sampler.with_tool([0, 0, 0.1])
    np.testing.assert_allclose(tool.robot.fk(np.zeros(7)), sampler.robot.fk(np.zeros(7)) @ pose_from([0, 0, 0.1]))


@pytest.mark.parametrize("n", [1, 1000])
def test_printed_solutions_fit_on_a_screen(sampler: Sampler, n: int) -> None:
    assert len(repr(sampler.sample(POSE, n)).splitlines()) <= 10


def samplers() -> list[Sampler]:
    plain, learned = Sampler("panda"), Sampler.load("panda_pose")
    return [plain, learned, plain.with_tool([0, 0, 0.1]), learned.with_tool([0, 0, 0.1]).with_obstacles(BOXES)]


@pytest.mark.parametrize("which", range(4), ids=["plain", "model", "tool", "model with tool and obstacles"])
def test_a_pickled_sampler_answers_as_before(which: int) -> None:
    given = samplers()[which]
    given.sample(POSE, 3, seed=0, timeout=ENOUGH)  # fills what is computed on first use
    copied = pickle.loads(pickle.dumps(given))
    before, after = (each.sample(POSE, 20, seed=1, timeout=ENOUGH) for each in (given, copied))
    np.testing.assert_array_equal(after.q, before.q)
    np.testing.assert_array_equal(after.log_prob, before.log_prob)
    assert copied.constraints.self_collision == given.constraints.self_collision


def test_pickled_solutions_keep_densities_that_were_read() -> None:
    read, unread = (Sampler.load("panda_pose").sample(POSE, 5, seed=0, timeout=ENOUGH) for _ in range(2))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps((read.log_prob, read)))[1].log_prob, read.log_prob)
    assert np.isnan(pickle.loads(pickle.dumps(unread)).log_prob).all()
