"""`eim doctor`: looks whether all is there that the package needs on this machine, and names the cure of each fault.

Exit code 0 where nothing is broken, 1 where something is. What is missing and only some need is no fault.

Robots and models that come with the package, and a pose solved with them.

What a check has found.

Python, the packages, the compiler and the compiled modules.

ROS 2: whether it is there, our interfaces with it, and whether processes of this host hear each other.
"""

from __future__ import annotations

import argparse
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
from collections.abc import Callable, Collection
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from eim_ros.core.child_process import tied

GOOD, MISSING, FAULT = "ok", "missing", "fault"


@dataclass(frozen=True)
class Finding:
    """One line of the report.

    Attributes
    ----------
    area : str
        What was looked at.
    state : {"ok", "missing", "fault"}
        Missing is what only some need: nothing is broken.
    told : str
        What was found.
    cure : str
        What to do about it; empty where all is well.
    """

    area: str
    state: str
    told: str
    cure: str = ""


def one_line(error: BaseException) -> str:
    """Of an exception: its last words, without line ends, or its name."""
    return " ".join(str(error).split())[-300:] or type(error).__name__


REINSTALL = "make setup in the clone, or pip install . again; colcon: build and source install/setup.bash"


def robots() -> list[Finding]:
    """Whether each shipped robot can be read."""
    try:
        from eim_ros.kinematics import SHIPPED_ROBOTS, Robot
    except Exception as error:  # of a broken installation
        return [Finding("robots", FAULT, one_line(error), REINSTALL)]
    return _loaded("robots", SHIPPED_ROBOTS, Robot)


def models() -> list[Finding]:
    """Whether each shipped model can be read, and is that of its robot."""
    try:
        from eim_ros.ik import IKModel
        from eim_ros.ik.prior import SHIPPED_MODELS
    except Exception as error:
        return [Finding("models", FAULT, one_line(error), REINSTALL)]
    return _loaded("models", SHIPPED_MODELS, IKModel.load)


def _loaded(kind: str, names: Collection[str], load: Callable[[str], object]) -> list[Finding]:
    """What is wrong with those that cannot be loaded, or that all can."""
    findings = []
    for name in names:
        try:
            load(name)
        except Exception as error:
            findings.append(Finding(kind, FAULT, f"{name}: {one_line(error)}", REINSTALL))
    return findings or [Finding(kind, GOOD, f"{len(names)} of {len(names)}")]


def solving() -> list[Finding]:
    """Whether a pose of a shipped model is solved, as forward kinematics without the compiled solver confirms."""
    try:
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
    except Exception as error:
        return [Finding("solving", FAULT, one_line(error), REINSTALL)]
    told = f"{int(samples.valid.sum())} solutions of a pose in {1e3 * took:.1f} ms, off by {worst:.1e} m"
    if not samples or not worst < 2e-6:
        return [
            Finding("solving", FAULT, told, f"the compiled solver is not to be trusted on this machine: {REINSTALL}")
        ]
    return [Finding("solving", GOOD, told)]


