"""Motion priors are trained from data sets."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from motion.conftest import FAST_EIM
from motion.demonstrated import positions_of, two_ways

from eim_ros.core.data_set import DataSet
from eim_ros.core.errors import DataError
from eim_ros.learning import EIMConfig, EMConfig, RunOptions
from eim_ros.learning.run import Status
from eim_ros.motion import Demonstrations, MotionConfig, MotionPrior, MotionTraining

EM = EMConfig(n_components=2, n_starts=1)


def changed(data_set: DataSet, **values: object) -> DataSet:
    return dataclasses.replace(data_set, description={**data_set.description, **values})


def test_record_says_how_the_prior_was_made() -> None:
    run = MotionTraining(learner=EM, seed=4).run(two_ways(50, 0))
    record = run.model.training
    assert (record["algorithm"], record["seed"], record["n_samples"], record["n_held_out"]) == ("em", 4, 50, 50)
    assert EMConfig.from_mapping(record["config"]) == EM
    assert MotionConfig.from_mapping(record["motion"]) == MotionConfig()
    assert math.isfinite(record["held_out_log_prob"])
    assert run.status is Status.CONVERGED
    assert len(run.model.calibration) == 50  # each demonstration is held out once
    assert run.model.mean_duration == pytest.approx(2.0, abs=0.1)


def test_eim_that_returns_its_start_says_so() -> None:
    # with few motions, the known density has as many experts as the model, and no network corrects this density
    run = MotionTraining(learner=EIMConfig(n_components=6).replace(**{"ratio.estimator": "plug-in"})).run(
        two_ways(60, 0)
    )
    assert run.status is Status.UNCHANGED
    assert run.message.startswith("EIM changed nothing")
    assert run.model.training["status"] == "unchanged"
    assert MotionTraining(learner=EM).run(two_ways(60, 0)).message == ""


@pytest.mark.parametrize(("kind", "follows_one_way"), [(EMConfig, False), (EIMConfig, True)])
def test_single_expert_averages_over_two_ways_by_em_and_follows_one_by_eim(kind: type, follows_one_way: bool) -> None:
    prior = MotionTraining(learner=kind(n_components=1)).run(two_ways(200, 0)).model
    drawn = prior.condition([1.0]).sample(200, torch.Generator().manual_seed(0)).positions
    height = drawn[:, drawn.shape[1] // 2].mean(axis=1) - 0.25  # height of the arc: 1 or -1 on a way
    assert ((np.abs(np.abs(height) - 1.0) < 0.3).mean() > 0.95) == follows_one_way
    assert (np.ptp(np.sign(height)) == 0.0) == follows_one_way


@pytest.mark.parametrize("config", [EM, EIMConfig.from_mapping({"n_components": 2, **FAST_EIM})])
def test_seed_decides_the_prior(config: object) -> None:
    first, again, other = (MotionTraining(learner=config, seed=seed).run(two_ways(60, 0)).model for seed in (1, 1, 2))
    for name, value in first.mixture.tensors().items():
        assert torch.equal(value, again.mixture.tensors()[name])
    assert not torch.equal(first.calibration.log_prob, other.calibration.log_prob)


def test_networks_are_calibrated_by_held_out_demonstrations(tmp_path: Path) -> None:
    learner = EMConfig(n_components=2, expert_kind="neural", n_iterations=3)
    prior = MotionTraining(learner=learner).run(two_ways(60, 0)).model
    assert (prior.training["n_samples"], prior.training["n_held_out"], len(prior.calibration)) == (48, 12, 12)
    prior.save(tmp_path / "prior")  # a prior with fewer coordinates than weights
    positions, context = positions_of(two_ways(5, 1)), two_ways(5, 1).context
    loaded = MotionPrior.load(tmp_path / "prior").score(positions, context)
    np.testing.assert_array_equal(loaded.log_prob, prior.score(positions, context).log_prob)


@pytest.mark.parametrize("basis", ["gaussian", "via-points"])
def test_both_bases_represent_the_motions(basis: str) -> None:
    record = MotionTraining(MotionConfig(basis=basis), EM).run(two_ways(50, 0)).model.training
    assert record["held_out_residual"] < 2e-3  # the height of an arc is 1


def test_two_demonstrations_are_enough_and_one_is_not() -> None:
    training = MotionTraining(learner=EMConfig(n_components=1, n_starts=1))
    prior = training.run(two_ways(2, 0)).model
    assert len(prior.calibration) == 2  # each demonstration is held out once
    with pytest.raises(DataError, match="at least 2 demonstrations, got 1"):
        training.run(two_ways(1, 0))


def test_more_experts_than_demonstrations_are_refused() -> None:
    with pytest.raises(DataError, match="50 experts need at least 50 demonstrations, got 8"):
        MotionTraining(learner=EMConfig(n_components=50)).run(two_ways(10, 0))


def test_equal_demonstrations_give_a_narrow_prior() -> None:
    data_set = two_ways(1, 0)
    same = DataSet(np.repeat(data_set.context, 20, axis=0), np.repeat(data_set.sample, 20, axis=0))
    same = changed(same, **{**data_set.description, "durations": None})
    prior = MotionTraining(learner=EMConfig(n_components=1, n_starts=1)).run(same).model
    samples = prior.condition(same.context[0]).sample(50, torch.Generator().manual_seed(0))
    difference = samples.positions - data_set.sample.reshape(samples.positions.shape[1:])
    assert np.abs(difference).max() < 0.01  # 10 times the noise floor


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"task": "ik"}, "its task is 'ik': create a data set"),
        ({"task": None}, "create a data set of task 'motion'"),
        ({"joint_names": None}, "no valid joint_names"),
        ({"joint_names": ["a", "a", "b"]}, "more than once"),
        ({"joint_names": []}, "joint names"),
        ({"joint_names": ["a", "b"]}, "need 80"),
        ({"n_points": 1}, "at least 2 points"),
        ({"n_points": "many"}, "at least 2 points"),
        ({"n_points": True}, "at least 2 points"),
        ({"durations": [1.0]}, "10 positive durations"),
        ({"durations": [0.0] * 10}, "10 positive durations"),
        ({"durations": "long"}, "must be a list of numbers"),
        ({"context_names": ["a", "b"]}, "has 2 context_names, but 1 columns"),
        ({"lower": [0.0]}, "joint limits"),
        ({"upper": ["a", "b", "c"]}, "must be a list of numbers"),
    ],
)
def test_bad_description_is_refused_with_its_cause(values: dict[str, object], reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        Demonstrations.from_data_set(changed(two_ways(10, 0), **values))


def test_empty_data_set_is_refused() -> None:
    full = two_ways(2, 0)
    with pytest.raises(DataError, match="the data set is empty"):
        Demonstrations.from_data_set(DataSet(full.context[:0], full.sample[:0], full.description))


def test_contexts_without_names_are_numbered() -> None:
    assert Demonstrations.from_data_set(changed(two_ways(3, 0), context_names=None)).context_names == ("context_0",)


def test_checkpoint_continues_to_the_same_prior(tmp_path: Path) -> None:
    data_set, path = two_ways(60, 0), tmp_path / "c"
    config = EIMConfig.from_mapping({"n_components": 2, **FAST_EIM})
    short, whole = (MotionTraining(learner=config.replace(n_iterations=n)) for n in (2, 4))
    short.run(data_set, run=RunOptions(checkpoint=path, checkpoint_every=1))
    resumed = whole.run(data_set, run=RunOptions(checkpoint=path, resume=True)).model
    straight = whole.run(data_set).model
    for name, value in straight.mixture.tensors().items():
        # tensors from a file have another memory layout, so rounding differs
        torch.testing.assert_close(value, resumed.mixture.tensors()[name], rtol=1e-9, atol=1e-9)
