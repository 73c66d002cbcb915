"""Services of `ik_server` under load: delays that clients cause each other, and lost answers.

    python -m benchmarks.service_load [PART ...] [--output benchmarks/results/service_load.txt]

Each part starts real nodes and real clients, each client in a separate process.

impatient    a good client (n = 1, SERVICE_QOS, 20 ms between an answer and the next request), first alone, then next to
             two clients that send 120 requests per second and discard each after 5 ms
mixed        eight clients for four minutes: three good ones (n = 1, 100, 1000), two impatient ones, one with malformed
             requests, one with n = 10000, and one with timeouts of 0.2 s and obstacles; memory of the server
long         requests with a budget of 0.1 s, while one more request than there are cores runs, each of 10 s
default_qos  eight clients with rclpy's default quality of service, compared with a plain service that computes nothing
one_shot     processes that start, send one request and end, 20 at a time: our server, our server without our profile of
             Fast DDS, and a plain service
vanishing    a patient client, while other processes create 200 clients per second, each for one request, and destroy
             them after 5 ms. Four busy processes for each core delay the answers. The client is also measured in the
             30 s after all these processes have ended. First our server is measured, then a plain service
topics       CPU time of the idle server while joint states arrive at 1 kHz, compared with an ordinary subscription
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._machine import isolate, load_average, processor, running

ITSELF = [sys.executable, "-m", "benchmarks.service_load"]

READY_WITHIN = 120.0  # time limit for the start [s]
LOST = 40.0  # time after which a missing answer counts as lost [s]
# Time limit for a process that sends one request [s]. Fast DDS 3.2 may block forever at exit if another client leaves
# at the same time.
ONE_SHOT = READY_WITHIN + LOST + 20.0
PAUSE = 0.02  # time between an answer and the next request of a good client [s]
RATE, PATIENCE = 120.0, 0.005  # requests per second of an impatient client, and time until it discards a request [s]
LONG, SHORT = 10.0, 0.1  # time budgets [s]
N_BUSY = 4  # number of other busy processes for each core
AFTERWARDS = 30.0  # time for which a patient client is measured after the crowd has left [s]
CROWD, CROWD_RATE = 4, 50.0  # number of processes whose clients vanish, and requests per second of each
SERVER = [sys.executable, "-m", "eim_ros.nodes", "ik_server", "--ros-args", "-p", "model:=panda_pose"]
SERVICES = {"ours": "/ik_server/sample_ik", "plain": "/plain_server/sample_ik"}
SOLVE_ALL = "/ik_server/solve_all_ik"


# Clients


def request(service_type: Any, generator: np.random.Generator, **fields: Any) -> Any:
    """Return a request for a random reachable pose of the Panda, with the given fields."""
    from geometry_msgs.msg import Pose

    pose = Pose()
    asked = service_type.Request(poses=[pose], seed=0, timeout=5.0)
    pose.position.x, pose.position.y, pose.position.z = generator.uniform([0.3, -0.3, 0.3], [0.5, 0.3, 0.6]).tolist()
    pose.orientation.x, pose.orientation.w = 1.0, 0.0
    for name, value in fields.items():
        setattr(asked, name, value)
    return asked


def long_request() -> dict[str, Any]:
    """Return fields of a `SolveAllIK` request that searches until its time limit."""
    from eim_ros.msg import IKGuarantee

    return {"timeout": LONG, "guarantee": IKGuarantee(kind=IKGuarantee.BOUND, confidence=0.99, missed_share=1e-7)}


def obstacles(generator: np.random.Generator) -> Any:
    """Return constraints with twenty spheres around the arm."""
    from geometry_msgs.msg import Pose
    from shape_msgs.msg import SolidPrimitive

    from eim_ros.msg import IKConstraints, SceneObstacles

    poses = []
    for x, y, z in generator.uniform([-0.8, -0.8, 0.8], [0.8, 0.8, 1.2], (20, 3)).tolist():
        poses.append(Pose())
        poses[-1].position.x, poses[-1].position.y, poses[-1].position.z = x, y, z
    sphere = SolidPrimitive(type=SolidPrimitive.SPHERE, dimensions=[0.05])
    return IKConstraints(scene=SceneObstacles(primitives=[sphere] * len(poses), primitive_poses=poses))


class Asker:
    """Node with one client."""

    def __init__(self, service: str, is_default: bool) -> None:
        import rclpy

        from eim_ros.nodes import SERVICE_QOS
        from eim_ros.srv import SampleIK, SolveAllIK

        self.service_type = SolveAllIK if service == SOLVE_ALL else SampleIK
        rclpy.init()
        self.node = rclpy.create_node(f"client_{os.getpid()}")
        self.executor = rclpy.executors.SingleThreadedExecutor()
        self.executor.add_node(self.node)
        self._service, self._profile = service, {} if is_default else {"qos_profile": SERVICE_QOS}
        self.renew()
        if not self.client.wait_for_service(READY_WITHIN):
            raise SystemExit(f"the service {service} did not appear within {READY_WITHIN:g} s")

    def renew(self) -> None:
        """Replace the client by a new one."""
        if hasattr(self, "client"):
            self.node.destroy_client(self.client)
        self.client = self.node.create_client(self.service_type, self._service, **self._profile)

    def ask(self, generator: np.random.Generator, patience: float = LOST, **fields: Any) -> tuple[int | None, float]:
        """Send a request. Return the error code of the answer (None if it is lost), and its duration [s]."""
        message = request(self.service_type, generator, **fields)
        began = time.perf_counter()
        future = self.client.call_async(message)
        self.executor.spin_until_future_complete(future, patience)
        took = time.perf_counter() - began
        if future.done():
            return future.result().solutions.error_code.val, took
        self.client.remove_pending_request(future)
        return None, took


def run_client(kind: str, seconds: float, seed: int, service: str) -> None:
    """Run a client and print its error codes and times as JSON."""
    generator = np.random.default_rng(seed)
    asker = Asker(SOLVE_ALL if kind == "long" else service, kind.startswith("default"))
    fields: dict[str, Any] = {
        "n10000": {"n_samples": 10000},
        "n1000": {"n_samples": 1000},
        "n100": {"n_samples": 100},
        "malformed": {"n_samples": 1, "timeout": -1.0},
        "obstacles": {"n_samples": 20, "timeout": 0.2, "constraints": obstacles(generator)},
        "long": long_request(),
        "short": {"n_samples": 1, "timeout": SHORT},
    }.get(kind, {"n_samples": 1})
    codes, times, starts = [], [], []
    rate = {"impatient": RATE, "vanishing": CROWD_RATE}.get(kind)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        began = time.perf_counter()
        starts.append(time.time())
        if kind == "vanishing":
            asker.renew()
            while not asker.client.service_is_ready() and time.perf_counter() < end:
                time.sleep(1e-4)
        code, took = asker.ask(generator, PATIENCE if rate else LOST, **fields)
        codes.append(code)
        times.append(took)
        if rate:
            time.sleep(max(0.0, 1.0 / rate - (time.perf_counter() - began)))
        elif not kind.startswith("default"):
            time.sleep(PAUSE)
    print(json.dumps([codes, times, starts]))


def ask_once(seed: int, service: str) -> None:
    """Send one request from a newly started process and print the outcome."""
    try:
        asker = Asker(service, is_default=True)
    except SystemExit:
        print(json.dumps("undiscovered"))
        return
    code, _ = asker.ask(np.random.default_rng(seed), n_samples=1)
    print(json.dumps("lost" if code is None else "answered"))


def serve_plain() -> None:
    """Serve the same type with rclpy, without any computation."""
    import rclpy

    from eim_ros.srv import SampleIK

    rclpy.init()
    node = rclpy.create_node("plain_server")
    node.create_service(SampleIK, "~/sample_ik", lambda asked, response: response)
    with contextlib.suppress(KeyboardInterrupt, rclpy.executors.ExternalShutdownException):
        rclpy.spin(node)


# Parts


class Client:
    """Client in a separate process."""

    def __init__(self, kind: str, seconds: float, seed: int, service: str = "ours") -> None:
        self.kind = kind
        words = ["--client", kind, "--seconds", str(seconds), "--seed", str(seed), "--service", SERVICES[service]]
        self._process = subprocess.Popen([*ITSELF, *words], stdout=subprocess.PIPE, text=True)

    def result(self) -> tuple[list[int | None], np.ndarray]:
        """Return the error codes (None for a lost answer) and the times [s]."""
        codes, times, _ = self.timed_result()
        return codes, times

    def timed_result(self) -> tuple[list[int | None], np.ndarray, np.ndarray]:
        """Return the result, and the time at which each request was sent [s since the epoch]."""
        said, _ = self._process.communicate()
        if self._process.returncode:
            raise SystemExit(f"client {self.kind} ended with {self._process.returncode}")
        codes, times, starts = json.loads(said)
        return codes, np.array(times), np.array(starts)


def quantiles(times: np.ndarray) -> str:
    return f"p50 {1e3 * np.median(times):7.2f} ms, p99 {1e3 * np.quantile(times, 0.99):8.2f} ms"


@contextlib.contextmanager
def server(*words: str) -> Iterator[int]:
    """Start an active server and yield its process id."""
    with running([*SERVER, *words]) as process:
        probe = Client("good", 1.0, 0)  # wait until the service is available
        while set(probe.result()[0]) != {1}:
            probe = Client("good", 1.0, 0)
        yield process.pid


def resident(pid: int) -> float:
    """Return the resident memory of a process [MB]."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def impatient(seed: int, seconds: float = 12.0) -> Iterator[str]:
    with server():
        alone, times = Client("good", seconds, seed).result()
        yield f"good client alone            {len(alone):5d} answers in {seconds:.0f} s, {quantiles(times)}"
        crowd = [Client("impatient", seconds + 6.0, seed + 1 + index) for index in range(2)]
        time.sleep(3.0)
        beside, late = Client("good", seconds, seed + 3).result()
        yield f"next to two impatient ones   {len(beside):5d} answers in {seconds:.0f} s, {quantiles(late)}"
        sent = sum(len(client.result()[0]) for client in crowd)
        p99 = np.quantile(late, 0.99) / np.quantile(times, 0.99)
        yield (
            f"kept {len(beside) / len(alone):.0%} of its answers, p99 {p99:.1f} times, lost {beside.count(None)}; "
            f"the impatient ones sent {sent / (seconds + 6.0):.0f} requests per second"
        )


