"""MkDocs hook that generates the reference from the code.

Each public class gets a page. The functions and constants of a package share a page.

A page contains lines such as `<!-- generated: node parameters -->`. Such lines are replaced when the site is built:

    command line       help of every verb of `eim`
    exit codes         table of the exit codes
    node parameters    table of the parameters of every node
    interfaces         services, messages and actions with the comments of their files
    python PACKAGE     table of the public names of a package
    learner settings   table of the settings of every learner
    table PATH         rows of the Markdown tables in a file of results
    text PATH          content of a file of results
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import inspect
import io
import json
import os
import re
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

from eim_ros.cli.main import EXPLAINED, VERBS, read_verb
from eim_ros.core.settings import Settings
from eim_ros.nodes.__main__ import NODES

ROOT = Path(__file__).resolve().parents[1]
MARK = re.compile(r"^<!-- generated: ([a-z ]+?)(?: (\S*[/.]\S*))? -->$", re.MULTILINE)
PYTHON = {  # pages of the packages; pages of classes are in a folder next to the page of their package
    "reference/python/ik.md": "eim_ros.ik",
    "reference/python/kinematics.md": "eim_ros.kinematics",
    "reference/python/learning.md": "eim_ros.learning",
    "reference/python/models.md": "eim_ros.learning.models",
    "reference/python/motion.md": "eim_ros.motion",
}
FUNCTIONS = "functions"
LEARNERS = {
    "EM": "eim_ros.learning:EMConfig",
    "TruncatedEM": "eim_ros.learning:TruncatedEMConfig",
    "EIM": "eim_ros.learning:EIMConfig",
    "GMMVI": "eim_ros.learning.gmmvi:GMMVIConfig",
}
FIELD = re.compile(r"^(?P<type>[\w/]+(?:\[[<=\d]*\])?) +(?P<name>\w+)(?: *= *(?P<constant>\S+)| +(?P<default>\S+))?$")


def on_config(config: Any) -> Any:
    """Add the pages of the classes to the contents, below the page of their package."""
    config.nav = _with_classes(config.nav)
    return config


def _with_classes(nav: Any) -> Any:
    if isinstance(nav, list):
        return [_with_classes(entry) for entry in nav]
    if isinstance(nav, dict):
        return {title: _with_classes(entry) for title, entry in nav.items()}
    return [{"Overview": nav}, *({title: page} for title, page, _ in python_pages(nav))] if nav in PYTHON else nav


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of the classes."""
    for index in PYTHON:
        for _, page, text in python_pages(index):
            files.append(File.generated(config, page, content=text))
    return files


def python_pages(index: str) -> list[tuple[str, str, str]]:
    """Return the title, path and content of each page below the page of a package."""
    package, folder = PYTHON[index], index.removesuffix(".md")
    classes, others = _public_names(package)
    pages = [(name, f"{folder}/{name}.md", f"::: {package}.{name}\n\n{_members(package, name)}") for name in classes]
    text = "\n".join(f"::: {package}.{name}\n    options: {{heading_level: 2}}\n" for name in others)
    title = "Functions and constants"
    return [*pages, (title, f"{folder}/{FUNCTIONS}.md", f"# {title} of `{package}`\n\n{text}")]


def _members(package: str, name: str) -> str:
    """Return a table of the values of an enumeration, or an empty text for other classes."""
    kind = getattr(importlib.import_module(package), name)
    if not issubclass(kind, Enum):
        return ""
    return _table(("name", "value"), ((f"`{member.name}`", f"`{member.value}`") for member in kind))


def _public_names(package: str) -> tuple[list[str], list[str]]:
    """Return the classes and the other names that a package exports."""
    module = importlib.import_module(package)
    classes = [name for name in module.__all__ if inspect.isclass(getattr(module, name))]
    return classes, [name for name in module.__all__ if name not in classes]


