"""Rate at which `eim view` redraws all solutions while its target moves, without a browser and with chromium.

    python -m benchmarks.live_view [--output benchmarks/results/live_view.txt]

The target moves on a circle of radius 5 cm through its initial position, with 100 steps per second, faster than a
screen's refresh rate. Each redraw solves the pose, finds the self-motion components, and sends poses and colours of all
ghosts. A step that arrives during a solve is skipped. The column "server" is the CPU time of the server for each
redraw. The column "browser" is the page's work for each redraw that it receives, up to the request to draw. Here, the
browser draws on the CPU instead of a graphics card; its frame rate is listed as well.
"""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks._machine import load_average, processor, versions

sys.path.append(str(Path(__file__).resolve().parents[1] / "test"))

from view.chromium import Browser, chromium_path

from eim_ros.ik import Sampler
from eim_ros.view.page import Page

ROBOTS = ("panda", "iiwa14", "gen3", "xarm7", "sawyer", "fetch", "ur5e")
RADIUS, STEPS = 0.05, 100.0  # [m], [1/s]
WANTED = 20.0  # requested rate of redraws [1/s]
COUNT_FRAMES = (
    "window.n_frames = 0; (() => { const tick = () => { n_frames += 1; requestAnimationFrame(tick); }; tick(); })()"
)


def drag(page: Page, seconds: float) -> tuple[float, float, np.ndarray]:
    """Move the target; return redraws per second, CPU time per redraw [s], and times of solving [s]."""
    first, drawn, solving = page.first, page.n_drawn, []
    begin, worked = time.perf_counter(), time.process_time()
    step = 0
    while (now := time.perf_counter() - begin) < seconds:
        pose, angle = first.copy(), 2.0 * np.pi * now / 2.0
        pose[:3, 3] += RADIUS * np.array([np.cos(angle) - 1.0, np.sin(angle), 0.0])
        page.move_target(pose)
        if page.solutions is not None:
            solving.append(page.solutions.elapsed)
        step += 1
        time.sleep(max(0.0, step / STEPS - (time.perf_counter() - begin)))
    n_drawn = page.n_drawn - drawn
    return n_drawn / seconds, (time.process_time() - worked) / max(n_drawn, 1), np.array(solving)


def measure(robot: str, n: int, seconds: float, size: tuple[int, int] | None) -> str:
    """Return one row of the table."""
    page = Page(Sampler(robot), n=n, port=0)
    try:
        if size is None:
            rate, server, solving = drag(page, seconds)
            counted = "          -        -"
        else:
            program = chromium_path()
            assert program is not None
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
                browser = Browser(program, Path(folder), size)
                try:
                    browser.open(page.url)
                    while "solutions in" not in browser.text():
                        time.sleep(0.1)
                    time.sleep(3.0)
                    browser.value(COUNT_FRAMES)
                    n_frames, work = browser.value("n_frames"), browser.work()
                    rate, server, solving = drag(page, seconds)
                    n_frames, work = browser.value("n_frames") - n_frames, browser.work() - work
                    counted = f"{1e3 * work / (rate * seconds):11.1f}{n_frames / seconds:9.1f}"
                finally:
                    browser.close()
        solutions = page.solutions
        assert solutions is not None
        milliseconds = 1e3 * np.quantile(solving, [0.5, 0.99])
        return (
            f"{robot:8s}{len(solutions.positions):5d}{len(solutions.components):12d}{milliseconds[0]:9.1f}"
            f"{milliseconds[1]:9.1f}{rate:10.1f}{1e3 * server:10.1f}{counted}"
        )
    finally:
        page.close()


def main() -> None:
    """Print the tables, and write them to a file if requested."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, default=50, help="ghosts (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=6.0, help="of each row (default %(default)s)")
    parser.add_argument("--robots", nargs="+", default=ROBOTS)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    lines = [
        f"Redraws of eim view while the target moves: {args.n} solutions, seed 0; {WANTED:.0f} per second asked",
        f"{processor()}, load {load_average()}; Python {platform.python_version()}, {versions(['viser', 'numpy'])}",
    ]
    print("\n".join(lines), flush=True)
    head = (
        "robot       n  components     solving [ms]   redraws    server    browser   frames\n"
        f"{'50 %':>34}{'99 %':>9}{'[1/s]':>10}{'[ms]':>10}{'[ms]':>11}{'[1/s]':>9}"
    )
    for title, size in (
        ("without a browser", None),
        ("with a browser of 800 x 500 pixels, drawn by the processor", (800, 500)),
    ):
        if size is not None and chromium_path() is None:
            continue
        lines += ["", title, head]
        print(f"\n{title}\n{head}", flush=True)
        for robot in args.robots:
            lines.append(measure(robot, args.n, args.seconds, size))
            print(lines[-1], flush=True)
    if args.output:
        args.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
