"""Take the pictures of `eim view` for docs/how_to/view.md in a headless Chromium.

    python -m scripts.viewer_pictures [NAME ...]

Each picture file contains the words in the picture. A test compares these words with the labels of the panel and with
the glossary. If they differ, take the picture again.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from eim_ros import Sampler
from eim_ros.core.data_set import DataSet
from eim_ros.kinematics import pose_from
from eim_ros.learning import EMConfig
from eim_ros.motion import Demonstrations, MotionTraining
from eim_ros.view.motion_tab import DRAWN, MotionStudy, MotionTab
from eim_ros.view.page import Page

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs/pictures"
SOURCES = ("eim_ros/view/controls.py", "eim_ros/view/motion_tab.py")
SIZE = (1200, 760)
SETTLED = 8.0  # waiting time [s]; enough for a browser without a graphics card
N_MOTIONS, N_POINTS = 40, 20
# position [m], quaternion xyzw, distance [m]
START, DOWN, DISTANCE = np.array([0.35, 0.0, 0.3]), (1.0, 0.0, 0.0, 0.0), 0.35
READY = (0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785)  # [rad] near the start
KEY = "words"  # key of the words in the PNG's metadata


def labels(source: str) -> set[str]:
    """Return the labels of widgets that a file adds to the panel."""
    calls = (
        node for node in ast.walk(ast.parse((ROOT / source).read_text(encoding="utf-8"))) if isinstance(node, ast.Call)
    )
    added = (call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr.startswith("add_"))
    return {
        call.args[0].value
        for call in added
        if call.args and isinstance(call.args[0], ast.Constant) and call.args[0].value
    }


def viewer() -> Page:
    """Return the page of an arm with its solutions."""
    return Page(Sampler("panda"), port=0)


def around_a_post(sampler: Sampler) -> DataSet:
    """Return motions to a goal, on either side of a post. The context is the position of the goal."""
    robot, rng = sampler.robot, np.random.default_rng(0)
    phase = np.linspace(0.0, 1.0, N_POINTS)
    goals, motions = rng.uniform(-0.08, 0.08, N_MOTIONS), []
    for goal, side in zip(goals, rng.choice([-1.0, 1.0], N_MOTIONS), strict=True):
        line = START + phase[:, None] * np.array([DISTANCE, goal, 0.0])
        line[:, 1] += side * rng.normal(0.2, 0.01) * np.sin(np.pi * phase)
        path = sampler.follow([[*point, *DOWN] for point in line], near=READY, seed=0)
        motions.append(path.q)
    about = {
        "task": "motion",
        "joint_names": list(robot.joint_names),
        "n_points": N_POINTS,
        "context_names": ["goal y"],
        "lower": robot.lower.tolist(),
        "upper": robot.upper.tolist(),
    }
    return DataSet(goals[:, None], np.stack(motions).reshape(N_MOTIONS, -1), about)


def viewer_motions() -> Page:
    """Return the page with motions around a post."""
    sampler = Sampler("panda")
    data = around_a_post(sampler)
    prior = MotionTraining(learner=EMConfig(n_components=2, n_starts=4), seed=0).run(data).model
    goal = pose_from(START + np.array([DISTANCE, 0.0, 0.0]), DOWN)
    page = Page(sampler, port=0, pose=goal, extra_tab="Motions")
    tab = MotionTab(page, MotionStudy(sampler.robot, prior, Demonstrations.from_data_set(data)), seed=0)
    tab.look_at(DRAWN, 3)
    tab.move_to(0.5)
    return page


DRAWINGS: dict[str, Callable[[], Page]] = {"viewer": viewer, "viewer_motions": viewer_motions}


def take(name: str) -> Path:
    """Take a picture of a page."""
    sys.path.append(str(ROOT / "test"))
    from view.chromium import Browser, chromium_path

    page, path = DRAWINGS[name](), PICTURES / f"{name}.png"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        browser = Browser(chromium_path() or "chromium", Path(folder), SIZE)
        try:
            browser.open(page.url)
            browser.wait_until(lambda: "solutions in" in browser.text())
            browser.value("document.querySelectorAll('.mantine-Notification-closeButton').forEach(b => b.click())")
            time.sleep(SETTLED)
            words = re.sub(r", in \d+ ms", "", browser.text())
            picture = Image.open(io.BytesIO(browser.screenshot())).convert("RGB")
        finally:
            browser.close()
            page.close()
    about = PngInfo()
    about.add_itxt(KEY, words)
    picture.save(path, pnginfo=about, optimize=True)
    return path


def main() -> None:
    """Take the pictures in the arguments, or all pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[*DRAWINGS, []], help="pictures (default: all)")
    for name in parser.parse_args().names or DRAWINGS:
        print(take(name).relative_to(ROOT))


if __name__ == "__main__":
    main()
