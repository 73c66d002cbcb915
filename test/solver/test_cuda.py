"""The headers of the closed forms include only headers that compile for GPUs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.check_cuda import KERNELS, REPLACED, ROOT, compiled

SOLVER = ROOT / "eim_ros/solver"
INCLUDE = re.compile(r'^#include [<"](.*)[>"]$', re.MULTILINE)


def included(path: Path, known: set[Path]) -> set[str]:
    """Return the names of all headers of other libraries that a file includes, directly or indirectly."""
    text = re.sub(r"^#if defined\(__x86_64__\)\n.*?^#endif$", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    names: set[str] = set()
    for name in INCLUDE.findall(text):
        own = SOLVER / (REPLACED[name] if REPLACED.get(name, "").startswith("numerics") else name)
        if not own.exists():
            names.add(name)
        elif own not in known:
            known.add(own)
            names |= included(own, known)
    return names


def test_every_standard_header_of_the_closed_forms_is_replaced():
    known: set[Path] = set()
    assert included(KERNELS, known) <= set(REPLACED)
    assert SOLVER / "closed_form/subproblem.hpp" in known


def test_closed_forms_compile_for_a_gpu_and_a_missing_header_is_named():
    pytest.importorskip("cuda.core", reason="`make cuda` installs the compiler, and CI runs it")
    assert compiled(KERNELS.read_text(encoding="utf-8"), "sm_90")[:4] == b"\x7fELF"
    with pytest.raises(Exception, match="unordered_map"):
        compiled("#include <unordered_map>", "sm_90")
