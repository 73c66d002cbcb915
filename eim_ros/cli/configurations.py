"""Configurations as a table on the terminal."""

from __future__ import annotations

from typing import Any

__all__ = ["print_configurations"]

ROWS_SHOWN = 10


def print_configurations(answer: dict[str, Any]) -> None:
    """Print a summary and the first rows of an answer, keyed by the field names of the service's response."""
    n_valid, n = sum(answer["valid"]), len(answer["valid"])
    print(f"{n_valid} valid of {n} configurations in {1e3 * answer['elapsed']:.2f} ms")
    names = [f"{name[-8:]:>8}" for name in answer["joint_names"]]
    print("  ".join([*names, "error [m]", "error [rad]", "valid"]))
    for row in range(min(n, ROWS_SHOWN)):
        joints = [f"{value:8.4f}" for value in answer["positions"][row]]
        errors = [f"{answer['position_error'][row]:9.1e}", f"{answer['orientation_error'][row]:11.1e}"]
        print("  ".join([*joints, *errors, "  yes" if answer["valid"][row] else "   no"]))
    if n > ROWS_SHOWN:
        print(f"... and {n - ROWS_SHOWN} more; --json prints all")
