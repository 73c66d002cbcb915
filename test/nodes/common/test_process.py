"""A node exits with code 0 on SIGINT and SIGTERM. If it cannot start, it exits with code 1 and a reason."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from nodes.client_node import ClientNode, request
from nodes.server_process import PATIENCE, ServerProcess

from eim_ros.ik import ErrorCode
from eim_ros.srv import SampleIK

Start = Callable[..., ServerProcess]
BOTH = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])


def has_traceback(server: ServerProcess) -> bool:
    return "Traceback" in server.log or "Error in" in server.log


def test_signal_ends_an_idle_server_cleanly(start_server: Start, client: ClientNode) -> None:
    """A server that ends notifies other nodes. Otherwise, other nodes would notice the end only after 20 s.

    The 20 s are the lease of Fast DDS. On a busy machine, an earlier announcement may arrive after the notification,
    and the server seems to exist for 20 s. Therefore only one of three ends must be noticed.
    """
    for _ in range(3):
        server = start_server()
        assert client.sample(server, request()).error_code.val == ErrorCode.SUCCESS
        server.signal(signal.SIGINT)
        assert server.wait(20.0) == 0, server.log
        assert not has_traceback(server), server.log
        end = time.monotonic() + 10.0
        while "ik_server" in client.node.get_node_names() and time.monotonic() < end:
            client.executor.spin_once(0.05)
        if "ik_server" not in client.node.get_node_names():
            return
    pytest.fail("the server is still there after it ended")


def test_signal_ends_a_busy_server_cleanly(start_server: Start, client: ClientNode) -> None:
    server = start_server()
    service = client.client(server, SampleIK, "/ik_server/sample_ik")
    for _ in range(20):
        service.call_async(request((2.0, 0.0, 0.5), n_samples=10000, timeout=25.0))
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        client.executor.spin_once(0.05)
    server.signal(signal.SIGTERM)
    assert server.wait(20.0) == 0, server.log
    assert not has_traceback(server), server.log


@BOTH
def test_signal_ends_a_starting_server_cleanly(start_server: Start, number: signal.Signals) -> None:
    server = start_server()
    server.wait_for_log("configuring with model")
    server.signal(number)
    assert server.wait(20.0) == 0, server.log
    assert not has_traceback(server), server.log


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments, and wait until it ends."""
    command, own = [sys.executable, *words], {**os.environ, **environment}
    return subprocess.run(command, env=own, capture_output=True, text=True, timeout=PATIENCE, check=False)


_IS_SIGNALLED_DURING_ITS_IMPORTS = """
import os, signal, sys
from eim_ros.nodes.__main__ import main

class Signaller:
    def find_spec(self, name, path=None, target=None):
        if name == "rclpy":
            os.kill(os.getpid(), int(sys.argv[1]))

assert "rclpy" not in sys.modules
sys.meta_path.insert(0, Signaller())
main(["ik_server", "--model", "none", "--robot", "panda"])
"""


@BOTH
def test_signal_during_the_imports_ends_a_node_with_one_line(number: signal.Signals) -> None:
    ended = run("-c", _IS_SIGNALLED_DURING_ITS_IMPORTS, str(int(number)))
    assert (ended.returncode, ended.stdout) == (0, "")
    assert ended.stderr == f"ik_server: ended by {number.name} before the node started\n"


def test_log_folder_that_cannot_be_written_ends_the_start_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    words = ("-m", "eim_ros.nodes", "ik_server", "--model", "none", "--robot", "panda")
    ended = run(*words, ROS_LOG_DIR=str(tmp_path / "file" / "logs"))
    assert (ended.returncode, ended.stderr.count("\n")) == (1, 1), ended.stderr
    assert "set ROS_LOG_DIR to a writable folder" in ended.stderr


