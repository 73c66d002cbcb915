"""`eim view`: what it refuses in one line, and a process that serves the page until it is interrupted."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from cli.command import COMMAND, PATIENCE, Command

from eim_ros.cli.main import ExitCode


@pytest.mark.parametrize(
    ("words", "reasons"),
    [
        (["--robot", "panda", "-n", "1000"], ["1 to 200"]),
        (["--link", "http://127.0.0.1:8080/?robot=panda&pose=1,2"], ["pose in the link", "3 or 7 numbers"]),
        (["--link", "http://127.0.0.1:8080/"], ["--robot"]),
        (["--robot", "panda", "--data", "motions.npz"], ["--data", "--prior"]),
        (["--robot", "panda", "--prior", "nowhere.safetensors"], ["nowhere.safetensors"]),
        (["--robot", "panda", "--host", "192.0.2.1"], ["cannot serve on 192.0.2.1:8080", "--port"]),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(words: list[str], reasons: list[str], eim: Command) -> None:
    eim("view", *words, "--no-browser").refused(*reasons)


def test_without_viser_the_cure_is_told(eim: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("eim_ros.view")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "viser", None)
    outcome = eim("view", "--robot", "planar3", "--no-browser")
    assert (outcome.code, outcome.err.count("\n")) == (ExitCode.NOT_INSTALLED, 1)
    assert "needs viser" in outcome.err and "eim_ros[view]" in outcome.err


WITH_THE_LEAST = """
import sys, time

class Absent:
    @staticmethod
    def find_spec(name, *_):
        if name.partition(".")[0] in {"torch", "matplotlib", "rclpy", "sklearn", "joblib", "rosbags"}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent)
import eim_ros.cli.view
from eim_ros.ik import Sampler
from eim_ros.view.page import Page

page = Page(Sampler("panda"), n=5, port=0)
while not page.n_drawn:
    time.sleep(0.01)
page.close()
print(page.solutions.message)
"""


def test_neither_learning_nor_pictures_nor_ros_are_needed() -> None:
    """As after `make view`, or `pip install .[view]`."""
    process = subprocess.run([sys.executable, "-c", WITH_THE_LEAST], capture_output=True, text=True, timeout=PATIENCE)
    assert "5 solutions in" in process.stdout, process.stderr


def test_the_page_is_served_until_interrupted(tmp_path: Path) -> None:
    command = [*COMMAND, "view", "--robot", "planar3", "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            told = process.stdout.readline()
            url = re.search(r"http://127\.0\.0\.1:\d+", told)
            assert url, told
            with urllib.request.urlopen(url[0], timeout=PATIENCE) as answer:
                assert b"<html" in answer.read()
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=PATIENCE)
            assert (process.returncode, out, err) == (0, "", "")
        finally:
            process.kill()
