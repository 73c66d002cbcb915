"""Import of bags as motions of equal length.

Each continuous segment is resampled to one motion. Segments that cannot be used are skipped and reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from eim_ros.bags.content import BagContent, Series
from eim_ros.bags.segmentation import Segment
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
from eim_ros.core.data_set import DataSet, interpolated

START_CONTEXT = "start"

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class MotionForm:
    """Settings of the import of motions.

    Attributes
    ----------
    n_points : int
        Number of points of each motion, equally spaced in time.
    method : str
        Interpolation, "linear" or "cubic", see `eim_ros.core.data_set.interpolated`.
    contexts : tuple of str
        Sources of the context, in this order. "start" is the joint values at the start of the motion. Other sources are
        topics of points, poses (only their positions) or lists of numbers. Their value is the latest one at the middle
        of the segment, or else the first one after it.
    min_duration : float
        Shorter motions are skipped [s].
    min_displacement : float
        Motions in which every joint moves less than this are skipped, because the robot stands still [rad] or [m].
    """

    n_points: int = 50
    method: str = "linear"
    contexts: tuple[str, ...] = ()
    min_duration: float = 0.1
    min_displacement: float = 0.005


def import_motions(
    paths: Sequence[str | Path], selection: Selection, form: MotionForm
) -> tuple[DataSet, list[BagReport]]:
    """Import one resampled motion from each continuous segment.

    Parameters
    ----------
    paths : sequence of str or Path
        Bags or tables.
    selection : Selection
        Which segments and joints to read.
    form : MotionForm

    Returns
    -------
    data_set : DataSet
        `sample` (n, n_points * n_joints) contains the motions, point after point. `context` (n, n_context) may have no
        columns. The description has the entries "task" ("motion"), "source", "joint_names", "n_points", "durations"
        [s], "context_names", "labels", "lower" and "upper" (None for an unknown limit).
    reports : list of BagReport
        One for each bag.

    Raises
    ------
    DataError
        If no motion is left. The value of the error is the list of reports.

    Examples
    --------
    Two motions from a table, one for each label:

    >>> import numpy as np
    >>> from eim_ros.bags.motion_import import MotionForm, import_motions
    >>> from eim_ros.bags.selection import Selection
    >>> time, label = 0.1 * np.arange(20), np.repeat(["reach", "return"], 10)
    >>> np.savez("table.npz", time=time, label=label, positions=time[:, None], joint_names=["elbow"])
    >>> data_set, reports = import_motions(["table.npz"], Selection(), MotionForm(n_points=5))
    >>> data_set.sample.shape, data_set.description["labels"]
    ((2, 5), ['reach', 'return'])
    """
    reports: list[BagReport] = []
    names = wanted_names(selection)
    motions: list[FloatArray] = []
    contexts: list[FloatArray] = []
    durations: list[float] = []
    labels: list[str] = []
    topics = [source for source in form.contexts if source != START_CONTEXT]
    context_names: list[str] = []
    for path in paths:
        report, content, segments = read_bag(path, selection, names, topics)
        reports.append(report)
        if content is None:
            continue
        for segment in segments:
            told = told_of(segment)
            report.segments.append(told)
            told.reason = (
                selection.refuses(segment.label) or _no_motion(segment, form) or _out_of_limits(segment, selection)
            )
            if told.reason:
                continue
            context, told.reason = _context(content, segment, form.contexts)
            if contexts and context is not None and len(context) != len(contexts[0]):
                told.reason = f"its context has {len(context)} numbers, that of others {len(contexts[0])}"
            if told.reason or context is None:
                continue
            names = names or content.joint_names
            piece = unwrapped(segment.pieces[0], selection)
            moments = np.linspace(piece.times[0], piece.times[-1], form.n_points)
            motions.append(interpolated(piece.times, piece.positions, moments, form.method).ravel())
            context_names = _context_names(content, form.contexts)
            contexts.append(context)
            durations.append(piece.duration)
            labels.append(segment.label)
            told.n_used, told.duration = 1, piece.duration
    if not motions or names is None:
        raise nothing_left(reports, "motion")
    lower, upper = _limits(selection, len(names))
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
    }
    return DataSet(np.array(contexts).reshape(len(motions), -1), np.array(motions), description), reports


def _no_motion(segment: Segment, form: MotionForm) -> str:
    if not segment.n_messages:
        return "no joint states in it"
    if segment.cuts:
        more = f" and {len(segment.cuts) - 1} more" if len(segment.cuts) > 1 else ""
        return f"not continuous: {segment.cuts[0]}{more}"
    (piece,) = segment.pieces
    if len(piece.times) < 2 or piece.duration < form.min_duration:
        return f"{len(piece.times)} joint states within {piece.duration:.3f} s, shorter than {form.min_duration} s"
    moved = float(np.ptp(piece.positions, axis=0).max())
    if moved < form.min_displacement:
        return f"the robot stands still: no joint moves by more than {moved:.2g}"
    return ""


def _out_of_limits(segment: Segment, selection: Selection) -> str:
    robot = selection.robot
    if robot is None:
        return ""
    positions = segment.pieces[0].positions
    outside = np.maximum(robot.lower - positions, positions - robot.upper).max(axis=0)
    outside[robot.continuous] = 0.0
    worst = int(np.argmax(outside))
    if outside[worst] <= LIMIT_TOLERANCE:
        return ""
    return f"{robot.joint_names[worst]} is out of its limits by {outside[worst]:.3g}"


def _limits(selection: Selection, n_joints: int) -> tuple[list[Any], list[Any]]:
    robot = selection.robot
    if robot is None:
        return [None] * n_joints, [None] * n_joints
    bounds = [
        [None if is_continuous else float(limit) for limit, is_continuous in zip(limits, robot.continuous, strict=True)]
        for limits in (robot.lower, robot.upper)
    ]
    return bounds[0], bounds[1]


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
            return None, f"nothing came on {source} until its end"
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
    """Return the values of a series; for poses only the positions."""
    return series.values[:, :3] if series.is_pose else series.values
