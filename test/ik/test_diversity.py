"""With diversity, samples cover more of the solutions and remain correct. With a model, diversity is off by default."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from ik.arms import constant_mixture
from kinematics.robots import robot_and_oracle
from kinematics.six_joint_arms import URDFS

from eim_ros.core.errors import ConfigurationError
from eim_ros.ik import Constraints, ErrorCode, IKModel, Sampler
from eim_ros.ik.evaluation import exact_solutions
from eim_ros.ik.strategies.restarts import DISTINCT_TOLERANCE
from eim_ros.kinematics import Robot
from eim_ros.learning.models import MixtureOfExperts
from eim_ros.solver import NO_EXPERT

MODELS = ("panda_pose", "iiwa14_pose")


def poses_of(sampler: Sampler, n: int, seed: int) -> np.ndarray:
    return sampler.robot.fk(sampler.robot.random(n, np.random.default_rng(seed)))


@pytest.mark.parametrize("name", MODELS)
def test_covers_more_with_as_many_solutions(name: str) -> None:
    sampler = Sampler.load(name)
    rng = np.random.default_rng(0)
    coverage = {0.0: 0.0, 0.5: 0.0}
    for pose in poses_of(sampler, 6, 1):
        truth = exact_solutions(sampler.robot, pose, 5000, rng)
        for diversity in coverage:
            answer = sampler.sample(pose, 100, order="none", seed=2, diversity=diversity)
            assert answer and answer.valid.all() and len(answer) == 100
            coverage[diversity] += truth.coverage(answer.q) / 6
    assert coverage[0.5] > coverage[0.0] + 0.05


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("diversity", [0.3, 1.0])
def test_every_solution_reaches_the_pose(name: str, diversity: float) -> None:
    sampler = Sampler.load(name)
    robot, oracle = robot_and_oracle(name.removesuffix("_pose"))
    for pose in poses_of(sampler, 5, 3):
        answer = sampler.sample(pose, 60, seed=0, diversity=diversity)
        assert answer and answer.valid.all()
        assert robot.within_limits(answer.q).all()
        for configuration in answer.q:
            np.testing.assert_allclose(oracle.forward(configuration), pose, atol=2e-6)


def test_continued_configurations_have_the_expert_of_a_seed_and_uniform_ones_have_none() -> None:
    sampler = Sampler.load("iiwa14_pose")
    for pose in poses_of(sampler, 4, 6):
        answer = sampler.sample(pose, 100, seed=0, diversity=0.6)
        has_expert = answer.expert < sampler.n_experts
        assert 60 < has_expert.sum() < 100
        assert (answer.expert[~has_expert] == NO_EXPERT).all()
        assert len(set(answer.expert[has_expert].tolist())) < 0.7 * has_expert.sum()  # a seed leads to several rows


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("n", [1, 15, 16, 200])
def test_model_without_preference_changes_no_solution_unless_its_samples_are_requested(name: str, n: int) -> None:
    sampler = Sampler.load(name)
    plain = Sampler(sampler.robot)
    for pose in poses_of(sampler, 3, 7):
        answer = sampler.sample(pose, n, seed=0)
        np.testing.assert_array_equal(answer.q, plain.sample(pose, n, seed=0).q)
        assert (answer.expert == NO_EXPERT).all() and np.isfinite(answer.log_prob).all()
        samples = sampler.sample(pose, n, seed=0, diversity=0.0)
        assert 0.5 * n < len(samples) <= n
        assert (samples.expert < sampler.n_experts).all() and np.isfinite(samples.log_prob).all()


@pytest.mark.parametrize("n", [1, 15, 16])
def test_with_a_preference_every_sample_comes_from_an_expert(n: int) -> None:
    sampler, pose, _ = with_experts_at({0: 0.8, 1: 0.2})
    answer = sampler.sample(pose, n, seed=0)
    np.testing.assert_array_equal(answer.q, sampler.sample(pose, n, seed=0, diversity=0.0).q)
    assert len(answer) >= 1 and (answer.expert < 2).all()


def test_used_experts_follow_the_gating_better_than_independent_draws() -> None:
    sampler, n, rng = Sampler.load("iiwa14_pose"), 20, np.random.default_rng(0)
    distances: dict[str, list[float]] = {"samples": [], "independent": []}
    for pose in poses_of(sampler, 60, 5):
        weights = np.exp(sampler._prior.conditionals(pose[None])[1][0])
        used = sampler.sample(pose, n, seed=1, diversity=0.0).expert
        for label, experts in (
            ("samples", used),
            ("independent", rng.choice(len(weights), len(used), p=weights / weights.sum())),
        ):
            shares = np.bincount(experts, minlength=len(weights)) / len(experts)
            distances[label].append(0.5 * np.abs(shares - weights).sum())
    assert np.mean(distances["samples"]) < np.mean(distances["independent"])


def with_experts_at(weights: dict[int, float]) -> tuple[Sampler, np.ndarray, np.ndarray]:
    """Return a sampler of a UR5 with narrow experts at solutions of these indices, the pose, and all solutions."""
    robot = Robot(URDFS["UR5"])
    pose = robot.fk(np.full(6, 0.5))
    solutions = Sampler(robot).solve_all(pose).q
    tensors = constant_mixture(solutions[list(weights)], np.full(6, 0.02), 9).tensors()
    tensors["gating.biases"] = torch.tensor(list(weights.values()), dtype=torch.float64).log()
    return Sampler(model=IKModel(MixtureOfExperts.from_tensors(tensors), robot, "pose")), pose, solutions


def test_experts_supply_samples_in_proportion_to_their_weights() -> None:
    sampler, pose, _ = with_experts_at({0: 0.8, 1: 0.2})
    experts = np.array([sampler.sample(pose, 1, seed=seed).expert[0] for seed in range(400)])
    assert abs((experts == 0).mean() - 0.8) < 4.0 * math.sqrt(0.8 * 0.2 / 400)


def test_seeds_are_uniform_if_the_model_leads_to_no_solution() -> None:
    """The only expert is outside of the narrowed limits. Other solutions are within these limits."""
    sampler, pose, solutions = with_experts_at({5: 1.0})
    limits = {name: (q - 1.5, q + 1.5) for name, q in zip(sampler.robot.joint_names, solutions[0], strict=True)}
    answer = sampler.with_constraints(limits=limits).sample(pose, 1, seed=0, timeout=60.0)
    assert len(answer) == 1
    assert (answer.expert == NO_EXPERT).all()
    assert answer.message.endswith("so the solutions come from uniform seeds")


@pytest.mark.parametrize("name", MODELS)
def test_distinct_samples_are_so_however_many_are_asked_for(name: str) -> None:
    sampler = Sampler.load(name)
    for pose in poses_of(sampler, 3, 11):
        answer = sampler.sample(pose, 700, order="none", seed=1)
        differences = np.abs(answer.q[:, None] - answer.q).max(axis=-1)
        differences[np.diag_indices(len(answer))] = np.inf
        assert answer and answer.valid.all()
        assert len(answer) > 150
        assert differences.min() > DISTINCT_TOLERANCE


def test_distinct_samples_are_so_where_the_last_steps_to_the_pose_are_long() -> None:
    """The elbow of the Panda is almost stretched, so the last steps to the pose bring solutions closer together."""
    sampler = Sampler.load("panda_pose")
    pose = sampler.robot.fk(np.array([-1.014888, 0.013903, -0.740226, -0.397678, -0.222957, 1.774130, -1.399054]))
    for n in (40, 70, 100):
        for seed in range(60):
            rows = sampler.sample(pose, n, seed=seed, diversity=0.95).q
            largest = np.abs(rows[:, None] - rows).max(-1) + np.eye(len(rows))
            assert largest.min() > DISTINCT_TOLERANCE


def test_what_continuation_from_the_first_seeds_missed_is_followed_when_a_seed_leads_there() -> None:
    """The known curves have too few samples for the request, so further seeds are tried and find other curves."""
    sampler, coverage = Sampler.load("iiwa14_pose"), []
    rng = np.random.default_rng(3)
    for pose in poses_of(sampler, 4, 13):
        truth = exact_solutions(sampler.robot, pose, 6000, rng)
        few, all_of_them = (sampler.sample(pose, n, order="none", seed=1, diversity=0.85).q for n in (60, 900))
        coverage.append((truth.coverage(few), truth.coverage(all_of_them)))
    before, after = np.mean(coverage, axis=0)
    assert before < 0.7
    assert after > 0.97


@pytest.mark.parametrize("diversity", [-0.1, 1.1, np.nan])
def test_shares_only(diversity: float) -> None:
    sampler = Sampler.load("panda_pose")
    with pytest.raises(ConfigurationError, match="diversity"):
        sampler.sample(poses_of(sampler, 1, 8)[0], 3, diversity=diversity)


@pytest.mark.parametrize("n", [5000, 10**6])
def test_without_time_many_samples_are_not_continued_for(n: int) -> None:
    """Without time, the call does not even allocate memory for all requested samples."""
    sampler = Sampler.load("iiwa14_position")
    answer = sampler.sample(poses_of(sampler, 1, 9)[0], n, timeout=0.0, order="none", seed=0, diversity=1.0)
    assert answer.error_code == ErrorCode.TIMED_OUT
    assert len(answer) <= 1256  # the first round has 256 seeds and 1000 solutions by continuation
    assert answer and answer.valid.all()


def test_what_is_spread_over_surfaces_leaves_smaller_holes() -> None:
    """For the iiwa, a position leaves four dimensions free, and a pose with a free axis leaves two."""
    robot, oracle = robot_and_oracle("iiwa14")
    sampler = Sampler(robot)
    pose = poses_of(sampler, 1, 11)[0]
    about_z = Constraints(tolerances=[0.0, 0.0, 0.0, 0.0, 0.0, np.inf])
    for constraints, smaller in ((None, 0.95), (about_z, 0.8)):
        asked = sampler.with_constraints(constraints, position_only=constraints is None)
        all_ = asked.sample(pose, 4000, diversity=0.0, seed=1).q
        holes = []
        for diversity in (None, 0.0):
            answer = asked.sample(pose, 60, diversity=diversity, seed=2)
            assert answer and answer.valid.all() and len(answer) == 60
            assert all(np.linalg.norm(oracle.forward(q)[:3, 3] - pose[:3, 3]) < 2e-6 for q in answer.q)
            holes.append(np.min([np.linalg.norm(all_ - q, axis=1) for q in answer.q], axis=0).max())
        assert holes[0] < smaller * holes[1]


def test_a_seed_or_a_posture_is_no_occasion_to_spread() -> None:
    sampler = Sampler("iiwa14")
    pose, home = poses_of(sampler, 1, 12)[0], np.zeros(7)
    near = sampler.with_constraints(position_only=True).sample(pose, 60, near=home, seed=2)
    plain = sampler.with_constraints(position_only=True).sample(pose, 60, near=home, diversity=0.0, seed=2)
    np.testing.assert_array_equal(near.q[0], plain.q[0])
