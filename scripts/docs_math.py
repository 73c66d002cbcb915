"""MkDocs hook that adds MathJax to the site. Browsers then need no other host to show formulas."""

from __future__ import annotations

from importlib.resources import files as resources
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

# The distribution django-static-mathjax contains these files. Django itself is not needed.
PACKAGE, FOLDER = "mathjax", "static/mathjax/es5"
SCRIPT, FONTS = "tex-chtml.js", "output/chtml/fonts"


def on_files(files: Files, config: Any) -> Files:
    """Add the script and the fonts of MathJax."""
    folder = Path(str(resources(PACKAGE))) / FOLDER
    for path in (folder / SCRIPT, *(folder / FONTS).rglob("*.woff")):
        uri = f"mathjax/{path.relative_to(folder).as_posix()}"
        files.append(File.generated(config, uri, abs_src_path=str(path)))
    return files
