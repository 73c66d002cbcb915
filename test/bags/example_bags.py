"""Bags of hand-made messages, written by our own writer or in the standard form by the writer of rosbags."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer

from eim_ros.bags.writer import BagWriter, Topic, standard_types

JOINT_STATE = "sensor_msgs/msg/JointState"
POSE = "geometry_msgs/msg/PoseStamped"
POINT = "geometry_msgs/msg/PointStamped"
NUMBERS = "std_msgs/msg/Float64MultiArray"
TEXT = "std_msgs/msg/String"
SECOND = 1_000_000_000  # [ns]
START = 1_700_000_000 * SECOND

TYPES = standard_types()

Item = tuple[str, str, int, Any]
"""Topic, type, time of arrival [ns], message."""


def header(time: int, frame: str = "") -> Any:
    types = TYPES.types
    stamp = types["builtin_interfaces/msg/Time"](sec=time // SECOND, nanosec=time % SECOND)
    return types["std_msgs/msg/Header"](stamp=stamp, frame_id=frame)


def joint_state(
    time: float,
    names: Iterable[str],
    positions: Iterable[float],
    topic: str = "/joint_states",
    arrival: float | None = None,
) -> Item:
    """Return a joint state whose header has a `time` [s]."""
    none = np.zeros(0)
    stamp = START + round(time * SECOND)
    message = TYPES.types[JOINT_STATE](
        header=header(stamp), name=list(names), position=np.array(list(positions)), velocity=none, effort=none
    )
    return topic, JOINT_STATE, stamp if arrival is None else START + round(arrival * SECOND), message


def pose(
    time: float,
    position: Iterable[float],
    quaternion: Iterable[float] = (0.0, 0.0, 0.0, 1.0),
    topic: str = "/pose",
    frame: str = "base_link",
) -> Item:
    types, stamp = TYPES.types, START + round(time * SECOND)
    content = types["geometry_msgs/msg/Pose"](
        position=types["geometry_msgs/msg/Point"](*map(float, position)),
        orientation=types["geometry_msgs/msg/Quaternion"](*map(float, quaternion)),
    )
    return topic, POSE, stamp, types[POSE](header=header(stamp, frame), pose=content)


def label(time: float, text: str, topic: str = "/demo_recorder/segment") -> Item:
    return topic, TEXT, START + round(time * SECOND), TYPES.types[TEXT](data=text)


def numbers(time: float, values: Iterable[float], topic: str = "/goal") -> Item:
    types = TYPES.types
    layout = types["std_msgs/msg/MultiArrayLayout"](dim=[], data_offset=0)
    message = types[NUMBERS](layout=layout, data=np.array(list(values), dtype=float))
    return topic, NUMBERS, START + round(time * SECOND), message


def serialized(item: Item) -> bytes:
    return bytes(TYPES.serialize_cdr(item[3], item[1]))


def write_own(folder: Path, items: Iterable[Item]) -> Path:
    """Write a bag with the recorder's writer, which chooses the topic of the labels."""
    writer = BagWriter(folder)
    channels: dict[str, int] = {}
    for item in items:
        topic, kind, time, message = item
        if topic == "/demo_recorder/segment":
            writer.label(message.data, time)
            continue
        if topic not in channels:
            channels[topic] = writer.add_topic(Topic(topic, kind))
        writer.write(channels[topic], time, serialized(item))
    writer.close()
    return folder


def write_standard(
    folder: Path,
    items: Iterable[Item],
    storage: StoragePlugin = StoragePlugin.MCAP,
    compression: CompressionMode = CompressionMode.NONE,
) -> Path:
    """Write a bag with the writer of rosbags, in the form that the standard tools write."""
    writer = Writer(folder, version=9, storage_plugin=storage)
    writer.set_compression(compression, CompressionFormat.ZSTD)
    with writer:
        connections: dict[str, Any] = {}
        for item in items:
            topic, kind, time, _ = item
            if topic not in connections:
                connections[topic] = writer.add_connection(topic, kind, typestore=TYPES)
            writer.write(connections[topic], time, serialized(item))
    return folder


def write_sqlite(folder: Path, items: Iterable[Item]) -> Path:
    return write_standard(folder, items, StoragePlugin.SQLITE3)


def data_file(folder: Path) -> Path:
    """Return the only data file of a bag."""
    (file,) = [path for path in folder.iterdir() if path.suffix in (".mcap", ".db3")]
    return file


ITEMS_OF_A_ROBOT: list[Item] = sorted(
    [
        label(0.0, "reach"),
        *(joint_state(0.01 * i, ["j1", "j2"], [0.01 * i, 1.0 - 0.01 * i]) for i in range(100)),
        *(pose(0.025 * i + 0.001, [0.01 * i, 0.0, 0.5]) for i in range(40)),
        numbers(0.0005, [1.0, 2.0]),
    ],
    key=lambda item: item[2],
)
"""A second of joint states at 100 Hz, poses at 40 Hz, one label, one list of numbers."""
