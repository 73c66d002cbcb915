"""A seed gives the same answer, bit for bit, on every x86 processor. About 500 answers of six samplers are checked.

`python scripts/same_answers.py --renew` rewrites the expected hashes after an intended change of answers.
"""

import json
import re
import runpy
from pathlib import Path

from solver.instruction_sets import every_instruction_set

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = runpy.run_path(str(ROOT / "scripts/same_answers.py"))


@every_instruction_set
def test_answers_are_the_committed_ones(instruction_set: str) -> None:
    expected = json.loads(SCRIPT["FILE"].read_text(encoding="utf-8"))
    labels = SCRIPT["differing"](SCRIPT["hashes_with"](instruction_set), expected)
    assert not labels, f"{len(labels)} of {len(expected)} answers differ: {'; '.join(labels[:10])}"


def test_compiled_code_calls_no_function_of_the_c_library_that_may_differ() -> None:
    inexact = re.compile(
        r"std::(sin|cos|tan|asin|acos|atan2?|exp2?|expm1|log2?|log10|log1p|pow|hypot|cbrt|sinh|cosh|tanh)\("
    )
    files = [file for folder in ("eim_ros", "moveit_plugin") for file in (ROOT / folder).rglob("*.hpp")]
    assert files
    found = [
        f"{file.name}: {match[0]}" for file in files for match in inexact.finditer(file.read_text(encoding="utf-8"))
    ]
    assert not found
