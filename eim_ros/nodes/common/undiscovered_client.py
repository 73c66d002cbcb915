"""Answers to clients that the server has not discovered yet: sent again until it has.

A request may arrive before the server knows the reader for its answer, as nodes discover each of them by itself; on a
busy machine this happened to one of four clients that asked at once. The middleware then waits for .1 s and drops the
answer, and rclpy merely warns ("failed to send response (timeout): client will not receive response").
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable

from rclpy.logging import get_logger

__all__ = ["send_to_undiscovered", "watch_for_undiscovered"]

PAUSES = (0.1, 0.2, 0.4, 0.8, 1.6)  # [s] after which it is tried again
_WARNING = "failed to send response"


def watch_for_undiscovered() -> None:
    """Have rclpy raise in place of that warning, in this process."""
    warnings.filterwarnings("error", message=_WARNING, category=RuntimeWarning)


def send_to_undiscovered(send: Callable[[], None], send_later: Callable[[], None] | None = None) -> None:
    """Send an answer; where its client is not known yet, again from a thread of its own.

    Parameters
    ----------
    send : callable
        Sends the answer, from whichever thread; may raise what it likes.
    send_later : callable, optional
        Does so from that thread, where this takes something else than `send`.
    """
    if not _is_sent(send):
        threading.Thread(target=_send_again, args=(send_later or send,), name="answer-again", daemon=True).start()


def _send_again(send: Callable[[], None]) -> None:
    for pause in PAUSES:
        time.sleep(pause)
        try:
            if _is_sent(send):
                return
        except Exception:  # the service was destroyed meanwhile
            return
    get_logger("eim_ros").warning("an answer was dropped: its client was not discovered in time")


def _is_sent(send: Callable[[], None]) -> bool:
    try:
        send()
    except (RuntimeWarning, SystemError) as error:
        told = error.__cause__ or error  # CPython's way to tell of an exception beside a result, as rclpy 9 leaves it
        if isinstance(told, RuntimeWarning) and _WARNING in str(told):
            return False
        raise
    return True
