"""What the imports of motions and of pairs share: what is wanted of the bags, and reading one.

What `eim import` used of which bag, and what it left out and why.
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
from eim_ros.bags.reader import open_bag
from eim_ros.bags.segmentation import SECOND, Cuts, Piece, Segment, segments_of
from eim_ros.core.errors import DataError
from eim_ros.kinematics import Robot


@dataclasses.dataclass
class SegmentReport:
    """One segment: how much of it was used, or why nothing was.

    Attributes
    ----------
    label : str
    duration : float
        Of what was used or refused [s].
    n_messages : int
        Joint states in it.
    n_used : int
        Motions or pairs made of it.
    reason : str
        Why it, or a part of it, was left out; otherwise empty.
    """

    label: str
    duration: float
    n_messages: int
    n_used: int = 0
    reason: str = ""


@dataclasses.dataclass
class BagReport:
    """One bag.

    Attributes
    ----------
    path : str
    error : str
        Why nothing of it was used; otherwise empty.
    notes : list of str
        What else is to be known, such as that it was cut off.
    segments : list of SegmentReport
    dropped : Counter
        Messages left out, by reason.
    """

    path: str
    error: str = ""
    notes: list[str] = dataclasses.field(default_factory=list)
    segments: list[SegmentReport] = dataclasses.field(default_factory=list)
    dropped: Counter[str] = dataclasses.field(default_factory=Counter)

    @property
    def n_used(self) -> int:
        """Motions or pairs made of it."""
        return sum(segment.n_used for segment in self.segments)

    def to_json(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return {**dataclasses.asdict(self), "dropped": dict(self.dropped), "n_used": self.n_used}


def lines(report: BagReport, what: str) -> list[str]:
    """For people; `what` was made, such as "motions"."""
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


LIMIT_TOLERANCE = 1e-6  # [rad] or [m]


@dataclass(frozen=True, eq=False)
class Selection:
    """What of the bags is wanted.

    Attributes
    ----------
    joint_names : tuple of str, optional
        Default those of `robot`, else those of the first joint state.
    robot : Robot, optional
        Gives limits, and which joints are continuous.
    joint_topic, label_topic : str, optional
        Default the only ones.
    labels : tuple of str
        Only segments with one of these; empty: all.
    skipped_labels : tuple of str
        No segments with one of these.
    cuts : Cuts
    """

    joint_names: tuple[str, ...] | None = None
    robot: Robot | None = None
    joint_topic: str | None = None
    label_topic: str | None = None
    labels: tuple[str, ...] = ()
    skipped_labels: tuple[str, ...] = ()
    cuts: Cuts = field(default_factory=Cuts)

    def refuses(self, label: str) -> str:
        """Why a segment is not wanted; empty if it is."""
        if self.labels and label not in self.labels:
            return "label not asked for"
        return "label to be skipped" if label in self.skipped_labels else ""


def wanted_names(selection: Selection) -> tuple[str, ...] | None:
    """Joints, where they are known before a bag is read."""
    return selection.joint_names or (selection.robot.joint_names if selection.robot else None)


def read_bag(
    path: str | Path, selection: Selection, names: tuple[str, ...] | None, topics: Sequence[str]
) -> tuple[BagReport, BagContent | None, list[Segment]]:
    """Begin of a report, content and segments of a bag; no content, and the reason in the report, if it is unusable."""
    report = BagReport(str(path))
    try:
        if Path(path).suffix in TABLE_SUFFIXES:
            content = _table(Path(path), selection, names, topics)
        else:
            with open_bag(path) as bag:
                report.notes += bag.notes
                content = read_content(bag, names, selection.joint_topic, selection.label_topic, topics)
    except (DataError, OSError) as error:
        report.error = str(error)
        return report, None, []
    for step in content.joints.clock_steps:
        way = "back" if step < 0 else "forward"
        report.notes.append(f"the clock of its headers was set {way} by {abs(step) / SECOND:.3f} s: taken out")
    segments, dropped = segments_of(content, selection.cuts, selection.robot.continuous if selection.robot else None)
    report.dropped = content.dropped + dropped + sum((segment.dropped for segment in segments), Counter[str]())
    return report, content, segments


def _table(path: Path, selection: Selection, names: tuple[str, ...] | None, topics: Sequence[str]) -> BagContent:
    asked = [*filter(None, (selection.joint_topic, selection.label_topic)), *topics]
    if asked:
        raise DataError(f"{path} is a table and has no topic {asked[0]}", asked[0])
    return read_table(path, names)


def nothing_left(reports: list[BagReport], what: str) -> DataError:
    """Says why nothing could be used."""
    reasons = Counter[str]()
    for report in reports:
        if report.error:
            reasons[report.error] += 1
        reasons.update(f"segment '{segment.label}': {segment.reason}" for segment in report.segments if segment.reason)
        reasons.update({f"{n} {reason}": 1 for reason, n in report.dropped.items()})
    causes = "; ".join(reason for reason, _ in reasons.most_common(5)) or "the bags hold no segments"
    more = f"; and {len(reasons) - 5} more reasons" if len(reasons) > 5 else ""
    return DataError(f"no {what} is left of {len(reports)} bags: {causes}{more}", reports)


def told_of(segment: Segment) -> SegmentReport:
    """Begin of its report."""
    duration = (segment.end - segment.begin) / SECOND
    return SegmentReport(segment.label, duration, segment.n_messages)


def unwrapped(piece: Piece, selection: Selection) -> Piece:
    """Continuous joints do not jump by a full turn."""
    if selection.robot is None or not selection.robot.continuous.any():
        return piece
    positions = piece.positions.copy()
    columns = selection.robot.continuous
    positions[:, columns] = np.unwrap(positions[:, columns], axis=0)
    return Piece(piece.times, positions)
