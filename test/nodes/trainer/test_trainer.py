"""Tests of the action `~/train` over DDS: results, feedback, cancellation, busy node, lost clients, bad goals."""

from __future__ import annotations

import itertools
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import rclpy
from action_msgs.msg import GoalStatus
from core.processes import children, wait_for_end
from motion.demonstrated import two_ways
from nodes.server_process import PATIENCE, ServerProcess
from rclpy.action import ActionClient
from rclpy.executors import SingleThreadedExecutor

from eim_ros.action import Train
from eim_ros.core.data_set import save_data_set
from eim_ros.ik import collect
from eim_ros.kinematics import Robot
from eim_ros.motion import MotionPrior

EM = ("n_components=2", "n_starts=1")
ENDLESS = (
    "n_components=2",
    "n_starts=1000000",
    "n_iterations=1000000",
    "tolerance=0",
)  # ends only when rounding stops the progress of EM
NUMBERS = itertools.count()
LONG_START = (
    "n_components=2",
    "motion.calibration_share=0.01",
    "motion.n_functions=80",
)  # cross-validation of many weights is slow


class TrainClient:
    """Client in a separate node, so it can leave at any time."""

    def __init__(self, server: ServerProcess, space: str = "") -> None:
        self._server = server
        self.node = rclpy.create_node(f"train_client_{next(NUMBERS)}")
        self.executor = SingleThreadedExecutor()
        self.executor.add_node(self.node)
        self._client = ActionClient(self.node, Train, f"{space}/trainer/train")
        self.feedback: list[tuple[float, Train.Feedback]] = []
        self._running: list[Any] = []
        end = time.monotonic() + PATIENCE
        while not self._client.server_is_ready():  # rclpy's wait polls only four times per second
            assert server.is_running and time.monotonic() < end, server.log
            time.sleep(0.005)

    def spin(self, future: Any, timeout: float = PATIENCE) -> Any:
        self.executor.spin_until_future_complete(future, timeout)
        assert future.done(), self._server.log
        return future.result()

    def send(self, **goal: Any) -> Any:
        """Send a goal and return its handle."""
        message = Train.Goal(**{"algorithm": "em", "task": "motion", **goal})
        self.feedback.clear()

        def keep(told: Any) -> None:
            self.feedback.append((time.monotonic(), told.feedback))

        goal = self.spin(self._client.send_goal_async(message, feedback_callback=keep))
        if goal.accepted:
            self._running.append(goal)
        return goal

    def wait_for_phase(self, phase: str) -> None:
        end = time.monotonic() + PATIENCE
        while not any(told.phase == phase for _, told in self.feedback):
            self.executor.spin_once(0.05)
            assert time.monotonic() < end, self._server.log

    def result(self, handle: Any) -> tuple[int, Train.Result]:
        answer = self.spin(handle.get_result_async())
        self._running.remove(handle)
        return answer.status, answer.result

    def train(self, **goal: Any) -> tuple[int, Train.Result]:
        handle = self.send(**goal)
        assert handle.accepted
        return self.result(handle)

    def cancel_all(self) -> None:
        """Cancel all trainings, because a training that a failed test has left running would prevent later goals."""
        for goal in [*self._running]:
            self.spin(goal.cancel_goal_async())
            self.result(goal)

    def leave(self) -> None:
        self.executor.shutdown()
        self._client.destroy()
        self.node.destroy_node()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("trainer")


@pytest.fixture(scope="module")
def motions(folder: Path) -> str:
    save_data_set(folder / "motions.npz", two_ways(60, 0))
    return str(folder / "motions.npz")


@pytest.fixture(scope="module")
def server(start_server: Callable[..., ServerProcess], folder: Path) -> ServerProcess:
    return start_server(node="trainer", folder=folder / "models", feedback_period=0.2)


@pytest.fixture
def trainer(ros_environment: None, server: ServerProcess) -> Iterator[TrainClient]:
    client = TrainClient(server)
    yield client
    client.cancel_all()
    client.leave()


def test_goal_gives_a_model_its_status_and_figures(trainer: TrainClient, motions: str, folder: Path) -> None:
    output = folder / "prior.safetensors"
    status, result = trainer.train(data=motions, settings=[*EM], output=str(output), seed=3)
    assert status == GoalStatus.STATUS_SUCCEEDED
    assert (result.success, result.message, result.model, result.status) == (True, "", str(output), "converged")
    figures = dict(zip(result.metric_names, result.metrics, strict=True))
    assert figures["n_samples"] == 60.0
    assert figures["iterations"] >= 1.0
    record = MotionPrior.load(output).training
    assert (record["seed"], record["config"]["n_components"]) == (3, 2)
    assert trainer.feedback[-1][1].phase == "writing"


def test_training_tells_its_progress_rejects_another_goal_and_is_cancelled(
    trainer: TrainClient, server: ServerProcess, motions: str, folder: Path
) -> None:
    handle = trainer.send(data=motions, settings=[*ENDLESS], output=str(folder / "canceled.safetensors"))
    trainer.wait_for_phase("fitting")
    trainer.feedback.clear()
    while len(trainer.feedback) < 5:
        trainer.executor.spin_once(1.0)
    told = [feedback for _, feedback in trainer.feedback]
    assert told[-1].iteration > told[0].iteration
    assert told[-1].n_iterations == 2**32 - 1  # 10^12 does not fit into the message
    assert told[-1].elapsed > told[0].elapsed > 0.0
    assert told[0].ratio_kl != told[0].ratio_kl  # NaN, because EM has no ratio
    assert abs(told[0].entropy) < 1e3
    assert not trainer.send(data=motions, settings=[*EM]).accepted
    trainer.wait_for_phase("fitting")  # the first training continues, and its old feedback has been cleared
    check_cancel(trainer, handle, "fitting", folder)


