"""`colcon build` compiles the solver for this machine. Packages for other machines have all instruction sets."""

from __future__ import annotations

import os
import platform
import re
import runpy
import subprocess
from pathlib import Path

import pytest
import setuptools

from eim_ros.core._processor import runs_here
from eim_ros.core.native import INSTRUCTION_SETS

ROOT = Path(__file__).resolve().parents[2]
PROJECT = f"""
cmake_minimum_required(VERSION 3.20)
project(eim_ros LANGUAGES CXX)
include({ROOT}/cmake/instruction_sets.cmake)
"""
PACKAGING = ("DEB_HOST_ARCH", "RPM_BUILD_ROOT", "CONDA_BUILD")
IS_X86 = platform.machine().lower() in ("x86_64", "amd64")
ALL = [name for name in reversed(INSTRUCTION_SETS) if IS_X86 or name == "baseline"]
BEST = next(name for name in INSTRUCTION_SETS if runs_here(name))


def configure(folder: Path, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    (folder / "CMakeLists.txt").write_text(PROJECT, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name not in PACKAGING}
    command = ["cmake", "-S", folder, "-B", folder / "build", *options]
    return subprocess.run(command, env=environment | variables, capture_output=True, text=True, check=False)


def compiled_for(folder: Path, *options: str, **variables: str) -> list[str]:
    process = configure(folder, *options, **variables)
    assert process.returncode == 0, process.stderr
    found = re.search(r"^-- Solver: compiled for (.*)$", process.stdout, re.MULTILINE)
    assert found
    return found[1].split(";")


def test_default_is_the_best_of_this_machine_alone(tmp_path):
    assert compiled_for(tmp_path) == [BEST]


def test_an_option_compiles_all_for_packages(tmp_path):
    assert compiled_for(tmp_path, "-DEIM_INSTRUCTION_SETS=all") == ALL


def test_an_option_compiles_those_that_it_names(tmp_path):
    assert compiled_for(tmp_path, f"-DEIM_INSTRUCTION_SETS={ALL[-1]};baseline") == [ALL[-1], "baseline"]


@pytest.mark.parametrize("variable", PACKAGING)
def test_builds_of_packages_compile_all_without_being_asked(tmp_path, variable):
    """bloom uses debhelper or rpmbuild, and a user cannot add an option to their call of CMake."""
    assert compiled_for(tmp_path, **{variable: "1"}) == ALL


def test_an_unknown_instruction_set_is_refused_and_the_known_ones_named(tmp_path):
    process = configure(tmp_path, "-DEIM_INSTRUCTION_SETS=avx1024")
    assert process.returncode != 0
    said = " ".join(process.stderr.split())
    assert f"EIM_INSTRUCTION_SETS is 'avx1024', expected native, all, or a list of {', '.join(ALL)}" in said


def test_flags_are_those_of_setup(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(setuptools, "setup", lambda **_: None)
    flags = runpy.run_path("setup.py")["INSTRUCTION_SETS"]
    script = (ROOT / "cmake/solver.cmake").read_text(encoding="utf-8")
    found = dict(re.findall(r'^set\(options_(\w+) (?:""|(.*))\)$', script, re.MULTILINE))
    assert {name: found[name].split() for name in flags} == flags
