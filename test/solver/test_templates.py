"""Each C++ check in `checks/` passes with the baseline and with the best instruction set of this processor."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import runpy
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest
import setuptools
from setuptools import Extension

from eim_ros.core._processor import runs_here
from eim_ros.core.native import INSTRUCTION_SETS

ROOT = Path(__file__).resolve().parents[2]
CHECKS = ROOT / "test/solver/checks"
SOURCES = sorted(CHECKS.glob("*.cpp"))
NAMES = [name for source in SOURCES for name in re.findall(r"^CHECK\((\w+)\)", source.read_text(), re.M)]
COMPILER = (sysconfig.get_config_var("CXX") or "g++").split()[0]


@functools.cache
def built_here() -> dict[str, Extension]:
    """Return modules of the solver from setup.py that this processor can run, by instruction set, best first."""
    captured: dict = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        patch.setattr(setuptools, "setup", captured.update)
        runpy.run_path("setup.py")
    solvers = [module for module in captured["ext_modules"] if module.name.startswith("eim_ros.solver.")]
    modules = {module.name.rpartition("_")[2]: module for module in solvers}
    return {name: modules[name] for name in INSTRUCTION_SETS if name in modules and runs_here(name)}


@pytest.fixture(scope="session")
def outcomes(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, str]]:
    """Return a function that runs the checks with an instruction set and returns the line that each check prints."""
    cache = getattr(pytestconfig, "cache", None)  # there is no cache in the run with sanitizers
    folder = cache.mkdir("solver_checks") if cache else tmp_path_factory.mktemp("solver_checks")

    @functools.cache
    def run(instruction_set: str) -> dict[str, str]:
        program = compiled(instruction_set, folder)
        result = subprocess.run([program], capture_output=True, text=True, check=False)
        lines = [line for line in result.stdout.splitlines() if line.startswith(("ok ", "FAILED "))]
        said = {re.split("[ :]", line)[1]: line for line in lines}
        assert result.returncode in (0, 1), f"the program ended after {lines[-1:]} with\n{result.stderr}"
        assert (result.returncode == 0) == all(line.startswith("ok ") for line in lines)
        return said

    return run


def compiled(instruction_set: str, folder: Path) -> Path:
    """Compile the checks with the options of the module but -O1, or reuse the program of the same sources.

    All checks are one translation unit, so templates that several checks share are compiled only once.
    """
    module = built_here()[instruction_set]
    folders = [ROOT / place for place in module.include_dirs]
    command = [COMPILER, *module.extra_compile_args, "-std=c++20", "-O1", *(f"-I{place}" for place in folders)]
    command += ["-x", "c++", "-", *module.extra_link_args]
    unit = "".join(f'#include "{source}"\n' for source in SOURCES)
    version = subprocess.run([COMPILER, "--version"], capture_output=True, check=True).stdout
    read = [*SOURCES, *(header for place in (CHECKS, *folders) for header in sorted(place.rglob("*.hpp")))]
    key = hashlib.sha256(b"\0".join([version, repr(command).encode(), *(path.read_bytes() for path in read)]))
    program = folder / f"{instruction_set}-{key.hexdigest()[:16]}"
    if not program.exists():
        for old in folder.glob(f"{instruction_set}-*"):
            old.unlink()
        unfinished = folder / f"{program.name}.{os.getpid()}"
        # sanitizers preload a library that would double the time of the compiler
        alone = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        subprocess.run([*command, "-o", str(unfinished)], input=unit, text=True, check=True, env=alone)
        unfinished.rename(program)
    return program


@functools.cache
def best() -> str:
    return next(iter(built_here()))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("which", ["baseline", "best"])
def test_templates(which: str, name: str, outcomes: Callable[[str], dict[str, str]]) -> None:
    if which == "best" and best() == "baseline":
        pytest.skip("this processor has the baseline only")
    assert outcomes(best() if which == "best" else which)[name] == f"ok {name}"


def test_all_checks_have_names_of_their_own(outcomes: Callable[[str], dict[str, str]]) -> None:
    assert len(NAMES) == len(set(NAMES)) == len(outcomes(best()))
