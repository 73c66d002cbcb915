"""Loading of compiled modules, which are built once for each instruction set.

The fastest variant that this processor supports is loaded. Other variants are never imported, because an illegal
instruction would end the process. The environment variable `EIM_ROS_INSTRUCTION_SET` (avx2 or baseline) selects a
variant, so that tests can run all of them. All variants compute the same bits.

There is no variant for AVX-512, because its longer vectors would sum in another order. In a test with twelve kinds of
calls, AVX-512 saved 7 % of the time in the median, and 30 % for tracing of self-motion curves.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
from collections.abc import Callable, Sequence
from types import ModuleType

from eim_ros.core.errors import NotBuiltError

INSTRUCTION_SETS = ("avx2", "baseline")  # fastest first; only the last is built for processors other than x86-64
VARIABLE = "EIM_ROS_INSTRUCTION_SET"
CURE = "build it again with `make setup`, `pip install -e .` or `colcon build`"


def load_native(name: str, wanted: Sequence[str] = ()) -> ModuleType:
    """Import module `name`_avx2 or `name`_baseline.

    `name` is the full name without the instruction set. `wanted` are attributes that the module must have.

    Raises
    ------
    NotBuiltError
        If the module was not built, or only for instruction sets that this processor does not support. Also if the
        module lacks one of the attributes, because it was built from older sources.
    ImportError
        If the environment variable names an instruction set that is unknown, unsupported, or not built.
    """
    module = _best(name)
    missing = [one for one in wanted if not hasattr(module, one)]
    if missing:
        raise NotBuiltError(
            f"the compiled module {module.__name__} is older than the Python code that uses it and lacks "
            f"{', '.join(missing)}: {CURE}",
            missing,
        )
    return module


def stale_module(error: AttributeError) -> str:
    """Return the cause and the remedy if a compiled module lacks an attribute, otherwise an empty string."""
    found = re.search(rf"\b(eim_ros[\w.]*_(?:{'|'.join(INSTRUCTION_SETS)}))\b.* has no attribute", str(error))
    return (
        f"the compiled module {found[1]} is older than the Python code that uses it ({error}): {CURE}" if found else ""
    )


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
                    raise ImportError(
                        f"{VARIABLE} is {forced!r}, but {name} was not built for it: unset {VARIABLE}"
                    ) from error
        elif forced:
            raise ImportError(f"{VARIABLE} is {forced!r}, which this processor does not support: unset {VARIABLE}")
    built = [one for one in INSTRUCTION_SETS if _is_built(f"{name}_{one}")]
    if built:
        raise NotBuiltError(
            f"the compiled module {name} was built for processors with {' or '.join(built)}, which this processor "
            "lacks: build it on this machine, or for all processors with "
            "`colcon build --cmake-args -DEIM_INSTRUCTION_SETS=all`",
            built,
        )
    raise _missing(name)


def _processor() -> Callable[[str], bool]:
    """Return the function that checks whether this processor has an instruction set."""
    name = "eim_ros.core._processor"
    try:
        runs_here: Callable[[str], bool] = importlib.import_module(name).runs_here
    except ModuleNotFoundError as error:
        raise _missing(name) from error
    return runs_here


def _is_built(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # the parent package is also missing
        return False


def _missing(name: str) -> NotBuiltError:
    return NotBuiltError(
        f"the compiled module {name} is missing for this Python: build it with `make setup`, `pip install .` or "
        "`colcon build`; all need a C++20 compiler (Debian, Ubuntu: apt install g++)",
        name,
    )
