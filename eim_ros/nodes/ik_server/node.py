"""`IkServer`: a lifecycle node that answers requests for sampled, refined and verified joint configurations.

configure loads the model, or the robot alone, activate starts serving. In every other state, from the first one on, the
services answer that the node is not active. The executor's thread is always there: `Serving` has requests solved on
worker threads, `Transitions` configures on a thread of its own, and `ModelExchange` loads another model on one more: no
request waits for it, and each is answered by one of the two models.
"""

from __future__ import annotations

import threading
import time

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.clock import Clock, ClockType
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.task import Future

from eim_ros.errors import ConfigurationError
from eim_ros.ik import ErrorCode, Sampler
from eim_ros.nodes.common.description_topic import DescriptionTopic
from eim_ros.nodes.common.diagnostics import diagnostics
from eim_ros.nodes.common.model_exchange import ModelExchange
from eim_ros.nodes.common.parameters import NodeSettings
from eim_ros.nodes.common.reasons import reason_of
from eim_ros.nodes.common.transitions import Transitions
from eim_ros.nodes.ik_server.fields import RequestError
from eim_ros.nodes.ik_server.loading import load_replacement, load_sampler, name_of_model
from eim_ros.nodes.ik_server.nearest import check_groups
from eim_ros.nodes.ik_server.serving import Serving
from eim_ros.nodes.ik_server.settings import IkServerSettings

__all__ = ["IkServer"]

_DIAGNOSTICS_PERIOD = 1.0  # [s]
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
        self._closing = threading.Event()
        self._description = DescriptionTopic(self) if self.settings.use_robot_description_topic else None
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", 10)
        self.create_timer(_DIAGNOSTICS_PERIOD, self._report, clock=Clock(clock_type=ClockType.STEADY_TIME))
        self._service = Serving(self, lambda: self.settings, self._active_sampler)
        self._models = ModelExchange(self, self._replace)
        self._models.open()
        self._transitions = Transitions(self)

    @property
    def settings(self) -> IkServerSettings:
        """Present values of the parameters."""
        return self._node_settings.current

    def start(self) -> bool | Future:
        """With autostart configure and activate; the future tells whether that succeeded."""
        if not self.settings.autostart:
            return True
        return self._transitions.start()

    def close(self) -> bool:
        """Stop serving and destroy the node; False when a request is still being solved, or a model loaded."""
        self._closing.set()
        self._serving = None
        if self._description is not None:
            self._description.close()
        idle, end = True, time.monotonic() + _LONGEST_JOIN
        for stop in (self._service.stop, self._models.close, self._transitions.close):
            idle = stop(max(0.0, end - time.monotonic())) and idle
        self._service.send_rest()
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
            self._state, self._problem = "unconfigured", f"cannot configure: {reason_of(error)}"
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
        groups = check_groups(robot, self.settings)
        self._node_settings.tell("chain.base_link", robot.base_link, "Link in whose frame poses are given.")
        self._node_settings.tell("chain.tip_link", robot.tip_link, "Link that reaches the pose.")
        self._node_settings.tell("chain.joint_names", list(robot.joint_names), "Joints from base to tip.")
        self.get_logger().info(
            f"configured in {time.monotonic() - began:.1f} s: {self._model}, {self._loaded.n_experts} experts, "
            f"{self._loaded.context_kind} context, robot '{robot.name}' from '{robot.base_link}' to '{robot.tip_link}'"
            f", groups: {', '.join(groups) or 'none'}"
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

    # Serving

    def _active_sampler(self) -> Sampler:
        sampler = self._serving
        if sampler is None:
            yet = " yet" if self._state == "configuring" else ""
            raise RequestError(ErrorCode.FAILURE, f"{self.get_name()} is {self._state}, not active{yet}")
        return sampler

    def _replace(self, path: str) -> None:
        """On the loader's thread: load another model and exchange the two."""
        present = self._loaded
        if present is None:
            raise ConfigurationError(f"{self.get_name()} is {self._state}: it must be configured first")
        following = load_replacement(path, present)
        with self._exchange:
            if self._loaded is not present:
                raise ConfigurationError(f"{self.get_name()} became {self._state} meanwhile")
            self._loaded, self._model = following, path
            if self._serving is not None:
                self._serving = following
            self._node_settings.put("model", path)

    def _report(self) -> None:
        facts = {
            "state": self._state,
            "model": self._model or "not loaded",
            **self._service.facts(),
        }
        message = diagnostics(self.get_fully_qualified_name(), self._state, self._problem, facts)
        message.header.stamp = self.get_clock().now().to_msg()
        self._diagnostics.publish(message)