def mixed(seed: int, seconds: float = 240.0) -> Iterator[str]:
    kinds = ("good", "n100", "n1000", "impatient", "impatient", "malformed", "n10000", "obstacles")
    with server() as pid:
        clients = [Client(kind, seconds, seed + index) for index, kind in enumerate(kinds)]
        memory: list[float] = []
        done = threading.Event()

        def watch() -> None:
            while not done.wait(1.0):
                memory.append(resident(pid))

        watcher = threading.Thread(target=watch)
        watcher.start()
        for client in clients:
            codes, times = client.result()
            found = ", ".join(f"{code}: {n}" for code, n in Counter(codes).most_common())
            lost = codes.count(None)
            yield f"{client.kind:<12}{len(codes):6d} requests, lost {lost:5d}, {quantiles(times)}, codes {found}"
        done.set()
        watcher.join()
        steady = np.array(memory[60:] or memory)
        yield (
            f"memory of the server after the first minute {steady.min():.1f} to {steady.max():.1f} MB, "
            f"first {steady[:10].mean():.1f}, last {steady[-10:].mean():.1f} MB"
        )


def long(seed: int) -> Iterator[str]:
    with server():
        n_long = (os.cpu_count() or 1) + 1
        crowd = [Client("long", LONG, seed + index) for index in range(n_long)]
        time.sleep(4.0)
        codes, times = Client("short", 5.0, seed + n_long).result()
        n_met = sum(code == 1 and took <= SHORT for code, took in zip(codes, times.tolist(), strict=True))
        yield (
            f"{n_long} requests of {LONG:.0f} s in flight: {n_met} of {len(codes)} requests with a budget of {SHORT} s "
            f"were solved within it, {quantiles(times)}"
        )
        for client in crowd:
            client.result()


