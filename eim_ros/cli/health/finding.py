"""What a check has found."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FAULT", "GOOD", "MISSING", "Finding", "one_line"]

GOOD, MISSING, FAULT = "ok", "missing", "fault"


@dataclass(frozen=True)
class Finding:
    """One line of the report.

    Attributes
    ----------
    area : str
        What was looked at.
    state : {"ok", "missing", "fault"}
        Missing is what only some need: nothing is broken.
    told : str
        What was found.
    cure : str
        What to do about it; empty where all is well.
    """

    area: str
    state: str
    told: str
    cure: str = ""


def one_line(error: BaseException) -> str:
    """Of an exception: its last words, without line ends, or its name."""
    return " ".join(str(error).split())[-300:] or type(error).__name__
