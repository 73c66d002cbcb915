"""Settings as data: one frozen dataclass for each algorithm or node.

Command-line flags, YAML files and ROS parameters are derived from the fields. A default, a bound or a description is
therefore written only once. Unknown keys, wrong types and values out of bounds raise `ConfigurationError`.

A field may contain a group of settings. Settings in a group are given by dotted names, such as "ratio.patience", or by
nested mappings.

Settings can also be given as words NAME=VALUE or as lines of a YAML file, with the same names.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

import yaml

from eim_ros.core.errors import ConfigurationError, did_you_mean

SettingsT = TypeVar("SettingsT", bound="Settings")


@functools.cache
def _hints(kind: type) -> Mapping[str, Any]:
    """Return the annotations of a class by name. They are cached, because resolving them takes 0.2 ms."""
    return types.MappingProxyType(typing.get_type_hints(kind))


def option(
    default: Any,
    description: str,
    *,
    unit: str = "",
    minimum: float | None = None,
    maximum: float | None = None,
    choices: tuple[str, ...] = (),
    read_only: bool = True,
) -> Any:
    """Return a field of a `Settings` dataclass.

    Parameters
    ----------
    default : object
        Default value. Its type is the annotation of the field: bool, int, float, str, `X | None`, or a tuple of one of
        these types.
    description : str
        One line, which `--help` and `ros2 param describe` show.
    unit : str
        SI unit; empty for a dimensionless number.
    minimum, maximum : float, optional
        Inclusive bounds.
    choices : tuple of str
        Allowed values of a string; empty if any string is allowed.
    read_only : bool
        Whether a running node rejects changes of the value.
    """
    metadata = {
        "description": description,
        "unit": unit,
        "minimum": minimum,
        "maximum": maximum,
        "choices": choices,
        "read_only": read_only,
    }
    return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass(frozen=True)
class Settings:
    """Base class of all settings, which are validated once on construction.

    `unused` lists the fields and groups that have no effect, because a learner with these settings never reads them.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from eim_ros.core.settings import Settings, option
    >>> @dataclass(frozen=True)
    ... class SearchSettings(Settings):
    ...     n_seeds: int = option(100, "number of random seeds", minimum=1)
    >>> SearchSettings.from_mapping({"n_seeds": 20}).n_seeds
    20
    >>> SearchSettings(n_seeds=0)
    Traceback (most recent call last):
    eim_ros.core.errors.ConfigurationError: n_seeds must be at least 1, got 0
    """

    unused: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        kind: Any = type(self)  # mypy does not see that classes are hashable
        hints = _hints(kind)
        for field in dataclasses.fields(self):
            value = _checked(field, hints[field.name], getattr(self, field.name))
            object.__setattr__(self, field.name, value)

    @classmethod
    def from_mapping(cls: type[SettingsT], values: Mapping[str, Any]) -> SettingsT:
        """Build settings from a mapping of nested or dotted names to values. Other settings keep their defaults.

        Raise `ConfigurationError` for unknown names, for wrong values, and for a setting that is given twice. The
        message suggests the most similar known name.
        """
        return cls().replace(**values)

    def replace(self: SettingsT, *pair: Any, **changes: Any) -> SettingsT:
        """Return a copy with other values: `replace("ratio.patience", 5)` or `replace(**{"ratio.patience": 5})`."""
        return self._with(flattened(type(self), {**(dict([pair]) if pair else {}), **changes}))

    def _with(self: SettingsT, values: Mapping[str, Any]) -> SettingsT:
        """Return a copy with other values, which are given by known dotted names."""
        own: dict[str, Any] = {}
        inner: dict[str, dict[str, Any]] = {}
        for name, value in values.items():
            group, _, rest = name.partition(".")
            if rest:
                inner.setdefault(group, {})[rest] = value
            else:
                own[name] = value
        for group, changes in inner.items():
            try:
                own[group] = getattr(self, group)._with(changes)
            except ConfigurationError as error:
                raise ConfigurationError(f"{group}.{error}", error.value) from None
        return dataclasses.replace(self, **own)

    def to_mapping(self) -> dict[str, Any]:
        """Return names and values for JSON or YAML. Groups become mappings, and tuples become lists."""
        return {field.name: _plain(getattr(self, field.name)) for field in dataclasses.fields(self)}


def _plain(value: Any) -> Any:
    if isinstance(value, Settings):
        return value.to_mapping()
    return list(value) if isinstance(value, tuple) else value


def flattened(kind: type[Settings], values: Mapping[str, Any]) -> dict[str, Any]:
    """Map dotted names, such as "ratio.patience", to the values of a nested mapping.

    Raise `ConfigurationError` if a name is unknown, a setting is given twice, or a group has a value. The message
    suggests the most similar name.
    """
    flat: dict[str, Any] = {}
    known = field_types(kind)
    groups = {name.rpartition(".")[0] for name in known if "." in name}
    groups |= {group.rpartition(".")[0] for group in groups if "." in group}

    def add(prefix: str, given: Mapping[str, Any]) -> None:
        for key, value in given.items():
            name = f"{prefix}{key}"
            if name in groups:
                inner = value.to_mapping() if isinstance(value, Settings) else value
                if not isinstance(inner, Mapping):
                    example = next(setting for setting in known if setting.startswith(f"{name}."))
                    raise ConfigurationError(f"{name} is a group of settings, such as {example}, got {value!r}", value)
                add(f"{name}.", inner)
            elif name in flat:
                raise ConfigurationError(f"setting {name} is given twice: give it once", value)
            else:
                flat[name] = value

    add("", values)
    unknown = sorted(set(flat) - set(known))
    if unknown:
        raise ConfigurationError(unknown_settings(unknown, kind.__name__, known), unknown)
    return flat


def unknown_settings(unknown: Sequence[str], kind: str, known: Iterable[str]) -> str:
    """Return the error message for unknown names. It lists the known names of their group and similar names."""
    names = list(known)
    group = unknown[0].rpartition(".")[0]
    prefix = f"{group}." if any(name.startswith(f"{group}.") for name in names) else ""
    within = [name.removeprefix(prefix).partition(".") for name in names if name.startswith(prefix)]
    listed = dict.fromkeys(f"{prefix}{name}{'.*' if dot else ''}" for name, dot, _ in within)
    near = did_you_mean(unknown, names)
    return f"unknown setting {', '.join(unknown)} of {kind}; the settings are {', '.join(listed)}{near}"


class Setting(NamedTuple):
    """A setting that is not a group: its field, the resolved annotation, and the default."""

    field: dataclasses.Field[Any]
    annotation: Any
    default: Any


def described(settings: Settings) -> dict[str, Setting]:
    """Return the settings by dotted name, with the current values as defaults."""
    kind: Any = type(settings)
    hints = _hints(kind)
    found: dict[str, Setting] = {}
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if isinstance(value, Settings):
            found |= {f"{field.name}.{name}": setting for name, setting in described(value).items()}
        else:
            found[field.name] = Setting(field, hints[field.name], value)
    return found


def field_types(kind: type[Settings]) -> Mapping[str, Any]:
    """Return the resolved annotation of each setting by its dotted name."""
    return _field_types(typing.cast(Any, kind))


@functools.cache
def _field_types(kind: Any) -> Mapping[str, Any]:
    return types.MappingProxyType({name: setting.annotation for name, setting in described(kind()).items()})


def is_within(name: str, names: Iterable[str]) -> bool:
    """Return whether a dotted name, or a group that it belongs to, is one of `names`."""
    parts = name.split(".")
    return not {".".join(parts[: n + 1]) for n in range(len(parts))}.isdisjoint(names)


def read_yaml(path: str | Path) -> dict[str, Any]:
    """Read the mapping in a YAML file. The mapping of an empty file is empty."""
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"cannot read settings file {path}: {error.strerror}", str(path)) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        cause = " ".join(str(error).split())
        raise ConfigurationError(f"settings file {path} is not YAML: {cause}", str(path)) from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigurationError(f"settings file {path} must consist of lines of the form 'name: value'", content)
    return {str(name): value for name, value in content.items()}


def _checked(field: dataclasses.Field[Any], annotation: Any, value: Any) -> Any:
    """Return the value, converted to the field's type and checked against its bounds."""
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        if not isinstance(value, annotation):
            raise ConfigurationError(f"{field.name} must be of type {annotation.__name__}, got {value!r}", value)
        return value
    origin = typing.get_origin(annotation)
    if origin in (types.UnionType, typing.Union):
        inner = [argument for argument in typing.get_args(annotation) if argument is not type(None)]
        return None if value is None else _checked(field, inner[0], value)
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise ConfigurationError(f"{field.name} must be a list, got {value!r}", value)
        return tuple(_checked(field, typing.get_args(annotation)[0], item) for item in value)
    return _within_bounds(field, _converted(field.name, annotation, value))


