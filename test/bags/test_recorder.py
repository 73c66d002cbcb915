"""Tests of the recorder without ROS: a second recording, a full disk, topics that cannot be recorded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from bags.example_bags import JOINT_STATE, START, joint_state, serialized

from eim_ros.bags.reader import open_bag
from eim_ros.bags.recorder import Recorder
from eim_ros.bags.writer import Topic
from eim_ros.core.errors import DataError

DATA = serialized(joint_state(0.0, ["j"], [0.0]))


class Clock:
    """Clock whose time [s] is set by a test."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_recording_tells_what_it_did(tmp_path: Path) -> None:
    clock = Clock()
    recorder = Recorder("/label", clock=clock)
    assert not recorder.is_recording
    recorder.start(tmp_path / "bag", ["/a", "/b", "/a"], "first", START)
    assert recorder.topics == ("/a", "/b")
    assert recorder.unknown_topics == ["/a", "/b"]
    assert recorder.add_topic(Topic("/a", JOINT_STATE))
    assert not recorder.add_topic(Topic("/b", "nobody_msgs/msg/Unknown"))
    assert recorder.unknown_topics == []
    recorder.write("/a", START + 1, START, DATA)
    recorder.label("second", START + 2)
    clock.now = 2.5
    assert recorder.counts == [1, 0]
    assert (recorder.n_segments, recorder.current_label, recorder.duration) == (2, "second", 2.5)
    told = recorder.stop()
    assert told.startswith("1 messages in 2.5 s and 2 segments; /b: the definition of the message type")
    clock.now = 9.0
    assert recorder.duration == 2.5
    assert recorder.size == (tmp_path / "bag" / "bag_0.mcap").stat().st_size


@pytest.mark.parametrize(
    ("topics", "reason"), [([], "no topics"), (["/a", "/label"], "the recorder writes labels to it")]
)
def test_bad_topics_are_refused(tmp_path: Path, topics: list[str], reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        Recorder("/label").start(tmp_path / "bag", topics, "", START)
    assert not (tmp_path / "bag").exists()


def test_message_that_cannot_be_written_ends_the_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder("/label")
    recorder.start(tmp_path / "bag", ["/a"], "first", START)
    recorder.add_topic(Topic("/a", JOINT_STATE))

    def fail(*arguments: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(recorder._writer, "write", fail)
    recorder.write("/a", START + 1, START, DATA)
    assert not recorder.is_recording and recorder.counts == [0]
    with pytest.raises(DataError, match="Input/output error"):
        recorder.stop()


def test_recording_ends_before_the_disk_is_full(tmp_path: Path) -> None:
    clock, needed = Clock(), [0]
    recorder = Recorder("/label", min_free_space=lambda: needed[0], clock=clock)
    recorder.start(tmp_path / "bag", ["/a"], "", START)
    recorder.add_topic(Topic("/a", JOINT_STATE))
    recorder.write("/a", START + 1, START, DATA)
    needed[0] = 2**62
    recorder.tick()
    assert recorder.is_recording  # the free space is checked only from time to time
    clock.now = 0.6
    recorder.tick()
    assert not recorder.is_recording
    assert "MB of free space" in recorder.message
    recorder.write("/a", START + 2, START, DATA)  # late messages are ignored without an error
    with pytest.raises(DataError, match="MB of free space"):
        recorder.stop()
    with open_bag(tmp_path / "bag") as bag:
        assert len(list(bag.messages(["/a"]))) == 1


FULL_DISK = """
import pathlib, resource, sys
from eim_ros.bags.writer import Topic
from eim_ros.bags.writer import standard_types
from eim_ros.bags.recorder import Recorder
types = standard_types()
TEXT = "std_msgs/msg/String"
data = bytes(types.serialize_cdr(types.types[TEXT](data="x" * 1000), TEXT))
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
recorder = Recorder("/label", flush_period=0.0)
recorder.start(pathlib.Path(sys.argv[1]), ["/a"], "x", 1)
recorder.add_topic(Topic("/a", TEXT))
n = 0
while recorder.is_recording:
    recorder.write("/a", 2 + n, 2, data)
    recorder.tick()
    n += 1
print(recorder.message)
"""


def test_disk_that_is_full_ends_the_recording_with_a_whole_bag(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path / "bag")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "recording ended: File too large; the bag contains all messages up to the last flush" in result.stdout
    with open_bag(tmp_path / "bag") as bag:
        assert bag.notes == []
        assert len(list(bag.messages(["/a", "/label"]))) > 100
