"""Content of a recording as arrays: joint positions, vectors of other topics, and labels, with their times.

The source is a bag or a table. The joint positions of a bag come from joint states or from trajectory messages. Each
trajectory is a separate motion. Its points are connected by straight lines in joint space, because controllers
interpolate trajectories without velocities in this way.

A CSV table has a column `time` [s], a column for each joint, and optionally a column `label`. An NPZ table has the
arrays `time` (n,) [s], `positions` (n, n_joints), `joint_names` (n_joints,), and optionally `label` (n,).

Time stamps in headers are corrected by means of the times of arrival, and single wrong samples are removed; see
`eim_ros.bags.series`. If several publishers each send only some of the joints, their joint states are merged by time.
"""

from __future__ import annotations

import csv
import zipfile
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from eim_ros.bags.merging import merged
from eim_ros.bags.reader import Bag
from eim_ros.bags.series import Cuts, GrowingSeries, Series, without_spikes
from eim_ros.core.data_set import LARGEST_POSITION, OTHER_JOINTS, JointMatcher, interpolated
from eim_ros.core.errors import DataError
from eim_ros.core.files import ARCHIVE_ERRORS

TRAJECTORY = "trajectory_msgs/msg/JointTrajectory"
PERIOD = 0.01  # [s] between the rows of a resampled trajectory
APART = 1_000_000_000  # [ns] pause between trajectories that would overlap in time
Rows = tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]
JOINT_STATE = "sensor_msgs/msg/JointState"
POSE = "geometry_msgs/msg/PoseStamped"
POINT = "geometry_msgs/msg/PointStamped"
NUMBERS = "std_msgs/msg/Float64MultiArray"
TEXT = "std_msgs/msg/String"
VECTORS = {
    POSE: attrgetter(*(f"pose.position.{axis}" for axis in "xyz"), *(f"pose.orientation.{axis}" for axis in "xyzw")),
    POINT: attrgetter("point.x", "point.y", "point.z"),
    NUMBERS: attrgetter("data"),
}
"""Functions that return the numbers in a message, by type of message."""
LABEL_SUFFIX = "/segment"
NOT_FINITE = "not finite"
QUATERNION_TOLERANCE = 1e-3
TABLE_SUFFIXES = (".csv", ".npz")
TIME, LABEL = "time", "label"
LARGEST_TIME = 9e9  # [s]; larger numbers are probably nanoseconds since 1970
Columns = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], list[str], list[str]]
"""Times (n,) [s], positions (n, n_joints), names of the joints, and the labels of the rows (empty without labels)."""


@dataclass(frozen=True, eq=False)
class BagContent:
    """Content of one bag or table."""

    joint_names: tuple[str, ...]
    joints: Series  # positions of these joints [rad] or [m]
    # Series of other topics, by topic. Poses have 7 columns (position [m], quaternion xyzw), points have 3.
    vectors: dict[str, Series]
    labels: list[tuple[int, str]]  # start [ns] and label of each segment; empty if the bag has no labels
    dropped: Counter[str]  # number of skipped messages for each reason
    notes: list[str] = field(default_factory=list)  # notes about corrected clocks and merged joints


def trajectory_rows(message: Any, matcher: JointMatcher) -> tuple[Rows | None, str]:
    """Resample a trajectory.

    Returns
    -------
    rows : tuple of arrays, or None
        Times from the start (n,) [ns] and positions (n, n_joints) [rad] or [m]; None if the trajectory is unusable.
    problem : str
        Reason why the trajectory is unusable; empty if it is usable.
    """
    times, positions = [], []
    for point in message.points:
        values, problem = matcher.match(message.joint_names, point.positions)
        if values is None:
            return None, problem
        times.append(point.time_from_start.sec + 1e-9 * point.time_from_start.nanosec)
        positions.append(values)
    if len(times) < 2:
        return None, "with fewer than 2 points"
    if (np.diff(times) <= 0.0).any():
        return None, "whose points are not in the order of their times"
    moments = np.unique(np.concatenate([np.arange(times[0], times[-1], PERIOD), times]))
    moments = moments[np.diff(moments, prepend=-1.0) > 1e-6]
    rows = interpolated(np.array(times), np.array(positions), moments, "linear")
    return (np.round(1e9 * moments).astype(np.int64), rows), ""


