"""`eim view` runs as a process that serves the page until it is interrupted."""

from __future__ import annotations

import re
import signal
import subprocess
import urllib.request
from pathlib import Path

from cli.command import COMMAND, PATIENCE, process_without

WITH_THE_LEAST = """
import time
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
    """These packages are missing after `make view` and `pip install .[view]`."""
    outcome = process_without(("torch", "matplotlib", "rclpy", "sklearn", "joblib", "rosbags"), WITH_THE_LEAST)
    assert "5 solutions in" in outcome.out, outcome.err


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
