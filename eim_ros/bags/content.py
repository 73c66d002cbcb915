"""Content of a recording as arrays: joint positions, vectors of other topics, and labels, each with its times.

The source is a bag or a table. The joint positions of a bag come from joint states or from trajectory messages. Each
trajectory is a separate motion, and straight in joint space between its points. Controllers interpolate
trajectories without velocities in the same way.

A CSV table has a column `time` [s], a column for each joint, and optionally a column `label`. An NPZ table has the
arrays `time` (n,) [s], `positions` (n, n_joints), `joint_names` (n_joints,), and optionally `label` (n,).

If the clock of a publisher was set during a recording, the time stamps of the headers are corrected by means of the
times of arrival, see `mended_stamps`.
"""

from __future__ import annotations

import csv
import zipfile
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from eim_ros.bags.reader import Bag
from eim_ros.core.data_set import OTHER_JOINTS, JointMatcher, interpolated
from eim_ros.core.errors import DataError
from eim_ros.core.files import ARCHIVE_ERRORS

IntArray = npt.NDArray[np.int64]

SMALLEST = 10_000_000  # [ns], minimum clock step to correct; smaller ones affect few messages
WINDOW = 1_000_000_000  # [ns] before and after a step; messages are rarely delayed by half of it
FEWEST = 10  # minimum number of messages on each side for a median
ALIKE = 0.3  # maximum difference of sudden change and change of medians, as a share of the step


def mended_stamps(stamp: IntArray, arrival: IntArray) -> tuple[IntArray, list[int]]:
    """Remove the steps of a publisher's clock that was set during a recording.

    The difference of stamp and arrival is the delay of a message plus the offset of two clocks. Delays vary, but they
    return to their usual value after messages had to wait, whereas a step of the clock remains. A clock step is
    therefore a sudden change of the difference that the medians before and after it confirm.

    Parameters
    ----------
    stamp, arrival : (n,)
        Times in the headers and times of arrival, in the order of arrival [ns].

    Returns
    -------
    stamps : (n,)
        Stamps on the clock as it was set at the first message [ns].
    steps : list of int
        Clock steps that were removed [ns].
    """
    offset = stamp - arrival
    mended, steps = stamp.copy(), list[int]()
    for row in np.flatnonzero(np.abs(np.diff(offset)) > SMALLEST) + 1:
        first, last = np.searchsorted(arrival, (arrival[row] - WINDOW, arrival[row] + WINDOW))
        before, after = offset[first:row], offset[row:last]
        if min(len(before), len(after)) < FEWEST:
            continue
        step = int(np.median(after) - np.median(before))
        if abs(step) > SMALLEST and abs(int(offset[row] - offset[row - 1]) - step) <= ALIKE * abs(step):
            mended[row:] -= step
            offset[row:] -= step
            steps.append(step)
    return mended, steps


FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Series:
    """Vectors over time, from the messages of one topic."""

    arrival: IntArray  # (n,) int64: times of arrival, ascending [ns]
    stamp: IntArray  # (n,) int64: times in the headers [ns]; times of arrival if there are no headers
    values: FloatArray  # (n, n_dims)
    frame: str = ""  # frame of the first message
    is_pose: bool = False  # whether the values are position and quaternion
    clock_steps: tuple[int, ...] = ()  # steps of the publisher's clock that were removed from the stamps [ns]

    def __len__(self) -> int:
        return len(self.arrival)

    def part(self, chosen: Any) -> Series:
        """Return the series of the chosen rows."""
        return replace(self, arrival=self.arrival[chosen], stamp=self.stamp[chosen], values=self.values[chosen])


@dataclass(frozen=True, eq=False)
class BagContent:
    """Content of one bag or table."""

    joint_names: tuple[str, ...]
    joints: Series  # positions of these joints [rad] or [m]
    # Series of other topics, by topic. Poses have 7 columns (position [m], quaternion xyzw), points have 3.
    vectors: dict[str, Series]
    labels: list[tuple[int, str]]  # begin [ns] and label of each segment; empty for a bag without labels
    dropped: Counter[str]  # number of skipped messages for each reason


@dataclass
class GrowingSeries:
    """Series to which messages are appended."""

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


