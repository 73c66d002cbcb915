"""Progress of an experiment as a bar, and of a training as lines for a program; for people see `progress_bar.py`.

A line on stderr that tells how far a long run is and how long it will take, from the first second on.
"""

from __future__ import annotations

import contextlib
import math
import shutil
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any

from tqdm import tqdm

from eim_ros.core.files import to_json
from eim_ros.core.parallel import listening
from eim_ros.learning import State
from eim_ros.learning.models import Gaussian, LinearExperts


class SweepBar:
    """Rows of an experiment's table: how many there are, and the newest.

    Parameters
    ----------
    label : str
    enabled : bool
    """

    def __init__(self, label: str, *, enabled: bool = True) -> None:
        self._bar = tqdm(desc=label, file=sys.stderr, disable=not enabled, unit=" rows", total=0)

    def __call__(self, n_done: int, n_rows: int, row: dict[str, Any] | None) -> None:
        """Show a state; without a row it is the first one, with the rows of an earlier run."""
        if row is None:
            self._bar.reset(n_rows)
            self._bar.initial = n_done  # they tell nothing about the time that the others will take
        else:
            seed = list(row).index("seed")
            self._bar.set_postfix_str(" ".join(str(row[name]) for name in list(row)[: seed + 1]), refresh=False)
        self._bar.update(n_done - self._bar.n)
        self._bar.refresh()

    def __enter__(self) -> SweepBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._bar.leave = False
        self._bar.close()


class JsonProgress:
    """The same as lines on stderr, each a JSON object with the fields of the feedback of the action Train.

    Figures that a learner does not have are null.

    Parameters
    ----------
    n_iterations : int
    """

    def __init__(self, n_iterations: int) -> None:
        self._n_iterations = n_iterations

    def enter(self, phase: str) -> None:
        """Tell of a phase: reading, preparing, fitting, writing."""
        self._tell({"phase": phase})

    def __call__(self, state: State, record: dict[str, float]) -> None:
        self._tell(
            {
                "phase": "fitting",
                "iteration": state.iteration,
                "ratio_kl": record.get("ratio_kl", math.nan),
                "update_kl": record.get("expert_kl", math.nan),
                "entropy": _entropy(state),
            }
        )

    def __enter__(self) -> JsonProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def _tell(self, figures: dict[str, object]) -> None:
        print(to_json({"n_iterations": self._n_iterations, **figures}), file=sys.stderr, flush=True)


def _entropy(state: State) -> float:
    """Mean entropy of linear experts [nat]; NaN of others, whose entropy depends on the context."""
    experts = getattr(state.model, "experts", None)
    if not isinstance(experts, LinearExperts):
        return math.nan
    return float(Gaussian(experts.biases, experts.scale_trils).entropy().mean())


SHOWN = {"log_likelihood": "log-lik", "ratio_kl": "KL", "loss": "loss", "accuracy": "acc", "elbo": "ELBO"}


BAR = 20  # characters
LAST = 20  # steps by which the pace is judged
FIRST_LINE, ON_TERMINAL, IN_FILE = 0.5, 0.5, 10.0  # [s]


