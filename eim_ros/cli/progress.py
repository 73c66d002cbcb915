"""Progress of an experiment as a bar, and of a training as lines for a program; for people see `progress_bar.py`."""

from __future__ import annotations

import math
import sys
from types import TracebackType
from typing import Any

from tqdm import tqdm

from eim_ros.distributions import Gaussian, LinearExperts
from eim_ros.inference import State
from eim_ros.numerics.strict_json import to_json

__all__ = ["JsonProgress", "SweepBar"]


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
