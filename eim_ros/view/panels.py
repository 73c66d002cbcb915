"""HTML panels next to the scene: joint values within their limits, manipulability, densities, legends."""

from __future__ import annotations

import html
from collections.abc import Sequence

import numpy as np

from eim_ros.core.arrays import FloatArray
from eim_ros.kinematics import Robot
from eim_ros.view.style import FAINT, MUTED

WARNED = 0.05  # this share of the range of a joint at each end counts as close to the limit
WARNING = "#D55E00"
LOWEST = -1000.0  # [nat] smaller log densities are shown as this limit
WIDEST = 100.0  # [nat] maximum range of log densities in the diagram; lower values are drawn at its left end
WIDTH, HEIGHT, MARGIN = 260.0, 84.0, 6.0  # size of the diagrams [pixel]
ROW = "display:flex;align-items:center;gap:6px;font-size:12px;margin:3px 0"


def joint_panel(robot: Robot, q: FloatArray | None, colour: str) -> str:
    """Return a panel that shows the value of each joint between its limits.

    The chosen solution (dof,) [rad] or [m] is marked in the colour of its component. Without a solution, only the
    limits are shown.
    """
    rows = []
    for joint, name in enumerate(robot.joint_names):
        lower, upper = float(robot.lower[joint]), float(robot.upper[joint])
        factor, unit = (1.0, "m") if robot.prismatic[joint] else (180.0 / np.pi, "°")
        value = None if q is None else float(q[joint])
        share = 0.0 if value is None or upper == lower else (value - lower) / (upper - lower)
        is_close = value is not None and not robot.continuous[joint] and not WARNED <= share <= 1.0 - WARNED
        mark = told = ""
        if value is not None:
            mark = (
                f'<div style="position:absolute;left:calc({100 * share:.2f}% - 3px);top:-2px;width:6px;height:12px;'
                f'border-radius:2px;background:{WARNING if is_close else colour}"></div>'
            )
            told = f"{value * factor:.3f} {unit}" if unit == "m" else f"{value * factor:.1f}{unit}"
        ends = "no limits" if robot.continuous[joint] else f"{lower * factor:.4g} … {upper * factor:.4g} {unit}"
        rows.append(
            f'<div style="{ROW}" title="{html.escape(name)}: {ends}">'
            f'<div style="width:9em;overflow:hidden;text-overflow:ellipsis">{html.escape(name)}</div>'
            f'<div style="position:relative;flex:1;height:8px;border-radius:4px;background:{FAINT}">{mark}</div>'
            f'<div style="width:5em;text-align:right">{told}</div></div>'
        )
    return f'<div style="padding:4px 10px">{"".join(rows)}</div>'


def manipulability_panel(
    along: FloatArray, values: FloatArray, place: float, value: float, colour: str, is_curve: bool = True
) -> str:
    """Return a panel of Yoshikawa's manipulability along a component, with a mark at the chosen solution.

    `along` and `values` (n,) are lengths along the component [rad, m] and their manipulability. Both are drawn only if
    the component is a curve, because other solutions have no order.
    """
    told = f'<div style="padding:4px 10px;font-size:12px">manipulability <b>{value:.4g}</b>'
    if len(along) < 2:
        return f"{told}</div>"
    most = max(float(values.max()), value, 1e-12)
    told += f", {100 * value / most:.0f} % of the largest in this component ({most:.4g})"
    if not is_curve:
        return f"{told}</div>"
    length = max(float(along.max(initial=0.0)), 1e-12)

    def point(x: float, y: float) -> str:
        across, up = (WIDTH - 2 * MARGIN) * x / length, (HEIGHT - 2 * MARGIN) * y / most
        return f"{MARGIN + across:.1f},{HEIGHT - MARGIN - up:.1f}"

    line = " ".join(point(float(x), float(y)) for x, y in zip(along, values, strict=True))
    x, _, y = point(place, value).partition(",")
    return (
        f"{told}"
        f'<svg viewBox="0 0 {WIDTH:.0f} {HEIGHT:.0f}" style="width:100%;display:block">'
        f'<line x1="{MARGIN}" y1="{HEIGHT - MARGIN}" x2="{WIDTH - MARGIN}" y2="{HEIGHT - MARGIN}" stroke="{FAINT}"/>'
        f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>'
        f'<circle cx="{x}" cy="{y}" r="4.5" fill="{colour}" stroke="white"/></svg>'
        f'<div style="color:{MUTED}">Along the component, from its first to its last solution. At 0 the arm is '
        "singular: its tip cannot move in some direction.</div></div>"
    )


def density_panel(values: FloatArray, colours: Sequence[str], value: float, colour: str) -> str:
    """Return a panel of log densities [nat]: a dot for each ghost, and a line for the chosen solution.

    There must be at least one ghost. Dots and line have the colours of their components.
    """
    most = max(float(values.max()), value)
    smallest = min(float(values.min()), value)
    least = max(smallest, most - WIDEST)
    bound = "≤ " if smallest < least else ""
    width = max(most - least, 1e-9)

    def x(density: float) -> float:
        return MARGIN + (WIDTH - 2 * MARGIN) * (max(density, least) - least) / width

    rows = HEIGHT - 4 * MARGIN
    dots = "".join(
        f'<circle cx="{x(float(v)):.1f}" cy="{MARGIN + rows * ((0.61803 * i) % 1.0):.1f}" r="3" fill="{dot}" '
        'fill-opacity="0.7"/>'
        for i, (v, dot) in enumerate(zip(values, colours, strict=True))
    )
    return (
        f'<div style="padding:4px 10px;font-size:12px">log density of the chosen solution <b>{density_text(value)}</b>'
        f"{f', {most - value:.2f} nat below the highest density shown' if value >= LOWEST else ''}"
        f'<svg viewBox="0 0 {WIDTH:.0f} {HEIGHT:.0f}" style="width:100%;display:block">{dots}'
        f'<line x1="{x(value):.1f}" y1="0" x2="{x(value):.1f}" y2="{HEIGHT}" stroke="{colour}" stroke-width="2"/></svg>'
        f'<div style="display:flex;justify-content:space-between;color:{MUTED}"><span>{bound}{least:.1f}</span>'
        f"<span>{most:.1f} nat</span></div></div>"
    )


def density_text(value: float) -> str:
    """Return a log density [nat] as text. Very low values show only that the data are far away."""
    return f"{value:.2f} nat" if value >= LOWEST else f"below {LOWEST:.0f} nat, far from all data"


def legend_panel(names: Sequence[str], colours: Sequence[str], caption: str = "") -> str:
    """Return a legend with the colour of each name, and a caption below it."""
    chips = "".join(
        f'<span style="display:inline-flex;align-items:center;gap:4px;margin-right:10px">'
        f'<span style="width:10px;height:10px;border-radius:5px;background:{colour}"></span>{html.escape(name)}</span>'
        for name, colour in zip(names, colours, strict=True)
    )
    told = (
        f'<div style="padding:0 10px 8px;font-size:12px;color:{MUTED}">{html.escape(caption)}</div>' if caption else ""
    )
    return f'<div style="padding:4px 10px;font-size:12px;max-height:8.5em;overflow-y:auto">{chips}</div>{told}'


def text_panel(lines: Sequence[str]) -> str:
    """Return a panel of text lines."""
    return f'<div style="padding:4px 10px;font-size:12px">{"<br>".join(html.escape(line) for line in lines)}</div>'
