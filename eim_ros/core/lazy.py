"""Names of a package that are imported on first use (PEP 562).

Users of a package then wait only for the modules that they use. The names and their modules are listed once, as imports
under `if TYPE_CHECKING:`. Both type checkers and `deferred_names` read this list (compare `attach_stub` of lazy_loader,
SPEC 1).
"""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from eim_ros.core.errors import EXTRAS, MissingPackageError, did_you_mean


def _in_from_import(caller: FrameType) -> bool:
    """Return whether an attribute is looked up by `from package import name`, which hides the AttributeError."""
    return caller.f_globals.get("__name__") == "importlib._bootstrap" and caller.f_code.co_name == "_handle_fromlist"


def deferred_names(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the functions `__getattr__` and `__dir__` of a package with deferred names.

    Parameters
    ----------
    package, file : str
        `__name__` and `__file__` of the package.
    """

    @functools.cache
    def homes() -> dict[str, str | None]:
        """Return the module of each name that is imported under `if TYPE_CHECKING:`."""
        statements = ast.parse(Path(file).read_text(encoding="utf-8")).body
        blocks = (
            one.body for one in statements if isinstance(one, ast.If) and ast.unparse(one.test) == "TYPE_CHECKING"
        )
        imports = (one for block in blocks for one in block if isinstance(one, ast.ImportFrom))
        return {alias.name: one.module for one in imports for alias in one.names}

    def __getattr__(name: str) -> Any:
        home = None if name.startswith("__") else homes().get(name)
        if home is None:
            hint = ""
            if not name.startswith("_"):
                hint = _within(package, Path(file).parent, name) or did_you_mean(name, homes())
            if hint and _in_from_import(sys._getframe(1)) and importlib.util.find_spec(f"{package}.{name}") is None:
                raise ImportError(f"cannot import name {name!r} from {package!r}{hint}", name=name)
            raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}")
        try:
            value = getattr(importlib.import_module(home), name)
        except ModuleNotFoundError as error:
            if (missing := (error.name or "").partition(".")[0]) not in EXTRAS:
                raise
            raise MissingPackageError(f"{package}.{name}", missing) from error
        setattr(sys.modules[package], name, value)
        return value

    def __dir__() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes()})

    return __getattr__, __dir__


def _within(package: str, folder: Path, name: str) -> str:
    """Return the end of an error message that names the inner package that has `name`; empty if there is none."""
    for init in sorted(folder.glob("*/__init__.py")):
        statements = ast.walk(ast.parse(init.read_text(encoding="utf-8")))
        imports = (one for one in statements if isinstance(one, ast.ImportFrom))
        if name in {alias.name for one in imports for alias in one.names}:
            return f"; it is {package}.{init.parent.name}.{name}"
    return ""
