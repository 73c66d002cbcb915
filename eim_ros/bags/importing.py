"""Import of bags as motions with a fixed number of points, as episodes at a rate, or as pairs of pose and
configuration.

Each continuous segment is resampled to one motion or episode, or its joint states become pairs. Unusable segments are
skipped and reported.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eim_ros.bags import selection as bags
from eim_ros.bags.content import BagContent
from eim_ros.bags.description import Bounds, described_limits
from eim_ros.bags.merging import on_the_clock_of
from eim_ros.bags.segmentation import Piece, Segment
from eim_ros.bags.selection import LIMIT_TOLERANCE, BagReport, SegmentReport, Selection
from eim_ros.bags.series import SECOND, Series, ascending_rows, without_spikes
from eim_ros.core.arrays import BoolArray, FloatArray
from eim_ros.core.data_set import DataSet, interpolated, interpolated_poses
from eim_ros.core.errors import DataError
from eim_ros.core.files import finite
from eim_ros.kinematics import Robot

START_CONTEXT = "start"
ROUNDING = 1e-9  # [s], and as a relative tolerance


@dataclass(frozen=True)
class MotionForm:
    """Settings of the import of motions."""

    n_points: int = 50  # number of points of each motion, equally spaced in time
    method: str = "linear"  # "linear" or "cubic" interpolation; see `eim_ros.core.data_set.interpolated`
    # Sources of the context, in this order. "start" means the joint values at the start of the motion. Other sources
    # are topics with points, poses (only their positions) or lists of numbers. The latest value before the middle of
    # the segment is used. If there is none, the first value after the middle is used.
    contexts: tuple[str, ...] = ()
    min_duration: float = 0.1  # shorter motions are skipped [s]
    # motions are skipped if no joint moves by at least this, because the robot stands still [rad] or [m]
    min_displacement: float = 0.005
    # whether to remove the time before a joint has moved by `min_displacement`, and the time after all joints have
    # stopped
    trim: bool = False


def import_motions(
    paths: Sequence[str | Path], selection: Selection, form: MotionForm
) -> tuple[DataSet, list[BagReport]]:
    """Import one resampled motion from each continuous segment.

    Each path is the path of a bag or a table. `DataError` is raised if there is no usable motion. The value of this
    error is the list of reports.

    Returns
    -------
    data_set : DataSet
        `sample` (n, n_points * n_joints) contains the motions, point after point. `context` (n, n_context) may have no
        columns. The description has the entries "task" ("motion"), "source", "joint_names", "n_points", "durations"
        [s], "context_names", "labels", "lower", "upper" and "limits_source". The limits "lower" and "upper" come from
        the robot, or from the robot descriptions in the bags (None for a joint without limits). If neither is
        available, they are the range of each joint in the recording. "limits_source" is "robot" or "recording".
    reports : list of BagReport
        One for each bag.

    Examples
    --------
    Two motions from a table, one for each label:

    >>> import numpy as np
    >>> from eim_ros.bags.importing import MotionForm, import_motions
    >>> from eim_ros.bags.selection import Selection
    >>> time, label = 0.1 * np.arange(20), np.repeat(["reach", "return"], 10)
    >>> np.savez("table.npz", time=time, label=label, positions=time[:, None], joint_names=["elbow"])
    >>> data_set, reports = import_motions(["table.npz"], Selection(), MotionForm(n_points=5))
    >>> data_set.sample.shape, data_set.description["labels"]
    ((2, 5), ['reach', 'return'])
    """
    reports: list[BagReport] = []
    selection, notes = _with_limits(paths, selection)
    names: tuple[str, ...] | None = None
    motions: list[FloatArray] = []
    contexts: list[FloatArray] = []
    durations: list[float] = []
    labels: list[str] = []
    topics = [source for source in form.contexts if source != START_CONTEXT]
    context_names: list[str] = []
    for content, segment, piece, told in _pieces(paths, selection, form, topics, notes, reports):
        context, told.reason = _context(content, segment, form.contexts)
        if contexts and context is not None and len(context) != len(contexts[0]):
            told.reason = f"its context has {len(context)} numbers, but others have {len(contexts[0])}"
        if told.reason or context is None:
            continue
        names = content.joint_names
        moments = np.linspace(piece.times[0], piece.times[-1], form.n_points)
        motions.append(_resampled(piece, moments, form.method, selection.cuts.is_held(names)).ravel())
        context_names = _context_names(content, form.contexts)
        contexts.append(context)
        durations.append(piece.duration)
        labels.append(segment.label)
        told.n_used, told.duration = 1, piece.duration
    if not motions or names is None:
        raise bags.nothing_left(reports, "motion")
    samples = np.array(motions)
    bounds = selection.bounds(names)
    lower, upper = _limits(bounds, samples.reshape(-1, len(names)))
    description = {
        "task": "motion",
        "source": "bags",
        "joint_names": list(names),
        "n_points": form.n_points,
        "durations": durations,
        "context_names": context_names,
        "labels": labels,
        "lower": lower,
        "upper": upper,
        "limits_source": "robot" if bounds else "recording",
    }
    return DataSet(np.array(contexts).reshape(len(motions), -1), samples, description), reports


@dataclass(frozen=True)
class EpisodeForm:
    """Settings of the import of episodes. `MotionForm` explains settings without a comment."""

    rate: float = 30.0  # number of configurations per second [Hz]
    method: str = "linear"
    min_duration: float = 0.1
    min_displacement: float = 0.005
    trim: bool = False


@dataclass(frozen=True, eq=False)
class Episode:
    """Motion of any length: configurations (n, n_joints) [rad] or [m] at the rate of the form, and its label."""

    label: str
    positions: FloatArray


def import_episodes(
    paths: Sequence[str | Path], selection: Selection, form: EpisodeForm
) -> tuple[tuple[str, ...], list[Episode], list[BagReport]]:
    """Import one episode at a constant rate from each continuous segment.

    The time of configuration i is i / rate seconds after the start of the episode. Each path is the path of a bag or a
    table. `DataError` is raised if there is no usable episode. The value of this error is the list of reports.

    Returns
    -------
    joint_names : tuple of str
    episodes : list of Episode
    reports : list of BagReport
        One for each bag.

    Examples
    --------
    The gripper keeps each position until its next message, and the elbow is interpolated linearly:

    >>> import numpy as np
    >>> from eim_ros.bags.importing import EpisodeForm, import_episodes
    >>> from eim_ros.bags.selection import Selection
    >>> from eim_ros.bags.series import Cuts
    >>> time = np.array([0.0, 0.1, 0.2])
    >>> positions = np.column_stack([time, [0.0, 0.0, 1.0]])
    >>> np.savez("table.npz", time=time, positions=positions, joint_names=["elbow", "gripper"])
    >>> selection = Selection(cuts=Cuts(held=("gripper",)))
    >>> names, episodes, reports = import_episodes(["table.npz"], selection, EpisodeForm(rate=20.0))
    >>> episodes[0].positions.round(3).tolist()
    [[0.0, 0.0], [0.05, 0.0], [0.1, 0.0], [0.15, 0.0], [0.2, 1.0]]
    """
    reports: list[BagReport] = []
    selection, notes = _with_limits(paths, selection)
    names: tuple[str, ...] = ()
    episodes: list[Episode] = []
    for content, segment, piece, told in _pieces(paths, selection, form, [], notes, reports):
        names = content.joint_names
        n_rows = int(np.floor(piece.duration * form.rate * (1.0 + ROUNDING))) + 1
        moments = np.minimum(piece.times[0] + np.arange(n_rows) / form.rate, piece.times[-1])
        positions = _resampled(piece, moments, form.method, selection.cuts.is_held(names))
        episodes.append(Episode(segment.label, positions))
        told.n_used, told.duration = 1, piece.duration
    if not episodes:
        raise bags.nothing_left(reports, "episode")
    return names, episodes, reports


def _with_limits(paths: Sequence[str | Path], selection: Selection) -> tuple[Selection, dict[str, list[str]]]:
    """Return the selection with limits from the robot descriptions in the bags, and notes about each bag."""
    if selection.robot is not None:
        return selection, {}
    limits, notes = described_limits(paths)
    return dataclasses.replace(selection, limits=limits), notes


def _pieces(
    paths: Sequence[str | Path],
    selection: Selection,
    form: MotionForm | EpisodeForm,
    topics: Sequence[str],
    notes: dict[str, list[str]],
    reports: list[BagReport],
) -> Iterator[tuple[BagContent, Segment, Piece, SegmentReport]]:
    """Yield the usable segments with their motions, and append the report on each bag.

    To reject a segment, the caller sets a reason in its report. The first segment that is used determines the joints.
    """
    names = bags.wanted_names(selection)
    for path in paths:
        report, content, segments = bags.read_bag(path, selection, names, topics)
        report.notes += notes.get(str(path), [])
        reports.append(report)
        if content is None:
            continue
        bounds = selection.bounds(content.joint_names)
        for segment in segments:
            told = bags.told_of(segment)
            report.segments.append(told)
            told.reason = (
                selection.refuses(segment.label) or _no_motion(segment, form) or _out_of_limits(segment, bounds)
            )
            if told.reason:
                continue
            piece = bags.unwrapped(segment.pieces[0], bounds)
            yield content, segment, _without_rest(piece, form.min_displacement) if form.trim else piece, told
            if not told.reason:
                names = names or content.joint_names


def _resampled(piece: Piece, moments: FloatArray, method: str, is_held: BoolArray) -> FloatArray:
    """Return the positions (n, n_joints) at other times. A held joint has its latest position before each time."""
    positions = interpolated(piece.times, piece.positions, moments, method)
    rows = np.searchsorted(piece.times, moments + ROUNDING, side="right") - 1
    return np.where(is_held, piece.positions[rows], positions)


def _no_motion(segment: Segment, form: MotionForm | EpisodeForm) -> str:
    if not segment.n_messages:
        return "it has no joint states"
    if segment.cuts:
        return f"not continuous: {segment.problem}"
    (piece,) = segment.pieces
    if len(piece.times) < 2 or piece.duration < form.min_duration:
        found = f"{len(piece.times)} joint states within {piece.duration:.3f} s"
        return f"it has only {found}, which is less than {form.min_duration} s{segment.hint}"
    moved = float(np.ptp(piece.positions, axis=0).max())
    if moved < form.min_displacement:
        return f"the robot does not move: the largest change of a joint is {moved:.2g}"
    return ""


def _without_rest(piece: Piece, displacement: float) -> Piece:
    """Return the rows from the start to the end of the motion, or all rows if there is no motion."""
    first, last = piece.positions[0], piece.positions[-1]
    left = np.abs(piece.positions - first).max(axis=1) >= displacement
    away = np.abs(piece.positions - last).max(axis=1) >= displacement
    begin = max(int(np.argmax(left)) - 1, 0)
    end = len(away) - int(np.argmax(away[::-1])) if away.any() else len(away) - 1
    if end <= begin:  # all rows are near the first or the last position
        return piece
    return Piece(piece.times[begin : end + 1], piece.positions[begin : end + 1])


def _out_of_limits(segment: Segment, bounds: Bounds | None) -> str:
    if bounds is None:
        return ""
    positions = segment.pieces[0].positions
    outside = np.maximum(bounds.lower - positions, positions - bounds.upper).max(axis=0)
    worst = int(np.argmax(outside))
    if outside[worst] <= LIMIT_TOLERANCE:
        return ""
    return f"{bounds.joint_names[worst]} exceeds its limits by {outside[worst]:.3g}"


def _limits(bounds: Bounds | None, positions: FloatArray) -> tuple[list[Any], list[Any]]:
    """Return the limits of the joints, or the range of the positions (n, n_joints) if the limits are unknown."""
    if bounds is None:
        return positions.min(axis=0).tolist(), positions.max(axis=0).tolist()
    return finite(bounds.lower), finite(bounds.upper)


def _context(content: BagContent, segment: Segment, sources: Sequence[str]) -> tuple[FloatArray | None, str]:
    parts = []
    for source in sources:
        if source == START_CONTEXT:
            parts.append(segment.pieces[0].positions[0])
            continue
        series = content.vectors[source]
        middle = (segment.begin + segment.end) // 2
        before = int(np.searchsorted(series.arrival, middle, side="right")) - 1
        row = before if before >= 0 else 0
        if not len(series) or series.arrival[row] >= segment.end:
            return None, f"no message arrived on {source} before its end"
        parts.append(_position(series)[row])
    return np.concatenate(parts) if parts else np.zeros(0), ""


def _context_names(content: BagContent, sources: Sequence[str]) -> list[str]:
    names: list[str] = []
    for source in sources:
        if source == START_CONTEXT:
            names += [f"{START_CONTEXT}.{joint}" for joint in content.joint_names]
            continue
        n_columns = _position(content.vectors[source]).shape[1]
        columns = "xyz" if n_columns == 3 else range(n_columns)
        names += [f"{source}.{column}" for column in columns]
    return names


def _position(series: Series) -> FloatArray:
    """Return the values of a series, or only the positions if they are poses."""
    return series.values[:, :3] if series.is_pose else series.values


@dataclass(frozen=True)
class PairForm:
    """Settings of the import of pairs."""

    # topic with poses of the tip in the frame of the base link; by default, forward kinematics computes the poses
    pose_topic: str | None = None
    rate: float | None = None  # pairs per second [Hz]; by default, one pair for each joint state
    method: str = "linear"  # interpolation between joint states if `rate` is given: "linear" or "cubic"


def import_pairs(
    paths: Sequence[str | Path], selection: Selection, form: PairForm
) -> tuple[FloatArray, FloatArray, list[BagReport]]:
    """Import pairs of tip pose and configuration from all continuous pieces of all segments.

    The paths are bags or tables. `DataError` is raised if there is no robot or no usable pair. If no pair is usable,
    the value of this error is the list of reports.

    Returns
    -------
    poses : (n, 4, 4)
        Poses of the tip in the frame of the base link.
    configurations : (n, dof)
        Joint positions [rad] or [m].
    reports : list of BagReport
        One for each bag.

    Examples
    --------
    Pairs from a table of joint values, with poses by forward kinematics:

    >>> import numpy as np
    >>> from eim_ros import Robot
    >>> from eim_ros.bags.importing import PairForm, import_pairs
    >>> from eim_ros.bags.selection import Selection
    >>> robot, time = Robot("ur5e"), 0.1 * np.arange(10)
    >>> np.savez("table.npz", time=time, positions=np.outer(time, np.ones(6)), joint_names=robot.joint_names)
    >>> poses, configurations, reports = import_pairs(["table.npz"], Selection(robot=robot), PairForm())
    >>> poses.shape, configurations.shape, reports[0].n_used
    ((10, 4, 4), (10, 6), 10)
    """
    robot = selection.robot
    if robot is None:
        raise DataError("pairs of pose and configuration need a robot: give --robot", None)
    reports: list[BagReport] = []
    poses: list[FloatArray] = []
    configurations: list[FloatArray] = []
    for path in paths:
        report, content, segments = bags.read_bag(
            path, selection, bags.wanted_names(selection), [form.pose_topic] if form.pose_topic else []
        )
        reports.append(report)
        if content is None:
            continue
        if form.pose_topic and (problem := _wrong_poses(content.vectors[form.pose_topic], form.pose_topic, robot)):
            report.error = problem
            continue
        poses_of_tip = _tip_poses(content, form.pose_topic, selection, report) if form.pose_topic else None
        differences: list[FloatArray] = []
        for segment in segments:
            told = bags.told_of(segment)
            report.segments.append(told)
            told.reason = selection.refuses(segment.label)
            if told.reason:
                continue
            told.reason = segment.problem if segment.n_messages else "it has no joint states"
            origin = _origin(content, segment)
            for piece in segment.pieces:
                reached, values = _pairs_of(piece, poses_of_tip, origin, robot, selection, form, report.dropped)
                poses.append(reached)
                configurations.append(values)
                told.n_used += len(values)
                if form.pose_topic and len(values):
                    offsets = reached[:, :3, 3] - robot.fk(values)[:, :3, 3]
                    differences.append(np.linalg.norm(offsets, axis=1))
            if not told.n_used and not told.reason:
                told.reason = "all of its configurations are outside the limits or have no pose near them"
        if differences:
            far = np.concatenate(differences)
            report.notes.append(
                f"positions of {form.pose_topic} differ from forward kinematics by {np.median(far):.3g} m in "
                f"the median and by at most {far.max():.3g} m"
            )
    if not sum(map(len, configurations)):
        raise bags.nothing_left(reports, "pair")
    return np.concatenate(poses), np.concatenate(configurations), reports


def _wrong_poses(series: Series, topic: str, robot: Robot) -> str:
    if not len(series):
        return f"no message arrived on {topic}"
    if not series.is_pose:
        return f"the messages on {topic} are not poses"
    if series.frame and series.frame != robot.base_link:
        return f"poses on {topic} are in frame '{series.frame}', expected the base link '{robot.base_link}'"
    return ""


def _tip_poses(content: BagContent, topic: str, selection: Selection, report: BagReport) -> Series:
    """Return the poses of a topic without spikes of their positions, on the clock of the joint states."""
    series, dropped = without_spikes(content.vectors[topic], ("x", "y", "z"), selection.cuts.max_gap)
    report.dropped.update({f"{topic}: poses {reason}": n for reason, n in dropped.items()})
    series, difference = on_the_clock_of(series, content.joints)
    if difference:
        way = "ahead of" if difference > 0.0 else "behind"
        report.notes.append(
            f"corrected the clock of {topic}, which is {abs(difference):.3f} s {way} that of the joints"
        )
    return series


def _origin(content: BagContent, segment: Segment) -> int:
    """Return the time [ns] that corresponds to time 0 in the pieces of a segment."""
    inside = (content.joints.arrival >= segment.begin) & (content.joints.arrival < segment.end)
    return int(content.joints.stamp[inside][0]) if inside.any() else 0


def _pairs_of(
    piece: Piece,
    poses_of_tip: Series | None,
    origin: int,
    robot: Robot,
    selection: Selection,
    form: PairForm,
    dropped: Counter[str],
) -> tuple[FloatArray, FloatArray]:
    piece = bags.unwrapped(piece, Bounds.of_robot(robot))
    moments, values = piece.times, piece.positions
    if form.rate is not None and len(piece.times) > 1:
        moments = np.arange(piece.times[0], piece.times[-1], 1.0 / form.rate)
        values = _resampled(piece, moments, form.method, selection.cuts.is_held(robot.joint_names))
    values = np.where(robot.continuous, (values + math.pi) % (2.0 * math.pi) - math.pi, values)
    known = robot.within_limits(values, LIMIT_TOLERANCE)
    if n_outside := int(np.sum(~known)):
        dropped["configurations outside the robot's limits"] += n_outside
    if poses_of_tip is None:
        return robot.fk(values[known]), values[known]
    times = (poses_of_tip.stamp - origin) / SECOND
    rows = ascending_rows(times)
    poses, near = interpolated_poses(times[rows], poses_of_tip.values[rows], moments, selection.cuts.max_gap)
    if n_alone := int(np.sum(known & ~near)):
        dropped[f"configurations without a pose within {selection.cuts.max_gap} s"] += n_alone
    return poses[known & near], values[known & near]
