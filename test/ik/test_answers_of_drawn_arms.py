"""For random requests to random arms, answers reach the pose within the limits, or an error gives the reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ik.arms import arm_and_oracle, sampler_of
from kinematics.descriptions import chain_urdf, joint
from kinematics.oracle import Oracle

from eim_ros.core.errors import EimError
from eim_ros.ik import Constraints, ErrorCode, Posture, Sampler
from eim_ros.kinematics import Robot

TOLERANCE = 1e-6  # default tolerance of a request [m], [rad]
ROUNDING = 1e-9  # difference between our forward kinematics and pinocchio's
SEEDS = st.integers(0, 2**32 - 1)
length = st.floats(-0.6, 0.6)
texts = st.text(max_size=5)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | texts | st.binary(max_size=5) | st.complex_numbers()
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=7) | st.dictionaries(texts, inner, max_size=3) | st.tuples(inner),
    max_leaves=20,
)
OPTIONS = ("pose", "n", "near", "posture", "order", "diversity", "seed", "timeout")


@st.composite
def arms(draw: st.DrawFn) -> tuple[Robot, Oracle]:
    """Draw arms with three to seven joints along coordinate axes, links of random length, and a tool."""
    joints = []
    n = draw(st.integers(3, 7))
    for i in range(n):
        kind = draw(st.sampled_from(["revolute", "revolute", "revolute", "continuous", "prismatic"]))
        axis = draw(st.sampled_from(["1 0 0", "0 1 0", "0 0 1"]))
        xyz = " ".join(map(repr, draw(st.tuples(length, length, length))))
        limit = '<limit lower="-0.8" upper="2.5" effort="1" velocity="1"/>'
        joints.append(joint(f"j{i}", kind, f"l{i}", f"l{i + 1}", f'<origin xyz="{xyz}"/><axis xyz="{axis}"/>{limit}'))
    joints.append(joint("tool", "fixed", f"l{n}", f"l{n + 1}", '<origin xyz="0.1 0.2 0.3" rpy="0.1 0.2 0.3"/>'))
    urdf = chain_urdf(*joints)
    robot = Robot(urdf)
    return robot, Oracle(urdf, robot)


def check(robot: Robot, oracle: Oracle, rows: np.ndarray, pose: np.ndarray) -> None:
    for row in rows:
        assert (row >= robot.lower)[~robot.continuous].all() and (row <= robot.upper)[~robot.continuous].all()
        position, orientation = oracle.errors(row, pose)
        assert position <= TOLERANCE + ROUNDING and orientation <= TOLERANCE + ROUNDING


@settings(max_examples=100)
@given(arms(), SEEDS, st.integers(1, 20))
def test_solutions_are_within_limits_and_reach_the_pose(arm: tuple[Robot, Oracle], seed: int, n: int) -> None:
    robot, oracle = arm
    pose = robot.fk(robot.random(seed=np.random.default_rng(seed)))
    samples = Sampler(robot).sample(pose, n, timeout=0.1, seed=seed)
    check(robot, oracle, samples.q[samples.valid], pose)
    assert len(samples) <= n


@settings(max_examples=25)
@given(st.sampled_from(["panda", "gen3", "six_joints", "continuous"]), SEEDS, st.floats(0.05, 1.0))
def test_path_reaches_its_poses_and_does_not_jump_where_it_says_so(name: str, seed: int, reach: float) -> None:
    robot, oracle = arm_and_oracle(name)
    rng = np.random.default_rng(seed)
    start, end = robot.random(2, rng)
    poses = robot.fk(start + np.linspace(0.0, reach, 12)[:, None] * (end - start))
    path = Sampler(robot).follow(poses, near=start, timeout=0.5, seed=seed, n_candidates=16)
    for row, valid, pose in zip(path.q, path.valid, poses, strict=True):
        check(robot, oracle, row[None][: int(valid)], pose)
    if path.error_code == ErrorCode.SUCCESS:
        steps = np.diff(path.q, axis=0)
        wrapped = (steps + np.pi) % (2.0 * np.pi) - np.pi
        assert path.valid.all()
        assert np.abs(np.where(robot.continuous, wrapped, steps)).max(initial=0.0) <= 0.3 + ROUNDING


@pytest.mark.parametrize("option", OPTIONS)
@settings(max_examples=60)
@given(anything)
def test_option_of_any_kind_is_taken_or_refused(option: str, value: Any) -> None:
    sampler = sampler_of("planar3", "position")
    asked = {"pose": np.eye(4), "n": 2, "timeout": 0.01, option: value}
    if isinstance(asked["n"], int) and asked["n"] > 100:  # a valid argument, but the call would take long
        return
    try:
        sampler.sample(**asked)
    except EimError as error:
        assert str(error)


@settings(max_examples=200)
@given(
    st.sampled_from(["limits", "fixed", "obstacles", "tolerances", "links", "clearance", "self_collision"]), anything
)
def test_constraint_of_any_kind_is_taken_or_refused(name: str, value: Any) -> None:
    try:
        Constraints(**{name: value}).check(arm_and_oracle("panda")[0])
    except EimError as error:
        assert str(error)


@settings(max_examples=200)
@given(anything, anything)
def test_posture_of_any_kind_is_taken_or_refused(positions: Any, weights: Any) -> None:
    try:
        Posture(positions, weights).of(arm_and_oracle("panda")[0])
    except EimError as error:
        assert str(error)
