"""`eim doctor`: check this machine, and name a remedy for each fault. `eim completion`: complete words in its shell.

The checks cover Python and the packages, the compiler and the compiled modules, and the included robots and models. If
ROS 2 is installed, they also cover our interfaces and the communication between processes.
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
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Literal

from eim_ros.cli.flags import choices_of, flag, flags_of, json_flag
from eim_ros.cli.main import VERBS, verb_type
from eim_ros.core import native
from eim_ros.core.child_process import tied

GOOD, MISSING, FAULT = "ok", "missing", "fault"


@dataclass(frozen=True)
class Finding:
    """One line of the report."""

    area: str  # subject of the check
    state: str  # GOOD, FAULT, or MISSING for an optional part that is not installed
    told: str  # result of the check
    cure: str = ""  # remedy, if one is needed


def one_line(error: BaseException) -> str:
    """Return the end of an exception's message in one line, or its name."""
    return " ".join(str(error).split())[-300:] or type(error).__name__


REINSTALL = "make setup in the clone, or pip install . again; colcon: build and source install/setup.bash"


def included() -> list[Finding]:
    """Check that each included robot and model can be read."""
    findings = []
    try:
        from eim_ros.ik import IKModel
        from eim_ros.ik.prior import SHIPPED_MODELS
        from eim_ros.kinematics import SHIPPED_ROBOTS, Robot
    except Exception as error:  # a broken installation can raise any error
        return [Finding("robots", FAULT, one_line(error), REINSTALL)]
    for kind, names, load in (("robots", SHIPPED_ROBOTS, Robot), ("models", SHIPPED_MODELS, IKModel.load)):
        faults = []
        for name in names:
            try:
                load(name)
            except Exception as error:
                faults.append(Finding(kind, FAULT, f"{name}: {one_line(error)}", REINSTALL))
        findings += faults or [Finding(kind, GOOD, f"{len(names)} of {len(names)}")]
    return findings


def solving() -> list[Finding]:
    """Check that an included model solves a pose, by forward kinematics without the compiled solver."""
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
    if samples and worst < 2e-6:
        return [Finding("solving", GOOD, told)]
    return [Finding("solving", FAULT, told, f"the compiled solver gives wrong results on this machine: {REINSTALL}")]


