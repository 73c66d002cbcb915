"""Check promises of the repository: pinned versions, consistent descriptions, complete installations and short pages.

Usage: python -m scripts.check_repository

Each check returns its complaints. The script prints them, and fails if there are any.
"""

import ast
import importlib.metadata
import io
import os
import re
import runpy
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import docutils.core
from catkin_pkg.changelog import Changelog, populate_changelog_from_rst
from catkin_pkg.package import Package, parse_package

import eim_ros
from eim_ros.nodes.__main__ import NODES
from scripts import prose

ROOT = Path(__file__).resolve().parents[1]
TYPES_ALONE = {"typing_extensions"}  # imported only for type checkers, which install it
OPTIONAL = {"cuda", "launch", "launch_ros", "lerobot", "moveit_msgs", "toppra"}  # used only if installed
BUILT = {"tf2_msgs"}  # built by `make setup` from cmake/
DISTRIBUTIONS = {"pinocchio": "pin"}  # the metadata of this wheel does not name its modules
PINNED = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(\[[a-z]+\])?==(?P<version>[0-9][0-9a-z.]*)(; python_version .*)?")
MADE_BY_TOOLS = {"__pycache__", "build", "demo", "install", "log"}
EXAMPLE_LINES, PICTURE_BYTES = 60, 60_000
README_WORDS, README_LINES, DOCS_WORDS, PAGE_WORDS, HOW_TO_WORDS = 650, 140, 17_000, 1500, 400
UNITS = re.compile(r"\[(m|rad|rad, m|s|nat|1|1/m)\]|draws|Number of solutions")
FIELD = re.compile(r"(?P<type>[A-Za-z0-9_/]+(\[\])?) (?P<name>\w+)(=-?[0-9]+| (?:[a-z]+|-?[0-9]+))?")
WITH_UNITS = {  # the other files state units in words
    *("msg/ErrorCodes.msg", "msg/IKConstraints.msg", "msg/IKGuarantee.msg", "msg/IKSolutions.msg"),
    *("srv/SampleIK.srv", "srv/SolveAllIK.srv", "srv/DrawIK.srv", "srv/FollowIK.srv", "srv/GetCartesianPath.srv"),
    "srv/SolveNearestIK.srv",
}


def read(*parts: str | Path) -> str:
    """Return the text of a file of the repository."""
    return ROOT.joinpath(*parts).read_text(encoding="utf-8")


def differences(left: Iterable[Any], right: Iterable[Any], words: str) -> list[str]:
    """Return a complaint for each element of only one of two sets."""
    return [f"{words}: {item}" for item in sorted(map(str, set(left) ^ set(right)))]


