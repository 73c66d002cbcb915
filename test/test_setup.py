"""Installed programs call existing functions, imports are fast, and `make setup` names missing requirements."""

import ast
import importlib.metadata
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ament_index_python import get_package_share_directory

from eim_ros.kinematics import robot_path
from scripts.check_repository import TYPES_ALONE, executables

ROOT = Path(__file__).resolve().parents[1]


HEAVY = {
    *("coal", "joblib", "matplotlib", "mujoco", "pandas", "pinocchio", "rclpy", "scipy", "sklearn", "torch"),
    *("trimesh", "viser", "yaml", "asyncio"),
    *("numpy.f2py", "numpy.ma", "numpy.polynomial", "numpy.random", "numpy.testing"),
}  # the import of each module, with the modules that it needs, takes at least 10 ms of CPU time


@pytest.mark.parametrize(
    "work",
    [
        "import eim_ros.ik",
        "from eim_ros import Sampler; assert Sampler('panda').solve([0.4, 0.1, 0.5, 1, 0, 0, 0])",
        "from eim_ros import Sampler; assert Sampler('arm.urdf', 'panda_link8').solve([0.4, 0.1, 0.5, 1, 0, 0, 0])",
    ],
)
def test_first_answer_loads_no_heavy_module(work, tmp_path):
    shutil.copy(robot_path("panda"), tmp_path / "arm.urdf")
    code = f"import sys\n{work}\nprint(sorted(sys.modules))"
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert set(ast.literal_eval(result.stdout)) & {*HEAVY, *TYPES_ALONE} == set()


@pytest.mark.parametrize("name", ["eim", "ik_server"])
def test_console_script_leads_to_a_function(name):
    entry = importlib.metadata.EntryPoint(name, executables()[name], "console_scripts")
    assert callable(entry.load())


def test_ament_finds_the_launch_files(monkeypatch):
    monkeypatch.setenv("AMENT_PREFIX_PATH", os.environ.get("AMENT_PREFIX_PATH") or sys.prefix)
    folder = Path(get_package_share_directory("eim_ros")) / "launch"
    found = {path.name: path.read_bytes() for path in folder.glob("*.launch.py")}
    assert found == {path.name: path.read_bytes() for path in (ROOT / "launch").glob("*.launch.py")}


def test_pytest_in_another_folder_tests_the_installed_package_and_not_the_tree(tmp_path):
    """`colcon test` runs pytest in another folder, where the source tree has no compiled modules."""
    package = tmp_path / "eim_ros"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('this is the installed one')", encoding="utf-8")
    options = ["--collect-only", "-q", "-n", "0", "-p", "no:cacheprovider", f"--config-file={ROOT / 'pyproject.toml'}"]
    command = [sys.executable, "-m", "pytest", *options, str(ROOT / "test/core/test_files.py")]
    variables = {**os.environ, "PYTHONPATH": str(tmp_path)}
    result = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
    assert "this is the installed one" in result.stdout


def stub_python(folder: Path, *, fails_on: str) -> Path:
    """Write an interpreter that works like ours, but fails for commands that contain a text."""
    path = folder / "python-stub"
    path.write_text(
        "#!/bin/sh\n"
        f'case "$*" in *{fails_on}*) exit 1;; *realpath*) realpath "$0"; exit;; esac\n'
        f'exec {sys.executable} "$@"\n',
        encoding="utf-8",
    )
    path.chmod(0o755)
    return path


def run_setup(tmp_path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the setup script in an otherwise empty clone."""
    script = tmp_path / "scripts/setup.sh"
    script.parent.mkdir()
    script.write_bytes((ROOT / "scripts/setup.sh").read_bytes())
    variables = {"PATH": "/usr/bin:/bin", **environment}
    return subprocess.run(["bash", str(script)], env=variables, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("missing", "cure"),
    [
        ("compiler", "apt install g++"),
        ("version_info", "found no Python 3.10 to 3.13"),
        ("ensurepip", "apt install python3-venv"),
    ],
)
def test_setup_names_the_cure_for_a_missing_tool_in_one_line(tmp_path, missing, cure):
    python = stub_python(tmp_path, fails_on=missing)
    compiler = "no-such-compiler" if missing == "compiler" else "sh"
    result = run_setup(tmp_path, PYTHON=str(python), CXX=compiler)
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1
    assert cure in result.stderr
    assert not (tmp_path / ".venv").exists()


def test_setup_resolves_the_interpreter_of_an_environment_that_it_is_going_to_replace(tmp_path):
    bin_folder = tmp_path / ".venv/bin"
    bin_folder.mkdir(parents=True)
    (bin_folder / "python").symlink_to(stub_python(tmp_path, fails_on="ensurepip"))
    result = run_setup(tmp_path, CXX="sh")
    assert f"{tmp_path}/python-stub has no venv module" in result.stderr


def test_setup_refuses_a_sourced_ros_that_its_python_cannot_import(tmp_path):
    marker = tmp_path / "ros/share/ament_index/resource_index/packages/rclpy"
    marker.parent.mkdir(parents=True)
    marker.touch()
    python = stub_python(tmp_path, fails_on="rclpy")
    result = run_setup(tmp_path, PYTHON=str(python), CXX="sh", AMENT_PREFIX_PATH=f"{tmp_path}/ros")
    assert result.returncode == 1
    assert "cannot import rclpy of the sourced ROS 2" in result.stderr
    assert not (tmp_path / ".venv").exists()
