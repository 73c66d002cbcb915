"""The clients that README and docs/how_to/call_the_service.md show get answers from a real server."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from nodes.server_process import ServerProcess

ROOT = Path(__file__).resolve().parents[3]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> list[str]:
    found = BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
    return [text for text in found if "rclpy" in text or "eim_ros.nodes" in text]


@pytest.mark.parametrize("page", ["README.md", "docs/how_to/call_the_service.md"])
def test_documented_clients_are_answered(start_server: Callable[..., ServerProcess], page: str) -> None:
    server = start_server(model="none", robot="panda")
    program = "\n".join(blocks(page))
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120.0, check=False)
    assert result.returncode == 0, result.stderr + server.log
    assert re.findall(r"\b100\b", result.stdout.splitlines()[-1]) == ["100"], result.stdout  # solutions
    assert server.stop() == 0, server.log
