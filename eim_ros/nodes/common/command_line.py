"""The command line of a node for people: `ik_server --help`, and `ik_server --model panda_pose` for a parameter.

ROS takes parameters as `--ros-args -p NAME:=VALUE`. A flag of a parameter's name is turned into that; what follows
`--ros-args` is left as it is.
"""

from __future__ import annotations

import dataclasses
import json
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import yaml

from eim_ros.errors import ConfigurationError, did_you_mean
from eim_ros.settings import Settings

__all__ = ["help_text", "ros_arguments", "wants_help"]

ROS_ARGUMENTS = "--ros-args"
WIDTH = 100


def wants_help(words: Sequence[str]) -> bool:
    """Whether the words of a node ask for its help."""
    return any(word in ("-h", "--help") for word in _before_ros(words))


def ros_arguments(words: Sequence[str], kind: Callable[[], type[Settings]]) -> list[str]:
    """The same words with flags of parameters as ROS takes them.

    Parameters
    ----------
    words : sequence of str
        What follows the name of the program.
    kind : callable
        Gives the settings of which the fields are the parameters; only called where there is a flag.

    Raises
    ------
    ConfigurationError
        For a flag that is no parameter, with those that are like it, or that lacks its value.
    """
    given = _before_ros(words)
    if not any(word.startswith("--") for word in given):
        return list(words)
    fields = {field.name: field for field in dataclasses.fields(kind())}
    own: list[str] = []
    parameters: list[str] = []
    rest = iter(given)
    for word in rest:
        if not word.startswith("--"):
            own.append(word)
            continue
        flag, equals, text = word.partition("=")
        name = flag.removeprefix("--").replace("-", "_")
        if name not in fields:
            flags = [f"--{field}" for field in fields]
            raise ConfigurationError(f"there is no parameter {flag}{did_you_mean(flag, flags)} (see --help)", flag)
        parameters += ["-p", f"{name}:={_value(fields[name], flag, text if equals else None, rest)}"]
    added = [ROS_ARGUMENTS, *parameters] if parameters else []
    return [*own, *added, *words[len(given) :]]


def help_text(name: str, kind: type[Settings]) -> str:
    """Usage and all parameters, with their meanings, units and defaults."""
    lines = [
        f"usage: {name} [--PARAMETER VALUE ...] [--ros-args ...]",
        "",
        f"The node {name}. Each parameter may be given as a flag, as `--ros-args -p NAME:=VALUE`, or in a file, as",
        f"`--ros-args --params-file config/{name}.yaml`. `ros2 param describe /{name} NAME` tells the same of one.",
        "",
        "parameters:",
    ]
    for field in dataclasses.fields(kind):
        unit = f" [{field.metadata['unit']}]" if field.metadata["unit"] else ""
        choices = f" One of {', '.join(field.metadata['choices'])}." if field.metadata["choices"] else ""
        shown = list(field.default) if isinstance(field.default, tuple) else field.default
        meaning = f"{field.metadata['description']}{unit}{choices} Default {json.dumps(shown)}."
        indent = "      "
        lines.append(f"  --{field.name}")
        lines.append(textwrap.fill(meaning, WIDTH, initial_indent=indent, subsequent_indent=indent))
    return "\n".join(lines)


def _before_ros(words: Sequence[str]) -> Sequence[str]:
    return words[: words.index(ROS_ARGUMENTS)] if ROS_ARGUMENTS in words else words


def _value(field: dataclasses.Field[Any], flag: str, text: str | None, rest: Iterator[str]) -> str:
    """The value of a flag as YAML of the parameter's type; a flag of a truth value may do without."""
    if text is None:
        text = "true" if isinstance(field.default, bool) else next(rest, None)
    if text is None:
        raise ConfigurationError(f"{flag} needs a value (see --help)", flag)
    if isinstance(field.default, str):
        return json.dumps(text)
    if isinstance(field.default, tuple):
        words = yaml.safe_load(text) if text.startswith("[") else text.replace(",", " ").split()
        return json.dumps(words)
    try:
        return json.dumps(float(text)) if isinstance(field.default, float) else text
    except ValueError as error:
        raise ConfigurationError(f"{flag} must be a number, got {text!r}", text) from error
