"""`Trainer`: a lifecycle node whose action `~/train` trains a model on a data set, as `eim train` does.

Each training runs in a separate process; see `training_process`. The node accepts a goal if it is active and no other
training is running. If a goal is invalid, its result contains the error. A training continues if the client exits.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import secrets
import threading
import time
from pathlib import Path

from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.action.server import ServerGoalHandle
from rclpy.callback_groups import ReentrantCallbackGroup

from eim_ros.core.errors import RobotError
from eim_ros.core.files import check_outputs, temporary_beside
from eim_ros.kinematics import SHIPPED_ROBOTS, robot_path
from eim_ros.kinematics.mjcf import is_mjcf
from eim_ros.nodes.common.interfaces import Train
from eim_ros.nodes.common.node import ManagedNode
from eim_ros.nodes.common.service import reason_of
from eim_ros.nodes.settings import TrainerSettings
from eim_ros.nodes.trainer.training_process import Outcome, Progress, TrainingProcess, training_command

_PATIENCE = 0.05  # [s] polling period of a training, and maximum delay of a cancellation
_LARGEST_SEED = 2**31
_LARGEST_COUNT = 2**32 - 1  # maximum of a uint32 field of the message
_KINDS = {  # kinds of files that a training may replace, in the words of `described_file`
    "ik": ("the file of a mixture of experts (.safetensors)", "the file of a gaussian mixture (.safetensors)"),
    "motion": ("the file of a motion prior (.safetensors)",),
}


class Trainer(ManagedNode[TrainerSettings]):
    """Node that trains models."""

    def __init__(self) -> None:
        super().__init__("trainer", TrainerSettings, "training")
        self._lock = threading.Lock()
        self._busy = False
        self._idle = threading.Event()
        self._idle.set()
        self._giving_up = threading.Event()
        self._n_trained = self._n_failed = 0
        self._phase = ""
        self._server = ActionServer(  # needs a multi-threaded executor; a goal occupies one thread
            self,
            Train,
            "~/train",
            execute_callback=self._execute,
            goal_callback=self._decide,
            cancel_callback=self._allow_cancel,
            callback_group=ReentrantCallbackGroup(),
        )

    def activate(self) -> None:
        self._giving_up.clear()

    def cleanup(self) -> None:
        """End the current training. The training would continue if the node were only deactivated."""
        self._giving_up.set()

    def end(self, timeout: float) -> bool:
        """End the current training. Return False if it is still running after `timeout` [s]."""
        self._giving_up.set()
        idle = self._idle.wait(timeout)
        if idle:
            self._server.destroy()
        return idle

    def facts(self) -> dict[str, str]:
        return {
            "training": self._phase if self._busy else "none",
            "models written": str(self._n_trained),
            "trainings without a model": str(self._n_failed),
        }

    def _decide(self, goal: Train.Goal) -> GoalResponse:
        with self._lock:
            reason = self.inactivity or ("another training is running" if self._busy else "")
            if reason:
                self.get_logger().warning(f"goal rejected: {reason}")
                return GoalResponse.REJECT
            self._busy = True
            self._idle.clear()
        return GoalResponse.ACCEPT

    def _allow_cancel(self, goal_handle: ServerGoalHandle) -> CancelResponse:
        return CancelResponse.ACCEPT

    def _execute(self, goal_handle: ServerGoalHandle) -> Train.Result:
        try:
            result = self._train(goal_handle)
        except Exception as error:  # the client must get a result even after an unexpected error
            result = _result(Outcome(False, reason_of(error)))
            with contextlib.suppress(Exception):
                goal_handle.abort()
        finally:
            with self._lock:
                self._busy = False
            self._idle.set()
        self._n_trained += int(result.success)
        self._n_failed += int(not result.success)
        if result.success:
            self.get_logger().info(f"wrote {result.model}: {result.status}. {result.message}".removesuffix(". "))
        else:
            self.get_logger().warning(f"no model: {result.message}")
        return result

    def _train(self, goal_handle: ServerGoalHandle) -> Train.Result:
        began, self._phase = time.monotonic(), "starting"
        goal = goal_handle.request
        task, files = goal.task or "ik", self.settings.data
        data, robot = files.readable(goal.data), self._robot_file(goal.robot)
        output = files.resolve(goal.output) if goal.output else self._fresh_path(task, goal.algorithm or "eim")
        files.check_replaceable(output, _KINDS.get(task, ()), goal.overwrite)
        check_outputs({"output": output})  # the process would need seconds to report an error
        command = training_command(
            task=task,
            data=str(data),
            algorithm=goal.algorithm or "eim",
            robot=str(robot or ""),
            output=str(draft := temporary_beside(output)),
            settings=goal.settings,
            seed=goal.seed if goal.seed >= 0 else secrets.randbelow(_LARGEST_SEED),
            threads=self.settings.threads,
            device=self.settings.device,
        )
        self.get_logger().info(f"training on {data}; the model will be {output}")
        try:
            outcome = self._watched(TrainingProcess(command, str(draft)), goal_handle, began)
            if outcome.model:
                # the file may have changed since the first check
                files.check_replaceable(output, _KINDS.get(task, ()), goal.overwrite)
                os.replace(draft, output)
                outcome = dataclasses.replace(outcome, model=str(output))
        finally:
            draft.unlink(missing_ok=True)
        if goal_handle.is_cancel_requested and not outcome.success and not self._giving_up.is_set():
            goal_handle.canceled()
        elif outcome.success:
            goal_handle.succeed()
        else:
            goal_handle.abort()
        return _result(outcome)

    def _watched(self, process: TrainingProcess, goal_handle: ServerGoalHandle, began: float) -> Outcome:
        """Publish feedback until the training ends. End it if the goal is cancelled or the node shuts down."""
        told = -1.0
        while not process.wait(_PATIENCE):
            self._phase = process.progress.phase
            if goal_handle.is_cancel_requested or self._giving_up.is_set():
                process.end()
                is_ending = self._giving_up.is_set()
                return Outcome(
                    False, "the node was shut down" if is_ending else f"canceled while {process.progress.phase}"
                )
            elapsed = time.monotonic() - began
            if told < 0.0 or elapsed - told >= self.settings.feedback_period:
                told = elapsed
                goal_handle.publish_feedback(_feedback(process.progress, elapsed))
        outcome = process.outcome()
        goal_handle.publish_feedback(_feedback(process.progress, time.monotonic() - began))
        return outcome

    def _robot_file(self, robot: str) -> Path | None:
        """Return the path of the URDF of a robot, given by name or path, or None if `robot` is empty."""
        if not robot:
            return None
        if robot in SHIPPED_ROBOTS:
            return robot_path(robot)
        path = self.settings.data.readable(robot)
        if ".xacro" in path.name:  # xacro macros can include any file and evaluate Python
            raise RobotError(
                f"{path} is a xacro file, which is not expanded for remote callers: give a URDF (xacro FILE > "
                "robot.urdf)",
                robot,
            )
        if is_mjcf(path.read_bytes()):  # MJCF can include any file too
            raise RobotError(f"{path} is MJCF, which is not read for remote callers: give a URDF", robot)
        return path

    def _fresh_path(self, task: str, algorithm: str) -> Path:
        """Return an unused path in the folder, named after the task, the algorithm and the current time."""
        safe = "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in f"{task}_{algorithm}")[:80]
        stem = f"{safe}_{time.strftime('%Y%m%d-%H%M%S')}"
        return self.settings.data.unused(self.settings.folder, stem, ".safetensors")


def _feedback(progress: Progress, elapsed: float) -> Train.Feedback:
    return Train.Feedback(
        phase=str(progress.phase),
        iteration=min(int(progress.iteration), _LARGEST_COUNT),
        n_iterations=min(int(progress.n_iterations), _LARGEST_COUNT),
        ratio_kl=float(progress.ratio_kl),
        update_kl=float(progress.update_kl),
        entropy=float(progress.entropy),
        elapsed=float(elapsed),
    )


def _result(outcome: Outcome) -> Train.Result:
    fields = dataclasses.asdict(outcome)
    metrics = fields.pop("metrics")
    return Train.Result(**fields, metric_names=list(metrics), metrics=list(metrics.values()))
