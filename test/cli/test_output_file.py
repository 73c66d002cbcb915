"""Outputs are checked before the work."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from eim_ros.cli.output_file import check_output
from eim_ros.errors import ConfigurationError


def test_new_and_existing_files_are_fine(tmp_path: Path) -> None:
    check_output(tmp_path / "new")
    (tmp_path / "old").write_text("kept")
    check_output(tmp_path / "old")
    assert (tmp_path / "old").read_text() == "kept"
    assert not (tmp_path / "new").exists()


def test_missing_folder_is_created(tmp_path: Path) -> None:
    check_output(tmp_path / "a" / "b" / "file")
    assert (tmp_path / "a" / "b").is_dir()


def test_folder_and_path_below_a_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="is a folder, expected the name of a file"):
        check_output(tmp_path)
    with pytest.raises(ConfigurationError, match="cannot create folder"):
        check_output(tmp_path / "file" / "below")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folder_without_permission_is_refused(tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    with pytest.raises(ConfigurationError, match="no permission"):
        check_output(tmp_path / "locked" / "file")


def test_folder_without_permission_is_refused_to_everyone_but_root(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(ConfigurationError, match="no permission in"):
        check_output(tmp_path / "file")
