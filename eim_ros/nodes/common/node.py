"""`ManagedNode`: a lifecycle node of this package; what is alike in all of them is here, once.

Its services are there from the start and say what the node is doing; they serve while it is active. With the parameter
`autostart` it configures and activates itself, so that `ros2 run` alone is enough. What goes wrong in a transition is
told in the log and on `/diagnostics`, and leaves the node in the state in which it was.

Callbacks that end neither the spin nor a client's patience, whatever the work in them raises.

Lifecycle transitions on a thread of their own, one after the other: the executor's thread answers meanwhile.

rclpy makes a transition in the handler of `~/change_state`, which keeps the executor's thread for as long as a model is
loaded; nobody would learn then what the node is doing.

What a node tells on `/diagnostics`: its state, and of a server how many requests ended in which way.
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
from eim_ros.nodes.common.interfaces import ERROR_NAMES
from eim_ros.nodes.common.name_watch import NameWatch
from eim_ros.nodes.common.parameters import NodeSettings
from eim_ros.nodes.common.service import Exchange, RequestPool, defer, reason_of, send
from eim_ros.nodes.common.settings import DataDirectorySettings, ManagedSettings


def guarded(node: Node, work: Callable[..., None]) -> Callable[..., None]:
    """A callback for timers and topics that logs what the work raises."""

    def callback(*arguments: Any) -> None:
        try:
            work(*arguments)
        except EimError as error:  # what others sent
            node.get_logger().warning(reason_of(error), throttle_duration_sec=1.0)
        except Exception as error:  # nothing ends the spin
            node.get_logger().error(reason_of(error), throttle_duration_sec=1.0)

    return callback


def answered(
    node: ManagedNode, serve: Callable[[Any, Any], None], then: Callable[[], None] | None = None
) -> Callable[[Any, Any], Any]:
    """A service callback that answers in every case, where the response has `success` and `message`.

    Parameters
    ----------
    node : ManagedNode
        Refuses while it is not active, and logs what was refused.
    serve : callable
        Called with request and response, which it fills; it has succeeded unless it raises, and what it raises becomes
        the response's message.
    then : callable, optional
        Called before the response is sent, for example to publish a status.
    """

    def callback(request: Any, response: Any) -> Any:
        try:
            node.check_active()
            serve(request, response)
            response.success = True
        except Exception as error:  # nothing ends the spin
            response.success, response.message = False, reason_of(error)
        if not response.success:
            node.get_logger().warning(response.message)
        if then is not None:
            guarded(node, then)()
        return response

    return callback


_MOST_WAITING = 10  # transitions that may wait for the one that is made


def started(node: LifecycleNode) -> bool:
    """Configure and activate a node; False, with the reason in the log, where one of them fails."""
    try:
        triggers = (node.trigger_configure, node.trigger_activate)
        success = all(trigger() == TransitionCallbackReturn.SUCCESS for trigger in triggers)
    except Exception as error:
        node.get_logger().error(f"cannot start: {reason_of(error)}")
        return False
    if success:
        node.get_logger().info("serving")
    return success


class _Job(NamedTuple):
    make: Callable[[], None]
    give_up: Callable[[], None]


class Transitions:
    """Takes `~/change_state` of a lifecycle node from the executor's thread.

    Parameters
    ----------
    node : LifecycleNode
        Whose transitions they are.
    """

    def __init__(self, node: LifecycleNode) -> None:
        self._node = node
        self._pool: RequestPool[_Job] = RequestPool(
            lambda job: job.make(), lambda job: job.give_up(), n_threads=1, size=_MOST_WAITING
        )
        service = node._service_change_state
        defer(service, partial(self._receive, service.callback))

    def start(self) -> Future:
        """Configure and activate; the future will tell whether both succeeded."""
        future = Future()
        self._pool.offer(_Job(lambda: future.set_result(started(self._node)), partial(future.set_result, False)))
        return future

    def close(self, timeout: float) -> bool:
        """Make no more; False when one still goes on after `timeout` [s]."""
        return self._pool.close(timeout)

    def _receive(self, change: Callable[[Any, Any], Any], exchange: Exchange) -> None:
        """On the executor's thread: queue the wish; refused, as nothing has changed, where too many wait."""
        refuse = partial(send, exchange, self._node)  # as it is: without success
        if self._pool.offer(_Job(partial(self._change, change, exchange), refuse)) is None:
            refuse()

    def _change(self, change: Callable[[Any, Any], Any], exchange: Exchange) -> None:
        """On the transitions' thread: make one, by rclpy's own handler."""
        try:
            change(exchange.request, exchange.response)
        except Exception as error:
            self._node.get_logger().error(f"a transition failed: {reason_of(error)}")
        send(exchange, self._node)


class AnswerCounters:
    """Counts of answers by error code and the time spent on them [s]; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: Counter[int] = Counter()
        self._last = 0.0
        self._longest = 0.0

    def count(self, code: int, elapsed: float) -> None:
        """One more answer."""
        with self._lock:
            self._answers[code] += 1
            self._last = elapsed
            self._longest = max(self._longest, elapsed)

    def facts(self) -> dict[str, str]:
        """Names and values for a diagnostic message."""
        with self._lock:
            by_code = {f"answers {ERROR_NAMES.get(code, code)}": str(n) for code, n in sorted(self._answers.items())}
            return {
                "answers": str(sum(self._answers.values())),
                **by_code,
                "last answer after [ms]": f"{1e3 * self._last:.3f}",
                "slowest answer after [ms]": f"{1e3 * self._longest:.3f}",
            }


def diagnostics(name: str, state: str, problem: str, warning: str, facts: dict[str, str]) -> DiagnosticArray:
    """Message with one status, which the node stamps.

    ERROR with a problem, WARN with a warning or while the node is not active, else OK.
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