def _converted(name: str, kind: type, value: Any) -> Any:
    if kind is int and not isinstance(value, bool) and isinstance(value, Integral):  # also accepts NumPy integers
        value = int(value)
    if kind is float and not isinstance(value, bool) and isinstance(value, Real):
        value = float(value)
    if kind is float and isinstance(value, str):  # YAML 1.1 reads '1e-3' as text
        with contextlib.suppress(ValueError):
            value = float(value)
    wrong_bool = isinstance(value, bool) and kind is not bool
    if wrong_bool or not isinstance(value, kind):
        raise ConfigurationError(f"{name} must be of type {kind.__name__}, got {value!r}", value)
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigurationError(f"{name} must be finite, got {value!r}", value)
    return value


def _within_bounds(field: dataclasses.Field[Any], value: Any) -> Any:
    minimum, maximum = field.metadata.get("minimum"), field.metadata.get("maximum")
    choices = field.metadata.get("choices") or ()
    if minimum is not None and value < minimum:
        raise ConfigurationError(f"{field.name} must be at least {minimum}, got {value}", value)
    if maximum is not None and value > maximum:
        raise ConfigurationError(f"{field.name} must be at most {maximum}, got {value}", value)
    if choices and value not in choices:
        raise ConfigurationError(f"{field.name} must be one of {', '.join(choices)}, got {value!r}", value)
    return value


