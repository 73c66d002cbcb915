"""Files are written completely or not at all. Damage is detected, output paths are checked early, JSON is strict."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import stat
import threading
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from eim_ros.core.data_set import DataSet, load_data_set, save_data_set
from eim_ros.core.errors import ConfigurationError, EimError
from eim_ros.core.files import (
    BLANK,
    check_outputs,
    checksum_problem,
    described_format,
    finite,
    sealed,
    to_json,
    write_atomically,
    write_tensor_file,
)
from eim_ros.ik.prior import model_path
from eim_ros.learning import History
from eim_ros.learning.models import load_parameters
from eim_ros.learning.run import Checkpoint

MARK = b"sum: "
FILES = ("model", "data set", "checkpoint")
HALF = 400  # offset of the damage [byte]
DAMAGES = {
    "zeros": lambda content: content[:HALF] + bytes(50) + content[HALF + 50 :],
    "cut": lambda content: content[: len(content) // 2],
    "last byte cut": lambda content: content[:-1],
    "appended": lambda content: content + b"\0",
    "moved": lambda content: content[:HALF] + content[HALF + 50 :] + content[HALF : HALF + 50],
    "missing": lambda content: content[:HALF] + content[HALF + 50 :],
}


def test_content_is_written_and_replaced(tmp_path):
    path = tmp_path / "file"
    write_atomically(path, b"old")
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"


def test_missing_folder_is_created(tmp_path):
    path = tmp_path / "a" / "b" / "file"
    write_atomically(path, b"x")
    assert path.read_bytes() == b"x"


@pytest.mark.parametrize("step", ["fsync", "replace", "chmod"])
@pytest.mark.parametrize("interruption", [KeyboardInterrupt, OSError])
def test_interrupted_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, step, interruption):
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def interrupt(*_args):
        raise interruption

    monkeypatch.setattr(os, step, interrupt)
    with pytest.raises(interruption):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_permissions_follow_the_umask(tmp_path, mask, mode):
    previous = os.umask(mask)
    try:
        write_atomically(tmp_path / "file", b"x")
        assert os.umask(mask) == mask  # the umask is unchanged
    finally:
        os.umask(previous)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == mode


def test_permissions_of_an_existing_file_are_kept(tmp_path):
    path = tmp_path / "file"
    write_atomically(path, b"old")
    path.chmod(0o640)
    write_atomically(path, b"new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_link_stays_a_link_and_its_target_is_written(tmp_path):
    target, link = tmp_path / "models" / "target", tmp_path / "latest"
    write_atomically(target, b"old")
    link.symlink_to(target)
    write_atomically(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_data_reach_the_disk_before_the_name_changes(tmp_path, monkeypatch):
    calls = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (calls.append("fsync"), fsync(handle)))
    monkeypatch.setattr(os, "replace", lambda *names: (calls.append("replace"), replace(*names)))
    write_atomically(tmp_path / "file", b"x")
    assert calls == ["fsync", "replace", "fsync"]  # the last call stores the directory entry


def test_pipe_is_written_to_and_not_replaced(tmp_path):
    """If root writes to /dev/null, renaming a file to that name would destroy the device."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    received = []
    reader = threading.Thread(target=lambda: received.append(path.read_bytes()))
    reader.start()
    write_atomically(path, b"x")
    reader.join()
    assert received == [b"x"]
    assert stat.S_ISFIFO(path.stat().st_mode)
    assert os.listdir(tmp_path) == ["pipe"]


def whole_file(kind, path):
    """Write a valid file of a kind, and return the function that reads such files."""
    if kind == "model":
        path.write_bytes(model_path("panda_position").read_bytes())
        return load_parameters
    if kind == "data set":
        rng = np.random.default_rng(0)
        save_data_set(path, DataSet(rng.normal(size=(300, 3)), rng.normal(size=(300, 7)), {"robot": {"name": "x"}}))
        return load_data_set
    tensors = {"model.weights": torch.randn(40, 7, generator=torch.Generator().manual_seed(0)), "n": torch.tensor(3)}
    Checkpoint(path, identity="settings").save(tensors, History(({"elbo": 1.0},) * 5), 5)
    return lambda file: Checkpoint(file, identity="settings").load()


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("damage", DAMAGES)
def test_no_damaged_file_is_read(tmp_path, kind, damage):
    path = tmp_path / "file"
    read = whole_file(kind, path)
    read(path)
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    with pytest.raises(EimError, match=str(path)):
        read(path)