def check_cancel(trainer: TrainClient, handle: Any, phase: str, folder: Path) -> None:
    """Cancel a training, and check that it leaves no model file."""
    assert trainer.spin(handle.cancel_goal_async()).goals_canceling
    status, result = trainer.result(handle)
    assert status == GoalStatus.STATUS_CANCELED
    assert (result.success, result.message) == (False, f"canceled while {phase}")
    assert not [path.name for path in folder.iterdir() if "canceled" in path.name]


def test_cancel_ends_a_training_that_reads(trainer: TrainClient, motions: str, folder: Path) -> None:
    handle = trainer.send(data=motions, settings=[*ENDLESS], output=str(folder / "canceled.safetensors"))
    assert handle.accepted  # also after a cancelled goal
    trainer.wait_for_phase("reading")
    check_cancel(trainer, handle, "reading", folder)


def test_feedback_comes_also_while_the_start_is_searched(trainer: TrainClient, motions: str, folder: Path) -> None:
    """The search for a start reports no progress, but the node still sends messages with the elapsed time."""
    handle = trainer.send(
        data=motions, algorithm="eim", settings=[*LONG_START], output=str(folder / "canceled.safetensors")
    )
    trainer.wait_for_phase("preparing")
    trainer.feedback.clear()
    while len(trainer.feedback) < 10:
        trainer.executor.spin_once(1.0)
    assert {told.phase for _, told in trainer.feedback} == {"preparing"}
    steps = [later[1].elapsed - sooner[1].elapsed for sooner, later in itertools.pairwise(trainer.feedback)]
    assert sorted(steps)[len(steps) // 2] < 1.0  # median, because a busy machine may delay single messages
    check_cancel(trainer, handle, "preparing", folder)


def test_training_goes_on_when_its_client_leaves(
    trainer: TrainClient, server: ServerProcess, motions: str, folder: Path
) -> None:
    output = folder / "orphan.safetensors"
    guest = TrainClient(server)
    settings = [*EM, "n_iterations=50", "tolerance=0"]
    assert guest.send(data=motions, settings=settings, output=str(output)).accepted
    guest.wait_for_phase("reading")
    guest.leave()
    end = time.monotonic() + PATIENCE
    while not output.exists():
        assert time.monotonic() < end, server.log
        time.sleep(0.05)
    assert MotionPrior.load(output).training["iterations"] > 1
    server.wait_for_log(f"wrote {output}")  # the next goal is rejected before this line


def test_bad_goal_is_answered_with_its_cause(trainer: TrainClient, folder: Path) -> None:
    """Only the fields of the answer are tested. The causes come from `eim train`, which test/cli tests."""
    planar = folder / "planar.npz"
    save_data_set(planar, collect(Robot("planar3"), 60, "position", 0))
    status, result = trainer.train(task="ik", data=str(planar), robot="planar5")
    assert (status, result.success) == (GoalStatus.STATUS_ABORTED, False)
    assert "was collected for robot 'planar3'" in result.message, result.message


def test_mjcf_is_refused_because_it_may_include_any_file(trainer: TrainClient, motions: str, folder: Path) -> None:
    (folder / "arm.xml").write_text("<mujoco><include file='/etc/passwd'/></mujoco>")
    status, result = trainer.train(task="ik", data=motions, robot=str(folder / "arm.xml"))
    assert status == GoalStatus.STATUS_ABORTED
    assert "is MJCF, which is not read for remote callers" in result.message, result.message


def test_output_that_cannot_or_must_not_be_written_is_told_before_a_training_begins(
    trainer: TrainClient, motions: str, folder: Path
) -> None:
    before = Path(motions).read_bytes()
    (folder / "linked").symlink_to(motions)
    for output, cause in (
        (f"{motions}/x", "cannot create folder"),
        (folder / "linked", "it is a data set"),
    ):
        status, result = trainer.train(data=motions, settings=[*EM], output=str(output), overwrite=True)
        assert status == GoalStatus.STATUS_ABORTED
        assert cause in result.message, result.message
        assert not trainer.feedback  # a started process would send at least one message
    assert Path(motions).read_bytes() == before


def test_file_that_appears_at_the_output_during_a_training_is_kept(
    trainer: TrainClient, motions: str, tmp_path: Path
) -> None:
    output = tmp_path / "model.safetensors"
    goal = trainer.send(data=motions, settings=[*EM, "n_iterations=50", "tolerance=0"], output=str(output))
    trainer.wait_for_phase("reading")
    output.write_text("of another client", encoding="utf-8")
    status, result = trainer.result(goal)
    assert (status, result.success) == (GoalStatus.STATUS_ABORTED, False)
    assert "exists" in result.message
    assert [(path.name, path.read_text(encoding="utf-8")) for path in tmp_path.iterdir()] == [
        (output.name, "of another client")
    ]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGKILL, -9)])
def test_node_that_is_ended_or_killed_while_training_ends_the_training(
    start_server: Callable[..., ServerProcess],
    motions: str,
    tmp_path: Path,
    ros_environment: None,
    number: signal.Signals,
    code: int,
) -> None:
    space = f"/ended_by_{number.name}"
    server = start_server("-r", "__node:=trainer", "-r", f"__ns:={space}", node="trainer", folder=tmp_path)
    client = TrainClient(server, space)
    assert client.send(data=motions, settings=[*ENDLESS]).accepted
    client.wait_for_phase("fitting")
    found = children(server.pid, "train")
    assert len(found) == 1
    server.signal(number)
    assert server.wait() == code, server.log
    wait_for_end(found)
    assert not list(tmp_path.iterdir())
    client.leave()
