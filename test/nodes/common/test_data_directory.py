"""Rules for paths that come over ROS determine which paths are accepted, opened and replaced."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from eim_ros.core.data_set import DataSet, save_data_set
from eim_ros.core.errors import PathError
from eim_ros.nodes.common.data_directory import DataDirectory
from eim_ros.nodes.settings import DataDirectorySettings

DATA_SET = "a data set (.npz)"


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    """Create a data directory below a link.

    It contains links inward and outward. The name of the neighbouring directory begins with the name of this directory.
    """
    (tmp_path / "real/data/sub").mkdir(parents=True)
    (tmp_path / "real/data_of_others").mkdir()
    (tmp_path / "here").symlink_to("real")
    root = tmp_path / "here/data"
    (root / "inward").symlink_to("sub")
    for name, target in (("outward", "../data_of_others"), ("loop", "loop"), ("endless", "/dev/zero")):
        (root / name).symlink_to(target)
    (root / "file").write_bytes(b"12345678")
    (tmp_path / "real/data_of_others/file").touch()
    return DataDirectory(root, max_file_size=8)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("file", "file"),
        ("sub/new", "sub/new"),
        ("sub/../file", "file"),
        ("./sub//new", "sub/new"),
        ("inward/new", "sub/new"),
        ("{root}/file", "file"),
        ("{real}/file", "file"),
        ("sub/~/x", "sub/~/x"),
    ],
)
def test_path_inside_is_resolved_without_links(data: DataDirectory, name: str, meant: str) -> None:
    real = data.path.resolve()
    assert data.resolve(name.format(root=data.path, real=real)) == real / meant


@pytest.mark.parametrize(
    "name",
    [
        "../data_of_others/{}",
        "sub/../../data_of_others/{}",
        "../data/{}",  # leads back into the directory, but would reveal names of folders above it
        "outward/{}",
        "{{root}}/../data_of_others/{}",
        "{{root}}_of_others/{}",
        "/dev/{}",
        "//dev/{}",
        "~/{}",
        "~root/{}",
        "endless/{}",
        "sub\0/{}",
        "sub/\n[INFO] {}",
        "\udcff/../../{}",
    ],
)
def test_path_that_leads_out_is_refused_alike_whether_or_not_it_exists(data: DataDirectory, name: str) -> None:
    told = set()
    for last in ("file", "zero", "none"):
        given = name.format(last).format(root=data.path)
        with pytest.raises(PathError, match=r"refused: .*\(parameter data_directory\)") as refusal:
            data.resolve(given)
        told.add(str(refusal.value).replace(last, "*"))
    assert len(told) == 1


def test_no_combination_of_parts_leads_out(data: DataDirectory) -> None:
    rng, parts = np.random.default_rng(0), ["..", "sub", "inward", "outward", "loop", "file", "~", ".", "data", "new"]
    accepted = 0
    for _ in range(3000):
        name = "/".join(rng.choice(parts, rng.integers(1, 7)))
        try:
            path = data.resolve(name)
        except PathError:
            continue
        accepted += 1
        assert os.path.realpath(path) == str(path)
        assert path.is_relative_to(os.path.realpath(data.path))
    assert accepted > 300


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("none", "No such file"),
        ("sub", "not a regular file"),
        ("", "not a regular file"),
        ("pipe", "not a regular file"),
        ("loop", "not a regular file"),
        ("file/below", "Not a directory"),
        ("large", "has 9 bytes, expected at most 8 .parameter max_file_size"),
        ("n" * 300, "name too long"),
    ],
)
def test_only_regular_files_within_the_limit_are_read(data: DataDirectory, name: str, reason: str) -> None:
    os.mkfifo(data.path / "pipe")  # an ordinary open would block
    (data.path / "large").write_bytes(b"123456789")
    with pytest.raises(PathError, match=f"(?s)cannot read .*{reason}"):
        data.readable(name)
    assert data.readable("file").read_bytes() == b"12345678"


def test_link_that_replaces_a_checked_file_is_not_followed(data: DataDirectory) -> None:
    path = data.resolve("file")
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(PathError, match="not a regular file"):
        data.check_file(path)


def test_only_a_file_of_the_same_kind_is_replaced_and_only_on_request(data: DataDirectory) -> None:
    ours = data.path / "ours.npz"
    save_data_set(ours, DataSet(np.zeros((1, 1)), np.zeros((1, 1))))
    (data.path / "foreign.npz").write_bytes(b"PK\3\4 and then something else")
    assert data.check_replaceable(data.path / "new", (DATA_SET,), False) == data.path / "new"
    assert data.check_replaceable(ours, (DATA_SET,), True) == ours
    for name, kinds, overwrite, reason in (
        ("ours.npz", (DATA_SET,), False, "exists: .*overwrite"),
        ("ours.npz", ("a bag",), True, "not replaced, because it is a data set .*, not a bag"),
        ("foreign.npz", (DATA_SET,), True, "not replaced, because it is of an unknown format"),
        ("file", (DATA_SET,), True, "not replaced, because it is of an unknown format"),
        ("sub", (DATA_SET,), True, "not a regular file"),
        ("loop", (DATA_SET,), True, "not a regular file"),
    ):
        with pytest.raises(PathError, match=reason):
            data.check_replaceable(data.path / name, kinds, overwrite)


def test_directory_is_below_the_home_of_ros_unless_it_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("ROS_HOME", raising=False)
    assert DataDirectorySettings().data.path == tmp_path / ".ros/eim_ros"
    monkeypatch.setenv("ROS_HOME", str(tmp_path / "ros"))
    data = DataDirectorySettings().data
    assert data.path == tmp_path / "ros/eim_ros"
    assert DataDirectorySettings(data_directory="~/mine").data.path == tmp_path / "mine"
    assert [data.chosen(path) for path in ("models", "~/models", "/models")] == [
        data.path / "models",
        tmp_path / "models",
        Path("/models"),
    ]
    assert not data.path.exists()  # the folder is created when something is written
