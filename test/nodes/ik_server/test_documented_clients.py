"""The clients of docs/how_to/call_the_service.md and examples/ get answers from a real server."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from ament_index_python import PackageNotFoundError, get_package_prefix
from nodes.server_process import ServerProcess

from eim_ros.kinematics import Robot, pose_from

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples/moveit_client.py"
CPP_CLIENT = ROOT / "examples/cpp_client"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> list[str]:
    found = BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
    return [text for text in found if "rclpy" in text or "eim_ros.nodes" in text]


def test_documented_client_is_answered(start_server: Callable[..., ServerProcess]) -> None:
    server = start_server(model="none", robot="panda")
    program = "\n".join(blocks("docs/how_to/call_the_service.md"))
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120.0, check=False)
    assert result.returncode == 0, result.stderr + server.log
    assert re.findall(r"\b100\b", result.stdout.splitlines()[-1]) == ["100"], result.stdout  # solutions
    assert server.stop() == 0, server.log


def test_example_of_a_moveit_client_gets_a_solution_of_its_pose(start_server: Callable[..., ServerProcess]) -> None:
    server = start_server(model="none", robot="panda", groups="panda_arm")
    command = [sys.executable, str(EXAMPLE), "--wait", "60"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=90.0, check=False)
    assert result.returncode == 0, result.stderr + server.log
    found = re.fullmatch(r"(?:compute_ik|get_position_ik) found \[(.*)\]", result.stdout.strip())
    assert found
    q = np.array([float(value) for value in found[1].split(",")])
    errors = Robot("panda").pose_errors(q, pose_from([0.4, 0.1, 0.5], [1.0, 0.0, 0.0, 0.0]))
    assert max(error[0] for error in errors) < 2e-3  # printed with three decimals
    assert server.stop() == 0, server.log


def test_without_a_server_the_example_ends_with_one_line() -> None:
    command = [sys.executable, str(EXAMPLE), "--server", "/nobody", "--wait", "0.1"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=90.0, check=False)
    assert result.returncode == 1
    assert re.fullmatch(r"/nobody has not reported its state after .* s; start it first, see --help\n", result.stderr)


def is_installed(package: str) -> bool:
    try:
        get_package_prefix(package)
    except (PackageNotFoundError, OSError):  # OSError: no AMENT_PREFIX_PATH
        return False
    return shutil.which("cmake") is not None


@pytest.mark.skipif(not is_installed("rclcpp"), reason="rclcpp comes with ROS 2, not from PyPI")
def test_client_in_cpp_compiles_and_gets_solutions_of_its_pose(
    start_server: Callable[..., ServerProcess], tmp_path: Path
) -> None:
    prefixes = os.environ["AMENT_PREFIX_PATH"].replace(os.pathsep, ";")
    for step in (["-S", CPP_CLIENT, "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={prefixes}"], ["--build", tmp_path]):
        built = subprocess.run(["cmake", *step], capture_output=True, text=True, check=False)
        assert built.returncode == 0, built.stdout + built.stderr
    server = start_server(model="none", robot="panda", groups="panda_arm")
    server.wait_until_ready()
    result = subprocess.run([tmp_path / "ik_client"], capture_output=True, text=True, timeout=120.0, check=False)
    assert result.returncode == 0, result.stderr + server.log
    nearest, count, *samples = result.stdout.splitlines()
    assert re.match(r"(compute_ik|get_position_ik): ", nearest)
    assert count == "sample_ik: 100 configurations of 7 joints"
    q = np.array([line.split() for line in (nearest.partition(":")[2], *samples)], float)
    assert q.shape == (101, 7)
    position, orientation = Robot("panda").pose_errors(q, pose_from([0.4, 0.1, 0.5], [1.0, 0.0, 0.0, 0.0]))
    assert max(position.max(), orientation.max()) < 5e-4  # printed with four decimals
    assert server.stop() == 0, server.log
