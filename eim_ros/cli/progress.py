"""Progress of long work on stderr: a bar for people, JSON lines for programs."""

from __future__ import annotations

import contextlib
import math
import sys
from typing import TYPE_CHECKING, Any

from eim_ros.core.files import to_json
from eim_ros.core.parallel import listening

if TYPE_CHECKING:
    from eim_ros.learning import State

SHOWN = {"log_likelihood": "log-lik", "ratio_kl": "KL", "loss": "loss", "accuracy": "acc", "elbo": "ELBO"}


class Bar(contextlib.AbstractContextManager["Bar"]):
    """Bar on stderr with the remaining time. The total may be unknown. Without a terminal, only the end is printed."""

    def __init__(self, label: str, total: float | None = None, *, enabled: bool = True, unit: str = "") -> None:
        from rich import console, progress

        ends = [progress.TextColumn(f"{{task.{name}}}", markup=False) for name in ("description", "fields[figures]")]
        middle = [progress.BarColumn(20), progress.MofNCompleteColumn(), progress.TextColumn(unit)]
        times = [progress.TimeElapsedColumn(), progress.TimeRemainingColumn()]
        columns = (ends[0], *middle, *times, ends[1])
        self._progress = progress.Progress(*columns, console=console.Console(stderr=True), disable=not enabled)
        self._task = self._progress.add_task(label, total=total, figures="")
        self._label, self._is_new = label, True

    def show(self, done: float, total: float | None = None, *, stage: str = "", figures: str = "") -> None:
        """Show the progress of a named stage. Work before the first call does not affect the estimated pace."""
        if self._is_new:
            self._progress.reset(self._task, completed=int(done))
        self._is_new = False
        label = f"{self._label}: {stage}" if stage else self._label
        self._progress.update(self._task, completed=done, total=total, description=label, figures=figures)

    def advance(self, done: float = 1.0) -> None:
        """Add an amount of work to the progress."""
        self._progress.advance(self._task, done)

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._progress.stop()
        else:  # remove the bar; only the line of the error remains
            self._progress.live.transient = True
            self._progress.live.stop()


class ProgressBar(Bar):
    """Progress bar of a training. It is a callback of a run and a context manager.

    Work before the iterations, such as the search for a start, is shown as a stage with its own total. The unit is "it"
    for iterations, or the name of a number in the records. These numbers are summed.
    """

    def __init__(self, n_iterations: float, label: str = "training", *, enabled: bool = True, unit: str = "it") -> None:
        super().__init__(label, n_iterations, enabled=enabled, unit=unit)
        self._total, self._unit, self._done = n_iterations, unit, 0.0
        self._exit = contextlib.ExitStack()

    def enter(self, phase: str) -> None:
        """Do nothing, because the stages of the training report their own progress."""

    def __call__(self, state: State, record: dict[str, float]) -> None:
        self._is_new = self._is_new or not self._done  # earlier stages had other totals and speeds
        self._done = float(state.iteration) if self._unit == "it" else self._done + record[self._unit]
        figures = " ".join(f"{short}={record[name]:.3f}" for name, short in SHOWN.items() if name in record)
        self.show(self._done, self._total, figures=figures)

    def __enter__(self) -> ProgressBar:
        self._exit.enter_context(listening(self._hear))
        super().__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._exit.close()
        super().__exit__(kind, *rest)

    def _hear(self, work: str, done: float, total: float) -> None:
        if not self._done:  # after the first iteration, stages belong to iterations
            self.show(done, total or None, stage=work)


class JsonProgress(contextlib.AbstractContextManager["JsonProgress"]):
    """Progress on stderr. Each line is a JSON object with the fields of the feedback of the action Train.

    Unknown values are null.
    """

    def __init__(self, n_iterations: int) -> None:
        self._n_iterations = n_iterations

    def enter(self, phase: str) -> None:
        """Report the beginning of a phase: reading, preparing, fitting or writing."""
        self._print({"phase": phase})

    def __call__(self, state: State, record: dict[str, float]) -> None:
        kl = {"ratio_kl": record.get("ratio_kl", math.nan), "update_kl": record.get("expert_kl", math.nan)}
        self._print({"phase": "fitting", "iteration": state.iteration, **kl, "entropy": _entropy(state)})

    def __exit__(self, *_: object) -> None:
        pass

    def _print(self, figures: dict[str, Any]) -> None:
        print(to_json({"n_iterations": self._n_iterations, **figures}), file=sys.stderr, flush=True)


def _entropy(state: State) -> float:
    """Return the mean entropy of linear experts [nat], or NaN for other experts.

    The entropy of other experts depends on the context.
    """
    from eim_ros.learning.models import Gaussian, LinearExperts

    experts = getattr(state.model, "experts", None)
    if not isinstance(experts, LinearExperts):
        return math.nan
    return float(Gaussian(experts.biases, experts.scale_trils).entropy().mean())
