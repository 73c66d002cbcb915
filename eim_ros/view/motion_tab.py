"""The motion tab of the page: paths of the tip, and an arm that moves along a selected path.

Demonstrations are grey. Motions drawn from the prior have the colours of their components. A slider sets the phase of
the motion, and a checkbox plays the motion.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import viser

from eim_ros.core.arrays import FloatArray
from eim_ros.core.errors import ConfigurationError, DataError, EimError
from eim_ros.kinematics import Robot
from eim_ros.motion import Demonstrations, MotionPrior, ViaPoint, weigh
from eim_ros.view.live import component_colour, light
from eim_ros.view.page import Page
from eim_ros.view.panels import density_text, legend_panel, text_panel
from eim_ros.view.scene import ArmMeshes, Lines
from eim_ros.view.style import INK, MUTED, NO_GROUP_COLOUR

WIDTH = 2.0  # half the range of a context slider without demonstrations, in standard deviations
STEP = 0.04  # [s] between two frames
REST = 0.5  # [s] pause at the end before the motion is repeated
DRAWN, SHOWN = "drawn from the prior", "demonstrated"
MOST_DRAWN, DRAWN_FIRST = 100, 20
MOST_DEMONSTRATIONS = 200  # maximum number of demonstrated paths of the tip to draw
N_PARTS = 40  # maximum number of segments of a tip path
THIN, THICK = 0.0025, 0.008  # line thickness, relative to the reach of the arm


@dataclass(frozen=True, eq=False)
class ShownMotions:
    """Motions with their densities, as shown in the tab."""

    positions: FloatArray  # (n, n_points, dof), in the order of the robot's joints [rad] or [m]
    tips: FloatArray  # (n, n_points, 3), path of the tip [m]
    log_prob: FloatArray  # (n,), log density given the context and the prescribed start and end, if any [nat]
    components: npt.NDArray[np.int64]  # (n,), component of each drawn motion; -1 for demonstrations
    valid: npt.NDArray[np.bool_]  # (n,) bool, whether the motion stays within the joint limits
    quantiles: FloatArray  # (n,), fraction of held-out demonstrations that are less likely; NaN for drawn motions
    log_evidence: float = 0.0  # log density of the prescribed start and end [nat]; 0 without them

    def __len__(self) -> int:
        return len(self.positions)

    def at(self, index: int, phase: float) -> FloatArray:
        """Return the configuration (dof,) of a motion at a phase from 0 to 1, by linear interpolation."""
        motion = self.positions[index]
        place = phase * (len(motion) - 1)
        before = min(int(place), len(motion) - 2)
        return np.asarray(motion[before] + (place - before) * (motion[before + 1] - motion[before]))


class MotionStudy:
    """Motion prior of a robot, and optional demonstrations.

    The prior must contain all joints of the robot, and may contain other joints. The demonstrations must have the same
    joints and contexts as the prior.

    Raises
    ------
    ConfigurationError
        If the joints do not match.
    DataError
        If the numbers of contexts differ.
    """

    def __init__(self, robot: Robot, prior: MotionPrior, demonstrations: Demonstrations | None = None) -> None:
        self.robot, self.prior = robot, prior
        self._columns = _columns(prior.joint_names, robot.joint_names, "motion prior", "robot")
        self.contexts = np.empty((0, prior.n_context))
        self.demonstrations: ShownMotions | None = None
        if demonstrations is not None:
            self.demonstrations = self._demonstrated(demonstrations)
            self.contexts = demonstrations.context

    @property
    def duration(self) -> float:
        """Mean duration of a motion [s]."""
        return self.prior.mean_duration

    def context_ranges(self) -> list[tuple[str, float, float, float]]:
        """Return the name, smallest value, largest value and step of the slider for each context."""
        middle, spread = self.prior.context_center.numpy(), WIDTH * self.prior.context_scale.numpy()
        low, high = middle - spread, middle + spread
        if len(self.contexts):
            low, high = self.contexts.min(axis=0), self.contexts.max(axis=0)
        high = np.maximum(high, low + 1e-3)  # avoids an empty range for a constant context
        steps = 10.0 ** np.floor(np.log10((high - low) / 50.0))
        low, high = np.floor(low / steps) * steps, np.ceil(high / steps) * steps
        columns = (low.round(9).tolist(), high.round(9).tolist(), steps.round(9).tolist())
        return list(zip(self.prior.context_names, *columns, strict=True))

    def sample(
        self, context: npt.ArrayLike, n: int, seed: int, start: FloatArray | None = None, end: FloatArray | None = None
    ) -> ShownMotions:
        """Draw motions for a context, optionally with a prescribed start or end configuration (dof,).

        Raises
        ------
        EimError
            If the context has the wrong length, or if the start or end is beyond the joint limits.
        """
        wishes = [(0.0, start), (1.0, end)]
        points = [ViaPoint(at, self.robot.joint_names, tuple(q.tolist())) for at, q in wishes if q is not None]
        given = self.prior.condition(context, points)
        drawn = given.sample(n, torch.Generator().manual_seed(seed))
        positions = drawn.positions[:, :, self._columns]
        valid, unknown = np.ones(n, dtype=bool), np.full(n, np.nan)
        return ShownMotions(
            positions, self._tips(positions), drawn.log_prob, drawn.component, valid, unknown, given.log_evidence
        )

    def end_log_prob(self, context: npt.ArrayLike, rows: FloatArray) -> FloatArray:
        """Return the log density (n,) [nat] that a motion ends in configurations (n, dof), given a context.

        If the robot lacks joints of the prior, their positions are unknown, and the result is 0.
        """
        if len(self._columns) < len(self.prior.joint_names):
            return np.zeros(len(rows))  # the positions of the prior's other joints are unknown
        return weigh(self.prior.condition(context), 1.0, self.robot.joint_names, rows).log_prob

    def _demonstrated(self, motions: Demonstrations) -> ShownMotions:
        prior = self.prior
        columns = _columns(motions.joint_names, prior.joint_names, "demonstrations", "motion prior")
        if motions.context.shape[1] != prior.n_context:
            raise DataError(
                f"the demonstrations have {motions.context.shape[1]} context values, but the prior has "
                f"{prior.n_context}: give demonstrations with the same context",
                motions.context.shape,
            )
        times = np.linspace(0.0, 1.0, motions.positions.shape[1])
        whole = np.stack([prior.representation.resampled(times, each[:, columns]) for each in motions.positions])
        scores = prior.score(whole, motions.context)
        positions = whole[:, :, self._columns]
        n = len(positions)
        return ShownMotions(
            positions, self._tips(positions), scores.log_prob, np.full(n, -1), np.ones(n, dtype=bool), scores.quantile
        )

    def _tips(self, positions: FloatArray) -> FloatArray:
        n, n_points, dof = positions.shape
        return np.asarray(self.robot.fk(positions.reshape(-1, dof))[:, :3, 3].reshape(n, n_points, 3))


def _columns(names: tuple[str, ...], wanted: tuple[str, ...], owner: str, asker: str) -> list[int]:
    """Return the index of each wanted joint in `names`."""
    missing = [name for name in wanted if name not in names]
    if missing:
        raise ConfigurationError(
            f"the {asker} has joints {', '.join(missing)}, which the {owner} does not have: its joints are "
            f"{', '.join(names)}; select the robot of the motions",
            missing,
        )
    return [names.index(name) for name in wanted]


class Playback:
    """Slider and checkbox that play phases from 0 to 1.

    `show` is called with each new phase. `duration` returns the time from phase 0 to 1 [s], and is called for every
    frame.
    """

    def __init__(self, gui: viser.GuiApi, show: Callable[[float], None], duration: Callable[[], float]) -> None:
        self._show, self._duration = show, duration
        self._slider: Any = gui.add_slider("Time", 0.0, 1.0, 0.001, 0.0, hint="From the start to the end of the motion")
        self._play: Any = gui.add_checkbox("Play", False)
        self._changed, self._is_closed = threading.Event(), False
        self._slider.on_update(by_hand(lambda: self._show(self.phase)))
        self._play.on_update(by_hand(self._changed.set))
        self._thread = threading.Thread(target=self._run, name="playback", daemon=True)
        self._thread.start()

    @property
    def phase(self) -> float:
        return float(self._slider.value)

    def move_to(self, phase: float) -> None:
        """Show this phase."""
        self._slider.value = phase
        self._show(phase)

    def play(self, is_wanted: bool = True) -> None:
        """Start playing at the current phase, or pause there."""
        self._play.value = is_wanted
        self._changed.set()

    def close(self) -> None:
        """Stop playing and end the thread."""
        self._is_closed = True
        self._changed.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_closed:
            self._changed.wait()
            self._changed.clear()
            begin: float | None = None
            while self._play.value and not self._is_closed:
                duration = self._duration()
                if begin is None:  # start at the current phase
                    begin = time.monotonic() - (self.phase % 1.0) * duration
                since = (time.monotonic() - begin) % (duration + REST)
                self._slider.value = round(min(1.0, since / duration), 3)
                self._show(self.phase)
                time.sleep(STEP)


def by_hand(act: Callable[[], None]) -> Callable[[Any], None]:
    """Return a listener that calls `act` only if a user, and not the page itself, has changed the control."""

    def listen(event: Any) -> None:
        if event.client is not None:
            act()

    return listen


class MotionTab:
    """Extra tab of a page, with motions of its robot. `seed` is the seed of the first motions."""

    def __init__(self, page: Page, study: MotionStudy, seed: int = 0) -> None:
        self._page, self._study, self._seed = page, study, seed
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
            hint = "Context for the prior"
            self.contexts: list[Any] = [
                gui.add_slider(name, low, high, step, low + step * round(0.5 * (high - low) / step), hint=hint)
                for name, low, high, step in study.context_ranges()
            ]
            hint = "Motions are conditioned on this solution. To change it, drag the target or choose another solution."
            self.begins: Any = gui.add_checkbox("Begin at the chosen solution", False, hint=hint)
            self.ends: Any = gui.add_checkbox("End at the chosen solution", False, hint=hint)
            hint = "Selects the solution of the target at which motions of the prior most likely end"
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
        """Motions of the selected kind, or None."""
        return self.motions if self.kind.value == DRAWN else self._study.demonstrations

    def look_at(self, kind: str, which: int) -> None:
        """Show one motion of a kind, DRAWN or SHOWN. The number `which` counts from 1."""
        with self._drawing:
            self.kind.value, self.which.value = kind, which
            self._choose()

    def move_to(self, phase: float) -> None:
        """Show a phase of the motion, from 0 to 1."""
        self._playback.move_to(phase)

    def play(self) -> None:
        """Play the motion in a loop."""
        self._playback.play()

    @property
    def phase(self) -> float:
        """Current phase of the motion, from 0 to 1."""
        return self._playback.phase

    def _draw_others(self) -> None:
        self._seed += 1
        self._draw()

    def choose_likeliest(self) -> None:
        """Choose the solution that is the most likely end of a motion under the prior."""
        solutions = self._page.solutions
        if solutions is not None and len(solutions.positions):
            density = self._study.end_log_prob([slider.value for slider in self.contexts], solutions.positions)
            self._page.choose_ghost(int(np.argmax(density)))

    def _draw(self) -> None:
        """Draw motions from the prior with the current settings, and show them."""
        solutions = self._page.solutions
        chosen = None if solutions is None else solutions.chosen
        with self._drawing:
            self.motions, self.problem = self._drawn(chosen)
            self._redraw()

    def _drawn(self, chosen: FloatArray | None) -> tuple[ShownMotions | None, str]:
        """Return motions for the current settings, or None with the reason."""
        if self._is_tied and chosen is None:
            return None, "the target has no solution at which motions can start or end"
        ends = chosen if self.begins.value else None, chosen if self.ends.value else None
        context = [slider.value for slider in self.contexts]
        try:
            return self._study.sample(context, int(self.n.value), self._seed, *ends), ""
        except EimError as error:
            return None, str(error)

    def _choose_kind(self) -> None:
        self.look_at(self.kind.value, 1)

    def _choose(self) -> None:
        """Show the selected motion. A demonstration also sets the context."""
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
                colours = light([component_colour(c) for c in self.motions.components.tolist()])
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
        return INK if component < 0 else component_colour(component)

    def _words(self) -> str:
        motions, i = self.shown, self._index
        if motions is None:
            return text_panel([self.problem])
        told = [f"log density {density_text(float(motions.log_prob[i]))}"]
        if self.kind.value == SHOWN:
            told.append(f"more likely than {100.0 * motions.quantiles[i]:.0f} % of held-out demonstrations")
        else:
            told[0] += (
                f", at least that of {100.0 * np.mean(motions.log_prob <= motions.log_prob[i]):.0f} % of the motions"
            )
            n_valid = int(motions.valid.sum())
            within = "within the limits" if motions.valid[i] else "BEYOND the limits"
            told.append(f"{within}; {n_valid} of {len(motions)} motions are within the limits")
            if self._is_tied:
                told.append(f"log density of the prescribed start or end: {density_text(motions.log_evidence)}")
            if self.ends.value and self._page.solutions is not None:
                away = np.linalg.norm(motions.tips[i, -1] - self._page.solutions.pose[:3, 3])
                told.append(f"ends {away:.3f} m from the target")
        return text_panel(told)

    def _components(self) -> str:
        if self.motions is None:
            return ""
        components, counts = np.unique(self.motions.components, return_counts=True)
        names = [f"expert {c + 1}: {n}" for c, n in zip(components, counts, strict=True)]
        colours = [component_colour(int(c)) for c in components]
        if self._study.demonstrations is not None:
            names, colours = [*names, SHOWN], [*colours, NO_GROUP_COLOUR]
        return legend_panel(names, colours)


def _thinned(tips: FloatArray) -> FloatArray:
    """Reduce paths (n, n_points, 3) to at most N_PARTS segments. Keep the first and the last point."""
    n_points = tips.shape[1]
    return tips[:, np.unique(np.linspace(0, n_points - 1, min(n_points, N_PARTS + 1)).round().astype(int))]