TRAJECTORY = "trajectory_msgs/msg/JointTrajectory"
PERIOD = 0.01  # [s] between the rows that a trajectory is resampled to
APART = 1_000_000_000  # [ns] between trajectories that would otherwise overlap in time

Rows = tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]


def trajectory_rows(message: Any, matcher: JointMatcher) -> tuple[Rows | None, str]:
    """Resample a trajectory.

    Returns
    -------
    rows : tuple of arrays, or None
        Times from the start (n,) [ns] and positions (n, n_joints) [rad] or [m]; None if the trajectory is unusable.
    problem : str
        Why it is unusable; otherwise empty.
    """
    times, positions = [], []
    for point in message.points:
        values, problem = matcher.match(message.joint_names, point.positions)
        if values is None:
            return None, problem
        times.append(point.time_from_start.sec + 1e-9 * point.time_from_start.nanosec)
        positions.append(values)
    if len(times) < 2:
        return None, "of less than 2 points"
    if (np.diff(times) <= 0.0).any():
        return None, "whose points are not in the order of their times"
    moments = np.unique(np.concatenate([np.arange(times[0], times[-1], PERIOD), times]))
    moments = moments[np.diff(moments, prepend=-1.0) > 1e-6]
    rows = interpolated(np.array(times), np.array(positions), moments, "linear")
    return (np.round(1e9 * moments).astype(np.int64), rows), ""


class Timeline:
    """Sequence of trajectories on one time axis.

    A trajectory begins when it arrived. If the previous one lasts longer, it begins shortly after the end of that one.
    """

    def __init__(self) -> None:
        self.times: list[npt.NDArray[np.int64]] = []
        self.values: list[npt.NDArray[np.float64]] = []
        self.arrivals: list[int] = []
        self.begins: list[int] = []

    def add(self, arrival: int, rows: Rows) -> None:
        """Append a trajectory with its time of arrival [ns]."""
        begin = max(arrival, int(self.times[-1][-1]) + APART if self.times else arrival)
        self.arrivals.append(arrival)
        self.begins.append(begin)
        self.times.append(begin + rows[0] - rows[0][0])
        self.values.append(rows[1])

    def labels(self, told: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
        """Return the begin [ns] of each trajectory, and the label that was valid when it arrived."""
        known = sorted(told)
        moments = [moment for moment, _ in known]
        rows = np.searchsorted(moments, self.arrivals, side="right") - 1
        names = [known[row][1] if row >= 0 else "" for row in rows]
        return list(zip(self.begins, names, strict=True))


JOINT_STATE = "sensor_msgs/msg/JointState"
POSE = "geometry_msgs/msg/PoseStamped"
POINT = "geometry_msgs/msg/PointStamped"
NUMBERS = "std_msgs/msg/Float64MultiArray"
TEXT = "std_msgs/msg/String"
VECTOR_TYPES = (POSE, POINT, NUMBERS)
LABEL_SUFFIX = "/segment"
NOT_FINITE = "not finite"
QUATERNION_TOLERANCE = 1e-3


def read_content(
    bag: Bag,
    joint_names: Sequence[str] | None,
    joint_topic: str | None,
    label_topic: str | None,
    vector_topics: Collection[str],
) -> BagContent:
    """Read joint positions, labels and vectors from a bag.

    By default, the first joint state names the wanted joints, and all joint states must have them. The default
    topics are the only one with these joints, and the only one of labels. Further topics have poses, points or lists of
    numbers. Raise `DataError` if a topic is missing or has another type, if no message has the wanted joints, or if
    several topics have them.
    """
    if joint_topic:
        joint_topics = [_known(bag, joint_topic, (JOINT_STATE, TRAJECTORY))]
    else:  # joint states are what the robot did; trajectories are only commands
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
        """Return the matcher of the wanted joints; by default of the joints in the first message with names."""
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


TABLE_SUFFIXES = (".csv", ".npz")
TIME, LABEL = "time", "label"
LARGEST_TIME = 9e9  # [s]; larger numbers are probably nanoseconds since 1970

Columns = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], list[str], list[str]]
"""Times (n,) [s], positions (n, n_joints), names of the joints, and the labels of the rows (empty without labels)."""


