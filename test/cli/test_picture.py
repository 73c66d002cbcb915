"""`eim picture`: the picture of any arm's solutions, written whole, in the form that its name tells."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eim_ros.cli.main import main

POSE = ["--pose", "0.4", "0.1", "0.5", "1", "0", "0", "0"]


@pytest.mark.parametrize(("name", "start"), [("arm.png", b"\x89PNG"), ("arm.svg", b"<?xml")])
def test_picture_has_the_form_of_its_name(
    name: str, start: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / name
    assert main(["picture", "--robot", "panda", *POSE, "-n", "20", "--json", "--output", str(picture)]) == 0
    assert picture.read_bytes().startswith(start)
    told = json.loads(capsys.readouterr().out)
    assert told["n"] == 20
    assert told["picture"] == str(picture)


def test_nothing_found_draws_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "arm.png"
    assert main(["picture", "--robot", "panda", "--pose", "3", "0", "0", "--output", str(picture)]) == 1
    assert not picture.exists()
    assert "NO_IK_SOLUTION" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "words"), [("arm.jpg", "ends in .png or .svg"), ("", "is a folder")])
def test_a_name_that_cannot_be_is_refused_first(
    name: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / name if name else tmp_path / "folder.png"
    if not name:
        output.mkdir()
    assert main(["picture", "--robot", "panda", *POSE, "--output", str(output)]) == 2
    assert words in capsys.readouterr().err
