"""What is said of an error: its own words where it names cause and cure, its type where nobody has foreseen it."""

from __future__ import annotations

import pytest

from eim_ros.core.errors import ConfigurationError, EimError
from eim_ros.nodes.common.service import reason_of


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ConfigurationError("give the robot once,\n   not twice"), "give the robot once, not twice"),
        (EimError(""), "internal error: EimError:"),
        (KeyError("joint"), "internal error: KeyError: 'joint'"),
        (ValueError("two\nlines"), "internal error: ValueError: two lines"),
    ],
)
def test_reason_is_one_line(error: Exception, reason: str) -> None:
    assert reason_of(error) == reason
