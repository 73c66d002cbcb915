"""Configurations as a table on the terminal."""

from __future__ import annotations

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
    names = [f"{name[-8:]:>8}" for name in samples.joint_names]
    print("  ".join([*names, "error [m]", "error [rad]", "valid"]))
    for row in range(min(n, ROWS_SHOWN)):
        joints = [f"{value:8.4f}" for value in samples.positions[row]]
        errors = [f"{samples.position_error[row]:9.1e}", f"{samples.orientation_error[row]:11.1e}"]
        print("  ".join([*joints, *errors, "  yes" if samples.valid[row] else "   no"]))
    if n > ROWS_SHOWN:
        print(f"... and {n - ROWS_SHOWN} more; --json prints all")
