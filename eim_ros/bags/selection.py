"""Code that the imports of motions and pairs share: selection, reading of one bag, and reports.

A report lists the segments of a bag that `eim import` used, and skipped segments with the reasons.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from eim_ros.bags.content import TABLE_SUFFIXES, BagContent, read_content, read_table
from eim_ros.bags.description import Bounds, Limits
from eim_ros.bags.reader import open_bag
from eim_ros.bags.segmentation import Piece, Segment, segments_of
from eim_ros.bags.series import SECOND, Cuts
from eim_ros.core.errors import DataError
from eim_ros.kinematics import Robot

LIMIT_TOLERANCE = 1e-6  # [rad] or [m]


@dataclasses.dataclass
class SegmentReport:
    """Report on one segment: the amount of used data, or the reason why nothing was used."""

    label: str
    duration: float  # duration of the used data, or of a rejected segment [s]
    n_messages: int  # number of joint states
    n_used: int = 0  # number of motions or pairs from this segment
    reason: str = ""  # reason why data of the segment were skipped; otherwise empty


@dataclasses.dataclass
class BagReport:
    """Report on one bag."""

    path: str
    error: str = ""  # reason why nothing was used; otherwise empty
    # remarks for the user, for example that the bag was truncated
    notes: list[str] = dataclasses.field(default_factory=list)
    segments: list[SegmentReport] = dataclasses.field(default_factory=list)
    dropped: Counter[str] = dataclasses.field(default_factory=Counter)  # number of skipped messages for each reason

    @property
    def n_used(self) -> int:
        """Number of motions or pairs from the bag."""
        return sum(segment.n_used for segment in self.segments)

    def to_json(self) -> dict[str, Any]:
        """Return the report as `--json` prints it."""
        return {**dataclasses.asdict(self), "dropped": dict(self.dropped), "n_used": self.n_used}


def lines(report: BagReport, what: str) -> list[str]:
    """Return the report as readable lines; `what` names the results, such as "motions"."""
    if report.error:
        return [f"{report.path}: dropped: {report.error}"]
    result = [f"{report.path}: {report.n_used} {what} from {len(report.segments)} segments"]
    result += [f"  {note}" for note in report.notes]
    for segment in report.segments:
        name = f"segment '{segment.label}' of {segment.duration:.2f} s"
        if not segment.n_used:
            result.append(f"  dropped {name}: {segment.reason}")
        elif segment.reason:
            result.append(f"  dropped a part of {name}: {segment.reason}")
    result += [f"  dropped {n} {reason}" for reason, n in report.dropped.most_common()]
    return result


@dataclass(frozen=True, eq=False)
class Selection:
    """Selection of joints, topics and segments to import from bags."""

    # requested joints; by default, the joints of `robot`, or of the first joint state without a robot
    joint_names: tuple[str, ...] | None = None
    robot: Robot | None = None  # robot that defines the limits and the continuous joints
    limits: Limits = field(default_factory=dict)  # joint limits by name, used without a robot
    joint_topics: tuple[str, ...] = ()  # by default, all topics of joint states; several topics are merged
    label_topic: str | None = None  # by default, the only suitable topic of the bag
    labels: tuple[str, ...] = ()  # labels of the segments to use; if empty, all segments are used
    skipped_labels: tuple[str, ...] = ()  # labels of segments to skip
    cuts: Cuts = field(default_factory=Cuts)

    def bounds(self, joint_names: Sequence[str]) -> Bounds | None:
        """Return the limits of the joints, or None if the limits are unknown."""
        return Bounds.of_robot(self.robot) if self.robot else Bounds.described(joint_names, self.limits)

    def refuses(self, label: str) -> str:
        """Return the reason why segments with this label are not used, or an empty text if they are used."""
        if self.labels and label not in self.labels:
            return "its label is not selected"
        return "its label is excluded" if label in self.skipped_labels else ""


def wanted_names(selection: Selection) -> tuple[str, ...] | None:
    """Return the requested joints, or None if they depend on the bag."""
    return selection.joint_names or (selection.robot.joint_names if selection.robot else None)


def read_bag(
    path: str | Path, selection: Selection, names: tuple[str, ...] | None, topics: Sequence[str]
) -> tuple[BagReport, BagContent | None, list[Segment]]:
    """Read one bag or table.

    Without `names`, the joints of the first joint state are read. `topics` are further topics to read.

    Returns
    -------
    report : BagReport
        Report on the bag; the caller adds the segments. If the bag is unusable, the report contains the reason.
    content : BagContent or None
        None if the bag is unusable.
    segments : list of Segment
    """
    report = BagReport(str(path))
    try:
        if Path(path).suffix in TABLE_SUFFIXES:
            content = _table(Path(path), selection, names, topics)
        else:
            with open_bag(path) as bag:
                report.notes += bag.notes
                content = read_content(
                    bag, names, selection.joint_topics, selection.label_topic, topics, selection.cuts
                )
    except (DataError, OSError) as error:
        report.error = str(error)
        return report, None, []
    report.notes += content.notes
    bounds = selection.bounds(content.joint_names)
    if missing := [name for name in selection.cuts.held if name not in content.joint_names]:
        report.error = f"there is no joint {missing[0]!r} to hold; the joints are {', '.join(content.joint_names)}"
        return report, None, []
    segments, dropped = segments_of(content, selection.cuts, bounds.continuous if bounds else None)
    report.dropped = content.dropped + dropped + sum((segment.dropped for segment in segments), Counter[str]())
    return report, content, segments


def _table(path: Path, selection: Selection, names: tuple[str, ...] | None, topics: Sequence[str]) -> BagContent:
    asked = [*filter(None, (*selection.joint_topics, selection.label_topic)), *topics]
    if asked:
        raise DataError(
            f"{path} is a table, which has no topics: leave out the topic {asked[0]}, or give a bag", asked[0]
        )
    return read_table(path, names, selection.cuts)


def nothing_left(reports: list[BagReport], what: str) -> DataError:
    """Return the error, with the most common reasons, for an import without results."""
    reasons = Counter[str]()
    for report in reports:
        if report.error:
            reasons[report.error] += 1
        reasons.update(f"segment '{segment.label}': {segment.reason}" for segment in report.segments if segment.reason)
        reasons.update({f"{n} {reason}": 1 for reason, n in report.dropped.items()})
    causes = "; ".join(reason for reason, _ in reasons.most_common(5)) or "the bags contain no segments"
    more = f"; and {len(reasons) - 5} more reasons" if len(reasons) > 5 else ""
    return DataError(f"{len(reports)} bags contain no usable {what}: {causes}{more}", reports)


def told_of(segment: Segment) -> SegmentReport:
    """Return the initial report on a segment before any part of it is used."""
    duration = (segment.end - segment.begin) / SECOND
    return SegmentReport(segment.label, duration, segment.n_messages)


def unwrapped(piece: Piece, bounds: Bounds | None) -> Piece:
    """Unwrap continuous joints, to remove jumps by a revolution."""
    if bounds is None or not bounds.continuous.any():
        return piece
    positions = piece.positions.copy()
    columns = bounds.continuous
    positions[:, columns] = np.unwrap(positions[:, columns], axis=0)
    return Piece(piece.times, positions)