OLDEST, NEWEST = (3, 10), (3, 13)  # of which the wheels are
COMPILED = ("eim_ros.solver._solver", "eim_ros.learning.models.native._quadratic_forms")
REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(?:>=(?P<least>[\d.]+))?(?:; extra == ['\"](?P<extra>\w+)['\"])?$")
MODULES = {"pin": "pinocchio", "PyYAML": "yaml", "scikit-learn": "sklearn"}  # those of other names
REBUILD = "make setup in the clone, or pip install . again"
PROGRAM = (
    "#include <concepts>\ntemplate <std::integral T> T twice(T x) { return 2 * x; }\nint main() { return twice(0); }\n"
)


def python(found: tuple[int, ...] = sys.version_info[:3]) -> list[Finding]:
    """Whether this interpreter is one that the package supports."""
    told = f"{'.'.join(map(str, found))}, {sys.executable}"
    if not OLDEST <= found[:2] <= NEWEST:
        cure = "use Python 3.10 to 3.13: make setup PYTHON=/path/to/python3.12"
        return [Finding("python", FAULT, told, cure)]
    return [Finding("python", GOOD, told)]


def packages() -> list[Finding]:
    """Whether what the package and its extras need is there, new enough, and can be imported."""
    try:
        wanted = requires("eim_ros") or []
    except PackageNotFoundError:
        return [Finding("packages", FAULT, "eim_ros is not installed for this Python", REBUILD)]
    findings: list[Finding] = []
    missing: dict[str, list[str]] = {}
    for line in wanted:
        match = REQUIREMENT.match(line)
        if match is None or match["extra"] == "all":
            continue
        problem = _problem(match["name"], match["least"], is_imported=match["extra"] is None)
        if problem and match["extra"]:
            missing.setdefault(match["extra"], []).append(problem)
        elif problem:
            findings.append(Finding("packages", FAULT, problem, f"pip install --upgrade '{line}'"))
    if not findings:
        findings = [Finding("packages", GOOD, "all that is needed to solve and to serve")]
    for extra, problems in missing.items():
        findings.append(Finding(f"extra {extra}", MISSING, "; ".join(problems), f"pip install .[{extra}]"))
    return findings


def _problem(name: str, least: str | None, is_imported: bool) -> str:
    """What is wrong with a package; empty where nothing is."""
    try:
        found = version(name)
    except PackageNotFoundError:
        if importlib.util.find_spec(MODULES.get(name, name)) is None:
            return f"{name} is not installed"
        found = ""  # of the system, without Python's metadata
    if least and found and _numbers(found) < _numbers(least):
        return f"{name} {found} is older than {least}"
    if is_imported:
        try:
            importlib.import_module(MODULES.get(name, name))
        except Exception as error:  # whatever a broken installation raises
            return f"{name} {found} cannot be imported: {one_line(error)}"
    return ""


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def compiler() -> list[Finding]:
    """Whether there is a compiler of C++20, which only those need who build the package."""
    name = os.environ.get("CXX", "g++")
    path = shutil.which(name)
    cure = (
        "to build the package anew: install g++ 11 or newer (Debian, Ubuntu: apt install g++), or name another by CXX"
    )
    if path is None:
        return [Finding("compiler", MISSING, f"{name} is not there", cure)]
    command = tied([path, "-std=c++20", "-fsyntax-only", "-x", "c++", "-"])
    try:
        result = subprocess.run(command, input=PROGRAM, capture_output=True, text=True, timeout=60.0, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return [Finding("compiler", MISSING, f"{path} cannot be run: {one_line(error)}", cure)]
    if result.returncode:
        return [Finding("compiler", MISSING, f"{path} does not compile C++20", cure)]
    return [Finding("compiler", GOOD, f"{path}, C++20")]


def compiled_modules() -> list[Finding]:
    """Whether the compiled modules are there and fit the package, and are the best for this processor."""
    findings = []
    for name in COMPILED:
        try:
            module = importlib.import_module("eim_ros.core.native").load_native(name)
            importlib.import_module(name.rpartition(".")[0])
        except ImportError as error:
            findings.append(Finding("compiled", FAULT, one_line(error), REBUILD))
        else:
            findings.append(_fit(name, module))
    return findings


def _fit(name: str, module: object) -> Finding:
    """Whether a module is built for the best instruction set that this processor has."""
    loaded = str(module.__name__).rpartition("_")[2]  # type: ignore[attr-defined]
    sets = importlib.import_module("eim_ros.core.native").INSTRUCTION_SETS
    runs_here = importlib.import_module("eim_ros.core._processor").runs_here
    best = next(one for one in sets if runs_here(one))
    told = f"{name} for {loaded}; {platform.machine()} processor with {best}"
    forced = os.environ.get("EIM_ROS_INSTRUCTION_SET", "")
    if loaded == best or (best != "baseline" and platform.machine().lower() not in ("x86_64", "amd64")):
        return Finding("compiled", GOOD, told)
    if forced:
        return Finding("compiled", MISSING, told, "unset EIM_ROS_INSTRUCTION_SET, which asks for the slower one")
    return Finding("compiled", MISSING, f"{told}: it runs, but slower", f"EIM_ROS_INSTRUCTION_SETS={best} {REBUILD}")


BUILD = "make setup in the clone (with ROS 2 from wheels), or source ROS 2 and colcon build"
PATIENCE = 60.0  # [s] for two processes that import ROS 2 on a busy machine
LARGEST_DOMAIN, LARGEST_PORTS_FREE = 232, 101  # above the latter ports may be taken by programs of all kinds
WITHOUT_SHARED_MEMORY = "export FASTDDS_BUILTIN_TRANSPORTS=UDPv4"
SHARED_MEMORY, LEAST_SHARED = "/dev/shm", 8 * 2**20  # [byte] that Fast DDS needs there for a few nodes


def interfaces() -> list[Finding]:
    """Whether rclpy and our messages, services and actions can be imported; only the nodes need them."""
    if importlib.util.find_spec("rclpy") is None:
        return [Finding("ros", MISSING, "no ROS 2: the nodes do not run, all else does", BUILD)]
    try:
        _run("-c", "import rclpy, eim_ros.nodes.common.interfaces")
    except RuntimeError as error:  # of a build that does not fit this ROS 2
        return [Finding("ros", FAULT, str(error), _cure_of_start())]
    distribution = os.environ.get("ROS_DISTRO") or "from wheels"
    return [Finding("ros", GOOD, f"ROS 2 {distribution}, with the interfaces of eim_ros")]


def dds() -> list[Finding]:
    """Whether a message comes from one process to another; only where there is a ROS 2."""
    if importlib.util.find_spec("rclpy") is None:
        return []
    found = _environment()
    if any(finding.state == FAULT for finding in found):
        return found
    try:
        told = json.loads(_run("-m", "eim_ros.nodes.common.dds_check").splitlines()[-1])
    except (RuntimeError, ValueError, IndexError) as error:
        return [*found, Finding("dds", FAULT, f"a node cannot be made: {one_line(error)}", _cure_of_start())]
    if not told["heard"]:
        return [*found, Finding("dds", FAULT, f"two processes do not hear each other ({told['middleware']})", _cure())]
    return [*found, Finding("dds", GOOD, f"{told['middleware']}: a message came after {told['seconds']:.1f} s")]


def _run(*words: str) -> str:
    """Of a Python process, for the middleware ends the one that it is in where something is wrong; what it prints.

    Raises
    ------
    RuntimeError
        If it fails, with its last words.
    """
    try:
        command = tied([sys.executable, *words])
        result = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RuntimeError(one_line(error)) from error
    if result.returncode:
        last = [line for line in result.stderr.splitlines() if line.strip()][-1:]
        raise RuntimeError(" ".join(last)[-300:] or f"ended with {result.returncode}")
    return result.stdout


def _cure_of_start() -> str:
    middleware = os.environ.get("RMW_IMPLEMENTATION")
    return f"unset RMW_IMPLEMENTATION (it is {middleware}), or install that; {BUILD}" if middleware else BUILD


def _environment() -> list[Finding]:
    """What is amiss in the settings and the shared memory of this host."""
    found = []
    domain = os.environ.get("ROS_DOMAIN_ID", "").strip() or "0"
    if not domain.isdigit() or int(domain) > LARGEST_DOMAIN:
        cure = f"export ROS_DOMAIN_ID=N, N from 0 to {LARGEST_PORTS_FREE}"
        found.append(Finding("dds", FAULT, f"ROS_DOMAIN_ID is {domain!r}, no number from 0 to {LARGEST_DOMAIN}", cure))
    if os.environ.get("ROS_AUTOMATIC_DISCOVERY_RANGE", "").upper() == "OFF":
        cure = "export ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST, or SUBNET"
        found.append(Finding("dds", FAULT, "ROS_AUTOMATIC_DISCOVERY_RANGE is OFF: nodes do not find each other", cure))
    found += _profiles()
    if os.path.isdir(SHARED_MEMORY):
        free = shutil.disk_usage(SHARED_MEMORY).free
        if free < LEAST_SHARED or not os.access(SHARED_MEMORY, os.W_OK):
            cure = f"make room in {SHARED_MEMORY} (containers: --shm-size=256m), or {WITHOUT_SHARED_MEMORY}"
            told = f"{free // 2**20} MiB are free in {SHARED_MEMORY}, or it cannot be written"
            found.append(Finding("dds", MISSING, told, cure))
    return found


def _profiles() -> list[Finding]:
    """Whether profiles of the user, which our nodes then use in place of ours, lack what these are there for."""
    from eim_ros.nodes.common.process import PROFILES, PROFILES_VARIABLES, TYPE_PROPAGATION

    for name in PROFILES_VARIABLES:
        path = os.environ.get(name, "")
        try:
            if not path or TYPE_PROPAGATION in Path(path).read_text(encoding="utf-8", errors="replace"):
                continue
        except OSError as error:
            return [Finding("dds", MISSING, f"{name} cannot be read: {one_line(error)}", f"unset {name}")]
        told = (
            f"{path} of {name} leaves {TYPE_PROPAGATION} on: of clients that start many at a time some find no service"
        )
        return [Finding("dds", MISSING, told, f"put what {PROFILES} says into it, or unset {name}")]
    return []


def _cure() -> str:
    return (
        "on one host export ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST; in containers --ipc=host and --network=host, or "
        f"{WITHOUT_SHARED_MEMORY}; without multicast set ROS_STATIC_PEERS; in firewalls open the UDP ports from 7400 on"
    )


CHECKS: tuple[Callable[[], list[Finding]], ...] = (
    python,
    packages,
    compiler,
    compiled_modules,
    robots,
    models,
    solving,
    interfaces,
    dds,
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the verb."""
    parser = subparsers.add_parser("doctor", help="what is broken or missing here, and its cure", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the verb; returns the exit code."""
    findings: list[Finding] = []
    for check in CHECKS:
        for finding in check():
            findings.append(finding)
            if not args.json:
                print(f"{finding.state:8}{finding.area:12}{finding.told}", flush=True)
                if finding.cure:
                    print(f"{'':20}-> {finding.cure}", flush=True)
    n_faults = sum(finding.state == FAULT for finding in findings)
    if args.json:
        print(json.dumps({"faults": n_faults, "findings": [dataclasses.asdict(finding) for finding in findings]}))
    else:
        print("nothing is broken" if not n_faults else f"{n_faults} fault{'s' if n_faults > 1 else ''}")
    return 1 if n_faults else 0
