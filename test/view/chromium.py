"""Headless browser, controlled over the DevTools protocol: https://chromedevtools.github.io/devtools-protocol."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import connect

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--mute-audio",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--remote-debugging-port=0",
)
START = 60.0  # timeout for the start [s]
PATIENCE = 60.0  # timeout for a browser without a graphics card on a busy machine [s]


def chromium_path() -> str | None:
    return next(filter(None, map(shutil.which, NAMES)), None)


@contextlib.contextmanager
def started(folder: Path, size: tuple[int, int]) -> Iterator[Browser]:
    """Start a browser for tests. Skip the tests if none is installed."""
    program = chromium_path()
    if program is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is installed (Debian: apt install chromium)")
    browser = Browser(program, folder, size)
    yield browser
    browser.close()


class Browser:
    """Browser with one page, whose console messages are stored."""

    def __init__(self, program: str, folder: Path, size: tuple[int, int] = (1280, 800)) -> None:
        self.console: list[tuple[str, str]] = []  # level and text
        self._numbers = itertools.count(1)
        self._log = (folder / "chromium.log").open("wb")
        self._process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={folder}", f"--window-size={size[0]},{size[1]}", "about:blank"],
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        port = self._port(folder / "DevToolsActivePort")
        self._socket = connect(f"ws://127.0.0.1:{port[0]}{port[1]}", max_size=None)
        page = next(t for t in self._call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self._session = self._call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Performance"):
            self._call(f"{domain}.enable")
        self.resize(size)

    def run_first(self, script: str) -> None:
        """Run this script in each page before the page's own scripts."""
        self._call("Page.addScriptToEvaluateOnNewDocument", source=script)

    def resize(self, size: tuple[int, int]) -> None:
        width, height = size
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def open(self, url: str) -> None:
        self._call("Page.navigate", url=url)

    def text(self) -> str:
        """Return all visible text of the page."""
        return str(self.value("document.body ? document.body.innerText : ''"))

    def value(self, expression: str) -> Any:
        """Return the value of a JavaScript expression."""
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def drag(self, start: tuple[float, float], end: tuple[float, float], n_steps: int = 12) -> None:
        """Press the mouse at one pixel, move it in steps to another pixel while the page draws, and release it."""
        self._mouse("mouseMoved", *start)
        self._frames(2)
        self._mouse("mousePressed", *start, buttons=1)
        self._frames(1)
        for step in range(1, n_steps + 1):
            x, y = (a + step / n_steps * (b - a) for a, b in zip(start, end, strict=True))
            self._mouse("mouseMoved", x, y, buttons=1)
        self._mouse("mouseReleased", *end)

    def click(self, words: str) -> None:
        """Scroll to the button or tab with these words, and click it."""
        x, y = self.value(
            "(b => { b.scrollIntoView({block: 'nearest'}); const r = b.getBoundingClientRect();"
            " return [r.left + r.width / 2, r.top + r.height / 2]; })"
            "([...document.querySelectorAll('button,[role=tab]')]"
            f".find(b => b.innerText.trim() == {json.dumps(words)}))"
        )
        self._mouse("mouseMoved", x, y)
        self._mouse("mousePressed", x, y, buttons=1)
        self._mouse("mouseReleased", x, y)

    def wait_until(self, condition: Callable[[], object]) -> None:
        """Wait until the condition is true. After a timeout, the error shows the text and the console of the page."""
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, (self.text(), self.console)
            time.sleep(0.1)

    @property
    def errors(self) -> list[str]:
        """Return errors and failed assertions of the console."""
        return [text for level, text in self.console if level in ("error", "assert")]

    def screenshot(self) -> bytes:
        """Return a picture of the page as PNG."""
        return base64.b64decode(self._call("Page.captureScreenshot", format="png")["data"])

    def work(self) -> float:
        """Return the time [s] that the page's main thread has spent on scripts, layout and styles."""
        metrics = self._call("Performance.getMetrics")["metrics"]
        return float(next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration"))

    def close(self) -> None:
        self._socket.close()
        self._process.terminate()
        self._process.wait(30)
        self._log.close()

    def _frames(self, n: int) -> None:
        self.value(f"(async () => {{ for (let i = 0; i < {n}; ++i) await new Promise(requestAnimationFrame); }})()")

    def _mouse(self, kind: str, x: float, y: float, buttons: int = 0) -> None:
        button = "none" if kind == "mouseMoved" else "left"
        self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, buttons=buttons, clickCount=1)

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if not method.startswith("Target."):
            message["sessionId"] = self._session
        self._socket.send(json.dumps(message))
        while True:
            answer = json.loads(self._socket.recv(timeout=60))
            self._listen(answer.get("method", ""), answer.get("params", {}))
            if answer.get("id") == number:
                assert "error" not in answer, (method, answer["error"])
                return dict(answer["result"])

    def _listen(self, event: str, params: dict[str, Any]) -> None:
        if event == "Runtime.consoleAPICalled":
            told = " ".join(str(part.get("value", part.get("description", ""))) for part in params["args"])
            self.console.append((params["type"], told))
        elif event == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.console.append(("error", details.get("exception", {}).get("description", details["text"])))
        elif event == "Log.entryAdded":
            entry = params["entry"]
            self.console.append((entry["level"], f"{entry['text']} {entry.get('url', '')}"))

    def _port(self, file: Path) -> tuple[str, str]:
        """Wait until the browser writes port and path of its socket to a file, and return both."""
        end = time.monotonic() + START
        while time.monotonic() < end and self._process.poll() is None:
            lines = file.read_text().split() if file.exists() else []
            if len(lines) == 2:
                return lines[0], lines[1]
            time.sleep(0.05)
        raise RuntimeError(f"{self._process.args} did not start: {Path(self._log.name).read_text()[-2000:]}")
