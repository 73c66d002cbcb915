"""Settings given as words NAME=VALUE or as lines of a YAML file, with the names and values of the flags."""

from __future__ import annotations

import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import yaml

from eim_ros.errors import ConfigurationError
from eim_ros.settings import Settings, field_types

__all__ = ["assigned", "named", "split_assignments"]

ValueT = TypeVar("ValueT")


def split_assignments(words: Sequence[str], aliases: Mapping[str, str]) -> dict[str, str]:
    """Values as text, by the names of fields.

    Parameters
    ----------
    words : sequence of str
        Such as "experts=50", "kl-bound=0.1" or "hidden_layers=64 64".
    aliases : mapping
        Short flag, such as "--experts", for a field, by the field's name.
    """
    pairs = []
    for word in words:
        given, equals, value = (part.strip() for part in word.partition("="))
        if not given or not equals or not value:
            raise ConfigurationError(f"a setting is written name=value, got {word!r}", word)
        pairs.append((given, value))
    return named(pairs, aliases)


def named(pairs: Iterable[tuple[str, ValueT]], aliases: Mapping[str, str]) -> dict[str, ValueT]:
    """Values by the names of fields, for which "experts", "--experts", "n-components" and "n_components" will do."""
    fields = {flag.removeprefix("--"): name for name, flag in aliases.items()}
    values: dict[str, ValueT] = {}
    for given, value in pairs:
        word = given.removeprefix("--")
        name = fields.get(word, word.replace("-", "_"))
        if name in values:
            raise ConfigurationError(f"setting {name} is given twice", given)
        values[name] = value
    return values


def assigned(values: Mapping[str, Any], kind: type[Settings]) -> dict[str, Any]:
    """Texts turned into the types that the fields have; unknown names are left for the settings to refuse."""
    types = field_types(kind)
    return {name: _converted(value, types.get(name, str)) for name, value in values.items()}


def _converted(value: Any, annotation: Any) -> Any:
    is_list = typing.get_origin(annotation) is tuple
    if not isinstance(value, str):
        return [value] if is_list and isinstance(value, int | float) else value
    if annotation is str:
        return value
    if is_list and not value.startswith("["):
        return [_parsed(word) for word in value.replace(",", " ").split()]
    return _parsed(value)


def _parsed(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text
