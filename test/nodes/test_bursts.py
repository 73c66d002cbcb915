"""200 requests at once from a client with the default quality of service, which keeps only 10 answers: none is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from nodes.server_process import ServerProcess

from eim_ros.nodes.settings import IkServerSettings
from eim_ros_interfaces.srv import SampleIK

N = 200
REPETITIONS = 5
SUCCESS, BUSY = str(SampleIK.Response.SUCCESS), str(SampleIK.Response.BUSY)


@pytest.mark.parametrize("queue_size", [IkServerSettings().queue_size, 20])
def test_no_answer_to_a_default_client_is_lost(start_server: Callable[..., ServerProcess], queue_size: int) -> None:
    server = start_server(queue_size=queue_size)
    server.wait_for_log("configured in")
    for _ in range(REPETITIONS):
        codes = burst()
        assert sum(codes.values()) == N, (codes, server.log)
        assert set(codes) <= {SUCCESS, BUSY}, (codes, server.log)
        assert codes[SUCCESS] == N if queue_size >= N else codes[SUCCESS] >= queue_size, (codes, server.log)
    assert server.stop() == 0, server.log


def burst() -> dict[str, int]:
    """Number of answers of each error code."""
    script = Path(__file__).with_name("burst_client.py")
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = {**os.environ, "PYTHONPATH": f"{script.parents[1]}{os.pathsep}{paths}"}
    result = subprocess.run(
        [sys.executable, str(script), str(N)], env=environment, capture_output=True, text=True, timeout=180.0
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])
