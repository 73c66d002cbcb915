"""The loop of all learners: how it ends, what it records, and what it returns."""

import math
from dataclasses import dataclass, replace

import pytest
import torch

from eim_ros.core.errors import ModelFileError
from eim_ros.core.files import write_tensor_file
from eim_ros.learning import History, RunOptions
from eim_ros.learning.run import Checkpoint, Status, rests
from eim_ros.learning.run import run_loop as run


@dataclass(frozen=True)
class Value:
    """Imitation of a model, from which the loop needs only tensors."""

    value: float

    def tensors(self):
        return {"value": torch.tensor(self.value, dtype=torch.float64)}


@dataclass(frozen=True)
class CountingState:
    model: Value
    iteration: int = 0

    @property
    def kept(self):
        return self.model

    def tensors(self):
        return self.model.tensors()


class Counting:
    """Algorithm that adds 1 to a value in each iteration."""

    def __init__(self, *, end=math.inf, interrupt_at=None, bad_at=None):
        self.end, self.interrupt_at, self.bad_at = end, interrupt_at, bad_at

    def step(self, state):
        if state.iteration == self.interrupt_at:
            raise KeyboardInterrupt
        value = math.nan if state.iteration == self.bad_at else state.model.value + 1.0
        record = {"value": value, "undefined": math.nan}
        return replace(state, model=Value(value), iteration=state.iteration + 1), record

    def finished(self, history):
        return bool(history.records) and history.column("value")[-1] >= self.end


def start() -> CountingState:
    return CountingState(Value(0.0))


def test_run_ends_at_the_given_number_of_iterations():
    result = run(Counting(), start(), 4)
    assert (result.status, result.state.kept.value, result.state.iteration) == (Status.MAX_ITERATIONS, 4.0, 4)
    assert result.history.column("iteration") == [1.0, 2.0, 3.0, 4.0]


def test_run_ends_when_the_algorithm_has_converged():
    result = run(Counting(end=3.0), start(), 10)
    assert (result.status, result.state.iteration) == (Status.CONVERGED, 3)


def test_no_iterations_give_the_start():
    result = run(Counting(), start(), 0)
    assert (result.status, result.state.kept.value, result.history) == (Status.MAX_ITERATIONS, 0.0, History())


def test_step_to_a_non_finite_model_is_dropped_and_named():
    result = run(Counting(bad_at=2), start(), 10)
    assert (result.status, result.state.kept.value, len(result.history.records)) == (Status.NON_FINITE, 2.0, 2)


def test_undefined_figures_do_not_enter_the_history_but_reach_the_callbacks():
    seen = []
    result = run(Counting(), start(), 2, RunOptions(callbacks=[lambda state, record: seen.append(record)]))
    assert all("undefined" not in record for record in result.history.records)
    assert all(math.isnan(record["undefined"]) for record in seen)
    assert result.history.column("undefined") == []


def test_callbacks_are_called_in_order_after_each_iteration():
    seen = []
    callbacks = [lambda state, record, name=name: seen.append((name, state.iteration)) for name in "ab"]
    run(Counting(), start(), 2, RunOptions(callbacks=callbacks))
    assert seen == [("a", 1), ("b", 1), ("a", 2), ("b", 2)]


def test_error_of_a_callback_is_not_swallowed():
    def fail(state, record):
        raise RuntimeError("disk full")

    with pytest.raises(RuntimeError, match="disk full"):
        run(Counting(), start(), 2, RunOptions(callbacks=[fail]))


def test_interruption_keeps_the_last_complete_iteration():
    result = run(Counting(interrupt_at=3), start(), 10)
    assert (result.status, result.state.kept.value, result.state.iteration) == (Status.INTERRUPTED, 3.0, 3)
    assert len(result.history.records) == 3


def test_checkpoint_is_written_every_so_many_iterations_and_at_the_end(tmp_path):
    saved = RunOptions(checkpoint=tmp_path / "run", checkpoint_every=2)
    seen = []

    def look(state, record):  # called before the checkpoint of the same iteration
        seen.append(Checkpoint(saved.checkpoint).load()[2] if saved.checkpoint.exists() else None)

    run(Counting(), start(), 5, replace(saved, callbacks=[look]))
    assert seen == [None, None, 2, 2, 4]
    assert Checkpoint(saved.checkpoint).load()[2] == 5


def test_resuming_without_a_checkpoint_is_refused(tmp_path):
    with pytest.raises(ModelFileError, match="cannot read"):
        run(Counting(), start(), 2, RunOptions(checkpoint=tmp_path / "run", resume=True))


def test_model_file_is_no_checkpoint(tmp_path):
    write_tensor_file(tmp_path / "run", {"value": torch.zeros(1)}, {}, kind="mixture_of_experts", schema=1)
    with pytest.raises(ModelFileError, match="has kind 'mixture_of_experts', expected 'checkpoint'"):
        run(Counting(), start(), 2, RunOptions(checkpoint=tmp_path / "run", resume=True))


@pytest.mark.parametrize(("first_error", "is_at_rest"), [(1e-2, False), (1e-5, True)])
def test_falling_errors_are_progress_unless_they_are_negligible(first_error: float, is_at_rest: bool):
    errors = [first_error * 0.9**step for step in range(20)]
    assert rests([-1.0] * 20, errors, 10) == is_at_rest
    assert rests([-1.0] * 20, [first_error] * 20, 10)
    assert not rests([-1.0] * 10 + [0.0] * 10, [1e-5] * 20, 10)


def test_a_run_does_not_end_while_a_new_component_lowers_the_objective():
    level, lowered = [-1.0] * 20, -1e100
    assert rests([*level[:3], lowered, *level[4:]], [1e-3] * 20, 10)
    assert not rests([*level[:-1], lowered], [1e-3] * 20, 10)
    rising = [-1.0 - 0.1 * step for step in range(20)][::-1]
    assert not rests([*rising[:-3], lowered, *rising[-2:]], [1e-3] * 20, 10)
