"""When an objective that is only known up to noise has stopped to rise."""

from __future__ import annotations

from collections.abc import Sequence

from eim_ros.inference.run import History

__all__ = ["on_plateau", "rests"]

# A spread of the log ratio that falls by more in a window shows progress that the noise of the objective hides.
STEADY = 0.97


def on_plateau(history: History, window: int) -> bool:
    """`rests` for the objective of a history, the figures `elbo` and `elbo_standard_error` [nat]."""
    return rests(history.column("elbo"), history.column("elbo_standard_error"), window)


def rests(objective: Sequence[float], standard_errors: Sequence[float], window: int) -> bool:
    """Whether the mean of an objective over a window exceeds that of the window before by no more than its noise.

    Where the target can be represented, the noise vanishes with the distance to it: the run then goes on.

    Parameters
    ----------
    objective : sequence of float
        One estimate per iteration [nat], which is to rise.
    standard_errors : sequence of float
        Of the estimates [nat].
    window : int
        Iterations; 0 for never.
    """
    values, errors = objective[-2 * window :], standard_errors[-2 * window :]
    if window == 0 or len(values) < 2 * window or len(errors) < 2 * window:
        return False
    rise = sum(values[window:]) - sum(values[:window])
    noise = sum(error**2 for error in errors) ** 0.5
    return rise <= noise and sum(errors[window:]) >= STEADY * sum(errors[:window])
