"""A page in the browser: drag the target, and see all solutions.

viser serves it. What the browser reports only marks what is wanted; one thread solves and draws, always for the newest
target, so that nothing piles up while it is dragged.
"""

from __future__ import annotations

import contextlib
import io
import socket
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import viser
from scipy.spatial.transform import Rotation

from eim_ros.errors import ConfigurationError
from eim_ros.ik import Sampler
from eim_ros.ik.self_motions import Family
from eim_ros.kinematics import pose_from, quaternion_from_matrix
from eim_ros.viewer.arm_scene import ArmScene
from eim_ros.viewer.colours import family_colour
from eim_ros.viewer.panels import joint_panel, legend_panel, manipulability_panel
from eim_ros.viewer.solutions import LiveSolutions, Solutions, first_pose
from eim_ros.viewer.surfaces import arm_surfaces
from eim_ros.viz.palette import MUTED

__all__ = ["Page"]

FloatArray = npt.NDArray[np.float64]

MOST_GHOSTS = 200
NO_FAMILY = ("–",)
FORMS = ("sticks", "arms")
CAMERA, LOOKS_AT = np.array([0.65, -0.65, 0.6]), np.array([0.0, 0.0, 0.3])  # in reaches of the arm
FOV = 1.2  # [rad], from top to bottom
TARGET_SIZE = 0.22  # in reaches, too
MOVES = 1e-9  # of the largest entry of Jacobians, above which the tip moves along an axis