def normalised(name: str) -> str:
    """Return the name of a distribution as pip compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def requirements(*files: str) -> list[str]:
    """Return the lines of files in requirements/ that name a distribution."""
    lines = [line.strip() for file in files for line in read("requirements", file).splitlines()]
    return [line for line in lines if line and not line.startswith(("#", "-c constraints.txt"))]


def required_names(*files: str) -> set[str]:
    """Return the names of all pinned distributions of some files."""
    return {normalised(match["name"]) for match in map(PINNED.fullmatch, requirements(*files)) if match}


def imported_packages(folder: Path) -> set[str]:
    """Return the top-level names of all absolute imports below a folder."""
    names: set[str] = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                names.add(node.module.partition(".")[0])
    return names - set(sys.stdlib_module_names)


@cache
def own_files() -> list[Path]:
    """Return the tracked files, because files of a user do not count. Without git, return all files."""
    if (ROOT / ".git").exists():
        listed = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True)
        return [path for path in (ROOT / name for name in listed.split("\0") if name) if path.is_file()]
    files: list[Path] = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name == ".ci" or not name.startswith(".")]
        folders[:] = [name for name in folders if name not in MADE_BY_TOOLS and not name.endswith(".egg-info")]
        files += [Path(folder, name) for name in names]
    return files


@cache
def described() -> Package:
    """Return the content of package.xml."""
    return parse_package(str(ROOT), warnings=[])


@cache
def setup_arguments() -> dict[str, Any]:
    """Return the arguments that setup.py passes to setuptools."""
    captured: dict[str, Any] = {}
    here = Path.cwd()
    os.chdir(ROOT)
    try:
        with mock.patch("setuptools.setup", captured.update):
            runpy.run_path(str(ROOT / "setup.py"))
    finally:
        os.chdir(here)
    return captured


def executables() -> dict[str, str]:
    """Return the function of each installed program."""
    return dict(line.split(" = ") for line in setup_arguments()["entry_points"]["console_scripts"])


def check_pins() -> list[str]:
    """Check that each requirement is pinned once for each Python. Constraints may be repeated."""
    pins: dict[tuple[str, str], list[str]] = {}
    constraints = set(requirements("constraints.txt"))
    loose = []
    for path in sorted((ROOT / "requirements").glob("*.txt")):
        lines = requirements(path.name)
        loose += [f"{path.name}: not pinned: {line}" for line in lines if not PINNED.fullmatch(line)]
        loose += [] if lines else [f"{path.name} is empty"]
        for line in lines:
            if path.name != "constraints.txt" and line in constraints:
                continue
            requirement, _, marker = line.partition(";")
            name = normalised(re.split(r"\[|==", requirement)[0])
            pins.setdefault((name, marker.strip()), []).append(f"{path.name}: {line}")
    return loose + [f"pinned twice: {', '.join(lines)}" for lines in pins.values() if len(lines) > 1]


def check_imports() -> list[str]:
    """Check that each imported package is required, and that packages of ROS are declared in package.xml."""
    required = required_names("view.txt", "runtime.txt", "ros.txt")
    distributions = importlib.metadata.packages_distributions()
    complaints = []
    for name in imported_packages(ROOT / "eim_ros") - {"eim_ros"} - OPTIONAL - BUILT - TYPES_ALONE:
        candidates = [*distributions.get(name, ()), f"ros-{name}", DISTRIBUTIONS.get(name, name)]
        if not required & set(map(normalised, candidates)):
            complaints.append(f"{name} is imported, but no file in requirements/ lists it")
    imported = imported_packages(ROOT / "eim_ros" / "nodes")
    ros = {name for name in imported if name == "rclpy" or name.endswith(("_msgs", "_interfaces"))}
    missing = ros - {dependency.name for dependency in described().exec_depends} - OPTIONAL
    generated = re.compile(r"^\s*(from|import) eim_ros\.(action|msg|srv)\b", re.MULTILINE)
    sources = [path.relative_to(ROOT / "eim_ros") for path in (ROOT / "eim_ros").rglob("*.py")]
    importing = {path.parts[0] for path in sources if generated.search(read("eim_ros", path))}
    return [
        *complaints,
        *(f"package.xml does not list {name}, which the nodes import" for name in missing),
        *(
            f"eim_ros/{name} imports generated interfaces, but only nodes may import them"
            for name in importing - {"nodes"}
        ),
    ]


def check_descriptions() -> list[str]:
    """Check that package.xml, setup.py and the package agree, and that there is only one package."""
    package, arguments = described(), setup_arguments()
    facts = {
        "format": (package.package_format, 3),
        "build type": (package.get_build_type(), "ament_cmake"),
        "version": (package.version, arguments["version"]),
        "version of the module": (package.version, eim_ros.__version__),
        "license": (package.licenses, [arguments["license"]]),
        "name": (package.name, arguments["name"]),
        "folders with a package.xml": ([path.parent for path in own_files() if path.name == "package.xml"], [ROOT]),
    }
    return [f"{name}: {found}, expected {wanted}" for name, (found, wanted) in facts.items() if found != wanted]


def check_changelog() -> list[str]:
    """Check that catkin_pkg (used by bloom) and docutils parse the changelog, and that it contains this version."""
    text, problems = read("CHANGELOG.rst"), io.StringIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # catkin_pkg uses a deprecated function
        docutils.core.publish_doctree(text, settings_overrides={"warning_stream": problems, "report_level": 1})
        log = populate_changelog_from_rst(Changelog("eim_ros"), text)
    released = [(version, date) for version, date, _ in log.foreach_version() if version != "Forthcoming"]
    sections = set(re.findall(r"^\* (.*)$", text, re.MULTILINE)) - {"Added", "Changed", "Fixed", "Removed"}
    return [
        *problems.getvalue().splitlines(),
        *(
            []
            if text.split("\n")[1] == "Changelog for package eim_ros"
            else ["CHANGELOG.rst must have the title 'Changelog for package eim_ros'"]
        ),
        *([] if eim_ros.__version__ in dict(released) else [f"CHANGELOG.rst has no section {eim_ros.__version__}"]),
        *(f"version {version} in CHANGELOG.rst has no date" for version, date in released if date is None),
        *(f"CHANGELOG.rst has the unknown section {section}" for section in sections),
    ]


def check_installation() -> list[str]:
    """Check that pip and make install all packages, programs, interfaces and shared files."""
    arguments = setup_arguments()
    folders = {path.parent.relative_to(ROOT) for path in (ROOT / "eim_ros").rglob("*.py")}
    complaints = differences(arguments["packages"], (".".join(folder.parts) for folder in folders), "packages")
    nodes = {name for name, function in executables().items() if function == "eim_ros.nodes.__main__:main"}
    complaints += differences(nodes, NODES, "nodes") + differences(NODES, executables().keys() - {"eim"}, "programs")
    found = re.search(r'set\(entry_point "(.*)"\)', read("cmake/executables.cmake"))
    lines = re.findall(found[1].replace('\\"', '"'), read("setup.py")) if found else []
    seen = {name: f"{module}:{function}" for name, module, function in lines}
    complaints += differences(seen.items(), executables().items(), "cmake/executables.cmake reads")
    listed = re.findall(
        r"^  ((?:action|msg|srv)/\w+\.(?:action|msg|srv))$", read("cmake/interfaces.cmake"), re.MULTILINE
    )
    complaints += differences(listed, (str(path.relative_to(ROOT)) for path in interfaces()), "interfaces")
    for extra, files in (("all", ("view.txt", "runtime.txt")), ("view", ("view.txt",))):
        loose = [*arguments["install_requires"], *arguments["extras_require"][extra]]
        names = {normalised(re.split(r"[<>=~]", requirement)[0]) for requirement in loose}
        complaints += differences(names, required_names(*files), f"pip install .[{extra}]")
    installed = {f"{to}/{Path(file).name}": ROOT / file for to, files in arguments["data_files"] for file in files}
    for folder in ("config", "launch", "urdf"):
        shared = [path for path in (ROOT / folder).rglob("*") if path.is_file() and path.suffix != ".pyc"]
        for path in shared:
            if installed.get(f"share/eim_ros/{path.relative_to(ROOT)}") != path:
                complaints.append(f"setup.py does not install {path.relative_to(ROOT)}")
    marker = installed.get("share/ament_index/resource_index/packages/eim_ros", ROOT / "missing")
    if not marker.is_file() or "share/eim_ros/package.xml" not in installed:
        complaints.append("setup.py does not make the package known to ament")
    if "install(DIRECTORY config launch urdf" not in read("CMakeLists.txt"):
        complaints.append("CMakeLists.txt does not install config, launch and urdf")
    return complaints


def check_tree() -> list[str]:
    """Check that no file contains a registry or a path of a machine, and that no program hides a module."""
    hosts = "|".join(
        rf"{name}\." for name in ("py" + "pi", "files.python" + "hosted", "download.py" + "torch", "conda")
    )
    machines = "|".join(f"/{folder}/[a-z]" for folder in ("ho" + "me", "ro" + "ot", "wo" + "rk", "Us" + "ers"))
    forbidden = re.compile(rf"https?://[a-z.]*({hosts})|--(extra-)?index-url|(?<![\w.$}}])({machines})")
    complaints = []
    for path in own_files():
        text = path.read_bytes().decode("utf-8", errors="ignore")  # pictures and models cannot match
        if "\0" not in text:
            complaints += [f"{path.relative_to(ROOT)}: {match.group()}" for match in forbidden.finditer(text)]
    # Python imports first from the folder of a program. For example, a benchmark em.py would hide empy's module from
    # rclpy.
    modules = set(sys.stdlib_module_names) | set(importlib.metadata.packages_distributions())
    programs = [path for folder in ("benchmarks", "scripts", "examples") for path in (ROOT / folder).glob("*.py")]
    complaints += [f"{path.name} hides a module that others import" for path in programs if path.stem in modules]
    complaints += [] if "\nmake test\n" in read(".ci/run") else [".ci/run does not run `make test`"]
    return complaints + [f"prose.py names {place}" for place in prose.UNCHECKED if not (ROOT / place).exists()]


def check_examples() -> list[str]:
    """Check that each example is short, and that the page of the examples contains it with a small picture."""
    page, folder = read("examples/README.md"), ROOT / "examples"
    files = [path.name for path in folder.iterdir() if path.suffix in (".py", ".ipynb")]
    complaints = differences(files, re.findall(r"\]\((\w+\.(?:py|ipynb))\)", page), "examples/README.md")
    shown = re.findall(r"!\[[^\]]+\]\(pictures/(\w+)\.png\)", page)
    complaints += differences((path.stem for path in folder.glob("*.py")), shown, "pictures of examples")
    complaints += differences((path.stem for path in (folder / "pictures").iterdir()), shown, "files of pictures")
    for path in folder.glob("*.py"):
        if len(path.read_text(encoding="utf-8").splitlines()) > EXAMPLE_LINES:
            complaints.append(f"{path.name} has more than {EXAMPLE_LINES} lines")
    large = [path for path in (folder / "pictures").iterdir() if path.stat().st_size > PICTURE_BYTES]
    return complaints + [f"{path.name} has more than {PICTURE_BYTES} bytes" for path in large]


def check_pages() -> list[str]:
    """Check the lengths of README.md and the pages, and that CONTRIBUTING.md names files that exist."""
    readme = read("README.md")
    words = {str(path.relative_to(ROOT)): len(read(path).split()) for path in ROOT.glob("docs/**/*.md")}
    # pages that are generated from tables of results
    words = {page: n for page, n in words.items() if "/report/" not in page}
    total = sum(words.values())
    lengths = {
        "words of README.md": (len(readme.split()), README_WORDS),
        "lines of README.md": (len(readme.splitlines()), README_LINES),
        "words of docs": (total, DOCS_WORDS),
        **{f"words of {page}": (n, HOW_TO_WORDS if "/how_to/" in page else PAGE_WORDS) for page, n in words.items()},
    }
    complaints = [f"{what}: {n}, at most {most}" for what, (n, most) in lengths.items() if n > most]
    table = read("CONTRIBUTING.md").partition("## Where do I change ...?")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| (an? .*?) \| (.*?) \|$", table, re.MULTILINE))
    complaints += [] if len(rows) >= 10 else ["CONTRIBUTING.md has fewer than ten additions in its table"]
    for addition, files in rows.items():
        paths = re.findall(r"`([^`\s]*/[^`\s]*|\w+\.py)`", files)
        complaints += [] if paths else [f"CONTRIBUTING.md does not name a file for {addition}"]
        known = [
            ROOT / path.partition("<new>")[0] for path in paths
        ]  # a new file does not exist yet, but its folder must
        complaints += [f"CONTRIBUTING.md names {path}, which does not exist" for path in known if not path.exists()]
    return complaints


def interfaces() -> list[Path]:
    """Return the files of messages, services and actions."""
    return sorted(path for kind in ("action", "msg", "srv") for path in (ROOT / kind).iterdir())


def comment_of(lines: list[str], row: int) -> str:
    """Return the comment above a row."""
    start = row
    while start and lines[start - 1].startswith("#"):
        start -= 1
    return " ".join(line[2:] for line in lines[start:row])


def check_comments_of_interfaces() -> list[str]:
    """Check that each field has a comment, and that real numbers in services of the IK server have a unit."""
    complaints = []
    for path in interfaces():
        lines, name = path.read_text(encoding="utf-8").splitlines(), str(path.relative_to(ROOT))
        for row, line in enumerate(lines):
            if not line or line.startswith("#") or line == "---":
                continue
            match, comment = FIELD.fullmatch(line), comment_of(lines, row)
            if not match or not comment:
                complaints.append(f"{name}: {line!r} has no comment above, or is not a field")
            elif match["type"].startswith("float64") and name in WITH_UNITS and not UNITS.search(comment):
                complaints.append(f"{name}: the comment of {match['name']} does not state the unit")
    return complaints


CHECKS: tuple[Callable[[], list[str]], ...] = (
    check_pins,
    check_imports,
    check_descriptions,
    check_changelog,
    check_installation,
    check_tree,
    check_examples,
    check_pages,
    check_comments_of_interfaces,
)


def main() -> int:
    """Print the complaints of all checks."""
    complaints = [complaint for check in CHECKS for complaint in check()]
    print("".join(f"{complaint}\n" for complaint in complaints), end="")
    return int(bool(complaints))


if __name__ == "__main__":
    sys.exit(main())
