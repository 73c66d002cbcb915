"""The promises of the repository itself: pinned versions, package descriptions that agree, complete installations."""

import ast
import importlib.metadata
import io
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import docutils.core
import pytest
import setuptools
from catkin_pkg.changelog import Changelog, populate_changelog_from_rst
from catkin_pkg.package import Package, parse_package

import eim_ros
from eim_ros.nodes.__main__ import NODES

TYPES_ALONE = {"typing_extensions"}  # imported for type checkers, which bring it; no program that runs needs it
OPTIONAL = {"launch", "launch_ros", "lerobot", "moveit_msgs", "toppra"}  # offered where they are installed
BUILT = {"tf2_msgs"}  # by `make setup`, from cmake/
ROOT = Path(__file__).resolve().parents[1]
REQUIREMENTS = sorted((ROOT / "requirements").glob("*.txt"))
PINNED = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(\[[a-z]+\])?==(?P<version>[0-9][0-9a-z.]*)(; python_version .*)?")
MADE_BY_TOOLS = {"__pycache__", "build", "demo", "install", "log"}
# pinocchio's wheel keeps its modules where Python's metadata does not see them
DISTRIBUTIONS = {"pinocchio": "pin"}


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def requirement_lines(path: Path) -> list[str]:
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line and not line.startswith(("#", "-c constraints.txt"))]


def required_names(*files: str) -> set[str]:
    lines = [line for file in files for line in requirement_lines(ROOT / "requirements" / file)]
    return {normalised(match["name"]) for match in map(PINNED.fullmatch, lines) if match}


def imported_packages(folder: Path) -> set[str]:
    """Top-level names of all absolute imports below a folder."""
    names: set[str] = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                names.add(node.module.partition(".")[0])
    return names - set(sys.stdlib_module_names)


def own_files() -> list[Path]:
    """The files that git tracks, so that nothing counts that a user made here; all files where there is no git."""
    if (ROOT / ".git").exists():
        listed = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True)
        return [path for path in (ROOT / name for name in listed.split("\0") if name) if path.is_file()]
    files: list[Path] = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name == ".ci" or not name.startswith(".")]
        folders[:] = [name for name in folders if name not in MADE_BY_TOOLS and not name.endswith(".egg-info")]
        files += [Path(folder, name) for name in names]
    return files


def package(folder: Path) -> Package:
    warnings: list[str] = []
    description = parse_package(str(folder), warnings=warnings)
    assert not warnings
    return description


@pytest.fixture(scope="module")
def setup_arguments() -> dict:
    """What setup.py hands to setuptools."""
    captured: dict = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        patch.setattr(setuptools, "setup", captured.update)
        runpy.run_path(str(ROOT / "setup.py"))
    return captured


@pytest.mark.parametrize("path", REQUIREMENTS, ids=lambda path: path.name)
def test_every_requirement_is_pinned(path):
    loose = [line for line in requirement_lines(path) if not PINNED.fullmatch(line)]
    assert requirement_lines(path)
    assert not loose


def test_no_requirement_is_pinned_twice_for_the_same_python():
    pins: dict[tuple[str, str], list[str]] = {}
    for path in REQUIREMENTS:
        for line in requirement_lines(path):
            requirement, _, marker = line.partition(";")
            name = normalised(re.split(r"\[|==", requirement)[0])
            pins.setdefault((name, marker.strip()), []).append(f"{path.name}: {line}")
    assert {key: lines for key, lines in pins.items() if len(lines) > 1} == {}


def test_every_imported_package_is_required():
    required = required_names("view.txt", "runtime.txt", "ros.txt")
    distributions = importlib.metadata.packages_distributions()
    missing = set()
    for name in imported_packages(ROOT / "eim_ros") - {"eim_ros"} - OPTIONAL - BUILT - TYPES_ALONE:
        candidates = [*distributions.get(name, ()), f"ros-{name}", DISTRIBUTIONS.get(name, name)]
        if not required & set(map(normalised, candidates)):
            missing.add(name)
    assert missing == set()


def test_what_type_checkers_alone_need_is_not_imported():
    code = "import sys, eim_ros.ik\nprint(sorted({name.partition('.')[0] for name in sys.modules}))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(ast.literal_eval(result.stdout)) & TYPES_ALONE