class Timeline:
    """Sequence of trajectories on one time axis.

    A trajectory begins at its time of arrival. If the previous trajectory ends later, it begins shortly after that end.
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
        """Return the start [ns] of each trajectory, and its label at the time of arrival."""
        known = sorted(told)
        moments = [moment for moment, _ in known]
        rows = np.searchsorted(moments, self.arrivals, side="right") - 1
        names = [known[row][1] if row >= 0 else "" for row in rows]
        return list(zip(self.begins, names, strict=True))


def read_content(
    bag: Bag,
    joint_names: Sequence[str] | None,
    joint_topics: Sequence[str],
    label_topic: str | None,
    vector_topics: Collection[str],
    cuts: Cuts,
) -> BagContent:
    """Read joint positions, labels and vectors from a bag.

    By default, the joints of the first joint state are read, and all joint states must contain them. The default topics
    are all topics of joint states, and the label topic if there is only one. Vector topics contain poses, points or
    lists of numbers.

    If several publishers each send only some of the requested joints, on one or several topics, their joint states are
    merged; see `merged`. `DataError` is raised if a topic is missing or has another type, if a requested joint has no
    publisher, or if several topics have the same joints.
    """
    if joint_topics:
        joint_topics = [_known(bag, topic, (JOINT_STATE, TRAJECTORY)) for topic in joint_topics]
        if len({bag.topics[topic] for topic in joint_topics}) > 1:
            raise DataError(
                "joint states and trajectories cannot be merged: select topics of one of these types", joint_topics
            )
    else:  # prefer joint states, because trajectories are only commands
        joint_topics = bag.topics_of(JOINT_STATE) or bag.topics_of(TRAJECTORY)
    if not joint_topics:
        listed = ", ".join(bag.topics) or "none"
        raise DataError(
            f"{bag.path} has no topic of joint states or trajectories; its topics are {listed}", str(bag.path)
        )
    for topic in vector_topics:
        _known(bag, topic, tuple(VECTORS))
    label_topic = _label_topic(bag, label_topic)
    reader = _Reader(bag, joint_names, set(vector_topics), label_topic, cuts)
    for topic, arrival, message in bag.messages([*joint_topics, *vector_topics, *filter(None, [label_topic])]):
        reader.add(topic, arrival, message)
    return reader.content(joint_topics)


class _Publisher:
    """Joint states or trajectories with the same joints on one topic, usually from one publisher."""

    def __init__(self, topic: str, joint_names: Sequence[str]) -> None:
        self.topic = topic
        self.matcher = JointMatcher(joint_names)
        self.states = GrowingSeries()
        self.trajectories = Timeline()
        self.dropped = Counter[str]()
        self.finite = set(joint_names)  # joints with finite positions in all messages

    @property
    def joint_names(self) -> tuple[str, ...]:
        return self.matcher.joint_names

    @property
    def n_usable(self) -> int:
        return len(self.states) or len(self.trajectories.begins)

    def __str__(self) -> str:
        return f"{', '.join(self.joint_names)} of {self.topic}"


class _Reader:
    def __init__(
        self,
        bag: Bag,
        joint_names: Sequence[str] | None,
        vector_topics: set[str],
        label_topic: str | None,
        cuts: Cuts,
    ) -> None:
        self._bag, self._vector_topics, self._label_topic, self._cuts = bag, vector_topics, label_topic, cuts
        self._wanted = None if joint_names is None else tuple(joint_names)
        self._publishers: dict[tuple[str, frozenset[str]], _Publisher] = {}
        self._relevant: dict[
            tuple[str, ...], tuple[str, ...]
        ] = {}  # cache: requested joints among the names in a message
        self._vectors = {topic: GrowingSeries() for topic in vector_topics}
        self._labels: list[tuple[int, str]] = []
        self._dropped: dict[str, Counter[str]] = {}  # by topic

    def add(self, topic: str, arrival: int, message: Any) -> None:
        if topic == self._label_topic:
            self._labels.append((arrival, message.data))
        elif topic in self._vector_topics:
            self._add_vector(topic, arrival, message)
        elif self._bag.topics[topic] == TRAJECTORY:
            self._add_trajectory(topic, arrival, message)
        else:
            self._add_joints(topic, arrival, message)

    def content(self, joint_topics: Sequence[str]) -> BagContent:
        chosen = self._chosen(joint_topics)
        names = self._wanted or chosen[0].joint_names
        dropped = self._dropped_of(joint_topics, chosen)
        notes: list[str] = []
        labels = self._labels
        if len(chosen[0].trajectories.begins):
            timeline = chosen[0].trajectories
            times = np.concatenate(timeline.times)
            joints, labels = Series(times, times, np.concatenate(timeline.values)), timeline.labels(labels)
        else:
            joints = self._joints(chosen, names, dropped, notes)
        vectors = {}
        for name, rows in self._vectors.items():
            n_dims = len(rows.values[0]) if rows.values else 0
            vectors[name], left_out = rows.series(n_dims, self._cuts, self._bag.topics[name] == POSE)
            reasons = self._dropped.get(name, Counter()) + left_out
            dropped.update({f"{name}: {reason}": n for reason, n in reasons.items()})
        if self._bag.n_undecoded:
            dropped["messages that cannot be decoded"] = self._bag.n_undecoded
        return BagContent(names, joints, vectors, labels, dropped, notes)

    def _joints(
        self, chosen: Sequence[_Publisher], names: tuple[str, ...], dropped: Counter[str], notes: list[str]
    ) -> Series:
        """Return the joint states of the chosen publishers, merged if there are several."""
        found = []
        for publisher in chosen:
            joint_names = publisher.joint_names
            series, untimely = publisher.states.series(len(joint_names), self._cuts)
            series, wrong = without_spikes(series, joint_names, self._cuts.max_gap, self._cuts.held)
            dropped.update({f"joint states {reason}": n for reason, n in (untimely + wrong).items()})
            notes += [note if len(chosen) == 1 else f"{publisher}: {note}" for note in series.notes]
            found.append((str(publisher), joint_names, series))
        if len(found) == 1:
            return found[0][2]
        joints, told, left_out = merged(found, names, self._cuts.max_gap, self._cuts.held)
        notes += told
        dropped.update({f"joint states {reason}": n for reason, n in left_out.items()})
        if not len(joints):
            raise DataError(
                f"{self._bag.path}: the joint states of {' and '.join(map(str, chosen))} cannot be merged, because "
                f"no joint state is complete: {', '.join(f'{n} {reason}' for reason, n in left_out.items())}",
                names,
            )
        return joints

    def _chosen(self, joint_topics: Sequence[str]) -> list[_Publisher]:
        """Return publishers that together have all requested joints. The publisher with the most joints is the
        first.
        """
        path, publishers = self._bag.path, list(self._publishers.values())
        usable = [publisher for publisher in publishers if publisher.n_usable]
        if self._wanted is None:
            if len(publishers) > 1:
                raise self._ambiguous(publishers)
            chosen, missing = usable, list[str]()
        else:
            chosen, missing = self._covering(usable, list(self._wanted))
        if missing or not chosen:
            reasons = self._dropped_of(joint_topics, [], is_short=True)
            why = ", ".join(f"{n} {reason}" for reason, n in reasons.most_common(5)) or "its topics have no messages"
            wanted = f" of {', '.join(self._wanted)}" if self._wanted else ""
            remedy = ""
            if self._wanted is None and publishers and 0 < len(publishers[0].finite) < len(publishers[0].joint_names):
                finite = [name for name in publishers[0].joint_names if name in publishers[0].finite]
                remedy = f"; select joints whose positions are finite (--joints {','.join(finite)})"
            raise DataError(f"{path} has no usable {self._kind(joint_topics[0])}{wanted}: {why}{remedy}", str(path))
        return chosen

    def _covering(self, usable: list[_Publisher], missing: list[str]) -> tuple[list[_Publisher], list[str]]:
        """Choose publishers until no joint is missing.

        Publishers with more of the requested joints are chosen first; held joints do not count. If several publishers
        have equally many joints, the publisher with more messages is chosen first. If several publishers have a joint,
        the positions of the first chosen publisher are used.
        """
        chosen: list[_Publisher] = []

        def order(each: _Publisher) -> tuple[int, int, int]:
            n_joints, n_held = len(each.joint_names), int(self._cuts.is_held(each.joint_names).sum())
            return n_held - n_joints, -n_joints, -each.n_usable

        for publisher in sorted(usable, key=order):
            if len(publisher.trajectories.begins) and len(publisher.joint_names) < len(self._wanted or ()):
                continue  # trajectories cannot be merged, because each is a separate motion
            rivals = [each.topic for each in usable if each.topic != publisher.topic and _same_joints(each, publisher)]
            if missing and set(missing) & set(publisher.joint_names):
                if rivals:
                    raise self._on_several_topics([publisher.topic, *rivals])
                chosen.append(publisher)
                missing = [name for name in missing if name not in publisher.joint_names]
        return chosen, missing

    def _on_several_topics(self, topics: list[str]) -> DataError:
        listed = sorted(topics)
        return DataError(
            f"{self._bag.path} has the same joints on several topics, {', '.join(listed)}: select one of them with "
            "--joint-topic",
            listed,
        )

    def _ambiguous(self, publishers: list[_Publisher]) -> DataError:
        """Return the error for joint states of several publishers if no joints were requested."""
        topics = list(dict.fromkeys(publisher.topic for publisher in publishers))
        if all(_same_joints(publisher, publishers[0]) for publisher in publishers):
            return self._on_several_topics(topics)
        kind = self._kind(topics[0])
        names = list(dict.fromkeys(name for publisher in publishers for name in publisher.joint_names))
        where = f"on {topics[0]}" if len(topics) == 1 else f"on several topics, {', '.join(topics)}"
        groups = "; ".join(str(publisher) for publisher in publishers[:4])
        more = "" if len(publishers) <= 4 else f"; and {len(publishers) - 4} more"
        return DataError(
            f"{self._bag.path}: it has {kind} of different joints {where} ({groups}{more}). If they belong to "
            f"one robot, merge them with --joints {','.join(names)} or --robot; otherwise select a topic with "
            "--joint-topic",
            names,
        )

    def _dropped_of(
        self, joint_topics: Sequence[str], chosen: Sequence[_Publisher], is_short: bool = False
    ) -> Counter[str]:
        """Return the number of joint states or trajectories that are not used, for each reason."""
        dropped = sum((self._dropped.get(topic, Counter()) for topic in joint_topics), Counter[str]())
        for publisher in self._publishers.values():
            dropped += publisher.dropped
            lacking = [name for name in self._wanted or () if name not in publisher.joint_names]
            if publisher.n_usable and publisher not in chosen:
                dropped[f"without {', '.join(lacking)}"] += publisher.n_usable
        if is_short:
            return dropped
        kind = self._kind(joint_topics[0])
        return Counter({f"{kind} {reason}": n for reason, n in dropped.items()})

    def _add_joints(self, topic: str, arrival: int, message: Any) -> None:
        publisher = self._publisher(topic, message.name)
        if publisher is None:
            return
        values, problem = publisher.matcher.match(message.name, message.position)
        if values is not None:
            publisher.states.add(arrival, message.header, values)
            return
        publisher.dropped[f"in which {problem}" if problem.endswith(NOT_FINITE) else problem] += 1
        if len(message.name) == len(message.position):
            positions = zip(message.name, np.asarray(message.position, dtype=np.float64), strict=True)
            publisher.finite &= {name for name, position in positions if abs(position) < LARGEST_POSITION}

    def _add_trajectory(self, topic: str, arrival: int, message: Any) -> None:
        publisher = self._publisher(topic, message.joint_names)
        if publisher is None:
            return
        rows, problem = trajectory_rows(message, publisher.matcher)
        if rows is None:
            publisher.dropped[problem] += 1
        else:
            publisher.trajectories.add(arrival, rows)

    def _publisher(self, topic: str, names: Sequence[str]) -> _Publisher | None:
        """Return the publisher of the requested joints among these names on a topic; by default, of all names."""
        key = tuple(names)
        if key not in self._relevant:
            relevant = key if self._wanted is None else tuple(name for name in self._wanted if name in key)
            self._relevant[key] = relevant
        relevant = self._relevant[key]
        if not relevant:
            self._drop(topic, "without names" if self._wanted is None else OTHER_JOINTS)
            return None
        joints = topic, frozenset(relevant)
        if joints not in self._publishers:
            self._publishers[joints] = _Publisher(topic, relevant)
        return self._publishers[joints]

    def _add_vector(self, topic: str, arrival: int, message: Any) -> None:
        kind, rows = self._bag.topics[topic], self._vectors[topic]
        header = None if kind == NUMBERS else message.header
        values = np.asarray(VECTORS[kind](message), dtype=np.float64)
        if not np.isfinite(values).all() or (kind == POSE and np.abs(values).max() >= LARGEST_POSITION):
            self._drop(topic, NOT_FINITE)
        elif kind == POSE and abs(np.linalg.norm(values[3:]) - 1.0) > QUATERNION_TOLERANCE:
            self._drop(topic, "whose quaternion does not have length 1")
        elif rows.values and len(values) != len(rows.values[0]):
            self._drop(topic, f"with {len(values)} numbers instead of {len(rows.values[0])}")
        elif rows.values and header is not None and header.frame_id != rows.frame:
            self._drop(topic, f"in frame '{header.frame_id}' instead of '{rows.frame}'")
        else:
            rows.add(arrival, header, values)

    def _kind(self, topic: str) -> str:
        return "trajectories" if self._bag.topics[topic] == TRAJECTORY else "joint states"

    def _drop(self, topic: str, reason: str) -> None:
        self._dropped.setdefault(topic, Counter())[reason] += 1


def _same_joints(one: _Publisher, other: _Publisher) -> bool:
    return set(one.joint_names) == set(other.joint_names)


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
            f"{bag.path} has labels on several topics, {', '.join(found)}: select one of them with --label-topic", found
        )
    return found[0] if found else None


def read_table(path: Path, joint_names: Sequence[str] | None, cuts: Cuts | None = None) -> BagContent:
    """Read a CSV or NPZ table as a bag content without other topics.

    Rows with spikes are dropped; see `eim_ros.bags.series.spikes`. The joints have the order of `joint_names`, or by
    default the order of the table. `DataError` is raised if the table cannot be read or is invalid. Its message names
    the column, line or joint.
    """
    try:
        times, positions, names, labels = _csv(path) if path.suffix == ".csv" else _npz(path)
    except (OSError, csv.Error, *ARCHIVE_ERRORS) as error:
        raise DataError(f"{path} cannot be read: {error}", str(path)) from error
    if missing := [name for name in joint_names or () if name not in names]:
        raise DataError(f"{path} has no joint {missing[0]}; its joints are {', '.join(names)}", missing)
    if not len(times):
        raise DataError(f"{path} has no rows of data: give a table with at least one row", str(path))
    wanted = list(joint_names or names)
    positions = positions[:, [names.index(name) for name in wanted]]
    usable = np.isfinite(times) & (np.abs(positions) < LARGEST_POSITION).all(axis=1)
    if np.abs(times[usable]).max(initial=0.0) > LARGEST_TIME:
        raise DataError(f"{path}: times must be in seconds, got {times[usable].max():g}", float(times[usable].max()))
    clock = np.round(1e9 * times[usable]).astype(np.int64)
    if (np.diff(clock) < 0).any():
        row = int(np.flatnonzero(np.diff(clock) < 0)[0]) + 1
        raise DataError(
            f"{path}: its time goes backwards after {clock[row - 1] * 1e-9:.3f} s: sort its rows by time", row
        )
    if not len(clock):
        raise DataError(f"{path} has no row with finite numbers only: replace its NaN and infinite numbers", str(path))
    kept = [label for label, is_usable in zip(labels, usable, strict=True) if is_usable] if labels else []
    told = [(int(clock[i]), kept[i]) for i in range(len(kept)) if i == 0 or kept[i] != kept[i - 1]]
    dropped = Counter({"rows not finite": int(np.sum(~usable))} if not usable.all() else {})
    cuts = cuts or Cuts()
    joints, wrong = without_spikes(Series(clock, clock, positions[usable]), tuple(wanted), cuts.max_gap, cuts.held)
    dropped.update({f"rows {reason}": n for reason, n in wrong.items()})
    return BagContent(tuple(wanted), joints, {}, told, dropped)


def _csv(path: Path) -> Columns:
    with path.open(newline="", encoding="utf-8-sig") as file:
        lines = csv.reader(file)
        header = [name.strip() for name in next(lines, [])]
        if TIME not in header:
            raise ValueError(
                f"its first line must contain the names of the columns, with a column {TIME!r}, got "
                f"{','.join(header)!r}"
            )
        if len(set(header)) < len(header):
            raise ValueError(
                f"several columns are named {next(name for name in header if header.count(name) > 1)!r}: rename them"
            )
        names = [name for name in header if name not in (TIME, LABEL)]
        numbers = [header.index(name) for name in (TIME, *names)]
        rows, labels = [], []
        for line in lines:
            if not line:
                continue
            if len(line) != len(header):
                raise ValueError(f"line {lines.line_num} has {len(line)} columns, but the first line has {len(header)}")
            try:
                rows.append([float(line[index]) for index in numbers])
            except ValueError as error:
                raise ValueError(f"line {lines.line_num}: {error}") from error
            if LABEL in header:
                labels.append(line[header.index(LABEL)].strip())
    if not names:
        raise ValueError(f"it has no column of a joint; its columns are {', '.join(header)}")
    table = np.array(rows, dtype=np.float64).reshape(-1, len(numbers))
    return table[:, 0], table[:, 1:], names, labels


def _npz(path: Path) -> Columns:
    if not zipfile.is_zipfile(path):
        raise ValueError("it is not an .npz archive")
    with np.load(path, allow_pickle=False) as archive:
        if missing := [name for name in (TIME, "positions", "joint_names") if name not in archive.files]:
            held = ", ".join(archive.files) or "nothing"
            more = (
                "; it is a data set, which needs no import" if {"sample", "description"} <= set(archive.files) else ""
            )
            raise ValueError(f"it has no array {', '.join(missing)}, only {held}{more}")
        times, positions = (np.asarray(archive[name], dtype=np.float64) for name in (TIME, "positions"))
        names = [str(name) for name in np.atleast_1d(archive["joint_names"])]
        labels = [str(label) for label in archive[LABEL]] if LABEL in archive.files else []
    if times.ndim != 1 or positions.shape != (len(times), len(names)) or (labels and len(labels) != len(times)):
        shapes: Any = times.shape, positions.shape, len(names), len(labels)
        raise ValueError(
            f"the shapes of time (n,), positions (n, n_joints), joint_names and label do not match: {shapes}"
        )
    return times, positions, names, labels
