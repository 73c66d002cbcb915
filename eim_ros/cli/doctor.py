"""`eim doctor`: check this machine, and name a remedy for each fault.

The checks cover packages, compiled modules, and the included robots and models. If ROS 2 is installed, they also cover
the interfaces of eim_ros and the communication between processes.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from eim_ros.cli.flags import json_flag
from eim_ros.core import native
from eim_ros.core.child_process import tied

GOOD, MISSING, FAULT = "ok", "missing", "fault"
COMPILED = ("eim_ros.solver._solver", "eim_ros.learning.models.native._quadratic_forms")
REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(?:>=(?P<least>[\d.]+))?(?:; extra == ['\"](?P<extra>\w+)['\"])?$")
MODULES = {
    "pin": "pinocchio",
    "PyYAML": "yaml",
    "scikit-learn": "sklearn",
}  # modules whose names differ from those of their packages
REINSTALL = "run `make setup` or `pip install .` in the clone; with colcon, build and source install/setup.bash"
BUILD = "run `make setup` in the clone (ROS 2 from wheels), or source ROS 2 and run `colcon build`"
PATIENCE = 60.0  # enough time for two processes that import ROS 2 on a busy machine [s]
# largest domains with ports below 65536, and below the ephemeral ports of Linux
LARGEST_DOMAIN, LARGEST_PORTS_FREE = 232, 101
WITHOUT_SHARED_MEMORY = "export FASTDDS_BUILTIN_TRANSPORTS=UDPv4"
SHARED_MEMORY, LEAST_SHARED = "/dev/shm", 8 * 2**20  # [byte]; enough for a few nodes with Fast DDS
UNHEARD = (
    "on a single host, export ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST; start containers with --ipc=host and "
    f"--network=host, or {WITHOUT_SHARED_MEMORY}; if there is no multicast, set ROS_STATIC_PEERS; if there is a "
    "firewall, open the UDP ports from 7400"
)
NODE = """
import sys, time
import rclpy
from std_msgs.msg import String

role, topic = sys.argv[1:]
rclpy.init()
node, heard, began = rclpy.create_node(f"{topic}_{role}"), [], time.monotonic()
if role == "talk":
    publisher = node.create_publisher(String, topic, 10)
    while time.monotonic() < began + 60.0:
        publisher.publish(String(data="here"))
        time.sleep(0.05)
node.create_subscription(String, topic, heard.append, 10)
while not heard and time.monotonic() < began + 10.0:
    rclpy.spin_once(node, timeout_sec=0.05)
print(rclpy.get_rmw_implementation_identifier(), len(heard), time.monotonic() - began)
"""  # program of a process that sends messages or waits for a message


@dataclass(frozen=True)
class Finding:
    """One line of the report."""

    area: str  # subject of the check
    state: str  # GOOD, FAULT, or MISSING for an optional part that is not installed
    told: str  # result of the check
    cure: str = ""  # remedy, if one is needed


def findings_of(check: Callable[[], Iterable[Finding]]) -> list[Finding]:
    """Return the findings of a check. Any exception is a fault, because broken software can raise any exception."""
    try:
        return list(check())
    except Exception as error:
        return [Finding(check.__name__, FAULT, one_line(error), REINSTALL)]


def one_line(error: BaseException) -> str:
    """Return the end of an exception's message in one line, or the name of an exception without a message."""
    return " ".join(str(error).split())[-300:] or type(error).__name__


def robots() -> Iterator[Finding]:
    """Check that each included robot and model can be read."""
    from eim_ros.ik import IKModel
    from eim_ros.ik.prior import SHIPPED_MODELS
    from eim_ros.kinematics import SHIPPED_ROBOTS, Robot

    for kind, names, load in (("robots", SHIPPED_ROBOTS, Robot), ("models", SHIPPED_MODELS, IKModel.load)):
        for name in names:
            load(name)
        yield Finding(kind, GOOD, f"{len(names)} of {len(names)}")


def solving() -> Iterator[Finding]:
    """Check that an included model solves a pose. The compiled solver does not compute the error."""
    import numpy as np

    from eim_ros.ik import Sampler
    from eim_ros.kinematics.links import tip_poses

    sampler = Sampler.load("panda_pose")
    robot = sampler.robot
    pose = robot.fk(np.zeros(robot.dof).clip(robot.lower, robot.upper))
    began = time.perf_counter()
    samples = sampler.sample(pose, 10, seed=0)
    took = time.perf_counter() - began
    worst = float(np.linalg.norm(tip_poses(robot, samples.q)[:, :3, 3] - pose[:3, 3], axis=1).max(initial=0.0))
    told = f"{int(samples.valid.sum())} solutions of a pose in {1e3 * took:.1f} ms, with errors up to {worst:.1e} m"
    if samples and worst < 2e-6:
        yield Finding("solving", GOOD, told)
    else:
        yield Finding("solving", FAULT, told, f"the compiled solver gives wrong results on this machine: {REINSTALL}")


