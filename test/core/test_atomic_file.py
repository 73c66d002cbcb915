"""Atomic files: a reader sees the old file or the new one, never a part, never a left-over."""

import os
import stat
import threading

import pytest

from eim_ros.core.files import write_atomically


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
        assert os.umask(mask) == mask  # left as it was
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
    assert calls == ["fsync", "replace", "fsync"]  # the last one is the folder's entry


def test_pipe_is_written_to_and_not_replaced(tmp_path):
    """Renaming a file over it would, for root, destroy /dev/null."""
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
