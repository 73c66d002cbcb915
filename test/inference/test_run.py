"""The loop of all learners: how it ends, what it records, and which data it accepts."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from distributions.random_models import random_mixture_of_experts

from eim_ros.errors import DataError, DistributionError, ModelFileError
from eim_ros.inference import Checkpoint, History, run
from eim_ros.inference.run import checked_data, checked_start
from eim_ros.numerics import Status, write_tensor_file


@dataclass(frozen=True)
class Value:
    """Stands in for a model: the loop only asks it for its tensors."""

    value: float

    def tensors(self):
        return {"value": torch.tensor(self.value, dtype=torch.float64)}


@dataclass(frozen=True)
class CountingState:
    model: Value
    iteration: int = 0
    noise: torch.Tensor = torch.zeros(1)

    def tensors(self):
        return {**self.model.tensors(), "noise": self.noise}


class Counting:
    """Adds one to its value, and, in place, to its noise, as EIM does to its generator and its network."""

    def __init__(self, *, end=math.inf, interrupt_at=None, bad_at=None):
        self.end, self.interrupt_at, self.bad_at = end, interrupt_at, bad_at

    def step(self, state):
        state.noise.add_(1.0)
        if state.iteration == self.interrupt_at:
            raise KeyboardInterrupt
        value = math.nan if state.iteration == self.bad_at else state.model.value + 1.0
        record = {"value": value, "undefined": math.nan}
        return replace(state, model=Value(value), iteration=state.iteration + 1), record

    def restore(self, state, tensors, iteration):
        return CountingState(Value(float(tensors["value"])), iteration, tensors["noise"])

    def finished(self, history):
        return bool(history.records) and history.column("value")[-1] >= self.end


def start() -> CountingState:
    return CountingState(Value(0.0), 0, torch.zeros(1))


def test_run_ends_at_the_given_number_of_iterations():
    result = run(Counting(), start(), 4)
    assert (result.status, result.model.value, result.state.iteration) == (Status.MAX_ITERATIONS, 4.0, 4)
    assert result.history.column("iteration") == [1.0, 2.0, 3.0, 4.0]


def test_run_ends_when_the_algorithm_has_converged():
    result = run(Counting(end=3.0), start(), 10)
    assert (result.status, result.state.iteration) == (Status.CONVERGED, 3)


def test_no_iterations_give_the_start():
    result = run(Counting(), start(), 0)
    assert (result.status, result.model.value, result.history) == (Status.MAX_ITERATIONS, 0.0, History())


def test_step_to_a_non_finite_model_is_dropped_and_named():
    result = run(Counting(bad_at=2), start(), 10)
    assert (result.status, result.model.value, len(result.history.records)) == (Status.NON_FINITE, 2.0, 2)


def test_undefined_figures_do_not_enter_the_history_but_reach_the_callbacks():
    seen = []
    result = run(Counting(), start(), 2, callbacks=[lambda state, record: seen.append(record)])
    assert all("undefined" not in record for record in result.history.records)
    assert all(math.isnan(record["undefined"]) for record in seen)
    assert result.history.column("undefined") == []


def test_callbacks_are_called_in_order_after_each_iteration():
    seen = []
    callbacks = [lambda state, record, name=name: seen.append((name, state.iteration)) for name in "ab"]
    run(Counting(), start(), 2, callbacks=callbacks)
    assert seen == [("a", 1), ("b", 1), ("a", 2), ("b", 2)]


def test_error_of_a_callback_is_not_swallowed():
    def fail(state, record):
        raise RuntimeError("disk full")

    with pytest.raises(RuntimeError, match="disk full"):
        run(Counting(), start(), 2, callbacks=[fail])


def test_interruption_keeps_the_last_complete_iteration():
    result = run(Counting(interrupt_at=3), start(), 10)
    assert (result.status, result.model.value, result.state.iteration) == (Status.INTERRUPTED, 3.0, 3)
    assert len(result.history.records) == 3


def test_interruption_within_a_step_does_not_reach_the_checkpoint(tmp_path):
    """What the interrupted step changed in place is not saved: the resumed run repeats that step from its start."""
    checkpoint = Checkpoint(tmp_path / "run", every=100)
    run(Counting(interrupt_at=3), start(), 6, checkpoint=checkpoint)
    resumed = run(Counting(), start(), 6, checkpoint=checkpoint, resume=True)
    straight = run(Counting(), start(), 6)
    assert torch.equal(resumed.state.noise, straight.state.noise)
    assert resumed.model == straight.model
    assert resumed.history.column("value") == straight.history.column("value")


def test_checkpoint_is_written_every_so_many_iterations_and_at_the_end(tmp_path):
    checkpoint = Checkpoint(tmp_path / "run", every=2)
    saved = []

    def look(state, record):  # called before the iteration's own checkpoint
        saved.append(checkpoint.load()[2] if checkpoint.path.exists() else None)

    run(Counting(), start(), 5, callbacks=[look], checkpoint=checkpoint)
    assert saved == [None, None, 2, 2, 4]
    assert checkpoint.load()[2] == 5


def test_resumed_run_counts_from_its_beginning(tmp_path):
    checkpoint = Checkpoint(tmp_path / "run")
    run(Counting(), start(), 3, checkpoint=checkpoint)
    assert run(Counting(), start(), 5, checkpoint=checkpoint, resume=True).model.value == 5.0
    finished = run(Counting(), start(), 5, checkpoint=checkpoint, resume=True)
    assert (finished.model.value, len(finished.history.records)) == (5.0, 5)


def test_checkpoint_of_another_identity_is_refused(tmp_path):
    run(Counting(), start(), 2, checkpoint=Checkpoint(tmp_path / "run", identity="seed 1"))
    with pytest.raises(ModelFileError, match="other data or settings") as caught:
        run(Counting(), start(), 2, checkpoint=Checkpoint(tmp_path / "run", identity="seed 2"), resume=True)
    assert caught.value.value == "seed 1"


def test_resuming_without_a_checkpoint_is_refused(tmp_path):
    with pytest.raises(ModelFileError, match="cannot read"):
        run(Counting(), start(), 2, checkpoint=Checkpoint(tmp_path / "run"), resume=True)


def test_model_file_is_no_checkpoint(tmp_path):
    write_tensor_file(tmp_path / "run", {"value": torch.zeros(1)}, {}, kind="mixture_of_experts", schema=1)
    with pytest.raises(ModelFileError, match="holds a 'mixture_of_experts', expected a 'checkpoint'"):
        run(Counting(), start(), 2, checkpoint=Checkpoint(tmp_path / "run"), resume=True)


@pytest.mark.parametrize(
    "data", [None, torch.zeros(3, 2), (torch.zeros(3, 2),), (torch.zeros(3, 1),) * 3, {"context": 1, "sample": 2}]
)
def test_data_that_are_no_pair_are_refused(data):
    with pytest.raises(DataError, match="must be a pair"):
        checked_data(data)


@pytest.mark.parametrize(
    ("context", "sample"), [((3, 2), (4, 2)), ((3,), (3, 2)), ((3, 2), (3,)), ((3, 2, 1), (3, 2)), ((), ())]
)
def test_mismatched_shapes_are_refused(context, sample):
    with pytest.raises(DataError, match="matrices of equal length"):
        checked_data((torch.zeros(context), torch.zeros(sample)))


@pytest.mark.parametrize("shape", [(0, 2), (3, 0)])
def test_empty_data_are_refused(shape):
    with pytest.raises(DataError, match="empty"):
        checked_data((torch.zeros(shape[0], 1), torch.zeros(shape)))


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("name", ["context", "sample"])
def test_non_finite_row_is_refused_by_number(name, value):
    parts = {"context": torch.zeros(5, 2), "sample": torch.zeros(5, 3)}
    parts[name][3, 1] = value
    with pytest.raises(DataError, match=f"{name} has NaN or infinite entries in 1 rows, first row 3") as caught:
        checked_data((parts["context"], parts["sample"]))
    assert caught.value.value == 3


@pytest.mark.parametrize("part", [[["a"]], [[1.0], [1.0, 2.0]], [[None]], np.array([[None]])])
def test_data_that_are_no_numbers_are_refused(part):
    with pytest.raises(DataError, match="numbers|NaN"):
        checked_data((part, [[1.0]]))


def test_data_of_any_kind_become_float64():
    rows = [[1, 2], [3, 4]]
    read_only = np.array(rows)
    read_only.flags.writeable = False
    for part in (rows, read_only, np.array(rows, dtype=np.float32)[::-1][::-1], torch.tensor(rows)):
        context, sample = checked_data((part, part))
        assert context.dtype == sample.dtype == torch.float64
        assert context.tolist() == rows


def test_start_takes_the_precision_of_the_data_and_must_fit_them():
    context, sample = torch.zeros(4, 1).double(), torch.zeros(4, 2).double()
    start = random_mixture_of_experts(0, 3, 2, 1)
    assert checked_start(start, context, sample) is start
    assert checked_start(start.to(dtype=torch.float32), context, sample).dtype == torch.float64
    for size in ((3, 1, 1), (3, 2, 2)):
        with pytest.raises(DistributionError, match=r"initial model has .* but the data have \(2, 1\)"):
            checked_start(random_mixture_of_experts(0, *size), context, sample)


def test_reversed_array_is_accepted():
    context, _ = checked_data((np.arange(4.0).reshape(4, 1)[::-1], np.zeros((4, 1))))
    assert context[:, 0].tolist() == [3.0, 2.0, 1.0, 0.0]
