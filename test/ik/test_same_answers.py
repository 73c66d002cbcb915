"""The same seed gives the same answer, bit for bit, on every x86 processor: about 500 answers of six samplers.

`python scripts/same_answers.py --renew` writes the expected hashes anew after a change that is meant to change answers.
"""

import json
import runpy
from pathlib import Path

from solver.instruction_sets import every_instruction_set

SCRIPT = runpy.run_path(str(Path(__file__).resolve().parents[2] / "scripts/same_answers.py"))


@every_instruction_set
def test_answers_are_the_committed_ones(instruction_set: str) -> None:
    expected = json.loads(SCRIPT["FILE"].read_text(encoding="utf-8"))
    labels = SCRIPT["differing"](SCRIPT["hashes_with"](instruction_set), expected)
    assert not labels, f"{len(labels)} of {len(expected)} answers differ: {'; '.join(labels[:10])}"
