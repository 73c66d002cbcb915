"""Services of the motion prior over DDS give answers or refusals with reasons, and exchange priors."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticStatus
from motion.demonstrated import JOINTS, N_POINTS, positions_of, scattered_ends, two_ways
from nodes.client_node import ClientNode
from nodes.server_process import PATIENCE, ServerProcess
from rclpy.duration import Duration
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from eim_ros.core.errors import EimError
from eim_ros.kinematics import Robot
from eim_ros.learning import EMConfig
from eim_ros.motion import MotionPrior, MotionTraining
from eim_ros.motion import TipGoal as Goal
from eim_ros.msg import TipGoal, ViaPoint
from eim_ros.nodes.motion_prior_server import condition_motion, sample_motion, score_motion
from eim_ros.nodes.settings import MotionPriorServerSettings
from eim_ros.srv import ConditionMotion, LoadModel, SampleMotion, ScoreMotion

NODE = "/motion_prior_server"
SUCCESS, FAILURE, INVALID = 1, 99999, -16
SERVICES: dict[str, tuple[Any, Any]] = {
    "sample_motion": (SampleMotion, sample_motion),
    "score_motion": (ScoreMotion, score_motion),
    "condition": (ConditionMotion, condition_motion),
}
LIMITS = {"max_samples": 1000, "max_points": 500, "max_trajectory_points": 5000}


def trained(path: Path, seed: int, **data: Any) -> Path:
    config = EMConfig(n_components=2, n_starts=1)
    MotionTraining(learner=config, seed=seed).run(two_ways(100, seed, **data)).model.save(path)
    return path


@pytest.fixture(scope="module")
def prior_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("prior") / "prior.safetensors", 0)


@pytest.fixture(scope="module")
def prior(prior_file: Path) -> MotionPrior:
    return MotionPrior.load(prior_file)


@pytest.fixture(scope="module")
def reaching() -> MotionPrior:
    """Return a prior of motions of a planar arm whose tip reaches a goal."""
    robot = Robot("planar3")
    data_set = scattered_ends(60, robot.joint_names)
    prior = MotionTraining(learner=EMConfig(n_components=1)).run(data_set).model
    return prior.with_goals(robot, Goal("x", 2.4, tolerance=0.02))


@pytest.fixture(scope="module")
def server(start_server: Callable[..., ServerProcess], prior_file: Path) -> ServerProcess:
    return start_server(node="motion_prior_server", model=prior_file, **LIMITS)


@pytest.fixture
def call(prior: MotionPrior) -> Callable[..., Any]:
    """Return a function that answers requests without DDS."""

    def answer(name: str, of: MotionPrior = prior, **fields: Any) -> Any:
        kind, function = SERVICES[name]
        response = kind.Response()
        function(kind.Request(**{"context": [1.0], **fields}), response, of, MotionPriorServerSettings(**LIMITS))
        return response

    return answer


@pytest.fixture
def send(client: ClientNode, server: ServerProcess) -> Callable[..., Any]:
    def send(name: str, **fields: Any) -> Any:
        if name == "load_model":
            return client.call(server, LoadModel, f"{NODE}/load_model", LoadModel.Request(**fields))
        kind = SERVICES[name][0]
        return client.call(server, kind, f"{NODE}/{name}", kind.Request(**{"context": [1.0], **fields}))

    return send


def matrix(answer: Any) -> np.ndarray:
    return np.frombuffer(answer.positions).reshape(answer.n, answer.n_points, len(answer.joint_names))


def trajectory(positions: np.ndarray, names: tuple[str, ...] = JOINTS, duration: float = 2.0) -> JointTrajectory:
    times = 3.0 + np.linspace(0.0, duration, len(positions))
    points = [
        JointTrajectoryPoint(positions=row, time_from_start=Duration(nanoseconds=round(1e9 * time)).to_msg())
        for row, time in zip(positions.tolist(), times, strict=True)
    ]
    return JointTrajectory(joint_names=list(names), points=points)


def via(phase: float = 0.5, names: tuple[str, ...] = ("wrist",), positions: tuple[float, ...] = (0.9,)) -> ViaPoint:
    return ViaPoint(phase=phase, joint_names=list(names), positions=list(positions))


def test_motions_are_told_as_trajectories_and_as_a_matrix(call: Callable[..., Any], prior: MotionPrior) -> None:
    answer = call("sample_motion", n_samples=20, seed=3)
    assert (answer.error_code.val, answer.error_code.message) == (SUCCESS, "")
    assert tuple(answer.joint_names) == JOINTS
    assert (answer.n, answer.n_points) == (20, N_POINTS)
    motions = matrix(answer)
    for motion, message in zip(motions, answer.trajectories, strict=True):
        assert tuple(message.joint_names) == JOINTS
        np.testing.assert_array_equal(motion, [point.positions for point in message.points])
    last = answer.trajectories[0].points[-1].time_from_start
    assert last.sec + 1e-9 * last.nanosec == pytest.approx(prior.mean_duration, abs=1e-8)
    assert answer.times[-1] == prior.mean_duration
    np.testing.assert_allclose(prior.score(motions, [1.0]).log_prob, answer.log_prob, atol=1e-3)
    assert len(answer.component) == 20
    assert answer.acceptance_rate == 1.0
    assert answer.log_evidence == 0.0


def test_same_seed_gives_same_motions_and_a_negative_one_others(call: Callable[..., Any]) -> None:
    first, again = (call("sample_motion", n_samples=2, seed=3, flat=True) for _ in range(2))
    assert first.positions == again.positions
    fresh = [call("sample_motion", n_samples=2, seed=-1, flat=True).positions for _ in range(2)]
    assert fresh[0] != fresh[1]


def test_duration_points_and_flatness_are_as_asked_for(call: Callable[..., Any]) -> None:
    answer = call("sample_motion", n_samples=100, duration=7.5, n_points=101, flat=True)
    assert answer.trajectories == []
    assert matrix(answer).shape == (100, 101, 3)
    np.testing.assert_allclose(answer.times, np.linspace(0.0, 7.5, 101))


def test_via_points_are_met(call: Callable[..., Any], prior: MotionPrior) -> None:
    answer = call("sample_motion", n_samples=50, n_points=101, flat=True, via_points=[via()])
    np.testing.assert_allclose(matrix(answer)[:, 50, 2], 0.9, atol=6e-3)  # six times the default deviation of 1e-3
    from eim_ros.motion import ViaPoint as Wish

    expected = prior.condition([1.0], [Wish(0.5, ("wrist",), (0.9,))]).log_evidence
    assert answer.log_evidence == pytest.approx(expected)


def test_tip_goals_are_reached(call: Callable[..., Any], reaching: MotionPrior) -> None:
    def ends(**fields: Any) -> np.ndarray:
        answer = call("sample_motion", reaching, n_samples=50, flat=True, **fields)
        return np.asarray(Robot("planar3").fk(matrix(answer)[:, -1])[:, :3, 3])

    assert np.abs(ends()[:, 0] - 2.4).max() <= 0.02  # the prior contains this goal
    asked = ends(tip_goals=[TipGoal(axis="y", value=0.4, tolerance=0.03)])
    assert np.abs(asked[:, 1] - 0.4).max() <= 0.03
    assert np.abs(asked[:, 0] - 2.4).max() > 0.02
    assert np.abs(ends(tip_goals=[TipGoal(axis="y", value=0.4)])[:, 1] - 0.4).max() <= 0.05
    assert np.abs(ends(ignore_goals=True)[:, 0] - 2.4).max() > 0.02
    unlikely = {"n_samples": 5, "tip_goals": [TipGoal(axis="x", value=-3.0)]}
    with pytest.raises(EimError, match=r"acceptance rate 0\).*too few to draw 5"):
        call("sample_motion", reaching, **unlikely)


def test_conditioned_prior_is_told_by_component(call: Callable[..., Any]) -> None:
    answer = call("condition", via_points=[via()], n_points=11)
    assert answer.error_code.val == SUCCESS
    shape = (answer.n_components, answer.n_points, 3)
    assert shape == (2, 11, 3)
    means, deviations = (np.frombuffer(x).reshape(shape) for x in (answer.means, answer.standard_deviations))
    assert np.exp(answer.log_weights).sum() == pytest.approx(1.0)
    assert means[int(np.argmax(answer.log_weights)), 5, 2] == pytest.approx(0.9, abs=2e-3)
    assert 0.0 < deviations[:, 5, 2].max() < 2e-3
    assert answer.log_evidence != 0.0


def test_demonstrations_score_well_and_their_averages_are_outliers(call: Callable[..., Any]) -> None:
    fresh = two_ways(60, 9)
    motions = positions_of(fresh)
    rows = np.argsort(np.abs(fresh.context[:, 0] - 1.0))[:8]
    good = motions[rows]
    answer = call("score_motion", trajectories=[trajectory(motion) for motion in good], context=[1.0])
    assert answer.error_code.val == SUCCESS, answer.error_code.message
    straight = np.zeros_like(good[0]) + np.linspace(0.0, 1.0, N_POINTS)[:, None] * np.array([1.0, -0.5, 0.0])
    answer = call("score_motion", trajectories=[trajectory(good[0]), trajectory(straight)])
    assert answer.quantile[1] == 0.0
    assert list(answer.outlier)[1] is True
    assert answer.log_prob[0] > answer.log_prob[1] + 10.0
    assert len(answer.residual) == 2


def test_joints_are_matched_by_name_and_times_by_phase(call: Callable[..., Any]) -> None:
    motion = positions_of(two_ways(1, 9))[0]
    same = trajectory(motion[:, ::-1], JOINTS[::-1], duration=11.0)
    answer = call("score_motion", trajectories=[trajectory(motion), same])
    assert answer.error_code.val == SUCCESS, answer.error_code.message
    assert answer.log_prob[0] == pytest.approx(answer.log_prob[1], abs=1e-3)  # rounding to nanoseconds


def _changed(change: Callable[[JointTrajectory], None]) -> dict[str, Any]:
    message = trajectory(positions_of(two_ways(1, 9))[0])
    change(message)
    return {"trajectories": [trajectory(positions_of(two_ways(1, 9))[0]), message]}


def _named(*names: str) -> dict[str, Any]:
    return _changed(lambda message: setattr(message, "joint_names", list(names)))


def _point(**fields: Any) -> dict[str, Any]:
    """Return a request with a trajectory in which point 7 has other fields."""
    return _changed(lambda message: [setattr(message.points[7], name, value) for name, value in fields.items()])


BEYOND = "motion 1: joint elbow is at 3.1 in point 7, but its limits are -3 and 3"
BAD: dict[str, tuple[str, dict[str, Any], str]] = {
    "no samples": ("sample_motion", {}, "n_samples is 0, expected 1 to 1000"),
    "too many samples": ("sample_motion", {"n_samples": 1001}, "(parameter max_samples)"),
    "one point": ("sample_motion", {"n_samples": 1, "n_points": 1}, "n_points is 1, expected 2 to 500"),
    "too many points": ("sample_motion", {"n_samples": 1, "n_points": 501}, "max_points"),
    "too large": ("sample_motion", {"n_samples": 100, "n_points": 51}, "set flat to true to remove this limit"),
    "no context": ("sample_motion", {"n_samples": 1, "context": []}, "expected 1 numbers (goal)"),
    "long context": ("condition", {"context": [1.0, 2.0]}, "expected 1 numbers (goal)"),
    "nan context": ("score_motion", {**_changed(lambda m: None), "context": [math.nan]}, "finite"),
    "nan duration": ("sample_motion", {"n_samples": 1, "duration": math.nan}, "duration"),
    "negative duration": ("sample_motion", {"n_samples": 1, "duration": -1.0}, "duration"),
    "phase": ("condition", {"via_points": [via(), via(1.5)]}, "via point 1: the phase"),
    "via without joints": ("condition", {"via_points": [via(names=(), positions=())]}, "must have at least one joint"),
    "via out of limits": ("condition", {"via_points": [via(0.5, ("elbow",), (3.1,))]}, "limits are -3 and 3"),
    "axis": ("sample_motion", {"n_samples": 1, "tip_goals": [TipGoal(axis="w")]}, "tip goal 0: the axis of a goal"),
    "goal": ("sample_motion", {"n_samples": 1, "tip_goals": [TipGoal(axis="x", value=math.nan)]}, "goal 0: the value"),
    "no robot": ("sample_motion", {"n_samples": 1, "tip_goals": [TipGoal(axis="x")]}, "need a robot"),
    "no trajectories": ("score_motion", {}, "number of trajectories is 0"),
    "unknown joint": ("score_motion", _named("shoulder", "elbow", "hip"), "unknown joints: hip"),
    "missing joint": ("score_motion", _named("shoulder", "elbow"), "lacks joints: wrist"),
    "repeated joint": ("score_motion", _named("elbow", "elbow", "wrist"), "more than once"),
    "missing position": ("score_motion", _point(positions=[0.0, 0.0]), "point 7 has 2 positions"),
    "nan position": ("score_motion", _point(positions=[0.0, math.nan, 0.0]), "finite"),
    "out of limits": ("score_motion", _point(positions=[0.0, 3.1, 0.0]), BEYOND),
    "time going backwards": ("score_motion", _point(time_from_start=Duration(seconds=1).to_msg()), "increasing times"),
    "one point only": ("score_motion", _changed(lambda m: m.points.__delitem__(slice(1, None))), "of points is 1"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_request_is_refused_with_its_cause(call: Callable[..., Any], name: str) -> None:
    service, fields, cause = BAD[name]
    with pytest.raises(EimError) as caught:
        call(service, **fields)
    assert cause in str(caught.value)


def test_services_answer_as_the_functions_do_and_refuse_with_a_code(
    call: Callable[..., Any], send: Callable[..., Any]
) -> None:
    asked = {
        "sample_motion": {"n_samples": 3, "seed": 3},
        "score_motion": {"trajectories": [trajectory(positions_of(two_ways(1, 9))[0])]},
        "condition": {"via_points": [via()], "n_points": 11},
    }
    for name, fields in asked.items():
        assert repr(send(name, **fields)) == repr(call(name, **fields))
        refused = send(name, **{**fields, "context": [1.0, 2.0]})
        assert refused.error_code.val == INVALID
        assert "expected 1 numbers (goal)" in refused.error_code.message


def test_prior_is_exchanged_and_a_bad_one_refused(send: Callable[..., Any], prior_file: Path, tmp_path: Path) -> None:
    fixed = {"n_samples": 1, "seed": 0, "flat": True}
    old = send("sample_motion", **fixed).positions
    assert send("load_model", path=str(trained(tmp_path / "other", 5))).success
    new = send("sample_motion", **fixed).positions
    assert new != old
    (tmp_path / "half").write_bytes(prior_file.read_bytes()[:2000])
    for path, cause in ((tmp_path / "half", "truncated"), (tmp_path / "none", "cannot read"), ("", "empty")):
        answer = send("load_model", path=str(path))
        assert (answer.success, cause in answer.message) == (False, True), answer.message
    assert send("sample_motion", **fixed).positions == new
    assert send("load_model", path=str(prior_file)).success
    assert send("sample_motion", **fixed).positions == old


def test_server_without_a_model_waits_for_one_and_tells_which_one_serves(
    start_server: Callable[..., ServerProcess], client: ClientNode, tmp_path: Path
) -> None:
    server = start_server("-r", "__ns:=/waiting", node="motion_prior_server")
    node, wanted = f"/waiting{NODE}", SampleMotion.Request(n_samples=1)
    refused = client.call(server, SampleMotion, f"{node}/sample_motion", wanted)
    assert (refused.error_code.val, "no model is loaded" in refused.error_code.message) == (FAILURE, True)
    missing = client.diagnosis(server, "no model is loaded: set the parameter model, or call load_model")
    assert missing.level == DiagnosticStatus.WARN
    path = trained(tmp_path / "plain", 1, context=False)
    assert client.call(server, LoadModel, f"{node}/load_model", LoadModel.Request(path=str(path))).success
    assert client.call(server, SampleMotion, f"{node}/sample_motion", wanted).error_code.val == SUCCESS
    assert client.parameters(server, node, "model") == [str(path)]
    end = time.monotonic() + PATIENCE  # the message may come from another active server
    while {item.key: item.value for item in client.diagnosis(server, "active").values}["model"] != str(path):
        assert time.monotonic() < end
    assert server.stop() == 0, server.log


def test_server_that_is_not_active_refuses_and_says_so(
    start_server: Callable[..., ServerProcess], client: ClientNode, prior_file: Path
) -> None:
    server = start_server("-r", "__ns:=/managed", node="motion_prior_server", model=prior_file, autostart=False)
    node, load = f"/managed{NODE}", LoadModel.Request(path=str(prior_file))

    def sample() -> Any:
        message = SampleMotion.Request(n_samples=1, context=[1.0])
        return client.call(server, SampleMotion, f"{node}/sample_motion", message)

    assert (sample().error_code.val, "is unconfigured, not active" in sample().error_code.message) == (FAILURE, True)
    assert "configure and activate it" in client.call(server, LoadModel, f"{node}/load_model", load).message
    for label in ("configure", "activate", "deactivate"):
        assert client.change_state(server, label, node), server.log
    assert "is inactive, not active" in sample().error_code.message
    assert server.stop() == 0, server.log
