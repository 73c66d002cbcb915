"""With a branch as a constraint, answers contain all solutions of this branch and no others."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from kinematics.branch_judge import ARMS, labels_of

from eim_ros.core.errors import ConfigurationError, ConstraintError, KeywordError
from eim_ros.ik import Completeness, ErrorCode, Sampler
from eim_ros.kinematics import Robot, Sphere
from eim_ros.kinematics.branches import NAMES

ENOUGH = 60.0  # [s]
SIX_JOINTS = [name for name in ARMS if name != "iiwa 14"]
UP = {"elbow": "up"}
IIWA = Sampler("iiwa14")


def judged(name: str, q: np.ndarray, branch: dict[str, str]) -> np.ndarray:
    wanted = [branch.get(key) for key in NAMES]
    labels = labels_of(ARMS[name], q)
    return np.array([all(want in (None, label) for want, label in zip(wanted, row, strict=True)) for row in labels])


def iiwa_pose(seed: int) -> np.ndarray:
    return IIWA.robot.fk(IIWA.robot.random(seed=seed))


@pytest.mark.parametrize("name", SIX_JOINTS)
def test_branches_divide_the_complete_set(name: str) -> None:
    sampler = Sampler(Robot(ARMS[name].urdf))
    by_branch = [
        (branch, sampler.with_constraints(branch=branch))
        for labels in itertools.product(*NAMES.values())
        for branch in [dict(zip(NAMES, labels, strict=True))]
    ]
    upper = sampler.with_constraints(branch=UP)
    for q in sampler.robot.random(10, seed=0):
        pose = sampler.robot.fk(q)
        everything = sampler.solve_all(pose, guarantee="certified", timeout=ENOUGH)
        up = upper.solve_all(pose, guarantee="certified", timeout=ENOUGH)
        assert up.certified and len(up) == up.n_total == judged(name, everything.q, UP).sum()
        counts = []
        for branch, own in by_branch:
            found = own.solve_all(pose, timeout=ENOUGH)
            counts.append(len(found))
            assert found.is_complete and found.n_total == len(found) == judged(name, everything.q, branch).sum()
            assert judged(name, found.q, branch).all()
            assert bool(found) or found.error_code == ErrorCode.NO_IK_SOLUTION
        assert sum(counts) == len(everything)


@pytest.mark.parametrize("bend", [1e-3, 1e-4, 1e-5])
def test_two_solutions_on_both_sides_of_a_stretched_elbow_are_in_two_branches(bend: float) -> None:
    """The two solutions differ by less than 0.01 rad."""
    sampler, name = Sampler(Robot(ARMS["ABB IRB 120"].urdf)), "ABB IRB 120"
    pose = sampler.robot.fk([0.3, 0.4, bend - np.arctan2(0.302, 0.07), 0.5, 0.6, 0.7])
    sets = [sampler.with_constraints(branch={"elbow": label}).solve_all(pose) for label in ("up", "down")]
    assert len(sampler.solve_all(pose)) == len(sets[0]) + len(sets[1])
    assert len(sets[0]) == len(sets[1])
    for label, found in zip(("up", "down"), sets, strict=True):
        assert found.is_complete and found.certified
        assert judged(name, found.q, {"elbow": label}).all()


def test_every_operation_stays_in_the_branch() -> None:
    branch = {"shoulder": "left", "elbow": "up", "wrist": "flip"}
    sampler, near = IIWA.with_constraints(branch=branch), np.zeros(7)
    q = next(q for q in IIWA.robot.random(100, seed=1) if IIWA.robot.branches.matches([q], branch)[0])
    pose = IIWA.robot.fk(q)
    line = np.repeat(pose[None], 5, axis=0)
    line[:, :3, 3] *= np.linspace(1.0, 0.97, 5)[:, None]  # a line towards the base
    options = {"seed": 0, "timeout": ENOUGH}
    answers = [
        sampler.solve(pose, **options),
        sampler.solve(pose, near, **options),
        sampler.solve(pose, {"joint_a3": 0.0}, **options),
        sampler.sample(pose, 50, **options),
        sampler.draw(pose, 50, **options),
        sampler.solve_all(pose, **options),
        sampler.solve_batch(line, **options),
        sampler.follow(line, q, **options),
    ]
    for answer in answers:
        assert answer and judged("iiwa 14", answer.q, branch).all()


@pytest.mark.parametrize("label", ["up", "down"])
def test_every_solution_of_the_branch_is_near_one_of_the_answer(label: str) -> None:
    """At the second pose, an arc of solutions with the elbow down is shorter than the spacing."""
    sampler, spacing = IIWA.with_constraints(branch={"elbow": label}), 0.3
    for seed in (0, 25):
        pose = iiwa_pose(seed)
        found = sampler.solve_all(pose, spacing, Completeness(missed_share=0.01), seed=0, timeout=ENOUGH)
        others = sampler.draw(pose, 1000, seed=1, timeout=ENOUGH).q
        others = others[judged("iiwa 14", others, {"elbow": label})]
        away = [np.linalg.norm(found.q - q, axis=1).min() for q in others]
        assert len(others) and max(away) <= spacing
        assert judged("iiwa 14", found.q, {"elbow": label}).all()


def test_branch_without_solution_is_told_from_a_pose_without_one() -> None:
    robot = Robot("ur5e")
    q = robot.random(seed=0)
    own = {name: str(labels[0]) for name, labels in robot.branches.labels(q[None]).items()}
    other = {**own, "wrist": "flip" if own["wrist"] == "no-flip" else "no-flip"}
    limits = dict(zip(robot.joint_names, zip(q - 0.1, q + 0.1, strict=True), strict=True))
    sampler = Sampler(robot).with_constraints(limits=limits)
    assert len(sampler.with_constraints(branch=own).solve_all(robot.fk(q))) == 1
    answer = sampler.with_constraints(branch=other).solve_all(robot.fk(q))
    assert (answer.error_code, answer.n_total, answer.is_complete) == (ErrorCode.NO_IK_SOLUTION, 0.0, True)
    assert "in other branches" in answer.message
    ball = [Sphere(robot.skeleton(q)[3], 0.02)]
    answer = Sampler(robot).with_constraints(branch=own, obstacles=ball).solve_all(robot.fk(q))
    assert answer.error_code == ErrorCode.GOAL_IN_COLLISION
    assert "collide, or are not in the branch" in answer.message


def test_answers_have_labels() -> None:
    poses = [iiwa_pose(seed) for seed in range(3)]
    answer = IIWA.sample_batch(poses, 20, seed=0, timeout=ENOUGH)
    labels = list(zip(*(answer.branches[name].tolist() for name in NAMES), strict=True))
    assert labels == labels_of(ARMS["iiwa 14"], answer.q)
    np.testing.assert_array_equal(answer[5:9].branches["elbow"], answer.branches["elbow"][5:9])
    np.testing.assert_array_equal(answer.pose(1).branches["wrist"], answer.branches["wrist"][20:40])
    assert Sampler("panda").solve([0.4, 0.1, 0.5]).branches == {}
    with pytest.raises(ConfigurationError, match=r"robot\.branches\.labels"):
        _ = pickle.loads(pickle.dumps(answer)).branches


def test_branch_must_be_known_and_defined() -> None:
    with pytest.raises(ConstraintError, match="'elbow' is not defined for robot 'panda', because its first three"):
        Sampler("panda").with_constraints(branch=UP)
    with pytest.raises(ConstraintError, match="did you mean elbow"):
        IIWA.with_constraints(branch={"elbows": "up"})
    with pytest.raises(ConstraintError, match="branch must map names to values"):
        IIWA.with_constraints(branch="up")  # type: ignore[arg-type]
    with pytest.raises(KeywordError, match="branch"):
        IIWA.with_constraints(branches=UP)
