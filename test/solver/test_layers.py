"""Headers of the solver include only headers of lower folders. `binding.cpp` lists the folders in order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

SOLVER = Path(__file__).resolve().parents[2] / "eim_ros/solver"
LISTED = re.findall(r"^//   (\w+) ", (SOLVER / "binding.cpp").read_text(encoding="utf-8"), re.MULTILINE)
HEADERS = sorted(SOLVER.glob("*/*.hpp"))


def test_binding_lists_every_folder():
    assert sorted(LISTED) == sorted({header.parent.name for header in HEADERS})


@pytest.mark.parametrize("header", HEADERS, ids=lambda header: str(header.relative_to(SOLVER)))
def test_header_includes_lower_folders_only(header):
    included = re.findall(r'^#include "(.*)"$', header.read_text(encoding="utf-8"), re.MULTILINE)
    assert all((SOLVER / name).is_file() for name in included)
    level = LISTED.index(header.parent.name)
    too_high = [name for name in included if LISTED.index(name.split("/")[0]) > level]
    assert not too_high
