"""Learners take settings by keyword, as an object, or both. Unknown settings are refused with a suggestion."""

import numpy as np
import pytest
import torch
from learning.models.random_models import generator_of, normal, random_mixture

from eim_ros.core.errors import ConfigurationError, DistributionError
from eim_ros.learning import EIMConfig, EMConfig, MultipleCauseEMConfig
from eim_ros.learning.eim import EIM
from eim_ros.learning.em import EM, TruncatedEM, TruncatedEMConfig

TARGET = random_mixture(0, 2, 2)
LEARNERS = {
    "EM": (EM, EMConfig),
    "TruncatedEM": (TruncatedEM, TruncatedEMConfig),
    "EIM": (EIM, EIMConfig),
    "EIM, known": (lambda *args, **settings: EIM(*args, target=TARGET, **settings), EIMConfig.known_density),
}
QUICK = {
    EMConfig: {"n_components": 3, "n_iterations": 2},
    TruncatedEMConfig: {"n_components": 3, "n_iterations": 2},
    EIMConfig: {
        "n_components": 2,
        "n_iterations": 1,
        "start.n_starts": 1,
        "start.em_iterations": 1,
        "ratio.estimator": "plug-in",
        "ratio.reference.starts": 1,
        "ratio.reference.iterations": 2,
    },
    EIMConfig.known_density: {"n_components": 2, "n_iterations": 1, "start.n_starts": 1, "start.em_iterations": 1},
}
every_learner = pytest.mark.parametrize(("learner", "kind"), LEARNERS.values(), ids=LEARNERS)


@every_learner
def test_settings_are_keywords_or_an_object_or_both(learner, kind):
    config = kind(n_components=7, n_iterations=3)
    assert learner().config == kind()
    assert learner(config).config is learner(config=config).config is config
    assert learner(n_components=7, n_iterations=3).config == config
    assert learner(config, n_iterations=5).config == kind(n_components=7, n_iterations=5)


@every_learner
def test_seed_is_that_of_the_generator(learner, kind):
    sample = normal(generator_of(1), 80, 2)
    config = kind().replace(**QUICK[kind])
    by_seed, by_generator, other = (
        learner(config, seed=5).fit(sample).means,
        learner(config).fit(sample, generator=generator_of(5)).means,
        learner(config).fit(sample).means,
    )
    if kind is not TruncatedEMConfig:  # TruncatedEM draws a seed of another generator
        assert torch.equal(by_seed, by_generator)
    assert torch.equal(by_seed, learner(seed=5, **QUICK[kind]).fit(sample).means)
    assert not torch.equal(by_seed, other)


@pytest.mark.parametrize(
    ("kind", "setting"),
    [
        (EMConfig, {"n_starts": 0}),
        (EMConfig, {"covariance_floor": -1e-9}),
        (EMConfig, {"hard": 1}),
        (EMConfig, {"n_components": 0}),
        (EMConfig, {"tolerance": -1.0}),
        (EMConfig, {"expert_kind": "cubic"}),
        (TruncatedEMConfig, {"n_states": 0}),
        (TruncatedEMConfig, {"search": "none"}),
        (TruncatedEMConfig, {"n_neighbours": 0}),
        (TruncatedEMConfig, {"n_selected": 0}),
        (MultipleCauseEMConfig, {"n_states": 0}),
        (MultipleCauseEMConfig, {"n_variations": -1}),
        (MultipleCauseEMConfig, {"patience": 0}),
        (EIMConfig, {"ratio.auxiliary.n_states": -1}),
        (EIMConfig, {"ratio.auxiliary.exact_below": -1}),
        (EIMConfig, {"adaptation.add_every": -1}),
        (EIMConfig, {"adaptation.n_added": 0}),
        (EIMConfig, {"adaptation.max_components": 0}),
        (EIMConfig, {"adaptation.delete_after": -1}),
        (EIMConfig, {"adaptation.least_demand": -0.1}),
    ],
    ids=str,
)
def test_setting_out_of_bounds_is_refused_by_name(kind, setting):
    with pytest.raises(ConfigurationError, match=next(iter(setting))):
        kind.from_mapping(setting)


@every_learner
@pytest.mark.parametrize(
    "config", [10, "n_components=10", {"n_components": 10}, RuntimeError, MultipleCauseEMConfig()], ids=str
)
def test_config_that_is_none_is_refused(learner, kind, config):
    with pytest.raises(ConfigurationError, match=kind().__class__.__name__):
        learner(config)


@every_learner
@pytest.mark.parametrize("seed", [-1, 1.5, "3", None, True])
def test_seed_that_is_none_is_refused(learner, kind, seed):
    with pytest.raises(ConfigurationError, match="seed must be a non-negative integer"):
        learner(seed=seed)


@every_learner
def test_context_and_sample_as_two_arguments_are_refused_with_the_cure(learner, kind):
    context, sample = normal(generator_of(2), 50, 1), normal(generator_of(3), 50, 2)
    with pytest.raises(DistributionError, match=r"fit\(\(context, sample\)\)"):
        learner(n_components=2).fit(sample, context)
    with pytest.raises(DistributionError, match=r"fit\(\(context, sample\)\)"):
        learner(n_components=2).fit(context.numpy(), sample.numpy())


@every_learner
def test_seed_in_the_place_of_a_generator_is_refused(learner, kind):
    with pytest.raises(ConfigurationError, match="generator must be a torch.Generator"):
        learner(n_components=2).fit(normal(generator_of(3), 50, 2), generator=3)


@every_learner
def test_arrays_and_tensors_give_the_same(learner, kind):
    sample = normal(generator_of(3), 80, 2)
    first, second = (learner(**QUICK[kind]).fit(data).means for data in (sample, sample.numpy()))
    assert torch.equal(first, second)
    assert np.isfinite(first.numpy()).all()
