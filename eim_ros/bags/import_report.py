"""What `eim import` used of which bag, and what it left out and why."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

__all__ = ["BagReport", "SegmentReport", "lines"]


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
