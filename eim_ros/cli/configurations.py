"""Configurations as a table on the terminal."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from eim_ros.ik import ErrorCode, Samples

__all__ = ["print_configurations"]

ROWS_SHOWN = 10


def print_configurations(samples: Samples, n_wanted: int) -> None:
    """Print a summary and the first rows of an answer, and why there are fewer than requested.

    Without a solution, print the best attempt, and say that it is none.
    """
    n = len(samples)
    print(f"{samples.valid.sum()} valid of {n} configurations in {1e3 * samples.elapsed:.2f} ms")
    if n < n_wanted and samples.error_code == ErrorCode.SUCCESS:
        print(samples.message)
    if samples.completeness is not None and samples.n_all is None:
        print(samples.completeness)
    names = [f"{name:>8}" for name in _short(samples.joint_names)]
    if not n:
        if samples.best_attempt is not None:
            print("no solution; the best attempt, which must not be executed:")
            print("  ".join(names))
            print(_values(names, samples.best_attempt))
        return
    print("  ".join([*names, "error [m]", "error [rad]", "valid"]))
    for row in range(min(n, ROWS_SHOWN)):
        errors = [f"{samples.position_error[row]:9.1e}", f"{samples.orientation_error[row]:11.1e}"]
        print("  ".join([_values(names, samples.positions[row]), *errors, "  yes" if samples.valid[row] else "   no"]))
    if n > ROWS_SHOWN:
        print(f"... and {n - ROWS_SHOWN} more; --json prints all")


def _values(names: Sequence[str], q: npt.NDArray[np.float64]) -> str:
    """One configuration below the names of its joints."""
    return "  ".join(f"{value:{len(name)}.4f}" for name, value in zip(names, q, strict=True))


def _short(names: Sequence[str]) -> list[str]:
    """Names without the words that all of them begin and end with."""
    if len(names) < 2:
        return list(names)
    begin = os.path.commonprefix(list(names)).rpartition("_")
    end = os.path.commonprefix([name[::-1] for name in names])[::-1].partition("_")
    first, last = len(begin[0] + begin[1]), len(end[1] + end[2])
    short = [name[first : len(name) - last] for name in names]
    return short if all(name and not name.isdigit() for name in short) else list(names)