def test_every_imported_ros_package_is_declared_in_package_xml():
    imported = imported_packages(ROOT / "eim_ros" / "nodes")
    ros = {name for name in imported if name == "rclpy" or name.endswith(("_msgs", "_interfaces"))}
    declared = {dependency.name for dependency in package(ROOT).exec_depends}
    assert "rclpy" in ros
    assert ros - declared - OPTIONAL == set()


def test_package_descriptions_are_valid_and_agree(setup_arguments):
    described = package(ROOT)
    assert described.package_format == 3
    assert described.get_build_type() == "ament_cmake"
    assert described.version == eim_ros.__version__ == setup_arguments["version"]
    assert described.licenses == [setup_arguments["license"]]
    assert described.name == setup_arguments["name"]


@pytest.mark.filterwarnings("ignore:nodes.Node.traverse:DeprecationWarning")  # called by catkin_pkg
def test_changelog_describes_this_version_in_the_form_of_ros():
    """catkin_pkg, which bloom uses, parses it, and docutils reports no problem."""
    text = (ROOT / "CHANGELOG.rst").read_text(encoding="utf-8")
    assert text.split("\n")[1] == "Changelog for package eim_ros"
    complaints = io.StringIO()
    docutils.core.publish_doctree(text, settings_overrides={"warning_stream": complaints, "report_level": 1})
    assert complaints.getvalue() == ""
    log = populate_changelog_from_rst(Changelog("eim_ros"), text)
    released = [(version, date) for version, date, _ in log.foreach_version() if version != "Forthcoming"]
    assert released[0][0] == eim_ros.__version__
    assert all(date is not None for _, date in released)
    sections = re.findall(r"^\* (.*)$", text, re.MULTILINE)
    assert set(sections) <= {"Added", "Changed", "Fixed", "Removed"}


def test_colcon_finds_one_package():
    """colcon and rosdep look no deeper than the first package.xml."""
    assert [path.parent for path in own_files() if path.name == "package.xml"] == [ROOT]


def test_every_interface_is_compiled():
    """The names in the call of rosidl_generate_interfaces are the files."""
    script = (ROOT / "cmake/interfaces.cmake").read_text(encoding="utf-8")
    listed = re.findall(r"^  ((?:action|msg|srv)/\w+\.(?:action|msg|srv))$", script, re.MULTILINE)
    files = [path for kind in ("action", "msg", "srv") for path in (ROOT / kind).iterdir()]
    assert listed == sorted(str(path.relative_to(ROOT)) for path in files)


def test_interfaces_are_imported_only_in_nodes():
    """import-linter knows only modules that are files of the package; these are generated."""
    generated = re.compile(r"^\s*(from|import) eim_ros\.(action|msg|srv)\b", re.MULTILINE)
    importing = {
        path.relative_to(ROOT / "eim_ros").parts[0]
        for path in (ROOT / "eim_ros").rglob("*.py")
        if generated.search(path.read_text(encoding="utf-8"))
    }
    assert importing == {"nodes"}


def test_cmake_reads_every_executable_from_setup(setup_arguments):
    """cmake/executables.cmake takes them line by line, by the pattern that it shows."""
    script = (ROOT / "cmake/executables.cmake").read_text(encoding="utf-8")
    pattern = re.search(r'set\(entry_point "(.*)"\)', script)
    assert pattern
    found = re.findall(pattern[1].replace('\\"', '"'), (ROOT / "setup.py").read_text(encoding="utf-8"))
    assert [f"{name} = {module}:{function}" for name, module, function in found] == setup_arguments["entry_points"][
        "console_scripts"
    ]


def test_pip_and_make_setup_install_the_same_requirements(setup_arguments):
    """`pip install .[all]` brings what requirements/runtime.txt and view.txt pin, `.[view]` what the latter does."""
    extras = setup_arguments["extras_require"]
    for extra, files in (("all", ("view.txt", "runtime.txt")), ("view", ("view.txt",))):
        loose = [*setup_arguments["install_requires"], *extras[extra]]
        names = {normalised(re.split(r"[<>=~]", requirement)[0]) for requirement in loose}
        assert names == required_names(*files)


