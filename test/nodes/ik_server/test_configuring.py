"""Responses of `ik_server` while it configures. In these tests, the node waits for the description of the robot."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from diagnostic_msgs.msg import DiagnosticStatus
from lifecycle_msgs.srv import ChangeState
from nodes.client_node import NODE, ClientNode, request
from nodes.server_process import PATIENCE, ServerProcess, wait_until
from std_msgs.msg import String

from eim_ros.core.errors import ServiceError
from eim_ros.ik import ErrorCode
from eim_ros.kinematics import Robot
from eim_ros.nodes import IKClient, wait_until_active
from eim_ros.nodes.common.interfaces import GetPositionIK
from eim_ros.nodes.common.qos import LATCHED_QOS
from eim_ros.srv import LoadModel, SampleIK

Start = Callable[..., ServerProcess]
LONG = 600.0  # [s], longer than any test
COMMAND = (
    sys.executable,
    "-m",
    "eim_ros.cli.main",
    "sample",
    "--service",
    NODE,
    "--pose",
    "0.4",
    "0.1",
    "0.6",
    "--json",
)


@pytest.fixture
def caller(client: ClientNode) -> ClientNode:
    client.waits_for_start = False
    return client


@pytest.fixture
def describe(client: ClientNode) -> Iterator[Callable[[], None]]:
    """Return a function that publishes the robot, which ends the configuration. Later tests have no such publisher."""
    publisher = client.node.create_publisher(String, "/robot_description", LATCHED_QOS)
    yield lambda: publisher.publish(String(data=Robot("iiwa14").urdf))
    client.node.destroy_publisher(publisher)


@pytest.fixture(scope="module")
def waiting(start_server: Start) -> ServerProcess:
    """Start a server that configures until the last of its tests publishes the robot."""
    return start_server(use_robot_description_topic=True, robot_description_timeout=LONG)


def until_it_configures(caller: ClientNode, server: ServerProcess) -> None:
    wait_until(lambda: caller.state(server) == "configuring", "configuration", server)


def refusal(caller: ClientNode, server: ServerProcess) -> str:
    answer = caller.sample(server, request())
    assert (answer.error_code.val, answer.n) == (ErrorCode.FAILURE, 0)
    return answer.error_code.message


def test_requests_are_refused_at_once_while_the_node_configures(caller: ClientNode, waiting: ServerProcess) -> None:
    until_it_configures(caller, waiting)
    assert refusal(caller, waiting) == "ik_server is configuring, not active yet"
    nearest = caller.call(waiting, GetPositionIK, f"{NODE}/get_position_ik", GetPositionIK.Request())
    assert nearest.error_code.val == ErrorCode.FAILURE
    loaded = caller.call(waiting, LoadModel, f"{NODE}/load_model", LoadModel.Request(path="model"))
    assert (loaded.success, "is configuring" in loaded.message) == (False, True)


def test_parameters_and_diagnostics_are_told_while_the_node_configures(
    caller: ClientNode, waiting: ServerProcess
) -> None:
    until_it_configures(caller, waiting)
    assert not caller.set_parameters(waiting, NODE, max_samples=7000)
    assert caller.parameters(waiting, NODE, "max_samples") == [7000]
    assert caller.diagnosis(waiting, "configuring").level == DiagnosticStatus.WARN


def test_client_whose_wait_is_over_says_in_which_state_the_node_is(caller: ClientNode, waiting: ServerProcess) -> None:
    until_it_configures(caller, waiting)
    with pytest.raises(ServiceError, match="/ik_server is configuring, not active, after"):
        wait_until_active(caller.node, NODE, wait=2.0, executor=caller.executor)


def test_clients_wait_until_the_node_is_active(
    caller: ClientNode, waiting: ServerProcess, describe: Callable[[], None]
) -> None:
    """The Python client and the command line both wait."""
    until_it_configures(caller, waiting)
    seen = []
    before = caller.node.count_clients(f"{NODE}/sample_ik")  # earlier tests may have left a client

    def watch(state: str, elapsed: float) -> None:
        seen.append(state)
        if "configuring" in seen and caller.node.count_clients(f"{NODE}/sample_ik") > before + 1:  # both clients
            describe()

    with subprocess.Popen([*COMMAND, "--set", f"wait={PATIENCE}"], stdout=subprocess.PIPE, text=True) as process:
        with IKClient(SampleIK, f"{NODE}/sample_ik", wait=PATIENCE, watch=watch) as patient:
            assert patient.call(request()).solutions.error_code.val == ErrorCode.SUCCESS, waiting.log
        out, _ = process.communicate(timeout=PATIENCE)
    assert "configuring" in seen
    assert process.returncode == 0
    assert all(json.loads(out)["valid"])
    assert caller.state(waiting) == "active"
    assert waiting.stop() == 0, waiting.log


def test_managed_node_answers_during_the_transition(
    start_server: Start, caller: ClientNode, describe: Callable[[], None]
) -> None:
    server = start_server(autostart=False, use_robot_description_topic=True, robot_description_timeout=LONG)
    assert refusal(caller, server) == "ik_server is unconfigured, not active: configure and activate it"
    (transition,) = asked(caller, server, "configure")
    until_it_configures(caller, server)
    assert refusal(caller, server) == "ik_server is configuring, not active yet"
    assert not transition.done()
    describe()
    assert caller.results([transition])[0].success, server.log
    assert caller.state(server) == "inactive"
    assert caller.change_state(server, "activate")
    assert caller.sample(server, request()).error_code.val == ErrorCode.SUCCESS
    assert server.stop() == 0, server.log


def test_transitions_that_come_meanwhile_are_made_afterwards_in_turn(
    start_server: Start, caller: ClientNode, describe: Callable[[], None]
) -> None:
    """A node with autostart that is asked to deactivate and clean up while it configures becomes active first."""
    server = start_server(use_robot_description_topic=True, robot_description_timeout=LONG)
    until_it_configures(caller, server)
    futures = asked(caller, server, "deactivate", "cleanup")
    assert caller.state(server) == "configuring"
    describe()
    assert all(result.success for result in caller.results(futures)), server.log
    assert caller.state(server) == "unconfigured"
    assert server.stop() == 0, server.log


def asked(caller: ClientNode, server: ServerProcess, *labels: str) -> list[Any]:
    """Request transitions and return the futures."""
    requests = [ChangeState.Request() for _ in labels]
    for message, label in zip(requests, labels, strict=True):
        message.transition.label = label
    service = caller.client(server, ChangeState, f"{NODE}/change_state")
    return [service.call_async(message) for message in requests]


def test_signal_ends_a_node_that_waits_for_its_description(start_server: Start, caller: ClientNode) -> None:
    server = start_server(use_robot_description_topic=True, robot_description_timeout=LONG)
    until_it_configures(caller, server)
    server.signal(signal.SIGTERM)
    assert server.wait(20.0) == 0, server.log
    assert "Traceback" not in server.log and "cannot configure" not in server.log, server.log
