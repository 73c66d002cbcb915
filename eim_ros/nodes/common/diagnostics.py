"""What a node tells on `/diagnostics`: its state, and of a server how many requests ended in which way."""

from __future__ import annotations

import threading
from collections import Counter

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue

from eim_ros.nodes.common.interfaces import ERROR_NAMES

__all__ = ["AnswerCounters", "diagnostics"]


class AnswerCounters:
    """Counts of answers by error code and the time spent on them [s]; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: Counter[int] = Counter()
        self._last = 0.0
        self._longest = 0.0

    def count(self, code: int, elapsed: float) -> None:
        """One more answer."""
        with self._lock:
            self._answers[code] += 1
            self._last = elapsed
            self._longest = max(self._longest, elapsed)

    def facts(self) -> dict[str, str]:
        """Names and values for a diagnostic message."""
        with self._lock:
            by_code = {f"answers {ERROR_NAMES.get(code, code)}": str(n) for code, n in sorted(self._answers.items())}
            return {
                "answers": str(sum(self._answers.values())),
                **by_code,
                "last answer after [ms]": f"{1e3 * self._last:.3f}",
                "slowest answer after [ms]": f"{1e3 * self._longest:.3f}",
            }


def diagnostics(name: str, state: str, problem: str, warning: str, facts: dict[str, str]) -> DiagnosticArray:
    """Message with one status, which the node stamps.

    ERROR with a problem, WARN with a warning or while the node is not active, else OK.
    """
    level = DiagnosticStatus.OK
    if problem:
        level = DiagnosticStatus.ERROR
    elif warning or state != "active":
        level = DiagnosticStatus.WARN
    values = [KeyValue(key=key, value=value) for key, value in {"state": state, **facts}.items()]
    status = DiagnosticStatus(
        level=level, name=name, message=problem or warning or state, hardware_id="", values=values
    )
    return DiagnosticArray(status=[status])
