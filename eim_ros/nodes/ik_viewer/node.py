"""`IkViewer`: a lifecycle node that shows all solutions of a target as markers in RViz.

The user drags the interactive marker ~/target, or a program publishes a PoseStamped in any frame of tf on ~/set_target.
The node solves for the newest target, at most `rate` times per second. The node publishes all solutions on ~/solutions
(MarkerArray) and one of them on ~/chosen (JointState).
"""

from __future__ import annotations

import time
from typing import Any

from geometry_msgs.msg import PoseStamped
from sensor_msgs.msg import JointState
from visualization_msgs.msg import InteractiveMarkerFeedback, MarkerArray

from eim_ros.kinematics.links import BodyShape
from eim_ros.nodes.common.frames import BaseFrames, Transforms
from eim_ros.nodes.common.messages import nanoseconds, transform_of
from eim_ros.nodes.common.node import ManagedNode, guarded
from eim_ros.nodes.common.process import PeriodicWork
from eim_ros.nodes.common.qos import LATCHED_QOS
from eim_ros.nodes.common.robot_source import RobotDescription, chain_of, load_sampler
from eim_ros.nodes.ik_viewer.messages import chosen_message, shapes_to_show, solutions_message
from eim_ros.nodes.ik_viewer.target import FollowedTarget, Target, TargetMarker
from eim_ros.nodes.settings import IkViewerSettings
from eim_ros.view.live import LiveSolutions, first_pose


class IkViewer(ManagedNode[IkViewerSettings]):
    """Node that shows the solutions of a target."""

    def __init__(self) -> None:
        super().__init__("ik_viewer", IkViewerSettings, "showing solutions", takes_long=True)
        self._live: LiveSolutions | None = None
        self._shapes: list[BodyShape] = []
        self._target: FollowedTarget | None = None
        self._is_wanted, self._n_solved, self._told = False, 0, ""
        self._description = RobotDescription(self, self.settings)
        self._transforms = Transforms(self) if self.settings.use_tf else None
        self._marker = TargetMarker(self, "~/target", self.settings.target_size, self._drag)
        self._solutions = self.create_publisher(MarkerArray, "~/solutions", LATCHED_QOS)
        self._chosen = self.create_publisher(JointState, "~/chosen", LATCHED_QOS)
        self.create_subscription(PoseStamped, "~/set_target", guarded(self, self._set_target), 10)
        self._solving = PeriodicWork(self, {self._solve: 1.0 / self.settings.rate})

    def configure(self) -> None:
        """Load the robot and, if given, the model."""
        settings = self.settings
        sampler = load_sampler(settings.model, settings, self._description.urdf())
        robot = sampler.robot
        self._shapes = shapes_to_show(robot, settings.use_robot_description_topic)
        self._live = LiveSolutions(sampler, settings.n_solutions, settings.position_only, settings.seed)
        frames = BaseFrames(robot, self._transforms, settings.frame_prefix)
        self._target = FollowedTarget(frames, first_pose(robot), settings.transform_timeout)
        base = "Link in whose frame the target is given: RViz's fixed frame."
        self._node_settings.tell_chain(robot, base, "Link that reaches the target.")
        is_default = not settings.tip_link and sampler.model is None
        self.get_logger().info(f"configured for {chain_of(robot, is_default=is_default)}")

    def activate(self) -> None:
        self._show_marker()
        self._is_wanted = True
        self._solving.start()

    def deactivate(self) -> None:
        """Hide the target. The solutions remain visible."""
        self._solving.stop()
        self._marker.hide()

    def cleanup(self) -> None:
        self._live, self._target, self._shapes = None, None, []

    def end(self, timeout: float) -> bool:
        """End the wait for a robot description."""
        self._description.close()
        return True

    def facts(self) -> dict[str, str]:
        return {
            "robot": self._live.robot.name if self._live is not None else "not loaded",
            "targets solved": str(self._n_solved),
            "last": self._told,
        }

    # Targets

    def _drag(self, message: InteractiveMarkerFeedback) -> None:
        self._take(message, 0)  # ignore the stamp, because the clocks of RViz and tf may differ

    def _set_target(self, message: PoseStamped) -> None:
        self._take(message, nanoseconds(message.header.stamp))

    def _take(self, message: Any, stamp: int) -> None:
        self.check_active()
        assert self._target is not None
        target = Target(transform_of(message.pose), message.header.frame_id.lstrip("/"), stamp)
        if self._target.take(target, time.monotonic()):
            self._moved()

    def _moved(self) -> None:
        assert self._target is not None
        self._marker.move(self._target.pose)
        self._is_wanted = True

    def _show_marker(self) -> None:
        assert self._live is not None and self._target is not None
        frame = self.settings.frame_prefix + self._live.robot.base_link
        self._marker.show(self._target.pose, frame, self.settings.position_only)

    def _solve(self) -> None:
        """Solve and publish if the target or a parameter has changed since the last call."""
        live, settings, target = self._live, self.settings, self._target
        assert live is not None and target is not None
        if target.look(time.monotonic()):
            self._moved()
        wanted = settings.n_solutions, settings.position_only
        if not self._is_wanted and (live.n, live.position_only) == wanted:
            return
        if live.position_only != settings.position_only:
            self._show_marker()
            live.constrain(settings.position_only)
        self._is_wanted, live.n = False, settings.n_solutions
        solutions = live.solve(target.pose)
        stamp = self.get_clock().now().to_msg()
        self._solutions.publish(solutions_message(live.robot, self._shapes, solutions, stamp, settings.frame_prefix))
        self._chosen.publish(chosen_message(live.robot, solutions, stamp))
        self._n_solved, self._told = self._n_solved + 1, solutions.message
