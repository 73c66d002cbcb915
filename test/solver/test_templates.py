"""Each check of `checks/`, in C++, holds: for the baseline and for the best instruction set of this processor."""

from __future__ import annotations

import functools
import importlib
import re
import runpy
import subprocess
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import setuptools
from setuptools import Extension

from eim_ros.numerics.native import INSTRUCTION_SETS

ROOT = Path(__file__).resolve().parents[2]
CHECKS = ROOT / "test/solver/checks"
NAMES = [
    name for source in sorted(CHECKS.glob("*.cpp")) for name in re.findall(r"^CHECK\((\w+)\)", source.read_text(), re.M)
]
COMPILER = (sysconfig.get_config_var("CXX") or "g++").split()[0]


@functools.cache
def built_here() -> dict[str, Extension]:
    """The solver's modules of setup.py by instruction set, as far as this processor runs them; best first."""
    captured: dict = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        patch.setattr(setuptools, "setup", captured.update)
        runpy.run_path("setup.py")
    solvers = [module for module in captured["ext_modules"] if module.name.startswith("eim_ros.solver.")]
    modules = {module.name.rpartition("_")[2]: module for module in solvers}
    runs_here = importlib.import_module("eim_ros.solver._solver_baseline").runs_here
    return {name: modules[name] for name in INSTRUCTION_SETS if name in modules and runs_here(name)}


@functools.cache
def outcomes(instruction_set: str) -> dict[str, str]:
    """What the program says of each check, compiled with the options of the module but -O1."""
    module = built_here()[instruction_set]
    folders = ["eim_ros/solver", *module.include_dirs]
    options = [*module.extra_compile_args, "-std=c++20", "-O1", *(f"-I{ROOT / folder}" for folder in folders)]
    with tempfile.TemporaryDirectory() as folder:

        def compiled(source: Path) -> str:
            target = f"{folder}/{source.stem}.o"
            subprocess.run([COMPILER, *options, "-c", str(source), "-o", target], check=True)
            return target

        with ThreadPoolExecutor(2) as pool:
            objects = list(pool.map(compiled, sorted(CHECKS.glob("*.cpp"))))
        program = f"{folder}/checks"
        subprocess.run([COMPILER, *module.extra_link_args, *objects, "-o", program], check=True)
        result = subprocess.run([program], capture_output=True, text=True, check=False)
    lines = [line for line in result.stdout.splitlines() if line.startswith(("ok ", "FAILED "))]
    said = {re.split("[ :]", line)[1]: line for line in lines}
    assert result.returncode in (0, 1), f"{lines[-1:]} was the last before\n{result.stderr}"
    assert (result.returncode == 0) == all(line.startswith("ok ") for line in lines)
    return said


@functools.cache
def best() -> str:
    return next(iter(built_here()))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("which", ["baseline", "best"])
def test_templates(which: str, name: str) -> None:
    if which == "best" and best() == "baseline":
        pytest.skip("this processor has the baseline only")
    assert outcomes(best() if which == "best" else which)[name] == f"ok {name}"


def test_all_checks_have_names_of_their_own() -> None:
    assert len(NAMES) == len(set(NAMES)) == len(outcomes("baseline"))
