"""Several poses in one call: answered as each would be alone, and a hard one does not use up the time of the others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from ik.arms import arm_and_oracle, arm_of, sampler_of

from eim_ros.errors import ConfigurationError, PoseError
from eim_ros.ik import ErrorCode, Samples, sample_batch
from eim_ros.ik.request import SampleRequest

ENOUGH = 60.0  # [s]


def poses_of(name: str, n: int) -> np.ndarray:
    robot = arm_of(name)
    return robot.forward(0.7 * robot.sample_configurations(n, np.random.default_rng(0)))


@pytest.mark.parametrize(("name", "kind"), [("panda", "pose"), ("planar10", "position")])
def test_each_pose_is_answered_as_it_would_be_alone(name: str, kind: str) -> None:
    (robot, oracle), sampler, poses = arm_and_oracle(name), sampler_of(name, kind), poses_of(name, 4)
    answers = sample_batch(sampler, poses, 12, 5, timeout=ENOUGH, order="limits")
    assert len(answers) == 4
    for index, (answer, pose) in enumerate(zip(answers, poses, strict=True)):
        alone = sampler.sample(pose, 12, 5 + index, timeout=ENOUGH, order="limits")
        np.testing.assert_array_equal(answer.positions, alone.positions)
        assert answer.valid.all()
        for q in answer.positions:
            assert np.linalg.norm(oracle.forward(q)[:3, 3] - pose[:3, 3]) <= 1e-6 + 1e-10
    assert robot.within_limits(np.concatenate([answer.positions for answer in answers])).all()


def test_pose_out_of_reach_has_an_outcome_of_its_own() -> None:
    poses = poses_of("panda", 3)
    poses[1, 0, 3] = 9.0
    answers = sample_batch(sampler_of("panda", "pose"), poses, 8, 0, timeout=ENOUGH)
    assert [answer.error_code for answer in answers] == [
        ErrorCode.SUCCESS, ErrorCode.NO_IK_SOLUTION, ErrorCode.SUCCESS,
    ]  # fmt: skip
    assert [len(answer) for answer in answers] == [8, 1, 8]


def test_pose_that_takes_all_its_time_leaves_the_others_theirs() -> None:
    """The first wants more solutions than its share allows; nothing is said of how long that takes."""
    calls: list[float] = []
    sampler, poses = sampler_of("panda", "pose"), poses_of("panda", 3)

    class Recorded:
        def answer(self, request: SampleRequest) -> Samples:
            calls.append(request.timeout)
            is_hurried = np.array_equal(request.pose, poses[0]) and len(calls) == 1
            return sampler.answer(replace(request, timeout=0.0 if is_hurried else ENOUGH))

    answers = sample_batch(Recorded(), poses, 300, 0, timeout=ENOUGH)
    assert [answer.error_code for answer in answers] == [ErrorCode.SUCCESS] * 3
    assert [len(answer) for answer in answers] == [300] * 3
    assert len(calls) == 4
    assert calls[0] == pytest.approx(ENOUGH / 3, rel=0.1)
    assert calls[3] > 1.5 * calls[0]  # again, with all that is left


def test_without_time_each_pose_gets_one_round() -> None:
    answers = sample_batch(sampler_of("panda", "pose"), poses_of("panda", 3), 300, 0, timeout=0.0)
    assert [answer.error_code for answer in answers] == [ErrorCode.TIMED_OUT] * 3


@pytest.mark.parametrize("poses", [np.eye(4), np.empty((0, 4, 4)), np.full((2, 4, 4), np.nan)])
def test_bad_poses_are_refused(poses: np.ndarray) -> None:
    with pytest.raises(PoseError):
        sample_batch(sampler_of("panda", "pose"), poses, 3, 0)


@pytest.mark.parametrize("timeout", [np.nan, -1.0, "1"])
def test_bad_timeout_is_refused(timeout: float) -> None:
    with pytest.raises(ConfigurationError, match="timeout must"):
        sample_batch(sampler_of("panda", "pose"), poses_of("panda", 1), 4, 0, timeout=timeout)


def test_bad_options_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="n must be at least 1"):
        sample_batch(sampler_of("panda", "pose"), poses_of("panda", 2), 0, 0)
