"""Command-line flags derived from settings: one flag per field, with its description, unit and bounds."""

from __future__ import annotations

import argparse
import dataclasses
import typing
from collections.abc import Iterable, Mapping
from typing import Any

from eim_ros.errors import ConfigurationError
from eim_ros.settings import Settings, field_types

__all__ = ["add_settings_flags", "given_settings", "split_settings"]


def add_settings_flags(
    parser: argparse.ArgumentParser, classes: Iterable[type[Settings]], aliases: Mapping[str, str]
) -> None:
    """Add a flag for each field; a field shared by several classes gets one.

    Parameters
    ----------
    parser : ArgumentParser
    classes : iterable of Settings types
    aliases : mapping
        Short flag, such as "--experts", for a field, by the field's name.
    """
    seen: set[str] = set()
    for cls in classes:
        group = parser.add_argument_group(f"settings of {cls.__name__}")
        types = field_types(cls)
        for field in dataclasses.fields(cls):
            if field.name in seen:
                continue
            seen.add(field.name)
            flags = [alias for name, alias in aliases.items() if name == field.name]
            flags.append("--" + field.name.replace("_", "-"))
            group.add_argument(*flags, dest=f"setting_{field.name}", default=None, **_options(field, types[field.name]))


def given_settings(args: argparse.Namespace) -> dict[str, Any]:
    """Settings whose flags were given."""
    prefix = "setting_"
    return {
        name.removeprefix(prefix): value
        for name, value in vars(args).items()
        if name.startswith(prefix) and value is not None
    }


def split_settings(values: Mapping[str, Any], *classes: type[Settings]) -> list[dict[str, Any]]:
    """Share out values among classes by their fields; a name that none of them has is an error."""
    fields = [{field.name for field in dataclasses.fields(cls)} for cls in classes]
    known = set().union(*fields)
    unknown = sorted(set(values) - known)
    if unknown:
        raise ConfigurationError(
            f"unknown setting {', '.join(unknown)} for this algorithm; known: {', '.join(sorted(known))}", unknown
        )
    return [{name: value for name, value in values.items() if name in names} for names in fields]


def _options(field: dataclasses.Field[Any], annotation: Any) -> dict[str, Any]:
    unit = f" [{field.metadata['unit']}]" if field.metadata["unit"] else ""
    options: dict[str, Any] = {"help": f"{field.metadata['description']}{unit} (default {field.default})"}
    if annotation is bool:
        return {**options, "action": argparse.BooleanOptionalAction}
    if typing.get_origin(annotation) is tuple:
        return {**options, "nargs": "+", "type": typing.get_args(annotation)[0], "metavar": "VALUE"}
    if field.metadata["choices"]:
        return {**options, "choices": field.metadata["choices"]}
    return {**options, "type": annotation, "metavar": "VALUE"}
