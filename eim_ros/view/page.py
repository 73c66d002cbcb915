"""Web page on which a user drags a target and sees all solutions, served by viser.

Events from the browser only mark that something has changed. A single thread solves and draws for the newest target.
Thus, no work accumulates while the target is dragged. `Controls` is the panel next to the scene, with the settings and
the results.
"""

from __future__ import annotations

import contextlib
import html
import io
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import viser

from eim_ros.core.arrays import FloatArray
from eim_ros.core.errors import ConfigurationError, EimError
from eim_ros.ik import Sampler
from eim_ros.kinematics import SHIPPED_ROBOTS, Box, Sphere, check_pose, pose_from, quaternion_from_matrix
from eim_ros.view.controls import Controls, Menu
from eim_ros.view.live import LiveSolutions, Solutions, first_pose, moving_axes, nearest_along
from eim_ros.view.scene import ArmScene, DraggedObstacles, fitted_camera
from eim_ros.view.state import ViewState
from eim_ros.view.surfaces import arm_surfaces, is_included

MOST_GHOSTS, FEW_GHOSTS = 200, 50
FOV = 0.75  # [rad] vertical field of view
TARGET_SIZE = 0.18  # size in units of the arm's reach
AROUND = 0.06  # margin around the displayed objects, in units of the arm's reach
TURNED = 1e-3  # a camera that moved by more, in units of the arm's reach, was moved by a user
BESIDE, ABOVE = np.radians(-60.0), np.radians(22.0)  # [rad] direction of the camera relative to the target
REST = 0.3  # [s] time without changes after which the texts of the copy tab are updated
LINK_KEY, LINK_WANTED, LINK_SHOWN = "eim-view-link", "wanted", "shown"  # name and values in the browser's storage
PHONE = 576  # [pixel] in windows up to this width, viser shows the panel at the bottom
PATIENCE, PAUSE, REDRAWN = 60.0, 0.1, 0.02  # [s] maximum time to wait for a slow browser, and polling periods
LONGEST_END = 5.0  # [s] maximum time to wait for the threads of the server
# The page of viser sends a dragged target or slider every 50 ms, and has no option for this interval. 10 ms is once per
# frame.
SEND_EACH_FRAME = (
    "if(!window.sendsEachFrame){const later=window.sendsEachFrame=window.setTimeout;"
    "window.setTimeout=(act,ms,...rest)=>later(act,ms===50?10:ms,...rest)}"
)
# viser does not report the address of the page. Therefore, the server requests it through the storage of the browser,
# and this script answers. A cover hides the state of other visitors until the state of the link is shown.
READ_LINK = (
    "localStorage.length;let n=600;"  # without a storage, the script ends here
    "if(!window.linkCover&&location.search.includes('=')){const cover=window.linkCover=document.createElement('div');"
    "cover.textContent='Opening the link …';cover.onclick=()=>cover.remove();"
    "cover.style.cssText='position:fixed;inset:0;z-index:9999;display:flex;align-items:center;"
    "justify-content:center;background:#fff;color:#1B1F27;font:16px sans-serif';document.body.append(cover)}"
    "const timer=setInterval(()=>{for(const key of Object.keys(localStorage))"
    f"if(key.endsWith('{LINK_KEY}')){{if(localStorage[key]=='{LINK_WANTED}')localStorage[key]=location.search||'?';"
    f"else if(localStorage[key]=='{LINK_SHOWN}'){{delete localStorage[key];n=0}}}}"
    "if(n--<=0){clearInterval(timer);window.linkCover&&window.linkCover.remove()}},100)"
)
# In a narrow window, viser opens the panel over the target, and has no option to fold the panel.
FOLD_ON_PHONE = (
    f"if(!window.isFolded&&innerWidth<={PHONE}){{window.isFolded=true;let part=this,handle=null;"
    "while(part&&!(handle&&getComputedStyle(handle).cursor=='pointer'))"
    "{handle=part.previousElementSibling;part=part.parentElement}if(handle){handle.click();"
    "handle.insertAdjacentHTML('beforeend','<span style=margin-left:auto>▴▾</span>')}}"
)
SCRIPT = (
    '<img src="data:," style="display:none" onerror="'
    f'{html.escape(";".join((SEND_EACH_FRAME, FOLD_ON_PHONE, READ_LINK)))}">'
)


