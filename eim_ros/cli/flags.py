"""Flags of a verb. argparse reads them. A verb is a dataclass, and `flag` returns its fields.

A field that contains a dataclass is a group of flags. Errors of the user raise `ConfigurationError` with a message of
one line. This module imports neither numpy nor torch. Thus, errors in flags are reported before slow imports.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import itertools
import math
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, NoReturn

from eim_ros.cli import hints
from eim_ros.core.errors import ConfigurationError, did_you_mean
from eim_ros.core.settings import Settings, described, is_within

LARGEST_COUNT = 2**32 - 1  # largest count in the messages of the services
LARGEST_SEED = 2**63 - 1
HELP = ("-h", "--help", "--help-all")
_BETWEEN_NUMBERS = re.compile(r"[\s,;\[\]()]+")


def flag(
    default: Any = dataclasses.MISSING,
    text: str = "",
    *,
    metavar: str = "",
    short: str = "",
    read: Callable[[str], Any] | None = None,
    repeated: bool = False,
    positional: bool = False,
    is_expert: bool = False,
) -> Any:
    """Return a dataclass field for a flag. The annotation of the field determines the number and types of the words.

    Parameters
    ----------
    default : object
        Default value. A flag without a default is required.
    text : str
        Explanation in `--help`. The default is added, unless the text contains the word "default".
    metavar : str
        Placeholder of the words.
    short : str
        Another name of the flag, such as "-n".
    read : callable
        Function that converts a word to its value, or raises `ValueError` with a message.
    repeated : bool
        Whether the flag may occur several times. Its value is then a tuple.
    positional : bool
        Whether the words follow without the name of the flag.
    is_expert : bool
        Whether only `--help-all` shows the flag.
    """
    known = {"text": text, "metavar": metavar, "short": short, "read": read}
    kinds = {"repeated": repeated, "positional": positional, "is_expert": is_expert}
    return dataclasses.field(default=default, metadata={**known, **kinds})


def whole(least: int, most: int = LARGEST_COUNT) -> Callable[[str], int]:
    """Return the function that reads a whole number between two bounds."""

    def read(word: str) -> int:
        value = int(_number(int, word))
        if not least <= value <= most:
            raise ValueError(f"must be between {least} and {most}, got {value}")
        return value

    return read


def positive(word: str) -> float:
    """Read a positive number."""
    value = float(_number(float, word))
    if not (math.isfinite(value) and value > 0.0):
        raise ValueError(f"must be positive, got {word.strip()}")
    return value


def switch(text: str, **options: Any) -> Any:
    """Return a flag without a value, such as --json."""
    return flag(False, text, **options)


def count(default: int | None, text: str, **options: Any) -> Any:
    """Return a flag for a number of things, at least 1."""
    return flag(default, text, **{"read": whole(1), **options})


def json_flag() -> Any:
    """Return the flag --json."""
    return switch("Print one JSON object.")


def quiet_flag(**options: Any) -> Any:
    """Return the flag --quiet."""
    return switch("Show no progress.", **options)


def seed_flag(default: int | None = 0, **options: Any) -> Any:
    """Return the flag --seed. With the default None, each run has a new seed."""
    text = "Random seed." if default is not None else "Random seed (default: a new seed for each run)."
    return flag(default, text, read=whole(0, LARGEST_SEED), **options)


def device_flag(**options: Any) -> Any:
    """Return the field --device."""
    text = "Device that solves the poses: cuda, cuda:1 and so on, or cpu for the same kernels in one thread."
    return flag(None, text, metavar="DEVICE", **options)


def threads_flag(**options: Any) -> Any:
    """Return the flag --threads."""
    return count(None, "Number of threads of torch (default: OMP_NUM_THREADS, or 1).", **options)


def report(as_json: bool, figures: Any, lines: Iterable[str]) -> int:
    """Print figures as one JSON object or as lines of text, and return the exit code 0."""
    from eim_ros.core.files import to_json

    print(to_json(figures) if as_json else "\n".join(lines))
    return 0


def parse(kind: Any, program: str, words: Sequence[str], *, is_partial: bool = False) -> Any:
    """Return the verb with the flags in `words`, or print its help and exit if `words` contain a flag for help.

    The flags of the first words, such as the robot, may be omitted. A setting may be given as a flag. With
    `is_partial`, unknown words are ignored, and missing flags are None.
    """
    known = [*flags_of(kind), *(names[0] for _, names, _ in _flags(kind) if len(names) > 1)]
    words = _translated(kind, _with_first_flags(kind, _separated(kind, words)), known)
    parser = parser_of(kind, program, "--help-all" in words, is_partial)
    if not is_partial and set(HELP) & set(words):
        print(parser.format_help().rstrip())
        raise SystemExit(0)
    if not is_partial:
        for word in itertools.takewhile(lambda word: word != "--", words):
            name = word.partition("=")[0]
            if _is_flag(word) and name not in known:
                parser.error(f"there is no flag {name}{_hint_for(name, kind, words, known)}")
    # argparse reads -1e-3 as a flag, but not a word that begins with a space.
    escaped = [f" {word}" if word.startswith("-") and _is_number(word) else word for word in words]
    found, rest = parser.parse_known_args(escaped)
    if rest and not is_partial:
        meant = did_you_mean(rest[0], known) or "; give each value after its flag, as in --robot panda"
        parser.error(f"unexpected argument {' '.join(rest)}{meant}")
    return _built(kind, vars(found))


def _separated(kind: Any, words: Sequence[str]) -> list[str]:
    """Split lists such as "[0.4, 0.1, 0.5]" after flags with several numbers into one word per number."""
    lists = set[str]()
    for owner, names, field in _flags(kind):
        if field.name == "near" or _takes_numbers(_hint(owner, field)):  # --near also accepts joint names
            lists.update(names)
    found, is_list = list[str](), True  # the numbers of a pose may be the first words
    for word in words:
        name, equals, value = word.partition("=")
        if equals and name in lists:
            found.append(name)
            word, is_list = value, True
        parts = [part for part in _BETWEEN_NUMBERS.split(word) if part]
        is_split = is_list and parts not in ([], [word]) and all(map(_is_number, parts))
        found += parts if is_split else [word]
        is_list = word in lists if _is_flag(word) and not is_split else is_list
    return found


def _takes_numbers(hint: Any) -> bool:
    """Return whether a flag has several numbers."""
    plain = _plain(hint)
    inner = typing.get_args(plain)[0] if typing.get_origin(plain) is tuple else None
    return inner in (float, int) or (typing.get_origin(inner) is tuple and _takes_numbers(inner))


def _with_first_flags(kind: Any, words: Sequence[str]) -> list[str]:
    """Insert omitted flags before the first words, as in `eim solve panda 0.4 0.1 0.5 --json`."""
    n = next((i for i, word in enumerate(words) if _is_flag(word)), len(words))
    first, rest, given = list(words[:n]), list(words[n:]), list[str]()
    for name in getattr(kind, "first_words", ("robot",) if _takes_robot(kind) else ()):
        taken = list(itertools.takewhile(_is_number, first)) if name == "pose" else first[:1]
        if not taken or f"--{name}" in rest:
            break
        given += [f"--{name}", *taken]
        first = first[len(taken) :]
    return [*given, *first, *rest]


def _translated(kind: Any, words: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return the words with standard spellings of flags (--n-samples for --n_samples), and settings as values
    of --set.
    """
    found, rest = list[str](), list(words)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if word == "--":
            return [*found, word, *rest]
        if not name.startswith("--") or name in known or name in HELP:
            found.append(word)
            continue
        dashed = f"--{name[2:].replace('_', '-')}"
        same = dashed if dashed in known else hints.SAME.get(dashed)
        setting = name[2:].replace("-", "_")
        if same in known:
            found.append(f"{same}{equals}{value}")
        elif not hints.is_misspelt(name, known) and setting in _settings(kind, words):
            values = [value] if equals else list(itertools.takewhile(lambda each: not _is_flag(each), rest))
            rest = rest if equals else rest[len(values) :]
            if values and all(each.partition("=")[0].isidentifier() and "=" in each for each in values):
                found += [part for each in values for part in ("--set", f"{setting}.{each}")]
            else:
                found += ["--set", f"{setting}={' '.join(values) or 'true'}"]
        else:
            found.append(word)
    return found


