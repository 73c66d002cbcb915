"""MkDocs hook that converts formulas to MathML when the site is built, so browsers need no other host to show them."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
COMMAND = re.compile(r"\\[A-Za-z]+")  # the converter leaves unknown commands unchanged


def on_page_content(content: str, page: Any, **_: Any) -> str:
    """Convert each formula; an unknown command ends the build."""

    def converted(match: re.Match[str]) -> str:
        formula = html.unescape(match[2]).strip()
        shown = str(convert(formula, display="block" if match[1] == "div" else "inline"))
        if unknown := COMMAND.findall(shown):
            raise PluginError(f"{page.file.src_uri}: {', '.join(unknown)} in {formula!r} cannot be converted")
        return f'<div class="formula">{shown}</div>' if match[1] == "div" else shown

    return FORMULA.sub(converted, content)
