"""Results of the comparison with the peers, and their tables as plain text and as Markdown for the README."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from benchmarks._peers import PEERS

__all__ = ["Many", "Singles", "many_table", "markdown_tables", "singles_table"]


@dataclass
class Singles:
    """Results of one solver for one solution of each pose. `note` is the reason if there are no results."""

    seconds: list[float] = field(default_factory=list)
    right: int = 0
    wrong: int = 0
    note: str = ""

    @property
    def share(self) -> float:
        return 100.0 * self.right / len(self.seconds)

    @property
    def milliseconds(self) -> tuple[float, float]:
        """Median and 99th percentile [ms]."""
        return 1e3 * float(np.median(self.seconds)), 1e3 * float(np.percentile(self.seconds, 99))


@dataclass
class Many:
    """Results of one method to compute many solutions of each pose.

    The columns of `rows` are seconds, number of solutions, share of self-motion components, and coverage. For each
    pose, `says` is true if the answer claims to be complete, and None for solvers that never make such a claim.
    """

    rows: list[tuple[float, float, float, float]] = field(default_factory=list)
    says: list[bool | None] = field(default_factory=list)
    wrong: int = 0
    note: str = ""

    @property
    def summary(self) -> tuple[float, float, float, float]:
        """Medians of milliseconds and solutions, and mean percentages of self-motion components and coverage."""
        columns = np.array(self.rows).T
        return 1e3 * float(np.median(columns[0])), float(np.median(columns[1])), *(100.0 * columns[2:].mean(axis=1))

    @property
    def said(self) -> str:
        """Share of poses for which the solver claims to have found all solutions."""
        told = [each for each in self.says if each is not None]
        return f"{100.0 * np.mean(told):.0f} %" if told else "-"


def singles_table(found: dict[str, Singles]) -> list[str]:
    lines = [f"  {'solver':36}{'ok %':>8}{'median ms':>11}{'p99 ms':>9}{'no answer':>11}{'wrong':>7}"]
    for name, result in found.items():
        if result.note:
            lines.append(f"  {name:36}{result.note}")
            continue
        median, late = result.milliseconds
        silent = len(result.seconds) - result.right - result.wrong
        lines.append(f"  {name:36}{result.share:8.2f}{median:11.4f}{late:9.3f}{silent:11d}{result.wrong:7d}")
    return lines


def many_table(found: dict[str, Many], n_components: list[int]) -> list[str]:
    lines = [
        f"  many solutions of {len(n_components)} poses with {min(n_components)} to {max(n_components)} self-motion "
        "components each",
        f"  {'way':44}{'median ms':>11}{'solutions':>11}{'components %':>14}{'coverage %':>12}{'says so':>9}"
        f"{'wrong':>7}",
    ]
    for name, result in found.items():
        if result.note:
            lines.append(f"  {name:44}{result.note}")
            continue
        milliseconds, n, share, coverage = result.summary
        figures = f"{milliseconds:11.3f}{n:11.0f}{share:14.1f}{coverage:12.1f}{result.said:>9}{result.wrong:7d}"
        lines.append(f"  {name:44}{figures}")
    return lines


def markdown_tables(one: dict[str, dict[str, Singles]], all_: dict[str, dict[str, Many]]) -> list[str]:
    """Return two Markdown tables. The fastest of the most reliable solvers and the best coverage are in bold."""
    lines = [_row(["one solution: ok %, median / p99 ms", *one]), "|---" * (1 + len(one)) + "|"]
    best = {robot: _fastest(found) for robot, found in one.items()}
    for name in PEERS:
        cells = []
        for robot, found in one.items():
            result = found[name]
            text = "-" if result.note else f"{result.share:.4g}, {_digits(result.milliseconds)}"
            wrong = f", {result.wrong} wrong" if result.wrong else ""
            cells.append(f"**{text}**" if name == best[robot] else text + wrong)
        lines.append(_row([name, *cells]))
    lines += [
        "",
        _row(["many solutions: ms, components % / coverage %, says so", *all_]),
        "|---" * (1 + len(all_)) + "|",
    ]
    for name in next(iter(all_.values())):
        results = [found[name] for found in all_.values()]
        cells = [
            "-" if r.note else f"{r.summary[0]:.3g}, {r.summary[2]:.1f} / {r.summary[3]:.1f}"
            + (f", {r.said}" if r.said != "-" else "")
            + (f", {r.wrong} wrong" if r.wrong else "")
            for r in results
        ]  # fmt: skip
        lines.append(_row([name, *cells]))
    return [*lines, "", "No figures: " + "; ".join(_notes(one)) + "."]


def _notes(one: dict[str, dict[str, Singles]]) -> list[str]:
    """Return a sentence with the reason for each solver without figures."""
    robots: dict[tuple[str, str], list[str]] = {}
    for robot, found in one.items():
        for name in PEERS:
            if found[name].note:
                robots.setdefault((name, found[name].note), []).append(robot)
    return [f"{name} of {', '.join(where)} ({note})" for (name, note), where in robots.items()] or ["none"]


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _digits(values: tuple[float, float]) -> str:
    return " / ".join(f"{value:.3f}" if value < 1.0 else f"{value:.3g}" for value in values)


def _fastest(found: dict[str, Singles]) -> str:
    ran = {name: found[name] for name in PEERS if not found[name].note}
    most = max(result.share for result in ran.values())
    return min((name for name in ran if ran[name].share == most), key=lambda name: ran[name].milliseconds[0])
