"""Launch arguments determine the parameters and the remappings of a node."""

from __future__ import annotations

import pytest

from eim_ros.core.errors import ConfigurationError
from eim_ros.nodes.launching import LaunchedNode, integer, switch

EMPTY = {"use_sim_time": "false", "autostart": "", "model": "", "robot_description_topic": "", "collect": "false"}
NODE = LaunchedNode(
    "ik_server", {"model": "model"}, takes_robot_topic=True, when=lambda given: switch(given, "collect")
)


def test_empty_arguments_leave_the_parameter_files_as_they_are() -> None:
    assert NODE.parameters(EMPTY) == {"use_sim_time": False}
    assert NODE.remappings(EMPTY) == []
    assert not NODE.is_wanted(EMPTY)


def test_given_arguments_become_parameters_and_remappings() -> None:
    given = {"use_sim_time": "True", "autostart": "0", "model": "m", "robot_description_topic": "urdf", "collect": "1"}
    wanted = {"use_sim_time": True, "autostart": False, "model": "m", "use_robot_description_topic": True}
    assert NODE.parameters(given) == wanted
    assert NODE.remappings(given) == [("robot_description", "urdf")]
    assert NODE.is_wanted(given)


def test_node_that_describes_the_robot_itself_does_not_take_it_from_the_topic() -> None:
    simulator = LaunchedNode("planar_simulator", more=lambda given: {"publish_clock": switch(given, "use_sim_time")})
    given = {**EMPTY, "robot_description_topic": "urdf", "use_sim_time": "true"}
    assert simulator.parameters(given) == {"use_sim_time": True, "publish_clock": True}
    assert simulator.remappings(given) == [("robot_description", "urdf")]


@pytest.mark.parametrize("text", ["yes", "", "2"])
def test_switch_is_true_or_false(text: str) -> None:
    with pytest.raises(ConfigurationError, match="autostarted must be true or false"):
        switch({"autostarted": text}, "autostarted")


@pytest.mark.parametrize("text", ["many", "", "1.5"])
def test_number_is_an_integer(text: str) -> None:
    assert integer({"samples": "-10"}, "samples") == -10
    with pytest.raises(ConfigurationError, match="samples must be an integer"):
        integer({"samples": text}, "samples")


@pytest.mark.parametrize("respawn", ["true", "false"])
def test_node_with_an_end_is_never_started_again(respawn: str) -> None:
    given = {"respawn": respawn}
    assert not LaunchedNode("training_coordinator", has_end=True).respawns(given)
    assert LaunchedNode("trainer").respawns(given) == (respawn == "true")
