"""From samples to responses of `ik_server`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from eim_ros.ik import ErrorCode, Samples
from eim_ros.ik.request import SampleRequest
from eim_ros.kinematics import Robot
from eim_ros.kinematics.links import following_joints
from eim_ros.nodes.common.interfaces import SampleIK, SampleIKBatch
from eim_ros.nodes.common.messages import float64_bytes, uint32_bytes


def fill(response: SampleIK.Response, wanted: SampleRequest, samples: Samples, deadline: float) -> None:
    """Copy samples into a response as flat row-major arrays (a list per sample would cost milliseconds).

    Log densities are left out of one configuration in the default order, and where they would take longer than until
    the deadline, a time of `perf_counter` [s].
    """
    response.error_code = int(samples.error_code)
    response.message = samples.message
    response.missed_share = 1.0
    if (found := samples.completeness) is not None:
        response.family_lengths.frombytes(float64_bytes(found.lengths))
        response.family_closed, response.family_traced = found.closed.tolist(), found.traced.tolist()
        response.missed_share, response.confidence = found.missed_share, found.confidence
        response.whole = found.is_whole
    response.effective_size = samples.effective_size or 0.0
    if samples.best_attempt is not None:
        response.best_attempt.frombytes(float64_bytes(samples.best_attempt))
    _write(response, wanted, [samples], deadline)


def fill_batch(
    response: SampleIKBatch.Response, wanted: SampleRequest, answers: Sequence[Samples], deadline: float
) -> None:
    """Copy the samples of each pose into a response, one after the other; log densities of all, or of none."""
    answers = list(answers)  # a batch makes the samples of a pose whenever they are looked at
    failed = [index for index, samples in enumerate(answers) if samples.error_code != ErrorCode.SUCCESS]
    first = failed[0] if failed else 0
    response.error_code, response.message = int(answers[first].error_code), answers[first].message
    if failed:
        response.message = f"{len(failed)} of {len(answers)} poses, the first of them pose {first}: {response.message}"
    response.n_per_pose = [len(samples) for samples in answers]
    response.error_codes = [int(samples.error_code) for samples in answers]
    families = [samples.completeness for samples in answers]
    response.n_families = [0 if found is None else found.n_families for found in families]
    response.missed_share = [1.0 if found is None else found.missed_share for found in families]
    response.whole = [found is not None and found.is_whole for found in families]
    response.effective_size = [samples.effective_size or 0.0 for samples in answers]
    not_begun = np.full(len(answers[0].joint_names), np.nan)
    for samples in filter(lambda samples: not samples, answers):
        attempt = not_begun if samples.best_attempt is None else samples.best_attempt
        response.best_attempt.frombytes(float64_bytes(attempt))
    _write(response, wanted, answers, deadline)


def fill_nearest(response: Any, state: Any, robot: Robot, q: np.ndarray, remark: str) -> None:
    """Give a state back with the chain's joints at a solution (dof,), and those that follow them where they are named.

    Parameters
    ----------
    response : GetPositionIK.Response
        Ours or MoveIt's.
    state : RobotState
        That of the request: whatever it says beside the joints of the chain is the answer's, too.
    robot : Robot
    q : (dof,) array
    remark : str
        For the message.
    """
    solved = dict(zip(robot.joint_names, q.tolist(), strict=True))
    followers = following_joints(robot)
    given = dict(zip(state.joint_state.name, state.joint_state.position, strict=True))
    for name in given.keys() & followers.keys():
        mimic = followers[name]
        given[name] = mimic.multiplier * solved[mimic.joint] + mimic.offset
    joints = {**given, **solved}
    solution = response.solution
    solution.joint_state.header = state.joint_state.header
    solution.joint_state.name, solution.joint_state.position = list(joints), list(joints.values())
    for field in ("multi_dof_joint_state", "attached_collision_objects", "is_diff"):
        if hasattr(state, field):  # the first two are MoveIt's alone
            setattr(solution, field, getattr(state, field))
    put_code(response, ErrorCode.SUCCESS, remark)


def put_code(response: Any, code: ErrorCode, message: str) -> None:
    """Set error code and message of a `GetPositionIK.Response`, ours or MoveIt's."""
    response.error_code.val = int(code)
    if hasattr(response.error_code, "message"):  # MoveIt's has none in older releases
        response.error_code.message = message


def _write(
    response: SampleIK.Response | SampleIKBatch.Response,
    wanted: SampleRequest,
    answers: Sequence[Samples],
    deadline: float,
) -> None:
    response.joint_names = list(answers[0].joint_names)
    response.n = sum(map(len, answers))
    columns = ["positions", "position_error", "orientation_error"]
    if _has_densities(wanted, answers, deadline):
        columns.append("log_prob")
    for name in columns:
        getattr(response, name).frombytes(b"".join(float64_bytes(getattr(samples, name)) for samples in answers))
    response.valid = [valid for samples in answers for valid in samples.valid.tolist()]
    response.expert.frombytes(uint32_bytes(np.concatenate([samples.expert for samples in answers])))


def _has_densities(wanted: SampleRequest, answers: Sequence[Samples], deadline: float) -> bool:
    """Whether log densities are told: they are known already, or somebody may want them and there is time left."""
    seconds = sum(samples.seconds_of_density for samples in answers)
    is_wanted = wanted.n > 1 or wanted.order is not None
    return seconds == 0.0 or (is_wanted and time.perf_counter() + seconds < deadline)
