"""What a bag tells about motions: joint positions, vectors of other topics, labels, each with its times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from eim_ros.bags.clock_steps import mended_stamps
from eim_ros.bags.reader import Bag
from eim_ros.data.joint_matching import OTHER_JOINTS, JointMatcher
from eim_ros.errors import DataError

__all__ = ["BagContent", "Series", "read_content"]

JOINT_STATE = "sensor_msgs/msg/JointState"
POSE = "geometry_msgs/msg/PoseStamped"
POINT = "geometry_msgs/msg/PointStamped"
NUMBERS = "std_msgs/msg/Float64MultiArray"
TEXT = "std_msgs/msg/String"
VECTOR_TYPES = (POSE, POINT, NUMBERS)
LABEL_SUFFIX = "/segment"
NOT_FINITE = "not finite"
QUATERNION_TOLERANCE = 1e-3

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Series:
    """Vectors over time.

    Attributes
    ----------
    arrival : (n,) int64
        When each message arrived, ascending [ns].
    stamp : (n,) int64
        What its header says [ns]; that of the arrival where it has none.
    values : (n, n_dims)
    frame : str
        Frame of the first message.
    is_pose : bool
        Whether the values are position and quaternion.
    clock_steps : tuple of int
        By how much the clock of the headers was set [ns]; the stamps are those of the clock before.
    """

    arrival: IntArray
    stamp: IntArray
    values: FloatArray
    frame: str = ""
    is_pose: bool = False
    clock_steps: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.arrival)

    def part(self, chosen: Any) -> Series:
        """Some of its rows."""
        return replace(self, arrival=self.arrival[chosen], stamp=self.stamp[chosen], values=self.values[chosen])


@dataclass(frozen=True, eq=False)
class BagContent:
    """Content of one bag.

    Attributes
    ----------
    joint_names : tuple of str
    joints : Series
        Positions [rad] or [m] of these joints.
    vectors : dict
        Series of other topics; poses have 7 columns (position [m], quaternion xyzw), points 3.
    labels : list of (int, str)
        When each segment begins [ns], and its label; empty in a bag without labels.
    dropped : Counter
        Messages left out, by reason.
    """

    joint_names: tuple[str, ...]
    joints: Series
    vectors: dict[str, Series]
    labels: list[tuple[int, str]]
    dropped: Counter[str]


@dataclass
class _Rows:
    """A series that grows."""

    arrival: list[int] = field(default_factory=list)
    stamp: list[int] = field(default_factory=list)
    values: list[FloatArray] = field(default_factory=list)
    frame: str = ""

    def add(self, arrival: int, header: Any, values: FloatArray) -> None:
        if not self.values and header is not None:
            self.frame = header.frame_id
        stamp = arrival if header is None else header.stamp.sec * 1_000_000_000 + header.stamp.nanosec
        self.arrival.append(arrival)
        self.stamp.append(stamp)
        self.values.append(values)

    def series(self, n_dims: int, is_pose: bool = False) -> Series:
        values = np.array(self.values, dtype=np.float64).reshape(len(self.values), n_dims)
        stamp, arrival = np.array(self.stamp, dtype=np.int64), np.array(self.arrival, dtype=np.int64)
        mended, steps = mended_stamps(stamp if stamp.any() else arrival, arrival)
        return Series(arrival, mended, values, self.frame, is_pose, tuple(steps))


def read_content(
    bag: Bag,
    joint_names: Sequence[str] | None,
    joint_topic: str | None,
    label_topic: str | None,
    vector_topics: Collection[str],
) -> BagContent:
    """Read a bag.

    Parameters
    ----------
    bag : Bag
    joint_names : sequence of str, optional
        Wanted joints; default those of the first joint state, and then all must be of these joints.
    joint_topic, label_topic : str, optional
        Default the only topic with these joints, and the only topic of labels.
    vector_topics : collection of str
        Topics of poses, points or lists of numbers that are wanted, too.

    Raises
    ------
    DataError
        When a topic is missing or of another type, no joint state has these joints, or it is not clear which do.
    """
    joint_topics = [_known(bag, joint_topic, (JOINT_STATE,))] if joint_topic else bag.topics_of(JOINT_STATE)
    if not joint_topics:
        raise DataError(f"{bag.path} has no joint states; its topics: {', '.join(bag.topics) or 'none'}", str(bag.path))
    for topic in vector_topics:
        _known(bag, topic, VECTOR_TYPES)
    label_topic = _label_topic(bag, label_topic)
    reader = _Reader(bag, joint_names, set(vector_topics), label_topic)
    for topic, arrival, message in bag.messages([*joint_topics, *vector_topics, *filter(None, [label_topic])]):
        reader.add(topic, arrival, message)
    return reader.content(joint_topics)


class _Reader:
    def __init__(
        self, bag: Bag, joint_names: Sequence[str] | None, vector_topics: set[str], label_topic: str | None
    ) -> None:
        self._bag, self._vector_topics, self._label_topic = bag, vector_topics, label_topic
        self._wanted = None if joint_names is None else tuple(joint_names)
        self._matchers: dict[str, JointMatcher] = {}
        self._joints: dict[str, _Rows] = {}
        self._vectors = {topic: _Rows() for topic in vector_topics}
        self._labels: list[tuple[int, str]] = []
        self._dropped: dict[str, Counter[str]] = {}

    def add(self, topic: str, arrival: int, message: Any) -> None:
        if topic == self._label_topic:
            self._labels.append((arrival, message.data))
        elif topic in self._vector_topics:
            self._add_vector(topic, arrival, message)
        else:
            self._add_joints(topic, arrival, message)

    def content(self, joint_topics: list[str]) -> BagContent:
        path = self._bag.path
        found = [topic for topic in joint_topics if self._joints.get(topic) and self._joints[topic].values]
        if not found:
            reasons = sum((self._dropped.get(topic, Counter()) for topic in joint_topics), Counter[str]())
            why = ", ".join(f"{n} {reason}" for reason, n in reasons.most_common(5)) or "there are none"
            wanted = f" of {', '.join(self._wanted)}" if self._wanted else ""
            raise DataError(f"{path} has no usable joint states{wanted}: {why}", str(path))
        if len(found) > 1:
            raise DataError(
                f"{path} has the joints on several topics, {', '.join(found)}: two robots? choose one of them "
                "(--joint-topic)",
                found,
            )
        topic = found[0]
        matcher = self._matchers[topic]
        if self._wanted is None and self._dropped.get(topic, Counter()).get(OTHER_JOINTS):
            raise DataError(
                f"{path}: joint states of different joints come on {topic}: two robots? name the wanted joints "
                "(--joints or --robot)",
                matcher.joint_names,
            )
        dropped = Counter({f"joint states {reason}": n for reason, n in self._dropped.get(topic, Counter()).items()})
        vectors = {}
        for name, rows in self._vectors.items():
            n_dims = len(rows.values[0]) if rows.values else 0
            vectors[name] = rows.series(n_dims, self._bag.topics[name] == POSE)
            dropped.update({f"{name}: {reason}": n for reason, n in self._dropped.get(name, Counter()).items()})
        if self._bag.n_undecoded:
            dropped["messages that cannot be decoded"] = self._bag.n_undecoded
        joints = self._joints[topic].series(len(matcher.joint_names))
        return BagContent(matcher.joint_names, joints, vectors, self._labels, dropped)

    def _add_joints(self, topic: str, arrival: int, message: Any) -> None:
        matcher = self._matchers.get(topic)
        if matcher is None:
            if self._wanted is None and not message.name:
                self._drop(topic, "without names")
                return
            matcher = self._matchers[topic] = JointMatcher(self._wanted or message.name)
        values, problem = matcher.match(message.name, message.position)
        if values is None:
            is_other = self._wanted is None and set(message.name) != set(matcher.joint_names)
            self._drop(topic, OTHER_JOINTS if is_other else problem)
            return
        if self._wanted is None and len(message.name) != len(matcher.joint_names):
            self._drop(topic, OTHER_JOINTS)
            return
        self._joints.setdefault(topic, _Rows()).add(arrival, message.header, values)

    def _add_vector(self, topic: str, arrival: int, message: Any) -> None:
        kind, rows = self._bag.topics[topic], self._vectors[topic]
        header = None if kind == NUMBERS else message.header
        values = _vector(kind, message)
        if not np.isfinite(values).all():
            self._drop(topic, NOT_FINITE)
        elif kind == POSE and abs(np.linalg.norm(values[3:]) - 1.0) > QUATERNION_TOLERANCE:
            self._drop(topic, "quaternion not of length 1")
        elif rows.values and len(values) != len(rows.values[0]):
            self._drop(topic, f"{len(values)} numbers instead of {len(rows.values[0])}")
        elif rows.values and header is not None and header.frame_id != rows.frame:
            self._drop(topic, f"in frame '{header.frame_id}' instead of '{rows.frame}'")
        else:
            rows.add(arrival, header, values)

    def _drop(self, topic: str, reason: str) -> None:
        self._dropped.setdefault(topic, Counter())[reason] += 1


def _vector(kind: str, message: Any) -> FloatArray:
    if kind == NUMBERS:
        return np.asarray(message.data, dtype=np.float64)
    if kind == POINT:
        return np.array([message.point.x, message.point.y, message.point.z], dtype=np.float64)
    position, orientation = message.pose.position, message.pose.orientation
    return np.array(
        [position.x, position.y, position.z, orientation.x, orientation.y, orientation.z, orientation.w],
        dtype=np.float64,
    )


def _known(bag: Bag, topic: str, types: Sequence[str]) -> str:
    if topic not in bag.topics:
        raise DataError(f"{bag.path} has no topic {topic}; it has {', '.join(bag.topics) or 'none'}", topic)
    if bag.topics[topic] not in types:
        raise DataError(f"{bag.path}: {topic} is of type {bag.topics[topic]}, expected {' or '.join(types)}", topic)
    return topic


def _label_topic(bag: Bag, name: str | None) -> str | None:
    if name:
        return _known(bag, name, (TEXT,))
    found = [topic for topic in bag.topics_of(TEXT) if topic.endswith(LABEL_SUFFIX)]
    if len(found) > 1:
        raise DataError(
            f"{bag.path} has labels on several topics, {', '.join(found)}: choose one (--label-topic)", found
        )
    return found[0] if found else None
