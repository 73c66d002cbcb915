"""All solutions of an arm without a model: verified by pinocchio, different, as many as there are; none preferred."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from ik.arms import ARMS, arm_and_oracle, arm_of, reachable_pose

from eim_ros.core.errors import ConfigurationError
from eim_ros.ik import ErrorCode, Sampler
from eim_ros.kinematics import Robot, refine
from eim_ros.solver import NO_EXPERT

ENOUGH = 60.0  # [s]


def differences(positions: np.ndarray, robot: Robot) -> np.ndarray:
    """Largest difference of a joint, on the circle where it is continuous, of all pairs of rows."""
    rows, columns = np.triu_indices(len(positions), 1)
    plain = np.abs(positions[rows] - positions[columns])
    return np.where(robot.continuous, np.minimum(plain, 2.0 * np.pi - plain), plain).max(axis=1, initial=0.0)


@pytest.mark.parametrize("position_only", [False, True])
@pytest.mark.parametrize("name", ["panda", "ur5", "all_types", "gantry", "planar5"])
def test_every_solution_is_one_by_pinocchio_and_all_differ(name: str, position_only: bool) -> None:
    robot, oracle = arm_and_oracle(name)
    for seed in range(3):
        pose = reachable_pose(robot, seed)
        samples = (
            Sampler(robot).with_constraints(position_only=position_only).sample(pose, 100, timeout=ENOUGH, seed=seed)
        )
        assert samples.error_code == ErrorCode.SUCCESS, samples.message
        assert samples and samples.valid.all()
        assert robot.within_limits(samples.q).all()
        errors = np.array([oracle.errors(q, pose) for q in samples.q])
        assert errors[:, 0].max() <= 1e-6 + 1e-12
        assert position_only or errors[:, 1].max() <= 1e-6 + 1e-9  # pinocchio's logarithm is good to 1e-9 here
        assert (differences(samples.q, robot) > 0.01).all()


@pytest.mark.parametrize("name", ["ur5", "six_joints"])
@pytest.mark.parametrize("seed", range(3))
def test_an_arm_of_six_joints_gives_each_solution_that_uniform_restarts_find(name: str, seed: int) -> None:
    robot = arm_of(name)
    pose = reachable_pose(robot, seed)
    samples = Sampler(robot).sample(pose, 400, timeout=ENOUGH, seed=0)
    refined = refine(robot, robot.random(10000, np.random.default_rng(1)), pose)
    found = refined.positions[refined.converged]
    nearest = np.abs(found[:, None] - samples.q).max(axis=-1).min(axis=1)
    assert nearest.max() < 1e-3


@pytest.mark.parametrize("name", ["ur5", "six_joints"])
def test_message_counts_the_different_solutions_where_there_are_fewer_than_asked_for(name: str) -> None:
    robot = arm_of(name)
    samples = Sampler(robot).sample(reachable_pose(robot), 100, timeout=ENOUGH, seed=0)
    assert samples.error_code == ErrorCode.SUCCESS
    assert 2 <= len(samples) <= 8
    expected = f"{len(samples)} of 100 distinct solutions, all that exist"
    assert samples.message == expected


def test_nothing_is_preferred_and_no_density_known() -> None:
    robot = arm_of("panda")
    sampler = Sampler(robot)
    samples = sampler.sample(reachable_pose(robot), 20, timeout=ENOUGH, seed=0)
    assert (sampler.n_experts, sampler.has_preference, sampler.context_kind) == (0, False, "pose")
    assert np.isnan(samples.log_prob).all()
    assert (samples.expert == NO_EXPERT).all()
    assert json.loads(samples.to_json())["log_prob"] == [None] * 20


def test_seed_decides_the_answer() -> None:
    sampler, pose = Sampler("panda"), reachable_pose(arm_of("panda"))
    first, again, other = (sampler.sample(pose, 30, timeout=ENOUGH, seed=seed).q for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_robot_may_be_a_name_or_a_file_with_links(tmp_path: Path) -> None:
    path = tmp_path / "arm.urdf"
    path.write_text(ARMS["six_joints"])
    robot = Sampler(path, "l6", base="l1").robot
    assert (robot.base_link, robot.tip_link, robot.dof) == ("l1", "l6", 5)
    assert Sampler("ur5").robot.fingerprint == arm_of("ur5").fingerprint


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"order": "density"}, "ordering by density needs a model"),
        ({"order": {"density": 1.0, "limits": 1.0}}, "ordering by density needs a model"),
    ],
)
def test_what_needs_a_model_is_refused(options: dict, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        Sampler(arm_of("panda")).sample(reachable_pose(arm_of("panda")), 5, seed=0, **options)


def test_proposals_need_a_model() -> None:
    with pytest.raises(ConfigurationError, match="proposals are draws from a model"):
        Sampler(arm_of("panda")).propose(reachable_pose(arm_of("panda")), 5)


def test_orders_constraints_batches_and_paths_need_none() -> None:
    robot = arm_of("panda")
    sampler, poses = Sampler(robot), np.array([reachable_pose(robot, seed) for seed in range(2)])
    by_limits, nearest = (
        sampler.sample(poses[0], 30, timeout=ENOUGH, seed=0, **options)
        for options in ({"order": "limits"}, {"near": np.zeros(7)})
    )
    assert by_limits and by_limits.valid.all()
    assert (np.diff(np.linalg.norm(nearest.q, axis=1)) >= -1e-9).all()
    assert sampler.sample_batch(poses, 10, timeout=ENOUGH, seed=0).n_per_pose.tolist() == [10, 10]
    assert sampler.follow(poses[:1], timeout=ENOUGH, seed=0, n_candidates=10).valid.all()
