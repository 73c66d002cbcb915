"""A server of a robot without a model, over DDS: all solutions, no densities, until a model is loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kinematics.robots import robot_and_oracle
from nodes.client_node import NODE, ClientNode, joint_positions, request
from nodes.diagnosis import status
from nodes.models import save_small_model
from nodes.server_process import ServerProcess
from rcl_interfaces.srv import GetParameters

from eim_ros.ik import ErrorCode
from eim_ros.kinematics import quaternion_from_matrix
from eim_ros.msg import IKSolutions
from eim_ros.srv import DrawIK, LoadModel, SampleIK

ROBOT, ORACLE = robot_and_oracle("panda")
POSE = ROBOT.fk(np.array([0.0, 0.3, 0.0, -1.8, 0.0, 2.1, 0.8]))


@pytest.fixture(scope="module")
def server(start_server: Callable[..., ServerProcess]) -> Iterator[ServerProcess]:
    started = start_server(model="none", robot="panda")
    yield started
    assert started.stop() == 0, started.log


def wanted(service_type: Any = SampleIK, **fields: object) -> Any:
    """Thirty configurations of a whole pose."""
    message = request(tuple(POSE[:3, 3]), service_type, **{"n_samples": 30, "position_only": False, **fields})
    message.header.frame_id = ROBOT.base_link
    rotation = message.poses[0].orientation
    rotation.x, rotation.y, rotation.z, rotation.w = quaternion_from_matrix(POSE).tolist()
    return message


def load(client: ClientNode, server: ServerProcess, path: Path) -> LoadModel.Response:
    return client.call(server, LoadModel, f"{NODE}/load_model", LoadModel.Request(path=str(path)), 90.0)


def test_solutions_are_found_and_have_no_density(client: ClientNode, server: ServerProcess) -> None:
    answer = client.sample(server, wanted())
    assert answer.error_code.val == ErrorCode.SUCCESS, answer.error_code.message
    assert (answer.n, not answer.valid) == (30, True)
    for q in joint_positions(answer):
        np.testing.assert_allclose(ORACLE.forward(q), POSE, atol=2e-6)
    assert np.isnan(answer.log_prob).all()
    assert set(answer.expert) == {IKSolutions.NO_EXPERT}


def test_diagnostics_tell_that_there_is_no_model(client: ClientNode, server: ServerProcess) -> None:
    client.sample(server, wanted())
    facts = {value.key: value.value for value in status(client, server, "active").values}
    assert facts["model"] == "none"
    told = client.call(server, GetParameters, f"{NODE}/get_parameters", GetParameters.Request(names=["model"]))
    assert told.values[0].string_value == "none"


@pytest.mark.parametrize(
    ("service_type", "name", "fields", "reason"),
    [
        (SampleIK, "sample_ik", {"order": ["density"]}, "ordering by density needs a model"),
        (DrawIK, "draw_ik", {"density": "proposal"}, "proposals are draws from a model, and this sampler has none"),
    ],
)
def test_what_needs_a_model_is_refused(
    client: ClientNode, server: ServerProcess, service_type: Any, name: str, fields: dict[str, object], reason: str
) -> None:
    answer = client.call(server, service_type, f"{NODE}/{name}", wanted(service_type, **fields)).solutions
    assert (answer.error_code.val, answer.n) == (ErrorCode.INVALID_GOAL_CONSTRAINTS, 0)
    assert reason in answer.error_code.message


def test_model_may_be_loaded_if_it_is_of_this_robot(client: ClientNode, server: ServerProcess, tmp_path: Path) -> None:
    refused = load(client, server, save_small_model(tmp_path / "other", "iiwa14", "pose"))
    assert (refused.success, "was trained for robot 'iiwa14'" in refused.message) == (False, True)
    assert np.isnan(client.sample(server, wanted()).log_prob).all()
    assert load(client, server, save_small_model(tmp_path / "own", "panda", "pose")).success
    answer = client.sample(server, wanted())
    assert answer.error_code.val == ErrorCode.SUCCESS, answer.error_code.message
    assert np.isfinite(answer.log_prob).all()
