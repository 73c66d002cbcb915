"""Joint positions from a topic: the latest position of each joint, without invalid positions."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState

from eim_ros.nodes.common import frames


def test_positions_that_are_not_finite_leave_the_latest_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    messages, warnings = list[bytes](), list[str]()

    def take() -> list[bytes]:
        taken, messages[:] = messages[:], []
        return taken

    topic = SimpleNamespace(take=take, topic="/joint_states")
    logger = SimpleNamespace(warning=lambda text, **_: warnings.append(text))
    node: Any = SimpleNamespace(create_timer=lambda *_, **__: None, get_logger=lambda: logger)
    monkeypatch.setattr(frames, "DrainedSubscription", lambda *_: topic)
    positions = frames.JointPositions(node, "/joint_states")
    for names, values in (
        (["a", "b"], [0.1, 0.2]),
        (["a", "b"], [0.3, math.nan]),
        (["c"], [math.inf]),
        (["a", "b"], [5.0]),
        (["a"], []),
    ):
        messages.append(serialize_message(JointState(name=names, position=values)))
    assert positions.now == {"a": 0.3, "b": 0.2}
    assert warnings == ["/joint_states: a joint state with 2 names and 1 positions is ignored"]
