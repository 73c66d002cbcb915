#!/usr/bin/env python3
"""Find sentences that read like a translation, and sentences of more than 30 words.

Usage: prose.py [--list] [PATH ...]

The script reads documentation, docstrings, comments, interface files, error and log messages, and descriptions of
options. The script fails if more than 1 % of the sentences of a folder match a rule, or if more than 2 % are long.
Without a path, it checks all tracked files except UNCHECKED. Well-edited documentation of other projects hardly ever
matches. Rewrite a matching sentence from its meaning. A sentence without a match may still be bad English.
"""

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

MAX_MATCHING, MAX_LONG = 0.01, 0.02  # largest shares of a folder's sentences that may match a pattern or be too long
MAX_WORDS = 30
# folders whose prose has not been edited yet; remove a folder as soon as it passes
UNCHECKED = ("test",)

RULES = {
    "tell": r"\btold\b|\btells?\b(?! apart\b)",
    "opens with Of": r"^Of\s+(?!course)",
    "who or what as subject": r"^(?:Who|What)(?:ever)?\s+(?:\w+\s+){0,3}?(?:is|are|was|has|have|does|do|needs?|wants?"
    r"|takes?|gets?|comes?|goes|sets?|fails?|waits?|depends|cannot|may|must|can|only|falls?|lies|stays|counts)\b(?![^.?!]*\?)",
    "verb first": r"^(?:Told|Shipped|Trusted|Counted|Given|Left|Kept|Refused|Known|Seen|Included|Meant|Tried)\s+"
    r"(?:is|are|was|were)\b",
    "inverted": r"^(?:So (?:it )?is|So are|Nor (?:is|are|does|do)|There where|Likewise)\b",
    "of which": r"\b(?:of|by|from|among|with)\s+(?:which|whom)\b",
    "but for": r"\b(?:all\s+but|but\s+for|(?:is|are)\s+but)\b",
    "no leading digit": r"(?<![\w.\])}\"'`/*])\.\d",
    "beside": r"\bbesides?\b",
    "dialect": r"\b(?:anew|for good|all the same|in place of|of late|by itself|the very|mend(?:ed|ing|s)?|cure[ds]?)\b",
    "dialect verb": r"\b(?:will do|to be had|there where|goe?s? on|gone on with|comes? to rest|want of)\b",
    "of one's own": r"\bof (?:one's|its|their|your|our) own\b",
    "whole": r"\b(?:said|called|held) to be\b|\b(?:is|are|not|be|called|as a) whole\b(?!\s+(?:number|body))",
    "what is": r"\b(?:of|by|in|from|for|with|to|than|as|after|before|and|or) what "
    r"(?:is|are|was|were|it|they|there|comes|came|has|have|does|do|did|would|can)\b",
    "so many": r"\b(?:so many|so far apart|so sure|as many as|how many-th|as long as it takes)\b",
    "those of": r"\b(?:(?:that|those|ones) (?:of|that)|one that) (?:the|an?|all|each|which|its?|others?)\b",
    "as of": r",\s+as (?:of|has|had|does|do|is|are|was|were)\b",
    "somebody": r"\b(?:somebody|nobody|who(?:m)?ever|whichever)\b",
}
COMPILED = {name: re.compile(pattern) for name, pattern in RULES.items()}
MARKER = re.compile(r"\s*(?:[-*+>]|#+|\d+\.)\s+")  # the mark of a list item, a heading or a quotation
COLUMNS = re.compile(r"^\s*\||[^\s.] {2,}\S")  # a row of a table, or of names and their meanings
NOT_PROSE = re.compile(
    r"^(?P<fence> *(?:```|~~~)).*?^(?P=fence)|<!--.*?-->|\$\$.*?\$\$"  # code blocks, HTML comments, equations
    r"|^ *>>> .*?(?=\n *\n|\Z)"  # doctests
    r"|^[^\n]*\n *(?P<rule>[-=~^])(?P=rule){2,} *$",  # underlined headings, such as "Parameters"
    re.DOTALL | re.MULTILINE,
)
HASHED = {".srv", ".msg", ".action", ".yaml", ".yml", ".toml", ".cmake", ".sh"}  # files with comments that start with #
LOGGED = {"debug", "info", "warn", "warning", "error", "fatal"}
DESCRIBED = {"help", "description", "epilog"}


class Sentence(NamedTuple):
    """A sentence, the first line of its paragraph, and the rules that it breaks."""

    path: Path
    line: int
    text: str
    matches: list[str]
    is_long: bool


def paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each paragraph, list item and table cell.

    A change of indentation starts a new paragraph. Otherwise, a list of parameters would count as one long sentence.
    """
    rows: list[str] = []
    start = indentation = 0
    for number, row in enumerate([*text.splitlines(), ""]):
        marker = MARKER.match(row)
        left = len(row) - len(row.lstrip())
        cells = re.split(r"\|| {2,}", row.strip()) if COLUMNS.search(row) else []
        if rows and (not row.strip() or marker or cells or left != indentation):
            yield start, " ".join(rows)
            rows = []
        if cells:
            yield from ((number, cell) for cell in cells)
        elif row.strip():
            if not rows:
                start, indentation = number, marker.end() if marker else left
            rows.append(row[marker.end() if marker else 0 :].strip())


def sentences(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the words of each sentence of at least three words; code and equations become X."""
    prose = NOT_PROSE.sub(lambda match: "\n" * match.group().count("\n"), text)
    for line, paragraph in paragraphs(prose):
        plain = re.sub(r"``.*?``|`[^`]*`|\$[^$]*\$", "X", paragraph)
        plain = re.sub(r"\]\([^)]*\)", "]", plain)
        for part in re.split(r"(?<=[.!?:])\s+(?=[A-Z*(\[])", plain):
            if len(part.split()) >= 3:
                yield line, part.strip("*_ ")


