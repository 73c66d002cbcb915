"""Progress of a training on the terminal: a bar with time left and the figures that matter."""

from __future__ import annotations

import sys
from types import TracebackType

from tqdm import tqdm

from eim_ros.inference import State

__all__ = ["ProgressBar"]

SHOWN = {"log_likelihood": "log-lik", "ratio_kl": "KL", "loss": "loss", "accuracy": "acc"}


class ProgressBar:
    """Callback of a run and context manager.

    Parameters
    ----------
    n_iterations : int
    label : str
    enabled : bool
    """

    def __init__(self, n_iterations: int, label: str = "training", *, enabled: bool = True) -> None:
        self._bar = tqdm(
            total=n_iterations,
            desc=label,
            file=sys.stderr,
            disable=not enabled,
            unit="it",
            mininterval=0.5 if sys.stderr.isatty() else 10.0,
        )

    def __call__(self, state: State, record: dict[str, float]) -> None:
        figures = {short: f"{record[name]:.3f}" for name, short in SHOWN.items() if name in record}
        self._bar.set_postfix(figures, refresh=False)
        self._bar.update(state.iteration - self._bar.n)

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._bar.leave = False  # what went wrong is then told in a line of its own
        self._bar.close()
