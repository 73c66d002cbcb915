"""Samples of a sampler: validity according to pinocchio, densities, order, experts and seeds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from ik.arms import ARMS, arm_and_oracle, arm_of, broad_model, constant_mixture, reachable_pose, sampler_of

from eim_ros.core.errors import ModelFileError
from eim_ros.ik import ErrorCode, IKModel, Sampler, Solutions
from eim_ros.ik.solutions import SCHEMA
from eim_ros.kinematics import Robot, context_from_pose
from eim_ros.solver import NO_EXPERT

ENOUGH = 60.0  # timeout that is long enough for a slow machine [s]


def oracle_errors(name: str, samples: Solutions, pose: np.ndarray) -> np.ndarray:
    """Return position and orientation errors (2, n), computed with pinocchio."""
    oracle = arm_and_oracle(name)[1]
    return np.array([oracle.errors(q, pose) for q in samples.q]).T


@pytest.mark.parametrize("position_only", [True, False])
@pytest.mark.parametrize("context_kind", ["position", "pose"])
@pytest.mark.parametrize("name", [*ARMS, "iiwa14", "panda", "planar3", "planar10"])
def test_every_valid_configuration_is_valid_by_pinocchio(name: str, context_kind: str, position_only: bool) -> None:
    robot = arm_of(name)
    for seed in range(3):
        pose = reachable_pose(robot, seed)
        samples = (
            sampler_of(name, context_kind)
            .with_constraints(position_only=position_only, position_tolerance=1e-6)
            .sample(pose, 20, timeout=ENOUGH, seed=seed)
        )
        assert samples.error_code == ErrorCode.SUCCESS, samples.message
        assert 1 <= len(samples) <= 20
        assert samples and samples.valid.all()
        position_error, orientation_error = oracle_errors(name, samples, pose)
        assert position_error.max() <= 1e-6 + 1e-12
        assert (samples.q >= robot.lower).all()
        assert (samples.q <= robot.upper).all()
        assert np.allclose(samples.position_error, position_error, rtol=0, atol=1e-12)
        if position_only:
            assert not samples.orientation_error.any()
        else:
            assert orientation_error.max() <= 1e-6 + 1e-9  # accuracy of pinocchio's logarithm
            assert np.allclose(samples.orientation_error, orientation_error, rtol=0, atol=1e-9)


def test_context_of_the_model_decides_what_is_asked_by_default() -> None:
    pose = reachable_pose(arm_of("iiwa14"))
    of_position = sampler_of("iiwa14", "position").sample(pose, 10, timeout=ENOUGH, seed=0)
    of_pose = sampler_of("iiwa14", "pose").sample(pose, 10, timeout=ENOUGH, seed=0)
    assert oracle_errors("iiwa14", of_position, pose)[1].max() > 0.1
    assert oracle_errors("iiwa14", of_pose, pose)[1].max() < 2e-6


@pytest.mark.parametrize(
    ("operation", "options"),
    [(Sampler.sample, {}), (Sampler.propose, {}), (Sampler.draw, {}), (Sampler.sample, {"near": np.zeros(7)})],
)
def test_seed_decides_the_answer(operation: Callable[..., Solutions], options: dict) -> None:
    sampler, pose = sampler_of("iiwa14", "position"), reachable_pose(arm_of("iiwa14"))
    first, again, other = (operation(sampler, pose, 20, seed=seed, **options) for seed in (5, 5, 6))
    for name in {column.name for column in SCHEMA} - {"times", "reports"}:
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name), err_msg=name)
    assert not np.array_equal(first.q, other.q)


def test_without_a_seed_each_answer_is_fresh() -> None:
    sampler, pose = sampler_of("planar3", "position"), reachable_pose(arm_of("planar3"))
    assert not np.array_equal(sampler.sample(pose, 5).q, sampler.sample(pose, 5).q)


@pytest.mark.parametrize("operation", [Sampler.sample, Sampler.propose])
@pytest.mark.parametrize("context_kind", ["position", "pose"])
def test_log_prob_is_that_of_the_mixture(context_kind: str, operation: Callable[..., Solutions]) -> None:
    robot = arm_of("iiwa14")
    model, pose = broad_model(robot, context_kind), reachable_pose(robot)
    samples = operation(Sampler(model=model), pose, 50, seed=0)
    context = torch.from_numpy(context_from_pose(pose, context_kind)).expand(len(samples), -1)
    expected = model.mixture.log_prob(context, torch.from_numpy(samples.q))
    assert np.allclose(samples.log_prob, expected.numpy(), rtol=1e-9, atol=1e-9)


def test_most_probable_come_first() -> None:
    samples = sampler_of("iiwa14", "position").sample(reachable_pose(arm_of("iiwa14")), 50, timeout=ENOUGH, seed=0)
    assert (np.diff(samples.log_prob) <= 0.0).all()


def test_model_of_a_pose_is_averaged_over_orientations_for_a_position() -> None:
    robot = arm_of("planar3")
    mixture = constant_mixture(np.zeros((1, 3)), np.ones(3), 9).tensors()
    mixture["experts.weights"][0, 0, 3] = 1.0  # makes the mean of joint 1 an entry of the rotation matrix
    model = IKModel(type(broad_model(robot, "pose").mixture).from_tensors(mixture), robot, "pose")
    drawn = Sampler(model=model).with_constraints(position_only=True).propose(reachable_pose(robot), 4000, seed=0).q
    # An entry of a random rotation is uniform on [-1, 1], which adds 1/3 to the variance of the noise. The range is
    # wide, because only sixteen orientations are drawn.
    assert 1.1 < drawn[:, 0].var() < 1.6
    assert 0.9 < drawn[:, 1].var() < 1.1


def test_experts_are_those_that_proposed() -> None:
    robot = arm_of("gantry")
    means = np.array([[-0.5, -0.5, -0.5], [0.5, 0.5, 0.5]])
    model = IKModel(constant_mixture(means, np.full(3, 0.01), 3), robot, "position")
    raw = Sampler(model=model).propose(np.eye(4), 100, seed=0)
    assert set(raw.expert) == {0, 1}
    assert np.allclose(raw.q, means[raw.expert], rtol=0, atol=0.06)  # six standard deviations
    assert Sampler(model=model).n_experts == 2
    refined = Sampler(model=model).sample(reachable_pose(robot), 100, timeout=ENOUGH, seed=0)
    assert set(refined.expert) <= {0, 1, NO_EXPERT}


def test_useless_model_is_rescued_by_uniform_seeds() -> None:
    robot = arm_of("iiwa14")
    far_away = IKModel(constant_mixture(np.full((3, 7), 50.0), np.full(7, 1e-3), 9), robot, "pose")
    pose = reachable_pose(robot)
    samples = Sampler(model=far_away).sample(pose, 20, timeout=ENOUGH, seed=0)
    assert samples.error_code == ErrorCode.SUCCESS
    assert len(samples) == 20
    assert oracle_errors("iiwa14", samples, pose).max() <= 1e-6 + 1e-9
    # all proposals are clamped to the same corner of the limits, so nearly all solutions come from uniform seeds
    assert (samples.expert == NO_EXPERT).sum() >= 15
    assert np.isfinite(samples.log_prob).all()


def test_load_gives_the_sampler_of_the_file(tmp_path) -> None:
    robot = arm_of("planar3")
    model = broad_model(robot, "position")
    model.save(tmp_path / "m.safetensors")
    loaded = Sampler.load(tmp_path / "m.safetensors", robot)
    loaded.prepare()
    pose = reachable_pose(robot)
    assert np.array_equal(loaded.sample(pose, 9, seed=3).q, Sampler(model=model).sample(pose, 9, seed=3).q)
    assert (loaded.context_kind, loaded.n_experts, loaded.robot) == ("position", 8, robot)


def test_load_refuses_another_robot(tmp_path) -> None:
    path = tmp_path / "m.safetensors"
    broad_model(arm_of("planar3"), "position").save(path)
    with pytest.raises(ModelFileError, match="planar3.*not for robot 'gantry'"):
        Sampler.load(path, arm_of("gantry"))


def test_narrow_limits_are_kept() -> None:
    """The ranges are a few degrees wide, so most proposals of a mixture are outside of the limits."""
    limit = '<limit lower="0.1" upper="0.2" effort="1" velocity="1"/>'
    urdf = ARMS["six_joints"].replace('<limit lower="-2.5" upper="2.5" effort="1" velocity="1"/>', limit)
    robot = Robot(urdf)
    samples = Sampler(model=broad_model(robot, "position")).sample(reachable_pose(robot), 30, timeout=ENOUGH, seed=0)
    assert samples.error_code == ErrorCode.SUCCESS
    assert (samples.q >= 0.1).all()
    assert (samples.q <= 0.2).all()
