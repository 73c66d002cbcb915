"""The tab of the planar robot: its line, postures of the expert and of mixtures, and the simulator."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import numpy.typing as npt

from eim_ros.viewer.arm_meshes import ArmMeshes
from eim_ros.viewer.colours import light
from eim_ros.viewer.line_postures import Executed, LinePostures, LineStudy
from eim_ros.viewer.lines import Lines
from eim_ros.viewer.page import Page
from eim_ros.viewer.panels import histogram_panel, text_panel
from eim_ros.viewer.playback import Playback, by_hand
from eim_ros.viz.palette import FAINT, INK, METHOD_COLOURS

__all__ = ["LineTab"]

GOAL = "#009E73"
SOME = 10  # postures that are shown at the place at first
THIN, THICK = 0.003, 0.008  # lines, as shares of the arm's reach
ABOVE = np.array([0.0, -0.05, 1.35])  # of the camera [reach]; straight down it would not know what is up
UNDER, OVER = -0.002, 0.002  # heights, so that a line is in front of another [reach]


class LineTab:
    """Adds the line to a page of the planar robot, in the tab that was made for it.

    Parameters
    ----------
    page : Page
        With an extra tab.
    study : LineStudy
        Its robot is the page's.
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
                "y on the line [m]", low, high, 0.05, 0.0, hint="Where it is to be reached"
            )
            hint = "Those that reach the line nearest to there"
            self.n: Any = gui.add_slider("Postures there", 1, 60, 1, SOME, hint=hint)
            hint = "The simulator goes to the nearest one, from the folded arm"
            self.simulate: Any = gui.add_button("Let the simulator go there", hint=hint)
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
        """Those that are shown."""
        count = self.count.value
        return self._study.postures(self.method.value, int(count) if count.isdigit() else 0)

    @property
    def chosen(self) -> npt.NDArray[np.float64]:
        """The posture (dof,) that reaches the line nearest to the place."""
        postures = self.postures
        return np.asarray(postures.q[postures.nearest(float(self.height.value))[0]])

    def execute(self) -> None:
        """Let the simulator go to the chosen posture, and show how."""
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
        """Show the postures at the place."""
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
            f"all draws: {postures.distance:.3f} m from the line on average",
            f"{100.0 * postures.near:.0f} % of them within 0.1 m, coverage {postures.coverage:.2f}",
            f"this posture: y = {postures.heights[index]:.2f} m, {postures.distances[index]:.3f} m from the line",
        ]
        if self._executed is not None:
            outcome = self._executed.outcome
            reached = "reached" if outcome.reached else "NOT reached"
            told.append(
                f"the simulator: line {reached}, {outcome.distance:.3f} m, after {self._executed.duration:.1f} s"
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
    """Points (n, 3) of (n, 2)."""
    flat = np.asarray(points, dtype=np.float64)
    return np.column_stack([flat, np.full(len(flat), height)])
