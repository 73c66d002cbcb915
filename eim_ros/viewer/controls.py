"""The panel of the page beside the scene: what can be set there, and what is told of solutions."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import viser
from scipy.spatial.transform import Rotation

from eim_ros.ik.self_motions import Family
from eim_ros.kinematics import Robot, pose_from
from eim_ros.viewer.colours import family_colour
from eim_ros.viewer.panels import density_panel, joint_panel, legend_panel, manipulability_panel
from eim_ros.viewer.solutions import LiveSolutions, Solutions, dexterity
from eim_ros.viz.palette import MUTED

__all__ = ["Controls"]

FloatArray = npt.NDArray[np.float64]

NO_FAMILY = ("–",)
FORMS = ("sticks", "arms")  # of ghosts


class Controls:
    """Handles of what can be set; the page listens to them.

    Parameters
    ----------
    gui : viser.GuiApi
    robot : Robot
    live : LiveSolutions
        What is set at first.
    first : (4, 4) array
        First target.
    most_ghosts : int
    told : str
        Shown among the settings of the view; empty: nothing.
    extra_tab : str, optional
        Name of a tab before the others, for others to fill; solutions are not shown at first where there is one.
    """

    def __init__(
        self,
        gui: viser.GuiApi,
        robot: Robot,
        live: LiveSolutions,
        first: FloatArray,
        most_ghosts: int,
        told: str,
        extra_tab: str | None = None,
    ) -> None:
        self._robot = robot
        self._status = gui.add_markdown("")
        self._legend = gui.add_html("")
        tabs = gui.add_tab_group()
        self.extra_tab = None if extra_tab is None else tabs.add_tab(extra_tab)
        with tabs.add_tab("Solutions"):
            hint = "Which family the solid arm is of; or click a ghost"
            self.family: Any = gui.add_dropdown("Family", NO_FAMILY, hint=hint)
            hint = "Moves the arm while its tip stays"
            self.along: Any = gui.add_slider("Along it", 0.0, 1.0, 0.001, 0.0, hint=hint)
            self._manipulability = gui.add_html("")
            self._joints = gui.add_html("")
        self._density: Any = None
        if live.sampler.n_experts:
            with tabs.add_tab("Density"):
                self._density = gui.add_html("")
        with tabs.add_tab("Target"):
            self.position: Any = gui.add_vector3("Position [m]", _rounded(first[:3, 3]), step=0.001)
            self.rpy: Any = gui.add_vector3("Roll, pitch, yaw [°]", _rpy(first), step=0.1)
            self.position_only = gui.add_checkbox("Any orientation", live.position_only)
            self.reset = gui.add_button("Back to the first target")
        with tabs.add_tab("View"):
            self.n = gui.add_slider("Ghosts", 1, most_ghosts, 1, live.n)
            self.form = gui.add_dropdown("Ghosts as", FORMS)
            self.with_ghosts = gui.add_checkbox("Show ghosts", extra_tab is None)
            self.with_arm = gui.add_checkbox("Show the chosen arm", extra_tab is None)
            self.with_curves = gui.add_checkbox("Show self-motions", extra_tab is None)
            if told:
                gui.add_markdown(f"*{told}*")

    @property
    def target(self) -> FloatArray:
        """The pose (4, 4) that the fields of the target tell."""
        rotation = Rotation.from_euler("xyz", self.rpy.value, degrees=True)
        return pose_from(self.position.value, rotation.as_quat())

    def chosen_family(self, solutions: Solutions) -> int | None:
        """Which one of the families is chosen; None where that is none of them."""
        names = _names(solutions)
        return names.index(self.family.value) if self.family.value in names else None

    def tell(self, problem: str) -> None:
        """Why nothing is shown."""
        self._status.content = problem

    def show(self, solutions: Solutions, position_only: bool) -> None:
        """Tell of a target and its solutions."""
        self._status.content = f"**{solutions.message}**, in {1e3 * solutions.elapsed:.0f} ms"
        self.position.value, self.rpy.value = _rounded(solutions.pose[:3, 3]), _rpy(solutions.pose)
        told = [_told(number, family) for number, family in zip(solutions.numbers, solutions.families, strict=True)]
        self._legend.content = legend_panel(told, [family_colour(number) for number in solutions.numbers])
        self.show_choice(solutions, position_only)

    def show_choice(self, solutions: Solutions, position_only: bool) -> None:
        """Tell of the chosen solution."""
        options = _names(solutions) or NO_FAMILY
        if options != self.family.options:
            self.family.options = options
        self.family.disabled = self.along.disabled = solutions.chosen is None
        if self._density is not None:
            self._density.content = _density(solutions)
        if solutions.chosen is None:
            self._joints.content, self._manipulability.content = joint_panel(self._robot, None, MUTED), ""
            return
        family = solutions.families[solutions.family]
        colour = family_colour(solutions.numbers[solutions.family])
        self.family.value, self.along.value = options[solutions.family], solutions.along
        self.along.disabled = len(family) < 2
        values = dexterity(self._robot, family.positions, position_only)
        own = float(dexterity(self._robot, solutions.chosen[None], position_only)[0])
        place = solutions.along * float(family.along[-1])
        self._manipulability.content = manipulability_panel(family.along, values, place, own, colour)
        self._joints.content = joint_panel(self._robot, solutions.chosen, colour)


def _density(solutions: Solutions) -> str:
    """Of the ghosts and the chosen solution under the model; empty where there is none."""
    if solutions.chosen is None or not len(solutions.positions):
        return ""
    colours = [family_colour(number) for number in solutions.ghost_numbers.tolist()]
    own = float(solutions.log_prob_of(solutions.chosen[None])[0])
    return density_panel(solutions.log_prob, colours, own, family_colour(solutions.numbers[solutions.family]))


def _names(solutions: Solutions) -> tuple[str, ...]:
    return tuple(str(number + 1) for number in solutions.numbers)


def _told(number: int, family: Family) -> str:
    if family.is_curve:
        return f"{number + 1}: {family.along[-1]:.1f} rad{', closed' if family.is_closed else ''}"
    return f"{number + 1}: {len(family)} solution{'s' if len(family) > 1 else ''}"


def _rounded(values: FloatArray) -> tuple[float, float, float]:
    x, y, z = (round(float(value), 4) for value in values)
    return x, y, z


def _rpy(pose: FloatArray) -> tuple[float, float, float]:
    return _rounded(Rotation.from_matrix(pose[:3, :3]).as_euler("xyz", degrees=True))
