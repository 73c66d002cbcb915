"""Configurations as a table on the terminal."""

from __future__ import annotations

import os
from collections.abc import Sequence

from eim_ros.ik import ErrorCode, Samples

__all__ = ["print_configurations"]

ROWS_SHOWN = 10


def print_configurations(samples: Samples, n_wanted: int) -> None:
    """Print a summary and the first rows of an answer, and where there are fewer than wanted, how many there are."""
    n = len(samples)
    print(f"{samples.valid.sum()} valid of {n} configurations in {1e3 * samples.elapsed:.2f} ms")
    if n < n_wanted and samples.error_code == ErrorCode.SUCCESS:
        print(samples.message)
    if samples.completeness is not None and samples.n_all is None:
        print(samples.completeness)
    names = [f"{name:>8}" for name in _short(samples.joint_names)]
    print("  ".join([*names, "error [m]", "error [rad]", "valid"]))
    for row in range(min(n, ROWS_SHOWN)):
        joints = [f"{value:{len(name)}.4f}" for name, value in zip(names, samples.positions[row], strict=True)]
        errors = [f"{samples.position_error[row]:9.1e}", f"{samples.orientation_error[row]:11.1e}"]
        print("  ".join([*joints, *errors, "  yes" if samples.valid[row] else "   no"]))
    if n > ROWS_SHOWN:
        print(f"... and {n - ROWS_SHOWN} more; --json prints all")


def _short(names: Sequence[str]) -> list[str]:
    """Names without the words that all of them begin and end with."""
    if len(names) < 2:
        return list(names)
    begin = os.path.commonprefix(list(names)).rpartition("_")
    end = os.path.commonprefix([name[::-1] for name in names])[::-1].partition("_")
    first, last = len(begin[0] + begin[1]), len(end[1] + end[2])
    short = [name[first : len(name) - last] for name in names]
    return short if all(name and not name.isdigit() for name in short) else list(names)
