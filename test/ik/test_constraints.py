"""Valid rows satisfy the limits and fixed joints of a request. Contradictory requests are rejected."""

from __future__ import annotations

import numpy as np
import pytest
from ik.arms import arm_and_oracle, arm_of, assert_no_solution, broad_model, reachable_pose, sampler_of
from kinematics.descriptions import chain_urdf, joint

from eim_ros.core.errors import ConstraintError
from eim_ros.ik import Constraints, ErrorCode, Sampler
from eim_ros.kinematics import Robot

ENOUGH = 60.0  # [s]


def fifty_joints() -> Robot:
    limit = '<axis xyz="0 0 1"/><limit lower="-2" upper="2" effort="1" velocity="1"/><origin xyz="0.05 0 0"/>'
    return Robot(chain_urdf(*(joint(f"j{i}", "revolute", f"l{i}", f"l{i + 1}", limit) for i in range(50))))


def test_without_constraints_the_limits_are_the_robots_own() -> None:
    robot = arm_of("panda")
    lower, upper = Constraints().bounds(robot)
    assert lower is robot.lower
    assert upper is robot.upper


@pytest.mark.parametrize("context_kind", ["position", "pose"])
def test_fixed_joint_stands_still_in_all_solutions(context_kind: str) -> None:
    robot, oracle = arm_and_oracle("panda")
    q = robot.random(1, np.random.default_rng(1))[0]
    pose = robot.fk(q)
    constraints = Constraints(fixed={"panda_joint1": q[0]})
    samples = (
        sampler_of("panda", context_kind)
        .with_constraints(constraints, position_only=False)
        .sample(pose, 50, timeout=ENOUGH, seed=0)
    )
    assert samples.error_code == ErrorCode.SUCCESS, samples.message
    assert samples and samples.valid.all()
    assert (samples.q[:, 0] == q[0]).all()
    assert max(max(oracle.errors(row, pose)) for row in samples.q) < 2e-6


def test_narrower_limits_hold_and_leave_solutions_of_the_other_side_out() -> None:
    robot, pose = arm_of("panda"), reachable_pose(arm_of("panda"), 3)
    sampler = sampler_of("panda", "pose")
    free = sampler.sample(pose, 200, timeout=ENOUGH, seed=0).q[:, 2]
    assert (free < -0.2).any()
    assert (free > 0.2).any()
    limits = {"panda_joint3": (-np.inf, -0.2)}
    narrow = sampler.with_constraints(limits=limits).sample(pose, 200, timeout=ENOUGH, seed=0)
    assert narrow and narrow.valid.all()
    assert (narrow.q[:, 2] <= -0.2).all()
    assert (narrow.q >= robot.lower).all()


@pytest.mark.parametrize("is_solved", [True, False])
def test_limits_that_leave_no_solution_end_with_the_best_error(is_solved: bool) -> None:
    robot = arm_of("planar3")
    pose = robot.fk(np.zeros(3))  # only a stretched arm reaches the pose
    constraints = Constraints(limits={"joint_2": (0.5, 1.0)})
    sampler = sampler_of("planar3", "position").with_constraints(constraints)
    samples = sampler.sample(pose, 5, timeout=0.2, seed=0) if is_solved else sampler.propose(pose, 5, seed=0)
    assert samples.error_code == (ErrorCode.TIMED_OUT if is_solved else ErrorCode.NO_IK_SOLUTION)
    assert not samples
    assert not samples.valid.any()
    assert samples.best_attempt is not None
    assert len(samples) == (0 if is_solved else 5)
    if is_solved:
        best = 2.0 - 2.0 * np.cos(0.25)  # the first two links span 2 cos 0.25 m, and the third link spans 1 m
        assert_no_solution(samples)
        assert samples.best_attempt_error[0] == pytest.approx(best, abs=1e-3)
        assert "off by" in samples.message


