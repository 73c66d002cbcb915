"""Requests become one `SampleRequest`, answers a message and back: log densities where they are wanted and in time."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from ik.arms import arm_of, reachable_pose, sampler_of
from nodes.client_node import request
from sensor_msgs.msg import JointState

from eim_ros.core.errors import ServiceError
from eim_ros.ik import Completeness, ErrorCode, Posture, Sampler, Samples
from eim_ros.ik.request import SampleRequest
from eim_ros.nodes import solutions_of
from eim_ros.nodes.common.messages import pose_message
from eim_ros.nodes.ik_server.handlers import parse_sample
from eim_ros.nodes.ik_server.requests import RequestContext, RequestError, parse
from eim_ros.nodes.ik_server.responses import fill, fill_batch
from eim_ros.nodes.ik_server.settings import IkServerSettings
from eim_ros.srv import SampleIK, SampleIKBatch

ROBOT, ENOUGH = arm_of("iiwa14"), 60.0  # [s]
UNTIL_DOOMSDAY = math.inf


def answered(**options: object) -> tuple[SampleRequest, Samples]:
    """A request and its answer."""
    wanted = SampleRequest(reachable_pose(ROBOT), **{"n": 20, "seed": 0, "timeout": ENOUGH, **options})
    return wanted, sampler_of("iiwa14", "position").answer(wanted)


def sent(wanted: SampleRequest, samples: Samples, deadline: float) -> SampleIK.Response:
    response = SampleIK.Response()
    fill(response, wanted, samples, deadline)
    return response


def test_fields_are_those_of_the_message() -> None:
    near = JointState(name=list(ROBOT.joint_names), position=[0.1] * 7)
    posture = JointState(name=["joint_a1"], position=[0.5])
    message = request(n_samples=7, seed=-1, near=near, posture=posture, order=["limits"], diversity=0.25)
    message.distinct, message.refine, message.timeout = True, False, 0.5
    wanted = parse(message, RequestContext(ROBOT), IkServerSettings())
    assert (wanted.n, wanted.seed, wanted.order, wanted.explore) == (7, None, "limits", 0.25)
    assert (wanted.distinct, wanted.refine, wanted.position_only, wanted.timeout) == (True, False, True, 0.5)
    np.testing.assert_array_equal(wanted.near, np.full(7, 0.1))
    assert isinstance(wanted.posture, Posture)
    assert wanted.posture.positions == {"joint_a1": 0.5}
    assert wanted.position_tolerance == IkServerSettings().default_position_tolerance


def test_what_is_left_open_is_left_to_the_sampler() -> None:
    wanted = parse(request(), RequestContext(ROBOT), IkServerSettings())
    assert (wanted.order, wanted.explore, wanted.near, wanted.posture) == (None, None, None, None)


def test_a_confidence_asks_for_a_whole_answer() -> None:
    wanted = parse(request(confidence=0.95, missed_share=0.01), RequestContext(ROBOT), IkServerSettings())
    assert wanted.until == Completeness(0.95, 0.01)
    assert parse(request(), RequestContext(ROBOT), IkServerSettings()).until is None


@pytest.mark.parametrize("fields", [{"confidence": 1.0, "missed_share": 0.01}, {"confidence": 0.9}])
def test_a_confidence_that_cannot_be_had_is_refused(fields: dict) -> None:
    with pytest.raises(RequestError, match="between 0 and 1") as refused:
        parse(request(**fields), RequestContext(ROBOT), IkServerSettings())
    assert refused.value.code == ErrorCode.INVALID_GOAL_CONSTRAINTS


def test_response_tells_the_families_and_how_whole_they_are() -> None:
    pose = ROBOT.fk(ROBOT.random(1, np.random.default_rng(3)))[0]
    wanted = SampleRequest(pose, 50, seed=0, until=Completeness(0.9, 0.05))
    samples = Sampler(ROBOT).answer(wanted)
    told = solutions_of(sent(wanted, samples, UNTIL_DOOMSDAY))
    assert str(told.completeness) == str(samples.completeness)
    assert told.completeness.is_whole
    assert told.to_dict()["family_lengths"] == samples.to_dict()["family_lengths"]
    assert len(told.completeness.lengths) > 5
    response = SampleIKBatch.Response()
    _, plain = answered(order="none")
    fill_batch(response, wanted, [samples, plain], UNTIL_DOOMSDAY)
    n = samples.completeness.n_families
    assert (list(response.n_families), list(response.whole)) == ([n, 0], [True, False])
    assert list(response.missed_share) == [samples.completeness.missed_share, 1.0]


def test_draws_are_asked_for_by_the_name_of_their_distribution() -> None:
    around, settings = RequestContext(ROBOT), IkServerSettings()
    message = request(distribution="posture", temperature=0.2, posture=JointState(name=["joint_a1"], position=[0.5]))
    wanted = parse(message, around, settings)
    assert (wanted.distribution, wanted.temperature, wanted.distinct) == ("posture", 0.2, False)
    plain = parse(request(), around, settings)
    assert (plain.distribution, plain.temperature, plain.separation) == (None, 1.0, None)
    assert parse(request(separation=0.3), around, settings).separation == 0.3
    for fields in ({"distribution": "gauss"}, {"temperature": 0.5}, {"separation": -1.0}):
        with pytest.raises(RequestError) as refused:
            parse(request(**fields), around, settings)
        assert refused.value.code == ErrorCode.INVALID_GOAL_CONSTRAINTS


def test_response_tells_what_draws_are_worth() -> None:
    pose = ROBOT.fk(ROBOT.random(1, np.random.default_rng(3)))[0]
    wanted = SampleRequest(pose[:3, 3], 20, seed=0, distribution="uniform", timeout=ENOUGH)
    samples = Sampler(ROBOT).answer(wanted)
    told = solutions_of(sent(wanted, samples, UNTIL_DOOMSDAY))
    assert told.effective_size == samples.effective_size >= 16.0
    np.testing.assert_array_equal(told.log_prob, samples.log_prob)


def test_a_separation_that_takes_too_many_is_refused() -> None:
    pose = ROBOT.fk(ROBOT.random(1, np.random.default_rng(3)))[0]
    message = request(separation=0.05, n_samples=1, seed=0, position_only=False)
    message.pose.pose = pose_message(pose)
    parsed = parse_sample(message, SampleIK.Response(), RequestContext(ROBOT), IkServerSettings(max_samples=50))
    with pytest.raises(RequestError, match="takes .* configurations, expected at most 50"):
        parsed.solve(Sampler(ROBOT), 5.0)


def test_more_than_allowed_is_refused_with_its_code() -> None:
    with pytest.raises(RequestError, match="expected 1 to 5") as caught:
        parse(request(n_samples=6), RequestContext(ROBOT), IkServerSettings(max_samples=5))
    assert caught.value.code == ErrorCode.INVALID_GOAL_CONSTRAINTS


def test_answer_comes_back_from_its_message_as_it_was() -> None:
    wanted, samples = answered()
    back = solutions_of(sent(wanted, samples, UNTIL_DOOMSDAY))
    assert {**back.to_dict(), "elapsed": samples.elapsed} == samples.to_dict()
    assert back.error_code.val is ErrorCode.SUCCESS


def test_densities_that_are_not_told_are_null_in_json() -> None:
    wanted, samples = answered(order="limits")
    response = sent(wanted, samples, time.perf_counter())
    assert len(response.log_prob) == 0 < len(response.positions)
    assert solutions_of(response).to_dict()["log_prob"] == [None] * 20


@pytest.mark.parametrize(
    ("options", "deadline", "is_told"),
    [
        ({}, UNTIL_DOOMSDAY, True),
        ({"order": "none"}, UNTIL_DOOMSDAY, True),
        ({"order": "none"}, 0.0, False),
        ({"order": "density"}, 0.0, True),  # known: the order needed it
        ({"n": 1}, UNTIL_DOOMSDAY, False),
        ({"n": 1, "order": "none"}, UNTIL_DOOMSDAY, True),
    ],
)
def test_densities_are_told_where_they_are_wanted_and_in_time(options: dict, deadline: float, is_told: bool) -> None:
    wanted, samples = answered(**options)
    log_prob = sent(wanted, samples, deadline).log_prob
    assert len(log_prob) == (len(samples) if is_told else 0)
    if is_told:
        np.testing.assert_array_equal(log_prob, samples.log_prob)


def test_batch_tells_all_densities_or_none() -> None:
    wanted, hurried = answered(order="none")
    _, ordered = answered(order="density")
    for deadline, n_told in ((0.0, 0), (UNTIL_DOOMSDAY, 40)):
        response = SampleIKBatch.Response()
        fill_batch(response, wanted, [ordered, hurried], deadline)
        assert (response.n, len(response.log_prob)) == (40, n_told)
        assert list(response.n_per_pose) == [20, 20]


def test_unknown_error_code_is_told() -> None:
    with pytest.raises(ServiceError, match="error code 7, which is unknown"):
        solutions_of(SampleIK.Response(error_code=7))
