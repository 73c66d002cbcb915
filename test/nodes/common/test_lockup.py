"""A node ends when the middleware has locked up, and only then."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import rclpy
from std_msgs.msg import String

from eim_ros.nodes.common.lockup import LockupWatch, receivers_in_locks
from eim_ros.nodes.common.process import LOCKED_UP

PATIENCE = 60.0  # [s]
THREADS_ARE_TOLD = pytest.mark.skipif(
    not sys.platform.startswith("linux") or not rclpy.get_rmw_implementation_identifier().startswith("rmw_fastrtps"),
    reason="this system, or this middleware, does not tell what its threads do",
)

NODE = """
import ctypes, functools, sys, threading, time
from rclpy.node import Node
from std_msgs.msg import String
from eim_ros.nodes.common import process

topic, kind = sys.argv[1:]
process.watch = functools.partial(process.watch, n_looks=4, period=0.1)
process._BUSY_PERIOD = 0.1
if kind == "hung":
    process._LONGEST_END = 1
never = threading.Semaphore(0)

@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t)
def wait_forever(data, n):
    never.acquire()

class Listener(Node):
    unfinished = False

    def start(self):
        self.create_subscription(String, topic, self.hear, 10)
        if kind == "locked up":
            self.unfinished = True
            threading.Timer(1.0, self.finish).start()
            pointer = ctypes.c_void_p(next(self.subscriptions).handle.pointer)
            ctypes.CDLL("librcl.so").rcl_subscription_set_on_new_message_callback(pointer, wait_forever, None)
        print("started", flush=True)
        return True

    def hear(self, message):
        print("heard", flush=True)
        end = time.monotonic() + 1.0  # ten times the watch's period
        while time.monotonic() < end and kind == "computing":
            pass
        if kind == "waiting":
            never.acquire(timeout=1.0)

    def finish(self):
        print("finished", flush=True)
        self.unfinished = False

    def end(self, timeout):
        print("ended", flush=True)

    def close(self):
        if kind == "hung":
            ctypes.PyDLL(None).sleep(1000)  # with the interpreter's lock in its hand
        print("closed", flush=True)

process.run_node("listener", lambda: Listener("listener"))
"""


@contextmanager
def told_something(kind: str) -> Iterator[subprocess.Popen[str]]:
    """A node of a kind that has been told something until it heard it; by UDP, as our nodes talk."""
    topic = f"/told_{os.getpid()}_{kind.replace(' ', '_')}"
    environment = {**os.environ, "ROS_AUTOMATIC_DISCOVERY_RANGE": "SUBNET", "FASTDDS_BUILTIN_TRANSPORTS": "UDPv4"}
    words = [sys.executable, "-c", NODE, topic, kind]
    context = rclpy.Context()
    rclpy.init(context=context)
    talker = rclpy.create_node("talker", context=context)
    publisher = talker.create_publisher(String, topic, 10)
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as node:
        try:
            assert node.stdout is not None
            assert node.stdout.readline() == "started\n"
            end = time.monotonic() + PATIENCE
            while not publisher.get_subscription_count() and time.monotonic() < end:
                time.sleep(0.02)
            publisher.publish(String(data="something"))
            yield node
        finally:
            node.kill()
            talker.destroy_node()
            context.try_shutdown()


@THREADS_ARE_TOLD
def test_a_locked_up_node_ends_once_it_has_finished_its_work():
    with told_something("locked up") as node:
        told, complaint = node.communicate(timeout=PATIENCE)
    assert (node.returncode, told) == (LOCKED_UP, "finished\nended\n"), complaint
    assert complaint == "listener: Fast DDS has locked up and hears nothing more; this process ends\n"


@pytest.mark.parametrize("kind", ["computing", "waiting", "stopped"])
def test_a_busy_or_suspended_node_goes_on(kind):
    with told_something(kind) as node:
        assert node.stdout is not None
        assert node.stdout.readline() == "heard\n"
        if kind == "stopped":
            node.send_signal(signal.SIGSTOP)
            time.sleep(1.0)
            node.send_signal(signal.SIGCONT)
        time.sleep(1.0)
        node.send_signal(signal.SIGINT)
        told, complaint = node.communicate(timeout=PATIENCE)
    assert (node.returncode, told, complaint) == (0, "closed\n", "")


def test_a_node_that_hangs_at_its_end_is_killed():
    with told_something("hung") as node:
        assert node.stdout is not None
        assert node.stdout.readline() == "heard\n"
        node.send_signal(signal.SIGINT)
        told, _ = node.communicate(timeout=PATIENCE)
    assert (node.returncode, told) == (-signal.SIGALRM, "")


def task(folder: Path, number: int, name: str, call: str, slept: int) -> None:
    """What the kernel tells of a thread."""
    (folder / str(number)).mkdir(exist_ok=True)
    (folder / str(number) / "comm").write_text(f"{name}\n")
    (folder / str(number) / "syscall").write_text(f"{call}\n")
    status = f"Name:\t{name}\nvoluntary_ctxt_switches:\t{slept}\nnonvoluntary_ctxt_switches:\t3\n"
    (folder / str(number) / "status").write_text(status)


def test_only_receivers_in_a_lock_count(tmp_path):
    task(tmp_path, 1, "dds.udp.7410", "202 0x7f 0x80", 12)
    task(tmp_path, 2, "dds.udp.7411", "47 0x7 0x80", 13)  # receives
    task(tmp_path, 3, "dds.udp.7400", "running", 14)
    task(tmp_path, 4, "dds.ev.0", "202 0x7f 0x80", 15)  # waits for its next timer
    task(tmp_path, 5, "python", "202 0x7f 0x80", 16)
    (tmp_path / "6").mkdir()  # just ended
    assert receivers_in_locks(tmp_path, "x86_64") == {"1": 12}
    assert receivers_in_locks(tmp_path, "an unknown machine") == {}


def test_it_is_the_same_wait_that_counts():
    watch = LockupWatch(3)
    assert not any(watch.look({"1": 12, "2": n}) for n in (5, 6))
    assert not watch.look({"2": 6})  # 1 goes on, 2 has been seen twice
    assert not any(watch.look({"1": 12, "2": n}) for n in (7, 8))
    assert watch.look({"1": 12})


@THREADS_ARE_TOLD
def test_the_kernel_tells_of_the_receivers_of_this_middleware():
    """The names of threads and what the kernel tells of them are as `receivers_in_locks` takes them to be."""
    context = rclpy.Context()
    rclpy.init(context=context)
    node = rclpy.create_node("looked_at", context=context)
    try:
        tasks = {path: (path / "comm").read_text().strip() for path in Path("/proc/self/task").iterdir()}
        receivers = [path for path, name in tasks.items() if re.fullmatch(r"dds\.udp\.\d+", name)]
        assert receivers
        assert all(re.match(r"(\d+|running)\b", (path / "syscall").read_text()) for path in receivers)
    finally:
        node.destroy_node()
        context.try_shutdown()