# If an executor remains at the end, rclpy's thread for signals accesses freed memory: 3 of 400 nodes crashed.
_COUNTS_EXECUTORS_AT_ITS_END = """
import gc, os, signal, threading
from rclpy.executors import Executor
from rclpy.node import Node
from eim_ros.nodes.common.process import run_node

class Counter(Node):
    def start(self):
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()  # comes while the executor waits
        return True

    def close(self, has_ended):
        print(sum(isinstance(each, Executor) for each in gc.get_objects()), "executors")
        return True

run_node("counter", lambda: Counter("counter"))
"""
# On a busy machine, rclpy may shut down the context before Python runs the signal handler.
_IS_SIGNALLED_AFTER_ITS_SHUTDOWN = """
import os, signal, rclpy
from rclpy.node import Node
from eim_ros.nodes.common.process import run_node

class Late(Node):
    def start(self):
        self.create_timer(0.01, lambda: rclpy.try_shutdown())  # as rclpy does on a signal
        return True

    def close(self, has_ended):
        os.kill(os.getpid(), signal.SIGTERM)
        print("closed")
        return True

run_node("late", lambda: Late("late"))
"""
# While a publisher was destroyed, Fast DDS has waited forever for its own lock.
_MIDDLEWARE_HANGS = """
import os, signal, threading
from eim_ros.nodes.__main__ import main
from eim_ros.nodes.common import process
from eim_ros.nodes.common.node import ManagedNode

start = ManagedNode.start

def start_and_interrupt(self):
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    return start(self)

process._LONGEST_DESTRUCTION = 0.5
ManagedNode.start, ManagedNode.destroy_node = start_and_interrupt, lambda self: threading.Event().wait()
main(["planar_simulator"])
"""


@pytest.mark.parametrize(
    ("program", "printed"),
    [(_COUNTS_EXECUTORS_AT_ITS_END, "1 executors\n"), (_IS_SIGNALLED_AFTER_ITS_SHUTDOWN, "closed\n")],
    ids=["executor lives as long as the process", "signal handler that runs late does not interrupt the end"],
)
def test_end_is_complete(program: str, printed: str) -> None:
    ended = run("-c", program)
    assert (ended.returncode, ended.stdout) == (0, printed), ended.stderr


def test_node_ends_although_the_middleware_hangs() -> None:
    ended = run("-c", _MIDDLEWARE_HANGS)
    assert ended.returncode == 0, ended.stderr


FROM_TOPIC = {"use_robot_description_topic": True, "robot_description_timeout": 0.2}


@pytest.mark.parametrize(
    ("node", "parameters", "reason"),
    [
        ("ik_server", {"max_sample": 10}, "unknown parameter max_sample"),
        ("ik_server", {"groups": "arm=link_3"}, "cannot configure: the tip 'link_3' of group 'arm' is not fixed to"),
        ("fk_collector", FROM_TOPIC, "no URDF arrived on /robot_description within 0.2 s"),
        ("motion_prior_server", {"model": "iiwa14_pose"}, "cannot read iiwa14_pose"),
    ],
)
def test_bad_parameter_ends_the_start_with_a_reason(
    start_server: Start, node: str, parameters: dict[str, object], reason: str
) -> None:
    server = start_server(node=node, **parameters)
    assert server.wait() == 1, server.log
    assert reason in server.log
    assert not has_traceback(server), server.log


def test_unreadable_parameter_file_ends_the_start(start_server: Start, tmp_path: Path) -> None:
    path = tmp_path / "parameters.yaml"
    path.write_text("ik_server: [", encoding="utf-8")
    server = start_server("--params-file", str(path))
    assert server.wait() == 1, server.log
    assert not has_traceback(server), server.log


class Unpickled:
    """Object that creates a file if it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        return (eval, (f"open({str(self.trace)!r}, 'w').close()",))


def test_model_that_is_a_pickle_ends_the_start_and_is_not_executed(start_server: Start, tmp_path: Path) -> None:
    path, trace = tmp_path / "model.safetensors", tmp_path / "trace"
    path.write_bytes(pickle.dumps(Unpickled(trace)))
    server = start_server(model=path)
    assert server.wait() == 1, server.log
    assert "cannot configure" in server.log
    assert "the only format that is loaded" in server.log
    assert not has_traceback(server), server.log
    assert not trace.exists()


def test_managed_node_survives_a_bad_model_and_says_why(
    start_server: Start, client: ClientNode, model: Path, tmp_path: Path
) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(model.read_bytes()[:5000])
    server = start_server(model=path, autostart=False)
    assert not client.change_state(server, "configure")
    assert client.state(server) == "unconfigured"
    assert "truncated" in server.log
    assert client.sample(server, request()).error_code.val == ErrorCode.FAILURE
    shutil.copy(model, path)
    assert client.change_state(server, "configure"), server.log
    assert client.change_state(server, "activate")
    assert client.sample(server, request()).error_code.val == ErrorCode.SUCCESS
    assert server.stop() == 0, server.log
