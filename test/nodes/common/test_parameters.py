"""A settings dataclass defines the ROS parameters of a node. The tests run nodes in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import rclpy
from rclpy.node import Node
from rclpy.parameter import Parameter

from eim_ros.core.errors import ConfigurationError
from eim_ros.nodes.common.parameters import NodeSettings
from eim_ros.nodes.settings import IkServerSettings

MakeNode = Callable[..., Node]


@pytest.fixture
def make_node() -> Iterator[MakeNode]:
    """Return a function that creates a node with overrides like those from a command line or a parameter file."""
    nodes: list[Node] = []

    def make(**overrides: object) -> Node:
        parameters = [Parameter(name, value=value) for name, value in overrides.items()]
        nodes.append(rclpy.create_node("parameters_under_test", parameter_overrides=parameters))
        return nodes[-1]

    yield make
    for node in nodes:
        node.destroy_node()


def test_defaults_and_overrides_become_settings(make_node: MakeNode) -> None:
    settings = NodeSettings(make_node(max_samples=7, use_sim_time=False), IkServerSettings).current
    assert settings == IkServerSettings(max_samples=7)


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        ({"max_samples": -1}, "max_samples"),
        ({"max_samples": 2**40}, "max_samples"),
        ({"max_samples": "many"}, "max_samples"),
        ({"default_timeout": 1}, "default_timeout"),  # for ROS, 1 is not a double
        ({"default_timeout": float("nan")}, "default_timeout"),
        ({"default_timeout": float("inf")}, "default_timeout"),
        ({"default_timeout": 20.0, "max_timeout": 10.0}, "default_timeout"),
        ({"max_sample": 10}, "unknown parameter max_sample of parameters_under_test; the parameters are .*robot, "),
        ({"robot": "iiwa14", "use_robot_description_topic": True}, "given by robot and use_robot_description_topic"),
        ({"robot": "iiwa14", "robot_description": "<robot/>"}, "given by robot and robot_description"),
    ],
)
def test_bad_override_is_refused_with_its_name(make_node: MakeNode, overrides: dict[str, object], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        NodeSettings(make_node(**overrides), IkServerSettings)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_samples", 0),
        ("default_timeout", -1.0),
        ("default_timeout", 1e9),
        ("default_position_tolerance", float("nan")),
        ("model", "other.safetensors"),
        ("chain.base_link", "world"),
    ],
)
def test_bad_change_is_refused_with_a_reason_and_leaves_the_settings(
    make_node: MakeNode, name: str, value: object
) -> None:
    node = make_node()
    settings = NodeSettings(node, IkServerSettings)
    settings.tell("chain.base_link", "base", "Base.")
    (result,) = node.set_parameters([Parameter(name, value=value)])
    assert (result.successful, bool(result.reason)) == (False, True)
    assert settings.current == IkServerSettings()


def test_change_that_contradicts_another_parameter_is_refused_and_leaves_the_settings(make_node: MakeNode) -> None:
    node = make_node()
    settings = NodeSettings(node, IkServerSettings)
    (result,) = node.set_parameters([Parameter("default_timeout", value=31.0)])
    assert not result.successful
    assert "default_timeout is 31.0 s, expected at most max_timeout, 30.0 s" in result.reason
    assert settings.current == IkServerSettings()
    both = [Parameter("max_timeout", value=40.0), Parameter("default_timeout", value=31.0)]
    assert node.set_parameters_atomically(both).successful
    assert settings.current == IkServerSettings(max_timeout=40.0, default_timeout=31.0)


def test_dumped_parameters_can_be_given_back(make_node: MakeNode) -> None:
    node = make_node(**{"chain.base_link": "of an earlier run", "max_samples": 3})
    settings = NodeSettings(node, IkServerSettings)
    settings.tell("chain.base_link", "of this run", "Base.")
    assert node.get_parameter("chain.base_link").value == "of this run"


def test_told_parameter_is_set_by_the_node(make_node: MakeNode) -> None:
    node = make_node()
    settings = NodeSettings(node, IkServerSettings)
    for value in ("first", "second"):
        settings.tell("chain.base_link", value, "Base.")
        assert node.get_parameter("chain.base_link").value == value


def test_node_changes_what_users_may_only_read(make_node: MakeNode) -> None:
    node = make_node(model="first.safetensors")
    settings = NodeSettings(node, IkServerSettings)
    settings.put("model", "second.safetensors")
    assert settings.current.model == node.get_parameter("model").value == "second.safetensors"
    assert node.describe_parameter("model").read_only
