"""Panel of the page: the robot, the settings and the results."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import viser
from scipy.spatial.transform import Rotation

from eim_ros.core.arrays import FloatArray
from eim_ros.ik import Component
from eim_ros.kinematics import Robot, pose_from, tip_links
from eim_ros.view.groups import common_labels
from eim_ros.view.live import LiveSolutions, Solutions, component_colour, dexterity
from eim_ros.view.panels import density_panel, joint_panel, legend_panel, manipulability_panel
from eim_ros.view.style import MUTED

NO_FAMILY = ("–",)
FORMS = ("sticks", "arms")  # shapes of ghosts
CAPTIONS = {  # meaning of the colours in the legend
    "component": "Each colour is a component: the arm moves through it without moving its tip.",
    "solution": "Each colour is a component, which is a single solution here.",
    "group": "Each colour is a group of solutions that look alike.",
}


BUTTON = (
    "width:100%;padding:5px;border:1px solid #C9CDD4;border-radius:4px;background:#ECEEF2;color:#1B1F27;cursor:pointer"
)
TEXT = "width:100%;margin-top:4px;font:10.5px monospace;white-space:pre;overflow-x:auto;border:1px solid #C9CDD4"
BOX = (0.3, 0.3, 0.3)  # [m] initial size of new obstacles
LONGEST = 10.0  # [m] maximum size of an obstacle


@dataclass(frozen=True, kw_only=True)
class Menu:
    """Choices and texts of the panel."""

    most_ghosts: int
    robots: tuple[str, ...] = ()  # names of other robots; without names, there is no menu
    note: str = ""  # text in the view tab
    extra_tab: str | None = None  # name of an extra first tab; the caller adds its content


class Controls:
    """Widgets of the panel. The page listens to their events.

    `live` contains the initial settings, and `first` (4, 4) is the first target. With an extra tab, solutions are
    hidden at the start.
    """

    def __init__(self, gui: viser.GuiApi, robot: Robot, live: LiveSolutions, first: FloatArray, menu: Menu) -> None:
        self._robot = robot
        self.robot: Any = None
        if len(menu.robots) > 1:
            self.robot = gui.add_dropdown(
                "Robot", menu.robots, initial_value=robot.name, hint="Select an arm that the package includes"
            )
        self._status = gui.add_markdown("")
        self._legend = gui.add_html("")
        tabs = gui.add_tab_group()
        self.extra_tab = None if menu.extra_tab is None else tabs.add_tab(menu.extra_tab)
        with tabs.add_tab("Solutions"):
            hint = "The solid arm shows a solution of this component. You can also click a thin arm in the scene."
            self.component: Any = gui.add_dropdown("Component", NO_FAMILY, hint=hint)
            hint = "Moves the arm along its component while the tip stays. You can also drag a link of the solid arm."
            self.along: Any = gui.add_slider("Self-motion", 0.0, 1.0, 0.001, 0.0, hint=hint)
            self._manipulability = gui.add_html("")
            self._joints = gui.add_html("")
        self._density: Any = None
        if live.sampler.n_experts:
            with tabs.add_tab("Density"):
                self._density = gui.add_html("")
        with tabs.add_tab("Target"):
            self.tip: Any = None
            tips = tip_links(robot)
            if menu.robots and len(tips) > 1 and not live.sampler.n_experts:
                self.tip = gui.add_dropdown(
                    "Tip", tips, initial_value=robot.tip_link, hint="Link that reaches the target"
                )
            self.position: Any = gui.add_vector3("Position [m]", _rounded(first[:3, 3]), step=0.001)
            self.rpy: Any = gui.add_vector3("Roll, pitch, yaw [°]", _rpy(first), step=0.1)
            self.position_only: Any = gui.add_checkbox("Any orientation", live.position_only)
            self.reset = gui.add_button("Return to the first target")
        with tabs.add_tab("Scene"):
            self.self_collision: Any = gui.add_checkbox(
                "No self-collision",
                live.sampler.constraints.self_collision,
                hint="Hide arms that collide with themselves",
            )
            self.size: Any = gui.add_vector3("Size [m]", BOX, min=(0.01,) * 3, max=(LONGEST,) * 3, step=0.01)
            self.add_box = gui.add_button("Add a box", hint="Drag its arrows and arcs in the scene")
            self.add_sphere = gui.add_button("Add a sphere", hint="The first size is the diameter")
            self.remove = gui.add_button("Remove the last obstacle")
        with tabs.add_tab("View"):
            self.n = gui.add_slider("Solutions shown", 1, menu.most_ghosts, 1, live.n)
            self.form = gui.add_dropdown("Drawn as", FORMS)
            is_shown = menu.extra_tab is None
            self.with_ghosts = gui.add_checkbox("Show solutions", is_shown)
            self.with_arm = gui.add_checkbox("Show the chosen arm", is_shown)
            self.with_curves = gui.add_checkbox("Show self-motions", is_shown)
            self.frame = gui.add_button("Show everything")
            if menu.note:
                gui.add_markdown(f"*{menu.note}*")
        with tabs.add_tab("Copy"):
            self._copies = gui.add_html("")

    def show_copies(self, query: str, python: str, yaml: str) -> None:
        """Show the state of the page as a link, as Python and as YAML, with a copy button for each."""
        to_link = "history.replaceState(null,'','?'+t.value);t={value:location.href};"
        self._copies.content = "".join(
            (_copied("link", query, to_link), _copied("Python", python), _copied("YAML", yaml))
        )

    @property
    def target(self) -> FloatArray:
        """Pose (4, 4) in the fields of the target tab."""
        rotation = Rotation.from_euler("xyz", self.rpy.value, degrees=True)
        return pose_from(self.position.value, rotation.as_quat())

    def chosen_component(self, solutions: Solutions) -> int | None:
        """Return the index of the chosen component, or None if it does not exist."""
        names = _names(solutions)
        return names.index(self.component.value) if self.component.value in names else None

    def tell(self, problem: str) -> None:
        """Show the reason why there are no solutions."""
        self._status.content = problem

    def show(self, solutions: Solutions, position_only: bool) -> None:
        """Show a target and its solutions."""
        self._status.content = f"**{solutions.message}**, in {1e3 * solutions.elapsed:.0f} ms"
        self.position.value, self.rpy.value = _rounded(solutions.pose[:3, 3]), _rpy(solutions.pose)
        labels = component_names(solutions.numbers, solutions.components, self._robot)
        colours = [component_colour(number) for number in solutions.numbers]
        self._legend.content = legend_panel(labels, colours, _caption(solutions))
        self.show_choice(solutions, position_only)

    def show_choice(self, solutions: Solutions, position_only: bool) -> None:
        """Show the chosen solution."""
        options = _names(solutions) or NO_FAMILY
        if options != self.component.options:
            self.component.options = options
        self.component.disabled = self.along.disabled = solutions.chosen is None
        if self._density is not None:
            self._density.content = _density(solutions)
        if solutions.chosen is None:
            self._joints.content, self._manipulability.content = joint_panel(self._robot, None, MUTED), ""
            return
        component = solutions.components[solutions.component]
        colour = component_colour(solutions.numbers[solutions.component])
        self.component.value, self.along.value = options[solutions.component], solutions.along
        self.along.disabled = len(component) < 2
        values = dexterity(self._robot, component.positions, position_only)
        own = float(dexterity(self._robot, solutions.chosen[None], position_only)[0])
        place = solutions.along * float(component.along[-1])
        is_curve = component.is_curve
        self._manipulability.content = manipulability_panel(component.along, values, place, own, colour, is_curve)
        self._joints.content = joint_panel(self._robot, solutions.chosen, colour)


def _caption(solutions: Solutions) -> str:
    """Return the meaning of the colours, or an empty text if there is no solution."""
    if not solutions.components:
        return ""
    return CAPTIONS["solution" if all(len(one) == 1 for one in solutions.components) else solutions.kind]


def _density(solutions: Solutions) -> str:
    """Return the density panel of the ghosts and the chosen solution, or an empty text if there is no solution."""
    if solutions.chosen is None or not len(solutions.positions):
        return ""
    colours = [component_colour(number) for number in solutions.ghost_numbers.tolist()]
    own = float(solutions.log_prob_of(solutions.chosen[None])[0])
    return density_panel(solutions.log_prob, colours, own, component_colour(solutions.numbers[solutions.component]))


def _names(solutions: Solutions) -> tuple[str, ...]:
    return tuple(str(number + 1) for number in solutions.numbers)


def component_names(numbers: Sequence[int], components: Sequence[Component], robot: Robot) -> list[str]:
    """Return a text for each component: its size, and the common branch labels of its solutions."""
    if not components:
        return []
    rows = np.concatenate([component.positions for component in components])
    starts = np.cumsum([0, *(len(component) for component in components)])
    labels, names = list(robot.branches.labels(rows).values()), []
    for number, component, start, end in zip(numbers, components, starts, starts[1:], strict=False):
        n, branch = len(component), common_labels([label[start:end] for label in labels])
        if component.is_curve:
            size = [f"{component.along[-1]:.1f} rad{', closed' if component.is_closed else ''}"]
        else:
            size = [f"{n} solutions"] if n > 1 else [] if branch else ["1 solution"]
        names.append(f"{number + 1}: {', '.join(size + branch)}")
    return names


def _rounded(values: FloatArray) -> tuple[float, float, float]:
    x, y, z = (round(float(value), 4) for value in values)
    return x, y, z


def _rpy(pose: FloatArray) -> tuple[float, float, float]:
    return _rounded(Rotation.from_matrix(pose[:3, :3]).as_euler("xyz", degrees=True))


def _copied(name: str, text: str, before: str = "") -> str:
    """Return a text with a copy button. Remote pages have no clipboard, so they copy through a selection."""
    act = (
        f"let t=this.nextElementSibling;{before}navigator.clipboard?navigator.clipboard.writeText(t.value):"
        "(this.nextElementSibling.select(),document.execCommand('copy'));this.textContent='Copied'"
    )
    rows = min(text.count("\n") + 2, 12)
    return (
        f'<div style="padding:4px 10px;font-size:12px"><button style="{BUTTON}" onclick="{html.escape(act)}" '
        f"onmouseleave=\"this.textContent='Copy {name}'\">Copy {name}</button>"
        f'<textarea readonly rows="{rows}" style="{TEXT}">{html.escape(text)}</textarea></div>'
    )
