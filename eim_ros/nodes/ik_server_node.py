"""`IkServer`: a lifecycle node that answers requests for sampled, refined and verified joint configurations.

configure loads the model, or the robot alone, activate starts serving. In every other state, from the first one on, the
services answer that the node is not active. The executor's thread only takes requests, so it is always there: worker
threads answer requests for samples; the outbox sends the answers no faster than clients read them; transitions are made
one after the other on a thread of theirs. `~/load_model` loads another model on one more thread and then exchanges the
two: no request waits for it, and each is answered by one of them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.clock import Clock, ClockType
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.task import Future

from eim_ros.errors import ConfigurationError
from eim_ros.ik import ErrorCode, Sampler
from eim_ros.kinematics import Robot
from eim_ros.nodes.deferred_service import Exchange, create_deferred_service, defer
from eim_ros.nodes.description_topic import DescriptionTopic
from eim_ros.nodes.diagnostics import Tally, diagnostics
from eim_ros.nodes.ik_calls import CALLS, Prepared, outcome_of, refuse
from eim_ros.nodes.interfaces import LoadModel
from eim_ros.nodes.loading import load_replacement, load_sampler, name_of_model
from eim_ros.nodes.messages import RequestError
from eim_ros.nodes.outbox import Outbox
from eim_ros.nodes.parameters import NodeSettings
from eim_ros.nodes.qos import SERVICE_QOS
from eim_ros.nodes.request_queue import RequestQueue
from eim_ros.nodes.settings import IkServerSettings

__all__ = ["IkServer"]

Prepare: TypeAlias = Callable[[Any, Any, Robot, IkServerSettings], Prepared]

_DIAGNOSTICS_PERIOD = 1.0  # [s]
_WAITING_MODELS = 3  # models that may wait for being loaded
_WAITING_TRANSITIONS = 10  # transitions that may wait for the one that is made
_LONGEST_JOIN = 2.0  # [s]; ros2 launch kills 5 s after it has sent SIGINT


class IkServer(LifecycleNode):
    """See the module. Raises `ConfigurationError` on an unknown or bad parameter."""

    def __init__(self) -> None:
        super().__init__("ik_server")
        self._node_settings = NodeSettings(self, IkServerSettings)
        self._loaded: Sampler | None = None
        self._serving: Sampler | None = None
        self._exchange = threading.Lock()  # of the two models, by transitions and by `~/load_model`
        self._model = ""
        self._state = "unconfigured"
        self._problem = ""
        self._tally = Tally()
        self._outbox = Outbox(self._send)
        self._queue: RequestQueue[tuple[Prepare, Exchange]] = RequestQueue(
            self._serve, n_threads=self.settings.threads, size=self.settings.queue_size
        )
        self._loader: RequestQueue[Exchange] = RequestQueue(self._load, n_threads=1, size=_WAITING_MODELS)
        self._transitions: RequestQueue[Callable[[], None]] = RequestQueue(
            lambda make: make(), n_threads=1, size=_WAITING_TRANSITIONS
        )
        self._closing = threading.Event()
        self._description = DescriptionTopic(self) if self.settings.use_robot_description_topic else None
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", 10)
        self.create_timer(_DIAGNOSTICS_PERIOD, self._report, clock=Clock(clock_type=ClockType.STEADY_TIME))
        self._open_services()

    @property
    def settings(self) -> IkServerSettings:
        """Present values of the parameters."""
        return self._node_settings.current

    def start(self) -> bool | Future:
        """With autostart configure and activate; the future tells whether that succeeded."""
        if not self.settings.autostart:
            return True
        started = Future()
        self._transitions.offer(partial(self._start, started))
        return started

    def close(self) -> bool:
        """Stop serving and destroy the node; False when a request is still being solved, or a model loaded."""
        self._closing.set()
        self._serving = None
        if self._description is not None:
            self._description.close()
        idle, end = True, time.monotonic() + _LONGEST_JOIN
        for queue in (self._queue, self._loader, self._transitions):
            idle = queue.close(max(0.0, end - time.monotonic())) and idle
        self._outbox.close()
        self.destroy_node()
        return idle

    # Lifecycle

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Load; FAILURE (the node stays unconfigured) with the reason in the log."""
        self._enter("configuring")
        try:
            self._configure()
        except Exception as error:  # a transition must end in a state, whatever a file contains
            self._leave_if_closing()
            self._state, self._problem = "unconfigured", " ".join(f"cannot configure: {_reason(error)}".split())
            self.get_logger().error(self._problem)
            return TransitionCallbackReturn.FAILURE
        self._leave_if_closing()
        self._enter("inactive")
        return TransitionCallbackReturn.SUCCESS

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Start serving."""
        with self._exchange:
            self._serving = self._loaded
            self._enter("active")
        return super().on_activate(state)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Stop serving; a request that is being solved is still answered."""
        with self._exchange:
            self._serving = None
            self._enter("inactive")
        return super().on_deactivate(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Forget the model."""
        with self._exchange:
            self._serving = self._loaded = None
            self._enter("unconfigured")
        return super().on_cleanup(state)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Forget the model for good; the service keeps answering that the node is not active."""
        with self._exchange:
            self._serving = self._loaded = None
            self._enter("finalized")
        return super().on_shutdown(state)

    def _configure(self) -> None:
        began = time.monotonic()
        self.get_logger().info(f"configuring with model {self.settings.model or 'by default'}")
        self._loaded = load_sampler(self.settings, self._urdf())
        self._model = name_of_model(self.settings, self._loaded)
        robot = self._loaded.robot
        self._node_settings.tell("chain.base_link", robot.base_link, "Link in whose frame poses are given.")
        self._node_settings.tell("chain.tip_link", robot.tip_link, "Link that reaches the pose.")
        self._node_settings.tell("chain.joint_names", list(robot.joint_names), "Joints from base to tip.")
        self.get_logger().info(
            f"configured in {time.monotonic() - began:.1f} s: {self._model}, {self._loaded.n_experts} experts, "
            f"{self._loaded.context_kind} context, robot '{robot.name}' from '{robot.base_link}' to '{robot.tip_link}'"
        )

    def _enter(self, state: str) -> None:
        self._state, self._problem = state, ""

    def _leave_if_closing(self) -> None:
        """End the thread of the transitions: a node that is being destroyed has no state to go to."""
        if self._closing.is_set() or not self.context.ok():
            raise SystemExit

    def _urdf(self) -> str:
        """URDF text of the parameter, or of the topic where that is asked for."""
        if self._description is None:
            return self.settings.robot_description
        self.get_logger().info(f"waiting for {self._description.name}")
        return self._description.wait(self.settings.robot_description_timeout)

    # Transitions

    def _start(self, started: Future) -> None:
        """On the transitions' thread: configure and activate."""
        success = False
        try:
            triggers = (self.trigger_configure, self.trigger_activate)
            success = all(trigger() == TransitionCallbackReturn.SUCCESS for trigger in triggers)
        except Exception as error:
            self.get_logger().error(f"cannot start: {_reason(error)}")
        if success:
            self.get_logger().info("serving")
        started.set_result(success)

    def _receive_transition(self, change: Callable[[Any, Any], Any], exchange: Exchange) -> None:
        """On the executor's thread: queue the wish for a transition; refused where too many wait."""
        if not self._transitions.offer(partial(self._change_state, change, exchange)):
            self._send_now(exchange)

    def _change_state(self, change: Callable[[Any, Any], Any], exchange: Exchange) -> None:
        """On the transitions' thread: make one, by rclpy's own handler."""
        try:
            change(exchange.request, exchange.response)
        except Exception as error:
            self.get_logger().error(f"a transition failed: {_reason(error)}")
        self._send_now(exchange)

    # Services

    def _open_services(self) -> None:
        for name, (service_type, prepare) in CALLS.items():
            create_deferred_service(self, service_type, name, partial(self._receive, prepare), SERVICE_QOS)
        create_deferred_service(self, LoadModel, "~/load_model", self._receive_model, SERVICE_QOS)
        change_state = self._service_change_state  # of the base class, whose handler would keep the executor's thread
        defer(change_state, partial(self._receive_transition, change_state.callback))

    def _receive(self, prepare: Prepare, exchange: Exchange) -> None:
        """On the executor's thread: queue the request, or answer BUSY without solving it."""
        self._outbox.expect(exchange)
        if not self._queue.offer((prepare, exchange)):
            message = f"{self._queue.n_open} requests are waiting (parameter queue_size): try again later"
            refuse(exchange.response, ErrorCode.BUSY, message)
            self._outbox.post(exchange)

    def _serve(self, task: tuple[Prepare, Exchange]) -> None:
        """On a worker thread: answer, whatever happens."""
        prepare, exchange = task
        try:
            self._answer(prepare, exchange)
        except RequestError as error:
            refuse(exchange.response, error.code, str(error))
        except Exception as error:
            exchange.response = type(exchange.response)()  # it may have been half filled
            refuse(exchange.response, ErrorCode.FAILURE, f"internal error: {_reason(error)}")
        self._outbox.post(exchange)

    def _answer(self, prepare: Prepare, exchange: Exchange) -> None:
        sampler = self._serving
        if sampler is None:
            yet = " yet" if self._state == "configuring" else ""
            raise RequestError(ErrorCode.FAILURE, f"{self.get_name()} is {self._state}, not active{yet}")
        prepared = prepare(exchange.request, exchange.response, sampler.robot, self.settings)
        exchange.deadline = exchange.arrival + prepared.timeout
        waited = time.monotonic() - exchange.arrival
        if waited >= prepared.timeout:
            raise RequestError(ErrorCode.TIMED_OUT, f"timeout {prepared.timeout} s passed while waiting behind others")
        prepared.solve(sampler, prepared.timeout - waited)

    def _receive_model(self, exchange: Exchange) -> None:
        """On the executor's thread: queue the wish for another model."""
        if not self._loader.offer(exchange):
            exchange.response.message = "other models are being loaded: try again later"
            self._send_now(exchange)

    def _load(self, exchange: Exchange) -> None:
        """On the loader's thread: load and exchange; the present model serves meanwhile, and on failure on."""
        began, path = time.monotonic(), exchange.request.path
        try:
            self._replace(path)
            exchange.response.success = True
            self.get_logger().info(f"model {path} loaded in {time.monotonic() - began:.1f} s")
        except Exception as error:
            exchange.response.message = " ".join(_reason(error).split())
            self.get_logger().warning(f"model {path} refused: {exchange.response.message}")
        self._send_now(exchange)

    def _replace(self, path: str) -> None:
        present = self._loaded
        if present is None:
            raise ConfigurationError(f"{self.get_name()} is {self._state}: it must be configured first")
        following = load_replacement(path, present, self.settings.device)
        with self._exchange:
            if self._loaded is not present:
                raise ConfigurationError(f"{self.get_name()} became {self._state} meanwhile")
            self._loaded, self._model = following, path
            if self._serving is not None:
                self._serving = following

    def _send_now(self, exchange: Exchange) -> None:
        try:
            exchange.send()
        except Exception as error:  # the context is being shut down
            self.get_logger().error(f"an answer could not be sent: {_reason(error)}")

    def _send(self, exchange: Exchange) -> None:
        """Called by the outbox."""
        elapsed = time.monotonic() - exchange.arrival
        if hasattr(exchange.response, "elapsed"):
            exchange.response.elapsed = elapsed
        code, message = outcome_of(exchange.response)
        self._tally.count(code, elapsed)
        try:
            if code == ErrorCode.BUSY:
                self.get_logger().warning(f"BUSY: {message}", throttle_duration_sec=1.0)
            elif code != ErrorCode.SUCCESS:
                self.get_logger().warning(f"{ErrorCode(code).name}: {message}")
            exchange.send()
        except Exception as error:  # the context is being shut down
            self.get_logger().error(f"an answer could not be sent: {_reason(error)}")

    def _report(self) -> None:
        facts = {
            "state": self._state,
            "model": self._model or "not loaded",
            "requests open": str(self._queue.n_open),
            **self._tally.facts(),
        }
        message = diagnostics(self.get_fully_qualified_name(), self._state, self._problem, facts)
        message.header.stamp = self.get_clock().now().to_msg()
        self._diagnostics.publish(message)


def _reason(error: Exception) -> str:
    """Message of an error that names its own cause, else with its type."""
    expected = type(error).__module__ == "eim_ros.errors"
    return str(error) if expected and str(error) else f"{type(error).__name__}: {error}"
