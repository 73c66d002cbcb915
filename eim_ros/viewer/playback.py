"""A slider over time, and a button that moves it as time goes by."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import viser

__all__ = ["Playback", "by_hand"]

STEP = 0.04  # [s] between two pictures
REST = 0.5  # [s] at the end, before it begins again


class Playback:
    """Shows phases from 0 to 1.

    Parameters
    ----------
    gui : viser.GuiApi
        Where the slider and the button are added.
    show : callable
        Called with the phase whenever it changes.
    duration : callable
        Seconds from phase 0 to 1, asked for when it is needed.
    """

    def __init__(self, gui: viser.GuiApi, show: Callable[[float], None], duration: Callable[[], float]) -> None:
        self._show, self._duration = show, duration
        self._slider: Any = gui.add_slider("Time", 0.0, 1.0, 0.001, 0.0, hint="From begin to end of the motion")
        self._play: Any = gui.add_checkbox("Play", False)
        self._changed, self._is_closed = threading.Event(), False
        self._slider.on_update(by_hand(lambda: self._show(self.phase)))
        self._play.on_update(by_hand(self._changed.set))
        self._thread = threading.Thread(target=self._run, name="playback", daemon=True)
        self._thread.start()

    @property
    def phase(self) -> float:
        return float(self._slider.value)

    def play(self, is_wanted: bool = True) -> None:
        """Go on from where it is, or stop there."""
        self._play.value = is_wanted
        self._changed.set()

    def close(self) -> None:
        """Stop for good."""
        self._is_closed = True
        self._changed.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_closed:
            self._changed.wait()
            self._changed.clear()
            begin: float | None = None
            while self._play.value and not self._is_closed:
                duration = self._duration()
                if begin is None:  # go on from where it is
                    begin = time.monotonic() - (self.phase % 1.0) * duration
                since = (time.monotonic() - begin) % (duration + REST)
                self._slider.value = round(min(1.0, since / duration), 3)
                self._show(self.phase)
                time.sleep(STEP)


def by_hand(act: Callable[[], None]) -> Callable[[Any], None]:
    """Listens to a control, for what people do there: what the page itself sets has no client."""

    def listen(event: Any) -> None:
        if event.client is not None:
            act()

    return listen