@dataclass(frozen=True, kw_only=True)
class PageOptions:
    """Options of a page: its content and its address.

    By default, the orientation of the tip is free for models with a position as context, and for arms with fewer than
    six joints. Port 0 selects any free port. The seed of the solutions is the same for every target. Therefore,
    solutions move as little as possible.
    """

    source: str | Path | None = None  # description of the robot with its visuals; see `arm_surfaces`
    package_paths: Sequence[str | Path] = ()  # see `find_mesh`
    n: int = 50  # number of ghosts, 1 to 200
    position_only: bool | None = None
    host: str = "127.0.0.1"
    port: int = 8080
    seed: int = 0
    extra_tab: str | None = None  # name of an extra tab; the caller adds its content, see `MotionTab`


class Page:
    """Web page that is served until it is closed.

    The first target is a pose (4, 4), by default `first_pose`. Keywords such as `port=0` replace fields of the options.
    Use the attribute `server` to add content to the extra tab or to the scene. Without an extra tab, users can choose
    other robots and tip links.

    Raises
    ------
    ConfigurationError
        If the port is in use, the host does not exist, or `n` is out of range.
    """

    def __init__(
        self, sampler: Sampler, pose: npt.ArrayLike | None = None, options: PageOptions | None = None, **changes: Any
    ) -> None:
        self._options = chosen = replace(options or PageOptions(), **changes)
        if not 1 <= chosen.n <= MOST_GHOSTS:
            raise ConfigurationError(
                f"the number of solutions to show must be 1 to {MOST_GHOSTS}, got {chosen.n}", chosen.n
            )
        self._own, self._changed, self._drawing = sampler, threading.Condition(), threading.RLock()
        self._is_closed, self._n_built, self.n_drawn = False, 0, 0  # counts of scenes and of drawings
        self._after_solutions: list[Callable[[], None]] = []
        self._at_close: list[Callable[[], None]] = []
        self._fitted: dict[int, tuple[float, FloatArray]] = {}  # aspect ratio and eye of the view of each client
        given = None if pose is None else check_pose(pose)
        self.live: LiveSolutions
        self._controls: Controls
        self._obstacles: DraggedObstacles
        self._prepare(sampler, given)
        others = set(threading.enumerate())
        self.server = _started(chosen.host, chosen.port, f"{self.robot.name} · eim view")
        self._server_threads = set(threading.enumerate()) - others
        self._build()
        self.server.on_client_connect(self._welcome)
        self.server.on_client_disconnect(self._forget)
        self._thread = threading.Thread(target=self._follow, name="solutions", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://{self.server.get_host()}:{self.server.get_port()}"

    @property
    def extra_tab(self) -> viser.GuiTabHandle:
        """Extra tab for content of the caller."""
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
        with contextlib.redirect_stdout(io.StringIO()):  # viser prints a message when its thread ends
            self.server.stop()
            for thread in self._server_threads:
                thread.join(LONGEST_END)

    @property
    def state(self) -> ViewState:
        """State of the page, for a link or a program."""
        solutions = self.solutions
        name = self.robot.name if is_included(self.robot) else ""
        constraints = self.live.sampler.constraints
        chosen = None if solutions is None else solutions.chosen
        return ViewState(
            name,
            self.robot.tip_link,
            self._target_pose,
            chosen,
            self.live.position_only,
            constraints.self_collision,
            self._obstacles.shapes,
        )

    def restore(self, state: ViewState) -> None:
        """Show a state, for example from a link.

        Raises
        ------
        ConfigurationError
            If the page shows another robot and has no menu of robots, or if the robot has no such tip.
        """
        with self._drawing:
            tip = state.tip or None
            if state.robot not in ("", self.robot.name) or tip not in (None, self.robot.tip_link):
                self.show_robot(state.robot or self.robot.name, tip)
            controls = self._controls
            controls.position_only.value = state.position_only
            controls.self_collision.value = state.self_collision
            self._obstacles.clear()
            for shape in state.obstacles:
                self._obstacles.add(shape)
            if state.q is not None and state.q.shape == (self.robot.dof,):
                self.live.chosen = state.q
            if state.pose is not None:
                self.first = state.pose
                self.move_target(state.pose)
            self._is_framed = False
        self._constrain()

    def show_robot(self, name: str, tip: str | None = None) -> None:
        """Show another included robot, or another tip link of the current robot.

        Raises
        ------
        ConfigurationError, RobotError
            If the page has no menu of robots, or if there is no such robot or tip link.
        """
        if name not in self._robots:
            raise ConfigurationError(f"this page shows only {self.robot.name!r}: start eim view with {name!r}", name)
        with self._drawing:
            obstacles = self._obstacles.shapes
            sampler = self._own if name == self._own.robot.name else Sampler(name)
            self._prepare(sampler if tip in (None, sampler.robot.tip_link) else sampler.with_tip(tip), None)
            self.server.gui.reset()
            self.server.scene.reset()
            self._build(obstacles)
        self._constrain()

    def _prepare(self, sampler: Sampler, pose: FloatArray | None) -> None:
        """Set the robot, its meshes, its first target and the solver."""
        options, self.robot = self._options, sampler.robot
        position_only = options.position_only
        if position_only is None:
            position_only = sampler.context_kind == "position" or self.robot.dof < 6
        source = options.source if self.robot.name == self._own.robot.name else None
        self.surfaces, self.told = arm_surfaces(self.robot, source, options.package_paths)
        self.first = first_pose(self.robot) if pose is None else pose
        self.live = LiveSolutions(sampler, options.n, position_only, options.seed)
        self.solutions: Solutions | None = None
        self._is_wanted, self._is_framed, self._is_constrained, self._is_copied = True, False, True, False

    @property
    def _robots(self) -> tuple[str, ...]:
        """Robots of the menu."""
        own = self._own.robot.name
        return (own,) if self._options.extra_tab else tuple(dict.fromkeys((own, *SHIPPED_ROBOTS)))

    def _build(self, obstacles: Sequence[Box | Sphere] = ()) -> None:
        """Add the scene and the panel of the robot to the server."""
        n_ghosts = max(self._options.n, FEW_GHOSTS)
        self.server.gui.add_html(SCRIPT)  # must come first; the cover of a link must appear before the scene
        self._add_scene(n_ghosts)
        for shape in obstacles:
            self._obstacles.add(shape)
        self._add_controls(n_ghosts)

    def _add_scene(self, n_ghosts: int) -> None:
        server, reach = self.server, self.robot.reach
        server.gui.configure_theme(show_logo=False, show_share_button=False)
        server.gui.set_panel_label(f"{self.robot.name} · eim view")
        server.gui.main_panel.dock_right()
        server.scene.configure_default_lights(enabled=False)  # the default lights make colours pale
        server.scene.configure_environment_map(None)
        server.scene.add_light_hemisphere("/light", ground_color=(150, 150, 150), intensity=1.5)
        server.scene.add_light_directional("/sun", intensity=1.5, position=(1.0, -2.0, 3.0))
        is_free = moving_axes(self.robot)
        self._is_planar = not is_free[2]
        self._n_built += 1
        self._scene = ArmScene(server.scene, self.robot, self.surfaces, n_ghosts, f"/arm{self._n_built}")
        self._scene.on_drag(self._drag_link)
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
        self._obstacles = DraggedObstacles(server.scene, 0.5 * TARGET_SIZE * reach, self._constrain)
        self._show_ghosts_as("sticks")
        self._frame()

    def _show_ghosts_as(self, form: str) -> None:
        with self._drawing:
            for ghosts in self._scene.show_ghosts_as(form):
                ghosts.on_click(lambda event: self.choose_ghost(event.instance_index))
        self._want()

    def _add_controls(self, n_ghosts: int) -> None:
        extra = self._options.extra_tab
        menu = Menu(most_ghosts=n_ghosts, robots=() if extra else self._robots, note=self.told, extra_tab=extra)
        controls = self._controls = Controls(self.server.gui, self.robot, self.live, self.first, menu)
        if controls.robot is not None:
            controls.robot.on_update(lambda event: self._switch(event, controls.robot.value, None))
        if controls.tip is not None:
            controls.tip.on_update(lambda event: self._switch(event, self.robot.name, controls.tip.value))
        controls.component.on_update(lambda event: self._choose(event, None))
        controls.along.on_update(lambda event: self._choose(event, controls.along.value))
        for field in (controls.position, controls.rpy):
            field.on_update(self._place_target)
        for setting in (controls.with_ghosts, controls.with_curves, controls.with_arm, controls.n):
            setting.on_update(lambda _: self._want())
        for setting in (controls.position_only, controls.self_collision):
            setting.on_update(lambda _: self._constrain())
        controls.form.on_update(lambda _: self._show_ghosts_as(controls.form.value))
        controls.reset.on_click(lambda _: self.move_target(self.first))
        controls.frame.on_click(lambda _: self._frame())
        controls.add_box.on_click(lambda _: self._add_obstacle(Box(self._beside_target(), controls.size.value)))
        controls.add_sphere.on_click(
            lambda _: self._add_obstacle(Sphere(self._beside_target()[:3, 3], 0.5 * controls.size.value[0]))
        )
        controls.remove.on_click(lambda _: self._obstacles.remove_last())

    def _switch(self, event: Any, name: str, tip: str | None) -> None:
        """Show the robot or tip that was chosen in the browser."""
        if event.client is None:
            return
        try:
            self.show_robot(name, tip)
        except EimError as error:
            self._controls.tell(str(error))

    def _welcome(self, client: viser.ClientHandle) -> None:
        """Fit the view of a new browser to its window, and show the state in its link, if any."""
        with self._drawing:
            self._fit(client)
        client.camera.on_update(lambda _: self._fit_again(client))
        link = self._link_of(client)
        if "=" not in link:
            return
        n_before = self.n_drawn
        try:
            self.restore(ViewState.from_link(link))
        except EimError as error:
            self._controls.tell(f"the link is not shown: {error}")
        else:
            end = time.monotonic() + PATIENCE
            while self.n_drawn == n_before and time.monotonic() < end and not self._is_closed:
                time.sleep(REDRAWN)
        client.local_storage.set_item(LINK_KEY, LINK_SHOWN)

    def _link_of(self, client: viser.ClientHandle) -> str:
        """Return the address of a browser from the question mark on, or an empty text if it is unknown."""
        storage, link = client.local_storage, LINK_WANTED
        storage.set_item(LINK_KEY, LINK_WANTED)
        try:
            end = time.monotonic() + PATIENCE
            while link == LINK_WANTED and time.monotonic() < end and not self._is_closed:
                time.sleep(PAUSE)
                link = storage.get_item(LINK_KEY, timeout=PATIENCE) or ""
        except (RuntimeError, TimeoutError):  # the browser was closed, or has no storage
            return ""
        if "=" not in link:  # the cover of a link waits for this answer
            storage.remove_item(LINK_KEY)
        return link if link != LINK_WANTED else ""

    def _frame(self) -> None:
        """Move all cameras to fill the window with the target and the solutions."""
        server = self.server
        server.initial_camera.position, server.initial_camera.look_at = self._viewpoint(1.0)
        server.initial_camera.fov = FOV
        for client in self.clients:
            self._fit(client)

    def _fit(self, client: viser.ClientHandle) -> None:
        eye, aim = self._viewpoint(client.camera.aspect)
        self._fitted[client.client_id] = client.camera.aspect, eye
        with client.atomic():
            client.camera.position, client.camera.look_at = eye, aim

    def _forget(self, client: viser.ClientHandle) -> None:
        self._fitted.pop(client.client_id, None)

    def _fit_again(self, client: viser.ClientHandle) -> None:
        """Fit the view again if its window has changed, for example because the panel was docked.

        The view stays the same if the user has moved the camera. A browser may apply the initial camera after the
        fitted camera. Such a view is fitted again.
        """
        aspect, eye = self._fitted.get(client.client_id, (client.camera.aspect, client.camera.position))
        known = np.stack([eye, self.server.initial_camera.position])
        of_eye, of_start = np.linalg.norm(known - client.camera.position, axis=1) < TURNED * self.robot.reach
        if client.camera.aspect != aspect:
            self._fitted[client.client_id] = client.camera.aspect, eye
            if of_eye or of_start:
                self._fit(client)
        elif of_start and not of_eye:
            self._fit(client)

    def _viewpoint(self, aspect: float) -> tuple[FloatArray, FloatArray]:
        """Return the eye (3,) and the point (3,) that it looks at, for a window with this ratio of width to height."""
        reach, pose = self.robot.reach, self._target_pose
        handles = pose[:3, 3] + TARGET_SIZE * reach * np.concatenate([pose[:3, :3].T, [[0.0, 0.0, 0.0]]])
        points = [np.zeros((1, 3)), handles]
        if self.solutions is not None and len(self.solutions.positions):
            points.append(self.robot.skeleton(self.solutions.positions).reshape(-1, 3))
        if self.solutions is not None:
            drawn = self.solutions.nearest if self.solutions.chosen is None else self.solutions.chosen
            points += [] if drawn is None else [self._scene.corners(drawn)]
        azimuth = np.arctan2(pose[1, 3], pose[0, 3]) + BESIDE
        away = np.array([np.cos(ABOVE) * np.cos(azimuth), np.cos(ABOVE) * np.sin(azimuth), np.sin(ABOVE)])
        if self._is_planar:
            away = np.array([0.0, -0.25, 1.0])
        return fitted_camera(np.concatenate(points), AROUND * reach, away, FOV, aspect)

    @property
    def _target_pose(self) -> FloatArray:
        return pose_from(self._target.position, np.roll(self._target.wxyz, -1))

    def _want(self) -> None:
        with self._changed:
            self._is_wanted = True
            self._changed.notify_all()

    def _constrain(self) -> None:
        """Solve again with the current constraints."""
        self._is_constrained = False
        self._want()

    def _follow(self) -> None:
        """Solve and draw whenever something has changed, until the page is closed."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_wanted or self._is_closed or not self._is_copied)
                is_busy = self._changed.wait_for(lambda: self._is_wanted or self._is_closed, REST)
                if self._is_closed:
                    return
                self._is_wanted = False
            with self._drawing:
                if not is_busy:
                    self._show_copies()
                    continue
                controls = self._controls
                self.live.n, self._is_copied = int(controls.n.value), False
                try:
                    if not self._is_constrained:
                        self._is_constrained = True
                        shapes = self._obstacles.shapes
                        self.live.constrain(controls.position_only.value, controls.self_collision.value, shapes)
                    self.solutions = self.live.solve(self._target_pose)
                    self._draw(self.solutions)
                except EimError as error:  # the next target may be solvable
                    controls.tell(str(error))

    def _show_copies(self) -> None:
        state = self.state
        source = "" if state.robot else str(self._options.source or "")
        self._controls.show_copies(state.query, state.python(self.robot, source), state.yaml(self.robot))
        self._is_copied = True

    def _draw(self, solutions: Solutions) -> None:
        with self.server.atomic():
            shown = self._controls
            self._scene.draw(solutions, shown.with_ghosts.value, shown.with_curves.value, shown.with_arm.value)
            self._target.disable_rotations = self.live.position_only
            self._controls.show(solutions, self.live.position_only)
        self.server.flush()  # without this call, viser waits for up to 34 ms
        self.n_drawn += 1
        if not self._is_framed:
            self._is_framed = True
            self._frame()
        for act in self._after_solutions:
            act()

    def choose(self, component: int, along: float) -> None:
        """Show the solution at the position `along`, from 0 to 1, in the component at index `component`."""
        with self._drawing:
            if self.solutions is None or not 0 <= component < len(self.solutions.components):
                raise ConfigurationError(f"component {component} of this target does not exist", component)
            self.solutions = self.live.choose(self.solutions, component, along)
            self._redraw_choice()

    def _choose(self, event: Any, along: float | None) -> None:
        """Apply a choice that was made in the browser. Changes by the page itself have no client."""
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

    def _drag_link(self, body: int, grabbed: FloatArray, pointer: FloatArray) -> None:
        """Move along the component until a grabbed point (3,) of a body is nearest to the pointer (3,)."""
        with self._drawing:
            solutions = self.solutions
            if solutions is not None and solutions.chosen is not None and body <= self.robot.dof:
                component = solutions.components[solutions.component]
                if len(component) > 1:
                    along = nearest_along(self.robot, component, solutions.along, body, grabbed, pointer)
                    self.choose(solutions.component, along)

    def _redraw_choice(self) -> None:
        assert self.solutions is not None
        with self.server.atomic():
            self._scene.draw_chosen(self.solutions)
            self._controls.show_choice(self.solutions, self.live.position_only)
        self.server.flush()
        with self._changed:
            self._is_copied = False
            self._changed.notify_all()
        for act in self._after_solutions:
            act()

    def _add_obstacle(self, shape: Box | Sphere) -> None:
        try:
            self._obstacles.add(shape)
        except EimError as error:
            self._controls.tell(str(error))

    def _beside_target(self) -> FloatArray:
        """Return a pose (4, 4) for a new obstacle, next to the line from the base to the target."""
        target = self._target_pose[:3, 3]
        aside = np.array([-target[1], target[0], 0.0])
        length = float(np.linalg.norm(aside))
        aside = aside / length if length > 0.0 else np.array([0.0, 1.0, 0.0])
        return pose_from(0.6 * target + 0.3 * self.robot.reach * aside * (-1.0) ** len(self._obstacles.shapes))

    def _place_target(self, event: Any) -> None:
        if event.client is not None:
            self.move_target(self._controls.target)

    def move_target(self, pose: FloatArray) -> None:
        """Move the target to a pose (4, 4)."""
        self._target.position = pose[:3, 3]
        self._target.wxyz = np.roll(quaternion_from_matrix(pose), 1)
        self._want()


def _started(host: str, port: int, label: str) -> viser.ViserServer:
    """Start a server on exactly this port. By default, viser would silently use the next free port."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, port))
        except OSError as error:
            raise ConfigurationError(
                f"cannot serve the page on {host}:{port}: {error.strerror or error}; give another --port (0: any free "
                "port)",
                port,
            ) from error
    with contextlib.redirect_stdout(io.StringIO()):  # viser prints its address
        return viser.ViserServer(host=host, port=port, label=label, verbose=False)
