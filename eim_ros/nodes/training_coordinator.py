"""`TrainingCoordinator`: a lifecycle node that makes other nodes train and load a model of inverse kinematics.

When the node is active, it executes these steps and logs their progress:

1. `fk_collector` collects pairs of pose and configuration and saves them, or `eim import` reads them from a recording.
2. `trainer` trains a model on the pairs, by conditional EIM with the forward kinematics as inputs of the density ratio.
3. `ik_server` loads the model with `~/load_model`.

Then the process ends with exit code 0. If a step fails, the node logs the reason and the process ends with exit code 1.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, TypeVar

from lifecycle_msgs.srv import GetState
from rclpy.action import ActionClient
from rclpy.client import Client
from std_srvs.srv import Trigger

from eim_ros.core.child_process import tied
from eim_ros.core.errors import DataError, ServiceError
from eim_ros.nodes.common.interfaces import CollectorStatus, LoadModel, SaveData, Train
from eim_ros.nodes.common.node import ManagedNode
from eim_ros.nodes.common.process import PeriodicWork
from eim_ros.nodes.common.qos import SERVICE_QOS
from eim_ros.nodes.common.service import reason_of
from eim_ros.nodes.settings import TrainingCoordinatorSettings

_PERIOD = 0.05  # [s] polling period
_STATE_PATIENCE = 2.0  # [s] timeout of a request for a state; the request is repeated afterwards
_PATIENCE = 120.0  # [s] timeout of other responses, and maximum time without a report of progress
_GRACE = 1.0  # [s] time between SIGTERM and SIGKILL for the import

ResultT = TypeVar("ResultT")
Steps = Generator[None, None, ResultT]
"""Coroutine that yields when it has to wait. A timer resumes it."""


class TrainingCoordinator(ManagedNode[TrainingCoordinatorSettings]):
    """Node that coordinates the training of a model."""

    def __init__(self) -> None:
        super().__init__("training_coordinator", TrainingCoordinatorSettings, "coordinating")
        settings = self.settings
        self._work: Iterator[None] | None = None
        self._working = PeriodicWork(self, {self._go_on: _PERIOD})
        self._step = "none"
        self._reported = 0.0
        self._status = CollectorStatus()
        self._feedback = Train.Feedback()
        self._heard = 0.0  # time of `time.monotonic` of the last progress of another node [s]
        self._import: subprocess.Popen[bytes] | None = None
        nodes = [settings.trainer, settings.server]
        if not settings.bag:
            nodes.insert(0, settings.collector)
            self._start = self.create_client(Trigger, f"{settings.collector}/start")
            self._save = self.create_client(SaveData, f"{settings.collector}/save")
            self.create_subscription(CollectorStatus, f"{settings.collector}/status", self._take_status, 10)
        self._states = {name: self.create_client(GetState, f"{name}/get_state") for name in nodes}
        self._train_action = ActionClient(self, Train, f"{settings.trainer}/train")
        self._load = self.create_client(LoadModel, f"{settings.server}/load_model", qos_profile=SERVICE_QOS)

    def configure(self) -> None:
        """Check that the folder lies in the data directory."""
        self.settings.data.resolve(self.settings.folder)

    def activate(self) -> None:
        """Begin with the first step."""
        self._work = self._learn()
        self._working.start()

    def deactivate(self) -> None:
        """Do not start further steps. A running training continues."""
        self._finish()

    def end(self, timeout: float) -> bool:
        """End a running import."""
        self._finish()
        return True

    def facts(self) -> dict[str, str]:
        """Return the current step for `/diagnostics`."""
        return {"step": self._step}

    def _finish(self) -> None:
        self._work, self._step = None, "none"
        self._working.stop()
        process, self._import = self._import, None
        if process is not None and process.poll() is None:
            process.terminate()
            try:
                process.wait(_GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _go_on(self) -> None:
        if self._work is None:
            return
        try:
            next(self._work)
        except StopIteration:
            self._finish()
            raise SystemExit(0) from None
        except Exception as error:  # the process must report any failure by its exit code
            step = self._step
            self._finish()
            self.get_logger().error(f"{step} failed: {reason_of(error)}")
            raise SystemExit(1) from None

    # Steps

    def _learn(self) -> Steps[None]:
        began = time.monotonic()
        data = yield from (self._imported() if self.settings.bag else self._collected())
        model = yield from self._trained(data)
        server = self.settings.server
        yield from self._wait_until_active(server)
        self._enter("loading")
        answer = yield from self._answer(self._load, LoadModel.Request(path=model))
        if not answer.success:
            raise ServiceError(f"{server} refused {model}: {answer.message}", answer.message)
        self.get_logger().info(f"{server} has loaded {model}, {time.monotonic() - began:.0f} s after the start")

    def _collected(self) -> Steps[str]:
        """Make the collector collect and save pairs. The coroutine returns the path of the data set."""
        collector = self.settings.collector
        yield from self._wait_until_active(collector)
        self._enter("collecting")
        answer = yield from self._answer(self._start, Trigger.Request())
        if not answer.success:
            raise ServiceError(f"{collector} did not start: {answer.message}", answer.message)
        self._status, self._heard = CollectorStatus(), time.monotonic()
        while not 0 < self._status.n_wanted <= self._status.n_samples:
            told = f"{self._status.n_samples} of {self._status.n_wanted} pairs"
            self._report(", ".join(filter(None, (told, self._status.message))))
            _check(self._heard + _PATIENCE, f"{collector} does not collect pairs")
            yield
        saved = yield from self._answer(self._save, SaveData.Request(path=self._data_path, overwrite=True))
        if not saved.success:
            raise ServiceError(f"{collector} did not save the pairs: {saved.message}", saved.message)
        if saved.n_samples < self._status.n_wanted:  # the status belongs to an earlier collection
            raise DataError(
                f"{collector} saved only {saved.n_samples} of {self._status.n_wanted} pairs; see its log",
                saved.n_samples,
            )
        self.get_logger().info(f"collecting: {saved.n_samples} pairs are in {saved.path}")
        return str(saved.path)

    def _imported(self) -> Steps[str]:
        """Import the recording. The coroutine returns the path of the data set."""
        self._enter("importing")
        settings = self.settings
        path = settings.data.resolve(self._data_path)
        settings.data.check_replaceable(path, ("a data set (.npz)",), overwrite=True)
        flags = {"robot": settings.robot, "base": settings.base_link, "tip": settings.tip_link}
        flags |= {"context": settings.context, "output": str(path), "task": "ik"}
        words = [f"--{name}={value}" for name, value in flags.items() if value]
        words += [f"--package-path={folder}" for folder in settings.package_paths.split(os.pathsep) if folder]
        command = [
            sys.executable,
            "-m",
            "eim_ros.cli.main",
            "import",
            *words,
            "--",
            str(settings.data.chosen(settings.bag)),
        ]
        with tempfile.TemporaryFile() as complaints:
            self._import = subprocess.Popen(tied(command), stderr=complaints)
            while self._import.poll() is None:
                yield
            if self._import.returncode:
                complaints.seek(0)
                told = complaints.read().decode(errors="replace").strip().removeprefix("eim import: ")
                raise DataError(told or f"exit code {self._import.returncode}", settings.bag)
        return str(path)

    def _trained(self, data: str) -> Steps[str]:
        """Make the trainer train a model. The coroutine returns the path of the model."""
        settings = self.settings
        trainer = settings.trainer
        yield from self._wait_until_active(trainer)
        self._enter("training")
        latest = time.monotonic() + _PATIENCE
        while not self._train_action.server_is_ready():
            _check(latest, f"the node {trainer} has no action train; check that it is a trainer")
            yield
        goal = Train.Goal(task="ik", data=data, settings=list(settings.settings), seed=settings.seed)
        handle = yield from _result(
            self._train_action.send_goal_async(goal, feedback_callback=self._take_feedback),
            f"{trainer} did not answer",
        )
        if not handle.accepted:
            raise ServiceError(f"{trainer} rejected the goal; see its log", trainer)
        future = handle.get_result_async()
        self._heard = time.monotonic()
        while not future.done():
            told = self._feedback
            self._report(f"{told.phase}, iteration {told.iteration} of {told.n_iterations}, {told.elapsed:.0f} s")
            _check(self._heard + _PATIENCE, f"{trainer} has not reported progress for {_PATIENCE:.0f} s")
            yield
        result = future.result().result
        if not result.success:
            raise DataError(f"the training returned no model: {result.message}", result.message)
        self.get_logger().info(f"training: {result.status}, the model is {result.model}")
        return str(result.model)

    @property
    def _data_path(self) -> str:
        return str(Path(self.settings.folder, "train.npz"))

    # Waiting

    def _wait_until_active(self, name: str) -> Steps[None]:
        self._step = f"waiting for {name}"
        client, state = self._states[name], ""
        while state != "active":
            self._report(state or "silent")
            if state == "finalized":
                raise ServiceError(f"{name} was shut down", state)
            state = yield from _state(client)

    def _answer(self, client: Client, request: Any) -> Steps[Any]:
        """Call a service. The coroutine returns the response."""
        latest = time.monotonic() + _PATIENCE
        while not client.service_is_ready():
            _check(latest, f"there is no service {client.srv_name}")
            yield
        return (yield from _result(client.call_async(request), f"{client.srv_name} did not answer"))

    def _enter(self, step: str) -> None:
        self._step, self._reported = step, time.monotonic()
        self.get_logger().info(f"{step} ...")

    def _report(self, progress: str) -> None:
        """Log the progress of the current step if the last report is old enough."""
        if time.monotonic() - self._reported >= self.settings.report_period:
            self._reported = time.monotonic()
            self.get_logger().info(f"{self._step}: {progress}")

    def _take_status(self, message: CollectorStatus) -> None:
        self._status = message
        if message.collecting:
            self._heard = time.monotonic()

    def _take_feedback(self, message: Any) -> None:
        self._feedback, self._heard = message.feedback, time.monotonic()


def _state(client: Client) -> Steps[str]:
    """Request a lifecycle state. The coroutine returns its name, or an empty text without a response."""
    yield
    if not client.service_is_ready():
        return ""
    future, latest = client.call_async(GetState.Request()), time.monotonic() + _STATE_PATIENCE
    while not future.done():
        if time.monotonic() > latest:
            client.remove_pending_request(future)
            return ""
        yield
    return str(future.result().current_state.label)


def _result(future: Any, complaint: str) -> Steps[Any]:
    """Wait for a future. The coroutine returns the result of the future."""
    latest = time.monotonic() + _PATIENCE
    while not future.done():
        _check(latest, f"{complaint} within {_PATIENCE:.0f} s")
        yield
    return future.result()


def _check(latest: float, complaint: str) -> None:
    if time.monotonic() > latest:
        raise ServiceError(complaint, None)
