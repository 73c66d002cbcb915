"""`Trainer`: a node whose action `~/train` learns a model from a data set, as `eim train` does, one at a time.

Every training is a process of its own, see `training_process`. A goal is accepted unless another is under way; whatever
is wrong with it is told by its result. Trainings go on when the client leaves.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from pathlib import Path

from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.action.server import ServerGoalHandle
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node

from eim_ros.kinematics import robot_path
from eim_ros.nodes.common.interfaces import Train
from eim_ros.nodes.common.parameters import NodeSettings
from eim_ros.nodes.common.reasons import reason_of
from eim_ros.nodes.trainer.settings import TrainerSettings
from eim_ros.nodes.trainer.training_process import Outcome, Progress, TrainingProcess, training_command
from eim_ros.numerics.output_file import check_outputs

__all__ = ["Trainer"]

_PATIENCE = 0.05  # [s] between two looks at a training: how late a cancel is noticed
_LONGEST_JOIN = 2.0  # [s]
_LARGEST_SEED = 2**31
_LARGEST_COUNT = 2**32 - 1  # what the message can carry


class Trainer(Node):
    """See the module. Raises `ConfigurationError` on an unknown or bad parameter."""

    def __init__(self) -> None:
        super().__init__("trainer")
        self._node_settings = NodeSettings(self, TrainerSettings)
        self._lock = threading.Lock()
        self._busy = False
        self._idle = threading.Event()
        self._idle.set()
        self._closing = threading.Event()
        self._server: ActionServer | None = None

    @property
    def settings(self) -> TrainerSettings:
        """Present values of the parameters."""
        return self._node_settings.current

    def start(self) -> bool:
        """Open the action; it needs an executor of several threads, since a goal keeps one of them."""
        self._server = ActionServer(
            self,
            Train,
            "~/train",
            execute_callback=self._execute,
            goal_callback=self._decide,
            cancel_callback=self._allow_cancel,
            callback_group=ReentrantCallbackGroup(),
        )
        self.get_logger().info("ready to train")
        return True

    def close(self) -> bool:
        """End a training that is under way and destroy the node; False when that takes too long."""
        self._closing.set()
        idle = self._idle.wait(_LONGEST_JOIN)
        if idle:
            if self._server is not None:
                self._server.destroy()
            self.destroy_node()
        return idle

    def _decide(self, goal: Train.Goal) -> GoalResponse:
        with self._lock:
            if self._busy or self._closing.is_set():
                self.get_logger().warning("goal rejected: a training is under way")
                return GoalResponse.REJECT
            self._busy = True
            self._idle.clear()
        return GoalResponse.ACCEPT

    def _allow_cancel(self, goal_handle: ServerGoalHandle) -> CancelResponse:
        return CancelResponse.ACCEPT

    def _execute(self, goal_handle: ServerGoalHandle) -> Train.Result:
        try:
            result = self._train(goal_handle)
        except Exception as error:  # an answer must come, whatever happens
            result = _result(Outcome(False, reason_of(error)))
            with contextlib.suppress(Exception):
                goal_handle.abort()
        finally:
            with self._lock:
                self._busy = False
            self._idle.set()
        if result.success:
            self.get_logger().info(f"wrote {result.model}: {result.status}")
        else:
            self.get_logger().warning(f"no model: {result.message}")
        return result

    def _train(self, goal_handle: ServerGoalHandle) -> Train.Result:
        began = time.monotonic()
        goal = goal_handle.request
        output = goal.output or self._fresh_name(goal.task or "ik", goal.algorithm or "eim")
        robot = robot_path(goal.robot) if goal.robot else None
        check_outputs({"output": output}, {"data": goal.data, "robot": robot})  # a process takes seconds to say so
        command = training_command(
            task=goal.task or "ik",
            data=goal.data,
            algorithm=goal.algorithm or "eim",
            robot=goal.robot,
            output=output,
            settings=goal.settings,
            random_seed=goal.random_seed if goal.random_seed >= 0 else secrets.randbelow(_LARGEST_SEED),
            threads=self.settings.threads,
            device=self.settings.device,
        )
        self.get_logger().info(f"training on {goal.data}, to {output}")
        process = TrainingProcess(command, output)
        told = -1.0
        while not process.wait(_PATIENCE):
            if goal_handle.is_cancel_requested or self._closing.is_set():
                process.end()
                if self._closing.is_set():
                    goal_handle.abort()
                    return _result(Outcome(False, "the node was ended"))
                goal_handle.canceled()
                return _result(Outcome(False, f"canceled while {process.progress.phase}"))
            elapsed = time.monotonic() - began
            if told < 0.0 or elapsed - told >= self.settings.feedback_period:
                told = elapsed
                goal_handle.publish_feedback(_feedback(process.progress, elapsed))
        outcome = process.outcome()
        goal_handle.publish_feedback(_feedback(process.progress, time.monotonic() - began))
        if goal_handle.is_cancel_requested and not outcome.success:
            goal_handle.canceled()
        elif outcome.success:
            goal_handle.succeed()
        else:
            goal_handle.abort()
        return _result(outcome)

    def _fresh_name(self, task: str, algorithm: str) -> str:
        """A path below the folder which tells task, algorithm and time, and at which there is nothing."""
        safe = "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in f"{task}_{algorithm}")[:80]
        stem = f"{safe}_{time.strftime('%Y%m%d-%H%M%S')}"
        path = Path(self.settings.folder) / f"{stem}.safetensors"
        number = 1
        while path.exists():
            number += 1
            path = path.with_name(f"{stem}_{number}.safetensors")
        return str(path)


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
    return Train.Result(
        success=outcome.success,
        message=outcome.message,
        model=outcome.model,
        status=outcome.status,
        metric_names=list(outcome.metrics),
        metrics=list(outcome.metrics.values()),
    )
