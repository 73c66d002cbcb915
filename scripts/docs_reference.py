"""MkDocs hook that writes the reference from the code, so that it cannot become stale.

A page contains lines such as `<!-- generated: node parameters -->`. Each is replaced when the site is built:

    command line       help of every verb of `eim`
    exit codes         table of the exit codes
    node parameters    table of the parameters of every node
    interfaces         services, messages and actions with the comments of their files
    learner settings   table of the settings of every learner
    table PATH         rows of the Markdown tables in a file of results
    text PATH          content of a file of results
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import io
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError

from eim_ros.cli.main import EXPLAINED, VERBS, read_verb
from eim_ros.core.settings import Settings
from eim_ros.nodes.__main__ import NODES

ROOT = Path(__file__).resolve().parents[1]
MARK = re.compile(r"^<!-- generated: ([a-z ]+?)(?: (\S*/\S*))? -->$", re.MULTILINE)
LEARNERS = {
    "EM": "eim_ros.learning:EMConfig",
    "TruncatedEM": "eim_ros.learning:TruncatedEMConfig",
    "EIM": "eim_ros.learning:EIMConfig",
    "GMMVI": "eim_ros.learning.gmmvi:GMMVIConfig",
}
FIELD = re.compile(r"^(?P<type>[\w/]+(?:\[[<=\d]*\])?) +(?P<name>\w+)(?: *= *(?P<constant>\S+)| +(?P<default>\S+))?$")


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
    os.environ["COLUMNS"] = "100"  # the width of the text
    parts = []
    for verb, (_, summary) in VERBS.items():
        text = _help(verb)
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
    """Return the content of a file as it is."""
    return f"```text\n{(ROOT / path).read_text(encoding='utf-8').strip()}\n```"


FROM_CODE: dict[str, Callable[[], str]] = {
    "command line": command_line,
    "exit codes": exit_codes,
    "node parameters": node_parameters,
    "interfaces": interfaces,
    "learner settings": learner_settings,
}
FROM_FILE: dict[str, Callable[[str], str]] = {"table": result_table, "text": result_text}


def _help(verb: str) -> str:
    """Return the help of a verb."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        read_verb([verb, "--help"])
    return printed.getvalue()


def _settings_table(kind: type[Settings]) -> str:
    return _table(("name", "default", "meaning"), _settings_rows(kind, ""))


def _settings_rows(kind: type[Settings], prefix: str) -> Iterator[tuple[str, str, str]]:
    """Yield name, default and meaning of each setting; those of composed settings have dotted names."""
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
