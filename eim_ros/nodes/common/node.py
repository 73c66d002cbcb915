"""`ManagedNode`, the base class of all lifecycle nodes of this package.

The services of a node exist from the start and report its state, but they serve only while the node is active. With the
parameter `autostart`, the node configures and activates itself, and `ros2 run` is enough to use it. If a transition
fails, the node logs the error, publishes it on `/diagnostics`, and stays in its previous state. `/diagnostics` also
contains the number of requests that a server has processed, by error code.

`guarded` and `answered` wrap callbacks. An exception in a callback then neither stops the executor nor leaves a client
without a response. `Transitions` makes lifecycle transitions on a separate thread. rclpy would make them in the handler
of `~/change_state`. A long transition, such as the loading of a model, would then block the executor's thread, and the
node could not report its state.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.clock import Clock, ClockType
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.node import Node
from rclpy.task import Future

from eim_ros.core.errors import EimError, ServiceError
from eim_ros.ik import ErrorCode
from eim_ros.nodes.common.delivery import DELIVERIES
from eim_ros.nodes.common.name_watch import NameWatch
from eim_ros.nodes.common.parameters import NodeSettings
from eim_ros.nodes.common.service import (
    PendingResponse,
    RequestPool,
    reason_of,
    respond_later,
    respond_without_waiting,
)
from eim_ros.nodes.settings import DataDirectorySettings, ManagedSettings

_REMEDIES = {
    "unconfigured": ": configure and activate it",
    "inactive": ": activate it",
    "configuring": " yet",
    "finalized": ": start it again",
}
_MOST_WAITING = 10  # maximum number of transitions that wait for the current one
_DIAGNOSTICS_PERIOD = 1.0  # [s]
# [s] maximum time to wait for threads, maximum time to send the last responses, and time for clients to read responses.
# Ctrl-C should end a node within 2 s, also on a busy computer.
_LONGEST_JOIN, _LONGEST_DELIVERY, _READING = 0.6, 0.5, 0.4
SettingsT = TypeVar("SettingsT", bound=ManagedSettings)


def guarded(node: Node, work: Callable[..., None]) -> Callable[..., None]:
    """Return a callback for timers and topics that calls `work` and logs its exceptions."""

    def callback(*arguments: Any) -> None:
        try:
            work(*arguments)
        except EimError as error:  # invalid data from other nodes
            node.get_logger().warning(reason_of(error), throttle_duration_sec=1.0)
        except Exception as error:  # an exception must not stop the executor
            node.get_logger().error(reason_of(error), throttle_duration_sec=1.0)

    return callback


def answered(
    node: ManagedNode, serve: Callable[[Any, Any], None], then: Callable[[], None] | None = None
) -> Callable[[Any, Any], Any]:
    """Return a service callback that always responds. The response type must have `success` and `message`.

    `serve` maps a request and an empty response to a filled response. If it raises an exception, or if the node is not
    active, the response contains the error message. Failures are logged. `then` is called before the response is sent,
    for example to publish a status.
    """

    def callback(request: Any, response: Any) -> Any:
        try:
            node.check_active()
            serve(request, response)
            response.success = True
        except Exception as error:  # an exception must not stop the executor
            response.success, response.message = False, reason_of(error)
        if not response.success:
            node.get_logger().warning(response.message)
        if then is not None:
            guarded(node, then)()
        return response

    return callback


def started(node: LifecycleNode) -> bool:
    """Configure and activate a node. On failure, log the reason and return False."""
    try:
        triggers = (node.trigger_configure, node.trigger_activate)
        success = all(trigger() == TransitionCallbackReturn.SUCCESS for trigger in triggers)
    except Exception as error:
        node.get_logger().error(f"the node cannot start: {reason_of(error)}")
        return False
    if success:
        node.get_logger().info("serving")
    return success


class _Job(NamedTuple):
    make: Callable[[], None]
    give_up: Callable[[], None]


class Transitions:
    """Thread that makes the requested transitions of `~/change_state` one after the other."""

    def __init__(self, node: LifecycleNode) -> None:
        self._node = node
        self._pool: RequestPool[_Job] = RequestPool(
            lambda job: job.make(), lambda job: job.give_up(), n_threads=1, size=_MOST_WAITING
        )
        service = node._service_change_state
        respond_later(node, service, partial(self._receive, service.callback))

    def start(self) -> Future:
        """Configure and activate the node. Return a future, which is true if both succeed."""
        future = Future()
        self._pool.offer(_Job(lambda: future.set_result(started(self._node)), partial(future.set_result, False)))
        return future

    def close(self, timeout: float) -> bool:
        """Make no more transitions. Return False if a transition is still running after `timeout` [s]."""
        return self._pool.close(timeout)

    def _receive(self, change: Callable[[Any, Any], Any], pending: PendingResponse) -> None:
        """Queue a request, or refuse it if too many requests are waiting. The executor's thread calls this method."""
        # `success` of a response is false by default
        if self._pool.offer(_Job(partial(self._change, change, pending), pending.send)) is None:
            pending.send()

    def _change(self, change: Callable[[Any, Any], Any], pending: PendingResponse) -> None:
        """Make a transition with rclpy's handler, on the thread of the transitions."""
        try:
            change(pending.request, pending.response)
        except Exception as error:
            transition = pending.request.transition
            name = transition.label or f"number {transition.id}"
            self._node.get_logger().error(f"the transition {name} failed: {reason_of(error)}")
        pending.send()


