"""`Demonstrator`: a lifecycle node that drives the planar simulator with motions of an expert or commands of a person.

With the expert, a separate thread plans the motions, and the goal may move to several places. For each motion, the node
resets the robot, sends a label to the recorder, publishes the trajectory, and waits until the motion has ended. The
latched topic ~/progress counts the motions, and the service ~/start starts a new series. `Person` describes the other
mode.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterator
from typing import Any

import torch
from rclpy.duration import Duration
from std_msgs.msg import String, UInt32
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

from eim_ros.core.errors import ServiceError, shortened
from eim_ros.nodes.common.interfaces import LabelRecording, SetTask, TaskStatus
from eim_ros.nodes.common.node import ManagedNode, answered
from eim_ros.nodes.common.process import PeriodicWork
from eim_ros.nodes.common.qos import LATCHED_QOS
from eim_ros.nodes.common.service import reason_of
from eim_ros.nodes.demonstrator.teleoperator import Person
from eim_ros.nodes.planar_simulator.messages import task_request, trajectory_message
from eim_ros.nodes.planar_simulator.settings import DemonstratorSettings
from eim_ros.planar import Expert, PlanarTask
from eim_ros.planar.motions import MotionConfig, Trajectory, draw_motions

_PERIOD = 0.02  # [s] polling period
_WAITING_PERIOD = 0.25  # [s] polling period while a service of another node is missing
_PATIENCE = 10.0  # [s] timeout of a response, of the start of a motion, and of its end after its duration
_LONGEST_DELIVERY = Duration(seconds=5)  # maximum time to deliver the last count of motions
_BATCH = 50  # number of motions planned at a time; a small number shows the first motions soon


class Demonstrator(ManagedNode[DemonstratorSettings]):
    """Node that demonstrates motions of the planar robot."""

    def __init__(self) -> None:
        super().__init__("demonstrator", DemonstratorSettings, "demonstrating")
        torch.set_num_threads(1)
        settings = self.settings
        self._arm, self._tasks = settings.arm(), settings.tasks()
        self._generator = torch.Generator().manual_seed(settings.seed)
        self._work: Iterator[None] | None = None
        self._showing = PeriodicWork(self, {self._go_on: _PERIOD})
        self._waiting = PeriodicWork(self, {self._go_on: _WAITING_PERIOD})  # until a service appears
        self._person: Person | None = None
        self._planner: threading.Thread | None = None
        self._status: TaskStatus | None = None
        self._refused = self._failure = ""
        self._n_shown = self._n_successful = 0
        self._trajectory = self.create_publisher(JointTrajectory, "joint_trajectory", 10)
        name = settings.simulator
        self._set_task = self.create_client(SetTask, f"{name}/set_task")
        self._reset = self.create_client(Trigger, f"{name}/reset")
        self._label = self.create_client(LabelRecording, f"{settings.recorder}/label") if settings.recorder else None
        if settings.driver == "expert":
            self.create_subscription(TaskStatus, f"{name}/status", self._take_status, 100)
            self.create_subscription(String, f"{name}/refused", self._take_refusal, 10)
            self._progress = self.create_publisher(UInt32, "~/progress", LATCHED_QOS)
            self._progress.publish(UInt32(data=0))
            self.create_service(Trigger, "~/start", answered(self, self._start))

    def activate(self) -> None:
        if self.settings.driver == "person":
            self._person = Person(self, self._arm, self.settings.command_timeout, self._trajectory.publish)
            self.get_logger().info("waiting for velocity commands")
        elif self.settings.show_at_start:
            self._begin()

    def deactivate(self) -> None:
        if self._person is not None:
            self._person.close()
            self._person = None
        if self._work is not None and self._moving():
            self._trajectory.publish(JointTrajectory())
        self._finish()

    def end(self, timeout: float) -> bool:
        """Wait for the planner. Return False if it is still running after `timeout` [s]."""
        if self._planner is not None:
            self._planner.join(timeout)
        return self._planner is None or not self._planner.is_alive()

    def facts(self) -> dict[str, str]:
        return {
            "driver": self.settings.driver,
            "showing": str(self._work is not None).lower(),
            "motions shown": str(self._n_shown),
            "motions that succeeded": str(self._n_successful),
        }

    def warning(self) -> str:
        return self._failure

    # `_show` is a coroutine. This coroutine yields when it has to wait, and a timer resumes it.

    def _start(self, request: Any, response: Any) -> None:
        if self._work is not None:
            raise ServiceError("a demonstration is already running: wait until it ends", None)
        self._begin()
        response.message = f"{self.settings.n_motions} motions"

    def _begin(self) -> None:
        self._work, self._failure = self._show(), ""
        self._showing.start()

    def _finish(self) -> None:
        self._work = None
        self._showing.stop()
        self._waiting.stop()

    def _go_on(self) -> None:
        if self._work is None:
            return
        try:
            next(self._work)
        except StopIteration:
            self._finish()
            if self.settings.exit_when_done:
                self._progress.wait_for_all_acked(_LONGEST_DELIVERY)
                raise SystemExit(0) from None
        except Exception as error:  # an exception must not stop the executor
            self._finish()
            self._failure = f"demonstration ended: {reason_of(error)}"
            self.get_logger().error(self._failure)

    def _show(self) -> Generator[None, None, None]:
        self._n_shown = self._n_successful = 0
        settings = self.settings
        for number, task in enumerate(self._tasks, 1):
            if settings.set_task:
                answer = yield from self._answer(self._set_task, task_request(task))
                if not answer.success:
                    raise ServiceError(f"the simulator refused the task: {answer.message}", answer.message)
            last = settings.n_motions * number // len(self._tasks)  # number of motions until the goal moves
            while self._n_shown < last:
                yield from self._tell_label("pause")  # the time for planning is not part of a demonstration
                motions = yield from self._planned(task, min(_BATCH, last - self._n_shown))
                for motion in motions:
                    yield from self._show_one(motion)
        self.get_logger().info(f"done: {self._n_successful} of {self._n_shown} motions succeeded")

    def _show_one(self, motion: Trajectory) -> Generator[None, None, None]:
        yield from self._tell_label("pause")
        yield from self._answer(self._reset, Trigger.Request())
        yield from self._pause(self.settings.pause)  # the recorder must see the robot at rest
        yield from self._tell_label(self.settings.label)
        self._status, self._refused = None, ""
        self._trajectory.publish(trajectory_message(self._arm.joint_names, motion.times, motion.positions))
        latest = time.monotonic() + _PATIENCE
        while not self._moving():
            if self._refused:
                raise ServiceError(f"the simulator refused a trajectory: {self._refused}", self._refused)
            self._check(latest, "the simulator did not begin a trajectory; see its log")
            yield
        # simulated time may be slower than real time
        latest = time.monotonic() + _PATIENCE + 20.0 * float(motion.times[-1])
        while self._moving():
            self._check(latest, "the simulator did not finish a trajectory; see its log")
            yield
        yield from self._tell_label("pause")
        self._n_shown += 1
        self._n_successful += int(self._succeeded())
        self._progress.publish(UInt32(data=self._n_shown))

    def _planned(self, task: PlanarTask, n_motions: int) -> Generator[None, None, list[Trajectory]]:
        """Draw motions on a separate thread. The coroutine returns a list of motions."""
        outcome: list[Any] = []
        expert, start = Expert(self._arm, task), torch.from_numpy(self.settings.start_configuration())
        config = MotionConfig(speed=self.settings.speed_share)

        def draw() -> None:
            try:
                outcome.append(draw_motions(expert, start, n_motions, self._generator, config))
            except Exception as error:
                outcome.append(error)

        self.get_logger().info(f"planning {n_motions} motions")
        self._planner = threading.Thread(target=draw, daemon=True)
        self._planner.start()
        while self._planner.is_alive():
            yield
        if isinstance(outcome[0], Exception):
            raise outcome[0]
        motions: list[Trajectory] = outcome[0]
        return motions

    def _tell_label(self, label: str) -> Generator[None, None, None]:
        if self._label is None:
            return
        answer = yield from self._answer(self._label, LabelRecording.Request(label=label))
        if not answer.success:
            self.get_logger().warning(shortened(f"the recorder: {answer.message}"), throttle_duration_sec=5.0)

    def _answer(self, client: Any, request: Any) -> Generator[None, None, Any]:
        """Wait for a service and call it. The coroutine returns the response."""
        if not client.service_is_ready():
            self.get_logger().info(f"waiting for {client.srv_name}")
            self._showing.stop()
            self._waiting.start()
            while not client.service_is_ready():
                yield
            self._waiting.stop()
            self._showing.start()
        future = client.call_async(request)
        latest = time.monotonic() + _PATIENCE
        while not future.done():
            self._check(latest, f"{client.srv_name} did not answer")
            yield
        return future.result()

    def _pause(self, duration: float) -> Generator[None, None, None]:
        until = time.monotonic() + duration
        while time.monotonic() < until:
            yield

    def _check(self, latest: float, complaint: str) -> None:
        if time.monotonic() > latest:
            raise ServiceError(complaint, None)

    def _moving(self) -> bool:
        return self._status is not None and bool(self._status.moving)

    def _succeeded(self) -> bool:
        return self._status is not None and bool(self._status.success)

    def _take_status(self, message: TaskStatus) -> None:
        self._status = message

    def _take_refusal(self, message: String) -> None:
        self._refused = shortened(str(message.data))
        self.get_logger().warning(f"refused: {self._refused}", throttle_duration_sec=1.0)
