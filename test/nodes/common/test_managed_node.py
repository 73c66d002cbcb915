"""Every node is a lifecycle node: it reports its state, refuses requests while inactive, and can be restarted."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from diagnostic_msgs.msg import DiagnosticStatus
from nodes.client_node import ClientNode
from nodes.server_process import ServerProcess

from eim_ros.nodes.__main__ import NODES

PARAMETERS: dict[str, dict[str, object]] = {
    "demonstrator": {"show_at_start": False},
    "fk_collector": {"robot": "planar3", "source": "sampling"},
    "ik_server": {"model": "none", "robot": "planar3"},
    "ik_viewer": {"robot": "planar3"},
}
TRIGGERS = {  # one service per node, which succeeds as soon as the node is active
    "demonstrator": "start",
    "fk_collector": "start",
    "planar_simulator": "reset",
}
WARNINGS = {"motion_prior_server": "no model is loaded: set the parameter model, or call load_model"}
REMEDIES = {
    "unconfigured": "configure and activate it",
    "inactive": "activate it",
    "finalized": "start it again",
}


@pytest.mark.parametrize("name", NODES)
def test_node_goes_through_its_states_and_tells_them(
    start_server: Callable[..., ServerProcess], client: ClientNode, name: str
) -> None:
    server = start_server("-r", "__ns:=/managed", node=name, autostart=False, **PARAMETERS.get(name, {}))
    node = f"/managed/{name}"

    def trigger() -> tuple[bool, str]:
        answer = client.trigger(server, f"{node}/{TRIGGERS[name]}")
        return answer.success, answer.message

    def check_refused(state: str) -> None:
        assert client.state(server, node) == state
        if name in TRIGGERS:
            assert trigger() == (False, f"{name} is {state}, not active: {REMEDIES[state]}")

    check_refused("unconfigured")
    told = client.diagnosis(server, "unconfigured")
    assert (told.level, told.name.partition(":")[0]) == (DiagnosticStatus.WARN, node)
    assert not client.change_state(server, "activate", node)
    for _ in range(2):  # the second round follows a cleanup
        assert client.change_state(server, "configure", node), server.log
        check_refused("inactive")
        assert client.change_state(server, "activate", node), server.log
        assert client.state(server, node) == "active"
        if name in TRIGGERS:
            assert trigger()[0], server.log
        assert client.change_state(server, "deactivate", node), server.log
        check_refused("inactive")
        assert client.change_state(server, "activate", node), server.log
        told = client.diagnosis(server, WARNINGS.get(name, "active"))
        assert told.level == (DiagnosticStatus.WARN if name in WARNINGS else DiagnosticStatus.OK)
        assert {item.key: item.value for item in told.values}["state"] == "active"
        assert client.change_state(server, "deactivate", node), server.log
        assert client.change_state(server, "cleanup", node), server.log
        check_refused("unconfigured")
    assert client.change_state(server, "shutdown", node), server.log
    check_refused("finalized")
    assert server.stop() == 0, server.log
    assert "Traceback" not in server.log
