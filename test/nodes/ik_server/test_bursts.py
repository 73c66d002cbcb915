"""200 requests at once from a client with the default quality of service, which keeps only 10 answers.

The server paces its answers, but such a client still loses some where a busy machine keeps it from reading for some 40
ms, and no server can help that; one that is kept from asking finds a short queue empty. So one of several bursts must
be whole, and fill a short queue. `test_concurrency.py` demands every answer of a client that keeps enough of them,
`../common/test_pacing.py` and `test_response_pacer.py` the pace.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from nodes.server_process import ServerProcess

from eim_ros.nodes.ik_server.settings import IkServerSettings
from eim_ros.srv import SampleIK

N = 200
REPETITIONS = 8  # at most, until a burst is whole
SUCCESS, BUSY = str(SampleIK.Response.SUCCESS), str(SampleIK.Response.BUSY)


@pytest.mark.parametrize("queue_size", [IkServerSettings().queue_size, 20])
def test_default_client_gets_its_answers(start_server: Callable[..., ServerProcess], queue_size: int) -> None:
    server = start_server(queue_size=queue_size)
    server.wait_until_ready()
    bursts: list[Counter[str]] = []
    while len(bursts) < REPETITIONS and not (bursts and answered(bursts[-1], queue_size)):
        bursts.append(burst())
        assert set(bursts[-1]) <= {SUCCESS, BUSY}, (bursts, server.log)
    assert answered(bursts[-1], queue_size), (bursts, server.log)
    assert server.stop() == 0, server.log


def answered(codes: Counter[str], queue_size: int) -> bool:
    """Whether every request of a burst has its answer: solved, and refused where the queue is too short for all."""
    return codes.total() == N and codes[SUCCESS] >= min(N, queue_size) and (codes[BUSY] > 0) == (queue_size < N)


def burst() -> Counter[str]:
    """Number of answers of each error code."""
    script = Path(__file__).parents[1] / "burst_client.py"
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = {**os.environ, "PYTHONPATH": f"{script.parents[1]}{os.pathsep}{paths}"}
    result = subprocess.run(
        [sys.executable, str(script), str(N)], env=environment, capture_output=True, text=True, timeout=180.0
    )
    assert result.returncode == 0, result.stderr
    return Counter(json.loads(result.stdout.splitlines()[-1]))
