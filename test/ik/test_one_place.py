"""Some decisions are made in only one place of the package, so no other code can contradict them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "eim_ros" / "ik"


def calls_of(name: str) -> set[str]:
    """Return the functions of `eim_ros.ik` that call the class with this name, such as "engine.Engine._built"."""
    found = set()

    def visit(node: ast.AST, place: str) -> None:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            place = f"{place}.{node.name}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            found.add(place)
        for child in ast.iter_child_nodes(node):
            visit(child, place)

    for path in PACKAGE.rglob("*.py"):
        visit(ast.parse(path.read_text(encoding="utf-8")), path.stem)
    return found


@pytest.mark.parametrize(
    ("name", "places"),
    [
        # not listed: class methods of Solutions, which call `cls`
        ("Solutions", {"engine.Engine._built", "solutions.DeviceSolutions.cpu"}),
        ("CompletenessReport", {"completeness.grant", "solutions.Solutions.from_message"}),
        ("Engine", {"sampler.Sampler._engine", "path_search.PathSearch._answer"}),
    ],
)
def test_only_these_functions_make_it(name: str, places: set[str]) -> None:
    assert calls_of(name) == places
