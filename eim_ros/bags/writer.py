"""Writing of bags. A bag is a folder with an MCAP file (profile ros2) and metadata.yaml, as in rosbag2.

The bag on disk is complete after every flush. Messages are flushed after at most `flush_period`. The file metadata.yaml
(version 9) lists files, topics, numbers of messages and times. A bag also contains the definitions of its message
types. Definitions of ROS 2 come from rosbags; other definitions are read from the installed packages.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from rosbags.interfaces import Qos
from rosbags.rosbag2.metadata import dump_qos_v9
from rosbags.typesys import Stores, TypesysError, get_types_from_msg, get_typestore
from rosbags.typesys.store import Typestore

from eim_ros.bags.mcap_file import McapWriter
from eim_ros.core.errors import DataError

METADATA_FILE = "metadata.yaml"
VERSION = 9
_Dumper: type[Any] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
LABEL_TOPIC = "/demo_recorder/segment"
LABEL_TYPE = "std_msgs/msg/String"
FLUSH_PERIOD = 0.25  # [s]
FLUSH_SIZE = 1 << 20  # [byte]


@dataclass(frozen=True)
class Topic:
    """Topic of a recording.

    Examples
    --------
    >>> from eim_ros.bags.writer import Topic
    >>> Topic("/joint_states", "sensor_msgs/msg/JointState").name
    '/joint_states'
    """

    # name and type, such as "/joint_states" and "sensor_msgs/msg/JointState"
    name: str
    type: str
    type_hash: str = ""  # RIHS01 hash of the type; may be empty
    qos: tuple[Qos, ...] = ()  # quality of service of the publishers


@dataclass(frozen=True)
class DataFile:
    """One file of a bag: its name, the times of its first and last message [ns], and its number of messages."""

    name: str
    first: int
    last: int
    n_messages: int


def qos_text(topic: Topic) -> str:
    """Return the offered quality of service as text for the metadata of an MCAP channel."""
    return _yaml(dump_qos_v9(list(topic.qos))) if topic.qos else ""


def bag_metadata(files: Sequence[DataFile], topics: Sequence[Topic], counts: Sequence[int]) -> tuple[str, str]:
    """Return the content of metadata.yaml and of the record "rosbag2" in the MCAP file.

    There must be at least one file. `counts` are the numbers of messages of each topic in all files.
    """
    filled = [file for file in files if file.n_messages] or list(files)
    first, last = min(file.first for file in filled), max(file.last for file in filled)
    content = {
        "version": VERSION,
        "storage_identifier": "mcap",
        **_times(first, last, sum(counts)),
        "topics_with_message_count": [
            {
                "topic_metadata": {
                    "name": topic.name,
                    "type": topic.type,
                    "serialization_format": "cdr",
                    "offered_qos_profiles": dump_qos_v9(list(topic.qos)),
                    "type_description_hash": topic.type_hash,
                },
                "message_count": count,
            }
            for topic, count in zip(topics, counts, strict=True)
        ],
        "compression_format": "",
        "compression_mode": "",
        "relative_file_paths": [file.name for file in files],
        "files": [{"path": file.name, **_times(file.first, file.last, file.n_messages)} for file in files],
        "custom_data": None,
        "ros_distro": os.environ.get("ROS_DISTRO", "unknown"),
    }
    return _yaml({"rosbag2_bagfile_information": content}), _yaml(content)


def _times(first: int, last: int, n_messages: int) -> dict[str, Any]:
    return {
        "starting_time": {"nanoseconds_since_epoch": first},
        "duration": {"nanoseconds": last - first},
        "message_count": n_messages,
    }


def _yaml(content: object) -> str:
    return str(yaml.dump(content, Dumper=_Dumper, sort_keys=False, default_flow_style=False))


@functools.cache
def standard_types() -> Typestore:
    """Return the type store of ROS 2 Kilted, which also serialises and deserialises messages."""
    return get_typestore(Stores.ROS2_KILTED)


@functools.cache
def definition(name: str) -> tuple[str, str]:
    """Return the definition of a message type, with all nested types (schema ros2msg), and its RIHS01 hash.

    `DataError` is raised if the type is unknown. Types of ROS 2 are known, and types that are installed in the share
    folder of a prefix in AMENT_PREFIX_PATH or of this Python.
    """
    types = standard_types()
    try:
        _register(name, types)
        return types.generate_msgdef(name, ros_version=2)[0], types.hash_rihs01(name)
    except (TypesysError, KeyError, ValueError, OSError) as error:
        raise DataError(f"the definition of the message type {name} cannot be read: {error}", name) from error


def _register(name: str, types: Typestore) -> None:
    """Add a type and the types of its fields to the store, unless they are known."""
    if name in types.fielddefs:
        return
    found = get_types_from_msg(_installed(name).read_text(encoding="utf-8"), name)
    for _, fields in found.values():
        for part in re.findall(r"\w+/msg/\w+", str(fields)):  # type names are nested in field descriptions
            _register(part, types)
    types.register(found)


def _installed(name: str) -> Path:
    package, _, kind = name.partition("/")
    for prefix in (*os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep), sys.prefix):
        path = Path(prefix) / "share" / package / f"{kind}.msg"
        if prefix and path.is_file():
            return path
    raise KeyError(f"share/{package}/{kind}.msg is not installed")


class BagWriter:
    """Writer of one bag. The class is not thread-safe.

    The folder must not exist. A message is flushed after at most `flush_period` [s] on the given clock, provided that
    `write` or `tick` is called often enough. The constructor raises `DataError` if the folder exists or cannot be
    created. Methods that write raise `OSError`, for example if the disk is full.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from eim_ros.bags.reader import open_bag
    >>> from eim_ros.bags.writer import BagWriter, Topic, standard_types
    >>> text = standard_types().types["std_msgs/msg/String"]
    >>> with TemporaryDirectory() as folder:
    ...     writer = BagWriter(Path(folder, "bag"), "/label")
    ...     channel = writer.add_topic(Topic("/chatter", "std_msgs/msg/String"))
    ...     data = bytes(standard_types().serialize_cdr(text("hello"), "std_msgs/msg/String"))
    ...     writer.write(channel, 1_000_000_000, data)
    ...     writer.close()
    ...     with open_bag(Path(folder, "bag")) as bag:
    ...         [(topic, message.data) for topic, _, message in bag.messages(["/chatter"])]
    [('/chatter', 'hello')]
    """

    def __init__(
        self,
        folder: Path,
        label_topic: str = LABEL_TOPIC,
        flush_period: float = FLUSH_PERIOD,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        try:
            folder.mkdir(parents=True)
        except FileExistsError as error:
            raise DataError(
                f"{folder} exists, and bags are never overwritten: give another path", str(folder)
            ) from error
        except OSError as error:
            raise DataError(f"cannot create the folder {folder}: {error.strerror}", str(folder)) from error
        self.folder = folder
        self._file = folder / f"{folder.name}_0.mcap"
        self._mcap = McapWriter(self._file)
        self._label_topic, self._label_channel = label_topic, -1
        self._flush_period, self._clock, self._flushed = flush_period, clock, clock()
        self._schemas: dict[str, int] = {}
        self._topics: dict[int, Topic] = {}
        self._save_metadata()

    @property
    def size(self) -> int:
        """Length of the file, including records that are not flushed yet [byte]."""
        return self._mcap.size + self._mcap.pending

    def add_topic(self, topic: Topic) -> int:
        """Add a topic with the definition and hash of its type. Return its number for `write`."""
        text, type_hash = definition(topic.type)
        topic = Topic(topic.name, topic.type, type_hash, topic.qos)
        if topic.type not in self._schemas:
            self._schemas[topic.type] = self._mcap.add_schema(topic.type, "ros2msg", text)
        about = {"offered_qos_profiles": qos_text(topic), "topic_type_hash": type_hash}
        channel = self._mcap.add_channel(self._schemas[topic.type], topic.name, "cdr", about)
        self._topics[channel] = topic
        self.flush()
        return channel

    def write(self, channel: int, log_time: int, data: bytes, publish_time: int = 0) -> None:
        """Add a serialised message (CDR) with its time of arrival and, if known, its time of publication [ns]."""
        self._mcap.write(channel, log_time, publish_time or log_time, data)
        if self._mcap.pending > FLUSH_SIZE:
            self.flush()
        else:
            self.tick()

    def label(self, text: str, log_time: int) -> None:
        """Begin a segment. Messages with a later time belong to this segment."""
        if self._label_channel < 0:
            self._label_channel = self.add_topic(Topic(self._label_topic, LABEL_TYPE))
        types = standard_types()
        message = types.types[LABEL_TYPE](data=text)
        self.write(self._label_channel, log_time, bytes(types.serialize_cdr(message, LABEL_TYPE)))
        self.flush()

    def tick(self) -> None:
        """Flush if the flush period has passed. Call this method regularly, even if no messages arrive."""
        if self._clock() - self._flushed >= self._flush_period:
            self.flush()

    def flush(self) -> None:
        """Write all messages to the file."""
        self._flushed = self._clock()
        if self._mcap.pending:
            self._mcap.flush()
            self._save_metadata()

    def close(self) -> None:
        """Flush and close the file."""
        try:
            self._mcap.close({"rosbag2": {"serialized_metadata": self._metadata()[1]}})
        finally:
            self._save_metadata()

    def abandon(self) -> None:
        """Close the file in the state of the last flush."""
        self._mcap.abandon()

    def discard(self) -> None:
        """Close and remove the bag."""
        self._mcap.abandon()
        shutil.rmtree(self.folder)

    def _metadata(self) -> tuple[str, str]:
        counts = [self._mcap.counts[channel] for channel in self._topics]
        file = DataFile(self._file.name, *self._mcap.times, sum(counts))
        return bag_metadata([file], list(self._topics.values()), counts)

    def _save_metadata(self) -> None:
        """Replace metadata.yaml atomically, without waiting for the disk."""
        temporary = self.folder / f".{METADATA_FILE}"
        temporary.write_text(self._metadata()[0], encoding="utf-8")
        os.replace(temporary, self.folder / METADATA_FILE)
