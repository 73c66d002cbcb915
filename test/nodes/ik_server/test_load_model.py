"""`~/load_model` of the IK server over DDS: no request is lost while models are exchanged, bad files change nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from nodes.client_node import NODE, ClientNode, request
from nodes.models import save_small_model
from nodes.server_process import ServerProcess
from rcl_interfaces.srv import GetParameters

from eim_ros.ik import ErrorCode, IKModel
from eim_ros.srv import DrawIK, LoadModel

PERIOD = 0.01  # [s]: 100 requests per second
RAW = {"density": "proposal", "n_samples": 1, "seed": 5, "timeout": 20.0}  # the model's own sample: its fingerprint


@pytest.fixture(scope="module")
def server(start_server: Callable[..., ServerProcess]) -> Iterator[ServerProcess]:
    started = start_server()
    yield started
    assert started.stop() == 0, started.log


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Path:
    """The same robot, experts elsewhere."""
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
    """300 requests or more at 100 per second, each answered well and by one of the two models, the old ones first."""
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
    for future in [*sent, wish]:
        client.executor.spin_until_future_complete(future, 30.0)
    assert all(future.done() for future in sent), server.log
    assert wish.result().success, wish.result().message
    answers = [future.result().solutions for future in sent]
    assert {answer.error_code.val for answer in answers} <= {ErrorCode.SUCCESS, ErrorCode.NO_IK_SOLUTION}  # raw samples
    models = [tuple(answer.positions) for answer in answers]
    new = fingerprint(client, server)
    assert new != old
    assert models == [old] * models.count(old) + [new] * models.count(new)
    assert models.count(old) >= 50


def test_new_model_serves_refined_requests(client: ClientNode, server: ServerProcess, other: Path) -> None:
    assert load(client, server, other).success
    answer = client.sample(server, request(n_samples=50))
    assert answer.error_code.val == ErrorCode.SUCCESS
    assert not answer.valid


def test_pose_model_may_replace_a_position_model(
    client: ClientNode, server: ServerProcess, model: Path, tmp_path: Path
) -> None:
    assert load(client, server, save_small_model(tmp_path / "pose", "iiwa14", "pose")).success
    assert client.sample(server, request()).error_code.val == ErrorCode.SUCCESS
    assert load(client, server, model).success


def bad_file(kind: str, model: Path, folder: Path) -> str:
    path = folder / "bad.safetensors"
    if kind == "truncated":
        path.write_bytes(model.read_bytes()[:1000])
    elif kind == "pickle":
        torch.save({"experts": torch.zeros(3)}, path)
    elif kind == "other robot":
        save_small_model(path, "panda", "position")
    elif kind == "folder":
        return str(folder)
    elif kind == "no path":
        return ""
    return str(path)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("missing", "cannot read"),
        ("truncated", "truncated"),
        ("pickle", "the only format that is loaded"),
        ("other robot", "was trained for robot 'panda'"),
        ("folder", "cannot read"),
        ("no path", "path of the model is empty"),
    ],
)
def test_bad_file_is_refused_and_the_old_model_stays(
    client: ClientNode, server: ServerProcess, model: Path, tmp_path: Path, kind: str, reason: str
) -> None:
    before = fingerprint(client, server)
    answer = load(client, server, bad_file(kind, model, tmp_path))
    assert not answer.success
    assert reason in answer.message
    assert fingerprint(client, server) == before


def test_many_wishes_at_once_are_all_answered(client: ClientNode, server: ServerProcess, model: Path) -> None:
    service = client.client(server, LoadModel, f"{NODE}/load_model")
    futures = [service.call_async(LoadModel.Request(path=str(model))) for _ in range(8)]
    for future in futures:
        client.executor.spin_until_future_complete(future, 60.0)
    answers = [future.result() for future in futures]
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
    assert fingerprint(client, server) == exchanged  # configured with the parameter's model, which was loaded last


def test_parameter_tells_which_model_serves(
    client: ClientNode, server: ServerProcess, model: Path, other: Path
) -> None:
    wanted = GetParameters.Request(names=["model"])
    for path in (other, model):
        assert load(client, server, path).success
        told = client.call(server, GetParameters, f"{NODE}/get_parameters", wanted)
        assert told.values[0].string_value == str(path)
    assert not load(client, server, "nowhere.safetensors").success
    told = client.call(server, GetParameters, f"{NODE}/get_parameters", wanted)
    assert told.values[0].string_value == str(model)
