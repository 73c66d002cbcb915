"""An MCAP file is complete after each flush. If its writer is killed or it is truncated, its data are recovered."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from bags.example_bags import Item, data_file, joint_state, label, write_own, write_sqlite, write_standard
from rosbags.rosbag2 import CompressionMode, Reader

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


def text_channel(writer: McapWriter, topic: str = "/text") -> int:
    schema = writer.add_schema("std_msgs/msg/String", "ros2msg", "string data\n")
    return writer.add_channel(schema, topic, "cdr", {"offered_qos_profiles": ""})


def content(path: Path) -> list[tuple[str, int, bytes]]:
    with Reader(path) as reader:
        found = [(connection.topic, time, bytes(data)) for connection, time, data in reader.messages()]
        assert reader.message_count == len(found)
    return found


def test_file_is_whole_and_complete_after_every_flush(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    writer = McapWriter(path, chunk_size=3000)  # several chunks
    assert is_whole(path)
    assert content(path) == []
    channels = [text_channel(writer, "/a"), text_channel(writer, "/b")]
    written = []
    for i in range(400):
        data = b"\0\1\0\0" + bytes([i % 256]) * (i % 50)
        writer.write(channels[i % 2], 1000 + i, 900 + i, data)
        written.append((f"/{'ab'[i % 2]}", 1000 + i, data))
        if i % 13 == 0:
            writer.flush()
            assert is_whole(path)
            assert content(path) == written
            assert path.stat().st_size == writer.size
    writer.close({"about": {"key": "value"}})
    assert is_whole(path)
    assert content(path) == written


def test_messages_out_of_order_are_read_in_the_order_of_their_times(tmp_path: Path) -> None:
    writer = McapWriter(tmp_path / "a.mcap", chunk_size=100)
    channel = text_channel(writer)
    moments = [50, 10, 30, 20, 40, 60, 5]
    for moment in moments:
        writer.write(channel, moment, moment, b"x" * 60)
        writer.flush()
    writer.close()
    assert times(tmp_path / "a.mcap") == sorted(moments)


def test_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "a.mcap").write_text("precious")
    with pytest.raises(FileExistsError):
        McapWriter(tmp_path / "a.mcap")
    assert (tmp_path / "a.mcap").read_text() == "precious"


KILLED = """
import pathlib, sys, time
from eim_ros.bags.writer import BagWriter, Topic
writer = BagWriter(pathlib.Path(sys.argv[1]))
channel = writer.add_topic(Topic("/text", "std_msgs/msg/String"))
print("started", flush=True)
while True:
    writer.write(channel, time.time_ns(), b"x" * 400)
    time.sleep(0.0005)
"""


def test_killed_writer_leaves_a_whole_bag_up_to_the_last_second(tmp_path: Path) -> None:
    folder = tmp_path / "bag"
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(folder)], stdout=subprocess.PIPE)
    assert process.stdout
    assert process.stdout.readline() == b"started\n"
    began = time.time_ns()
    time.sleep(1.3)
    killed = time.time_ns()
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    process.stdout.close()
    recorded = times(folder)
    assert killed - recorded[-1] < 1e9
    assert recorded[0] - began < 0.5e9


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
    # messages have equal sizes and indexes take less than half of the file, which gives this bound
    assert numbers[12] > len(ITEMS) // 3


def test_half_overwritten_rear_of_our_own_file_loses_only_the_unfinished_flush(tmp_path: Path) -> None:
    folder = write_own(tmp_path / "bag", ITEMS)
    file = data_file(folder)
    content = bytearray(file.read_bytes())
    content[-400:-200] = bytes(200)  # damage the summary and the footer
    file.write_bytes(content)
    assert not is_whole(file)
    assert recover_bag(folder)[0].startswith(f"recovered {len(ITEMS)} messages")
    assert times(folder) == [item[2] for item in ITEMS]
    assert recover_bag(folder) == []


def test_cut_off_compressed_file_keeps_its_whole_chunks(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    items = [label(0.01 * i, rng.bytes(10_000).hex()) for i in range(300)]
    file = data_file(write_standard(tmp_path / "bag", items, compression=CompressionMode.STORAGE))
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    found = recover(file, tmp_path / "recovered.mcap")
    assert 100 <= found.n_messages < 200
    assert any("its data, compressed by zstd, is truncated" in problem for problem in found.problems)
    assert times(tmp_path / "recovered.mcap") == [item[2] for item in items[: found.n_messages]]


def test_flipped_bits_of_a_chunk_are_noticed_by_its_checksum(tmp_path: Path) -> None:
    file = data_file(write_own(tmp_path / "bag", ITEMS))
    content = bytearray(file.read_bytes())
    content[5000] ^= 0xFF
    file.write_bytes(content[:-8])
    found = recover(file, tmp_path / "recovered.mcap")
    assert found.n_messages == 0
    assert "checksum" in found.problems[0]


@pytest.mark.parametrize(
    ("content", "reason"), [(b"", "empty"), (b"no bag", "not an MCAP file"), (b"x" * 500, "not an MCAP")]
)
def test_other_files_are_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    file = tmp_path / "a.mcap"
    file.write_bytes(content)
    with pytest.raises(DataError, match=reason):
        recover(file, tmp_path / "b.mcap")
    assert not (tmp_path / "b.mcap").exists()


def test_bag_without_mcap_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no \.mcap file"):
        recover_bag(write_sqlite(tmp_path / "bag", ITEMS))


@pytest.mark.parametrize("chunk_size", [1, 1_000_000])  # each flush starts a new chunk, or extends the only chunk
def test_kill_within_a_write_loses_nothing_that_was_flushed_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk_size: int
) -> None:
    path = tmp_path / "a.mcap"
    writer = McapWriter(path, chunk_size)
    channel = text_channel(writer)

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
    # the cut is within a chunk, so there is no checksum to detect the wrong bytes after it
    half = len(content) // 3
    cut = tmp_path / "cut.mcap"
    cut.write_bytes(content[:half] + b"\x05" + (40).to_bytes(8, "little") + b"\xff" * 40)
    found = recover(cut, tmp_path / "out.mcap")
    assert 50 < found.n_messages < 200
    assert any("truncated" in problem or "damaged" in problem for problem in found.problems)
    assert times(tmp_path / "out.mcap")[: found.n_messages] == [item[2] for item in ITEMS[: found.n_messages]]
