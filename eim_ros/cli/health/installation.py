"""Python, the packages, the compiler and the compiled modules."""

from __future__ import annotations

import importlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, requires, version

from eim_ros.cli.health.finding import FAULT, GOOD, MISSING, Finding, one_line
from eim_ros.numerics.child_process import tied

__all__ = ["compiled_modules", "compiler", "packages", "python"]

OLDEST, NEWEST = (3, 10), (3, 13)  # of which the wheels are
COMPILED = ("eim_ros.solver._solver", "eim_ros.distributions.native._quadratic_forms")
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
            module = importlib.import_module("eim_ros.numerics.native").load_native(name)
            importlib.import_module(name.rpartition(".")[0])
        except ImportError as error:
            findings.append(Finding("compiled", FAULT, one_line(error), REBUILD))
        else:
            findings.append(_fit(name, module))
    return findings


def _fit(name: str, module: object) -> Finding:
    """Whether a module is built for the best instruction set that this processor has."""
    loaded = str(module.__name__).rpartition("_")[2]  # type: ignore[attr-defined]
    sets = importlib.import_module("eim_ros.numerics.native").INSTRUCTION_SETS
    runs_here = importlib.import_module("eim_ros.numerics._processor").runs_here
    best = next(one for one in sets if runs_here(one))
    told = f"{name} for {loaded}; {platform.machine()} processor with {best}"
    forced = os.environ.get("EIM_ROS_INSTRUCTION_SET", "")
    if loaded == best or (best != "baseline" and platform.machine().lower() not in ("x86_64", "amd64")):
        return Finding("compiled", GOOD, told)
    if forced:
        return Finding("compiled", MISSING, told, "unset EIM_ROS_INSTRUCTION_SET, which asks for the slower one")
    return Finding("compiled", MISSING, f"{told}: it runs, but slower", f"EIM_ROS_INSTRUCTION_SETS={best} {REBUILD}")
