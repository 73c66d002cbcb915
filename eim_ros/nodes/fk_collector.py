"""`FkCollector`: a lifecycle node that collects pairs of tip pose and configuration and saves them as a data set.

The configurations come from joint states or from sampling. The node provides the services ~/start, ~/stop and ~/save,
and publishes ~/status. Pairs are kept until they have been saved and a new collection begins.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

from eim_ros.core.data_set import save_data_set
from eim_ros.core.errors import DataError
from eim_ros.core.files import check_outputs
from eim_ros.ik.data import PairCollector
from eim_ros.ik.prior import UNIFORM_CONFIGURATIONS
from eim_ros.kinematics import Robot
from eim_ros.nodes.common.interfaces import CollectorStatus, SaveData
from eim_ros.nodes.common.node import ManagedNode, answered
from eim_ros.nodes.common.process import PeriodicWork
from eim_ros.nodes.common.robot_source import RobotDescription, chain_of, load_robot
from eim_ros.nodes.common.subscriptions import RawSubscription, topic_of
from eim_ros.nodes.settings import FkCollectorSettings

_SAMPLING_PERIOD = 0.05  # [s]
_TAKE_PERIOD = 0.02  # [s]
_DISCOVERY_PERIOD = 0.1  # [s] time between two searches for a publisher
_DEPTH = 5000  # maximum number of waiting joint states; 5 s at 1 kHz
_MOST_AT_ONCE = 1000  # maximum number of joint states per read; more would delay services


class FkCollector(ManagedNode[FkCollectorSettings]):
    """Node that collects pairs of tip pose and configuration."""

    def __init__(self) -> None:
        super().__init__("fk_collector", FkCollectorSettings, "collecting", takes_long=True)
        self._robot: Robot | None = None
        self._pairs: PairCollector | None = None
        self._collecting = False
        self._is_saved = True
        self._source = ""
        self._rng = np.random.default_rng(0)
        self._joint_states: RawSubscription | None = None
        self._n_lost = 0  # number of joint states that earlier subscriptions lost
        self._listening = PeriodicWork(self, {self._take: _TAKE_PERIOD, self._discover: _DISCOVERY_PERIOD})
        self._sampling = PeriodicWork(self, {self._sample: _SAMPLING_PERIOD})
        self._telling = PeriodicWork(self, {self._report: self.settings.status_period})
        self._description = RobotDescription(self, self.settings)
        self._status = self.create_publisher(CollectorStatus, "~/status", 10)
        self.create_service(Trigger, "~/start", answered(self, self._start, self._report))
        self.create_service(Trigger, "~/stop", answered(self, self._stop, self._report))
        self.create_service(SaveData, "~/save", answered(self, self._save, self._report))

    def configure(self) -> None:
        """Load the robot."""
        self._robot = robot = load_robot(self.settings, self._description.urdf())
        self._node_settings.tell_chain(robot, "Link in whose frame poses are given.", "Link whose pose is computed.")
        self.get_logger().info(f"configured for {chain_of(robot, is_default=not self.settings.tip_link)}")

    def activate(self) -> None:
        self._telling.start()

    def deactivate(self) -> None:
        """Stop collecting. The pairs can be saved later."""
        self._end()
        self._telling.stop()

    def cleanup(self) -> None:
        self._tell_unsaved()
        self._robot = self._pairs = None
        self._is_saved = True

    def end(self, timeout: float) -> bool:
        """End the wait for a robot description, and log a warning if pairs were not saved."""
        self._description.close()
        self._tell_unsaved()
        return True

    def facts(self) -> dict[str, str]:
        return {
            "robot": self._robot.name if self._robot is not None else "not loaded",
            "collecting": str(self._collecting).lower(),
            "pairs": str(len(self._pairs) if self._pairs is not None else 0),
            "joint states lost": str(self.n_lost),
            "saved": str(self._is_saved).lower(),
        }

    def warning(self) -> str:
        lost = f"{self.n_lost} joint states were lost" if self.n_lost else ""
        return (self._problem_of_pairs() or lost) if self._collecting else ""

    @property
    def n_lost(self) -> int:
        """Number of joint states that were lost during the current collection."""
        return self._n_lost + (self._joint_states.n_lost if self._joint_states is not None else 0)

    def _tell_unsaved(self) -> None:
        if self._pairs and not self._is_saved and len(self._pairs):
            self.get_logger().warning(f"{len(self._pairs)} pairs were not saved")

    # Services

    def _start(self, request: Any, response: Any) -> None:
        if self._collecting:
            raise DataError("a collection is already running: call ~/stop first", None)
        settings = self.settings
        assert self._robot is not None
        goes_on = self._pairs is not None and not self._is_saved and not self._pairs.is_full
        if self._pairs is not None and not self._is_saved and self._pairs.is_full:
            raise DataError(f"{len(self._pairs)} pairs are not saved yet: call ~/save first", len(self._pairs))
        if not goes_on:
            self._pairs = PairCollector(self._robot, settings.context, settings.n_wanted, settings.min_distance)
            self._rng = np.random.default_rng(settings.seed)
            self._source, self._n_lost = settings.source, 0
        if self._source == "joint_states":
            self._discover()
            self._listening.start()
        else:
            self._sampling.start()
        self._collecting, self._is_saved = True, False
        if goes_on and self._pairs is not None:
            response.message = f"the collection continues after {len(self._pairs)} pairs that are not saved yet"

    def _stop(self, request: Any, response: Any) -> None:
        if not self._collecting:
            raise DataError("no collection is running: call ~/start first", None)
        self._take()
        self._end()
        pairs = self._pairs
        assert pairs is not None
        response.message = f"{len(pairs)} pairs were collected; {pairs.n_dropped} joint states were skipped"
        if self.n_lost:
            response.message += f"; {self.n_lost} joint states were lost"
        if not len(pairs) and not pairs.n_dropped and self._source == "joint_states":
            response.message += f"; no message arrived on {self.resolve_topic_name('joint_states')}"
        elif pairs.problem:
            response.message += f"; the last one was skipped because of this problem: {pairs.problem}"

    def _save(self, request: Any, response: Any) -> None:
        if self._pairs is None:
            raise DataError("there are no pairs to save: call ~/start first", None)
        data = self.settings.data
        path = data.resolve(request.path) if request.path else data.chosen(self.settings.output)
        data.check_replaceable(path, ("a data set (.npz)",), request.overwrite)
        check_outputs({"path": path})
        about: dict[str, Any] = {"source": f"forward kinematics, {self._source} collected by {self.get_name()}"}
        if self._source == "sampling":
            about = {"source": UNIFORM_CONFIGURATIONS, "seed": self.settings.seed}
        data_set = self._pairs.data_set(about)
        try:
            save_data_set(path, data_set)
        except OSError as error:
            raise DataError(f"cannot write {path}: {error.strerror or error}", str(path)) from error
        self._is_saved = not self._collecting
        response.path, response.n_samples = str(path), len(data_set)
        self.get_logger().info(f"wrote {len(data_set)} pairs to {path}")

    # Collecting

    def _discover(self) -> None:
        """Subscribe to the joint states if there is a publisher."""
        if self._joint_states is None:
            topic = topic_of(self, self.resolve_topic_name("joint_states"))
            if topic is not None:
                self._joint_states = RawSubscription(self, topic, _DEPTH)

    def _take(self) -> None:
        """Add new joint states, up to the requested number of pairs."""
        pairs, joint_states = self._pairs, self._joint_states
        if pairs is None or joint_states is None:
            return
        for _, _, data in joint_states.take(_MOST_AT_ONCE):
            message = deserialize_message(data, JointState)
            pairs.add_state(message.name, message.position)
            if pairs.is_full:
                break
        if pairs.is_full:
            self._end()

    def _sample(self) -> None:
        pairs = self._pairs
        if not self._collecting or pairs is None:
            return
        pairs.sample(max(1, round(self.settings.rate * _SAMPLING_PERIOD)), self._rng)
        if pairs.is_full:
            self._end()

    def _end(self) -> None:
        self._collecting = False
        self._n_lost = self.n_lost
        joint_states, self._joint_states = self._joint_states, None
        if joint_states is not None:
            joint_states.destroy()
        self._listening.stop()
        self._sampling.stop()

    def _report(self) -> None:
        pairs = self._pairs
        message = CollectorStatus(collecting=self._collecting, n_wanted=self.settings.n_wanted, n_lost=self.n_lost)
        if pairs is not None:
            message.n_samples, message.n_dropped = len(pairs), pairs.n_dropped
            message.n_wanted, message.message = pairs.n_wanted, self._problem_of_pairs()
        message.header.stamp = self.get_clock().now().to_msg()
        self._status.publish(message)

    def _problem_of_pairs(self) -> str:
        """Return a problem of the last joint states: why they were skipped, or that none arrived. Otherwise, return an
        empty text.
        """
        pairs = self._pairs
        if pairs is None:
            return ""
        if self._collecting and self._source == "joint_states" and not len(pairs) and not pairs.n_dropped:
            return f"no message arrived on {self.resolve_topic_name('joint_states')}"
        unheard = self._joint_states.unheard if self._joint_states is not None else ""
        return unheard or str(pairs.problem)
