"""Requests of the verbs to a running node: the flags arrive in the fields of their service."""

from __future__ import annotations

from typing import Any

from eim_ros import srv
from eim_ros.cli.main import read_verb
from eim_ros.cli.service import REQUESTS, fill

POSE = ("--pose", "0.4", "0.1", "0.5", "1", "0", "0", "0")


def request_of(*words: str) -> Any:
    """Return the request that a verb sends, without its constraints."""
    verb: Any = read_verb([*words, "--service", "/ik_server"])
    request = getattr(srv, REQUESTS[verb.operation][0]).Request()
    arguments = {name: value for name, value in verb.arguments().items() if value is not None}
    fill(request, verb, verb.target(), arguments, None)
    return request


def test_what_all_requests_have_in_common() -> None:
    request = request_of("solve", *POSE, "--seed", "7", "--timeout", "2.5", "--frame", "map", "--near", "a=0.5", "b=1")
    assert (request.header.frame_id, request.seed, request.timeout, request.n_samples) == ("map", 7, 2.5, 1)
    assert len(request.poses) == 1
    assert (request.poses[0].position.x, request.poses[0].orientation.x) == (0.4, 1.0)
    assert (list(request.near.name), list(request.near.position)) == (["a", "b"], [0.5, 1.0])
    default = request_of("solve", *POSE)
    assert (default.header.frame_id, default.seed, default.timeout) == ("", -1, 0.0)


def test_sample_sends_its_preferences() -> None:
    words = ("-n", "20", "--diversity", "0.5", "--order", "limits=2", "manipulability", "--posture", "a=0.5:3", "b=1")
    request = request_of("sample", *POSE, *words)
    assert (request.n_samples, request.diversity) == (20, 0.5)
    assert (list(request.order), list(request.order_weights)) == (["limits", "manipulability"], [2.0, 1.0])
    assert (list(request.posture.name), list(request.posture_weights)) == (["a", "b"], [3.0, 1.0])
    assert request_of("sample", *POSE).diversity == -1.0


def test_solve_all_sends_its_guarantee() -> None:
    request = request_of("solve-all", *POSE, "--max-spacing", "0.5", "--guarantee", "0.9", "0.01")
    assert (request.max_spacing, request.max_solutions) == (0.5, 10_000)
    guarantee = request.guarantee
    assert (guarantee.kind, guarantee.confidence, guarantee.missed_share) == (guarantee.BOUND, 0.9, 0.01)
    certified = request_of("solve-all", *POSE, "--guarantee", "certified").guarantee
    assert certified.kind == certified.CERTIFIED
    none = request_of("solve-all", *POSE).guarantee
    assert none.kind == none.NONE


def test_nearest_pose_sends_a_priority_or_weights() -> None:
    request = request_of("solve-nearest-pose", *POSE, "--priority", "orientation")
    assert (request.priority, list(request.weights)) == ("orientation", [])
    weighted = request_of("solve-nearest-pose", *POSE, "--weights", "10", "1")
    assert (weighted.priority, list(weighted.weights)) == ("", [10.0, 1.0])


def test_draws_and_proposals_name_their_density() -> None:
    assert request_of("draw", *POSE).density == "uniform"
    assert request_of("propose", *POSE, "-n", "3").density == "proposal"
    cold = request_of("draw", *POSE, "--density", "posture", "--posture", "a=0.5", "--temperature", "0.1")
    assert (cold.density, cold.temperature, list(cold.posture.position)) == ("posture", 0.1, [0.5])


def test_path_has_all_its_poses() -> None:
    request = request_of("follow", *POSE, "--pose", *map(str, (0.5, 0.1, 0.5, 1, 0, 0, 0)), "--max-step", "0.2")
    assert [pose.position.x for pose in request.poses] == [0.4, 0.5]
    assert (list(request.max_step), request.n_candidates) == ([0.2], 48)
    each = request_of("follow", *POSE, "--max-step", "0.2", "0.3")
    assert list(each.max_step) == [0.2, 0.3]
    assert list(request_of("follow", *POSE).max_step) == []
