"""Participants of our nodes do not exchange descriptions of types, and do not use shared memory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from eim_ros.kinematics import share_path
from eim_ros.nodes.common.process import (
    PROFILES,
    PROFILES_VARIABLES,
    TRANSPORTS_VARIABLE,
    TYPE_PROPAGATION,
    use_own_profiles,
)

TALKER = """
import sys
import rclpy
from diagnostic_msgs.msg import DiagnosticArray
rclpy.init()
node = rclpy.create_node("talker")
publisher = node.create_publisher(DiagnosticArray, sys.argv[1], 1)
sys.stdin.read()
"""
LISTENER = """
import sys, time
from pathlib import Path
import rclpy
from eim_ros.nodes.common.process import use_own_profiles
topic, profiles = sys.argv[1:]
if profiles == "ours":
    use_own_profiles()
rclpy.init()
node = rclpy.create_node("listener")
end = time.monotonic() + 60.0
while not node.count_publishers(topic) and time.monotonic() < end:
    time.sleep(0.02)
assert node.count_publishers(topic)
print(*[path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")])
"""


def threads_of_a_listener(topic: str, profiles: str) -> list[str]:
    """Start a listener, and return the names of its threads after it has discovered the talker."""
    words = [sys.executable, "-c", LISTENER, topic, profiles]
    told = subprocess.run(words, env=own_environment(), capture_output=True, text=True, check=True)
    assert "XMLPARSER" not in told.stdout + told.stderr  # start of Fast DDS's errors about profiles
    return told.stdout.split()


def own_environment() -> dict[str, str]:
    """Return the environment of the tests, without profiles."""
    own = {name: value for name, value in os.environ.items() if name not in (*PROFILES_VARIABLES, TRANSPORTS_VARIABLE)}
    return {**own, "ROS_AUTOMATIC_DISCOVERY_RANGE": "SUBNET"}  # LOCALHOST uses shared memory


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are told by Linux alone")
def test_our_nodes_look_up_no_types_and_share_no_memory():
    topic = f"/told_{os.getpid()}"
    words = [sys.executable, "-c", TALKER, topic]
    with subprocess.Popen(words, env=own_environment(), stdin=subprocess.PIPE) as talker:
        try:
            ordinary, ours = (threads_of_a_listener(topic, profiles) for profiles in ("none", "ours"))
        finally:
            talker.kill()
    if not any(name.startswith("dds.tls") for name in ordinary):
        pytest.skip("this middleware does not look up types")
    assert any(name.startswith("dds.") for name in ours)
    assert not any(name.startswith("dds.tls") for name in ours)
    assert any(name.startswith("dds.shm") for name in ordinary)
    assert not any(name.startswith("dds.shm") for name in ours)


@pytest.mark.parametrize("name", PROFILES_VARIABLES)
def test_profiles_of_the_user_are_kept(name):
    environment = {name: "mine.xml"}
    use_own_profiles(environment)
    assert environment == {name: "mine.xml"}


def test_an_empty_variable_is_none():
    environment = {PROFILES_VARIABLES[0]: ""}
    use_own_profiles(environment, shared_memory=True)
    assert environment == {PROFILES_VARIABLES[0]: str(share_path(PROFILES))}
    assert TYPE_PROPAGATION in share_path(PROFILES).read_text(encoding="utf-8")


def test_transports_of_the_user_are_kept():
    environment = {TRANSPORTS_VARIABLE: "DEFAULT"}
    use_own_profiles(environment)
    assert environment[TRANSPORTS_VARIABLE] == "DEFAULT"
    environment = {}
    use_own_profiles(environment)
    assert environment[TRANSPORTS_VARIABLE] == "UDPv4"