def packages() -> Iterator[Finding]:
    """Check that the requirements of the package and its extras are installed, recent and importable."""
    n_faults, missing = 0, dict[str, list[str]]()
    for line in requires("eim_ros") or []:
        match = REQUIREMENT.match(line)
        if match is None or match["extra"] == "all":
            continue
        problem = _problem(match["name"], match["least"], is_imported=match["extra"] is None)
        if problem and match["extra"]:
            missing.setdefault(match["extra"], []).append(problem)
        elif problem:
            n_faults += 1
            yield Finding("packages", FAULT, problem, f"pip install --upgrade '{line}'")
    if not n_faults:
        yield Finding("packages", GOOD, "all requirements for solving and serving are installed")
    for extra, problems in missing.items():
        yield Finding(f"extra {extra}", MISSING, "; ".join(problems), f"pip install '.[{extra}]'")


def _problem(name: str, least: str | None, is_imported: bool) -> str:
    """Return the fault of a package, or an empty text if there is no fault."""
    try:
        found = version(name)
    except PackageNotFoundError:
        if importlib.util.find_spec(MODULES.get(name, name)) is None:
            return f"{name} is not installed"
        found = ""  # system packages may lack Python metadata
    if least and found and _numbers(found) < _numbers(least):
        return f"{name} {found} is older than {least}"
    if is_imported:
        try:
            importlib.import_module(MODULES.get(name, name))
        except Exception as error:  # a broken installation can raise any error
            return f"{name} {found} cannot be imported: {one_line(error)}"
    return ""


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def compiled() -> Iterator[Finding]:
    """Check that the compiled modules exist, match the package, and are the best variants for this processor."""
    runs_here = importlib.import_module("eim_ros.core._processor").runs_here
    best = next(one for one in native.INSTRUCTION_SETS if runs_here(one))
    for name in COMPILED:
        module = native.load_native(name)
        importlib.import_module(name.rpartition(".")[0])
        loaded = str(module.__name__).rpartition("_")[2]
        told = f"{name} is built for {loaded}, and this {platform.machine()} processor supports {best}"
        if loaded == best or (best != "baseline" and platform.machine().lower() not in ("x86_64", "amd64")):
            yield Finding("compiled", GOOD, told)
        elif os.environ.get(native.VARIABLE):
            yield Finding("compiled", MISSING, told, f"unset {native.VARIABLE}, which selects a slower module")
        else:
            cure = f"export EIM_ROS_INSTRUCTION_SETS={best}, then {REINSTALL}"
            yield Finding(
                "compiled", MISSING, f"{told}: the module works, but it is slower than a module for {best}", cure
            )


def ros() -> Iterator[Finding]:
    """Check that rclpy and the interfaces of eim_ros can be imported. Only the nodes need them."""
    if importlib.util.find_spec("rclpy") is None:
        yield Finding("ros", MISSING, "ROS 2 is not installed: only the nodes need it", BUILD)
        return
    try:
        _run("import rclpy, eim_ros.nodes.common.interfaces")
    except RuntimeError as error:  # the interfaces may belong to another version of ROS 2
        yield Finding("ros", FAULT, str(error), _cure_of_start())
    else:
        yield Finding(
            "ros", GOOD, f"ROS 2 {os.environ.get('ROS_DISTRO') or 'from wheels'} with the interfaces of eim_ros"
        )


def dds() -> Iterator[Finding]:
    """If ROS 2 is installed, check that a message from one process arrives in another process."""
    if importlib.util.find_spec("rclpy") is None:
        return
    found = [*_environment(), *_profiles()]
    yield from found
    if any(finding.state == FAULT for finding in found):
        return
    topic = f"eim_doctor_{os.getpid()}"
    with subprocess.Popen(tied([sys.executable, "-c", NODE, "talk", topic]), stderr=subprocess.DEVNULL) as talker:
        try:
            middleware, heard, seconds = _run(NODE, "listen", topic).split()
        except (RuntimeError, ValueError) as error:
            yield Finding("dds", FAULT, f"a node cannot be created: {one_line(error)}", _cure_of_start())
            return
        finally:
            talker.kill()
    if heard == "0":
        yield Finding(
            "dds", FAULT, f"a process does not receive the messages of another process ({middleware})", UNHEARD
        )
    else:
        yield Finding("dds", GOOD, f"{middleware}: a message arrived after {float(seconds):.1f} s")