def test_every_shared_file_is_installed_where_it_is_looked_for(setup_arguments):
    installed = {
        f"{folder}/{Path(file).name}": ROOT / file for folder, files in setup_arguments["data_files"] for file in files
    }
    for folder in ("config", "urdf"):
        shared = [path for path in (ROOT / folder).rglob("*") if path.is_file() and path.suffix != ".pyc"]
        assert shared, folder
        for path in shared:
            assert installed.get(f"share/eim_ros/{path.relative_to(ROOT)}") == path
    assert "install(DIRECTORY config launch urdf" in (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")


def test_every_python_package_is_installed(setup_arguments):
    folders = {path.parent for path in (ROOT / "eim_ros").rglob("*.py")}
    assert set(setup_arguments["packages"]) == {".".join(folder.relative_to(ROOT).parts) for folder in folders}


def test_no_benchmark_or_script_hides_a_module_that_others_import():
    # its folder comes first on the path of a program: a benchmark called em.py was what rclpy got for empy's module
    modules = set(sys.stdlib_module_names) | set(importlib.metadata.packages_distributions())
    programs = [path for folder in ("benchmarks", "scripts", "examples") for path in (ROOT / folder).glob("*.py")]
    assert programs and not [path for path in programs if path.stem in modules]


def test_every_node_is_an_executable(setup_arguments):
    """Of the same name, all led to the one table."""
    scripts = dict(line.split(" = ") for line in setup_arguments["entry_points"]["console_scripts"])
    nodes = {name for name, function in scripts.items() if function == "eim_ros.nodes.__main__:main"}
    assert nodes == set(NODES) == set(scripts) - {"eim"}


@pytest.mark.parametrize("name", ["eim", "ik_server"])
def test_console_script_leads_to_a_function(name, setup_arguments):
    scripts = dict(line.split(" = ") for line in setup_arguments["entry_points"]["console_scripts"])
    entry = importlib.metadata.EntryPoint(name, scripts[name], "console_scripts")
    assert callable(entry.load())


def test_no_registry_host_and_no_path_of_one_machine_in_the_tree():
    hosts = "|".join(
        name + r"\." for name in ("py" + "pi", "files.python" + "hosted", "download.py" + "torch", "conda")
    )
    machines = "|".join(f"/{folder}/[a-z]" for folder in ("ho" + "me", "ro" + "ot", "wo" + "rk", "Us" + "ers"))
    forbidden = re.compile(rf"https?://[a-z.]*({hosts})|--(extra-)?index-url|(?<![\w.$}}])({machines})")
    found = []
    for path in own_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # pictures and models
        found += [f"{path.relative_to(ROOT)}: {match.group()}" for match in forbidden.finditer(text)]
    assert found == []


def test_ci_runs_what_a_developer_runs():
    assert "\nmake test\n" in (ROOT / ".ci/run").read_text(encoding="utf-8")


def stub_python(folder: Path, *, fails_on: str) -> Path:
    """An interpreter like ours which fails on commands that contain a text."""
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
    """Run the setup script of an otherwise empty clone."""
    script = tmp_path / "scripts/setup.sh"
    script.parent.mkdir()
    script.write_bytes((ROOT / "scripts/setup.sh").read_bytes())
    variables = {"PATH": "/usr/bin:/bin", **environment}
    return subprocess.run(["bash", str(script)], env=variables, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("missing", "cure"),
    [
        ("compiler", "apt install g++"),
        ("version_info", "needs Python 3.10 to 3.13"),
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
    assert f"needs the venv module of {tmp_path}/python-stub" in result.stderr


def test_setup_refuses_a_sourced_ros_that_its_python_cannot_import(tmp_path):
    marker = tmp_path / "ros/share/ament_index/resource_index/packages/rclpy"
    marker.parent.mkdir(parents=True)
    marker.touch()
    python = stub_python(tmp_path, fails_on="rclpy")
    result = run_setup(tmp_path, PYTHON=str(python), CXX="sh", AMENT_PREFIX_PATH=f"{tmp_path}/ros")
    assert result.returncode == 1
    assert "cannot import rclpy of the sourced ROS 2" in result.stderr
    assert not (tmp_path / ".venv").exists()
