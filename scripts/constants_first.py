"""Find constants and aliases that should be above the first function or class of their module.

    python scripts/constants_first.py          # print them; the exit code is 1 if there are some
    python scripts/constants_first.py --move   # move them above the first function or class

A constant may stay below if its value uses a function or class of the module, or another constant that must stay below.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "eim_ros"


def names_of(statement: ast.stmt) -> set[str]:
    """Return the names that a module-level assignment defines, or none for other statements."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if isinstance(statement, ast.AnnAssign) and statement.value is not None:
        targets = [statement.target]
    return {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}


def misplaced(tree: ast.Module) -> list[int]:
    """Return the indices of statements that should be above the first function or class."""
    is_definition = [isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) for node in tree.body]
    if True not in is_definition:
        return []
    first, found = is_definition.index(True), list[int]()
    later = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    for index, node in enumerate(tree.body[first:], first):
        names = names_of(node)
        used = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} - names
        if names and not used & later and not any(name.startswith("__") for name in names):
            found.append(index)
        elif not is_definition[index]:
            later |= names | {alias.asname or alias.name for alias in getattr(node, "names", ())}
            later |= {
                each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
            }
    return found


def moved(text: str) -> str:
    """Return the text of a module with its constants moved."""
    tree = ast.parse(text)
    indices, lines = misplaced(tree), text.splitlines()
    if not indices:
        return text
    first = next(node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef))
    place = min([first.lineno, *(each.lineno for each in first.decorator_list)]) - 1
    while place and lines[place - 1].startswith("#"):  # include the comment of the definition
        place -= 1
    taken: list[str] = []
    dropped: set[int] = set()
    for index in indices:
        node, start = tree.body[index], tree.body[index].lineno - 1
        end = node.end_lineno or node.lineno
        after = tree.body[index + 1] if index + 1 < len(tree.body) else None
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str):
            end = after.end_lineno or end
        while start and lines[start - 1].startswith("#"):
            start -= 1
        taken += lines[start:end]
        dropped |= set(range(start, end))
    before = lines[:place]
    while before and not before[-1]:
        before.pop()
    rest = [line for number, line in enumerate(lines[place:], place) if number not in dropped]
    gap = [""] if before and before[-1].startswith(("from ", "import ", ")", '"""', "    from")) else []
    return "\n".join([*before, *gap, *taken, "", "", *rest]) + "\n"


def main() -> None:
    """Print or move the constants of all modules of the package."""
    n_found = 0
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        if sys.argv[1:] == ["--move"]:
            path.write_text(moved(text), encoding="utf-8")
            continue
        for index in misplaced(tree):
            n_found += 1
            print(
                f"{path}:{tree.body[index].lineno}: {', '.join(sorted(names_of(tree.body[index])))} needs no function"
            )
    if n_found:
        raise SystemExit(
            f"{n_found} constants are below the first function; run python scripts/constants_first.py --move"
        )


if __name__ == "__main__":
    main()