class ProgressBar:
    """Callback of a run and context manager: a line on stderr from the first second on, drawn anew as time passes.

    Work before the iterations, such as a start that is searched for, has a line of its own by what it tells, see
    `eim_ros.core.parallel`. The time left of the iterations is judged by the last of them alone: neither what went
    before nor the first one, which often takes several times as long, is a measure of the others.

    Parameters
    ----------
    n_iterations : int
        How much there is to do, in iterations or in the unit.
    label : str
    enabled : bool
    unit : str
        "it" for iterations, or the name of a figure of the record, which is summed.
    clock : callable
        Gives the time [s].
    """

    def __init__(
        self,
        n_iterations: int,
        label: str = "training",
        *,
        enabled: bool = True,
        unit: str = "it",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._label, self._unit, self._enabled, self._clock = label, unit, enabled, clock
        self._total, self._done, self._figures = float(n_iterations), 0.0, ""
        self._work = Pace(clock, 0.0)
        self._work_name = "preparing"
        self._iterations = Pace(clock, float(n_iterations), from_first=False)
        self._began = clock()
        self._is_terminal = sys.stderr.isatty()
        self._over, self._lock = threading.Event(), threading.Lock()
        self._exit = contextlib.ExitStack()

    def __call__(self, state: State, record: dict[str, float]) -> None:
        with self._lock:
            figures = [f"{short}={record[name]:.3f}" for name, short in SHOWN.items() if name in record]
            self._figures = "".join(f", {figure}" for figure in figures)
            self._work_name = ""
            self._done = float(state.iteration) if self._unit == "it" else self._done + record[self._unit]
            self._iterations.reached(self._done)

    def enter(self, phase: str) -> None:
        """A phase of the training begins; the line tells of the work that is done in it."""

    def hear(self, work: str, done: float, total: float) -> None:
        """So much of a work before the iterations is done."""
        with self._lock:
            if self._done:
                return  # part of an iteration
            if work != self._work_name:
                self._work_name, self._work = work, Pace(self._clock, total)
            self._work.total = total
            self._work.reached(done)

    def line(self) -> str:
        """What there is to be seen now."""
        passed = clock_time(self._clock() - self._began)
        if self._work_name:
            percent = f"{100.0 * self._work.share:3.0f}%" if self._work.total else ""
            left = ""
            if self._work.total:
                is_known = not math.isnan(self._work.left)
                left = f", at most {clock_time(self._work.left)} more" if is_known else ", time not known yet"
                left += ", then the rest"
            return f"{self._label}: {self._work_name} {percent} [{passed}{left}]"
        share = min(self._done / self._total, 1.0) if self._total else 1.0
        bar = "#" * round(BAR * share) + " " * (BAR - round(BAR * share))
        count, left = f"{self._done:.0f}/{self._total:.0f}", clock_time(self._iterations.left)
        return f"{self._label}: {100.0 * share:3.0f}%|{bar}| {count} [{passed}<{left}{self._figures}]"

    def __enter__(self) -> ProgressBar:
        self._began = self._clock()
        self._exit.enter_context(listening(self.hear))
        if self._enabled:
            thread = threading.Thread(target=self._draw_on, name="progress", daemon=True)
            thread.start()
            self._exit.callback(thread.join)
        self._exit.callback(self._over.set)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exit.close()
        if not self._enabled:
            return
        if error is None:
            self._draw(last=True)
        elif self._is_terminal:  # what went wrong is then told in a line of its own
            print(f"\r{' ' * shutil.get_terminal_size().columns}\r", end="", file=sys.stderr, flush=True)

    def _draw_on(self) -> None:
        wait = FIRST_LINE
        while not self._over.wait(wait):
            self._draw()
            wait = ON_TERMINAL if self._is_terminal else IN_FILE

    def _draw(self, last: bool = False) -> None:
        with self._lock:
            line = self.line()
        if self._is_terminal:
            width = shutil.get_terminal_size().columns - 1
            print(f"\r{line[:width]:<{width}}", end="\n" if last else "", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)


class Pace:
    """How fast work goes on, by when it had come how far.

    Parameters
    ----------
    clock : callable
    total : float
    from_first : bool
        Whether the first step is a measure of the others.
    """

    def __init__(self, clock: Callable[[], float], total: float, from_first: bool = True) -> None:
        self.total, self._clock = total, clock
        begin = [(clock(), 0.0)] if from_first else []
        self._marks: deque[tuple[float, float]] = deque(begin, maxlen=LAST + 1)

    def reached(self, done: float) -> None:
        """So much is done now."""
        self._marks.append((self._clock(), done))

    @property
    def share(self) -> float:
        """Of the work that is done."""
        return min(self._marks[-1][1] / self.total, 1.0) if self.total and self._marks else 0.0

    @property
    def left(self) -> float:
        """Time that the rest will take [s]; NaN where it cannot be told yet."""
        if not self._marks:
            return math.nan
        (began, first), (now, done) = self._marks[0], self._marks[-1]
        if done >= self.total:
            return 0.0
        if done <= first:
            return math.nan
        rest = (now - began) * (self.total - done) / (done - first)
        return max(0.0, rest - (self._clock() - now))


def clock_time(seconds: float) -> str:
    """As minutes and seconds, with hours where there are any; "?" for NaN."""
    if math.isnan(seconds):
        return "?"
    minutes, second = divmod(round(seconds), 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour}:{minute:02d}:{second:02d}" if hour else f"{minute:02d}:{second:02d}"
