"""The tab of motions: ways of the tip, and an arm that goes along one of them.

What is demonstrated is grey, what is drawn from the prior has the colour of its component.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import numpy.typing as npt

from eim_ros.errors import EimError
from eim_ros.viewer.arm_meshes import ArmMeshes
from eim_ros.viewer.colours import light
from eim_ros.viewer.lines import Lines
from eim_ros.viewer.motions import MotionStudy, ShownMotions
from eim_ros.viewer.page import Page
from eim_ros.viewer.panels import legend_panel, text_panel
from eim_ros.viewer.playback import Playback, by_hand
from eim_ros.viz.palette import FAMILY_COLOURS, INK, MUTED, NO_GROUP_COLOUR

__all__ = ["DRAWN", "SHOWN", "MotionTab"]

FloatArray = npt.NDArray[np.float64]

DRAWN, SHOWN = "drawn from the prior", "demonstrated"
MOST_DRAWN, DRAWN_FIRST = 100, 20
MOST_DEMONSTRATIONS = 200  # whose ways are shown
N_PARTS = 40  # of the way of a tip
THIN, THICK = 0.0025, 0.008  # lines, as shares of the arm's reach


class MotionTab:
    """Adds motions to a page, in the tab that was made for them.

    Parameters
    ----------
    page : Page
        With an extra tab.
    study : MotionStudy
        Of the page's robot.
    random_seed : int
        Of the first motions drawn.
    """

    def __init__(self, page: Page, study: MotionStudy, random_seed: int = 0) -> None:
        self._page, self._study, self._random_seed = page, study, random_seed
        self._drawing = threading.RLock()
        self.motions: ShownMotions | None = None
        self.problem = ""
        self._add_scene()
        self._add_controls()
        page.on_solutions(lambda: self._draw() if self._is_tied else None)
        page.on_close(self._playback.close)
        self._draw()

    def _add_scene(self) -> None:
        scene, robot = self._page.server.scene, self._study.robot
        self._arm = ArmMeshes(scene, robot, self._page.surfaces, "/motions/arm")
        self._ways = Lines(scene, "/motions/drawn", THIN * robot.reach)
        self._demonstrated = Lines(scene, "/motions/demonstrated", THIN * robot.reach)
        self._way = Lines(scene, "/motions/this", THICK * robot.reach)
        known = self._study.demonstrations
        if known is not None:
            some = np.linspace(0, len(known) - 1, min(len(known), MOST_DEMONSTRATIONS)).astype(int)
            self._demonstrated.draw(list(_thinned(known.tips[some])), light([NO_GROUP_COLOUR])[[0] * len(some)])

    def _add_controls(self) -> None:
        gui, study = self._page.server.gui, self._study
        with self._page.extra_tab:
            kinds = (DRAWN,) if study.demonstrations is None else (DRAWN, SHOWN)
            self.kind: Any = gui.add_dropdown("Motions", kinds)
            self.which: Any = gui.add_slider("Which", 1, DRAWN_FIRST, 1, 1)
            self._playback = Playback(gui, self._show_phase, lambda: study.duration)
            hint = "Context of the prior"
            self.contexts: list[Any] = [
                gui.add_slider(name, low, high, step, low + step * round(0.5 * (high - low) / step), hint=hint)
                for name, low, high, step in study.context_ranges()
            ]
            hint = "Motions are conditioned on it: drag the target, or choose another solution"
            self.begins: Any = gui.add_checkbox("Begin at the chosen solution", False, hint=hint)
            self.ends: Any = gui.add_checkbox("End at the chosen solution", False, hint=hint)
            hint = "Of all solutions of the target the one that the prior ends at most likely"
            self.likeliest: Any = gui.add_button("Choose the likeliest solution", hint=hint)
            self.n: Any = gui.add_slider("Drawn", 1, MOST_DRAWN, 1, DRAWN_FIRST)
            self.fresh: Any = gui.add_button("Draw others")
            self.visible: Any = gui.add_checkbox("Show motions", True)
            self._told = gui.add_html("")
            self._legend = gui.add_html("")
        self.kind.on_update(by_hand(self._choose_kind))
        self.which.on_update(by_hand(self._choose))
        self.fresh.on_click(lambda _: self._draw_others())
        self.likeliest.on_click(lambda _: self.choose_likeliest())
        self.visible.on_update(by_hand(self._show_or_hide))
        for setting in (self.begins, self.ends, self.n, *self.contexts):
            setting.on_update(by_hand(self._draw))

    @property
    def _is_tied(self) -> bool:
        return bool(self.begins.value or self.ends.value)

    @property
    def shown(self) -> ShownMotions | None:
        """Those of which one is looked at."""
        return self.motions if self.kind.value == DRAWN else self._study.demonstrations

    def look_at(self, kind: str, which: int) -> None:
        """Show one of the motions: of DRAWN or SHOWN, by its number from 1."""
        with self._drawing:
            self.kind.value, self.which.value = kind, which
            self._choose()

    def play(self) -> None:
        """Let the arm go along the motion, again and again."""
        self._playback.play()

    @property
    def phase(self) -> float:
        """Where the arm is in the motion, from 0 to 1."""
        return self._playback.phase

    def _draw_others(self) -> None:
        self._random_seed += 1
        self._draw()

    def choose_likeliest(self) -> None:
        """Choose the solution that the prior ends at most likely."""
        solutions = self._page.solutions
        if solutions is not None and len(solutions.positions):
            density = self._study.end_log_prob([slider.value for slider in self.contexts], solutions.positions)
            self._page.choose_ghost(int(np.argmax(density)))

    def _draw(self) -> None:
        """Draw motions from the prior as the controls tell."""
        solutions = self._page.solutions
        chosen = None if solutions is None else solutions.chosen
        with self._drawing:
            self.motions, self.problem = self._drawn(chosen)
            self._redraw()

    def _drawn(self, chosen: FloatArray | None) -> tuple[ShownMotions | None, str]:
        """Motions as the controls tell, or why there are none."""
        if self._is_tied and chosen is None:
            return None, "there is no solution to begin or end at"
        ends = chosen if self.begins.value else None, chosen if self.ends.value else None
        context = [slider.value for slider in self.contexts]
        try:
            return self._study.sample(context, int(self.n.value), self._random_seed, *ends), ""
        except EimError as error:
            return None, str(error)

    def _choose_kind(self) -> None:
        self.look_at(self.kind.value, 1)

    def _choose(self) -> None:
        """Another motion; that of a demonstration brings its context along."""
        with self._drawing:
            if self.kind.value == SHOWN and len(self.contexts):
                for slider, value in zip(self.contexts, self._study.contexts[self._index], strict=True):
                    slider.value = float(value)
                self._draw()
            else:
                self._redraw()

    @property
    def _index(self) -> int:
        motions = self.shown
        return 0 if motions is None else min(int(self.which.value), len(motions)) - 1

    def _redraw(self) -> None:
        motions = self.shown
        with self._page.server.atomic():
            if self.motions is not None:
                colours = light(FAMILY_COLOURS)[self.motions.components % len(FAMILY_COLOURS)]
                self._ways.draw(list(_thinned(self.motions.tips)), colours)
            if motions is not None:
                self.which.max = len(motions)
                self._way.draw([motions.tips[self._index]], light([self._colour]))
            self._told.content = self._words()
            self._legend.content = self._components()
            self._show_or_hide()
        self._show_phase(self._playback.phase)

    def _show_or_hide(self) -> None:
        is_wanted = bool(self.visible.value)
        self._ways.visible = is_wanted and self.motions is not None
        self._demonstrated.visible = is_wanted and self._study.demonstrations is not None
        self._way.visible = self._arm.visible = is_wanted and self.shown is not None

    def _show_phase(self, phase: float) -> None:
        with self._drawing:
            motions = self.shown
            if motions is not None:
                colour = MUTED if self.kind.value == SHOWN else self._colour
                self._arm.show(motions.at(self._index, phase), colour)

    @property
    def _colour(self) -> str:
        motions = self.shown
        component = -1 if motions is None else int(motions.components[self._index])
        return INK if component < 0 else FAMILY_COLOURS[component % len(FAMILY_COLOURS)]

    def _words(self) -> str:
        motions, i = self.shown, self._index
        if motions is None:
            return text_panel([self.problem])
        told = [f"log density {motions.log_prob[i]:.1f} nat"]
        if self.kind.value == SHOWN:
            told.append(f"more likely than {100.0 * motions.quantiles[i]:.0f} % of held-out demonstrations")
        else:
            told[0] += f", {100.0 * np.mean(motions.log_prob <= motions.log_prob[i]):.0f} % are no more likely"
            n_valid = int(motions.valid.sum())
            within = "within the limits" if motions.valid[i] else "BEYOND the limits"
            told.append(f"{within}, {n_valid} of {len(motions)} are")
            if self._is_tied:
                told.append(f"log density of this begin or end {motions.log_evidence:.1f} nat")
            if self.ends.value and self._page.solutions is not None:
                away = np.linalg.norm(motions.tips[i, -1] - self._page.solutions.pose[:3, 3])
                told.append(f"ends {away:.3f} m from the target")
        return text_panel(told)

    def _components(self) -> str:
        if self.motions is None:
            return ""
        components, counts = np.unique(self.motions.components, return_counts=True)
        names = [f"component {c + 1}: {n}" for c, n in zip(components, counts, strict=True)]
        colours = [FAMILY_COLOURS[c % len(FAMILY_COLOURS)] for c in components]
        if self._study.demonstrations is not None:
            names, colours = [*names, SHOWN], [*colours, NO_GROUP_COLOUR]
        return legend_panel(names, colours)


def _thinned(tips: FloatArray) -> FloatArray:
    """Ways (n, n_points, 3) of fewer points, the first and the last among them."""
    n_points = tips.shape[1]
    return tips[:, np.unique(np.linspace(0, n_points - 1, min(n_points, N_PARTS + 1)).round().astype(int))]