def read_table(path: Path, joint_names: Sequence[str] | None) -> BagContent:
    """Read a CSV or NPZ table; the result is a bag content without other topics.

    The joints are in the order of `joint_names`, by default of the table. Raise `DataError` if the table cannot be read
    or is wrong. The message names the column, line or joint.
    """
    try:
        times, positions, names, labels = _csv(path) if path.suffix == ".csv" else _npz(path)
    except (OSError, csv.Error, *ARCHIVE_ERRORS) as error:
        raise DataError(f"{path} cannot be read: {error}", str(path)) from error
    if missing := [name for name in joint_names or () if name not in names]:
        raise DataError(f"{path} lacks joint {missing[0]}; it has {', '.join(names)}", missing)
    if not len(times):
        raise DataError(f"{path} has no rows", str(path))
    wanted = list(joint_names or names)
    positions = positions[:, [names.index(name) for name in wanted]]
    usable = np.isfinite(times) & np.isfinite(positions).all(axis=1)
    if np.abs(times[usable]).max(initial=0.0) > LARGEST_TIME:
        raise DataError(f"{path}: times must be in seconds, got {times[usable].max():g}", float(times[usable].max()))
    clock = np.round(1e9 * times[usable]).astype(np.int64)
    if (np.diff(clock) < 0).any():
        row = int(np.flatnonzero(np.diff(clock) < 0)[0]) + 1
        raise DataError(f"{path}: time goes backwards after {clock[row - 1] * 1e-9:.3f} s", row)
    if not len(clock):
        raise DataError(f"{path} has no row of finite numbers", str(path))
    kept = [label for label, is_usable in zip(labels, usable, strict=True) if is_usable] if labels else []
    told = [(int(clock[i]), kept[i]) for i in range(len(kept)) if i == 0 or kept[i] != kept[i - 1]]
    dropped = Counter({"rows not finite": int(np.sum(~usable))} if not usable.all() else {})
    return BagContent(tuple(wanted), Series(clock, clock, positions[usable]), {}, told, dropped)


def _csv(path: Path) -> Columns:
    with path.open(newline="", encoding="utf-8-sig") as file:
        lines = csv.reader(file)
        header = [name.strip() for name in next(lines, [])]
        if TIME not in header:
            raise ValueError(f"its first line must name the columns, one of them {TIME!r}, got {','.join(header)!r}")
        if len(set(header)) < len(header):
            raise ValueError("two columns have one name")
        names = [name for name in header if name not in (TIME, LABEL)]
        numbers = [header.index(name) for name in (TIME, *names)]
        rows, labels = [], []
        for line in lines:
            if not line:
                continue
            if len(line) != len(header):
                raise ValueError(f"line {lines.line_num} has {len(line)} columns, the first one {len(header)}")
            try:
                rows.append([float(line[index]) for index in numbers])
            except ValueError as error:
                raise ValueError(f"line {lines.line_num}: {error}") from error
            if LABEL in header:
                labels.append(line[header.index(LABEL)].strip())
    if not names:
        raise ValueError(f"it has no joint column, only {', '.join(header)}")
    table = np.array(rows, dtype=np.float64).reshape(-1, len(numbers))
    return table[:, 0], table[:, 1:], names, labels


def _npz(path: Path) -> Columns:
    if not zipfile.is_zipfile(path):
        raise ValueError("it is not a NumPy archive")
    with np.load(path, allow_pickle=False) as archive:
        if missing := [name for name in (TIME, "positions", "joint_names") if name not in archive.files]:
            held = ", ".join(archive.files) or "nothing"
            more = "; a data set needs no import" if {"sample", "description"} <= set(archive.files) else ""
            raise ValueError(f"it lacks {', '.join(missing)}; it holds {held}{more}")
        times, positions = (np.asarray(archive[name], dtype=np.float64) for name in (TIME, "positions"))
        names = [str(name) for name in np.atleast_1d(archive["joint_names"])]
        labels = [str(label) for label in archive[LABEL]] if LABEL in archive.files else []
    if times.ndim != 1 or positions.shape != (len(times), len(names)) or (labels and len(labels) != len(times)):
        shapes: Any = times.shape, positions.shape, len(names), len(labels)
        raise ValueError(f"time (n,), positions (n, n_joints), joint_names and label do not fit each other: {shapes}")
    return times, positions, names, labels
