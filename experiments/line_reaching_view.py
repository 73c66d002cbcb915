"""`python -m experiments view FOLDER` shows postures of the planar robot on its line in the browser.

FOLDER contains results of the experiment line-reaching. The page shows configurations of the expert and of each
mixture. The simulator executes the selected configuration.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from eim_ros.cli.flags import flag
from eim_ros.cli.view import PageFlags
from eim_ros.core.errors import ConfigurationError, DataError
from eim_ros.ik import Sampler
from eim_ros.kinematics import Robot
from eim_ros.planar import Outcome, PlanarArm, PlanarSimulator, PlanarTask, folded
from eim_ros.planar.arm import planar_urdf
from eim_ros.planar.motions import reaching_motion
from eim_ros.view.live import light
from eim_ros.view.motion_tab import Playback, by_hand
from eim_ros.view.page import Page
from eim_ros.view.panels import HEIGHT, MARGIN, WARNING, WIDTH, text_panel
from eim_ros.view.scene import ArmMeshes, Lines
from eim_ros.view.style import FAINT, INK, MUTED
from experiments.line_reaching import EXPERIMENT, EXPERT, LineReachingConfig, line_reaching_arm
from experiments.pictures import METHOD_COLOURS, method_label
from experiments.table import ResultTable

FloatArray = npt.NDArray[np.float64]

TABLE = "table.csv"  # file in the folder of an experiment's results
RATE = 50  # rate of the simulator [Hz]


@dataclass(frozen=True, eq=False)
class LinePostures:
    """Configurations drawn from one mixture, or from the expert.

    Attributes
    ----------
    method : str
    q : (n, dof)
        [rad].
    heights : (n,)
        y of the point of the line nearest to each tip [m].
    distances : (n,)
        Distance of each tip to the line [m].
    histogram : (n_bins,)
        Histogram along the line of samples within 0.1 m of the line (of 10000 samples by default). The shares sum to 1,
        or to 0 without such samples.
    distance, near, coverage : float
        Measures of the same samples: mean distance [m], share within 0.1 m, and overlap with the histogram of the
        expert.
    """

    method: str
    q: FloatArray
    heights: FloatArray
    distances: FloatArray
    histogram: FloatArray
    distance: float
    near: float
    coverage: float

    def nearest(self, height: float) -> npt.NDArray[np.int64]:
        """Return the indices (n,) of all postures, sorted by the distance along the line from `height` [m]."""
        return np.argsort(np.abs(self.heights - height), kind="stable")


@dataclass(frozen=True, eq=False)
class Executed:
    """Motion of the simulator from the folded arm to a posture.

    Attributes
    ----------
    positions : (n_ticks, dof)
        [rad].
    duration : float
        [s].
    outcome : Outcome
        Outcome at the end.
    """

    positions: FloatArray
    duration: float
    outcome: Outcome

    def at(self, phase: float) -> FloatArray:
        """Return the configuration (dof,) at `phase`, a share of the duration from 0 to 1."""
        return np.asarray(self.positions[round(phase * (len(self.positions) - 1))])


class LineStudy:
    """Results of the experiment line-reaching, with the first seed of each mixture.

    Parameters
    ----------
    table : ResultTable

    Raises
    ------
    DataError
        If the table belongs to another experiment, or is empty.
    """

    def __init__(self, table: ResultTable) -> None:
        if table.header.experiment != EXPERIMENT.name:
            raise DataError(
                f"expected results of {EXPERIMENT.name}, but the table contains results of {table.header.experiment}",
                table.header.experiment,
            )
        self.arm: PlanarArm
        self.task: PlanarTask
        self.arm, self.task = line_reaching_arm(LineReachingConfig.from_mapping(table.settings))
        self.robot = Robot(planar_urdf(self.arm.n_links, self.arm.link_length))
        self._rows = {
            (method_label(row["method"], row["estimator"]), row["n_components"]): row for row in table.rows[::-1]
        }
        self.methods = tuple(dict.fromkeys(label for label, _ in reversed(self._rows)))
        if not self.methods:
            raise DataError("the table of results is empty; let `python -m experiments line-reaching` finish", 0)

    @classmethod
    def load(cls, path: str | Path) -> LineStudy:
        """Load a table, or the folder of results of `python -m experiments line-reaching`."""
        path = Path(path)
        inside = (path, path / TABLE, path / EXPERIMENT.name / TABLE)
        found = next((file for file in inside if file.is_file()), None)
        if found is None:
            raise ConfigurationError(
                f"{path} contains no results of the experiment {EXPERIMENT.name}; create them with "
                f"python -m experiments {EXPERIMENT.name} --output {path}",
                str(path),
            )
        return cls(ResultTable.read(found))

    def counts(self, method: str) -> list[int]:
        """Return the numbers of components of the stored mixtures, or only 0 for the expert."""
        return sorted(count for label, count in self._rows if label == method)

    def postures(self, method: str, n_components: int) -> LinePostures:
        """Return the postures of a mixture."""
        row = self._rows[method, n_components]
        q = torch.tensor(row["samples"], dtype=torch.float64)
        tip = self.arm.tip(q)
        return LinePostures(
            row["method"],
            q.numpy(),
            self.task.nearest(tip)[:, 1].numpy(),
            self.task.distance(tip).numpy(),
            np.array(row["histogram"]),
            row["distance"],
            row["near"],
            row["coverage"],
        )

    @property
    def expert(self) -> LinePostures | None:
        """Postures of the expert, or None if they are not stored."""
        label = method_label(EXPERT, "none")
        return self.postures(label, 0) if (label, 0) in self._rows else None

    def execute(self, q: FloatArray) -> Executed:
        """Simulate the motion from the folded arm to a posture (dof,), along a straight line in joint space."""
        start = folded(self.arm)
        motion = reaching_motion(self.arm, torch.from_numpy(start), torch.from_numpy(q))
        simulator = PlanarSimulator(self.arm, self.task, rate=RATE)
        simulator.execute(self.arm.joint_names, motion.times.tolist(), motion.positions.tolist())
        positions = [simulator.q.copy()]
        while simulator.outcome.moving:
            simulator.step()
            positions.append(simulator.q.copy())
        return Executed(np.array(positions), (len(positions) - 1) / RATE, simulator.outcome)


GOAL = "#009E73"
SOME = 10  # initial number of postures near the selected height
THIN, THICK = 0.003, 0.008  # widths of lines, relative to the reach of the arm
# camera offset, relative to the reach; tilted, because a view straight down has no defined up direction
ABOVE = np.array([0.0, -0.05, 1.35])
UNDER, OVER = -0.002, 0.002  # heights that put one line in front of another, relative to the reach


class LineTab:
    """Tab with the line and its postures, on a page of the planar robot.

    Parameters
    ----------
    page : Page
        Page with an extra tab.
    study : LineStudy
        Results to show. Their robot must be the robot of the page.
    """

    def __init__(self, page: Page, study: LineStudy) -> None:
        self._page, self._study = page, study
        self._drawing = threading.RLock()
        scene, reach = page.server.scene, study.robot.reach
        self._arm = ArmMeshes(scene, study.robot, page.surfaces, "/line/arm")
        self._goal = Lines(scene, "/line/goal", THICK * reach)
        self._goal.draw([_at_height(np.stack([study.task.start, study.task.end]), OVER * reach)], light([GOAL]))
        self._others = Lines(scene, "/line/others", THIN * reach)
        self._near = Lines(scene, "/line/near", THIN * reach)
        self._executed: Executed | None = None
        middle = 0.5 * float(study.task.start[0]) * np.array([1.0, 0.0, 0.0])
        page.server.initial_camera.look_at = middle
        page.server.initial_camera.position = middle + reach * ABOVE
        self._add_controls()
        page.on_close(self._playback.close)
        self._choose_method()

    def _add_controls(self) -> None:
        gui, study = self._page.server.gui, self._study
        low, high = float(study.task.start[1]), float(study.task.end[1])
        with self._page.extra_tab:
            self.method: Any = gui.add_dropdown("Postures of", study.methods)
            self.count: Any = gui.add_dropdown("Components", ("–",))
            self.height: Any = gui.add_slider(
                "y on the line [m]", low, high, 0.05, 0.0, hint="Where the tip should reach the line"
            )
            hint = "Number of postures shown: those that reach the line nearest to this y"
            self.n: Any = gui.add_slider("Postures there", 1, 60, 1, SOME, hint=hint)
            hint = "Simulate the motion from the folded arm to the nearest posture"
            self.simulate: Any = gui.add_button("Simulate the motion there", hint=hint)
            self._playback = Playback(gui, self._show_phase, self._duration)
            self.visible: Any = gui.add_checkbox("Show the line and its postures", True)
            self._told = gui.add_html("")
            self._histogram = gui.add_html("")
        for setting, act in (
            (self.method, self._choose_method),
            (self.count, self._choose),
            (self.height, self._choose),
            (self.n, self._choose),
            (self.visible, self._show_or_hide),
        ):
            setting.on_update(by_hand(act))
        self.simulate.on_click(lambda _: self.execute())

    @property
    def postures(self) -> LinePostures:
        """Postures of the selected method and number of components."""
        count = self.count.value
        return self._study.postures(self.method.value, int(count) if count.isdigit() else 0)

    @property
    def chosen(self) -> npt.NDArray[np.float64]:
        """Posture (dof,) nearest to the selected height on the line."""
        postures = self.postures
        return np.asarray(postures.q[postures.nearest(float(self.height.value))[0]])

    def execute(self) -> None:
        """Simulate the motion to the chosen posture and play it."""
        with self._drawing:
            self._execute()
        self._playback.play()

    def _execute(self) -> Executed:
        if self._executed is None:
            self._executed = self._study.execute(self.chosen)
            self._tell()
        return self._executed

    def _choose_method(self) -> None:
        with self._drawing:
            counts = tuple(str(count) for count in self._study.counts(self.method.value) if count) or ("–",)
            before = self.count.value
            if counts != self.count.options:
                self.count.options = counts
                self.count.value = before if before in counts else counts[len(counts) // 2]
            self.count.disabled = len(counts) < 2
            self._choose()

    def _choose(self) -> None:
        """Show the postures near the selected height."""
        with self._drawing, self._page.server.atomic():
            postures, self._executed = self.postures, None
            self._playback.play(False)
            order = postures.nearest(float(self.height.value))
            near, others = order[: int(self.n.value)], order[int(self.n.value) :]
            self._draw_lines(self._near, postures, near, METHOD_COLOURS[postures.method], 0.0)
            if len(others):
                self._draw_lines(self._others, postures, others, FAINT, UNDER)
            self._arm.show(self.chosen, METHOD_COLOURS[postures.method])
            self._tell()
            self._show_or_hide()

    def _draw_lines(
        self, lines: Lines, postures: LinePostures, rows: npt.NDArray[np.int64], colour: str, height: float
    ) -> None:
        skeletons = self._study.robot.skeleton(postures.q[rows])
        skeletons[..., 2] += height * self._study.robot.reach
        lines.draw(list(skeletons), light([colour])[[0] * len(rows)])

    def _tell(self) -> None:
        postures = self.postures
        index = int(postures.nearest(float(self.height.value))[0])
        told = [
            f"all samples: the tip is {postures.distance:.3f} m from the line on average",
            f"{100.0 * postures.near:.0f} % of them are within 0.1 m; coverage {postures.coverage:.2f}",
            f"this posture: y = {postures.heights[index]:.2f} m, tip {postures.distances[index]:.3f} m from the line",
        ]
        if self._executed is not None:
            outcome = self._executed.outcome
            reached = "reached" if outcome.reached else "NOT reached"
            told.append(
                f"simulation: line {reached}, distance {outcome.distance:.3f} m, after {self._executed.duration:.1f} s"
            )
        self._told.content = text_panel(told)
        expert = self._study.expert
        self._histogram.content = histogram_panel(
            postures.histogram,
            postures.histogram if expert is None else expert.histogram,
            METHOD_COLOURS[postures.method],
            INK,
            (float(self._study.task.start[1]), float(self._study.task.end[1])),
            float(self.height.value),
        )

    def _show_or_hide(self) -> None:
        is_wanted = bool(self.visible.value)
        for part in (self._goal, self._near, self._arm):
            part.visible = is_wanted
        self._others.visible = is_wanted and int(self.n.value) < len(self.postures.q)

    def _duration(self) -> float:
        with self._drawing:
            return self._execute().duration

    def _show_phase(self, phase: float) -> None:
        with self._drawing:
            self._arm.show(self._execute().at(phase), METHOD_COLOURS[self.postures.method])


def _at_height(points: npt.ArrayLike, height: float) -> npt.NDArray[np.float64]:
    """Return planar points (n, 2) as points (n, 3) at a given height."""
    flat = np.asarray(points, dtype=np.float64)
    return np.column_stack([flat, np.full(len(flat), height)])


@dataclass(frozen=True, kw_only=True)
class ViewLine:
    """Show the postures of line-reaching in the browser."""

    folder: str = flag(text="Results of the experiment line-reaching.", metavar="FOLDER", positional=True)
    page: PageFlags

    def run(self) -> int:
        """Serve the page and return the exit code."""
        study = LineStudy.load(self.folder)
        page = Page(Sampler(study.robot), host=self.page.host, port=self.page.port, extra_tab="Line")
        LineTab(page, study)
        return self.page.serve(page)


def histogram_panel(
    values: FloatArray, expected: FloatArray, colour: str, outline: str, ends: tuple[float, float], place: float
) -> str:
    """Return a histogram along a line as HTML: bars, an outline of the expected shares, and a mark.

    Parameters
    ----------
    values, expected : (n_bins,)
        Shares in bins of equal length.
    colour, outline : str
    ends : two floats
        Ends of the line [m].
    place : float
        Marked position [m].
    """
    most, width = max(float(values.max()), float(expected.max()), 1e-12), (WIDTH - 2 * MARGIN) / len(values)
    low, high = ends

    def y(share: float) -> float:
        return HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * share / most

    bars = "".join(
        f'<rect x="{MARGIN + i * width:.1f}" y="{y(float(v)):.1f}" width="{width:.1f}" '
        f'height="{HEIGHT - MARGIN - y(float(v)):.1f}" fill="{colour}" fill-opacity="0.6"/>'
        for i, v in enumerate(values)
    )
    steps = " ".join(
        f"{MARGIN + (i + side) * width:.1f},{y(float(v)):.1f}" for i, v in enumerate(expected) for side in (0, 1)
    )
    x = MARGIN + (WIDTH - 2 * MARGIN) * (place - low) / (high - low)
    return (
        f'<div style="padding:4px 10px;font-size:12px">tips along the line; outline: the expert'
        f'<svg viewBox="0 0 {WIDTH:.0f} {HEIGHT:.0f}" style="width:100%;display:block">{bars}'
        f'<polyline points="{steps}" fill="none" stroke="{outline}" stroke-width="1"/>'
        f'<line x1="{x:.1f}" y1="0" x2="{x:.1f}" y2="{HEIGHT}" stroke="{WARNING}" stroke-width="1.5"/></svg>'
        f'<div style="display:flex;justify-content:space-between;color:{MUTED}"><span>{low:.4g} m</span>'
        f"<span>{high:.4g} m</span></div></div>"
    )