def _settings(kind: Any, words: Sequence[str]) -> Sequence[str]:
    """Return the names of the settings of a verb, which may also be given as flags."""
    return kind.setting_names(words) if hasattr(kind, "setting_names") else ()


def _hint_for(name: str, kind: Any, words: Sequence[str], known: Sequence[str]) -> str:
    """Return the hint for an unknown flag. Typing errors do not load the settings, which may need torch."""
    settings = () if hints.is_misspelt(name, known) else _settings(kind, words)
    shown = [names[-1] for _, names, field in _flags(kind) if not field.metadata["is_expert"] and names[0][0] == "-"]
    return hints.hint_for_flag(name, known, settings, shown)


def _is_flag(word: str) -> bool:
    return word.startswith("-") and not _is_number(word)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        reason = re.sub(r"(-\w)/--", "--", " ".join(message.removeprefix("argument ").split()))
        raise ConfigurationError(f"{reason} (see {self.prog} --help)")


def parser_of(kind: Any, program: str, shows_all: bool = False, is_partial: bool = False) -> argparse.ArgumentParser:
    """Return the parser of a verb. Its help contains flags for experts only if `shows_all` is true."""
    described_by = (kind.__doc__ or "").strip()
    places = [field.metadata["metavar"] or name for _, (name, *_), field in _flags(kind) if name[0] != "-"]
    parser = _Parser(
        program,
        usage=" ".join(["%(prog)s [FLAGS]", *places]),
        description="\n".join(line.strip() for line in described_by.splitlines()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
        allow_abbrev=False,
    )
    groups: dict[Any, Any] = {kind: parser.add_argument_group("flags")}
    n_hidden = 0
    for owner, names, field in sorted(_flags(kind), key=lambda each: each[2].default is not dataclasses.MISSING):
        if owner not in groups:
            groups[owner] = parser.add_argument_group((owner.__doc__ or "").partition(".")[0].lower())
        is_hidden = field.metadata["is_expert"] and not shows_all
        n_hidden += is_hidden
        options = _options(field, _hint(owner, field), is_partial)
        groups[owner].add_argument(*names, **{**options, **({"help": argparse.SUPPRESS} if is_hidden else {})})
    if n_hidden:
        parser.epilog = f"--help-all explains {n_hidden} more flag{'s' if n_hidden > 1 else ''}."
    return parser


def flags_of(kind: Any) -> list[str]:
    """Return the long flags of a verb."""
    found: list[str] = []
    for owner, names, field in _flags(kind):
        hint = _hint(owner, field)
        long = [name for name in names if name.startswith("--")]
        found += long
        if _is_choice(field, hint):
            found += [name.replace("--", "--no-", 1) for name in long]
    return found


def choices_of(kind: Any) -> dict[str, tuple[str, ...]]:
    """Return the choices of each flag of a verb with a fixed set of values."""
    found = {}
    for owner, names, field in _flags(kind):
        hint = _plain(_hint(owner, field))
        if typing.get_origin(hint) is Literal:
            found[names[-1]] = tuple(map(str, typing.get_args(hint)))
    return found


def listed_settings(*settings: Settings) -> str:
    """Return one line per setting: its name, default, meaning, unit and choices."""
    lines = []
    for name, setting in ((name, each) for one in settings for name, each in _used(one)):
        data = setting.field.metadata
        unit = f" [{data['unit']}]" if data.get("unit") else ""
        choices = f"; one of {', '.join(data['choices'])}" if data.get("choices") else ""
        value = " ".join(map(str, setting.default)) if isinstance(setting.default, tuple) else setting.default
        lines.append(f"  {f'{name}={value}':<40} {data.get('description') or ''}{unit}{choices}")
    return "\n".join(lines)


def _used(settings: Settings) -> Iterator[tuple[str, Any]]:
    for name, setting in described(settings).items():
        if not is_within(name, settings.unused):
            yield name, setting


def _flags(kind: Any) -> Iterator[tuple[Any, list[str], dataclasses.Field[Any]]]:
    """Yield the flags of a verb and its groups: the class, the names and the field."""
    for field in dataclasses.fields(kind):
        hint = _hint(kind, field)
        if dataclasses.is_dataclass(hint):
            yield from _flags(hint)
        elif field.metadata.get("positional"):
            yield kind, [field.name], field
        elif "text" in field.metadata:
            short = [field.metadata["short"]] if field.metadata["short"] else []
            yield kind, [*short, f"--{field.name.replace('_', '-')}"], field


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _hint(kind: Any, field: dataclasses.Field[Any]) -> Any:
    return _hints(kind)[field.name]


def _plain(hint: Any) -> Any:
    """Return a type without None."""
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return next(inner for inner in typing.get_args(hint) if inner is not type(None))
    return hint


def _is_choice(field: dataclasses.Field[Any], hint: Any) -> bool:
    """Return whether a flag also has a negated form that begins with --no-."""
    return _plain(hint) is bool and field.default is not False


def _takes_robot(kind: Any) -> bool:
    """Return whether a verb has the flag --robot and no positional words."""
    fields = [field for _, _, field in _flags(kind)]
    return any(field.name == "robot" for field in fields) and not any(each.metadata["positional"] for each in fields)


def _options(field: dataclasses.Field[Any], hint: Any, is_partial: bool) -> dict[str, Any]:
    """Return the arguments of `add_argument` for a field."""
    data, plain, required = field.metadata, _plain(hint), field.default is dataclasses.MISSING and not is_partial
    text = data["text"].replace("%", "%%")
    is_told = isinstance(field.default, int | float | str) and not isinstance(field.default, bool)
    if is_told and field.default != "" and "default" not in text:
        text += f" (default: {field.default})"
    options: dict[str, Any] = {"help": text, "default": None if field.default is dataclasses.MISSING else field.default}
    if not data["positional"]:
        options["dest"], options["required"] = field.name, required
    if plain is bool:
        return {**options, "action": argparse.BooleanOptionalAction if _is_choice(field, hint) else "store_true"}
    if data["repeated"]:
        options["action"], plain = "append", typing.get_args(plain)[0]
        options["default"] = None  # argparse appends to the default
    inner = plain
    if typing.get_origin(plain) is tuple:
        inner, *others = typing.get_args(plain)
        is_any_length = others == [Ellipsis]
        options["nargs"] = ("*" if data["positional"] and not required else "+") if is_any_length else 1 + len(others)
    elif data["positional"] and not required:
        options["nargs"] = "?"
    options["type"] = _reader(inner, data["read"])
    if typing.get_origin(inner) is Literal:
        name = f"{{{','.join(map(str, typing.get_args(inner)))}}}"
    else:
        name = data["metavar"] or {int: "N", float: "NUMBER", str: "TEXT"}[inner]
    options["metavar"] = name if data["positional"] else _placeholders(name, options.get("nargs"))
    return options


def _placeholders(name: str, nargs: Any) -> str | tuple[str, ...]:
    """Return the placeholders of a flag for argparse: one per word, or one for the first word and one for all
    others.
    """
    if nargs == "+":
        first, _, rest = name.rstrip("]").partition(" [")
        return first, rest or first
    if not isinstance(nargs, int):
        return name
    words = tuple(name.split())
    return words if len(words) == nargs else words * nargs


def _reader(kind: Any, read: Callable[[str], Any] | None) -> Callable[[str], Any]:
    """Return a function that converts a word, or raises an `ArgumentTypeError` with a message for the user."""
    choices = typing.get_args(kind) if typing.get_origin(kind) is Literal else ()

    def converted(word: str) -> Any:
        try:
            if read is not None:
                return read(word)
            if choices:
                if word not in choices:
                    listed = f"invalid choice: {word!r} (choose from {', '.join(choices)})"
                    told = f"; {hints.CHOICES[word]}" if word in hints.CHOICES else did_you_mean(word, choices)
                    raise ValueError(f"{listed}{told}")
                return word
            return _number(kind, word) if kind in (int, float) else word.lstrip()
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return converted


def _number(kind: Any, word: str) -> Any:
    try:
        return kind(word)
    except ValueError:
        expected = "a whole number" if kind is int else "a number"
        listed = "; separate several numbers by spaces" if set(word) & set(",;[]()") else ""
        raise ValueError(f"expected {expected}, got {word.strip()!r}{listed}") from None


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _built(kind: Any, values: dict[str, Any]) -> Any:
    """Return the dataclass with the values from argparse. Tuples replace lists."""
    arguments = {}
    for field in dataclasses.fields(kind):
        hint = _hint(kind, field)
        if dataclasses.is_dataclass(hint):
            arguments[field.name] = _built(hint, values)
        elif field.name in values:
            value = values[field.name]
            if value is None and field.metadata["repeated"]:
                value = ()
            if isinstance(value, list):
                value = tuple(tuple(each) if isinstance(each, list) else each for each in value)
            arguments[field.name] = value
    return kind(**arguments)
