"""Shortcuts for plain requests give the answers of the strategies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eim_ros.ik import Completeness, Constraints, Posture, Sampler
from eim_ros.ik.order import AS_FOUND, Ordering
from eim_ros.ik.problem import ONE, Aim, Covering, Draws, Spread
from eim_ros.ik.shortcuts import ByFirstRound, ByRoots, shortcut_of
from eim_ros.ik.solutions import SCHEMA
from eim_ros.kinematics import Box

N_POSES = 30


def poses_of(sampler: Sampler) -> np.ndarray:
    """Return poses (N_POSES, 4, 4); some are out of reach."""
    poses = sampler.robot.fk(sampler.robot.random(N_POSES, np.random.default_rng(3)))
    poses[::10, :3, 3] *= 1.6
    return poses


@pytest.mark.parametrize("name", ["ur5e", "panda", "fetch"])
@pytest.mark.parametrize("aim", [ONE, Spread(2), Spread(4), Spread(8), Covering(0.3)], ids=str)
def test_shortcut_gives_the_answers_of_the_strategies(name: str, aim: Aim) -> None:
    sampler = Sampler(name)
    shortcut = shortcut_of(sampler, aim)
    if shortcut is None:
        assert name != "ur5e" and aim.n > 4
        return
    n_short = 0
    for seed, pose in enumerate(poses_of(sampler)):
        short = shortcut.answer(pose, None, seed, np.inf)
        if short is None:
            continue
        n_short += 1
        full = sampler._solved(pose, None, aim, AS_FOUND, seed, np.inf)
        for column in SCHEMA:
            if column.name not in ("times", "messages", "reports"):
                values = getattr(short, column.name), getattr(full, column.name)
                np.testing.assert_array_equal(*values, err_msg=column.name)
                assert values[0].dtype == values[1].dtype
        assert short.messages == full.messages and short.robot is full.robot
        assert short.reports == full.reports
    assert n_short >= N_POSES // 3


def test_shortcut_to_the_nearest_solution_gives_the_answer_of_the_strategies() -> None:
    sampler, rng = Sampler("ur5e"), np.random.default_rng(4)
    shortcut = shortcut_of(sampler, ONE)
    assert shortcut is not None
    for pose in poses_of(sampler):
        near = sampler.robot.random(1, rng)[0]
        short = shortcut.answer(pose, near, None, np.inf)
        full = sampler._solved(pose, None, ONE, Ordering("distance", near), None, np.inf)
        assert short is None or short.messages == full.messages
        np.testing.assert_array_equal(sampler.solve(pose, near=near).q, full.q)


def test_shortcut_chooses_each_root_equally_often() -> None:
    sampler = Sampler("ur5e")
    pose = [0.4, 0.1, 0.3, 1.0, 0.0, 0.0, 0.0]
    roots = sampler.sample(pose, 8, seed=0).q
    found = np.array([sampler.solve(pose, seed=seed).q[0] for seed in range(800)])
    nearest = np.abs(found[:, None] - roots).max(axis=2)
    assert nearest.min(axis=1).max() < 1e-9
    counts = np.bincount(nearest.argmin(axis=1), minlength=len(roots))
    assert len(roots) == 8
    assert abs(counts - 100).max() < 40  # four standard deviations of a binomial distribution


def test_one_solution_of_a_batch_is_the_one_of_the_same_seed() -> None:
    sampler = Sampler("ur5e")
    poses = poses_of(sampler)[1:10]
    together = sampler.solve_batch(poses, seed=7)
    alone = [sampler.solve(pose, seed=7 + index).q for index, pose in enumerate(poses)]
    np.testing.assert_array_equal(together.q, np.concatenate(alone))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ByRoots),
        ({"limits": {"elbow_joint": (0.0, 3.0)}}, ByRoots),
        ({"position_only": True}, ByFirstRound),
        ({"tolerances": [0.0, 0.0, 0.0, 0.1, 0.1, 0.1]}, ByFirstRound),
        ({"self_collision": True}, type(None)),
        ({"branch": {"elbow": "up"}}, type(None)),
        ({"obstacles": [Box([2.0, 0.0, 0.0], [0.1, 0.1, 0.1])]}, type(None)),
    ],
)
def test_shortcut_depends_on_the_constraints(changes: dict[str, Any], expected: type) -> None:
    sampler = Sampler("ur5e").with_constraints(Constraints(**changes))
    assert type(shortcut_of(sampler, ONE)) is expected
    pose = sampler.robot.fk([0.1, -1.0, 1.5, 0.3, 0.4, 0.5])
    assert sampler.solve(pose, seed=0).valid.all()


def test_no_shortcut_for_draws_or_a_model() -> None:
    assert shortcut_of(Sampler("panda"), Draws(1)) is None
    assert shortcut_of(Sampler.load("panda_pose"), ONE) is None
    assert shortcut_of(Sampler("panda"), Covering(0.3, guarantee=Completeness())) is None


def test_other_constraints_and_tools_have_other_shortcuts() -> None:
    sampler = Sampler("ur5e")
    pose = sampler.robot.fk([0.1, -1.0, 1.5, 0.3, 0.4, 0.5])
    assert len(sampler.solve_all(pose)) > 1
    fixed = sampler.with_constraints(fixed={"shoulder_pan_joint": 0.1})
    assert (fixed.solve_all(pose).q[:, 0] == 0.1).all()
    longer = sampler.with_tool([0.0, 0.0, 0.1])
    np.testing.assert_allclose(longer.robot.fk(longer.solve(pose, seed=0).q)[0], pose, atol=1e-6)
    assert len(sampler.solve_all(pose, order="manipulability")) == len(sampler.solve_all(pose))
    assert sampler.sample(pose, 1, posture=Posture({"elbow_joint": -1.5})).q[0, 2] < 0.0
