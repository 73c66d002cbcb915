"""An answer as a table of a notebook: a row for each configuration, the first of them."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eim_ros.ik.samples import Samples

__all__ = ["html_table"]

MOST_ROWS = 10


def html_table(samples: Samples) -> str:
    """HTML: joint values [rad] or [m], errors [m], [rad], and what was found, in words."""
    shown = min(len(samples), MOST_ROWS)
    heads = ["", *samples.joint_names, "position error [m]", "orientation error [rad]", "valid"]
    lines = [_row("th", heads)]
    for i in range(shown):
        errors = (f"{samples.position_error[i]:.1e}", f"{samples.orientation_error[i]:.1e}")
        values = (f"{value:.4f}" for value in samples.positions[i])
        lines.append(_row("td", [str(i), *values, *errors, "yes" if samples.valid[i] else "no"]))
    rest = f"; {shown} of {len(samples)} are shown" if shown < len(samples) else ""
    return f"<table>{''.join(lines)}</table><p>{html.escape(samples.message + rest)}</p>"


def _row(tag: str, cells: list[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"
