"""With `~/load_model` over DDS, no request is lost while models are exchanged, and bad files change nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from nodes.client_node import NODE, ClientNode, request
from nodes.models import save_small_model
from nodes.server_process import ServerProcess

from eim_ros.ik import ErrorCode, IKModel
from eim_ros.msg import IKSolutions
from eim_ros.srv import DrawIK, LoadModel

PERIOD = 0.01  # [s], for 100 requests per second
RAW = {"density": "proposal", "n_samples": 1, "seed": 5, "timeout": 20.0}  # its sample identifies a model


@pytest.fixture(scope="module")
def server(start_server: Callable[..., ServerProcess]) -> ServerProcess:
    return start_server()


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Path:
    """Write a model with other experts for the same robot."""
    path = tmp_path_factory.mktemp("models") / "other.safetensors"
    small = IKModel.load(model)
    tensors = small.mixture.tensors()
    tensors["experts.biases"] = 0.5 * tensors["experts.biases"] + 0.1
    IKModel(type(small.mixture).from_tensors(tensors), small.robot, small.context_kind).save(path)
    return path


def load(client: ClientNode, server: ServerProcess, path: Path | str) -> LoadModel.Response:
    return client.call(server, LoadModel, f"{NODE}/load_model", LoadModel.Request(path=str(path)), 90.0)


def fingerprint(client: ClientNode, server: ServerProcess) -> tuple[float, ...]:
    answer = client.call(server, DrawIK, f"{NODE}/draw_ik", request(service_type=DrawIK, **RAW)).solutions
    assert answer.n == 1, answer.error_code.message
    return tuple(answer.positions)


def test_no_request_is_lost_while_models_are_exchanged(
    client: ClientNode, server: ServerProcess, model: Path, other: Path
) -> None:
    """One of the two models answers each of at least 300 requests, sent at 100 Hz. The old model answers first."""
    assert load(client, server, model).success
    old = fingerprint(client, server)
    service = client.client(server, DrawIK, f"{NODE}/draw_ik")
    swap = client.client(server, LoadModel, f"{NODE}/load_model")
    sent, due, wish = [], time.monotonic(), None
    while len(sent) < 300 or wish is None:
        client.executor.spin_once(max(0.0, due - time.monotonic()))
        if time.monotonic() >= due:
            sent.append(service.call_async(request(service_type=DrawIK, **RAW)))
            due += PERIOD
        if wish is None and len(sent) >= 50 and all(future.done() for future in sent[:50]):
            wish = swap.call_async(LoadModel.Request(path=str(other)))
    *results, exchanged = client.results([*sent, wish])
    assert exchanged.success, exchanged.message
    answers = [result.solutions for result in results]
    assert {answer.error_code.val for answer in answers} <= {ErrorCode.SUCCESS, ErrorCode.NO_IK_SOLUTION}  # raw samples
    models = [tuple(answer.positions) for answer in answers]
    new = fingerprint(client, server)
    assert new != old
    assert models == [old] * models.count(old) + [new] * models.count(new)
    assert models.count(old) >= 50


def test_pose_model_may_replace_a_position_model(
    client: ClientNode, server: ServerProcess, model: Path, tmp_path: Path
) -> None:
    assert load(client, server, save_small_model(tmp_path / "pose", "iiwa14", "pose")).success
    assert client.sample(server, request()).error_code.val == ErrorCode.SUCCESS
    assert load(client, server, model).success


@pytest.mark.parametrize(
    ("path", "reason"),
    [("missing", "cannot read"), ("panda", "was trained for robot 'panda'"), ("", "path of the model is empty")],
)
def test_bad_file_is_refused_and_the_old_model_stays(
    client: ClientNode, server: ServerProcess, tmp_path: Path, path: str, reason: str
) -> None:
    before = fingerprint(client, server)
    save_small_model(tmp_path / "panda", "panda", "position")
    answer = load(client, server, str(tmp_path / path) if path else "")
    assert (answer.success, reason in answer.message) == (False, True), answer.message
    assert fingerprint(client, server) == before


def test_many_wishes_at_once_are_all_answered(client: ClientNode, server: ServerProcess, model: Path) -> None:
    service = client.client(server, LoadModel, f"{NODE}/load_model")
    answers = client.results([service.call_async(LoadModel.Request(path=str(model))) for _ in range(8)])
    assert answers[0].success
    assert all(answer.success or "try again later" in answer.message for answer in answers)
    assert client.sample(server, request()).error_code.val == ErrorCode.SUCCESS


def test_model_is_exchanged_in_an_inactive_node_and_refused_by_an_unconfigured_one(
    client: ClientNode, server: ServerProcess, start_server: Callable[..., ServerProcess], model: Path, other: Path
) -> None:
    assert load(client, server, model).success
    old = fingerprint(client, server)
    assert client.change_state(server, "deactivate")
    assert load(client, server, other).success
    assert client.sample(server, request()).error_code.val == ErrorCode.FAILURE
    assert client.change_state(server, "activate")
    exchanged = fingerprint(client, server)
    assert not np.array_equal(exchanged, old)
    assert client.change_state(server, "deactivate")
    assert client.change_state(server, "cleanup")
    answer = load(client, server, other)
    assert (answer.success, "unconfigured" in answer.message) == (False, True)
    assert client.change_state(server, "configure")
    assert client.change_state(server, "activate")
    assert fingerprint(client, server) == exchanged  # the parameter contains the last model


def test_server_of_a_robot_has_no_densities_until_a_model_is_loaded(
    client: ClientNode, start_server: Callable[..., ServerProcess], model: Path
) -> None:
    bare, space = start_server("-r", "__ns:=/bare", model="none", robot="iiwa14"), "/bare"
    answer = client.sample(bare, request(), space)
    assert (answer.error_code.val, answer.n, set(answer.expert)) == (ErrorCode.SUCCESS, 10, {IKSolutions.NO_EXPERT})
    assert np.isnan(answer.log_prob).all()
    loading = LoadModel.Request(path=str(model))
    assert client.call(bare, LoadModel, f"{space}{NODE}/load_model", loading, 90.0).success
    assert np.isfinite(client.sample(bare, request(), space).log_prob).all()
    assert bare.stop() == 0, bare.log
