"""Recovery of MCAP files that were cut off anywhere, by us or by the standard tools."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bags.example_bags import Item, data_file, joint_state, label, write_own, write_sqlite, write_standard
from rosbags.rosbag2 import Reader, StoragePlugin, Writer
from rosbags.rosbag2.enums import CompressionFormat, CompressionMode

from eim_ros.bags.mcap_file import McapWriter, is_whole, recover
from eim_ros.bags.reader import recover_bag
from eim_ros.core.errors import DataError

ITEMS: list[Item] = [
    label(0.0, "a"),
    *(joint_state(0.01 * i, ["j1", "j2"], [0.01 * i, np.sin(0.01 * i)]) for i in range(300)),
]


def times(path: Path) -> list[int]:
    with Reader(path) as reader:
        return [time for _, time, _ in reader.messages()]


@pytest.mark.parametrize("write", [write_own, write_standard])
def test_whole_records_of_a_file_cut_off_anywhere_are_recovered(tmp_path: Path, write) -> None:
    whole = data_file(write(tmp_path / "bag", ITEMS)).read_bytes()
    all_times = [item[2] for item in ITEMS]
    numbers = []
    for share in np.linspace(0.02, 0.999, 25):
        cut = tmp_path / "cut.mcap"
        cut.write_bytes(whole[: int(share * len(whole))])
        assert not is_whole(cut)
        found = recover(cut, tmp_path / "recovered.mcap")
        assert is_whole(tmp_path / "recovered.mcap")
        assert times(tmp_path / "recovered.mcap") == all_times[: found.n_messages]
        numbers.append(found.n_messages)
        (tmp_path / "recovered.mcap").unlink()
    assert numbers == sorted(numbers)
    assert numbers[-1] == len(ITEMS)
    # each message takes the same room, and indexes take less than a half of the file
    assert numbers[12] > len(ITEMS) // 3


def test_half_overwritten_rear_of_our_own_file_loses_only_the_unfinished_flush(tmp_path: Path) -> None:
    folder = write_own(tmp_path / "bag", ITEMS)
    file = data_file(folder)
    content = bytearray(file.read_bytes())
    content[-400:-200] = bytes(200)  # in summary and footer
    file.write_bytes(content)
    assert not is_whole(file)
    assert recover_bag(folder)[0].startswith(f"recovered {len(ITEMS)} messages")
    assert times(folder) == [item[2] for item in ITEMS]
    assert recover_bag(folder) == []


def test_cut_off_compressed_file_keeps_its_whole_chunks(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "bag", version=9, storage_plugin=StoragePlugin.MCAP)
    writer.set_compression(CompressionMode.STORAGE, CompressionFormat.ZSTD)
    rng = np.random.default_rng(0)
    with writer:
        connection = writer.add_connection("/a", "std_msgs/msg/String", msgdef="string data\n", rihs01="RIHS01_x")
        for i in range(300):
            writer.write(connection, i, rng.bytes(10_000))
    file = data_file(tmp_path / "bag")
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    found = recover(file, tmp_path / "recovered.mcap")
    assert 100 <= found.n_messages < 200
    assert any("zstd data is cut off" in problem for problem in found.problems)
    assert times(tmp_path / "recovered.mcap") == list(range(found.n_messages))


def test_flipped_bits_of_a_chunk_are_noticed_by_its_checksum(tmp_path: Path) -> None:
    file = data_file(write_own(tmp_path / "bag", ITEMS))
    content = bytearray(file.read_bytes())
    content[5000] ^= 0xFF
    file.write_bytes(content[:-8])
    found = recover(file, tmp_path / "recovered.mcap")
    assert found.n_messages == 0
    assert "checksum" in found.problems[0]


@pytest.mark.parametrize(("content", "reason"), [(b"", "empty"), (b"no bag", "no MCAP file"), (b"x" * 500, "no MCAP")])
def test_other_files_are_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    file = tmp_path / "a.mcap"
    file.write_bytes(content)
    with pytest.raises(DataError, match=reason):
        recover(file, tmp_path / "b.mcap")
    assert not (tmp_path / "b.mcap").exists()


def test_bag_without_mcap_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no \.mcap file"):
        recover_bag(write_sqlite(tmp_path / "bag", ITEMS))


@pytest.mark.parametrize("chunk_size", [1, 1_000_000])  # a new chunk at each flush, or one that grows
def test_kill_within_a_write_loses_nothing_that_was_flushed_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk_size: int
) -> None:
    path = tmp_path / "a.mcap"
    writer = McapWriter(path, chunk_size)
    channel = writer.add_channel(writer.add_schema("std_msgs/msg/String", "ros2msg", "string data\n"), "/a", "cdr", {})

    def write(moments: range) -> None:
        for moment in moments:
            writer.write(channel, moment, moment, bytes([moment % 251]) * (moment % 97))

    write(range(1, 200))
    writer.flush()
    content = bytearray(path.read_bytes())
    writes: list[tuple[int, bytes]] = []

    def note(handle: int, data: bytes, offset: int) -> int:
        writes.append((offset, bytes(data)))
        return len(data)

    write(range(200, 320))
    with monkeypatch.context() as patch:
        patch.setattr("eim_ros.bags.mcap_file.os.pwrite", note)
        writer.flush()
    writer.abandon()
    assert len(writes) >= 2
    for offset, data in writes:
        for n_written in range(0, len(data), 197):
            cut = tmp_path / "cut.mcap"
            cut.write_bytes(content[:offset] + data[:n_written] + content[offset + n_written :])
            out = tmp_path / "out.mcap"
            out.unlink(missing_ok=True)
            found = recover(cut, out)
            assert found.n_messages >= 199
            with Reader(out) as reader:
                messages = [(time, bytes(data)) for _, time, data in reader.messages()]
            assert messages == [(i, bytes([i % 251]) * (i % 97)) for i in range(1, found.n_messages + 1)]
        content[offset : offset + len(data)] = data
    path.write_bytes(content)
    assert is_whole(path)
    assert len(times(path)) == 319


def test_what_follows_a_damaged_record_is_left_out(tmp_path: Path) -> None:
    content = data_file(write_own(tmp_path / "bag", ITEMS)).read_bytes()
    # cut off in its chunk, and what is left of that overwritten from the middle on: no checksum can tell
    half = len(content) // 3
    cut = tmp_path / "cut.mcap"
    cut.write_bytes(content[:half] + b"\x05" + (40).to_bytes(8, "little") + b"\xff" * 40)
    found = recover(cut, tmp_path / "out.mcap")
    assert 50 < found.n_messages < 200
    assert any("cut off" in problem or "damaged" in problem for problem in found.problems)
    assert times(tmp_path / "out.mcap")[: found.n_messages] == [item[2] for item in ITEMS[: found.n_messages]]
