"""One engine answers all requests: a batch has the same rows for a pose as a call with this pose alone."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ik.arms import arm_and_oracle, arm_of

from eim_ros.ik import ErrorCode, Sampler, Solutions
from eim_ros.ik.solutions import SCHEMA
from eim_ros.kinematics import Box

ENOUGH = 60.0  # [s]
N_POSES = 12
FREE_Z = [0.0, 0.0, 0.0, 0.0, 0.0, np.inf]
BALCONY = Box((0.3, 0.3, 0.3), at=(0.5, 0.4, 0.3))
NEAR = "near"  # placeholder for a configuration of the arm
REQUESTS: dict[str, tuple[Callable[..., Solutions], dict[str, Any]]] = {
    "solve": (Sampler.solve, {}),
    "solve near": (Sampler.solve, {"near": NEAR}),
    "sample 1": (Sampler.sample, {"n": 1}),
    "sample 4": (Sampler.sample, {"n": 4}),
    "sample 20": (Sampler.sample, {"n": 20}),
    "sample 20 near": (Sampler.sample, {"n": 20, "near": NEAR}),
    "sample 5, diverse": (Sampler.sample, {"n": 5, "diversity": 0.5}),
    "sample 5 by manipulability": (Sampler.sample, {"n": 5, "order": "manipulability"}),
    "solve_all": (Sampler.solve_all, {}),
}
ARMS: dict[str, Callable[[], Sampler]] = {
    "ur5e": lambda: Sampler("ur5e"),
    "ur5e, any orientation": lambda: Sampler("ur5e").with_constraints(position_only=True),
    "panda": lambda: Sampler("panda"),
    "panda, obstacle": lambda: Sampler("panda").with_obstacles([BALCONY]),
    "panda, free axis": lambda: Sampler("panda").with_constraints(tolerances=FREE_Z),
    "panda, model": lambda: Sampler.load("panda_pose"),
    "panda, model with preferences": lambda: Sampler.load("panda_table"),
    "iiwa14, narrow": lambda: Sampler("iiwa14").with_constraints(limits={"joint_a3": (-0.5, 0.4)}),
    "gen3": lambda: Sampler("gen3"),
    "fetch": lambda: Sampler("fetch"),
}


def poses_of(sampler: Sampler, n: int = N_POSES, seed: int = 3) -> np.ndarray:
    """Return poses (n, 4, 4); every sixth pose is out of reach."""
    poses = sampler.robot.fk(sampler.robot.random(n, np.random.default_rng(seed)))
    poses[::6, :3, 3] *= 3.0
    return poses


def arguments(sampler: Sampler, asked: dict[str, Any]) -> dict[str, Any]:
    return asked | ({"near": sampler.robot.random(1, np.random.default_rng(9))[0]} if NEAR in asked else {})


@pytest.mark.parametrize("request_", REQUESTS)
@pytest.mark.parametrize("arm", ARMS)
def test_batch_has_the_answers_to_single_poses(arm: str, request_: str) -> None:
    if request_ == "solve_all" and arm in ("panda, free axis", "ur5e, any orientation", "fetch"):
        return  # solutions form surfaces, and a search on a surface uses the complete timeout
    sampler, (operation, asked) = ARMS[arm](), REQUESTS[request_]
    poses, asked = poses_of(sampler), arguments(sampler, asked)
    (together,) = sampler.stream(poses, operation, n_threads=1, seed=5, timeout=ENOUGH, **asked)
    blocks = list(sampler.stream(poses, operation, block=5, n_threads=3, seed=5, timeout=ENOUGH, **asked))
    parts = Solutions.concatenate(blocks)
    assert [block.n_poses for block in blocks] == [5, 5, 2]
    for column in SCHEMA:
        if column.name not in ("times", "messages", "reports"):  # because the numbers of restarts differ
            np.testing.assert_array_equal(getattr(parts, column.name), getattr(together, column.name), column.name)
    n_found = 0
    for index, (answer, pose) in enumerate(zip(together.by_pose(), poses, strict=True)):
        if not answer:  # a single call would search until its deadline
            continue
        n_found += 1
        alone = operation(sampler, pose, seed=5 + index, timeout=ENOUGH, **asked)
        for column in SCHEMA:
            if column.name not in ("times", "messages", "reports"):
                one, other = getattr(answer, column.name), getattr(alone, column.name)
                np.testing.assert_array_equal(one, other, column.name)
                assert one.dtype == other.dtype
        assert answer.messages == alone.messages
        assert str(answer.reports) == str(alone.reports)
    assert n_found >= (2 if "narrow" in arm else N_POSES // 2)


@pytest.mark.parametrize("near", [False, True])
@pytest.mark.parametrize(("name", "asked"), [
    ("panda", {}), ("ur5", {"position_only": True}), ("all_types", {}), ("iiwa14", {"position_only": True}),
    ("ur5", {"tolerances": FREE_Z}), ("gen3", {}),
])  # fmt: skip
def test_rows_of_batches_are_solutions(name: str, asked: dict[str, Any], near: bool) -> None:
    robot, oracle = arm_and_oracle(name)
    sampler, poses = Sampler(robot).with_constraints(**asked), robot.fk(0.7 * robot.random(8, np.random.default_rng(0)))
    for n in (1, 3, 20):
        q = robot.random(1, np.random.default_rng(1))[0] if near else None
        answers = sampler.sample_batch(poses, n, near=q, timeout=ENOUGH, seed=0)
        for answer, pose in zip(answers.by_pose(), poses, strict=True):
            assert answer and answer.valid.all() and len(answer) <= n, answer.message
            for tip in map(oracle.forward, answer.q):
                assert np.linalg.norm(tip[:3, 3] - pose[:3, 3]) <= 1e-6 + 1e-10
                assert asked or np.linalg.norm(tip[:3, :3] - pose[:3, :3]) <= 4e-6
            inside = np.where(robot.continuous, (answer.q + np.pi) % (2 * np.pi) - np.pi, answer.q)
            assert robot.within_limits(inside).all()
            apart = np.abs(answer.q[:, None] - answer.q[None]).max(axis=-1)
            assert (apart[~np.eye(len(answer), dtype=bool)] > 0.01).all()


@pytest.mark.parametrize("arm", ["ur5e", "panda", "gen3", "panda, model", "panda, model with preferences"])
@pytest.mark.parametrize("request_", ["solve", "solve near", "sample 20", "sample 20 near", "solve_all"])
def test_batch_calls_no_python_function_for_each_pose(arm: str, request_: str) -> None:
    """A batch calls only a few small constructors for each pose, so other threads can run."""
    if "model" in arm and request_ == "solve_all":
        return  # this request needs a density for each pose
    sampler, (operation, asked) = ARMS[arm](), REQUESTS[request_]
    asked = arguments(sampler, asked)

    def n_calls(n: int) -> int:
        poses, calls = np.tile(poses_of(sampler, 20)[1:2], (n, 1, 1)), 0

        def count(frame: Any, event: str, argument: Any) -> None:
            nonlocal calls
            calls += event == "call"

        sys.setprofile(count)
        try:
            (answers,) = sampler.stream(poses, operation, block=n, n_threads=1, seed=5, timeout=ENOUGH, **asked)
        finally:
            sys.setprofile(None)
        assert answers.n_valid.all()
        return calls

    n_calls(1)
    assert (n_calls(240) - n_calls(40)) / 200 <= 12.0


def test_other_threads_run_during_a_long_call_for_one_pose() -> None:
    """A long call releases the interpreter's lock. In this test, the interpreter itself does not switch threads."""
    sampler, is_over, n_turns = Sampler("fetch"), threading.Event(), 0  # with eight joints, no proof ends the search

    def take_turns() -> None:
        nonlocal n_turns
        while not is_over.wait(1e-3):
            n_turns += 1

    thread, interval = threading.Thread(target=take_turns, daemon=True), sys.getswitchinterval()
    sys.setswitchinterval(ENOUGH)
    try:
        thread.start()
        before = n_turns
        answer = sampler.solve([0.05, 0.0, 0.1, 1.0, 0.0, 0.0, 0.0], timeout=0.3, seed=0)
        n_during = n_turns - before
    finally:
        sys.setswitchinterval(interval)
        is_over.set()
        thread.join()
    assert answer.error_code == ErrorCode.TIMED_OUT and n_during >= 5