OLDEST, NEWEST = (3, 10), (3, 13)  # versions with wheels
COMPILED = ("eim_ros.solver._solver", "eim_ros.learning.models.native._quadratic_forms")
REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(?:>=(?P<least>[\d.]+))?(?:; extra == ['\"](?P<extra>\w+)['\"])?$")
MODULES = {
    "pin": "pinocchio",
    "PyYAML": "yaml",
    "scikit-learn": "sklearn",
}  # modules whose names differ from their packages
REBUILD = "make setup in the clone, or pip install . again"
PROGRAM = (
    "#include <concepts>\ntemplate <std::integral T> T twice(T x) { return 2 * x; }\nint main() { return twice(0); }\n"
)


def python(found: tuple[int, ...] = sys.version_info[:3]) -> list[Finding]:
    """Check that the package supports this interpreter."""
    told = f"{'.'.join(map(str, found))}, {sys.executable}"
    if OLDEST <= found[:2] <= NEWEST:
        return [Finding("python", GOOD, told)]
    return [Finding("python", FAULT, told, "use Python 3.10 to 3.13: make setup PYTHON=/path/to/python3.12")]


def packages() -> list[Finding]:
    """Check that the requirements of the package and its extras are installed, recent enough and importable."""
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
        findings = [Finding("packages", GOOD, "all requirements for solving and serving")]
    for extra, problems in missing.items():
        findings.append(Finding(f"extra {extra}", MISSING, "; ".join(problems), f"pip install .[{extra}]"))
    return findings


def _problem(name: str, least: str | None, is_imported: bool) -> str:
    """Return the fault of a package; empty if there is none."""
    try:
        found = version(name)
    except PackageNotFoundError:
        if importlib.util.find_spec(MODULES.get(name, name)) is None:
            return f"{name} is not installed"
        found = ""  # system packages may have no Python metadata
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


def compiler() -> list[Finding]:
    """Check for a C++20 compiler, which is only needed to build the package."""
    name = os.environ.get("CXX", "g++")
    cure = (
        "to rebuild the package: install g++ 11 or newer (Debian, Ubuntu: apt install g++), or set CXX to another one"
    )
    if (path := shutil.which(name)) is None:
        return [Finding("compiler", MISSING, f"{name} was not found", cure)]
    command = tied([path, "-std=c++20", "-fsyntax-only", "-x", "c++", "-"])
    try:
        result = subprocess.run(command, input=PROGRAM, capture_output=True, text=True, timeout=60.0, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return [Finding("compiler", MISSING, f"{path} cannot be run: {one_line(error)}", cure)]
    if result.returncode:
        return [Finding("compiler", MISSING, f"{path} does not compile C++20", cure)]
    return [Finding("compiler", GOOD, f"{path}, C++20")]


def compiled_modules() -> list[Finding]:
    """Check that the compiled modules exist, fit the package, and are the best ones for this processor."""
    findings = []
    for name in COMPILED:
        try:
            module = native.load_native(name)
            importlib.import_module(name.rpartition(".")[0])
        except ImportError as error:
            findings.append(Finding("compiled", FAULT, one_line(error), REBUILD))
        else:
            findings.append(_fit(name, module))
    return findings


def _fit(name: str, module: object) -> Finding:
    """Check that a module is built for the best instruction set of this processor."""
    loaded = str(module.__name__).rpartition("_")[2]  # type: ignore[attr-defined]
    runs_here = importlib.import_module("eim_ros.core._processor").runs_here
    best = next(one for one in native.INSTRUCTION_SETS if runs_here(one))
    told = f"{name} for {loaded}; {platform.machine()} processor with {best}"
    forced = os.environ.get("EIM_ROS_INSTRUCTION_SET", "")
    if loaded == best or (best != "baseline" and platform.machine().lower() not in ("x86_64", "amd64")):
        return Finding("compiled", GOOD, told)
    if forced:
        return Finding("compiled", MISSING, told, "unset EIM_ROS_INSTRUCTION_SET, which selects the slower one")
    return Finding("compiled", MISSING, f"{told}: it runs, but slower", f"EIM_ROS_INSTRUCTION_SETS={best} {REBUILD}")


BUILD = "make setup in the clone (with ROS 2 from wheels), or source ROS 2 and colcon build"
PATIENCE = 60.0  # enough time for two processes that import ROS 2 on a busy machine [s]
LARGEST_DOMAIN, LARGEST_PORTS_FREE = 232, 101  # largest domain; above it, other programs may use the ports
WITHOUT_SHARED_MEMORY = "export FASTDDS_BUILTIN_TRANSPORTS=UDPv4"
SHARED_MEMORY, LEAST_SHARED = "/dev/shm", 8 * 2**20  # enough shared memory for a few nodes with Fast DDS [byte]


def interfaces() -> list[Finding]:
    """Check that rclpy and our messages, services and actions can be imported; only the nodes need them."""
    if importlib.util.find_spec("rclpy") is None:
        return [Finding("ros", MISSING, "no ROS 2: the nodes cannot run, everything else can", BUILD)]
    try:
        _run("-c", "import rclpy, eim_ros.nodes.common.interfaces")
    except RuntimeError as error:  # the interfaces may be built for another ROS 2
        return [Finding("ros", FAULT, str(error), _cure_of_start())]
    distribution = os.environ.get("ROS_DISTRO") or "from wheels"
    return [Finding("ros", GOOD, f"ROS 2 {distribution}, with the interfaces of eim_ros")]


def dds() -> list[Finding]:
    """Check that a message from one process arrives in another, if ROS 2 is installed."""
    if importlib.util.find_spec("rclpy") is None:
        return []
    found = _environment()
    if any(finding.state == FAULT for finding in found):
        return found
    try:
        told = json.loads(_run("-m", "eim_ros.nodes.common.dds_check").splitlines()[-1])
    except (RuntimeError, ValueError, IndexError) as error:
        return [*found, Finding("dds", FAULT, f"a node cannot be created: {one_line(error)}", _cure_of_start())]
    if not told["heard"]:
        return [*found, Finding("dds", FAULT, f"two processes do not hear each other ({told['middleware']})", _cure())]
    return [*found, Finding("dds", GOOD, f"{told['middleware']}: a message came after {told['seconds']:.1f} s")]


def _run(*words: str) -> str:
    """Run a Python process and return its output. The middleware can end the process in which it fails.

    Raise `RuntimeError` if the process fails; the message is the last line of its errors.
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
    """Return the faults in the settings and the shared memory of this host."""
    found = []
    domain = os.environ.get("ROS_DOMAIN_ID", "").strip() or "0"
    if not domain.isdigit() or int(domain) > LARGEST_DOMAIN:
        cure = f"export ROS_DOMAIN_ID=N, N from 0 to {LARGEST_PORTS_FREE}"
        found.append(
            Finding("dds", FAULT, f"ROS_DOMAIN_ID is {domain!r}, expected a number from 0 to {LARGEST_DOMAIN}", cure)
        )
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
    """Check that profiles of the user, which replace ours, have the same essential settings."""
    from eim_ros.nodes.common.process import PROFILES, PROFILES_VARIABLES, TYPE_PROPAGATION

    for name in PROFILES_VARIABLES:
        path = os.environ.get(name, "")
        try:
            if not path or TYPE_PROPAGATION in Path(path).read_text(encoding="utf-8", errors="replace"):
                continue
        except OSError as error:
            return [Finding("dds", MISSING, f"{name} cannot be read: {one_line(error)}", f"unset {name}")]
        told = f"{path} of {name} leaves {TYPE_PROPAGATION} on: if many clients start at a time, some find no service"
        return [Finding("dds", MISSING, told, f"copy the settings of {PROFILES} into it, or unset {name}")]
    return []


def _cure() -> str:
    return (
        "on one host export ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST; in containers --ipc=host and --network=host, or "
        f"{WITHOUT_SHARED_MEMORY}; without multicast set ROS_STATIC_PEERS; in firewalls open the UDP ports from 7400 on"
    )


CHECKS: tuple[Callable[[], list[Finding]], ...]
CHECKS = (python, packages, compiler, compiled_modules, included, solving, interfaces, dds)


@dataclass(frozen=True, kw_only=True)
class Doctor:
    """Check whether this machine meets all requirements of the package, and name a remedy for each fault.

    Exit code 0 if nothing is broken, otherwise 1. Optional parts that are missing are not faults.
    """

    json: bool = json_flag()

    def run(self) -> int:
        findings: list[Finding] = []
        for check in CHECKS:
            for finding in check():
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


BASH = """_eim() {{
  local words
  if ((COMP_CWORD == 1)); then
    words="{verbs}"
  else
    case "${{COMP_WORDS[1]}} ${{COMP_WORDS[COMP_CWORD-1]}}" in
{cases}
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _eim eim"""
ZSH = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n"


def bash_script() -> str:
    """Return the script that completes verbs, flags and choices in bash."""
    cases = []
    for verb in VERBS:
        words, choices = words_of(verb)
        cases += [f'{verb} {name}") words="{" ".join(some)}' for name, some in choices.items()]
        cases.append(f'{verb} "*) words="{" ".join(words)}')
    return BASH.format(verbs=" ".join(VERBS), cases="\n".join(f'      "{case}" ;;' for case in cases))


def fish_script() -> str:
    """Return the script that completes verbs, flags and choices in fish."""
    lines = [f'complete -c eim -n __fish_use_subcommand -a {verb} -d "{text}"' for verb, (_, text) in VERBS.items()]
    for verb in VERBS:
        words, choices = words_of(verb)
        start = f"complete -c eim -n '__fish_seen_subcommand_from {verb}'"
        for word in words:
            given = f"-l {word[2:]}" if word.startswith("-") else f"-a {word}"
            lines.append(f"{start} {given}" + (f" -x -a '{' '.join(choices[word])}'" if word in choices else ""))
    return "\n".join(lines)


def words_of(verb: str) -> tuple[list[str], dict[str, tuple[str, ...]]]:
    """Return the words that may follow a verb, and the words that may follow some of its flags."""
    kinds = verb_type(verb)
    kinds = kinds if isinstance(kinds, dict) else {"": kinds}
    flags = [name for kind in kinds.values() for name in flags_of(kind)]
    choices = {name: some for kind in kinds.values() for name, some in choices_of(kind).items()}
    places = [word for name, some in choices.items() if not name.startswith("-") for word in some]
    words = dict.fromkeys([*filter(None, kinds), *places, *flags, "--help"])
    return list(words), {name: some for name, some in choices.items() if name.startswith("-")}


@dataclass(frozen=True, kw_only=True)
class Completion:
    """Print a script that completes verbs, flags and choices in a shell. Load it in the start file of the shell."""

    shell: Literal["bash", "zsh", "fish"] = flag(text="Shell: bash, zsh or fish.", positional=True)

    def run(self) -> int:
        print(fish_script() if self.shell == "fish" else f"{ZSH * (self.shell == 'zsh')}{bash_script()}")
        return 0
