"""Recording of joint states at 1 kHz by `demo_recorder`: lost messages, data left after a kill, and CPU share.

    python -m benchmarks.recording [--output benchmarks/results/recording.txt] [--seconds 60] [--kills 20] [--seed 0]

There are two processes. One is the node, and the other is this process, which publishes numbered joint states of seven
joints (positions, velocities, efforts). The first recording is stopped as usual, and the recorded numbers are compared
with the sent numbers. In further recordings, the recorder is killed (SIGKILL) at random times. Rosbags opens each of
these bags without repair. The clock of this process measures the time between the last message in the bag and the kill.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np

from benchmarks._machine import isolate, processor

RATE = 1000  # [Hz]
JOINTS = [f"joint_a{i + 1}" for i in range(7)]
PATIENCE = 60.0  # time limit for services and subscriptions [s]
KILL_BETWEEN = (0.5, 6.0)  # range of times after the first message [s]


class Recorder:
    """Recorder node in a separate process, and its clients.

    Each node needs a new name because the middleware remembers killed nodes.
    """

    def __init__(self, node: object, name: str, folder: Path) -> None:
        from std_srvs.srv import Trigger

        from eim_ros.nodes.common.interfaces import StartRecording

        restore = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731
        command = [sys.executable, "-m", "eim_ros.nodes", "demo_recorder"]
        command += ["--ros-args", "--log-level", "warn", "-r", f"__node:={name}"]
        command += ["-p", "min_free_space:=0", "-p", f"data_directory:={folder}"]
        self.process = subprocess.Popen(command, start_new_session=True, preexec_fn=restore)
        self._node = node
        self._start = node.create_client(StartRecording, f"/{name}/start")
        self._stop = node.create_client(Trigger, f"/{name}/stop")

    def start(self, path: Path, topic: str) -> None:
        from eim_ros.nodes.common.interfaces import StartRecording

        request = StartRecording.Request(path=str(path), topics=[topic], label="motion")
        answer = self._call(self._start, request)
        if not answer.success:
            raise SystemExit(answer.message)

    def stop(self) -> str:
        from std_srvs.srv import Trigger

        return str(self._call(self._stop, Trigger.Request()).message)

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._node.destroy_client(self._start)
        self._node.destroy_client(self._stop)

    def cpu_time(self) -> float:
        """Return the CPU time used so far [s]."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _call(self, client: object, request: object) -> object:
        import rclpy

        if not client.wait_for_service(PATIENCE):
            raise SystemExit(f"the service {client.srv_name} did not appear within {PATIENCE:g} s")
        future = client.call_async(request)
        rclpy.spin_until_future_complete(self._node, future, timeout_sec=PATIENCE)
        return future.result()


class Robot:
    """Publisher of joint states at 1 kHz on a thread. The position of the first joint is the number of the message."""

    def __init__(self, node: object, topic: str) -> None:
        from rclpy.qos import QoSProfile
        from sensor_msgs.msg import JointState

        # a busy machine would overwrite messages in a shorter queue before they are sent
        self._publisher = node.create_publisher(JointState, topic, QoSProfile(depth=5000))
        self._message = JointState(name=JOINTS, velocity=[0.0] * 7, effort=[0.0] * 7)
        self._node = node
        self.sent: list[float] = []  # publication times by time.monotonic [s]
        self.latest = 0.0  # largest delay of a publication [s]

    def wait_for_listener(self) -> None:
        end = time.monotonic() + PATIENCE
        while not self._publisher.get_subscription_count():
            if time.monotonic() > end:
                raise SystemExit(f"the recorder did not subscribe within {PATIENCE:g} s")
            time.sleep(0.01)

    def destroy(self) -> None:
        self._node.destroy_publisher(self._publisher)

    def publish(self, n: int, enough: threading.Event) -> None:
        began = time.monotonic()
        self.sent = []
        for i in range(n):
            delay = began + i / RATE - time.monotonic()
            if delay > 0.0:
                time.sleep(delay)
            else:
                self.latest = max(self.latest, -delay)
            self._message.position = [float(i), *(0.1 * i for _ in range(6))]
            self._message.header.stamp.sec, self._message.header.stamp.nanosec = divmod(time.time_ns(), 10**9)
            self._publisher.publish(self._message)
            self.sent.append(time.monotonic())
            if enough.is_set():
                return


