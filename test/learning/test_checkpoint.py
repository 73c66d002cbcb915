"""Checkpoints of the learners: an interrupted fit that is resumed equals one that was not, bit by bit."""

import dataclasses
from dataclasses import dataclass

import pytest
import torch
from learning.models.random_models import generator_of, random_mixture_of_experts
from learning.toys import pairs_from, small_eim_config, without_times

from eim_ros.core.errors import ModelFileError
from eim_ros.learning import Checkpoint, EMConfig
from eim_ros.learning.eim import EIM
from eim_ros.learning.em import EM
from eim_ros.learning.ratio import StandardisedInputs
from eim_ros.learning.run import Status

DATA = pairs_from(random_mixture_of_experts(0, 3, 2, 1), 200)

LEARNERS = {
    "EM": EM(EMConfig(n_components=3, n_iterations=8, tolerance=0.0)),
    "EIM, network": EIM(small_eim_config(n_iterations=8, dropout=0.2)),
    "EIM, plug-in": EIM(small_eim_config(n_iterations=8, ratio="plug-in", reference_iterations=3)),
    "EIM, residual": EIM(small_eim_config(n_iterations=8, ratio="residual", dropout=0.2, reference_iterations=3)),
    "EIM, values": EIM(small_eim_config(n_iterations=8, n_gating_samples=2, surrogate="value")),
}
every_learner = pytest.mark.parametrize("learner", LEARNERS.values(), ids=LEARNERS.keys())


def interrupt_after(n_iterations):
    def callback(state, record):
        if state.iteration == n_iterations:
            raise KeyboardInterrupt

    return callback


def assert_same(found, expected):
    assert found.status == expected.status
    assert without_times(found.history) == without_times(expected.history)
    for name, value in expected.state.tensors().items():
        assert torch.equal(found.state.tensors()[name], value), name


@every_learner
@pytest.mark.parametrize("n_iterations", [1, 5])
def test_resumed_fit_equals_an_uninterrupted_one(tmp_path, learner, n_iterations):
    checkpoint = Checkpoint(tmp_path / "run", every=3)
    straight = learner.fit(DATA, generator=generator_of(1))
    stopped = learner.fit(
        DATA, generator=generator_of(1), callbacks=[interrupt_after(n_iterations)], checkpoint=checkpoint
    )
    assert (stopped.status, stopped.state.iteration) == (Status.INTERRUPTED, n_iterations)
    resumed = learner.fit(DATA, generator=generator_of(1), checkpoint=checkpoint, resume=True)
    assert_same(resumed, straight)


@every_learner
def test_fit_killed_without_notice_goes_on_from_its_last_checkpoint(tmp_path, learner):
    class Killed(Exception):
        pass

    def kill(state, record):
        if state.iteration == 5:
            raise Killed

    checkpoint = Checkpoint(tmp_path / "run", every=2)
    with pytest.raises(Killed):
        learner.fit(DATA, generator=generator_of(2), callbacks=[kill], checkpoint=checkpoint)
    assert checkpoint.load()[2] == 4
    resumed = learner.fit(DATA, generator=generator_of(2), checkpoint=checkpoint, resume=True)
    assert_same(resumed, learner.fit(DATA, generator=generator_of(2)))


@dataclass(frozen=True)
class InterruptedInputs(StandardisedInputs):
    """Ctrl-C in the middle of an iteration's work on the classifier."""

    calls: list[int] = dataclasses.field(default_factory=list)
    at_iteration: int = -1

    def __call__(self, context, sample, iteration):
        if iteration == self.at_iteration:
            self.calls.append(iteration)
            if len(self.calls) == 3:  # the classifier is trained already: weights, optimiser, generator have moved on
                raise KeyboardInterrupt
        return super().__call__(context, sample, iteration)


def test_interruption_within_an_iteration_repeats_that_iteration(tmp_path):
    plain = StandardisedInputs.from_data(*DATA)
    # with nothing held out the network is used in each iteration, and not only where held-out pairs bear it out
    config = small_eim_config(n_iterations=6, dropout=0.2, validation_share=0.0)
    checkpoint = Checkpoint(tmp_path / "run", every=100)
    broken = EIM(config, InterruptedInputs(plain.center, plain.scale, at_iteration=4))
    stopped = broken.fit(DATA, generator=generator_of(3), checkpoint=checkpoint)
    assert (stopped.status, stopped.state.iteration) == (Status.INTERRUPTED, 4)
    resumed = EIM(config, plain).fit(DATA, generator=generator_of(3), checkpoint=checkpoint, resume=True)
    assert_same(resumed, EIM(config, plain).fit(DATA, generator=generator_of(3)))


@every_learner
def test_finished_fit_is_loaded_and_not_repeated(tmp_path, learner):
    checkpoint = Checkpoint(tmp_path / "run")
    first = learner.fit(DATA, generator=generator_of(4), checkpoint=checkpoint)
    again = learner.fit(
        DATA, generator=generator_of(4), callbacks=[interrupt_after(8)], checkpoint=checkpoint, resume=True
    )
    assert_same(again, first)


@every_learner
def test_checkpoint_of_another_run_is_refused(tmp_path, learner):
    learner.fit(DATA, generator=generator_of(5), checkpoint=Checkpoint(tmp_path / "run", identity="a"))
    with pytest.raises(ModelFileError, match="other data or settings"):
        learner.fit(DATA, generator=generator_of(5), checkpoint=Checkpoint(tmp_path / "run", identity="b"), resume=True)


def test_checkpoint_does_not_disturb_the_fit(tmp_path):
    learner = LEARNERS["EIM, network"]
    with_one = learner.fit(DATA, generator=generator_of(6), checkpoint=Checkpoint(tmp_path / "run", every=1))
    assert_same(with_one, learner.fit(DATA, generator=generator_of(6)))


def test_damaged_checkpoint_is_refused(tmp_path):
    checkpoint = Checkpoint(tmp_path / "run")
    LEARNERS["EM"].fit(DATA, generator=generator_of(7), checkpoint=checkpoint)
    content = checkpoint.path.read_bytes()
    checkpoint.path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ModelFileError, match="truncated"):
        LEARNERS["EM"].fit(DATA, generator=generator_of(7), checkpoint=checkpoint, resume=True)
