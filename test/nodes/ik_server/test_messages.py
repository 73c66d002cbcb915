"""Requests become arguments of operations. Answers become messages, with log densities if requested and in time."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import pytest
from ik.arms import arm_of, reachable_pose, sampler_of
from nodes.client_node import request
from nodes.ik_server.serving import ENOUGH, served
from sensor_msgs.msg import JointState

from eim_ros.core.errors import ServiceError
from eim_ros.ik import Completeness, ErrorCode, Posture, Sampler, Solutions
from eim_ros.kinematics import pose_from
from eim_ros.msg import IKGuarantee, IKSolutions
from eim_ros.nodes import solutions_of
from eim_ros.nodes.common.messages import pose_message, transform_of
from eim_ros.nodes.ik_server.handlers import parse_draw, parse_sample, parse_solve_all
from eim_ros.nodes.ik_server.messages import RequestContext, RequestError, fill, guarantee_of, order_of, posture_of
from eim_ros.nodes.settings import IkServerSettings
from eim_ros.srv import DrawIK, SampleIK, SolveAllIK

ROBOT = arm_of("iiwa14")
CONTEXT = RequestContext(ROBOT)
NEVER = math.inf
SERVICE_TYPES = {"sample_ik": SampleIK, "solve_all_ik": SolveAllIK}
POSE = ROBOT.fk(ROBOT.random(1, np.random.default_rng(3)))[0]


def answered(**options: object) -> Solutions:
    """Return the answer to a pose."""
    given = {"n": 20, "seed": 0, "timeout": ENOUGH, **options}
    return sampler_of("iiwa14", "position").sample(reachable_pose(ROBOT), **given)


def sent(solutions: Solutions, deadline: float, wants_log_prob: bool = True) -> IKSolutions:
    message = IKSolutions()
    fill(message, solutions, deadline, wants_log_prob)
    return message


def solutions(name: str, message: object, *given: Any) -> IKSolutions:
    return served(name, message, *given).solutions


def test_fields_of_a_request_are_those_of_the_operation() -> None:
    """The service gives the answer of the operation with the same arguments."""
    near = JointState(name=list(ROBOT.joint_names), position=[0.1] * 7)
    posture = JointState(name=["joint_a1"], position=[0.5])
    fields = {"n_samples": 7, "seed": 4, "order": ["limits"], "diversity": 0.25, "timeout": 5.0}
    given = {"n": 7, "seed": 4, "order": "limits", "diversity": 0.25, "timeout": ENOUGH}
    arm = sampler_of("iiwa14", "position").with_constraints(position_only=True)
    for more, arguments in (
        ({"near": near}, {"near": np.full(7, 0.1)}),
        ({"posture": posture}, {"posture": Posture({"joint_a1": 0.5})}),
    ):
        answer = solutions("sample_ik", request(**fields, **more))
        expected = arm.sample(pose_from((0.4, 0.1, 0.6)), **given, **arguments)
        np.testing.assert_array_equal(Solutions.from_message(answer).q, expected.q)


def test_timeout_and_seed_of_a_request_are_its_own() -> None:
    assert parse_sample(request(timeout=0.5), SampleIK.Response(), CONTEXT, IkServerSettings()).timeout == 0.5
    default = IkServerSettings().default_timeout
    assert parse_sample(request(), SampleIK.Response(), CONTEXT, IkServerSettings()).timeout == default
    first, second = (solutions("sample_ik", request(seed=-1)).positions for _ in range(2))
    assert first != second


def test_what_is_left_open_is_left_to_the_sampler() -> None:
    message = request()
    assert (order_of(message), posture_of(message, ROBOT), CONTEXT.near(message.near)) == (None, None, None)
    assert message.diversity == -1.0
    expected = sampler_of("iiwa14", "position").with_constraints(position_only=True)
    answer = Solutions.from_message(solutions("sample_ik", message))
    np.testing.assert_array_equal(answer.q, expected.sample(pose_from((0.4, 0.1, 0.6)), 10, seed=0, timeout=ENOUGH).q)


def test_a_guarantee_has_the_confidence_that_was_asked_for() -> None:
    bound = IKGuarantee.BOUND
    assert guarantee_of(IKGuarantee(kind=bound, confidence=0.95, missed_share=0.01)) == Completeness(0.95, 0.01)
    assert guarantee_of(IKGuarantee(kind=bound)) == Completeness()
    assert guarantee_of(IKGuarantee(kind=IKGuarantee.CERTIFIED)) == "certified"
    assert guarantee_of(IKGuarantee()) is None


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"kind": 1, "confidence": 1.0, "missed_share": 0.01}, "between 0 and 1"),
        ({"kind": 1, "confidence": 0.9, "missed_share": -0.1}, "between 0 and 1"),
        ({"kind": 7}, "guarantee.kind is 7"),
    ],
)
def test_a_guarantee_that_cannot_be_given_is_refused(fields: dict, reason: str) -> None:
    message = request(service_type=SolveAllIK, guarantee=IKGuarantee(**fields))
    with pytest.raises(RequestError, match=reason) as refused:
        parse_solve_all(message, SolveAllIK.Response(), CONTEXT, IkServerSettings())
    assert refused.value.code == ErrorCode.INVALID_GOAL_CONSTRAINTS


def test_message_reports_the_components_and_their_completeness() -> None:
    solutions = Sampler(ROBOT).solve_all(POSE, guarantee=Completeness(0.9, 0.05), seed=0, timeout=ENOUGH)
    report = Solutions.from_message(sent(solutions, NEVER)).completeness
    assert str(report) == str(solutions.completeness)
    assert report.is_complete
    assert report.lengths.tolist() == solutions.completeness.lengths.tolist()
    assert len(report.lengths) > 5
    plain = Sampler(ROBOT).sample(POSE, 20, order="none", seed=0, timeout=ENOUGH)
    n = solutions.completeness.n_components
    both = sent(Solutions.concatenate([solutions, plain]), NEVER)
    assert (both.n_components[0], both.complete[0]) == (n, True)
    assert both.missed_share[0] == solutions.completeness.missed_share
    assert Solutions.from_message(both).pose(0).completeness.lengths.tolist() == report.lengths.tolist()


def test_draws_are_asked_for_by_the_name_of_their_density() -> None:
    posture = JointState(name=["joint_a1"], position=[0.5])
    message = request(service_type=DrawIK, density="posture", temperature=0.2, posture=posture)
    message.poses, message.constraints.position_only = [pose_message(POSE)], False
    pose = transform_of(message.poses[0])  # rounded like the message
    expected = Sampler(ROBOT).draw(pose, 10, Posture({"joint_a1": 0.5}), temperature=0.2, seed=0, timeout=ENOUGH)
    answer = Solutions.from_message(solutions("draw_ik", message, Sampler(ROBOT)))
    np.testing.assert_array_equal(answer.q, expected.q)
    np.testing.assert_array_equal(answer.log_prob, expected.log_prob)
    for fields in ({"density": "gauss"}, {"temperature": -0.5}, {"density": "posture"}, {"posture": posture}):
        with pytest.raises(RequestError) as refused:
            parse_draw(request(service_type=DrawIK, **fields), DrawIK.Response(), CONTEXT, IkServerSettings())
        assert refused.value.code == ErrorCode.INVALID_GOAL_CONSTRAINTS
    with pytest.raises(RequestError, match="temperature") as refused:  # only "posture" has this option
        solutions("draw_ik", request(service_type=DrawIK, temperature=0.5))
    assert refused.value.code == ErrorCode.INVALID_GOAL_CONSTRAINTS


def test_message_has_the_effective_sample_size_of_draws() -> None:
    solutions = Sampler(ROBOT).draw(POSE[:3, 3], 20, seed=0, timeout=ENOUGH)
    back = Solutions.from_message(sent(solutions, NEVER))
    assert back.effective_sample_size == solutions.effective_sample_size >= 16.0
    np.testing.assert_array_equal(back.log_prob, solutions.log_prob)


def test_a_spacing_that_takes_too_many_configurations_is_refused() -> None:
    message = request(service_type=SolveAllIK, max_spacing=0.05, position_only=False, poses=[pose_message(POSE)])
    with pytest.raises(RequestError, match=r"needs .* configurations, which exceeds max_solutions \(50\)"):
        solutions("solve_all_ik", message, Sampler(ROBOT), IkServerSettings(max_samples=50))
    message.max_spacing = -1.0
    with pytest.raises(RequestError, match="max_spacing is -1.0"):
        solutions("solve_all_ik", message)


def test_answer_comes_back_from_its_message_as_it_was() -> None:
    solutions = answered()
    back = Solutions.from_message(sent(solutions, NEVER))
    assert back.to_dict() == solutions.to_dict()
    assert (back.message, back.elapsed) == (solutions.message, solutions.elapsed)
    assert back.error_code is ErrorCode.SUCCESS


def test_log_densities_that_are_left_out_are_nan() -> None:
    message = sent(answered(order="limits"), time.perf_counter())
    assert len(message.log_prob) == 0 < len(message.positions)
    assert np.isnan(Solutions.from_message(message).log_prob).all()


@pytest.mark.parametrize(
    ("options", "deadline", "wants", "is_given"),
    [
        ({}, NEVER, True, True),
        ({"order": "none"}, NEVER, True, True),
        ({"order": "none"}, 0.0, True, False),
        ({"order": "density"}, 0.0, True, True),  # the order needs densities
        ({"n": 1, "order": "none"}, NEVER, False, False),
        ({"n": 1, "order": "none"}, NEVER, True, True),
    ],
)
def test_log_densities_are_given_if_wanted_and_in_time(
    options: dict, deadline: float, wants: bool, is_given: bool
) -> None:
    solutions = answered(**options)
    log_prob = sent(solutions, deadline, wants).log_prob
    assert len(log_prob) == (len(solutions) if is_given else 0)
    if is_given:
        np.testing.assert_array_equal(log_prob, solutions.log_prob)


def test_a_single_configuration_has_a_log_density_only_in_a_given_order() -> None:
    assert len(solutions("sample_ik", request(n_samples=1)).log_prob) == 0
    assert len(solutions("sample_ik", request(n_samples=1, order=["none"])).log_prob) == 1


@pytest.mark.parametrize(
    ("name", "fields", "is_given"),
    [
        ("sample_ik", {}, False),
        ("sample_ik", {"order": ["none"]}, True),
        ("sample_ik", {"diversity": 0.0}, True),
        ("solve_all_ik", {"max_solutions": 20}, False),
        ("solve_all_ik", {"max_solutions": 20, "order": ["none"]}, True),
    ],
)
def test_model_without_a_preference_gives_log_densities_only_if_it_is_asked(
    name: str, fields: dict, is_given: bool
) -> None:
    answer = solutions(name, request(service_type=SERVICE_TYPES[name], **fields), Sampler.load("iiwa14_position"))
    assert answer.n > 0
    assert len(answer.log_prob) == (answer.n if is_given else 0)


def test_answers_to_several_poses_have_all_log_densities_or_none() -> None:
    for deadline, n_given in ((0.0, 0), (NEVER, 40)):
        both = Solutions.concatenate([answered(order="none"), answered(order="none", seed=1)])
        message = sent(both, deadline)
        assert (message.n, len(message.log_prob)) == (40, n_given)
        assert list(message.n_per_pose) == [20, 20]


def test_refusal_is_raised_with_its_code() -> None:
    response = SampleIK.Response()
    response.solutions.error_code.val, response.solutions.error_code.message = int(ErrorCode.BUSY), "try again later"
    with pytest.raises(ServiceError, match="error code -7: try again later"):
        solutions_of(response)
    assert len(Solutions.from_message(response.solutions)) == 0