def test_no_time_ends_at_once_with_the_best_error_and_a_code() -> None:
    samples = (
        sampler_of("panda", "pose")
        .with_constraints(fixed={"panda_joint1": 2.8})
        .sample(reachable_pose(arm_of("panda")), 100000, diversity=0.5, timeout=0.0, seed=0)
    )
    assert samples.error_code == ErrorCode.TIMED_OUT
    assert len(samples) >= 1


def test_all_joints_fixed_leave_one_configuration() -> None:
    robot = arm_of("panda")
    q = robot.random(1, np.random.default_rng(2))[0]
    constraints = Constraints(fixed=dict(zip(robot.joint_names, q.tolist(), strict=True)))
    samples = sampler_of("panda", "pose").with_constraints(constraints).sample(robot.fk(q), 5, timeout=ENOUGH, seed=0)
    assert samples.q.tolist() == [q.tolist()]
    assert samples and samples.valid.all()


def test_one_joint_and_fifty() -> None:
    one = arm_of("one_joint")
    pose = one.fk(np.array([0.4]))
    for limits, n_valid in (((0.0, 1.0), 1), ((-1.0, 0.0), 0)):
        sampler = sampler_of("one_joint", "pose").with_constraints(limits={"j0": limits})
        found = sampler.sample(pose, 3, timeout=1.0, seed=0)
        assert found.valid.sum() == n_valid
    fifty = fifty_joints()
    fixed = {f"j{i}": 0.1 for i in range(40)}
    samples = (
        Sampler(model=broad_model(fifty, "position"))
        .with_constraints(fixed=fixed)
        .sample(fifty.fk(np.full(50, 0.1)), 10, timeout=ENOUGH, seed=0)
    )
    assert samples.valid.sum() == 10
    assert (samples.q[:, :40] == 0.1).all()


def test_continuous_joint_is_fixed_on_the_circle_and_narrowed_within_a_turn() -> None:
    robot = arm_of("continuous")
    turned = Constraints(fixed={"j0": 0.3 + 4.0 * np.pi}).bounds(robot)
    assert turned[0][0] == turned[1][0] == pytest.approx(0.3, abs=1e-12)
    pose = robot.fk(np.array([0.5, -1.0, 0.7]))
    samples = (
        sampler_of("continuous", "position")
        .with_constraints(limits={"j0": (-0.2, 1.0)})
        .sample(pose, 50, timeout=ENOUGH, seed=0)
    )
    assert samples and samples.valid.all()
    assert ((samples.q[:, 0] >= -0.2) & (samples.q[:, 0] <= 1.0)).all()


@pytest.mark.parametrize(
    ("limits", "fixed", "reason"),
    [
        ({"elbow": (0.0, 1.0)}, {}, "no joint 'elbow'"),
        ({}, {"elbow": 0.0}, "no joint 'elbow'"),
        ({"panda_joint1": (1.0, 0.0)}, {}, "lower limit 1 of joint 'panda_joint1' exceeds its upper limit 0"),
        ({"panda_joint1": (np.nan, 0.0)}, {}, "must be numbers, not NaN"),
        ({"panda_joint1": (3.0, np.inf)}, {}, "lower limit 3 of joint 'panda_joint1' exceeds its upper limit 2.8973"),
        ({"panda_joint1": (-3.0, 0.0)}, {}, "exceed the robot's, -2.8973 to 2.8973"),
        ({}, {"panda_joint1": 3.0}, "fixed at 3: give a value within its limits"),
        ({}, {"panda_joint1": np.nan}, "fixed at nan"),
        ({"panda_joint1": (0.0, 1.0)}, {"panda_joint1": -0.5}, "fixed at -0.5: give a value within its limits 0 to 1"),
    ],
)
def test_contradictions_are_refused(limits: dict, fixed: dict, reason: str) -> None:
    with pytest.raises(ConstraintError, match=reason):
        sampler_of("panda", "pose").with_constraints(Constraints(limits, fixed)).sample(np.eye(4), 5, seed=0)