def literal(node: ast.expr | None) -> str:
    """Return the text of a string or an f-string, with X for each value, or an empty text for other expressions."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
    return ""


def called_texts(node: ast.Call) -> Iterator[str]:
    """Yield the texts of a log message and of the descriptions of options and commands."""
    yield from (literal(keyword.value) for keyword in node.keywords if keyword.arg in DESCRIBED)
    if isinstance(node.func, ast.Attribute) and node.func.attr in LOGGED and node.args:
        yield literal(node.args[0])
    if isinstance(node.func, ast.Name) and node.func.id == "option" and len(node.args) > 1:
        yield literal(node.args[1])


def joined(comments: Iterable[tuple[int, bool, str]]) -> Iterator[tuple[int, str]]:
    """Join comments on successive lines. A comment is (line, alone on its line, text)."""
    rows: list[str] = []
    start = 0
    for line, alone, text in comments:
        if rows and not (alone and line == start + len(rows)):
            yield start, "\n".join(rows)
            rows = []
        if alone:
            start = start if rows else line
            rows.append(text)
        else:
            yield line, text
    if rows:
        yield start, "\n".join(rows)


def python_texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each docstring, comment and message of a Python file."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if text := ast.get_docstring(node):
                yield node.body[0].lineno, text
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            yield node.lineno, literal(node.exc.args[0])
        elif isinstance(node, ast.Call):
            yield from ((node.lineno, text) for text in called_texts(node))
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = [token for token in tokens if token.type == tokenize.COMMENT]
    yield from joined(
        (token.start[0], not token.line[: token.start[1]].strip(), token.string[1:].removeprefix(" "))
        for token in comments
        if not re.match(r"#\s*(?:type:|noqa|!|pragma)", token.string)
    )


def marked_texts(source: str, mark: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of comments that follow a mark. The mark is a pattern."""
    found = ((line, re.search(rf"{mark} ?(.*)", row), row) for line, row in enumerate(source.splitlines(), 1))
    yield from joined(
        (line, not row[: match.start()].strip(), match.group(1)) for line, match, row in found if match is not None
    )


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the first line and the text of each piece of prose in a file."""
    is_hashed = path.suffix in HASHED or path.name in {"Makefile", "CMakeLists.txt"}
    if not is_hashed and path.suffix not in {".md", ".rst", ".py", ".hpp", ".cpp", ".h"}:
        return
    source = path.read_text(encoding="utf-8")
    if path.suffix in {".md", ".rst"}:
        yield 1, source
    elif path.suffix == ".py":
        yield from python_texts(source)
    else:
        yield from marked_texts(source, "(?<!\\S)#(?!!)" if is_hashed else "(?<!:)//")


def check(path: Path) -> Iterator[Sentence]:
    """Yield all sentences of a file, with the rules that they break."""
    for line, text in texts(path):
        for offset, sentence in sentences(text):
            matches = [name for name, pattern in COMPILED.items() if pattern.search(sentence)]
            yield Sentence(path, line + offset, sentence, matches, len(sentence.split()) > MAX_WORDS)


def is_below(path: Path, place: str) -> bool:
    """Return whether a path is a place, or is below this place."""
    return path.as_posix() == place or path.as_posix().startswith(f"{place}/")


def group(path: Path) -> str:
    """Return the folder in which a file is counted: a package of eim_ros, another folder, or a file of the root."""
    return "/".join(path.parts[: 2 if path.parts[0] == "eim_ros" and len(path.parts) > 2 else 1])


def tracked(paths: list[Path]) -> list[Path]:
    """Return the tracked files below the given paths, or below the root without UNCHECKED."""
    command = ["git", "ls-files", "-z", "--", *map(str, paths)]
    files = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")
    known = [Path(file) for file in files if file and Path(file).is_file()]
    return [path for path in known if paths or not any(is_below(path, place) for place in UNCHECKED)]


def main(arguments: list[str] | None = None) -> int:
    """Print the shares of each folder, and the matches with --list or if a folder fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="print all matches, not only those of folders that fail")
    parser.add_argument("paths", nargs="*", type=Path)
    options = parser.parse_args(arguments)
    found: dict[str, list[Sentence]] = {}
    for path in tracked(options.paths):
        if checked := list(check(path)):
            found.setdefault(group(path), []).extend(checked)
    failed = False
    for place, all_of_it in sorted(found.items()):
        matching = sum(bool(sentence.matches) for sentence in all_of_it)
        n_long = sum(sentence.is_long for sentence in all_of_it)
        fails = matching > MAX_MATCHING * len(all_of_it) or n_long > MAX_LONG * len(all_of_it)
        failed |= fails
        if fails or options.list:
            for sentence in all_of_it:
                if broken := sentence.matches + ["long"] * sentence.is_long:
                    print(f"{sentence.path}:{sentence.line}: {', '.join(broken)}: {sentence.text}")
            print(f"{place}: {len(all_of_it)} sentences, {matching} match a rule, {n_long} have over {MAX_WORDS} words")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
