"""`ManagedNode`: a lifecycle node of this package; what is alike in all of them is here, once.

Its services are there from the start and say what the node is doing; they serve while it is active. With the parameter
`autostart` it configures and activates itself, so that `ros2 run` alone is enough. What goes wrong in a transition is
told in the log and on `/diagnostics`, and leaves the node in the state in which it was.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.clock import Clock, ClockType
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.task import Future

from eim_ros.errors import ServiceError
from eim_ros.nodes.common.callbacks import guarded
from eim_ros.nodes.common.data_directory import DataDirectorySettings
from eim_ros.nodes.common.diagnostics import diagnostics
from eim_ros.nodes.common.managed_settings import ManagedSettings
from eim_ros.nodes.common.name_watch import NameWatch
from eim_ros.nodes.common.parameters import NodeSettings
from eim_ros.nodes.common.reasons import reason_of
from eim_ros.nodes.common.transitions import Transitions, started

__all__ = ["ManagedNode"]

_DIAGNOSTICS_PERIOD = 1.0  # [s]
_LONGEST_JOIN = 1.5  # [s]; Ctrl-C is to end a node within 2 s


SettingsT = TypeVar("SettingsT", bound=ManagedSettings)


class ManagedNode(LifecycleNode, Generic[SettingsT]):
    """A node says what it does in each transition by the methods `configure` to `end`, all of which may be left out.

    Parameters
    ----------
    name : str
        By default; users may give another one.
    kind : type
        Its settings.
    task : str
        What it does, for `/diagnostics`.
    takes_long : bool
        Whether to configure takes long, as to load a model does: then transitions are made on a thread of their own,
        and the node answers meanwhile. Otherwise the executor's thread makes them.

    Raises
    ------
    ConfigurationError
        On an unknown or bad parameter.
    """

    def __init__(self, name: str, kind: type[SettingsT], task: str, *, takes_long: bool = False) -> None:
        super().__init__(name)
        self._node_settings = NodeSettings(self, kind)
        if isinstance(self.settings, DataDirectorySettings):
            self._node_settings.put("data_directory", str(self.settings.data.path))
        self._task_name = task
        self._state = "unconfigured"
        self._problem = ""
        self._closing = threading.Event()
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", 10)
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self.create_timer(_DIAGNOSTICS_PERIOD, guarded(self, self._diagnose), clock=steady)
        self._names = NameWatch(self)
        self._transitions = Transitions(self) if takes_long else None

    @property
    def settings(self) -> SettingsT:
        """Present values of the parameters."""
        return self._node_settings.current

    # What a node does

    def configure(self) -> None:
        """Load and check what is needed; what it raises leaves the node unconfigured."""

    def activate(self) -> None:
        """Begin to work; what it raises leaves the node inactive."""

    def deactivate(self) -> None:
        """Pause, so that `activate` may follow."""

    def cleanup(self) -> None:
        """Forget what `configure` has loaded."""

    def end(self, timeout: float) -> bool:
        """End all work, whatever the state; False when something still goes on after `timeout` [s]."""
        return True

    def facts(self) -> dict[str, str]:
        """Names and values for `/diagnostics`."""
        return {}

    def warning(self) -> str:
        """What a user should look at while the node is active, for `/diagnostics`; empty when all is well."""
        return ""

    # State

    @property
    def inactivity(self) -> str:
        """Why the node does not serve, in a sentence; empty while it is active."""
        if self._state == "active":
            return ""
        yet = " yet" if self._state == "configuring" else ""
        return f"{self.get_name()} is {self._state}, not active{yet}"

    def check_active(self) -> None:
        """Raise `ServiceError` while the node does not serve."""
        if self._state != "active":
            raise ServiceError(self.inactivity, self._state)

    # The process, see `run_node`

    def start(self) -> bool | Future:
        """With autostart configure and activate; tells, or the future will tell, whether that succeeded."""
        if not self.settings.autostart:
            return True
        return started(self) if self._transitions is None else self._transitions.start()

    def close(self) -> bool:
        """End all work and destroy the node; False when a thread is still busy."""
        self._closing.set()
        end = time.monotonic() + _LONGEST_JOIN
        idle = self.end(_LONGEST_JOIN)
        if self._transitions is not None:
            idle = self._transitions.close(max(0.0, end - time.monotonic())) and idle
        self.destroy_node()
        self._state_machine.destroy_when_not_in_use()  # it holds the node, which others would go on to see
        return idle

    # Transitions

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """`configure`."""
        return self._make("configuring", self.configure, "inactive", "unconfigured")

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """`activate`, unless another live node has the same name."""

        def activate() -> None:
            self._names.check()
            self.activate()

        return self._make("activating", activate, "active", "inactive")

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """`deactivate`."""
        return self._make("deactivating", self.deactivate, "inactive", "active")

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """`cleanup`."""
        return self._make("cleaning up", self.cleanup, "unconfigured", "inactive")

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Both for good; services keep answering that the node is not active."""

        def shut_down() -> None:
            if state.label == "active":
                self.deactivate()
            if state.label != "unconfigured":
                self.cleanup()

        return self._make("shutting down", shut_down, "finalized", "finalized")

    def _make(self, doing: str, work: Callable[[], None], reached: str, otherwise: str) -> TransitionCallbackReturn:
        """One transition; FAILURE, with the reason in the log, leads to the state `otherwise`."""
        self._state, self._problem = doing, ""
        try:
            work()
        except Exception as error:  # a transition must end in a state, whatever a file contains
            self._leave_if_closing()
            self._problem = f"cannot {work.__name__.replace('_', ' ')}: {reason_of(error)}"
            self._state = otherwise
            self.get_logger().error(self._problem)
            return TransitionCallbackReturn.FAILURE
        self._leave_if_closing()
        self._state = reached
        self._names.announce(self._state)
        return TransitionCallbackReturn.SUCCESS

    def _leave_if_closing(self) -> None:
        """End the thread of the transitions: a node that is being destroyed has no state to go to."""
        if self._closing.is_set() or not self.context.ok():
            raise SystemExit

    def _diagnose(self) -> None:
        self._names.announce(self._state)
        conflict = self._names.conflict() if self._state == "active" else ""
        if conflict:
            self.get_logger().error(conflict, throttle_duration_sec=10.0)
        message = diagnostics(
            f"{self.get_fully_qualified_name()}: {self._task_name}",
            self._state,
            self._problem or conflict,
            self.warning() if self._state == "active" else "",
            self.facts(),
        )
        message.header.stamp = self.get_clock().now().to_msg()
        self._diagnostics.publish(message)
