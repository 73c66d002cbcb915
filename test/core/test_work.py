"""Progress of work is reported to its listener only."""

from __future__ import annotations

from eim_ros.core.parallel import listening, tell


def test_only_who_listens_hears() -> None:
    heard: list[tuple[str, float, float]] = []
    tell("before", 1.0, 2.0)
    with listening(lambda *told: heard.append(told)):
        tell("start", 1.0, 2.0)
    tell("after", 1.0, 2.0)
    assert heard == [("start", 1.0, 2.0)]