def default_qos(seed: int, seconds: float = 20.0) -> Iterator[str]:
    with server(), running([*ITSELF, "--serve-plain"]):
        for service in SERVICES:
            clients = [Client("default", seconds, seed + index, service) for index in range(8)]
            codes = [code for client in clients for code in client.result()[0]]
            yield f"{service:<8}{len(codes):7d} requests of 8 clients in {seconds:.0f} s, lost {codes.count(None)}"


def one_shot(seed: int, seconds: float = 90.0) -> Iterator[str]:
    with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
        file.write('<profiles xmlns="http://www.eprosima.com/XMLSchemas/fastRTPS_Profiles"/>')
        file.flush()
        for name, service, variables in (
            ("our server", "ours", {}),
            ("our server without our profile", "ours", {"FASTDDS_DEFAULT_PROFILES_FILE": file.name}),
            ("plain service", "plain", {}),
        ):
            os.environ.update(variables)
            with server() if service == "ours" else running([*ITSELF, "--serve-plain"]):
                for variable in variables:
                    del os.environ[variable]
                ends = crowd_of_one_shots(seed, seconds, service)
            yield f"{name:<32}" + ", ".join(f"{end} {n}" for end, n in ends.most_common())


def crowd_of_one_shots(seed: int, seconds: float, service: str, n_at_a_time: int = 20) -> Counter[str]:
    """Run processes that send one request each, and count the outcomes."""
    ends: Counter[str] = Counter()
    lock, end = threading.Lock(), time.monotonic() + seconds

    def work(first: int) -> None:
        number = first
        while time.monotonic() < end:
            command = [
                sys.executable,
                "-m",
                "benchmarks.service_load",
                "--once",
                "--seed",
                str(seed + number),
                "--service",
                SERVICES[service],
            ]
            try:
                said = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=ONE_SHOT).stdout.strip()
                outcome = json.loads(said) if said else "failed"
            except subprocess.TimeoutExpired:
                outcome = "did not end"
            with lock:
                ends[outcome] += 1
            number += n_at_a_time

    workers = [threading.Thread(target=work, args=(index,)) for index in range(n_at_a_time)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return ends


def vanishing(seed: int, seconds: float = 10.0) -> Iterator[str]:
    for service in SERVICES:
        with server() if service == "ours" else running([*ITSELF, "--serve-plain"]):
            patient = Client("good", 20.0 + seconds + AFTERWARDS, seed, service)
            time.sleep(5.0)
            with contextlib.ExitStack() as busy:
                for _ in range(N_BUSY * (os.cpu_count() or 1)):
                    busy.enter_context(running(["sh", "-c", "while :; do :; done"]))
                crowd = [Client("vanishing", seconds, seed + 1 + index, service) for index in range(CROWD)]
                results = [client.timed_result() for client in crowd]
            arrived, left = min(starts[0] for *_, starts in results), max(starts[-1] for *_, starts in results)
            codes, times, starts = patient.timed_result()
            sent = sum(len(codes) for codes, *_ in results)
            unread = sum(codes.count(None) for codes, *_ in results)
            rate = sent / (left - arrived)
            yield f"{service:<8}{rate:.0f} clients per second, {unread} of {sent} left without an answer"
            for name, part in (
                ("before", starts + times < arrived),
                ("meanwhile", (starts + times >= arrived) & (starts <= left)),
                ("afterwards", starts > left),
            ):
                chosen = times[part]
                told = f"{quantiles(chosen)}, slowest {chosen.max():.2f} s" if len(chosen) else "none"
                yield f"  {name:<12}{len(chosen):5d} requests of the patient client, {told}"
            recovered = np.flatnonzero((starts > left) & (times < 0.1))
            until = f"{starts[recovered[0]] - left:.1f} s" if len(recovered) else "the end of the measurement"
            yield f"  first request answered within 0.1 s after {until}; lost {codes.count(None)}"


def topics(seed: int, seconds: float = 20.0) -> Iterator[str]:
    del seed  # not used, because this part is deterministic
    with running([*ITSELF, "--publish"]):
        with server("-p", "joint_states_topic:=/joint_states") as pid:
            yield f"our server             {busy_share(pid, seconds):.1%} of a core"
        with running([*ITSELF, "--subscribe"]) as process:
            time.sleep(5.0)
            yield f"ordinary subscription  {busy_share(process.pid, seconds):.1%} of a core"


def busy_share(pid: int, seconds: float) -> float:
    """Return the share of a core that a process uses."""

    def used() -> float:
        words = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    before = used()
    time.sleep(seconds)
    return (used() - before) / seconds


def publish() -> None:
    """Publish joint states of the Panda at 1 kHz."""
    import rclpy
    from sensor_msgs.msg import JointState

    rclpy.init()
    publisher = rclpy.create_node("publisher").create_publisher(JointState, "/joint_states", 1000)
    state = JointState(name=[f"panda_joint{index}" for index in range(1, 8)], position=[0.1] * 7)
    due = time.perf_counter()
    with contextlib.suppress(KeyboardInterrupt, rclpy.exceptions.InvalidHandle):
        while rclpy.ok():
            publisher.publish(state)
            due += 1e-3
            time.sleep(max(0.0, due - time.perf_counter()))


def subscribe() -> None:
    """Receive serialised joint states with an ordinary rclpy subscription."""
    import rclpy
    from sensor_msgs.msg import JointState

    rclpy.init()
    node = rclpy.create_node("subscriber")
    node.create_subscription(JointState, "/joint_states", lambda message: None, 1000, raw=True)
    with contextlib.suppress(KeyboardInterrupt, rclpy.executors.ExternalShutdownException):
        rclpy.spin(node)


PARTS = {part.__name__: part for part in (impatient, mixed, long, default_qos, one_shot, vanishing, topics)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; default: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, help="duration of each measurement [s]")
    parser.add_argument("--output", type=Path, help="also write the table to this file")
    for hidden in ("--client", "--service"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    for hidden in ("--once", "--serve-plain", "--publish", "--subscribe"):
        parser.add_argument(hidden, action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.client:
        run_client(args.client, args.seconds, args.seed, args.service)
    elif args.once:
        ask_once(args.seed, args.service)
    elif args.serve_plain or args.publish or args.subscribe:
        serve_plain() if args.serve_plain else publish() if args.publish else subscribe()
    else:
        report(args.parts or list(PARTS), args.seed, args.seconds, args.output)


def report(parts: list[str], seed: int, seconds: float | None, output: Path | None) -> None:
    """Run the parts and print their lines."""
    isolate()
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "SUBNET"  # the default
    lines = [
        f"sample_ik under load, model panda_pose, seed {seed}",
        f"{processor()}, load {load_average()}; Python {platform.python_version()}, rclpy {version('rclpy')}",
    ]
    print(*lines, sep="\n", flush=True)
    for name in parts:
        given = {} if seconds is None or name == "long" else {"seconds": seconds}
        lines.append(f"\n{name}")
        print(lines[-1], flush=True)
        for line in PARTS[name](seed, **given):
            lines.append(f"  {line}")
            print(lines[-1], flush=True)
    if output:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