def _run(program: str, *words: str) -> str:
    """Run a Python program in a child process, because a failing middleware can end its process. Return its output.

    Raise `RuntimeError` with the last line of stderr if the process fails.
    """
    try:
        command = tied([sys.executable, "-c", program, *words])
        result = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RuntimeError(one_line(error)) from error
    if result.returncode:
        last = [line for line in result.stderr.splitlines() if line.strip()][-1:]
        raise RuntimeError(" ".join(last)[-300:] or f"the process ended with exit code {result.returncode}")
    return result.stdout


def _cure_of_start() -> str:
    middleware = os.environ.get("RMW_IMPLEMENTATION")
    return f"unset RMW_IMPLEMENTATION, or install {middleware}, which it selects; {BUILD}" if middleware else BUILD


def _environment() -> Iterator[Finding]:
    """Yield faults in the settings and in the shared memory of this host."""
    domain = os.environ.get("ROS_DOMAIN_ID", "").strip() or "0"
    if not domain.isdigit() or int(domain) > LARGEST_DOMAIN:
        told = f"ROS_DOMAIN_ID is {domain!r}, expected a number from 0 to {LARGEST_DOMAIN}"
        yield Finding("dds", FAULT, told, f"export ROS_DOMAIN_ID=N with N from 0 to {LARGEST_PORTS_FREE}")
    if os.environ.get("ROS_AUTOMATIC_DISCOVERY_RANGE", "").upper() == "OFF":
        cure = "export ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST, or SUBNET"
        yield Finding("dds", FAULT, "ROS_AUTOMATIC_DISCOVERY_RANGE is OFF: nodes cannot discover each other", cure)
    if os.path.isdir(SHARED_MEMORY):
        free = shutil.disk_usage(SHARED_MEMORY).free
        if free < LEAST_SHARED or not os.access(SHARED_MEMORY, os.W_OK):
            told = f"{SHARED_MEMORY} has only {free // 2**20} MiB of free memory, or is not writable"
            cure = f"free memory in {SHARED_MEMORY} (in containers by --shm-size=256m), or {WITHOUT_SHARED_MEMORY}"
            yield Finding("dds", MISSING, told, cure)


def _profiles() -> Iterator[Finding]:
    """Yield a fault if DDS profiles of the user lack an essential setting of the included profiles."""
    from eim_ros.nodes.common.process import PROFILES, PROFILES_VARIABLES, TYPE_PROPAGATION

    for name, path in ((name, os.environ.get(name)) for name in PROFILES_VARIABLES):
        try:
            if not path or TYPE_PROPAGATION in Path(path).read_text(encoding="utf-8", errors="replace"):
                continue
            told = (
                f"{path} ({name}) does not set {TYPE_PROPAGATION}: some of many clients that start together do not "
                "find their service"
            )
        except OSError as error:
            told = f"{name} cannot be read: {one_line(error)}"
        yield Finding("dds", MISSING, told, f"copy the settings of {PROFILES} into your profiles, or unset {name}")
        return


CHECKS = (packages, compiled, robots, solving, ros, dds)


@dataclass(frozen=True, kw_only=True)
class Doctor:
    """Check whether this machine meets all requirements of the package, and name a remedy for each fault.

    The exit code is 0 if nothing is broken, and otherwise 1. Optional parts that are missing are not faults.
    """

    json: bool = json_flag()

    def run(self) -> int:
        findings: list[Finding] = []
        for check in CHECKS:
            for finding in findings_of(check):
                findings.append(finding)
                if not self.json:
                    print(f"{finding.state:8}{finding.area:12}{finding.told}", flush=True)
                    if finding.cure:
                        print(f"{'':20}-> {finding.cure}", flush=True)
        n_faults = sum(finding.state == FAULT for finding in findings)
        if self.json:
            print(json.dumps({"faults": n_faults, "findings": [dataclasses.asdict(finding) for finding in findings]}))
        else:
            print("nothing is broken" if not n_faults else f"{n_faults} fault{'s' if n_faults > 1 else ''}")
        return 1 if n_faults else 0
