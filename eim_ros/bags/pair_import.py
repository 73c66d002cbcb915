"""Import of bags as pairs of tip pose and configuration. Parts that cannot be used are skipped and reported."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from eim_ros.bags.content import BagContent, Series
from eim_ros.bags.segmentation import SECOND, Cuts, Piece, Segment
from eim_ros.bags.selection import (
    LIMIT_TOLERANCE,
    BagReport,
    Selection,
    nothing_left,
    read_bag,
    told_of,
    unwrapped,
    wanted_names,
)
from eim_ros.core.data_set import interpolated, interpolated_poses
from eim_ros.core.errors import DataError
from eim_ros.kinematics import Robot

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class PairForm:
    """Settings of the import of pairs.

    Attributes
    ----------
    pose_topic : str, optional
        Topic of the poses of the tip in the frame of the base link; default forward kinematics.
    rate : float, optional
        Pairs per second [Hz]; default one pair for each joint state.
    method : str
        Interpolation between joint states if `rate` is given: "linear" or "cubic".
    """

    pose_topic: str | None = None
    rate: float | None = None
    method: str = "linear"


def import_pairs(
    paths: Sequence[str | Path], selection: Selection, form: PairForm
) -> tuple[FloatArray, FloatArray, list[BagReport]]:
    """Import pairs of tip pose and configuration from all continuous pieces of all segments.

    Parameters
    ----------
    paths : sequence of str or Path
        Bags or tables.
    selection : Selection
        Which segments to read; it must have a robot.
    form : PairForm

    Returns
    -------
    poses : (n, 4, 4)
        Poses of the tip in the frame of the base link.
    configurations : (n, dof)
        [rad] or [m].
    reports : list of BagReport
        One for each bag.

    Raises
    ------
    DataError
        If no pair is left; then the value of the error is the list of reports. Also if there is no robot.

    Examples
    --------
    Pairs from a table of joint values, with poses by forward kinematics:

    >>> import numpy as np
    >>> from eim_ros import Robot
    >>> from eim_ros.bags.pair_import import PairForm, import_pairs
    >>> from eim_ros.bags.selection import Selection
    >>> robot, time = Robot("ur5e"), 0.1 * np.arange(10)
    >>> np.savez("table.npz", time=time, positions=np.outer(time, np.ones(6)), joint_names=robot.joint_names)
    >>> poses, configurations, reports = import_pairs(["table.npz"], Selection(robot=robot), PairForm())
    >>> poses.shape, configurations.shape, reports[0].n_used
    ((10, 4, 4), (10, 6), 10)
    """
    robot = selection.robot
    if robot is None:
        raise DataError("pairs of pose and configuration need a robot", None)
    reports: list[BagReport] = []
    poses: list[FloatArray] = []
    configurations: list[FloatArray] = []
    for path in paths:
        report, content, segments = read_bag(
            path, selection, wanted_names(selection), [form.pose_topic] if form.pose_topic else []
        )
        reports.append(report)
        if content is None:
            continue
        if form.pose_topic and (problem := _wrong_poses(content.vectors[form.pose_topic], form.pose_topic, robot)):
            report.error = problem
            continue
        differences: list[FloatArray] = []
        for segment in segments:
            told = told_of(segment)
            report.segments.append(told)
            told.reason = selection.refuses(segment.label)
            if told.reason:
                continue
            told.reason = "; ".join(segment.cuts) if segment.n_messages else "no joint states in it"
            origin = _origin(content, segment, selection.cuts)
            for piece in segment.pieces:
                reached, values = _pairs_of(piece, content, origin, robot, selection, form, report.dropped)
                poses.append(reached)
                configurations.append(values)
                told.n_used += len(values)
                if form.pose_topic and len(values):
                    offsets = reached[:, :3, 3] - robot.fk(values)[:, :3, 3]
                    differences.append(np.linalg.norm(offsets, axis=1))
            if not told.n_used and not told.reason:
                told.reason = "no pair is left"
        if differences:
            far = np.concatenate(differences)
            report.notes.append(
                f"positions of {form.pose_topic} differ from forward kinematics by {np.median(far):.3g} m (median), "
                f"{far.max():.3g} m (largest)"
            )
    if not sum(map(len, configurations)):
        raise nothing_left(reports, "pair")
    return np.concatenate(poses), np.concatenate(configurations), reports


def _wrong_poses(series: Series, topic: str, robot: Robot) -> str:
    if not len(series):
        return f"nothing came on {topic}"
    if not series.is_pose:
        return f"{topic} holds no poses"
    if series.frame and series.frame != robot.base_link:
        return f"poses of {topic} are in frame '{series.frame}', expected the base link '{robot.base_link}'"
    return ""


def _origin(content: BagContent, segment: Segment, cuts: Cuts) -> int:
    """Return the time that is 0 in the pieces of a segment [ns]."""
    inside = (content.joints.arrival >= segment.begin) & (content.joints.arrival < segment.end)
    clock = content.joints.arrival if cuts.use_arrival else content.joints.stamp
    return int(clock[inside][0]) if inside.any() else 0


def _pairs_of(
    piece: Piece,
    content: BagContent,
    origin: int,
    robot: Robot,
    selection: Selection,
    form: PairForm,
    dropped: Counter[str],
) -> tuple[FloatArray, FloatArray]:
    piece = unwrapped(piece, selection)
    moments, values = piece.times, piece.positions
    if form.rate is not None and len(piece.times) > 1:
        moments = np.arange(piece.times[0], piece.times[-1], 1.0 / form.rate)
        values = interpolated(piece.times, piece.positions, moments, form.method)
    values = np.where(robot.continuous, (values + math.pi) % (2.0 * math.pi) - math.pi, values)
    known = robot.within_limits(values, LIMIT_TOLERANCE)
    if n_outside := int(np.sum(~known)):
        dropped["configurations out of the robot's limits"] += n_outside
    if form.pose_topic is None:
        return robot.fk(values[known]), values[known]
    poses, near = _poses_at(content.vectors[form.pose_topic], origin, moments, selection.cuts)
    if n_alone := int(np.sum(known & ~near)):
        dropped[f"configurations without a pose within {selection.cuts.max_gap} s"] += n_alone
    return poses[known & near], values[known & near]


def _poses_at(series: Series, origin: int, moments: FloatArray, cuts: Cuts) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
    clock = series.arrival if cuts.use_arrival else series.stamp
    times = (clock - origin) / SECOND
    order = np.concatenate([[True], times[1:] > np.maximum.accumulate(times)[:-1]]) if len(times) else slice(0)
    return interpolated_poses(times[order], series.values[order], moments, cuts.max_gap)