class AnswerCounters:
    """Thread-safe counts of responses by error code, with the time spent on them [s]."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: Counter[int] = Counter()
        self._last = 0.0
        self._longest = 0.0

    def count(self, code: int, elapsed: float) -> None:
        """Count a response with its error code and the time spent on it [s]."""
        with self._lock:
            self._answers[code] += 1
            self._last = elapsed
            self._longest = max(self._longest, elapsed)

    def facts(self) -> dict[str, str]:
        """Return names and values for `/diagnostics`."""
        with self._lock:
            by_code = {f"answers {ErrorCode(code).name}": str(n) for code, n in sorted(self._answers.items())}
            return {
                "answers": str(sum(self._answers.values())),
                **by_code,
                "time of the last answer [ms]": f"{1e3 * self._last:.3f}",
                "time of the slowest answer [ms]": f"{1e3 * self._longest:.3f}",
            }


def diagnostics(name: str, state: str, problem: str, warning: str, facts: dict[str, str]) -> DiagnosticArray:
    """Return a message with one status and no time stamp.

    The level is ERROR if there is a problem, and WARN if there is a warning or the node is not active. Otherwise, it is
    OK.
    """
    level = DiagnosticStatus.OK
    if problem:
        level = DiagnosticStatus.ERROR
    elif warning or state != "active":
        level = DiagnosticStatus.WARN
    values = [KeyValue(key=key, value=value) for key, value in {"state": state, **facts}.items()]
    status = DiagnosticStatus(
        level=level, name=name, message=problem or warning or state, hardware_id="", values=values
    )
    return DiagnosticArray(status=[status])


class ManagedNode(LifecycleNode, Generic[SettingsT]):
    """Base class of lifecycle nodes.

    A subclass overrides the methods `configure`, `activate`, `deactivate`, `cleanup` and `end` as required. `task`
    describes the purpose of the node in `/diagnostics`. Set `takes_long` if transitions take long, for example because
    `configure` loads a model. Transitions then run on a separate thread, and the node can respond in the meantime. By
    default, they run on the executor's thread. The constructor raises `ConfigurationError` if a parameter is unknown or
    has a bad value.
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
        """Current values of the parameters."""
        return self._node_settings.current

    # Methods to override

    def configure(self) -> None:
        """Load and check everything that the node needs. After an exception, the node stays unconfigured."""

    def activate(self) -> None:
        """Begin to work. After an exception, the node stays inactive."""

    def deactivate(self) -> None:
        """Pause. `activate` can be called again."""

    def cleanup(self) -> None:
        """Discard everything that `configure` has loaded."""

    def end(self, timeout: float) -> bool:
        """End all work in any state. Return False if some work is still running after `timeout` [s]."""
        return True

    def facts(self) -> dict[str, str]:
        """Return names and values for `/diagnostics`."""
        return {}

    def warning(self) -> str:
        """Return a warning for `/diagnostics` while the node is active, or an empty text."""
        return ""

    # State

    @property
    def inactivity(self) -> str:
        """Reason why the node does not serve requests, as a sentence; empty while the node is active."""
        if self._closing.is_set():
            return f"{self.get_name()} is shutting down"
        if self._state == "active":
            return ""
        return f"{self.get_name()} is {self._state}, not active{_REMEDIES.get(self._state, '')}"

    def check_active(self) -> None:
        """Raise `ServiceError` if the node is not active."""
        if reason := self.inactivity:
            raise ServiceError(reason, self._state)

    # Methods that `run_node` calls

    def start(self) -> bool | Future:
        """Configure and activate the node if `autostart` is set. Return whether this succeeded.

        If transitions run on a separate thread, the result is a future.
        """
        respond_without_waiting(self)
        if not self.settings.autostart:
            return True
        return started(self) if self._transitions is None else self._transitions.start()

    def close(self, has_ended: Callable[[], object] = lambda: None) -> bool:
        """End all work, call `has_ended`, and destroy the node. Return False if a thread is still busy."""
        self._closing.set()
        end = time.monotonic() + _LONGEST_JOIN
        idle = self.end(_LONGEST_JOIN)
        if self._transitions is not None:
            idle = self._transitions.close(max(0.0, end - time.monotonic())) and idle
        DELIVERIES.finish(_LONGEST_DELIVERY, _READING)
        has_ended()
        self.destroy_node()
        self._state_machine.destroy_when_not_in_use()  # otherwise, other nodes still see this node
        return idle

    # Transitions

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Call `configure`."""
        return self._make("configuring", self.configure, "inactive", "unconfigured")

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Call `activate`, unless another live node has the same name."""

        def activate() -> None:
            self._names.check()
            self.activate()

        return self._make("activating", activate, "active", "inactive")

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Call `deactivate`."""
        return self._make("deactivating", self.deactivate, "inactive", "active")

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Call `cleanup`."""
        return self._make("cleaning up", self.cleanup, "unconfigured", "inactive")

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Deactivate and clean up permanently. Services continue to respond that the node is not active."""

        def shut_down() -> None:
            if state.label == "active":
                self.deactivate()
            if state.label != "unconfigured":
                self.cleanup()

        return self._make("shutting down", shut_down, "finalized", "finalized")

    def _make(self, doing: str, work: Callable[[], None], reached: str, otherwise: str) -> TransitionCallbackReturn:
        """Make the transition to the state `reached`. On failure, log the reason and go to the state `otherwise`."""
        self._state, self._problem = doing, ""
        try:
            work()
        except Exception as error:  # a transition must reach a state after any error, such as a damaged file
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
        """End the thread of the transitions if the node is being destroyed. The node must not enter a new state."""
        if self._closing.is_set() or not self.context.ok():
            raise SystemExit

    def _diagnose(self) -> None:
        self._names.announce(self._state)
        conflict = self._names.conflict() if self._state == "active" else ""
        if conflict:
            self.get_logger().error(conflict, throttle_duration_sec=10.0)
            if self._names.must_end():
                raise SystemExit(1)
        message = diagnostics(
            f"{self.get_fully_qualified_name()}: {self._task_name}",
            self._state,
            self._problem or conflict,
            self.warning() if self._state == "active" else "",
            self.facts(),
        )
        message.header.stamp = self.get_clock().now().to_msg()
        self._diagnostics.publish(message)
