"""The table "Where do I change ...?" of CONTRIBUTING.md leads to files of the tree."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TABLE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Where do I change ...?")[2]
ROWS = dict(re.findall(r"^\| (an? .*?) \| (.*?) \|$", TABLE.partition("\n## ")[0], re.MULTILINE))


def test_table_names_the_usual_additions():
    assert len(ROWS) >= 10


@pytest.mark.parametrize("addition", ROWS)
def test_addition_leads_to_existing_files(addition):
    paths = re.findall(r"`([^`\s]*/[^`\s]*|\w+\.py)`", ROWS[addition])
    assert paths
    for path in paths:
        known = ROOT / path.partition("<new>")[0]  # the folder of a new file
        assert known.exists(), path
