"""Our MCAP files are complete after each flush, contain all messages, and survive a full disk and a kill."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rosbags.rosbag2 import Reader

from eim_ros.bags.mcap_file import McapWriter, is_whole


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
    times = [50, 10, 30, 20, 40, 60, 5]
    for moment in times:
        writer.write(channel, moment, moment, b"x" * 60)
        writer.flush()
    writer.close()
    assert [moment for _, moment, _ in content(tmp_path / "a.mcap")] == sorted(times)


def test_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "a.mcap").write_text("precious")
    with pytest.raises(FileExistsError):
        McapWriter(tmp_path / "a.mcap")
    assert (tmp_path / "a.mcap").read_text() == "precious"


KILLED = """
import pathlib, sys, time
from eim_ros.bags.writer import Topic
from eim_ros.bags.writer import BagWriter
writer = BagWriter(pathlib.Path(sys.argv[1]))
channel = writer.add_topic(Topic("/text", "std_msgs/msg/String"))
print("started", flush=True)
while True:
    writer.write(channel, time.time_ns(), b"x" * 400)
    time.sleep(0.0005)
"""


@pytest.mark.parametrize("after", [0.6, 0.83, 1.31])
def test_killed_writer_leaves_a_whole_bag_up_to_the_last_second(tmp_path: Path, after: float) -> None:
    folder = tmp_path / "bag"
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(folder)], stdout=subprocess.PIPE)
    assert process.stdout
    assert process.stdout.readline() == b"started\n"
    began = time.time_ns()
    time.sleep(after)
    killed = time.time_ns()
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    process.stdout.close()
    with Reader(folder) as reader:
        times = [moment for _, moment, _ in reader.messages()]
    assert times
    assert killed - times[-1] < 1e9
    if after > 1.0:
        assert times[0] - began < 0.5e9
