"""`eim map`: a map, its picture and its figures; what cannot be done is told before the work."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eim_ros.cli.main import main
from eim_ros.ik import CapabilityMap

SMALL = ["--robot", "panda", "--spacing", "0.3", "--box", "0.2", "-0.3", "0.1", "0.8", "0.3", "0.7"]
FEW = ["--approaches", "4", "--rolls", "1", "--seeds", "16", "--quiet"]


def test_map_and_picture_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, picture = tmp_path / "map.npz", tmp_path / "map.png"
    assert main(["map", *SMALL, *FEW, "--output", str(path), "--picture", str(picture), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    found = CapabilityMap.load(path)
    assert told["poses"] == found.n_components.size == 32
    assert told["reached"] == pytest.approx((found.n_components > 0).mean(), abs=1e-4)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_output_that_cannot_be_written_is_told_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["map", *SMALL, *FEW, "--output", str(tmp_path / "file" / "map.npz")]) != 0
    assert "cannot write --output" in capsys.readouterr().err


def test_jobs_and_scheduler_exclude_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = [*SMALL, *FEW, "--jobs", "2", "--scheduler", "tcp://127.0.0.1:1", "--output", str(tmp_path / "map.npz")]
    assert main(["map", *asked]) != 0
    assert "give one of them" in capsys.readouterr().err