@pytest.mark.parametrize("kind", FILES)
def test_each_bit_counts(tmp_path, kind):
    """A changed bit is detected even in spaces of a header, dates of an archive, and the checksum itself."""
    path = tmp_path / "file"
    read = whole_file(kind, path)
    content = bytearray(path.read_bytes())
    for place in range(0, len(content), max(1, len(content) // 97)):
        content[place] ^= 1 << place % 8
        path.write_bytes(content)
        with pytest.raises(EimError):
            read(path)
        content[place] ^= 1 << place % 8
    path.write_bytes(content)
    read(path)


def test_digest_is_of_the_file_with_zeros_in_its_place():
    content = b"begin " + MARK + BLANK.encode() + b" end"
    whole = sealed(content, MARK)
    assert whole == b"begin " + MARK + hashlib.sha256(content).hexdigest().encode() + b" end"
    assert checksum_problem(whole, MARK) == ""


def test_file_without_a_checksum_is_told_from_a_damaged_one():
    whole = sealed(MARK + BLANK.encode() + b"content", MARK)
    assert checksum_problem(b"content", MARK).startswith("has no checksum")
    assert checksum_problem(whole + b" ", MARK).startswith("is damaged")
    assert checksum_problem(whole.upper(), MARK.upper()).startswith("has no checksum")  # digits must be lower-case


def test_checksum_of_another_file_may_be_quoted():
    quoted = sealed(MARK + BLANK.encode() + b"inner", MARK)
    for content in (quoted + MARK + BLANK.encode(), MARK + BLANK.encode() + quoted):
        assert checksum_problem(sealed(content, MARK), MARK) == ""


def data_set(path):
    save_data_set(path, DataSet(np.zeros((2, 1)), np.zeros((2, 1))))


def model(path):
    write_tensor_file(path, {"x": torch.zeros(2)}, {}, kind="mixture_of_experts", schema=1)


def stranger(path):
    safetensors.torch.save_file({"x": torch.zeros(2)}, path)


def arrays(path):
    with path.open("wb") as file:
        np.savez(file, x=np.zeros(2))


@pytest.mark.parametrize(
    ("write", "described"),
    [
        (data_set, "a data set (.npz)"),
        (model, "the file of a mixture of experts (.safetensors)"),
        (stranger, ""),
        (arrays, ""),
        (lambda path: torch.save({}, path), ""),
        (lambda path: path.write_bytes(pickle.dumps([1])), ""),
        (lambda path: path.write_text("a,b\n1,2\n"), ""),
        (lambda path: path.write_bytes(b""), ""),
    ],
)
def test_files_of_this_package_are_described(tmp_path, write, described):
    write(tmp_path / "file")
    assert described_format((tmp_path / "file").read_bytes()) == described


@pytest.mark.parametrize("write", [data_set, model])
def test_any_beginning_of_a_file_is_described_or_unknown(tmp_path, write):
    """The description of a truncated file never raises an exception."""
    write(tmp_path / "file")
    content = (tmp_path / "file").read_bytes()
    found = {described_format(content[:length]) for length in range(len(content))}
    assert found <= {"", described_format(content)}


def test_new_and_existing_outputs_are_fine(tmp_path: Path) -> None:
    check_outputs({"--output": tmp_path / "new"})
    (tmp_path / "old").write_text("kept")
    check_outputs({"--output": tmp_path / "old"})
    assert (tmp_path / "old").read_text() == "kept"
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


def test_missing_folder_of_an_output_is_created(tmp_path: Path) -> None:
    check_outputs({"--output": tmp_path / "a" / "b" / "file"})
    assert (tmp_path / "a" / "b").is_dir()


def test_folder_and_path_below_a_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="is a folder, expected the name of a file"):
        check_outputs({"--output": tmp_path})
    with pytest.raises(ConfigurationError, match="cannot create folder"):
        check_outputs({"--output": tmp_path / "file" / "below"})


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="a folder in which not even root may make files")
def test_folder_without_files_is_refused_to_root_too() -> None:
    with pytest.raises(ConfigurationError, match="cannot write --output /proc/model: no file can be created in /proc"):
        check_outputs({"--output": Path("/proc/model")})


def test_name_that_is_too_long_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no file can be created in .*: File name too long"):
        check_outputs({"--output": tmp_path / ("x" * 250)})


def test_device_may_be_an_output(tmp_path: Path) -> None:
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


def refuse(constant):
    raise ValueError(f"{constant} is no JSON")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (float("nan"), "null"),
        ({"a": [1, (2.5, float("inf"))]}, '{"a": [1, [2.5, null]]}'),
        (np.float64("-inf"), "null"),
        (np.float32(0.5), "0.5"),
        (np.array([[1.0, np.nan]]), "[[1.0, null]]"),
        ({"n": np.int64(3), "is": np.bool_(True), "rows": np.arange(2)}, '{"n": 3, "is": true, "rows": [0, 1]}'),
        (["x", None, True], '["x", null, true]'),
    ],
)
def test_what_json_does_not_know_is_null(value, text):
    assert to_json(value) == text
    assert json.loads(text, parse_constant=refuse) == finite(value)


def test_what_is_no_value_is_refused():
    with pytest.raises(TypeError):
        to_json({"a": object()})


def test_keys_are_sorted_on_request():
    assert to_json({"b": 1, "a": float("nan")}, sort_keys=True) == '{"a": null, "b": 1}'
