"""ROS parameters with names, types, defaults, bounds, descriptions and read-only flags from a `Settings` dataclass.

Unknown names and values out of bounds are rejected with a reason at start-up and at run time. Changes of read-only
parameters are rejected too.
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
from eim_ros.kinematics import Robot

SettingsT = TypeVar("SettingsT", bound=Settings)

_LARGEST_INTEGER = 2**63 - 1
_OF_EVERY_NODE = ("use_sim_time", "start_type_description_service")
# rclpy declares qos_overrides.*, and nodes declare chain.* and prior.*. Files from `ros2 param dump` contain them.
_IGNORED_PREFIXES = ("qos_overrides.", "chain.", "prior.")


class NodeSettings(Generic[SettingsT]):
    """Parameters of a node. The current values are an immutable `Settings` object.

    The constructor raises `ConfigurationError` if the command line or a parameter file contains an unknown name, a
    wrong type or a value out of bounds.
    """

    def __init__(self, node: Node, kind: type[SettingsT]) -> None:
        self._kind = kind
        _refuse_unknown(node, kind)
        values = {}
        for field in dataclasses.fields(kind):
            try:
                values[field.name] = node.declare_parameter(field.name, field.default, descriptor(field)).value
            except ParameterException as error:
                raise ConfigurationError(
                    f"parameter {field.name}: {' '.join(str(error).split())}", field.name
                ) from error
        self.current: SettingsT = kind.from_mapping(values)
        self._node = node
        self._told: set[str] = set()
        self._telling: int | None = None  # thread that runs `tell`; meanwhile, other threads may set parameters
        node.add_on_set_parameters_callback(self._check)
        node.add_post_set_parameters_callback(self._take)

    def tell(self, name: str, value: Any, description: str) -> None:
        """Set an informational parameter. Users can read it, but only the node can change it."""
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

    def tell_chain(self, robot: Robot, base: str, tip: str) -> None:
        """Set the informational parameters of a robot's chain, and log the warnings about its description.

        `base` and `tip` describe its links.
        """
        self.tell("chain.base_link", robot.base_link, base)
        self.tell("chain.tip_link", robot.tip_link, tip)
        self.tell("chain.joint_names", list(robot.joint_names), "Joints from base to tip.")
        for remark in robot.remarks:
            self._node.get_logger().warning(remark)

    def put(self, name: str, value: Any) -> None:
        """Change a read-only parameter on behalf of the node. The parameter remains read-only for users."""
        # rclpy has no public method for this change. The private method also publishes on /parameter_events.
        descriptors = {name: self._node.describe_parameter(name)}
        self._node._set_parameters_atomically_common([Parameter(name, value=value)], descriptors)

    def _check(self, parameters: list[Parameter]) -> SetParametersResult:
        """Reject changes that do not result in valid settings. The reason names the parameter."""
        told = [parameter.name for parameter in parameters if parameter.name in self._told]
        if told and self._telling != threading.get_ident():
            return SetParametersResult(
                successful=False, reason=f"{', '.join(told)} cannot be changed: the node sets it"
            )
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
    """Return the descriptor of a field. `ros2 param describe` shows it, and rclpy enforces its bounds."""
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
    """Raise `ConfigurationError` for unknown parameters, because rclpy silently ignores a misspelt name."""
    given: dict[str, Parameter] = getattr(node, "_parameter_overrides", {})  # rclpy has no public list of overrides
    known = [field.name for field in dataclasses.fields(kind)]
    unknown = sorted(
        name
        for name in given
        if name not in known and name not in _OF_EVERY_NODE and not name.startswith(_IGNORED_PREFIXES)
    )
    if unknown:
        raise ConfigurationError(
            f"unknown parameter {', '.join(unknown)} of {node.get_name()}; the parameters are {', '.join(known)}"
            f"{did_you_mean(unknown[0], known)}",
            unknown,
        )
