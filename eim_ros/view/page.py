"""Web page on which a user drags a target and sees all solutions, served by viser.

Events from the browser only mark that something has changed. A single thread then solves and draws for the newest
target, so no work piles up while the target is dragged. `Controls` is the panel next to the scene, with the settings
and the results.
"""

from __future__ import annotations

import contextlib
import io
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import viser
from scipy.spatial.transform import Rotation

from eim_ros.core.errors import ConfigurationError, EimError
from eim_ros.ik import Sampler
from eim_ros.ik.components import Component
from eim_ros.kinematics import Robot, pose_from, quaternion_from_matrix
from eim_ros.kinematics.poses import check_pose
from eim_ros.view.live import LiveSolutions, Solutions, component_colour, dexterity, first_pose, moving_axes
from eim_ros.view.panels import density_panel, joint_panel, legend_panel, manipulability_panel
from eim_ros.view.scene import ArmScene, arm_surfaces
from eim_ros.view.style import MUTED

FloatArray = npt.NDArray[np.float64]

NO_FAMILY = ("–",)
FORMS = ("sticks", "arms")  # shapes of ghosts


class Controls:
    """Widgets of the panel; the page listens to their events.

    `live` has the initial settings, and `first` (4, 4) is the first target. The note is a text in the view tab, if it
    is not empty. With a name for an extra first tab, which the caller fills, solutions are hidden at first.
    """

    def __init__(
        self,
        gui: viser.GuiApi,
        robot: Robot,
        live: LiveSolutions,
        first: FloatArray,
        most_ghosts: int,
        note: str,
        extra_tab: str | None = None,
    ) -> None:
        self._robot = robot
        self._status = gui.add_markdown("")
        self._legend = gui.add_html("")
        tabs = gui.add_tab_group()
        self.extra_tab = None if extra_tab is None else tabs.add_tab(extra_tab)
        with tabs.add_tab("Solutions"):
            hint = "Which component the solid arm is of; or click a ghost"
            self.component: Any = gui.add_dropdown("Component", NO_FAMILY, hint=hint)
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
            if note:
                gui.add_markdown(f"*{note}*")

    @property
    def target(self) -> FloatArray:
        """Pose (4, 4) in the fields of the target tab."""
        rotation = Rotation.from_euler("xyz", self.rpy.value, degrees=True)
        return pose_from(self.position.value, rotation.as_quat())

    def chosen_component(self, solutions: Solutions) -> int | None:
        """Return the index of the chosen component; None if it does not exist."""
        names = _names(solutions)
        return names.index(self.component.value) if self.component.value in names else None

    def tell(self, problem: str) -> None:
        """Show the reason why there are no solutions."""
        self._status.content = problem

    def show(self, solutions: Solutions, position_only: bool) -> None:
        """Show a target and its solutions."""
        self._status.content = f"**{solutions.message}**, in {1e3 * solutions.elapsed:.0f} ms"
        self.position.value, self.rpy.value = _rounded(solutions.pose[:3, 3]), _rpy(solutions.pose)
        labels = [
            component_label(*each, self._robot) for each in zip(solutions.numbers, solutions.components, strict=True)
        ]
        self._legend.content = legend_panel(labels, [component_colour(number) for number in solutions.numbers])
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
        self._manipulability.content = manipulability_panel(component.along, values, place, own, colour)
        self._joints.content = joint_panel(self._robot, solutions.chosen, colour)


def _density(solutions: Solutions) -> str:
    """Return the density panel of the ghosts and the chosen solution; empty without a solution."""
    if solutions.chosen is None or not len(solutions.positions):
        return ""
    colours = [component_colour(number) for number in solutions.ghost_numbers.tolist()]
    own = float(solutions.log_prob_of(solutions.chosen[None])[0])
    return density_panel(solutions.log_prob, colours, own, component_colour(solutions.numbers[solutions.component]))


def _names(solutions: Solutions) -> tuple[str, ...]:
    return tuple(str(number + 1) for number in solutions.numbers)


def component_label(number: int, component: Component, robot: Robot) -> str:
    """Return the size of a component, and the labels of its branch that all of its solutions have."""
    labels = robot.branches.labels(component.positions).values()
    branch = "".join(f", {label[0]}" for label in labels if label[0] and (label == label[0]).all())
    if component.is_curve:
        return f"{number + 1}: {component.along[-1]:.1f} rad{', closed' if component.is_closed else ''}{branch}"
    return f"{number + 1}: {len(component)} solution{'s' if len(component) > 1 else ''}{branch}"


def _rounded(values: FloatArray) -> tuple[float, float, float]:
    x, y, z = (round(float(value), 4) for value in values)
    return x, y, z


def _rpy(pose: FloatArray) -> tuple[float, float, float]:
    return _rounded(Rotation.from_matrix(pose[:3, :3]).as_euler("xyz", degrees=True))


