"""Flags of a verb determine the fields of its request to a running node."""

from __future__ import annotations

from typing import Any

import pytest
from cli.conftest import sets

from eim_ros import srv
from eim_ros.cli.main import read_verb
from eim_ros.cli.service import REQUESTS, fill
from eim_ros.core.errors import ConfigurationError

POSE = ("--pose", "0.4", "0.1", "0.5", "1", "0", "0", "0")


def request_of(*words: str) -> Any:
    """Return the request that a verb sends, without its constraints."""
    verb: Any = read_verb([*words, "--service", "/ik_server"])
    request = getattr(srv, REQUESTS[verb.operation][0]).Request()
    fill(request, verb.operation, verb.target(), verb.keywords(verb.read_settings()), None)
    return request


def test_what_all_requests_have_in_common() -> None:
    request = request_of("solve", *POSE, "--seed", "7", "--timeout", "2.5", "--near", "a=0.5", "b=1")
    assert (request.seed, request.timeout, request.n_samples) == (7, 2.5, 1)
    assert len(request.poses) == 1
    assert (request.poses[0].position.x, request.poses[0].orientation.x) == (0.4, 1.0)
    assert (list(request.near.name), list(request.near.position)) == (["a", "b"], [0.5, 1.0])
    default = request_of("solve", *POSE)
    assert (default.seed, default.timeout) == (-1, 0.0)


def test_sample_sends_its_preferences() -> None:
    words = sets("diversity=0.5", "order.limits=2", "order.manipulability=1")
    words += sets("posture={positions: {a: 0.5, b: 1}, weights: {a: 3, b: 1}}")
    request = request_of("sample", *POSE, "-n", "20", *words)
    assert (request.n_samples, request.diversity) == (20, 0.5)
    assert (list(request.order), list(request.order_weights)) == (["limits", "manipulability"], [2.0, 1.0])
    assert (list(request.posture.name), list(request.posture_weights)) == (["a", "b"], [3.0, 1.0])
    assert request_of("sample", *POSE).diversity == -1.0
    assert list(request_of("sample", *POSE, *sets("order=limits")).order) == ["limits"]


def test_solve_all_sends_its_guarantee() -> None:
    request = request_of(
        "solve-all", *POSE, *sets("max_spacing=0.5", "guarantee={confidence: 0.9, missed_share: 0.01}")
    )
    assert request.max_spacing == 0.5
    guarantee = request.guarantee
    assert (guarantee.kind, guarantee.confidence, guarantee.missed_share) == (guarantee.BOUND, 0.9, 0.01)
    certified = request_of("solve-all", *POSE, *sets("guarantee=certified")).guarantee
    assert certified.kind == certified.CERTIFIED
    none = request_of("solve-all", *POSE).guarantee
    assert none.kind == none.NONE


def test_nearest_pose_sends_a_priority_or_weights() -> None:
    request = request_of("solve-nearest-pose", *POSE, *sets("priority=orientation"))
    assert (request.priority, list(request.weights)) == ("orientation", [])
    weighted = request_of("solve-nearest-pose", *POSE, *sets("priority=10 1"))
    assert (weighted.priority, list(weighted.weights)) == ("", [10.0, 1.0])


def test_draws_and_proposals_name_their_density() -> None:
    assert request_of("draw", *POSE, *sets("density=uniform")).density == "uniform"
    assert request_of("propose", *POSE, "-n", "3").density == "proposal"
    cold = request_of("draw", *POSE, *sets("density.a=0.5", "temperature=0.1"))
    assert (cold.density, cold.temperature, list(cold.posture.position)) == ("posture", 0.1, [0.5])


def test_path_has_all_its_poses() -> None:
    request = request_of("follow", *POSE, "--pose", *map(str, (0.5, 0.1, 0.5, 1, 0, 0, 0)), *sets("max_step=0.2"))
    assert [pose.position.x for pose in request.poses] == [0.4, 0.5]
    assert list(request.max_step) == [0.2]
    each = request_of("follow", *POSE, *sets("max_step=0.2 0.3"))
    assert list(each.max_step) == [0.2, 0.3]
    assert list(request_of("follow", *POSE).max_step) == []


def test_setting_that_the_service_lacks_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="the service has no setting start"):
        request_of("solve-nearest-pose", *POSE, *sets("start=0 0"))
    with pytest.raises(ConfigurationError, match="max_spacing must be of type double, got 'wide'"):
        request_of("solve-all", *POSE, *sets("max_spacing=wide"))
