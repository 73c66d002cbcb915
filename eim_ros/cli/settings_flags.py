"""Command-line flags derived from settings: one flag per field, with its description, unit and bounds.

Basic settings, and the expert ones that `--help` only names, are groups of their own.
"""

from __future__ import annotations

import argparse
import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from eim_ros.cli.parser import Parser
from eim_ros.settings import Settings, field_types

__all__ = ["add_settings_flags", "given_settings"]


def add_settings_flags(
    parser: argparse.ArgumentParser,
    classes: Sequence[type[Settings]],
    aliases: Mapping[str, str],
    basic: Sequence[str] = (),
) -> None:
    """Add a flag for each field of several alternative classes, with the default that each of them has.

    Parameters
    ----------
    parser : ArgumentParser
    classes : sequence of Settings types
        A flag of a field that a class lacks is refused when the settings are built.
    aliases : mapping
        Short flag, such as "--experts", for a field, by the field's name.
    basic : sequence of str
        Fields that most users want to know of: `--help` explains these first, and names the others. Empty: all.
    """
    of_which = f"of {', '.join(cls.__name__ for cls in classes)}"
    owners: dict[str, list[type[Settings]]] = {}
    for cls in classes:
        for field in dataclasses.fields(cls):
            owners.setdefault(field.name, []).append(cls)
    first = parser.add_argument_group("basic settings" if basic else "settings", of_which)
    others = parser.add_expert_group("expert settings", of_which) if basic and isinstance(parser, Parser) else first
    types_of = {cls: field_types(cls) for cls in classes}
    for name in sorted(owners, key=lambda name: basic.index(name) if name in basic else len(basic)):
        having = owners[name]
        fields = {field.name: field for field in dataclasses.fields(having[0])}
        flags = [aliases[name]] if name in aliases else []
        flags.append("--" + name.replace("_", "-"))
        options = _options(fields[name], types_of[having[0]][name], _defaults(name, having))
        group = first if name in basic else others
        group.add_argument(*flags, dest=f"setting_{name}", default=None, **options)


def given_settings(args: argparse.Namespace) -> dict[str, Any]:
    """Settings whose flags were given."""
    prefix = "setting_"
    return {
        name.removeprefix(prefix): value
        for name, value in vars(args).items()
        if name.startswith(prefix) and value is not None
    }


def _defaults(name: str, classes: Sequence[type[Settings]]) -> str:
    """Default values in words: one if all agree, else one per class."""
    values = {cls.__name__: {field.name: field.default for field in dataclasses.fields(cls)}[name] for cls in classes}
    if len(set(values.values())) == 1:
        only = "" if len(classes) > 1 else f" of {next(iter(values))}"
        return f"default{only} {next(iter(values.values()))}"
    return "default " + ", ".join(f"{value} of {cls}" for cls, value in values.items())


def _options(field: dataclasses.Field[Any], annotation: Any, defaults: str) -> dict[str, Any]:
    unit = f" [{field.metadata['unit']}]" if field.metadata["unit"] else ""
    options: dict[str, Any] = {"help": f"{field.metadata['description']}{unit} ({defaults})"}
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):  # of a type and None, which no flag means
        annotation = next(kind for kind in typing.get_args(annotation) if kind is not type(None))
    if annotation is bool:
        return {**options, "action": argparse.BooleanOptionalAction}
    if typing.get_origin(annotation) is tuple:
        return {**options, "nargs": "+", "type": typing.get_args(annotation)[0], "metavar": "VALUE"}
    if field.metadata["choices"]:
        return {**options, "choices": field.metadata["choices"]}
    return {**options, "type": annotation, "metavar": "VALUE"}