def numbers_in(bag: Path) -> np.ndarray:
    """Return the message numbers that rosbags reads from a bag."""
    from rosbags.highlevel import AnyReader

    with AnyReader([bag]) as reader:
        connections = [item for item in reader.connections if item.msgtype == "sensor_msgs/msg/JointState"]
        return np.array(
            [
                reader.deserialize(data, connection.msgtype).position[0]
                for connection, _, data in reader.messages(connections)
            ]
        ).astype(int)


def record(node: object, folder: Path, seconds: float) -> list[str]:
    """Make one long recording that is stopped by the service."""
    recorder, robot = Recorder(node, "recorder", folder), Robot(node, "/joint_states")
    n = round(seconds * RATE)
    try:
        recorder.start(folder / "long", "/joint_states")
        robot.wait_for_listener()
        before = recorder.cpu_time()
        began = time.monotonic()
        robot.publish(n, threading.Event())
        took = time.monotonic() - began
        share = (recorder.cpu_time() - before) / took
        time.sleep(0.5)
        told = recorder.stop()
    finally:
        recorder.kill()
        robot.destroy()
    found = numbers_in(folder / "long")
    lost = n - len(np.intersect1d(found, np.arange(n)))
    size = sum(file.stat().st_size for file in (folder / "long").iterdir())
    return [
        f"{n} joint states at {RATE} Hz: sent in {took:.1f} s, latest {1e3 * robot.latest:.0f} ms late",
        f"lost {lost}, repeated {len(found) - len(np.unique(found))}, out of order {int(np.sum(np.diff(found) < 0))}",
        f"recorder: {share:.1%} of a core, {size / 1e6:.1f} MB; says '{told}'",
    ]


def kill_once(node: object, folder: Path, after: float) -> tuple[bool, float, int, int]:
    """Kill a recorder, and return whether its bag can be opened, and three figures.

    The figures are the seconds missing at the end, the number of messages missing before the end, and the number of
    messages in the bag.
    """
    topic = f"/{folder.name}/joint_states"
    recorder, robot = Recorder(node, f"recorder_{folder.name}", folder.parent), Robot(node, topic)
    try:
        recorder.start(folder, topic)
        robot.wait_for_listener()
    except BaseException:
        recorder.kill()
        raise
    enough = threading.Event()
    thread = threading.Thread(target=robot.publish, args=(1_000_000, enough))
    thread.start()
    time.sleep(after)
    os.killpg(recorder.process.pid, signal.SIGKILL)
    killed = time.monotonic()
    enough.set()
    thread.join()
    recorder.kill()
    robot.destroy()
    try:
        found = numbers_in(folder)
    except Exception as error:
        print(f"killed after {after:.2f} s: {type(error).__name__}: {error}", file=sys.stderr)
        return False, np.inf, 0, 0
    missing = killed - robot.sent[found[-1]] if len(found) else killed - robot.sent[0]
    inner = found[-1] + 1 - len(np.unique(found)) if len(found) else 0
    return True, missing, int(inner), len(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--output", type=Path, help="also write the table to this file")
    args = parser.parse_args()
    isolate()
    import rclpy

    rclpy.init()
    node = rclpy.create_node("recording_benchmark")
    folder = Path(tempfile.mkdtemp(prefix="eim_recording_"))
    lines = [
        "Recording by demo_recorder of joint states (7 joints) that another process publishes",
        f"seed {args.seed}; {processor()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; "
        f"Python {platform.python_version()}, rclpy {version('rclpy')}, rosbags {version('rosbags')}",
        "",
    ]
    try:
        lines += record(node, folder, args.seconds)
        rng = np.random.default_rng(args.seed)
        outcomes = [kill_once(node, folder / f"killed_{i}", rng.uniform(*KILL_BETWEEN)) for i in range(args.kills)]
    finally:
        shutil.rmtree(folder)
        rclpy.shutdown()
    if outcomes:
        opened, missing, inner, counts = (np.array(column) for column in zip(*outcomes, strict=True))
        lines += [
            "",
            f"killed {args.kills} times after {KILL_BETWEEN[0]} to {KILL_BETWEEN[1]} s: {opened.sum()} bags open in "
            f"rosbags as they are, {counts.sum()} messages in them",
            f"missing at the end: longest {missing.max():.3f} s, median {np.median(missing):.3f} s; "
            f"missing before that: {inner.sum()} messages",
        ]
    table = "\n".join(lines) + "\n"
    print(table, end="")
    if args.output:
        args.output.parent.mkdir(parents=True, exist_ok=True)
        args.output.write_text(table, encoding="utf-8")


if __name__ == "__main__":
    main()
