"""`eim view`: a page in the browser that shows the solutions of an arm while the target is dragged."""

from __future__ import annotations

import dataclasses
import sys
import threading
import webbrowser
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eim_ros.cli.flags import count, flag, seed_flag, switch, whole
from eim_ros.cli.options import Source, check_pose_length
from eim_ros.core.errors import ConfigurationError
from eim_ros.core.files import to_json

if TYPE_CHECKING:
    from eim_ros.kinematics import Robot
    from eim_ros.view.motion_tab import MotionStudy
    from eim_ros.view.page import Page


@dataclass(frozen=True, kw_only=True)
class PageFlags:
    """Address of the page."""

    host: str = flag("127.0.0.1", "Address to serve on; 0.0.0.0 also serves other machines.")
    port: int = flag(8080, "Port; 0 selects any free port.", read=whole(0, 65535))
    json: bool = switch("Print the address as one JSON object.")
    no_browser: bool = switch("Print the address without opening a browser.")

    def serve(self, page: Page) -> int:
        """Print the address of a page, open it in a browser, and wait for Ctrl-C. Return the exit code."""
        try:
            told = {"url": page.url, "robot": page.robot.name}
            print(to_json(told) if self.json else f"{page.robot.name}: {page.url} (Ctrl-C ends it)", flush=True)
            if page.told:
                print(f"eim view: {page.told}", file=sys.stderr)
            if not self.no_browser:
                webbrowser.open(page.url)
            threading.Event().wait()
        except KeyboardInterrupt:
            return 0
        finally:
            page.close()
        return 0


@dataclass(frozen=True, kw_only=True)
class View:
    """Show all solutions of an arm, or samples of a model, while the target is dragged in the browser.

    With --prior, a second tab shows motions of a motion prior. Ctrl-C ends the program with exit code 0.
    """

    source: Source
    page: PageFlags
    prior: str | None = flag(
        None,
        "Motion prior for --robot, from eim train --task motion. A tab shows its motions.",
        metavar="FILE",
    )
    data: str | None = flag(None, "Demonstrations to compare with the motions of the prior.", metavar="FILE")
    pose: tuple[float, ...] | None = flag(
        None,
        "First target: X Y Z [m], optionally QX QY QZ QW (default: a pose in the middle of the workspace).",
    )
    link: str | None = flag(None, "Link copied from the page. It restores the robot, target, solution and obstacles.")
    samples: int = count(50, "Number of solutions to show.", short="-n")
    position_only: bool | None = flag(None, "Accept every orientation.")
    tool: tuple[float, ...] | None = flag(
        None,
        "Pose of the tip of a tool in the frame of the tip link. The tip of the tool then reaches the target.",
        metavar="X Y Z [QX QY QZ QW]",
    )
    seed: int = seed_flag()

    def run(self) -> int:
        if self.data is not None and self.prior is None:
            raise ConfigurationError("--data has an effect only with --prior: also give --prior", self.data)
        if self.pose is not None:
            check_pose_length(self.pose)
        return self.page.serve(self._page())

    def _page(self) -> Page:
        """Return the page with its tabs. Errors about the robot are reported before viser is imported."""
        from eim_ros.kinematics import pose_from
        from eim_ros.kinematics.robot import tool_from
        from eim_ros.view.state import ViewState

        pose: Any = None if self.pose is None else pose_from(self.pose[:3], self.pose[3:] or None)
        state = None if self.link is None else ViewState.from_link(self.link)
        source = self.source
        if state is not None and state.robot and not (source.robot or source.model):
            source = dataclasses.replace(source, robot=state.robot, tip=state.tip or None)
        sampler = source.sampler(None if self.tool is None else tool_from(self.tool))
        motions = None if self.prior is None else self._motions(sampler.robot)
        from eim_ros.view.page import Page

        page = Page(
            sampler,
            source=source.file,
            package_paths=source.package_path,
            pose=pose,
            n=self.samples,
            position_only=self.position_only,
            host=self.page.host,
            port=self.page.port,
            seed=self.seed,
            extra_tab=None if motions is None else "Motions",
        )
        if state is not None:
            page.restore(state if self.pose is None else dataclasses.replace(state, pose=pose))
        if motions is not None:
            from eim_ros.view.motion_tab import MotionTab

            MotionTab(page, motions, self.seed)
        return page

    def _motions(self, robot: Robot) -> MotionStudy:
        from eim_ros.core.data_set import load_data_set
        from eim_ros.motion import Demonstrations, MotionPrior  # imported here: torch takes a second
        from eim_ros.view.motion_tab import MotionStudy

        shown = None if self.data is None else Demonstrations.from_data_set(load_data_set(self.data))
        return MotionStudy(robot, MotionPrior.load(self.prior or ""), shown)
