"""Run programs with each instruction set that the processor supports and that the solver is compiled for."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest

from eim_ros.core._processor import runs_here
from eim_ros.core.native import INSTRUCTION_SETS, VARIABLE

__all__ = ["every_instruction_set", "run_with"]


def can_be_tested(instruction_set: str) -> bool:
    is_built = importlib.util.find_spec(f"eim_ros.solver._solver_{instruction_set}") is not None
    return is_built and runs_here(instruction_set)


every_instruction_set = pytest.mark.parametrize(
    "instruction_set",
    [
        pytest.param(
            name,
            marks=pytest.mark.skipif(not can_be_tested(name), reason="this processor lacks it, or has a better one"),
        )
        for name in INSTRUCTION_SETS
    ],
)


def run_with(instruction_set: str, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a Python program in a separate process that uses this instruction set."""
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, VARIABLE: instruction_set, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
