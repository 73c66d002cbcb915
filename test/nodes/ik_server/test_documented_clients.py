"""The clients that README and docs/ik_server.md show get answers from a real server."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from nodes.server_process import ServerProcess

ROOT = Path(__file__).resolve().parents[3]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CHECK = """
rclpy.spin_until_future_complete(node, future, timeout_sec=30.0)
print(configurations.shape, future.result().error_code, answer.error_code, answer.message)
"""


def blocks(page: str) -> list[str]:
    found = BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
    return [text for text in found if "rclpy" in text or "eim_ros.nodes" in text]


def test_documented_clients_are_answered(start_server: Callable[..., ServerProcess]) -> None:
    server = start_server()
    (first,), more = blocks("README.md"), blocks("docs/ik_server.md")
    assert len(more) == 3
    program = "\n".join([first, *more, CHECK])
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120.0, check=False)
    assert result.returncode == 0, result.stderr + server.log
    assert result.stdout.startswith("(100, 7) 1 1 "), result.stdout  # SUCCESS
    assert server.stop() == 0, server.log
