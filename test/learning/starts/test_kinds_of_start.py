"""`start.kind` chooses the start. Without iterations, `fit` returns this start."""

import pytest
import torch

from eim_ros.core.errors import ConfigurationError, DataError
from eim_ros.learning import EIM, EM, EIMConfig
from eim_ros.learning.run import completed

KINDS = ("random", "k-means", "em", "closest")
# A small density of the data for the ratio. Only the start "closest" uses such a density before the first iteration.
SMALL_RATIO = {"ratio.reference.factors": (2.0,), "ratio.reference.starts": 1, "ratio.reference.iterations": 2}
FAIR_RATIO = {"ratio.reference.factors": (1.0, 2.0), "ratio.reference.iterations": 50}


@pytest.fixture(scope="module")
def waves():
    """Return samples of a sine that five lines can follow."""
    generator = torch.Generator().manual_seed(0)
    context = 2.0 * torch.rand(1000, 1, generator=generator, dtype=torch.float64) - 1.0
    noise = 0.1 * torch.randn(1000, 1, generator=generator, dtype=torch.float64)
    return context, (7.85 * context).sin() + noise


def start(data, kind, **settings):
    ratio = FAIR_RATIO if kind == "closest" else SMALL_RATIO
    return completed(EIM(start=kind, n_iterations=0, seed=3, **ratio, **settings).fit(data))


def test_no_iteration_returns_the_start_of_each_kind(waves):
    likelihood = {kind: float(start(waves, kind, n_components=5).log_prob(*waves).mean()) for kind in KINDS}
    assert len(set(likelihood.values())) == len(KINDS)
    assert likelihood["em"] > likelihood["k-means"] > likelihood["random"]


def test_name_of_a_kind_is_short_for_its_setting(waves):
    assert EIM(start="em").config == EIM(EIMConfig().replace(**{"start.kind": "em"})).config
    with pytest.raises(ConfigurationError, match="kind must be one of closest, em, k-means, random, got 'best'"):
        EIM(start="best")


def test_random_start_has_experts_at_samples_and_equal_weights(waves):
    context, sample = waves
    model = start(waves, "random", n_components=4)
    nearest = (model.experts.biases - sample.T).abs().min(-1).values
    assert float(nearest.max()) == 0.0
    assert len(model.experts.biases.unique()) == 4
    torch.testing.assert_close(model.gating(context).exp(), torch.full((1000, 4), 0.25, dtype=torch.float64))
    spread = model.experts.scale_trils[:, 0, 0]
    torch.testing.assert_close(spread, sample.std(correction=0).expand(4), rtol=1e-4, atol=0.0)


def test_single_neural_expert_averages_branches_by_em_only():
    generator = torch.Generator().manual_seed(0)
    context = torch.rand(600, 1, generator=generator, dtype=torch.float64)
    side = torch.where(torch.arange(600)[:, None] % 3 == 0, -1.0, 1.0).double()
    data = (context, side + 0.05 * torch.randn(600, 1, generator=generator, dtype=torch.float64))
    settings = {"n_components": 1, "expert_kind": "neural", "start.em_iterations": 5}
    deviation = {
        kind: float(start(data, kind, **settings).experts(context).scale_tril.mean()) for kind in ("em", "closest")
    }
    assert deviation["em"] > 0.5
    assert deviation["closest"] < 0.2


@pytest.mark.parametrize("kind", ["random", "k-means"])
def test_kind_is_kept_for_a_known_density_and_for_networks(waves, kind):
    target = EIM(target=lambda y, x: -(x**2).sum(-1), start=kind, n_components=3, n_iterations=0, seed=1)
    assert completed(target.fit(waves)).n_components == 3
    assert not start(waves, kind, n_components=3, gating_kind="neural").is_linear


@pytest.mark.parametrize("kind", KINDS)
def test_more_experts_than_samples_are_refused(waves, kind):
    with pytest.raises(DataError, match=r"experts need at least \d+ points"):
        start(tuple(part[:3] for part in waves), kind, n_components=4)


def test_thesis_settings_follow_its_chapter_four(waves):
    config = EIMConfig.thesis(n_components=2, n_iterations=6)
    step = config.m_step
    assert (step.surrogate, step.contexts, step.gating.update) == ("value", "weighted", "refit")
    result = EIM(config, seed=0).fit(waves)
    assert result.history.column("network_used") == [1.0] * 6
    assert config.n_selection_samples == 0
    em = completed(EM(n_components=2, n_iterations=40).fit(waves))
    begun = start(waves, "em", n_components=2)
    assert float(begun.log_prob(*waves).mean()) == pytest.approx(float(em.log_prob(*waves).mean()), abs=0.1)
