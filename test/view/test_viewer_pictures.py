"""Pictures of the viewer show its current labels, which use words of the glossary.

If a test fails, run `python -m scripts.viewer_pictures` to take the pictures again.
"""

import re
from pathlib import Path

import pytest
from PIL import Image

from scripts.viewer_pictures import DRAWINGS, KEY, PICTURES, SOURCES, labels

ROOT = Path(__file__).resolve().parents[2]
DEFINED = set(re.findall(r"^- \*\*([^*]+)\*\*", (ROOT / "docs/glossary.md").read_text(encoding="utf-8"), re.MULTILINE))
LABELS = set().union(*map(labels, SOURCES))
NEEDED = {"Component", "Self-motion", "Solution", "Manipulability", "Branch", "Expert"}  # words in the panel
RETIRED = ("famil", "ghost", "winding", "whole", "held ")
OPEN = {
    "viewer": {"Component", "Self-motion"},
    "viewer_motions": {"Which", "Time", "Play", "Draw others"},
}  # labels in the first tab of each page
TABS = {"Solutions", "Target", "Scene", "View", "Copy"}


def words_of(name):
    return Image.open(PICTURES / f"{name}.png").text[KEY]


def test_words_of_the_panel_are_in_the_glossary():
    assert NEEDED <= DEFINED
    assert {"Component", "Self-motion", "Solutions"} <= LABELS
    assert [label for label in LABELS for word in RETIRED if word in label.lower()] == []


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_picture_has_the_present_labels_and_no_retired_word(name):
    lines, text = set(words_of(name).splitlines()), words_of(name).lower()
    assert OPEN[name] | TABS <= LABELS & lines
    assert [word for word in RETIRED if word in text] == []
    assert f"pictures/{name}.png" in (ROOT / "docs/how_to/view.md").read_text(encoding="utf-8")
