"""`PlanarSimulatorNode`: a kinematic simulator of a planar robot that executes trajectories and reports its status.

The node subscribes to joint_trajectory. The node publishes joint_states and tip_pose in each tick, and also ~/status,
~/goal (the ends of the goal line), ~/markers, ~/refused (why a trajectory was refused), robot_description and, if
requested, /clock. The node provides the services ~/reset and ~/set_task. While the node is inactive, simulated time
stops.

The stamp of tick n is the start time plus n / rate. The timer determines only the number of ticks that are due. If the
computer is late, several ticks are executed at once, and none is skipped. While the robot stands still, ticks are
executed in batches of 50 ms. Batches reduce the load of an idle node, because wake-ups of rclpy cause most of this
load.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
from geometry_msgs.msg import PoseStamped
from rclpy.clock import Clock, ClockType
from rclpy.qos import QoSProfile
from rclpy.time import Time
from rclpy.timer import Timer
from rosgraph_msgs.msg import Clock as ClockMessage
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, String
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory
from visualization_msgs.msg import MarkerArray

from eim_ros.nodes.common.interfaces import SetTask, TaskStatus
from eim_ros.nodes.common.messages import seconds
from eim_ros.nodes.common.node import ManagedNode, answered, guarded
from eim_ros.nodes.common.qos import LATCHED_QOS
from eim_ros.nodes.common.service import reason_of
from eim_ros.nodes.planar_simulator import messages
from eim_ros.nodes.planar_simulator.settings import PlanarSimulatorSettings
from eim_ros.planar import PlanarSimulator
from eim_ros.planar.arm import planar_urdf

_MOST_AT_ONCE = 1.0  # [s] maximum delay that is made up for; the excess of a longer delay is skipped
_NANOSECONDS = 1_000_000_000
_IDLE_PERIOD = 0.05  # [s] simulated time between two wake-ups while the robot stands still
_AWAKE = 1.0  # [s] time after a motion or a command before the robot counts as idle
_STATE_QOS = QoSProfile(depth=1000)


class PlanarSimulatorNode(ManagedNode[PlanarSimulatorSettings]):
    """Node that simulates a planar robot."""

    def __init__(self) -> None:
        super().__init__("planar_simulator", PlanarSimulatorSettings, "simulation")
        torch.set_num_threads(1)  # the tensors are too small for several threads
        self._simulator = self._at_start()
        self._epoch = 0  # [ns] stamp of tick 0
        self._began = self._awake_until = 0.0  # [s] monotonic times of tick 0, and of the start of idling
        self._told: Any = None
        self._shown: tuple[Any, Any] = None, None  # configuration and velocity of the last messages
        self._last = JointState(), PoseStamped()  # last messages
        self._next_status = self._next_markers = 0
        self._timer: Timer | None = None
        self._joint_states = self.create_publisher(JointState, "joint_states", _STATE_QOS)
        self._tip = self.create_publisher(PoseStamped, "tip_pose", _STATE_QOS)
        self._status = self.create_publisher(TaskStatus, "~/status", 100)
        self._goal = self.create_publisher(Float64MultiArray, "~/goal", LATCHED_QOS)
        self._markers = self.create_publisher(MarkerArray, "~/markers", 1)
        self._refused = self.create_publisher(String, "~/refused", 10)
        self._description = self.create_publisher(String, "robot_description", LATCHED_QOS)
        told = self.settings.publish_clock
        self._clock_topic = self.create_publisher(ClockMessage, "/clock", _STATE_QOS) if told else None
        self.create_subscription(JointTrajectory, "joint_trajectory", self._receive, 10)
        self.create_service(Trigger, "~/reset", answered(self, self._reset))
        self.create_service(SetTask, "~/set_task", answered(self, self._set_task))

    def configure(self) -> None:
        """Move the robot to its start and publish its description."""
        settings = self.settings
        self._simulator = self._at_start()
        self._description.publish(String(data=planar_urdf(settings.n_links, settings.link_length)))
        self._goal.publish(messages.goal_message(self._simulator.task))
        self.get_logger().info(f"configured: {settings.n_links} links at {settings.rate} Hz")

    def activate(self) -> None:
        settings, simulator = self.settings, self._simulator
        self._began = time.monotonic() - simulator.tick / (settings.rate * settings.speed)
        if not settings.publish_clock:  # with publish_clock, stamps continue from the last stamp
            wall = Clock(clock_type=ClockType.SYSTEM_TIME).now().nanoseconds
            self._epoch = wall - simulator.tick * _NANOSECONDS // settings.rate
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self._timer = self.create_timer(self._period(), guarded(self, self._tick), clock=steady)

    def deactivate(self) -> None:
        self._simulator.execute((), (), ())
        if self._timer is not None:
            self.destroy_timer(self._timer)
            self._timer = None

    def facts(self) -> dict[str, str]:
        simulator = self._simulator
        return {
            "links": str(self.settings.n_links),
            "simulated time [s]": f"{simulator.time:.3f}",
            "moving": str(simulator.outcome.moving).lower(),
        }

    def _at_start(self) -> PlanarSimulator:
        settings = self.settings
        return PlanarSimulator(settings.arm(), settings.task(), settings.rate, settings.start_configuration())

    # Time

    def _tick(self) -> None:
        """Execute the ticks that are due."""
        settings, simulator = self.settings, self._simulator
        due = int((time.monotonic() - self._began) * settings.speed * settings.rate)
        behind = due - simulator.tick
        most = max(1, int(_MOST_AT_ONCE * settings.rate * max(1.0, settings.speed)))
        if behind > most:
            self.get_logger().warning(f"the simulation is {behind / settings.rate:.2f} s late: the delay is skipped")
            late = behind - most
            self._began += late / (settings.rate * settings.speed)
            self._epoch += 0 if settings.publish_clock else late * _NANOSECONDS // settings.rate
            due -= late
        while simulator.tick < due:
            simulator.step()
            self._publish()
        if simulator.outcome.moving:
            self._awake_until = time.monotonic() + _AWAKE
        period = round(self._period() * _NANOSECONDS)
        if self._timer is not None and self._timer.timer_period_ns != period:
            self._timer.timer_period_ns = period
            self._timer.reset()

    def _wake(self) -> None:
        """Execute ticks that are due before a command. Wake up for each tick from now on."""
        self._awake_until = time.monotonic() + _AWAKE
        self._tick()

    def _period(self) -> float:
        """Return the period of the timer [s]."""
        period = 1.0 / (self.settings.rate * self.settings.speed)
        is_idle = time.monotonic() > self._awake_until
        return max(period, _IDLE_PERIOD / self.settings.speed) if is_idle else period

    def _now(self) -> int:
        """Return the stamp of the last tick [ns]."""
        return self._epoch + self._simulator.tick * _NANOSECONDS // self.settings.rate

    def _publish(self) -> None:
        settings, simulator = self.settings, self._simulator
        now = self._now()
        if self._clock_topic is not None:
            self._clock_topic.publish(ClockMessage(clock=_stamp(now)))
        self._publish_state(now)
        outcome = simulator.outcome
        flags = (outcome.reached, outcome.collision, outcome.success, outcome.moving)
        if flags != self._told or simulator.tick >= self._next_status:
            self._told = flags
            self._next_status = simulator.tick + max(1, round(settings.rate * settings.speed / settings.status_rate))
            self._status.publish(messages.status_message(outcome, _stamp(now)))
        if simulator.tick >= self._next_markers:
            self._next_markers = simulator.tick + max(1, round(settings.rate * settings.speed / settings.marker_rate))
            if self._markers.get_subscription_count():  # markers are needed only for display
                self._markers.publish(messages.markers_message(simulator.points, outcome, simulator.task, _stamp(now)))

    def _publish_state(self, now: int) -> None:
        simulator, stamp = self._simulator, _stamp(now)
        if self._shown[0] is not simulator.q or self._shown[1] is not simulator.velocity:
            self._shown = simulator.q, simulator.velocity
            state = messages.joint_state_message(simulator.arm.joint_names, simulator.q, simulator.velocity, stamp)
            self._last = state, messages.tip_message(simulator.points[-1], float(np.sum(simulator.q)), stamp)
        state, tip = self._last
        state.header.stamp = tip.header.stamp = stamp
        self._joint_states.publish(state)
        self._tip.publish(tip)

    # Topics and services

    def _receive(self, message: JointTrajectory) -> None:
        """Execute a trajectory, or publish the reason why it is refused."""
        try:
            self.check_active()
            self._wake()
            stamp = seconds(message.header.stamp)
            delay = stamp - 1e-9 * self._now() if stamp > 0.0 else 0.0
            self._simulator.execute(**messages.trajectory_parts(message), delay=delay)
        except Exception as error:  # an exception must not stop the executor
            reason = reason_of(error)
            self.get_logger().warning(f"trajectory refused: {reason}")
            self._refused.publish(String(data=reason))

    def _reset(self, request: Any, response: Any) -> None:
        self._wake()
        self._simulator.reset()
        response.message = "the robot is at its start"

    def _set_task(self, request: Any, response: Any) -> None:
        self._wake()
        self._simulator.set_task(messages.task_of(request, self.settings.tolerance))
        self._goal.publish(messages.goal_message(self._simulator.task))
        self._told = None


def _stamp(nanoseconds: int) -> Any:
    return Time(nanoseconds=nanoseconds).to_msg()