def python_names(package: str) -> str:
    """Return a table of the public names of a package, with links to their pages."""
    module, (classes, others) = importlib.import_module(package), _public_names(package)
    folder = next(index for index, name in PYTHON.items() if name == package).rpartition("/")[2].removesuffix(".md")
    rows = []
    for name in classes:
        summary = (inspect.getdoc(getattr(module, name)) or "").partition("\n\n")[0].replace("\n", " ")
        rows.append((f"[`{name}`]({folder}/{name}.md)", summary))
    for name in others:
        summary = (inspect.getdoc(getattr(module, name)) or "").partition("\n\n")[0].replace("\n", " ")
        shown = summary if callable(getattr(module, name)) else "Constant."
        rows.append((f"[`{name}`]({folder}/{FUNCTIONS}.md#{package}.{name})", shown))
    return _table(("name", "meaning"), rows)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Replace the marks of a page."""

    def written(match: re.Match[str]) -> str:
        kind, path = match[1], match[2]
        try:
            return FROM_FILE[kind](path) if path else FROM_CODE[kind]()
        except (KeyError, OSError) as error:
            raise PluginError(f"{page.file.src_uri}: {match[0]} cannot be generated: {error!r}") from error

    return MARK.sub(written, markdown)


def command_line() -> str:
    """Return a section with the complete help of each verb."""
    os.environ["COLUMNS"] = "100"  # number of characters per line of the site
    parts = []
    for verb, (_, summary) in VERBS.items():
        text = "\n\n".join(map(_help, (verb, "demo --planar") if verb == "demo" else (verb,)))
        parts.append(f"## `eim {verb}`\n\n{_sentence(summary)}\n\n```text\n{text.strip()}\n```\n")
    return "\n".join(parts)


def exit_codes() -> str:
    """Return a table of the exit codes."""
    return _table(("code", "meaning"), ((f"{code:d}", meaning) for code, meaning in EXPLAINED.items()))


def node_parameters() -> str:
    """Return a section with the parameters of each node."""
    parts = []
    for name, entry in NODES.items():
        parts.append(f"## `{name}`\n\n{_settings_table(entry.settings)}\n")
    return "\n".join(parts)


def learner_settings() -> str:
    """Return a section with the settings of each learner."""
    parts = []
    for learner, path in LEARNERS.items():
        module, _, name = path.partition(":")
        kind = getattr(importlib.import_module(module), name)
        parts.append(f"## `{learner}`\n\nFields of `{name}`.\n\n{_settings_table(kind)}\n")
    return "\n".join(parts)


def interfaces() -> str:
    """Return a section with the fields of each service, message and action."""
    parts = []
    for folder, title in (("srv", "Services"), ("msg", "Messages"), ("action", "Actions")):
        parts.append(f"## {title}\n")
        parts += [_interface(path) for path in sorted((ROOT / folder).iterdir())]
    return "\n".join(parts)


def result_table(path: str) -> str:
    """Return the rows of the Markdown tables in a file, one table after the other."""
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    rows = [line if line.startswith("|") else "" for line in lines]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(rows)).strip()


def result_text(path: str) -> str:
    """Return the unchanged content of a file."""
    return f"```text\n{(ROOT / path).read_text(encoding='utf-8').strip()}\n```"


FROM_CODE: dict[str, Callable[[], str]] = {
    "command line": command_line,
    "exit codes": exit_codes,
    "node parameters": node_parameters,
    "interfaces": interfaces,
    "learner settings": learner_settings,
}
FROM_FILE: dict[str, Callable[[str], str]] = {"table": result_table, "text": result_text, "python": python_names}


def _help(verb: str) -> str:
    """Return the help of a verb."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        read_verb([*verb.split(), "--help"])
    return printed.getvalue()


def _settings_table(kind: type[Settings]) -> str:
    return _table(("name", "default", "meaning"), _settings_rows(kind, ""))


def _settings_rows(kind: type[Settings], prefix: str) -> Iterator[tuple[str, str, str]]:
    """Yield name, default and meaning of each setting. Settings within other settings have dotted names."""
    for field in dataclasses.fields(kind):
        default = field.default
        if default is dataclasses.MISSING and field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        if isinstance(default, Settings):
            yield from _settings_rows(type(default), f"{prefix}{field.name}.")
            continue
        about = field.metadata
        meaning = _sentence(about["description"])
        unit = f" [{about['unit']}]" if about["unit"] else ""
        bounds = [
            f"{word} {about[key]:g}"
            for word, key in (("at least", "minimum"), ("at most", "maximum"))
            if about[key] is not None
        ]
        choices = [", ".join(f"`{choice}`" for choice in about["choices"])] if about["choices"] else []
        limits = f" ({', '.join(bounds + choices)})" if bounds or choices else ""
        shown = json.dumps(list(default) if isinstance(default, tuple) else default, default=str)
        yield f"`{prefix}{field.name}`{unit}", f"`{shown}`", f"{meaning}{limits}"


def _interface(path: Path) -> str:
    """Return the heading of an interface, its first comment, and tables of the fields of each part."""
    head, parts, comment = "", [[]], []  # type: ignore[var-annotated]  # lists of rows
    for line in [*path.read_text(encoding="utf-8").splitlines(), ""]:
        if line.startswith("#"):
            comment.append(line.lstrip("# ").strip())
        elif line == "---":
            parts.append([])
        elif match := FIELD.match(line.partition("  #")[0].strip()):
            value = match["constant"] or match["default"]
            name = f"`{match['name']}`" + (f" = {value}" if value else "")
            parts[-1].append((name, f"`{match['type']}`", " ".join(comment)))
            comment = []
        elif not line.strip() and comment and not head and not any(parts):
            head, comment = " ".join(comment), []
    titles = {"srv": ("Request", "Response"), "action": ("Goal", "Result", "Feedback"), "msg": ("",)}[path.parent.name]
    tables = [
        (f"{title}:\n\n" if title else "") + _table(("field", "type", "meaning"), rows)
        for title, rows in zip(titles, parts, strict=True)
        if rows
    ]
    return "\n\n".join([f"### `{path.stem}`", *([head] if head else []), *tables]) + "\n"


def _table(head: tuple[str, ...], rows: Any) -> str:
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return "\n".join(lines)


def _sentence(text: str) -> str:
    """Return a description as a sentence."""
    return text[:1].upper() + text[1:].rstrip(".") + "."
