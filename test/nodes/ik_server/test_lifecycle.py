"""Life of the node: transitions through services, what it answers in each state, what diagnostics say."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from diagnostic_msgs.msg import DiagnosticStatus
from nodes.client_node import NODE, ClientNode, request
from nodes.diagnosis import status
from nodes.server_process import ServerProcess
from rcl_interfaces.msg import ParameterType
from rcl_interfaces.srv import DescribeParameters, GetParameters, SetParameters
from rclpy.parameter import Parameter

from eim_ros.ik import ErrorCode


@pytest.fixture(scope="module")
def server(start_server: Callable[..., ServerProcess]) -> Iterator[ServerProcess]:
    started = start_server(autostart=False)
    yield started
    assert started.stop() == 0, started.log


def refusal(client: ClientNode, server: ServerProcess) -> str:
    answer = client.sample(server, request())
    assert answer.error_code.val == ErrorCode.FAILURE
    assert answer.n == 0
    return answer.error_code.message


def test_node_serves_only_while_active(client: ClientNode, server: ServerProcess) -> None:
    assert client.state(server) == "unconfigured"
    assert "unconfigured" in refusal(client, server)
    assert status(client, server, "unconfigured").level == DiagnosticStatus.WARN

    assert client.change_state(server, "configure"), server.log
    assert client.state(server) == "inactive"
    assert "inactive" in refusal(client, server)

    assert client.change_state(server, "activate")
    assert client.sample(server, request()).error_code.val == ErrorCode.SUCCESS, server.log
    active = status(client, server, "active")
    assert active.level == DiagnosticStatus.OK
    assert {item.key: item.value for item in active.values}["answers SUCCESS"] == "1"

    assert client.change_state(server, "deactivate")
    assert "inactive" in refusal(client, server)
    assert client.change_state(server, "activate")
    assert client.sample(server, request()).error_code.val == ErrorCode.SUCCESS

    assert client.change_state(server, "deactivate")
    assert client.change_state(server, "cleanup")
    assert client.state(server) == "unconfigured"
    assert client.change_state(server, "configure")
    assert client.change_state(server, "activate")
    assert client.sample(server, request()).error_code.val == ErrorCode.SUCCESS


def set_parameter(client: ClientNode, server: ServerProcess, name: str, value: object) -> tuple[bool, str]:
    message = SetParameters.Request(parameters=[Parameter(name, value=value).to_parameter_msg()])
    result = client.call(server, SetParameters, f"{NODE}/set_parameters", message).results[0]
    return result.successful, result.reason


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_samples", 0),
        ("default_timeout", -1.0),
        ("default_timeout", 1e9),
        ("default_position_tolerance", float("nan")),
        ("model", "other.safetensors"),
        ("device", "cuda"),
        ("chain.base_link", "world"),
        ("no_such_parameter", 1),
    ],
)
def test_bad_change_of_a_parameter_is_refused_with_its_name(
    client: ClientNode, server: ServerProcess, name: str, value: object
) -> None:
    successful, reason = set_parameter(client, server, name, value)
    assert not successful
    assert reason


def test_changed_parameter_takes_effect(client: ClientNode, server: ServerProcess) -> None:
    assert set_parameter(client, server, "max_samples", 5) == (True, "")
    if client.state(server) == "unconfigured":
        assert client.change_state(server, "configure")
    if client.state(server) == "inactive":
        assert client.change_state(server, "activate")
    assert client.sample(server, request(n_samples=6)).error_code.val == ErrorCode.INVALID_GOAL_CONSTRAINTS
    assert client.sample(server, request(n_samples=5)).error_code.val == ErrorCode.SUCCESS
    assert set_parameter(client, server, "max_samples", 10000) == (True, "")


def test_parameters_describe_themselves(client: ClientNode, server: ServerProcess) -> None:
    message = DescribeParameters.Request(names=["max_timeout", "model"])
    timeout, model = client.call(server, DescribeParameters, f"{NODE}/describe_parameters", message).descriptors
    assert timeout.description.endswith("[s]")
    assert timeout.type == ParameterType.PARAMETER_DOUBLE
    assert timeout.floating_point_range[0].from_value == 1e-3
    assert model.read_only


def test_configured_node_tells_its_chain(client: ClientNode, server: ServerProcess) -> None:
    if client.state(server) == "unconfigured":
        assert client.change_state(server, "configure")
    message = GetParameters.Request(names=["chain.base_link", "chain.tip_link", "chain.joint_names"])
    values = client.call(server, GetParameters, f"{NODE}/get_parameters", message).values
    assert (values[0].string_value, values[1].string_value) == ("base_link", "tool0")
    assert len(values[2].string_array_value) == 7
