"""A fit that resumes from a checkpoint equals an uninterrupted fit bit by bit."""

import dataclasses
from dataclasses import dataclass, replace
from functools import partial

import pytest
import torch
from learning.gmmvi.problems import three_modes, wide_start
from learning.models.random_models import (
    generator_of,
    normal,
    random_mixture,
    random_mixture_of_experts,
    random_neural_mixture_of_experts,
)
from learning.toys import modes, normal_mixture, pairs_from, small_eim_config, without_times

from eim_ros.core.errors import ModelFileError
from eim_ros.core.files import read_tensor_file
from eim_ros.learning import GMMVI, EIMConfig, EMConfig, ExponentialEM, GMMVIConfig, MultipleCauseEM, RunOptions
from eim_ros.learning.discrete.causes import BinarySparseCoding, NoisyOr
from eim_ros.learning.discrete.families import CategoricalFamily
from eim_ros.learning.eim import EIM
from eim_ros.learning.em import EM, TruncatedEM, TruncatedEMConfig
from eim_ros.learning.ratio import StandardisedInputs
from eim_ros.learning.run import Status
from experiments.bars import noisy_or_bars

DATA = pairs_from(random_mixture_of_experts(0, 3, 2, 1), 200)

LEARNERS = {
    "EM": EM(EMConfig(n_components=3, n_iterations=8, tolerance=0.0)),
    "EIM, network": EIM(small_eim_config(n_iterations=8, **{"ratio.dropout": 0.2})),
    "EIM, plug-in": EIM(
        small_eim_config(n_iterations=8, **{"ratio.estimator": "plug-in", "ratio.reference.iterations": 3})
    ),
    "EIM, residual": EIM(
        small_eim_config(
            n_iterations=8, **{"ratio.estimator": "residual", "ratio.dropout": 0.2, "ratio.reference.iterations": 3}
        )
    ),
    "EIM, values": EIM(small_eim_config(n_iterations=8, **{"m_step.gating.n_samples": 2, "m_step.surrogate": "value"})),
}
CATEGORICAL = torch.randint(2, (300, 3), generator=generator_of(0)).double()
BARS = noisy_or_bars(3).sample(200, generator_of(0))
TRUNCATED = {"n_components": 12, "n_iterations": 8, "tolerance": 0.0, "n_states": 3, "n_neighbours": 4, "n_random": 1}
GROWTH = {
    "adaptation.add_every": 2,
    "adaptation.n_added": 2,
    "adaptation.delete_after": 3,
    "adaptation.least_weight": 0.3,
    "adaptation.max_components": 6,
    "adaptation.least_demand": 0.0,
}
INFERENCE = {
    "n_iterations": 14,
    "reuse_ratio": 1.5,
    "adaptation.add_every": 3,
    "adaptation.delete_after": 4,
    "n_samples": 15,
}
FITS = {  # fits of all learners, and fits with special settings
    **{name: partial(learner.fit, DATA) for name, learner in LEARNERS.items()},
    "EM, three starts": partial(EM(EMConfig(n_components=3, n_iterations=8, n_starts=3, tolerance=0.0)).fit, DATA),
    "EM, validation data": partial(EM(n_components=6, tolerance=0.0, patience=4).fit, DATA, validation_data=DATA),
    **{
        f"truncated EM, {search}": partial(TruncatedEM(TruncatedEMConfig(search=search, **TRUNCATED)).fit, DATA)
        for search in ("full", "partial", "selection")
    },
    "exponential EM": partial(
        ExponentialEM(CategoricalFamily((2, 2, 2)), n_components=3, n_iterations=8, tolerance=0.0).fit, CATEGORICAL
    ),
    **{
        f"multiple causes, {kind.__name__}": partial(
            MultipleCauseEM(n_iterations=8, tolerance=0.0, n_states=8).fit, BARS, kind.start(BARS, 6, generator_of(0))
        )
        for kind in (BinarySparseCoding, NoisyOr)
    },
    "EIM, known density": partial(
        EIM(EIMConfig.known_density(n_iterations=9), target=random_mixture(9, 3, 2)).fit, start=random_mixture(10, 3, 2)
    ),
    "EIM, networks": partial(
        EIM(small_eim_config(n_iterations=6, expert_kind="neural", **{"networks.layers": (8,)})).fit,
        DATA,
        random_neural_mixture_of_experts(0, 2, 2, 1),
    ),
    **{
        f"EIM that grows, {ratio}": partial(
            EIM(small_eim_config(n_components=1, n_iterations=15, **GROWTH, **{"ratio.estimator": ratio})).fit,
            modes().sample(400, generator_of(0)),
            normal_mixture([0.0, 0.0], 200.0),
        )
        for ratio in ("plug-in", "residual", "network")
    },
    **{
        f"GMMVI, {word} {covariance}": partial(
            GMMVI(three_modes(), GMMVIConfig.named(word, covariance=covariance, **INFERENCE)).fit, start=wide_start(3)
        )
        for word in ("SAMTRON", "ZEPYDOG")
        for covariance in ("full", "diagonal")
    },
    **{
        f"GMMVI, {word} with contexts": partial(
            GMMVI(random_mixture_of_experts(2, 2, 2, 1), GMMVIConfig.named(word, n_contexts=40, **INFERENCE)).fit,
            normal(generator_of(1), 60, 1),
            wide_start(3),
        )
        for word in ("SAMTRON", "ZEPYDOG")
    },
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
        # NaN: rewards of the youngest components
        torch.testing.assert_close(found.state.tensors()[name], value, rtol=0.0, atol=0.0, equal_nan=True, msg=name)


@pytest.mark.parametrize(
    ("name", "n_iterations"),
    [
        *((name, 8 if "GMMVI" in name else 5) for name in FITS),
        ("EIM, network", 1),
        ("EM, three starts", 12),
        ("EM, three starts", 17),
    ],
)
def test_resumed_fit_equals_an_uninterrupted_one(tmp_path, name, n_iterations):
    saved = RunOptions(checkpoint=tmp_path / "run", checkpoint_every=3)
    straight = FITS[name](generator=generator_of(1))
    stopped = FITS[name](generator=generator_of(1), run=replace(saved, callbacks=[interrupt_after(n_iterations)]))
    assert (stopped.status, stopped.state.iteration) == (Status.INTERRUPTED, n_iterations)
    resumed = FITS[name](generator=generator_of(1), run=replace(saved, resume=True))
    assert_same(resumed, straight)
    if "grows" in name:
        assert min(sum(straight.history.column(column)) for column in ("added", "deleted")) > 0.0


def test_resumed_fit_of_large_matrices_equals_an_uninterrupted_one(tmp_path):
    """If the order of axes in memory changes, products of large matrices are rounded differently."""
    learner = EM(EMConfig(n_components=20, n_iterations=6, tolerance=0.0))
    data, saved = pairs_from(random_mixture_of_experts(0, 10, 7, 3), 3000), RunOptions(checkpoint=tmp_path / "run")
    straight = learner.fit(data, generator=generator_of(1))
    learner.fit(data, generator=generator_of(1), run=replace(saved, callbacks=[interrupt_after(3)]))
    resumed = learner.fit(data, generator=generator_of(1), run=replace(saved, resume=True))
    assert any(not value.is_contiguous() for value in straight.state.tensors().values())
    assert_same(resumed, straight)


@every_learner
def test_fit_killed_without_notice_goes_on_from_its_last_checkpoint(tmp_path, learner):
    class Killed(Exception):
        pass

    def kill(state, record):
        if state.iteration == 5:
            raise Killed

    saved = RunOptions(checkpoint=tmp_path / "run", checkpoint_every=2)
    with pytest.raises(Killed):
        learner.fit(DATA, generator=generator_of(2), run=replace(saved, callbacks=[kill]))
    assert read_tensor_file(saved.checkpoint, kind="checkpoint", schema=1)[1]["iteration"] == 4
    resumed = learner.fit(DATA, generator=generator_of(2), run=replace(saved, resume=True))
    assert_same(resumed, learner.fit(DATA, generator=generator_of(2)))


@dataclass(frozen=True)
class InterruptedInputs(StandardisedInputs):
    """Inputs that raise KeyboardInterrupt during the training of the classifier in one iteration."""

    calls: list[int] = dataclasses.field(default_factory=list)
    at_iteration: int = -1

    def __call__(self, context, sample, iteration):
        if iteration == self.at_iteration:
            self.calls.append(iteration)
            # at the third call, training has changed the weights, the optimiser and the generator
            if len(self.calls) == 3:
                raise KeyboardInterrupt
        return super().__call__(context, sample, iteration)


def test_interruption_within_an_iteration_repeats_that_iteration(tmp_path):
    plain = StandardisedInputs.from_data(*DATA)
    # without held-out pairs, each iteration uses the network, even if it is useless
    config = small_eim_config(n_iterations=6, **{"ratio.dropout": 0.2, "ratio.validation_share": 0.0})
    saved = RunOptions(checkpoint=tmp_path / "run", checkpoint_every=100)
    broken = EIM(config, InterruptedInputs(plain.center, plain.scale, at_iteration=4))
    stopped = broken.fit(DATA, generator=generator_of(3), run=saved)
    assert (stopped.status, stopped.state.iteration) == (Status.INTERRUPTED, 4)
    resumed = EIM(config, plain).fit(DATA, generator=generator_of(3), run=replace(saved, resume=True))
    assert_same(resumed, EIM(config, plain).fit(DATA, generator=generator_of(3)))


@every_learner
def test_finished_fit_is_loaded_and_not_repeated(tmp_path, learner):
    saved = RunOptions(checkpoint=tmp_path / "run")
    first = learner.fit(DATA, generator=generator_of(4), run=saved)
    again = learner.fit(
        DATA, generator=generator_of(4), run=replace(saved, callbacks=[interrupt_after(8)], resume=True)
    )
    assert_same(again, first)


@every_learner
def test_checkpoint_of_another_run_is_refused(tmp_path, learner):
    saved = RunOptions(checkpoint=tmp_path / "run")
    learner.fit(DATA, generator=generator_of(5), run=saved)
    with pytest.raises(ModelFileError, match="other data or settings"):
        learner.fit(DATA, generator=generator_of(6), run=replace(saved, resume=True))


def test_checkpoint_of_other_settings_is_refused_and_of_more_iterations_is_not(tmp_path):
    saved = RunOptions(checkpoint=tmp_path / "run")
    config = EMConfig(n_components=3, n_iterations=4, tolerance=0.0)
    EM(config).fit(DATA, generator=generator_of(8), run=saved)
    with pytest.raises(ModelFileError, match="other data or settings"):
        EM(config, n_components=2).fit(DATA, generator=generator_of(8), run=replace(saved, resume=True))
    with pytest.raises(ModelFileError, match="other data or settings"):
        EM(config).fit(tuple(part[1:] for part in DATA), generator=generator_of(8), run=replace(saved, resume=True))
    longer = EM(config, n_iterations=6).fit(DATA, generator=generator_of(8), run=replace(saved, resume=True))
    assert_same(longer, EM(config, n_iterations=6).fit(DATA, generator=generator_of(8)))
