"""MkDocs hook that adds linked files outside docs/ (results, messages, scripts) to the site.

A file of the repository gets the address repository/PATH, and links are rewritten to this address. A link to a folder
leads to its README.md. Therefore, MkDocs checks all links, and the site needs no other host. Figures become links to
their full size, and values in tables are not wrapped.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
DOCS, OTHERS = "docs/", "repository/"
# excludes addresses of other hosts, and anchors without a page
LINK = re.compile(r"(\]\()([^)\s:#]+)((?:#[^)\s]*)?\))")
FIGURE = re.compile(r'(?<!">)(<img [^>]*?src="([^"]+)"[^>]*>)')  # excludes figures that are already links
VALUE = re.compile(r"<td( [^>]*)?>(?=[^<]*\d)(?=[^<]{1,36}</td>)")  # short cells with a number
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: Any) -> Files:
    """Add linked files, and the files that they link to."""
    waiting = [file.src_uri for file in files.documentation_pages()]
    while waiting:
        page = waiting.pop()
        for path in _targets(page, _text(page)):
            uri = _site_uri(path)
            if not path.startswith(DOCS) and files.get_file_from_path(uri) is None:
                files.append(File.generated(config, uri, abs_src_path=str(ROOT / path)))
                if uri.endswith(".md"):
                    waiting.append(uri)
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrite the page's links to addresses within the site."""
    here = page.file.src_uri

    def rewritten(match: re.Match[str]) -> str:
        path = _path(here, match[2])
        return match[0] if path is None else f"{match[1]}{_relative(_site_uri(path), here)}{match[3]}"

    return LINK.sub(rewritten, markdown)


def on_page_content(content: str, **_: Any) -> str:
    """Make each figure a link to its full size, and keep each value of a table on one line."""
    return VALUE.sub(_one_line, FIGURE.sub(r'<a class="figure" href="\2">\1</a>', content))


def _one_line(match: re.Match[str]) -> str:
    return f'<td class="value"{match[1] or ""}>'


def _targets(page: str, markdown: str) -> set[str]:
    found = (_path(page, match[2]) for match in LINK.finditer(FENCE.sub("", markdown)))
    return {path for path in found if path is not None}


def _path(page: str, link: str) -> str | None:
    """Return the repository file of a link, or None without a file. MkDocs then reports the link."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(_source(page)), link))
    if (ROOT / path / "README.md").is_file():
        path = posixpath.join(path, "README.md")
    return path if (ROOT / path).is_file() else None


def _source(page: str) -> str:
    return page.removeprefix(OTHERS) if page.startswith(OTHERS) else DOCS + page


def _site_uri(path: str) -> str:
    return path.removeprefix(DOCS) if path.startswith(DOCS) else OTHERS + path


def _relative(uri: str, page: str) -> str:
    return posixpath.relpath(uri, posixpath.dirname(page) or ".")


def _text(page: str) -> str:
    path = ROOT / _source(page)
    return path.read_text(encoding="utf-8") if path.is_file() else ""  # pages of the reference are generated
