"""Bags of recorded messages: a folder with an MCAP file and metadata.yaml, as rosbag2 makes them (profile ros2).

The bag on disk is whole after every flush, and a flush is at most `flush_period` behind what was written.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from eim_ros.bags.mcap_writer import McapWriter
from eim_ros.bags.message_definitions import definition, standard_types
from eim_ros.bags.metadata import METADATA_FILE, DataFile, Topic, bag_metadata, qos_text
from eim_ros.errors import DataError

__all__ = ["LABEL_TOPIC", "BagWriter"]

LABEL_TOPIC = "/demo_recorder/segment"
LABEL_TYPE = "std_msgs/msg/String"
FLUSH_PERIOD = 0.25  # [s]
FLUSH_SIZE = 1 << 20  # [byte]


class BagWriter:
    """Writes one bag; not safe to be used by several threads.

    Parameters
    ----------
    folder : Path
        The bag, a folder that must not exist.
    label_topic : str
        Topic of the labels of segments.
    flush_period : float
        Longest time between a message and its flush, as long as messages or calls of `tick` come [s].
    clock : callable
        Returns the time [s] that flushes go by.

    Raises
    ------
    DataError
        When the folder exists or cannot be made.
    OSError
        From every method that writes, when the disk is full for example.
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
            raise DataError(f"{folder} exists already; a bag is never overwritten", str(folder)) from error
        except OSError as error:
            raise DataError(f"cannot make the folder {folder}: {error.strerror}", str(folder)) from error
        self.folder = folder
        self._file = folder / f"{folder.name}_0.mcap"
        self._mcap = McapWriter(self._file)
        self._label_topic = label_topic
        self._flush_period, self._clock = flush_period, clock
        self._flushed = clock()
        self._schemas: dict[str, int] = {}
        self._topics: dict[int, Topic] = {}
        self._counts: dict[int, int] = {}
        self._first: int | None = None
        self._last = 0
        self._label_channel: int | None = None
        self.labels: list[str] = []
        self._save_metadata()

    @property
    def size(self) -> int:
        """Length of the file, with what is not yet flushed [byte]."""
        return self._mcap.size + self._mcap.pending

    def count(self, channel: int) -> int:
        """Messages of a topic so far."""
        return self._counts[channel]

    def add_topic(self, topic: Topic) -> int:
        """Number of a new topic, for `write`; its definition and hash are looked up."""
        text, type_hash = definition(topic.type)
        topic = Topic(topic.name, topic.type, type_hash, topic.qos)
        if topic.type not in self._schemas:
            self._schemas[topic.type] = self._mcap.add_schema(topic.type, "ros2msg", text)
        about = {"offered_qos_profiles": qos_text(topic), "topic_type_hash": type_hash}
        channel = self._mcap.add_channel(self._schemas[topic.type], topic.name, "cdr", about)
        self._topics[channel], self._counts[channel] = topic, 0
        self.flush()
        return channel

    def write(self, channel: int, log_time: int, data: bytes, publish_time: int = 0) -> None:
        """Add a serialized message (CDR), with the times of its arrival and, if known, of its publication [ns]."""
        self._mcap.write(channel, log_time, publish_time or log_time, data)
        self._counts[channel] += 1
        self._first = log_time if self._first is None else min(self._first, log_time)
        self._last = max(self._last, log_time)
        if self._mcap.pending > FLUSH_SIZE:
            self.flush()
        else:
            self.tick()

    def label(self, text: str, log_time: int) -> None:
        """Begin a segment: what is written with a later time belongs to it."""
        if self._label_channel is None:
            self._label_channel = self.add_topic(Topic(self._label_topic, LABEL_TYPE))
        types = standard_types()
        message = types.types[LABEL_TYPE](data=text)
        self.write(self._label_channel, log_time, bytes(types.serialize_cdr(message, LABEL_TYPE)))
        self.labels.append(text)
        self.flush()

    def tick(self) -> None:
        """Flush when it is time; to be called also while no message comes."""
        if self._clock() - self._flushed >= self._flush_period:
            self.flush()

    def flush(self) -> None:
        """Bring all messages to the file."""
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
        """Close the file as it was after the last flush."""
        self._mcap.abandon()

    def discard(self) -> None:
        """Close and remove the bag."""
        self._mcap.abandon()
        shutil.rmtree(self.folder)

    def _metadata(self) -> tuple[str, str]:
        channels = list(self._topics)
        first = self._last if self._first is None else self._first
        counts = [self._counts[channel] for channel in channels]
        file = DataFile(self._file.name, first, self._last, sum(counts))
        return bag_metadata([file], list(self._topics.values()), counts)

    def _save_metadata(self) -> None:
        """Replace the file at once, without waiting for the disk."""
        temporary = self.folder / f".{METADATA_FILE}"
        temporary.write_text(self._metadata()[0], encoding="utf-8")
        os.replace(temporary, self.folder / METADATA_FILE)