def test_each_root_is_chosen_equally_often() -> None:
    sampler = Sampler("ur5e")
    pose = [0.4, 0.1, 0.3, 1.0, 0.0, 0.0, 0.0]
    roots = sampler.sample(pose, 8, seed=0).q
    found = np.array([sampler.solve(pose, seed=seed).q[0] for seed in range(800)])
    nearest = np.abs(found[:, None] - roots).max(axis=2)
    assert nearest.min(axis=1).max() < 1e-9
    counts = np.bincount(nearest.argmin(axis=1), minlength=len(roots))
    assert len(roots) == 8
    assert abs(counts - 100).max() < 40  # four standard deviations of a binomial distribution


def test_changed_samplers_have_their_own_engines() -> None:
    sampler = Sampler("ur5e")
    pose = sampler.robot.fk([0.1, -1.0, 1.5, 0.3, 0.4, 0.5])
    assert len(sampler.solve_all(pose)) > 1
    fixed = sampler.with_constraints(fixed={"shoulder_pan_joint": 0.1})
    assert (fixed.solve_all(pose).q[:, 0] == 0.1).all()
    longer = sampler.with_tool([0.0, 0.0, 0.1])
    np.testing.assert_allclose(longer.robot.fk(longer.solve(pose, seed=0).q)[0], pose, atol=1e-6)
    assert len(sampler.solve_all(pose, order="manipulability")) == len(sampler.solve_all(pose))


def test_references_of_successive_requests_do_not_mix() -> None:
    sampler, rng = Sampler(arm_of("panda")), np.random.default_rng(0)
    pose = poses_of(sampler)[1]
    for near in sampler.robot.random(5, rng):
        q = sampler.solve(pose, near=near, timeout=ENOUGH).q[0]
        away = np.linalg.norm(sampler.sample(pose, 200, seed=0).q - near, axis=1)
        assert np.linalg.norm(q - near) <= away.min() + 1e-6


def test_search_without_end_of_time_ends() -> None:
    solutions = Sampler("planar3").sample([0.5, 0.1, 0.2], 2, timeout=np.inf, seed=0)
    assert len(solutions) == 0 and solutions.error_code == ErrorCode.NO_IK_SOLUTION
