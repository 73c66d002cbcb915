"""Rate at which `eim view` redraws all solutions while its target moves, without a browser and with chromium.

    python -m benchmarks.live_view [--output benchmarks/results/live_view.txt]

The target moves on a circle of radius 5 cm through its initial position, 60 times per second, the rate of a screen and
of the messages of a page whose target is dragged. Each redraw solves the pose, finds the self-motion components, and
sends poses and colours of all ghosts. A step that arrives during a solve is skipped.

The column "sent" counts the messages with new poses of the arm that arrive at a client which draws nothing, in its own
process. The column "server" is the CPU time of the server for each redraw. "received" counts these messages in the
page of the browser, and "browser" is the page's work for each of them, up to the request to draw. Here, the browser
draws on the CPU instead of a graphics card, next to the server; its frame rate is listed as well.
"""

from __future__ import annotations

import argparse
import multiprocessing
import platform
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec
import numpy as np
import viser
import zstandard
from websockets.sync.client import connect

from benchmarks._machine import load_average, processor, versions

sys.path.append(str(Path(__file__).resolve().parents[1] / "test"))

from view.chromium import Browser, chromium_path

from eim_ros.ik import Sampler
from eim_ros.view.page import Page

ROBOTS = ("panda", "iiwa14", "gen3", "xarm7", "sawyer", "fetch", "ur5e")
RADIUS, STEPS = 0.05, 60.0  # [m], [1/s]
MOVED = ("SetPositionMessage", "/chosen/body")  # type, and part of the name, of a message with a pose of the arm
COUNT_RECEIVED = f"""
window.n_received = 0;
window.Worker = class extends Worker {{
  constructor(...args) {{
    super(...args);
    this.addEventListener("message", event => {{
      const isMoved = each => each.type == "{MOVED[0]}" && each.name.includes("{MOVED[1]}");
      if (event.data.type == "message_batch" && event.data.messages.some(isMoved)) n_received += 1;
    }});
  }}
}};"""
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


def count_sent(url: str, seconds: float, results: Connection) -> None:
    """Report that a client is connected to a server, and then how many windows of messages move its arm."""
    n_sent, reader = 0, zstandard.ZstdDecompressor()
    with connect(url, subprotocols=[f"viser-v{viser.__version__}"], max_size=None, compression=None) as socket:  # type: ignore[list-item]
        time.sleep(1.0)
        results.send("ready")
        end = time.perf_counter() + seconds
        while (left := end - time.perf_counter()) > 0.0:
            try:
                window = socket.recv(timeout=left)
            except TimeoutError:
                break
            assert isinstance(window, bytes)
            size, packed = (int.from_bytes(window[i : i + 8], "little") for i in (0, 8))
            content = msgspec.msgpack.decode(reader.decompress(window[16 : 16 + packed], max_output_size=size))
            messages = content["messages"]
            n_sent += any(each["type"] == MOVED[0] and MOVED[1] in each["name"] for each in messages)
    results.send(n_sent)


def measure(robot: str, n: int, seconds: float, size: tuple[int, int] | None) -> str:
    """Return one row of the table."""
    page = Page(Sampler(robot), n=n, port=0)
    try:
        if size is None:
            receiver, sender = multiprocessing.Pipe(duplex=False)
            address = f"ws://{page.server.get_host()}:{page.server.get_port()}"
            client = multiprocessing.get_context("spawn").Process(target=count_sent, args=(address, seconds, sender))
            client.start()
            receiver.recv()
            rate, server, solving = drag(page, seconds)
            counted = f"{receiver.recv() / seconds:9.1f}"
            client.join()
        else:
            program = chromium_path()
            assert program is not None
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
                browser = Browser(program, Path(folder), size)
                try:
                    browser.run_first(COUNT_RECEIVED)
                    browser.open(page.url)
                    while "solutions in" not in browser.text():
                        time.sleep(0.1)
                    time.sleep(3.0)
                    browser.value(COUNT_FRAMES)
                    before = np.array([*browser.value("[n_received, n_frames]"), browser.work()])
                    rate, server, solving = drag(page, seconds)
                    n_received, n_frames, work = [*browser.value("[n_received, n_frames]"), browser.work()] - before
                    counted = (
                        f"{n_received / seconds:9.1f}{1e3 * work / max(n_received, 1):9.1f}{n_frames / seconds:9.1f}"
                    )
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
        f"Redraws of eim view while the target moves {STEPS:.0f} times per second: {args.n} solutions, seed 0",
        f"{processor()}, load {load_average()}; Python {platform.python_version()}, {versions(['viser', 'numpy'])}",
    ]
    print("\n".join(lines), flush=True)
    head = "robot       n  components     solving [ms]   redraws    server"
    units = f"{'50 %':>34}{'99 %':>9}{'[1/s]':>10}{'[ms]':>10}"
    own, seen = ("     sent", "    [1/s]"), (" received  browser   frames", "    [1/s]     [ms]    [1/s]")
    for title, size, columns in (
        ("without a browser", None, own),
        ("with a browser of 800 x 500 pixels, drawn by the processor", (800, 500), seen),
    ):
        if size is not None and chromium_path() is None:
            continue
        heads = [title, head + columns[0], units + columns[1]]
        lines += ["", *heads]
        print("", *heads, sep="\n", flush=True)
        for robot in args.robots:
            lines.append(measure(robot, args.n, args.seconds, size))
            print(lines[-1], flush=True)
    if args.output:
        args.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
