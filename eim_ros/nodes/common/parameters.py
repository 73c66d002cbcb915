"""ROS parameters derived from a `Settings` dataclass: name, type, default, bounds, description and read-only flag.

Values that break a bound, unknown names and read-only changes are refused with a reason, at start and at run time.

Parameters that every node has.
"""

from __future__ import annotations

import dataclasses
import sys
import threading
from typing import Any, Generic, TypeVar

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor, SetParametersResult
from rclpy.exceptions import ParameterException
from rclpy.node import Node
from rclpy.parameter import Parameter

from eim_ros.core.errors import ConfigurationError, did_you_mean
from eim_ros.core.settings import Settings

SettingsT = TypeVar("SettingsT", bound=Settings)

_LARGEST_INTEGER = 2**63 - 1
_OF_EVERY_NODE = ("use_sim_time", "start_type_description_service")
_IGNORED_PREFIXES = ("qos_overrides.", "chain.", "prior.")  # of every node; told by a node, and so in what it dumps


class NodeSettings(Generic[SettingsT]):
    """Declares the parameters of a node and holds their values as an immutable `Settings`.

    Parameters
    ----------
    node : Node
        Node to declare them on.
    kind : type
        The dataclass of settings.

    Raises
    ------
    ConfigurationError
        When the command line or a parameter file gives an unknown name, a wrong type or a value out of bounds.
    """

    def __init__(self, node: Node, kind: type[SettingsT]) -> None:
        self._kind = kind
        _refuse_unknown(node, kind)
        values = {}
        for field in dataclasses.fields(kind):
            try:
                values[field.name] = node.declare_parameter(field.name, field.default, descriptor(field)).value
            except ParameterException as error:
                raise ConfigurationError(f"parameter {field.name}: {_one_line(error)}", field.name) from error
        self.current: SettingsT = kind.from_mapping(values)
        self._node = node
        self._told: set[str] = set()
        self._telling: int | None = None  # thread that tells; others may set parameters at the same time
        node.add_on_set_parameters_callback(self._check)
        node.add_post_set_parameters_callback(self._take)

    def tell(self, name: str, value: Any, description: str) -> None:
        """Set a parameter that only tells something about the node: users may read it, nobody but the node sets it."""
        self._telling = threading.get_ident()
        try:
            if name in self._told:
                self._node.set_parameters([Parameter(name, value=value)])
            else:
                about = ParameterDescriptor(description=description)
                self._node.declare_parameter(name, value, about, ignore_override=True)
                self._told.add(name)
        finally:
            self._telling = None

    def put(self, name: str, value: Any) -> None:
        """Change a read-only parameter: the node itself has changed what it says; users still may not."""
        # rclpy has no public way to it; of its private ones this tells those who listen to /parameter_events, too
        descriptors = {name: self._node.describe_parameter(name)}
        self._node._set_parameters_atomically_common([Parameter(name, value=value)], descriptors)

    def _check(self, parameters: list[Parameter]) -> SetParametersResult:
        """Refuse values that do not make valid settings, naming the parameter."""
        told = [parameter.name for parameter in parameters if parameter.name in self._told]
        if told and self._telling != threading.get_ident():
            return SetParametersResult(successful=False, reason=f"{', '.join(told)} is set by the node itself")
        try:
            self._changed(parameters)
        except ConfigurationError as error:
            return SetParametersResult(successful=False, reason=str(error))
        return SetParametersResult(successful=True)

    def _take(self, parameters: list[Parameter]) -> None:
        if any(parameter.name in self.current.to_mapping() for parameter in parameters):
            self.current = self._changed(parameters)

    def _changed(self, parameters: list[Parameter]) -> SettingsT:
        known = self.current.to_mapping()
        changes = {parameter.name: parameter.value for parameter in parameters if parameter.name in known}
        return self._kind.from_mapping({**known, **changes})


def descriptor(field: dataclasses.Field) -> ParameterDescriptor:
    """Descriptor of one field: what `ros2 param describe` shows, and the bounds rclpy enforces."""
    metadata = field.metadata
    unit = metadata["unit"]
    result = ParameterDescriptor(
        name=field.name,
        description=metadata["description"] + (f" [{unit}]" if unit else ""),
        read_only=metadata["read_only"],
        additional_constraints=f"one of {', '.join(metadata['choices'])}" if metadata["choices"] else "",
    )
    low, high = metadata["minimum"], metadata["maximum"]
    if low is None and high is None:
        return result
    if isinstance(field.default, int):
        low = -_LARGEST_INTEGER if low is None else int(low)
        high = _LARGEST_INTEGER if high is None else int(high)
        result.integer_range = [IntegerRange(from_value=low, to_value=high, step=0)]
    else:
        low = -sys.float_info.max if low is None else float(low)
        high = sys.float_info.max if high is None else float(high)
        result.floating_point_range = [FloatingPointRange(from_value=low, to_value=high, step=0.0)]
    return result


def _refuse_unknown(node: Node, kind: type[Settings]) -> None:
    """A misspelt parameter would otherwise be ignored without a word; rclpy offers no public list of overrides."""
    given: dict[str, Parameter] = getattr(node, "_parameter_overrides", {})
    known = [field.name for field in dataclasses.fields(kind)]
    unknown = sorted(
        name
        for name in given
        if name not in known and name not in _OF_EVERY_NODE and not name.startswith(_IGNORED_PREFIXES)
    )
    if unknown:
        raise ConfigurationError(
            f"unknown parameter {', '.join(unknown)} of {node.get_name()}; known: {', '.join(known)}"
            f"{did_you_mean(unknown[0], known)}",
            unknown,
        )


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
