"""Client of the planar demo for programs that are not nodes themselves, such as `eim demo --planar`.

The client starts and stops the recorder, waits for the demonstrator, and sends trajectories to the simulator.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from std_msgs.msg import String, UInt32
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

from eim_ros.core.errors import ServiceError
from eim_ros.nodes.common.client import ClientNode, Watch
from eim_ros.nodes.common.interfaces import SetTask, StartRecording, TaskStatus
from eim_ros.nodes.common.qos import LATCHED_QOS, SERVICE_QOS
from eim_ros.nodes.planar_simulator.messages import task_request, trajectory_message
from eim_ros.planar import PlanarTask

_PERIOD = 0.02  # [s] polling period


class PlanarClient(ClientNode):
    """Client of the recorder, the demonstrator and the simulator.

    Each method raises `ServiceError` if its request is refused, or if a service or message does not appear in time.
    `wait` is the maximum waiting time for a service or topic to appear [s].
    """

    def __init__(self, wait: float = 60.0) -> None:
        super().__init__("eim_planar")
        self._wait = wait
        self._n_shown = 0
        self._statuses: list[TaskStatus] = []
        self._refusal = ""
        node = self._node
        node.create_subscription(UInt32, "demonstrator/progress", self._take_progress, LATCHED_QOS)
        node.create_subscription(TaskStatus, "planar_simulator/status", self._take_status, 100)
        node.create_subscription(String, "planar_simulator/refused", self._take_refusal, 10)
        self._trajectory = node.create_publisher(JointTrajectory, "joint_trajectory", 10)

    def wait_for_nodes(self, watch: Watch) -> None:
        """Wait without a time limit until recorder, demonstrator and simulator provide their services.

        During the wait, `watch` is called repeatedly with an empty text and the elapsed time [s]. An exception from
        `watch` ends the wait.
        """
        for service_type, name in (
            (StartRecording, "demo_recorder/start"),
            (Trigger, "demonstrator/start"),
            (Trigger, "planar_simulator/reset"),
        ):
            client = self._node.create_client(service_type, name, qos_profile=SERVICE_QOS)
            try:
                self._wait_for(client, math.inf, watch)
            finally:
                self._node.destroy_client(client)

    def start_recording(self, path: str, label: str = "", topics: Sequence[str] = ()) -> None:
        """Make `demo_recorder` record the topics, or its default topics, into a bag at `path`."""
        request = StartRecording.Request(path=path, label=label, topics=list(topics))
        self._call(StartRecording, "demo_recorder/start", request)

    def stop_recording(self) -> None:
        """Stop the recording."""
        self._call(Trigger, "demo_recorder/stop", Trigger.Request())

    def demonstrate(
        self,
        n_motions: int,
        progress: Callable[[int], None],
        check: Callable[[], None] = lambda: None,
        patience: float = 600.0,
    ) -> None:
        """Start the demonstrator and wait until it has shown all motions.

        `progress` is called with the number of motions shown since the last call. `check` is called repeatedly, and may
        raise an error, for example because a node has ended. `patience` is the maximum time between two motions [s].
        Planning may take minutes if other programs use all cores.
        """
        self._call(Trigger, "demonstrator/start", Trigger.Request())
        told, end = 0, time.monotonic() + patience
        while told < n_motions:
            self._executor.spin_once(_PERIOD)
            check()
            self._statuses = []
            if self._n_shown > told:
                progress(self._n_shown - told)
                told, end = self._n_shown, time.monotonic() + patience
            if time.monotonic() > end:
                shown = f"{told} of {n_motions} motions"
                raise ServiceError(
                    f"the demonstrator showed {shown}, but no further motion within {patience} s; see its log"
                )

    def set_task(self, task: PlanarTask) -> None:
        """Give the simulator a task."""
        self._call(SetTask, "planar_simulator/set_task", task_request(task))

    def execute(
        self, joint_names: tuple[str, ...], times: np.ndarray, positions: np.ndarray, patience: float = 30.0
    ) -> TaskStatus:
        """Reset the simulator, execute a trajectory, and return the task status after it.

        The points have times (n,) [s] and positions (n, n_joints) [rad]. `patience` is the maximum time until the end
        of the trajectory [s].
        """
        self._call(Trigger, "planar_simulator/reset", Trigger.Request())
        self._until(
            lambda: self._trajectory.get_subscription_count() > 0, "a simulator that receives trajectories", self._wait
        )
        self._statuses, self._refusal, moved = [], "", False
        self._trajectory.publish(trajectory_message(joint_names, times, positions))
        end = time.monotonic() + patience
        while True:
            self._executor.spin_once(_PERIOD)
            if self._refusal:
                raise ServiceError(f"the simulator refused a trajectory: {self._refusal}")
            for status in self._statuses:
                if moved and not status.moving:
                    return status
                moved = moved or bool(status.moving)
            self._statuses = []
            if time.monotonic() > end:
                raise ServiceError(f"the simulator did not finish a trajectory within {patience} s; see its log")

    def _take_progress(self, message: UInt32) -> None:
        self._n_shown = int(message.data)

    def _take_status(self, message: TaskStatus) -> None:
        self._statuses.append(message)

    def _take_refusal(self, message: String) -> None:
        self._refusal = str(message.data)

    def _call(self, service_type: Any, name: str, request: Any) -> None:
        """Call a service whose response has `success` and `message`."""
        client = self._node.create_client(service_type, name, qos_profile=SERVICE_QOS)
        try:
            self._wait_for(client, self._wait)
            answer = self._answer(client, request, self._wait)
        finally:
            self._node.destroy_client(client)
        if not answer.success:
            raise ServiceError(f"{name.partition('/')[0]}: {answer.message}")