class Page:
    """Serves the page until it is closed.

    Parameters
    ----------
    sampler : Sampler
    source : str or Path, optional
        Description of the robot, for its visuals, see `arm_surfaces`.
    pose : (4, 4) array_like, optional
        First target; default: see `first_pose`.
    n : int
        Ghosts, 1 to 200.
    position_only : bool, optional
        Whether any orientation will do; default: as the model's context is, and for arms of less than six joints.
    host, port : str, int
        Where to serve; port 0 is any that is free.
    random_seed : int
        Of the solutions, the same for every target: so they move as little as can be.

    Raises
    ------
    ConfigurationError
        If the port is in use, or there is no such host.
    """

    def __init__(
        self,
        sampler: Sampler,
        *,
        source: str | Path | None = None,
        package_paths: Sequence[str | Path] = (),
        pose: npt.ArrayLike | None = None,
        n: int = 50,
        position_only: bool | None = None,
        host: str = "127.0.0.1",
        port: int = 8080,
        random_seed: int = 0,
    ) -> None:
        self.robot = sampler.robot
        if not 1 <= n <= MOST_GHOSTS:
            raise ConfigurationError(f"the number of solutions to show must be 1 to {MOST_GHOSTS}, got {n}", n)
        if position_only is None:
            position_only = sampler.context_kind == "position" or self.robot.dof < 6
        surfaces, self.told = arm_surfaces(self.robot, source, package_paths)
        self.first = first_pose(self.robot) if pose is None else np.asarray(pose, dtype=np.float64)
        self.live = LiveSolutions(sampler, n, position_only, random_seed)
        self._server = _started(host, port, f"{self.robot.name} · eim view")
        self._changed, self._drawing = threading.Condition(), threading.RLock()
        self._is_wanted, self._is_closed, self._n_drawn = True, False, 0
        self.solutions: Solutions | None = None
        self._add_scene(surfaces, MOST_GHOSTS if n > 50 else 50)
        self._add_panel()
        self._thread = threading.Thread(target=self._follow, name="solutions", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://{self._server.get_host()}:{self._server.get_port()}"

    @property
    def n_drawn(self) -> int:
        """How often solutions were drawn."""
        return self._n_drawn

    def close(self) -> None:
        """Stop serving."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join()
        with contextlib.redirect_stdout(io.StringIO()):  # it tells that it stops
            self._server.stop()

    def _add_scene(self, surfaces: Any, n_ghosts: int) -> None:
        server, reach = self._server, self.robot.reach
        server.gui.configure_theme(show_logo=False, show_share_button=False)
        server.gui.main_panel.dock_right()
        server.scene.configure_default_lights(enabled=False)  # in which colours fade
        server.scene.configure_environment_map(None)
        server.scene.add_light_hemisphere("/light", ground_color=(150, 150, 150), intensity=1.5)
        server.scene.add_light_directional("/sun", intensity=1.5, position=(1.0, -2.0, 3.0))
        server.initial_camera.position, server.initial_camera.look_at = CAMERA * reach, LOOKS_AT * reach
        server.initial_camera.fov = FOV
        self._scene = ArmScene(server.scene, self.robot, surfaces, n_ghosts)
        moves = np.abs(self.robot.jacobian(self.robot.sample_configurations(8, np.random.default_rng(0)))).max(
            axis=(0, 2)
        )
        is_free = moves > MOVES * moves.max()
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
                ghosts.on_click(lambda event: self._choose_ghost(event.instance_index))
        self._want()

    def _add_panel(self) -> None:
        gui = self._server.gui
        self._status = gui.add_markdown("")
        self._legend = gui.add_html("")
        tabs = gui.add_tab_group()
        with tabs.add_tab("Solutions"):
            self._family: Any = gui.add_dropdown(
                "Family", ["–"], hint="Which family the solid arm is of; or click a ghost"
            )
            self._along: Any = gui.add_slider(
                "Along it", 0.0, 1.0, 0.001, 0.0, hint="Moves the arm while its tip stays"
            )
            self._manipulability = gui.add_html("")
            self._joints = gui.add_html("")
        with tabs.add_tab("Target"):
            self._position: Any = gui.add_vector3("Position [m]", tuple(self.first[:3, 3]), step=0.001)
            self._rpy: Any = gui.add_vector3("Roll, pitch, yaw [°]", _rpy(self.first), step=0.1)
            self._position_only = gui.add_checkbox("Any orientation", self.live.position_only)
            reset = gui.add_button("Back to the first target")
        with tabs.add_tab("View"):
            self._n = gui.add_slider("Ghosts", 1, self._scene.n_ghosts, 1, self.live.n)
            self._form = gui.add_dropdown("Ghosts as", FORMS)
            self._with_ghosts = gui.add_checkbox("Show ghosts", True)
            self._with_curves = gui.add_checkbox("Show self-motions", True)
            if self.told:
                gui.add_markdown(f"*{self.told}*")
        self._family.on_update(lambda event: self._choose(event, None))
        self._along.on_update(lambda event: self._choose(event, self._along.value))
        for field in (self._position, self._rpy):
            field.on_update(self._place_target)
        for box in (self._position_only, self._with_ghosts, self._with_curves):
            box.on_update(lambda _: self._want())
        self._n.on_update(lambda _: self._want())
        self._form.on_update(lambda _: self._show_ghosts_as(self._form.value))
        reset.on_click(lambda _: self.move_target(self.first))

    def _want(self) -> None:
        with self._changed:
            self._is_wanted = True
            self._changed.notify_all()

    def _follow(self) -> None:
        """Solves and draws whenever something has changed, until the page is closed."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_wanted or self._is_closed)
                if self._is_closed:
                    return
                self._is_wanted = False
            with self._drawing:
                self.live.n, self.live.position_only = int(self._n.value), self._position_only.value
                pose = pose_from(self._target.position, np.roll(self._target.wxyz, -1))
                self.solutions = self.live.solve(pose)
                self._draw()

    def _draw(self) -> None:
        solutions = self.solutions
        assert solutions is not None
        with self._server.atomic():
            self._scene.draw(solutions, self._with_ghosts.value, self._with_curves.value)
            self._target.disable_rotations = self.live.position_only
            self._status.content = f"**{solutions.message}**, in {1e3 * solutions.elapsed:.0f} ms"
            self._position.value = _rounded(solutions.pose[:3, 3])
            self._rpy.value = _rpy(solutions.pose)
            told = [_told(number, family) for number, family in zip(solutions.numbers, solutions.families, strict=True)]
            self._legend.content = legend_panel(told, [family_colour(number) for number in solutions.numbers])
            self._draw_choice()
        self._n_drawn += 1

    def _draw_choice(self) -> None:
        solutions = self.solutions
        assert solutions is not None
        options = tuple(str(number + 1) for number in solutions.numbers) or NO_FAMILY
        if options != self._family.options:
            self._family.options = options
        has_choice = solutions.chosen is not None
        self._family.disabled = self._along.disabled = not has_choice
        if not has_choice:
            self._joints.content, self._manipulability.content = joint_panel(self.robot, None, MUTED), ""
            return
        assert solutions.chosen is not None
        family = solutions.families[solutions.family]
        colour = family_colour(solutions.numbers[solutions.family])
        self._family.value, self._along.value = options[solutions.family], solutions.along
        self._along.disabled = len(family) < 2
        values = self.robot.manipulability(family.positions, self.live.position_only)
        own = float(self.robot.manipulability(solutions.chosen, self.live.position_only))
        place = solutions.along * float(family.along[-1])
        self._manipulability.content = manipulability_panel(family.along, values, place, own, colour)
        self._joints.content = joint_panel(self.robot, solutions.chosen, colour)

    def choose(self, family: int, along: float) -> None:
        """Show the solution at a place, from 0 to 1, in one of the families that there are."""
        with self._drawing:
            if self.solutions is None or not 0 <= family < len(self.solutions.families):
                raise ConfigurationError(f"there is no family {family} of this target", family)
            self.solutions = self.live.choose(self.solutions, family, along)
            self._redraw_choice()

    def _choose(self, event: Any, along: float | None) -> None:
        """By the browser's controls; what the page itself sets there has no client."""
        if event.client is None:
            return
        with self._drawing:
            solutions = self.solutions
            if solutions is None or solutions.chosen is None:
                return
            names = [str(number + 1) for number in solutions.numbers]
            if along is None and self._family.value in names:
                self.choose(names.index(self._family.value), 0.5)
            elif along is not None:
                self.choose(solutions.family, along)

    def _choose_ghost(self, index: int | None) -> None:
        with self._drawing:
            if self.solutions is not None and index is not None and index < len(self.solutions.positions):
                self.solutions = self.live.choose_ghost(self.solutions, index)
                self._redraw_choice()

    def _redraw_choice(self) -> None:
        assert self.solutions is not None
        with self._server.atomic():
            self._scene.draw_chosen(self.solutions)
            self._draw_choice()

    def _place_target(self, event: Any) -> None:
        if event.client is not None:
            rotation = Rotation.from_euler("xyz", self._rpy.value, degrees=True)
            self.move_target(pose_from(self._position.value, rotation.as_quat()))

    def move_target(self, pose: FloatArray) -> None:
        """Put the target at a pose (4, 4)."""
        self._target.position = pose[:3, 3]
        self._target.wxyz = np.roll(quaternion_from_matrix(pose), 1)
        self._want()


def _started(host: str, port: int, label: str) -> viser.ViserServer:
    """A server on this very port: viser itself would take the next free one."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, port))
        except OSError as error:
            raise ConfigurationError(
                f"cannot serve on {host}:{port}: {error.strerror or error}; give another --port (0: any that is free)",
                port,
            ) from error
    with contextlib.redirect_stdout(io.StringIO()):  # it tells its address in a box
        return viser.ViserServer(host=host, port=port, label=label, verbose=False)


def _told(number: int, family: Family) -> str:
    if family.is_curve:
        return f"{number + 1}: {family.along[-1]:.1f} rad{', closed' if family.is_closed else ''}"
    return f"{number + 1}: {len(family)} solution{'s' if len(family) > 1 else ''}"


def _rounded(values: FloatArray) -> tuple[float, float, float]:
    x, y, z = (round(float(value), 4) for value in values)
    return x, y, z


def _rpy(pose: FloatArray) -> tuple[float, float, float]:
    return _rounded(Rotation.from_matrix(pose[:3, :3]).as_euler("xyz", degrees=True))
