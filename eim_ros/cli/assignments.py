"""Settings given as words NAME=VALUE, with the names and values of the flags: for programs that call the command."""

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from eim_ros.errors import ConfigurationError
from eim_ros.settings import Settings, field_types

__all__ = ["assigned", "split_assignments"]


def split_assignments(words: Sequence[str], aliases: Mapping[str, str]) -> dict[str, str]:
    """Values as text, by the names of fields.

    Parameters
    ----------
    words : sequence of str
        Such as "experts=50", "kl-bound=0.1" or "hidden_layers=64 64".
    aliases : mapping
        Short flag, such as "--experts", for a field, by the field's name.
    """
    fields = {flag.removeprefix("--"): name for name, flag in aliases.items()}
    values: dict[str, str] = {}
    for word in words:
        given, equals, value = (part.strip() for part in word.partition("="))
        if not given or not equals or not value:
            raise ConfigurationError(f"a setting is written name=value, got {word!r}", word)
        name = fields.get(given.removeprefix("--"), given.removeprefix("--").replace("-", "_"))
        if name in values:
            raise ConfigurationError(f"setting {name} is given twice", word)
        values[name] = value
    return values


def assigned(values: Mapping[str, str], kind: type[Settings]) -> dict[str, Any]:
    """Values of the types that the fields have; unknown names are left for the settings to refuse."""
    types = field_types(kind)
    return {name: _converted(value, types.get(name, str)) for name, value in values.items()}


def _converted(text: str, annotation: Any) -> Any:
    if annotation is str:
        return text
    if typing.get_origin(annotation) is tuple and not text.startswith("["):
        return [_parsed(word) for word in text.replace(",", " ").split()]
    return _parsed(text)


def _parsed(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text