MOST_GHOSTS, FEW_GHOSTS = 200, 50
CAMERA, LOOKS_AT = np.array([0.65, -0.65, 0.6]), np.array([0.0, 0.0, 0.3])  # in units of the arm's reach
ABOVE = np.array([0.0, -0.3, 1.1])  # for arms that move only in the plane
FOV = 1.2  # [rad] vertical field of view
TARGET_SIZE = 0.22  # in units of the arm's reach


@dataclass(frozen=True, kw_only=True)
class PageOptions:
    """What a page shows, and where it is served.

    By default, the orientation of the tip is free for models with a position as context, and for arms with fewer than
    six joints. Port 0 selects any free port. The seed of the solutions is the same for every target, so that they move
    as little as possible.
    """

    source: str | Path | None = None  # description of the robot with its visuals, see `arm_surfaces`
    package_paths: Sequence[str | Path] = ()  # see `find_mesh`
    n: int = 50  # number of ghosts, 1 to 200
    position_only: bool | None = None
    host: str = "127.0.0.1"
    port: int = 8080
    seed: int = 0
    extra_tab: str | None = None  # name of an extra tab that the caller fills, see `MotionTab`


class Page:
    """Web page that is served until it is closed.

    The first target is a pose (4, 4), see `first_pose` for the default. Keywords such as `port=0` replace fields of the
    options. The attribute `server` is for code that fills the extra tab or adds to the scene.

    Raises
    ------
    ConfigurationError
        If the port is in use, the host does not exist, or `n` is out of range.
    """

    def __init__(
        self,
        sampler: Sampler,
        pose: npt.ArrayLike | None = None,
        options: PageOptions | None = None,
        **changes: Any,
    ) -> None:
        chosen = replace(options or PageOptions(), **changes)
        self.robot, n, position_only = sampler.robot, chosen.n, chosen.position_only
        if not 1 <= n <= MOST_GHOSTS:
            raise ConfigurationError(f"the number of solutions to show must be 1 to {MOST_GHOSTS}, got {n}", n)
        if position_only is None:
            position_only = sampler.context_kind == "position" or self.robot.dof < 6
        self.surfaces, self.told = arm_surfaces(self.robot, chosen.source, chosen.package_paths)
        self.first = first_pose(self.robot) if pose is None else check_pose(pose)
        self.live = LiveSolutions(sampler, n, position_only, chosen.seed)
        self.server = _started(chosen.host, chosen.port, f"{self.robot.name} · eim view")
        self._changed, self._drawing = threading.Condition(), threading.RLock()
        self._is_wanted, self._is_closed, self.n_drawn = True, False, 0  # how often solutions were drawn
        self.solutions: Solutions | None = None
        n_ghosts = max(n, FEW_GHOSTS)
        self._after_solutions: list[Callable[[], None]] = []
        self._at_close: list[Callable[[], None]] = []
        self._add_scene(n_ghosts)
        self._add_controls(n_ghosts, chosen.extra_tab)
        self._thread = threading.Thread(target=self._follow, name="solutions", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://{self.server.get_host()}:{self.server.get_port()}"

    @property
    def extra_tab(self) -> viser.GuiTabHandle:
        """Extra tab, to be filled by the caller."""
        assert self._controls.extra_tab is not None
        return self._controls.extra_tab

    def on_solutions(self, act: Callable[[], None]) -> None:
        """Call `act` whenever new solutions are shown or another solution is chosen."""
        self._after_solutions.append(act)

    def on_close(self, act: Callable[[], None]) -> None:
        """Call `act` before the page stops being served."""
        self._at_close.append(act)

    @property
    def clients(self) -> list[viser.ClientHandle]:
        """Connected browsers, with their cameras."""
        return list(self.server.get_clients().values())

    def close(self) -> None:
        """Stop serving."""
        for act in self._at_close:
            act()
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join()
        with contextlib.redirect_stdout(io.StringIO()):  # viser prints a message when it stops
            self.server.stop()

    def _add_scene(self, n_ghosts: int) -> None:
        server, reach = self.server, self.robot.reach
        server.gui.configure_theme(show_logo=False, show_share_button=False)
        server.gui.main_panel.dock_right()
        server.scene.configure_default_lights(enabled=False)  # the default lights make colours pale
        server.scene.configure_environment_map(None)
        server.scene.add_light_hemisphere("/light", ground_color=(150, 150, 150), intensity=1.5)
        server.scene.add_light_directional("/sun", intensity=1.5, position=(1.0, -2.0, 3.0))
        is_free = moving_axes(self.robot)
        eye, aim = (CAMERA * reach, LOOKS_AT * reach) if is_free[2] else (ABOVE * reach, 0.5 * self.first[:3, 3])
        server.initial_camera.position, server.initial_camera.look_at = eye, aim
        server.initial_camera.fov = FOV
        self._scene = ArmScene(server.scene, self.robot, self.surfaces, n_ghosts)
        self._target = server.scene.add_transform_controls(
            "/target",
            scale=TARGET_SIZE * reach,
            depth_test=False,
            active_axes=(bool(is_free[0]), bool(is_free[1]), bool(is_free[2])),
            disable_rotations=self.live.position_only,
            position=self.first[:3, 3],
            wxyz=np.roll(quaternion_from_matrix(self.first), 1),
        )
        self._target.on_update(lambda _: self._want())
        self._show_ghosts_as("sticks")

    def _show_ghosts_as(self, form: str) -> None:
        with self._drawing:
            for ghosts in self._scene.show_ghosts_as(form):
                ghosts.on_click(lambda event: self.choose_ghost(event.instance_index))
        self._want()

    def _add_controls(self, n_ghosts: int, extra_tab: str | None) -> None:
        controls = self._controls = Controls(
            self.server.gui, self.robot, self.live, self.first, n_ghosts, self.told, extra_tab
        )
        controls.component.on_update(lambda event: self._choose(event, None))
        controls.along.on_update(lambda event: self._choose(event, controls.along.value))
        for field in (controls.position, controls.rpy):
            field.on_update(self._place_target)
        switches = (controls.position_only, controls.with_ghosts, controls.with_curves, controls.with_arm)
        for setting in (*switches, controls.n):
            setting.on_update(lambda _: self._want())
        controls.form.on_update(lambda _: self._show_ghosts_as(controls.form.value))
        controls.reset.on_click(lambda _: self.move_target(self.first))

    def _want(self) -> None:
        with self._changed:
            self._is_wanted = True
            self._changed.notify_all()

    def _follow(self) -> None:
        """Solve and draw whenever something has changed, until the page is closed."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_wanted or self._is_closed)
                if self._is_closed:
                    return
                self._is_wanted = False
            with self._drawing:
                self.live.n, self.live.position_only = int(self._controls.n.value), self._controls.position_only.value
                try:
                    self.solutions = self.live.solve(pose_from(self._target.position, np.roll(self._target.wxyz, -1)))
                    self._draw(self.solutions)
                except EimError as error:  # the next target may be solvable
                    self._controls.tell(str(error))

    def _draw(self, solutions: Solutions) -> None:
        with self.server.atomic():
            shown = self._controls
            self._scene.draw(solutions, shown.with_ghosts.value, shown.with_curves.value, shown.with_arm.value)
            self._target.disable_rotations = self.live.position_only
            self._controls.show(solutions, self.live.position_only)
        self.n_drawn += 1
        for act in self._after_solutions:
            act()

    def choose(self, component: int, along: float) -> None:
        """Show the solution at the place `along`, from 0 to 1, in the component at index `component`."""
        with self._drawing:
            if self.solutions is None or not 0 <= component < len(self.solutions.components):
                raise ConfigurationError(f"there is no component {component} of this target", component)
            self.solutions = self.live.choose(self.solutions, component, along)
            self._redraw_choice()

    def _choose(self, event: Any, along: float | None) -> None:
        """Apply a choice made in the browser; changes made by the page itself have no client."""
        if event.client is None:
            return
        with self._drawing:
            solutions = self.solutions
            if solutions is None or solutions.chosen is None:
                return
            component = self._controls.chosen_component(solutions)
            if along is None and component is not None:
                self.choose(component, 0.5)
            elif along is not None:
                self.choose(solutions.component, along)

    def choose_ghost(self, index: int | None) -> None:
        """Choose the solution of the ghost at `index`."""
        with self._drawing:
            if self.solutions is not None and index is not None and index < len(self.solutions.positions):
                self.solutions = self.live.choose_ghost(self.solutions, index)
                self._redraw_choice()

    def _redraw_choice(self) -> None:
        assert self.solutions is not None
        with self.server.atomic():
            self._scene.draw_chosen(self.solutions)
            self._controls.show_choice(self.solutions, self.live.position_only)
        for act in self._after_solutions:
            act()

    def _place_target(self, event: Any) -> None:
        if event.client is not None:
            self.move_target(self._controls.target)

    def move_target(self, pose: FloatArray) -> None:
        """Move the target to a pose (4, 4)."""
        self._target.position = pose[:3, 3]
        self._target.wxyz = np.roll(quaternion_from_matrix(pose), 1)
        self._want()


def _started(host: str, port: int, label: str) -> viser.ViserServer:
    """Start a server on exactly this port; viser would silently take the next free one."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, port))
        except OSError as error:
            raise ConfigurationError(
                f"cannot serve on {host}:{port}: {error.strerror or error}; give another --port (0: any that is free)",
                port,
            ) from error
    with contextlib.redirect_stdout(io.StringIO()):  # viser prints its address
        return viser.ViserServer(host=host, port=port, label=label, verbose=False)
