"""Each pose of a batch has the answer of a single call, and a hard pose takes no time from other poses."""

from __future__ import annotations

import gc
import time
import tracemalloc
from typing import Any

import numpy as np
import pytest
from ik.arms import arm_of, assert_no_solution, broad_model, sampler_of

from eim_ros.core.errors import ConfigurationError, PoseError
from eim_ros.ik import ErrorCode, Sampler, Solutions
from eim_ros.ik.engine import Engine

ENOUGH = 60.0  # [s]


def poses_of(name: str, n: int) -> np.ndarray:
    robot = arm_of(name)
    return robot.fk(0.7 * robot.random(n, np.random.default_rng(0)))


def test_pose_that_takes_all_its_time_leaves_the_others_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first pose is given too little time. The test compares deadlines and does not measure durations."""
    shares, poses, one = list[float](), poses_of("panda", 3), Engine._one

    def recorded(engine: Engine, pose: np.ndarray, order: Any, seed: Any, deadline: float) -> Solutions:
        now = time.perf_counter()
        shares.append(deadline - now)
        is_hurried = np.array_equal(pose, poses[0]) and len(shares) == 1
        return one(engine, pose, order, seed, now + (0.0 if is_hurried else ENOUGH))

    monkeypatch.setattr(Engine, "_one", recorded)
    sampler = Sampler(model=broad_model(arm_of("panda"), "pose")).with_constraints(self_collision=True)
    answers = sampler.sample_batch(poses, 100, timeout=ENOUGH, seed=0)
    assert answers.error_codes.tolist() == [ErrorCode.SUCCESS] * 3
    assert answers.n_per_pose.tolist() == [100] * 3
    assert len(shares) == 4
    assert shares[0] == pytest.approx(ENOUGH / 3, rel=0.1)
    assert shares[3] > 1.5 * shares[0]  # the second attempt gets all of the remaining time


@pytest.mark.parametrize("n", [1, 300])
def test_without_time_nothing_is_begun(n: int) -> None:
    for sampler in (sampler_of("panda", "pose"), Sampler("panda")):
        answers = sampler.sample_batch(poses_of("panda", 3), n, timeout=0.0, seed=0)
        assert answers.error_codes.tolist() == [ErrorCode.TIMED_OUT] * 3
        assert answers.n_per_pose.tolist() == [0] * 3 and answers.q.shape == (0, 7)
        assert set(answers.messages) == {"timed out: the search for this pose did not start"}


@pytest.mark.parametrize("poses", [np.eye(4), np.empty((0, 4, 4))])
def test_bad_poses_are_refused(poses: np.ndarray) -> None:
    for call in (Sampler.sample_batch, Sampler.solve_batch, Sampler.stream):
        with pytest.raises(PoseError, match="n >= 1"):
            call(sampler_of("panda", "pose"), poses)


def test_pose_that_is_none_is_told_by_its_index() -> None:
    poses = poses_of("panda", 5)
    poses[3, 1, 2] = np.nan
    for call in (Sampler.sample_batch, Sampler.solve_batch, Sampler.stream):
        with pytest.raises(PoseError, match="pose 3 of 5: a pose must be finite, got"):
            call(sampler_of("panda", "pose"), poses)


def test_mixed_outcomes_side_by_side() -> None:
    poses = poses_of("panda", 4)
    poses[1, 0, 3], poses[2, :3, 3] = 9.0, [0.9, 0.0, 0.9]  # the first is far out of reach, the second barely
    answers = Sampler("panda").sample_batch(poses, 1, timeout=ENOUGH, seed=0)
    assert answers.error_codes.tolist() == [
        ErrorCode.SUCCESS, ErrorCode.NO_IK_SOLUTION, ErrorCode.NO_IK_SOLUTION, ErrorCode.SUCCESS,
    ]  # fmt: skip
    assert [answer.valid.tolist() for answer in answers.by_pose()] == [[True], [], [], [True]]
    assert answers
    assert answers.pose(0).best_attempt is None
    for answer, pose in zip(answers.poses([1, 2]).by_pose(), poses[1:3], strict=True):
        assert_no_solution(answer)
        away = np.linalg.norm(arm_of("panda").fk(answer.best_attempt)[:3, 3] - pose[:3, 3])
        assert away == pytest.approx(answer.best_attempt_error[0], abs=1e-9)
    assert answers.pose(1).message.startswith("there is no solution, because the distance to the target exceeds")
    assert answers.pose(1).best_attempt_error[0] > 7.0
    assert answers.n_per_pose.tolist() == answers.n_valid.tolist() == [1, 0, 0, 1]
    assert not Sampler("panda").sample_batch(poses[1:3], 1, timeout=ENOUGH, seed=0)
    for block in Sampler("panda").stream(poses[1:3], block=1, timeout=ENOUGH, seed=0, n=1):
        assert not block
        assert_no_solution(block)


def test_kept_answer_keeps_nothing_of_the_others() -> None:
    sampler, poses = Sampler("panda"), poses_of("panda", 2000)
    kept = [block.pose(0) for block in sampler.stream(poses, block=100, timeout=ENOUGH, seed=0, n=2)]
    assert all(answer.q.base is None for answer in kept)
    gc.collect()
    tracemalloc.start()
    for block in sampler.stream(poses, block=100, timeout=ENOUGH, seed=0, n=2):
        kept.append(block.pose(0))
        del block
    size, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 20 * 4096  # 112 bytes of positions, about the same for other columns, and Python's overhead
    assert peak < poses.nbytes + 300_000  # a copy of the poses and one block


def test_answers_to_single_poses_are_taken_out_of_a_batch() -> None:
    poses = poses_of("panda", 6)
    answers = Sampler("panda").sample_batch(poses, 2, timeout=ENOUGH, seed=0)
    np.testing.assert_array_equal(answers.pose(-1).q, answers.q[10:])
    with pytest.raises(IndexError):
        answers.pose(6)
    taken = answers.poses([4, 1])
    np.testing.assert_array_equal(taken.q, answers.q[[8, 9, 2, 3]])
    assert [len(answer) for answer in taken.by_pose()] == [2, 2]


@pytest.mark.parametrize("n_threads", [0, -1, 1.5, True, 5000])
def test_bad_number_of_threads_is_refused(n_threads: int) -> None:
    with pytest.raises(ConfigurationError, match="n_threads must be a whole number from 1 to 1024"):
        Sampler("panda").sample_batch(poses_of("panda", 1), 1, n_threads=n_threads)


@pytest.mark.parametrize("block", [0, 2.0, True])
def test_bad_block_is_refused_at_once(block: int) -> None:
    with pytest.raises(ConfigurationError, match="block must be a whole number"):
        Sampler("panda").stream(poses_of("panda", 1), block=block, n=1)


@pytest.mark.parametrize("timeout", [np.nan, -1.0, "1"])
def test_bad_timeout_is_refused(timeout: float) -> None:
    with pytest.raises(ConfigurationError, match="timeout must"):
        sampler_of("panda", "pose").sample_batch(poses_of("panda", 1), 4, timeout=timeout, seed=0)


def test_a_few_draws_of_each_pose_are_those_of_the_sampler() -> None:
    sampler = Sampler("panda")
    robot = sampler.robot
    poses = robot.fk(robot.random(2, np.random.default_rng(8)))
    (together,) = sampler.stream(poses, Sampler.draw, n=5, seed=3)
    for index, pose in enumerate(poses):
        alone = sampler.draw(pose, 5, "uniform", seed=3 + index)
        np.testing.assert_array_equal(together.pose(index).q, alone.q)
        assert together.pose(index).effective_sample_size == alone.effective_sample_size == 5.0
