"""Compiled modules, one for each instruction set that was built: the best that this processor has is loaded.

A module for an instruction set that the processor lacks is never imported: that would end the process.

`EIM_ROS_INSTRUCTION_SET` (avx512, avx2 or baseline) forces one, so that tests can run each.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
from collections.abc import Callable, Sequence
from types import ModuleType

from eim_ros.core.errors import NotBuiltError

INSTRUCTION_SETS = ("avx512", "avx2", "baseline")  # best first; on other processors than x86-64 only the last is built
VARIABLE = "EIM_ROS_INSTRUCTION_SET"
CURE = "build it anew with `make setup`, `pip install -e .` or `colcon build`"


def load_native(name: str, wanted: Sequence[str] = ()) -> ModuleType:
    """Module `name`_avx512, `name`_avx2 or `name`_baseline.

    Parameters
    ----------
    name : str
    wanted : sequence of str
        What it has to offer.

    Raises
    ------
    NotBuiltError
        If it was not built, or only for instruction sets that this processor lacks, or is of older sources that do not
        offer what is wanted.
    ImportError
        If the environment variable names none that can run here.
    """
    module = _best(name)
    missing = [one for one in wanted if not hasattr(module, one)]
    if missing:
        raise NotBuiltError(
            f"the compiled module {module.__name__} is older than the Python that uses it, it lacks "
            f"{', '.join(missing)}: {CURE}",
            missing,
        )
    return module


def stale_module(error: AttributeError) -> str:
    """What is wrong and the cure, where what is missing is a part of a compiled module; empty for all else."""
    found = re.search(rf"\b(eim_ros[\w.]*_(?:{'|'.join(INSTRUCTION_SETS)}))\b.* has no attribute", str(error))
    return f"the compiled module {found[1]} is older than the Python that uses it ({error}): {CURE}" if found else ""


def _best(name: str) -> ModuleType:
    forced = os.environ.get(VARIABLE, "")
    if forced and forced not in INSTRUCTION_SETS:
        raise ImportError(f"{VARIABLE} is {forced!r}, expected one of {', '.join(INSTRUCTION_SETS)}")
    runs_here = _processor()
    for instruction_set in [forced] if forced else INSTRUCTION_SETS:
        if runs_here(instruction_set):
            try:
                return importlib.import_module(f"{name}_{instruction_set}")
            except ModuleNotFoundError as error:
                if forced:
                    raise ImportError(f"{VARIABLE} is {forced!r}, for which {name} was not built") from error
        elif forced:
            raise ImportError(f"{VARIABLE} is {forced!r}, which this processor does not have")
    built = [one for one in INSTRUCTION_SETS if _is_built(f"{name}_{one}")]
    if built:
        raise NotBuiltError(
            f"the compiled module {name} was built for processors with {' or '.join(built)}, which this one does not "
            "have: build it on this machine, or for all processors with "
            "`colcon build --cmake-args -DEIM_INSTRUCTION_SETS=all`",
            built,
        )
    raise _missing(name)


def _processor() -> Callable[[str], bool]:
    """Whether this processor has an instruction set, as a function."""
    name = "eim_ros.core._processor"
    try:
        runs_here: Callable[[str], bool] = importlib.import_module(name).runs_here
    except ModuleNotFoundError as error:
        raise _missing(name) from error
    return runs_here


def _is_built(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # not even the package that it is in
        return False


def _missing(name: str) -> NotBuiltError:
    return NotBuiltError(
        f"the compiled module {name} is missing for this Python: build it with `make setup`, `pip install .` or "
        "`colcon build`; all need a C++20 compiler (Debian, Ubuntu: apt install g++)",
        name,
    )
