"""Settings of the node and the shipped parameter file say the same."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from eim_ros.core.errors import ConfigurationError
from eim_ros.nodes.common.parameters import descriptor
from eim_ros.nodes.settings import IkServerSettings


def test_read_only_are_exactly_those_that_configure_uses() -> None:
    writable = {field.name for field in dataclasses.fields(IkServerSettings) if not descriptor(field).read_only}
    assert writable == {
        "default_position_tolerance",
        "default_orientation_tolerance",
        "default_timeout",
        "max_timeout",
        "max_samples",
        "transform_timeout",
    }


def test_two_sources_of_the_robot_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="robot and robot_description"):
        IkServerSettings(robot=str(tmp_path), robot_description="<robot/>")
