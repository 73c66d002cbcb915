"""What programs that call the nodes import from `eim_ros.nodes`, without paying for what they do not use."""

from __future__ import annotations

import subprocess
import sys

import pytest

from eim_ros import nodes


@pytest.mark.parametrize("name", nodes.__all__)
def test_every_name_is_found_and_listed(name: str) -> None:
    assert getattr(nodes, name) is not None
    assert name in dir(nodes)


def test_settings_of_a_node_can_be_read_without_ros() -> None:
    code = """
import sys
sys.modules["rclpy"] = None
from eim_ros.nodes.settings import IkServerSettings
from eim_ros.nodes.settings import TrainerSettings
print(IkServerSettings().max_samples, TrainerSettings().threads)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert (result.returncode, result.stdout) == (0, "10000 1\n"), result.stderr
