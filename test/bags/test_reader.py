"""Bags are read even without their metadata.yaml, and decompressed if necessary."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from bags.example_bags import ITEMS_OF_A_ROBOT, data_file, joint_state, write_standard
from rosbags.rosbag2 import CompressionMode, Reader, StoragePlugin

from eim_ros.bags.reader import open_bag, recover_bag
from eim_ros.core.errors import DataError

TOPICS = ("/joint_states", "/pose", "/goal", "/demo_recorder/segment")
STORAGES = (StoragePlugin.MCAP, StoragePlugin.SQLITE3)


def content(path: Path) -> tuple[list[tuple[str, int]], list[str]]:
    """Return topic and time of each message, and the notes."""
    with open_bag(path) as bag:
        messages = [(topic, time) for topic, time, _ in bag.messages(TOPICS)]
        assert not bag.n_undecoded
        return messages, bag.notes


ALL = sorted(((topic, time) for topic, _, time, _ in ITEMS_OF_A_ROBOT), key=lambda message: message[1])


def is_complete(path: Path) -> bool:
    return sorted(content(path)[0]) == sorted(ALL)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("mode", [CompressionMode.FILE, CompressionMode.MESSAGE])
def test_compressed_bag_is_read_with_and_without_metadata(
    tmp_path: Path, storage: StoragePlugin, mode: CompressionMode
) -> None:
    folder = write_standard(tmp_path / "bag", ITEMS_OF_A_ROBOT, storage, mode)
    assert is_complete(folder)
    (folder / "metadata.yaml").unlink()
    assert is_complete(folder)
    assert content(folder)[1] == ["metadata.yaml is missing, so each file of the bag was read separately"]
    (file,) = folder.iterdir()
    assert (file.suffix == ".zstd") == (mode == CompressionMode.FILE)
    assert is_complete(file)


def without_identifier(text: str) -> str:
    return text.replace("storage_identifier: mcap", "storage_identifier: ''")


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (without_identifier, "Storage plugin '' not supported"),  # written by ros2 bag reindex of Humble
        (lambda text: text.replace("bag.mcap", "other.mcap"), "other.mcap"),  # the files were renamed
        (lambda text: text.replace("version: 9", "version: 99"), "version 99 not supported"),
        (lambda text: text[: len(text) // 2], "metadata"),  # the recorder was killed while it wrote the metadata
        (lambda text: "", "metadata"),
    ],
)
def test_files_are_read_if_the_metadata_cannot_be_used(
    tmp_path: Path, damage: Callable[[str], str], reason: str
) -> None:
    folder = write_standard(tmp_path / "bag", ITEMS_OF_A_ROBOT)
    metadata = folder / "metadata.yaml"
    damaged = damage(metadata.read_text())
    assert damaged != metadata.read_text()
    metadata.write_text(damaged)
    assert is_complete(folder)
    (note,) = content(folder)[1]
    assert note.startswith("metadata.yaml cannot be used (")
    assert reason in note
    assert metadata.read_text() == damaged
    assert recover_bag(folder) == [f"wrote {metadata}"]
    assert content(folder) == (content(folder)[0], [])
    with Reader(folder) as reader:
        assert reader.message_count == len(ALL)


def test_metadata_without_files_is_refused_with_its_problem(tmp_path: Path) -> None:
    folder = write_standard(tmp_path / "bag", ITEMS_OF_A_ROBOT)
    data_file(folder).unlink()
    with pytest.raises(DataError, match="database files are missing"):
        content(folder)


def parts(folder: Path) -> list[Path]:
    """Return the four files of a bag whose recorder limits the size of a file."""
    files = []
    for number in range(4):
        items = [joint_state(10.0 * number + 0.01 * i, ["j1"], [0.0]) for i in range(50)]
        files.append(data_file(write_standard(folder.parent / f"part{number}", items, StoragePlugin.SQLITE3)))
    folder.mkdir()
    return [Path(shutil.move(file, folder / f"bag_{number}.db3")) for number, file in enumerate(files)]


def test_recorder_that_is_killed_while_it_compresses_leaves_a_readable_bag(tmp_path: Path) -> None:
    """The first two files are compressed, the third file is partly compressed, and the last file is not compressed."""
    folder = tmp_path / "bag"
    for number, file in enumerate(parts(folder)[:3]):
        packed = zstandard.ZstdCompressor().compress(file.read_bytes())
        file.with_name(f"{file.name}.zstd").write_bytes(packed if number < 2 else packed[: len(packed) // 2])
        if number < 2:
            file.unlink()
    messages, _ = content(folder)
    assert len(messages) == 200
    assert messages == sorted(messages, key=lambda message: message[1])


def test_part_of_a_cut_off_compressed_file_is_recovered(tmp_path: Path) -> None:
    items = [joint_state(0.01 * i, ["j1"], [0.01 * i]) for i in range(50_000)]
    folder = write_standard(tmp_path / "bag", items, compression=CompressionMode.FILE)
    (file,) = folder.glob("*.zstd")
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    messages, notes = content(folder)
    assert 1000 < len(messages) < len(items)
    assert "is truncated" in notes[-1]


@pytest.mark.parametrize("data", [b"x" * 5000, zstandard.ZstdCompressor().compress(b"y" * 5000), b"\x28\xb5\x2f\xfd"])
@pytest.mark.parametrize("name", ["bag.mcap.zstd", "bag.db3.zstd"])
def test_compressed_file_that_is_no_bag_is_refused(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DataError, match="bag"):
        content(tmp_path / name)


@pytest.mark.parametrize("name", ["notes.zstd", "bag.bag", "bag.zip"])
def test_other_files_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"text")
    with pytest.raises(DataError, match=r"expected a folder, \.mcap, \.db3, \.mcap\.zstd or \.db3\.zstd"):
        content(tmp_path / name)
    with pytest.raises(DataError, match="is not a bag"):
        content(tmp_path)
