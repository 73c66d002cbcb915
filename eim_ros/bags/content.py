"""What a bag tells about motions: joint positions, vectors of other topics, labels, each with its times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from eim_ros.bags.reader import Bag
from eim_ros.bags.series import BagContent, GrowingSeries, Series
from eim_ros.bags.trajectories import TRAJECTORY, Timeline, trajectory_rows
from eim_ros.data.joint_matching import OTHER_JOINTS, JointMatcher
from eim_ros.errors import DataError

__all__ = ["read_content"]

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
    if joint_topic:
        joint_topics = [_known(bag, joint_topic, (JOINT_STATE, TRAJECTORY))]
    else:  # what the robot did, rather than what it was told to do
        joint_topics = bag.topics_of(JOINT_STATE) or bag.topics_of(TRAJECTORY)
    if not joint_topics:
        listed = ", ".join(bag.topics) or "none"
        raise DataError(f"{bag.path} has no joint states and no trajectories; its topics: {listed}", str(bag.path))
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
        self._joints: dict[str, GrowingSeries] = {}
        self._timelines: dict[str, Timeline] = {}
        self._vectors = {topic: GrowingSeries() for topic in vector_topics}
        self._labels: list[tuple[int, str]] = []
        self._dropped: dict[str, Counter[str]] = {}

    def add(self, topic: str, arrival: int, message: Any) -> None:
        if topic == self._label_topic:
            self._labels.append((arrival, message.data))
        elif topic in self._vector_topics:
            self._add_vector(topic, arrival, message)
        elif self._bag.topics[topic] == TRAJECTORY:
            self._add_trajectory(topic, arrival, message)
        else:
            self._add_joints(topic, arrival, message)

    def content(self, joint_topics: list[str]) -> BagContent:
        path = self._bag.path
        found = [topic for topic in joint_topics if topic in self._joints or topic in self._timelines]
        if not found:
            reasons = sum((self._dropped.get(topic, Counter()) for topic in joint_topics), Counter[str]())
            why = ", ".join(f"{n} {reason}" for reason, n in reasons.most_common(5)) or "there are none"
            wanted = f" of {', '.join(self._wanted)}" if self._wanted else ""
            raise DataError(f"{path} has no usable {self._kind(joint_topics[0])}{wanted}: {why}", str(path))
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
        kind = self._kind(topic)
        dropped = Counter({f"{kind} {reason}": n for reason, n in self._dropped.get(topic, Counter()).items()})
        vectors = {}
        for name, rows in self._vectors.items():
            n_dims = len(rows.values[0]) if rows.values else 0
            vectors[name] = rows.series(n_dims, self._bag.topics[name] == POSE)
            dropped.update({f"{name}: {reason}": n for reason, n in self._dropped.get(name, Counter()).items()})
        if self._bag.n_undecoded:
            dropped["messages that cannot be decoded"] = self._bag.n_undecoded
        labels = self._labels
        if topic in self._timelines:
            timeline = self._timelines[topic]
            times = np.concatenate(timeline.times)
            joints, labels = Series(times, times, np.concatenate(timeline.values)), timeline.labels(labels)
        else:
            joints = self._joints[topic].series(len(matcher.joint_names))
        return BagContent(matcher.joint_names, joints, vectors, labels, dropped)

    def _add_joints(self, topic: str, arrival: int, message: Any) -> None:
        matcher = self._matcher(topic, message.name)
        if matcher is None:
            return
        values, problem = matcher.match(message.name, message.position)
        if values is None:
            is_other = self._wanted is None and set(message.name) != set(matcher.joint_names)
            self._drop(topic, OTHER_JOINTS if is_other else problem)
            return
        if self._wanted is None and len(message.name) != len(matcher.joint_names):
            self._drop(topic, OTHER_JOINTS)
            return
        self._joints.setdefault(topic, GrowingSeries()).add(arrival, message.header, values)

    def _add_trajectory(self, topic: str, arrival: int, message: Any) -> None:
        matcher = self._matcher(topic, message.joint_names)
        if matcher is None:
            return
        rows, problem = trajectory_rows(message, matcher)
        if rows is None:
            self._drop(topic, problem)
        else:
            self._timelines.setdefault(topic, Timeline()).add(arrival, rows)

    def _matcher(self, topic: str, names: Sequence[str]) -> JointMatcher | None:
        """Of the wanted joints, or of those of the first message that names some."""
        if topic not in self._matchers:
            if self._wanted is None and not len(names):
                self._drop(topic, "without names")
                return None
            self._matchers[topic] = JointMatcher(self._wanted or names)
        return self._matchers[topic]

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

    def _kind(self, topic: str) -> str:
        return "trajectories" if self._bag.topics[topic] == TRAJECTORY else "joint states"

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
