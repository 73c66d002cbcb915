"""A node detects another node of the same name, even if they discover each other only when both are active."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import rclpy
from nodes.client_node import ClientNode

from eim_ros.nodes.common import name_watch
from eim_ros.nodes.common.name_watch import NameWatch


def heard(condition: Callable[[], bool], *watches: NameWatch) -> bool:
    """Return whether a condition becomes true within 10 s, while all nodes announce themselves."""
    end = time.monotonic() + 10.0
    while not condition() and time.monotonic() < end:
        for watch in watches:
            watch.announce("active")
        time.sleep(0.05)
    return condition()


def test_the_node_that_became_active_later_ends(client: ClientNode, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [rclpy.create_node("one_name", namespace="/name_watch") for _ in range(2)]
    try:
        first, second = (NameWatch(node) for node in nodes)
        first.announce("active")
        second.announce("active")  # as if `check` had not discovered the first node
        assert heard(lambda: bool(first.conflict()) and bool(second.conflict()), first, second)
        assert second.must_end()
        assert not first.must_end()
        monkeypatch.setattr(name_watch, "_NEW", 0.0)  # later, both nodes keep running
        assert not second.must_end()
    finally:
        for node in nodes:
            node.destroy_node()
