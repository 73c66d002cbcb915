"""Recording of successive bags, with checks for a full disk and for topics without messages."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from eim_ros.bags.writer import FLUSH_PERIOD, BagWriter, Topic
from eim_ros.core.errors import DataError, EimError

DISK_CHECK_PERIOD = 0.5  # [s]


class Recorder:
    """Recorder that starts, labels, stops and discards recordings. The class is not thread-safe.

    `min_free_space` returns the disk space that must remain free [byte], and `clock` returns the time [s]. `BagWriter`
    explains the label topic and the flush period.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from eim_ros.bags.recorder import Recorder
    >>> from eim_ros.bags.writer import Topic
    >>> with TemporaryDirectory() as folder:
    ...     recorder = Recorder("/label")
    ...     recorder.start(Path(folder, "bag"), ["/joint_states"], "reach", now=0)
    ...     added = recorder.add_topic(Topic("/joint_states", "sensor_msgs/msg/JointState"))
    ...     summary = recorder.stop()
    >>> added, recorder.counts
    (True, [0])
    """

    def __init__(
        self,
        label_topic: str,
        flush_period: float = FLUSH_PERIOD,
        min_free_space: Callable[[], int] = lambda: 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._label_topic, self._flush_period = label_topic, flush_period
        self._min_free_space, self._clock = min_free_space, clock
        self._writer: BagWriter | None = None
        self._channels: dict[str, int] = {}
        self.topics: tuple[str, ...] = ()  # requested topics of the current or last recording
        self._counts: dict[str, int] = {}
        self._problems: dict[str, str] = {}  # reasons why topics cannot be recorded
        self._began = self._ended = self._checked = 0.0
        self._size, self._ending = 0, ""
        self.n_segments = 0
        self.path = Path()
        self.current_label = ""

    @property
    def is_recording(self) -> bool:
        """Whether a recording is running."""
        return self._writer is not None

    @property
    def counts(self) -> list[int]:
        """Number of messages of each requested topic."""
        return [self._counts[topic] for topic in self.topics]

    @property
    def unknown_topics(self) -> list[str]:
        """Topics of the current recording with an unknown type."""
        if not self.is_recording:
            return []
        return [name for name in self.topics if name not in self._channels and name not in self._problems]

    @property
    def duration(self) -> float:
        """Duration of the current or last recording [s]."""
        return (self._clock() if self.is_recording else self._ended) - self._began

    @property
    def size(self) -> int:
        """Size of the current or last file [byte]."""
        return self._writer.size if self._writer else self._size

    @property
    def message(self) -> str:
        """Problems of the current or last recording; empty if there are no problems."""
        silent = [name for name in self.topics if not self._counts[name] and name not in self._problems]
        parts = [self._ending, *(f"{name}: {problem}" for name, problem in self._problems.items())]
        if silent:
            parts.append(f"no message arrived on {', '.join(silent)}")
        return "; ".join(part for part in parts if part)

    def start(self, path: Path, topics: Sequence[str], label: str, now: int) -> None:
        """Start a recording.

        The first segment has the label `label`. This segment begins at the time `now` [ns] on the clock of the arrival
        times. `DataError` is raised if a recording is running, or if `topics` is empty or contains the label topic. The
        error is also raised if the folder exists or cannot be created, or if the disk is full.
        """
        if self._writer is not None:
            raise DataError(
                f"the recorder is already recording into {self.path}: stop or discard this recording first",
                str(self.path),
            )
        if not topics:
            raise DataError("there are no topics to record: give at least one topic", topics)
        if self._label_topic in topics:
            raise DataError(
                f"topic {self._label_topic} cannot be recorded, because the recorder writes labels to it: leave out "
                "this topic",
                self._label_topic,
            )
        if path.exists():
            raise DataError(f"{path} exists, and bags are never overwritten: give another path", str(path))
        if problem := self._full_disk(path):
            raise DataError(problem, str(path))
        try:
            writer = BagWriter(path, self._label_topic, self._flush_period, self._clock)
            writer.label(label, now)
        except OSError as error:
            raise DataError(f"cannot write {path}: {error.strerror or error}", str(path)) from error
        self._writer, self.path = writer, path
        self.topics = tuple(dict.fromkeys(topics))
        self._counts = dict.fromkeys(self.topics, 0)
        self._channels, self._problems, self._ending = {}, {}, ""
        self._began = self._checked = self._clock()
        self.current_label, self.n_segments = label, 1

    def add_topic(self, topic: Topic) -> bool:
        """Add a requested topic as soon as its type is known.

        Return False, with the reason in `message`, if the topic cannot be recorded.
        """
        assert self._writer is not None
        try:
            self._channels[topic.name] = self._writer.add_topic(topic)
        except EimError as error:
            self._problems[topic.name] = str(error)
        except OSError as error:
            self._break_off(error)
        return topic.name in self._channels

    def leave_out(self, topic: str, reason: str) -> None:
        """Note that a requested topic cannot be recorded, or only partly."""
        self._problems[topic] = reason

    def write(self, topic: str, log_time: int, publish_time: int, data: bytes) -> None:
        """Record a serialised message with its times of arrival and publication [ns]."""
        if self._writer is None:
            return
        try:
            self._writer.write(self._channels[topic], log_time, data, publish_time)
        except OSError as error:
            self._break_off(error)
        else:
            self._counts[topic] += 1

    def label(self, text: str, now: int) -> None:
        """Begin a segment at time `now` [ns]."""
        if self._writer is None:
            raise DataError("no recording is running: start one first", text)
        try:
            self._writer.label(text, now)
        except OSError as error:
            self._break_off(error)
            raise DataError(self._ending, text) from error
        self.current_label = text
        self.n_segments += 1

    def tick(self) -> None:
        """Flush and check the disk if necessary. Call it regularly while the node is running."""
        if self._writer is None:
            return
        try:
            self._writer.tick()
        except OSError as error:
            self._break_off(error)
            return
        if self._clock() - self._checked >= DISK_CHECK_PERIOD:
            self._checked = self._clock()
            if problem := self._full_disk(self.path):
                self._end(f"the recording ended: {problem}")

    def stop(self) -> str:
        """End the recording and return a summary of it."""
        if self._writer is None:
            raise DataError(self._ending or "no recording is running: start one first", None)
        self._end("")
        n_messages = sum(self._counts.values())
        told = f"{n_messages} messages in {self.duration:.1f} s and {self.n_segments} segments"
        return "; ".join(part for part in (told, self.message) if part)

    def discard(self) -> str:
        """End the recording, remove its bag, and return a message about it."""
        if self._writer is None:
            raise DataError(self._ending or "no recording is running: start one first", None)
        writer, self._writer = self._writer, None
        self._size, self._ended = 0, self._clock()
        try:
            writer.discard()
        except OSError as error:
            raise DataError(f"cannot remove {self.path}: {error.strerror or error}", str(self.path)) from error
        return f"removed {self.path}"

    def _end(self, ending: str) -> None:
        writer, self._writer = self._writer, None
        assert writer is not None
        self._ending, self._ended = ending, self._clock()
        try:
            writer.close()
        except OSError as error:
            self._ending = "; ".join(filter(None, (ending, _lost(error))))
        self._size = writer.size

    def _break_off(self, error: OSError) -> None:
        """End the recording after a write error. The file keeps the state of the last flush."""
        writer, self._writer = self._writer, None
        assert writer is not None
        self._ending, self._ended, self._size = _lost(error), self._clock(), writer.size
        writer.abandon()

    def _full_disk(self, path: Path) -> str:
        """Return an empty string if there is enough disk space for a bag, otherwise a message."""
        needed, free = self._min_free_space(), free_space(path)
        if free >= needed:
            return ""
        return (
            f"the disk of {path} has {free / 1e6:.0f} MB of free space, but {needed / 1e6:.0f} MB must remain "
            "free: delete files, or record to another disk"
        )


def free_space(path: Path) -> int:
    """Return the free disk space at a path that may not exist yet [byte]."""
    for folder in (path, *path.absolute().parents):
        if folder.is_dir():
            return shutil.disk_usage(folder).free
    return 0


def _lost(error: OSError) -> str:
    return f"the recording ended: {error.strerror or error}; the bag contains all messages up to the last flush"
