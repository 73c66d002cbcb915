"""`own_domain` reserves a domain for one program until the program ends."""

from __future__ import annotations

import subprocess
import sys

import pytest

from eim_ros.core.errors import ServiceError
from eim_ros.nodes.common.domain import own_domain

SOME = range(200, 202)  # domains that no node uses
HOLDER = f"""
import time
from eim_ros.nodes.common.domain import own_domain
with own_domain(range({SOME.start}, {SOME.stop})) as domain:
    print(domain, flush=True)
    time.sleep(600)
"""


def test_each_program_has_a_domain_of_its_own() -> None:
    with own_domain(SOME) as first:
        with own_domain(SOME) as second:
            assert {first, second} == set(SOME)
            with pytest.raises(ServiceError, match="use all ROS domains from 200 to 201: end one"), own_domain(SOME):
                pass
        with own_domain(SOME) as third:
            assert third == second


def test_domain_of_a_killed_program_is_free_again() -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            reserved = int(process.stdout.readline())
            with own_domain(SOME) as other:
                assert other != reserved
        finally:
            process.kill()
    with own_domain(range(reserved, reserved + 1)) as domain:
        assert domain == reserved
