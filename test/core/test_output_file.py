"""Outputs are checked before the work: that they can be written, and that the work does not read them."""

from __future__ import annotations

from pathlib import Path

import pytest

from eim_ros.core.errors import ConfigurationError
from eim_ros.core.files import check_outputs


def check_output(path: Path) -> None:
    check_outputs({"--output": path})


def test_new_and_existing_files_are_fine(tmp_path: Path) -> None:
    check_output(tmp_path / "new")
    (tmp_path / "old").write_text("kept")
    check_output(tmp_path / "old")
    assert (tmp_path / "old").read_text() == "kept"
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


def test_missing_folder_is_created(tmp_path: Path) -> None:
    check_output(tmp_path / "a" / "b" / "file")
    assert (tmp_path / "a" / "b").is_dir()


def test_folder_and_path_below_a_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="is a folder, expected the name of a file"):
        check_output(tmp_path)
    with pytest.raises(ConfigurationError, match="cannot create folder"):
        check_output(tmp_path / "file" / "below")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="a folder in which not even root may make files")
def test_folder_without_files_is_refused_to_root_too() -> None:
    with pytest.raises(ConfigurationError, match="cannot write --output /proc/model: no file can be made in /proc"):
        check_output(Path("/proc/model"))


def test_name_that_is_too_long_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no file can be made in .*: File name too long"):
        check_output(tmp_path / ("x" * 250))


def test_device_may_be_written(tmp_path: Path) -> None:
    check_outputs({"--output": "/dev/null"}, {"--data": "/dev/null"})


@pytest.mark.parametrize("way", ["same", "other path", "symbolic link", "hard link", "linked folder"])
def test_output_that_is_an_input_is_refused(tmp_path: Path, way: str) -> None:
    source = tmp_path / "folder" / "data"
    source.parent.mkdir()
    source.write_text("kept")
    output = {
        "same": source,
        "other path": tmp_path / "folder" / ".." / "folder" / "data",
        "linked folder": tmp_path / "linked" / "data",
    }.get(way, tmp_path / "link")
    if way == "symbolic link":
        output.symlink_to(source)
    elif way == "hard link":
        output.hardlink_to(source)
    elif way == "linked folder":
        (tmp_path / "linked").symlink_to(tmp_path / "folder")
    with pytest.raises(ConfigurationError, match=r"--output .* would overwrite what --data .* reads: give another"):
        check_outputs({"--output": output}, {"--config": None, "--data": source})
    assert source.read_text() == "kept"


def test_file_of_a_folder_that_is_read_is_refused_and_one_beside_it_fine(tmp_path: Path) -> None:
    (tmp_path / "metadata.yaml").write_text("")
    with pytest.raises(ConfigurationError, match="would overwrite what BAG"):
        check_outputs({"--output": tmp_path / "metadata.yaml"}, {"BAG": tmp_path})
    check_outputs({"--output": tmp_path / "motions.npz"}, {"BAG": tmp_path})


def test_input_that_is_a_name_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check_outputs({"--output": "panda"}, {"--robot": "panda", "--data": "none.npz"})


def test_two_outputs_in_one_place_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="--output and --checkpoint are the same file"):
        check_outputs({"--output": tmp_path / "model", "--checkpoint": tmp_path / "." / "model"})
    check_outputs({"--output": tmp_path / "model", "--checkpoint": None})
