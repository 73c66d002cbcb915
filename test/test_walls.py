"""Each subpackage that could become a separate package needs only the subpackages below it.

The import contracts in `pyproject.toml` check the imports between subpackages. These tests copy a subpackage and its
allowed imports into an empty folder, and import every module in this folder.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import eim_ros

MAY_KNOW = {  # allowed imports, which must agree with the import contracts
    "core": (),
    "solver": ("core",),
    "kinematics": ("solver", "core"),
    "learning": ("solver", "core"),
    "learning/gmmvi": ("learning",),
    "learning/discrete": ("learning",),
    "ik": ("kinematics", "learning"),
    "motion": ("kinematics", "learning"),
    "planar": ("learning",),
    "bags": ("kinematics", "core"),
    "view": ("kinematics", "ik", "motion"),
}
TABLES = ("eim_ros/__init__.py", "eim_ros/learning/__init__.py")  # import public names on first use
# prints imports from outside of the folder, also if they are inside of functions
CHILD = """
import ast, importlib, importlib.util, sys
from pathlib import Path

folder, tables = Path(sys.argv[1]), sys.argv[2:]
sys.path.insert(0, str(folder))
names = {}
for path in sorted(folder.rglob("*.py")):
    name = ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")
    importlib.import_module(name)
    if str(path.relative_to(folder)) not in tables:
        found = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.ImportFrom)]
        names.update({node.module: name for node in found if node.module.partition(".")[0] == "eim_ros"})
for name in sorted({*names, *(name for name in sys.modules if name.partition(".")[0] == "eim_ros")}):
    stub = folder.joinpath(*name.split(".")).with_suffix(".pyi")  # declares compiled code under other names
    spec = None if stub.is_file() else importlib.util.find_spec(name)
    if not stub.is_file() and (spec is None or not Path(spec.origin).is_relative_to(folder)):
        print(names.get(name, ""), "imports", name)
"""


def needed(part: str) -> set[str]:
    return {part}.union(*(needed(below) for below in MAY_KNOW[part]))


def foreign_imports(part: str, folder: Path) -> str:
    """Copy a subpackage and its allowed imports to a folder, and return imports from outside of this folder."""
    source, target = Path(eim_ros.__file__).parent, folder / "eim_ros"
    parts = needed(part)
    others = {source / other for other in MAY_KNOW if other not in parts}

    def left_out(path: str, names: list[str]) -> set[str]:
        return {name for name in names if Path(path, name) in others or name == "__pycache__"}

    for each in sorted(parts):
        shutil.copytree(source / each, target / each, ignore=left_out, dirs_exist_ok=True)
    shutil.copy(source / "__init__.py", target)
    command = [sys.executable, "-c", CHILD, str(folder), *TABLES]
    result = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    return result.stdout + result.stderr


@pytest.mark.parametrize("part", ["learning/gmmvi", "learning/discrete", "planar", "view", "bags"])
def test_part_works_with_what_it_may_know(part, tmp_path):
    assert foreign_imports(part, tmp_path) == ""


def test_import_across_a_wall_is_found(tmp_path, monkeypatch):
    monkeypatch.setitem(MAY_KNOW, "bags", ("core",))  # without kinematics
    assert "eim_ros.bags.selection imports eim_ros.kinematics" in foreign_imports("bags", tmp_path)