def assignments(words: Sequence[str]) -> dict[str, str]:
    """Split words NAME=VALUE, such as "n_components=50" or "ratio.hidden_layers=64 64", into names and texts."""
    values: dict[str, str] = {}
    for word in words:
        name, equals, value = (part.strip() for part in word.partition("="))
        if not name or not equals or not value:
            raise ConfigurationError(f"a setting must be written name=value, got {word!r}", word)
        if name in values:
            raise ConfigurationError(f"setting {name} is given twice: give it once", word)
        values[name] = value
    return values


def chosen(default: SettingsT, given: Mapping[str, Any]) -> SettingsT:
    """Return settings with other values, given as texts of words NAME=VALUE or as the content of a YAML file.

    Raise `ConfigurationError` for names that are unknown or have no effect, and for wrong values.
    """
    kind: type[SettingsT] = type(default)
    values = flattened(kind, given)
    if unused := [name for name in values if is_within(name, kind.unused)]:
        raise ConfigurationError(f"setting {unused[0]} has no effect here: leave out this setting", unused)
    return default._with(assigned(values, field_types(kind)))


def assigned(values: Mapping[str, Any], types: Mapping[str, Any]) -> dict[str, Any]:
    """Convert texts to the types of the settings. Unknown names are kept, so that the class can report them."""
    return {name: _converted_text(value, types.get(name, str)) for name, value in values.items()}


def _converted_text(value: Any, annotation: Any) -> Any:
    is_list = typing.get_origin(annotation) is tuple
    if not isinstance(value, str):
        return [value] if is_list and isinstance(value, int | float) else value
    if annotation is str:
        return value
    if is_list and not value.startswith("["):
        return [_yaml(word) for word in value.replace(",", " ").split()]
    return _yaml(value)


def parsed(text: str) -> Any:
    """Return the value of a text, which is YAML or numbers separated by spaces. Numbers may be 1e-3 or inf."""
    return _numbers_in(_yaml(text))


def _numbers_in(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _numbers_in(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_numbers_in(entry) for entry in value]
    if not isinstance(value, str):
        return value
    try:
        numbers = [float(word) for word in value.split()]
    except ValueError:
        return value
    return numbers if len(numbers) > 1 else numbers[0]


def _yaml(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text
