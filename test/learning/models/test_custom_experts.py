"""EM and EIM fit experts of custom families within bounds, and refuse settings that such families cannot satisfy."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from learning.models.random_models import generator_of
from torch import Tensor

from eim_ros.core.errors import ConfigurationError, DistributionError
from eim_ros.learning import EIM, EM, RunOptions
from eim_ros.learning.models import (
    CustomExperts,
    Gaussian,
    GaussianMixture,
    LinearExperts,
    MixtureOfExperts,
    SoftmaxGating,
    load_model,
    save_model,
)


@dataclass(frozen=True)
class Diagonal:
    """Family of experts with linear means and independent coordinates."""

    slopes: Tensor  # shape (n_components, n_dims, n_context + 1)
    log_scale: Tensor  # (n_components, n_dims)

    n_dims = property(lambda self: self.slopes.shape[1])
    n_context = property(lambda self: self.slopes.shape[2] - 1)

    def select(self, component, context):
        inputs = (
            torch.cat([context, torch.ones_like(context[:, :1])], -1)
            if self.n_context
            else context.new_ones(len(component), 1)
        )
        mean = (self.slopes[component] @ inputs.unsqueeze(-1)).squeeze(-1)
        return Gaussian(mean, torch.diag_embed(self.log_scale.exp())[component])

    def fitted(self, context, sample, weights):
        inputs = torch.cat([context, torch.ones_like(sample[..., :1])], -1)
        weighted = weights.unsqueeze(-1) * inputs
        slopes = torch.linalg.solve(weighted.mT @ inputs, weighted.mT @ sample).mT
        variance = (weights.unsqueeze(-1) * (sample - inputs @ slopes.mT).square()).sum(1)
        return Diagonal(slopes, 0.5 * variance.log())


def experts(n_components=2, n_dims=2, n_context=0, seed=0):
    generator = generator_of(seed)
    shape = (n_components, n_dims, n_context + 1)
    slopes = torch.randn(shape, generator=generator, dtype=torch.float64)
    return CustomExperts(Diagonal(slopes, torch.zeros(n_components, n_dims, dtype=torch.float64)))


def model(*sizes, seed=0):
    custom = experts(*sizes, seed=seed)
    gating = SoftmaxGating(
        torch.zeros(custom.n_components, custom.n_context, dtype=torch.float64),
        torch.zeros(custom.n_components, dtype=torch.float64),
    )
    return MixtureOfExperts(gating, custom)


def linear_of(custom):
    family = custom.family
    return LinearExperts(family.slopes[..., :-1], family.slopes[..., -1], torch.diag_embed(family.log_scale.exp()))


def pairs(n=300, seed=1):
    generator = generator_of(seed)
    context = torch.rand(n, 1, generator=generator, dtype=torch.float64)
    side = 3.0 - 6.0 * (torch.arange(n) % 2).unsqueeze(-1)
    noise = torch.randn(n, 2, generator=generator, dtype=torch.float64)
    return context, torch.cat([side + context, side - context], -1) + 0.3 * noise


def test_densities_scores_and_draws_equal_those_of_linear_experts():
    custom = experts(3, 2, 1)
    linear, (context, sample), component = linear_of(custom), pairs(50), torch.arange(50) % 3
    log_gate = torch.randn(50, 3, generator=generator_of(2), dtype=torch.float64)
    torch.testing.assert_close(custom.log_prob(context, sample), linear.log_prob(context, sample))
    torch.testing.assert_close(custom.score(context, sample, log_gate), linear.score(context, sample, log_gate))
    drawn = [each.select(component, context).sample(generator=generator_of(3)) for each in (custom, linear)]
    torch.testing.assert_close(*drawn)
    index = torch.tensor([2, 0])
    torch.testing.assert_close(custom.take(index).log_prob(context, sample), custom.log_prob(context, sample)[:, index])


def test_em_equals_em_with_diagonal_covariances():
    _, sample = pairs()
    start = model(2, 2, 0, seed=4)
    linear = MixtureOfExperts(start.gating, linear_of(start.experts))
    settings = {"tolerance": 0.0, "n_iterations": 20, "seed": 0}
    found = EM(**settings).fit(sample, start)
    expected = EM(covariance="diagonal", **settings).fit(sample, linear)
    torch.testing.assert_close(found.means, expected.means)
    torch.testing.assert_close(found.covariances, expected.covariances)


def test_em_never_lowers_the_likelihood_of_weighted_pairs():
    data = pairs()
    weight = torch.rand(300, generator=generator_of(5), dtype=torch.float64)
    history = EM(n_iterations=15, tolerance=0.0).fit(data, model(2, 2, 1), sample_weight=weight).history
    values = history.column("log_likelihood")
    assert all(new >= old - 1e-9 for old, new in zip(values, values[1:], strict=False))
    assert values[-1] > values[0] + 1.0


def test_expert_without_weight_keeps_its_parameters():
    custom, (context, sample) = experts(2, 2, 1), pairs(50)
    weights = torch.stack([torch.ones(50), torch.zeros(50)]).double()
    found = custom.refitted(context.expand(2, -1, -1), sample.expand(2, -1, -1), weights)
    assert torch.equal(found.family.slopes[1], custom.family.slopes[1])
    assert not torch.equal(found.family.slopes[0], custom.family.slopes[0])


def test_eim_by_gradients_finds_the_i_projection_of_a_correlated_density():
    """The best diagonal covariance has the conditional variances 1 - 0.8^2. The tolerances allow for noisy steps."""
    target = GaussianMixture.from_covariances([1.0], [[1.0, -1.0]], [[[1.0, 0.8], [0.8, 1.0]]])
    result = EIM(target=target, n_iterations=40, update="unstructured", seed=0).fit(start=model(1, 2, 0))
    assert isinstance(result.mixture_of_experts.experts.family, Diagonal)
    torch.testing.assert_close(result.means, torch.tensor([[1.0, -1.0]]).double(), atol=0.1, rtol=0.0)
    variances = torch.diagonal(result.covariances[0])
    torch.testing.assert_close(variances, torch.full((2,), 0.36).double(), atol=0.05, rtol=0.0)


def test_structured_update_of_eim_is_refused_with_the_remedy():
    with pytest.raises(ConfigurationError, match='set update to "unstructured"'):
        EIM(n_iterations=1).fit(pairs(), model(2, 2, 1))


@pytest.mark.parametrize(
    "learner", [EM(n_iterations=6, tolerance=0.0), EIM(n_iterations=3, update="unstructured", seed=0)]
)
def test_resumed_fit_equals_an_uninterrupted_one(learner, tmp_path):
    data, start = pairs(), model(2, 2, 1)
    whole = learner.fit(data, start, generator=generator_of(7))
    run = {"checkpoint": tmp_path / "c.safetensors"}
    learner.fit(data, start, generator=generator_of(7), run=RunOptions(**run, callbacks=[lambda *_: True]))
    resumed = learner.fit(data, start, generator=generator_of(7), run=RunOptions(**run, resume=True))
    assert len(resumed.history.records) == len(whole.history.records) > 1
    for name, value in whole.mixture_of_experts.tensors().items():
        assert torch.equal(resumed.mixture_of_experts.tensors()[name], value), name


def test_file_of_custom_experts_is_refused_and_a_mixture_of_them_is_saved(tmp_path):
    with pytest.raises(DistributionError, match="a file cannot contain experts of a custom family"):
        save_model(tmp_path / "m.safetensors", model(2, 2, 1))
    result = EM(n_iterations=2).fit(pairs()[1], model())
    result.save(tmp_path / "m.safetensors")
    torch.testing.assert_close(load_model(tmp_path / "m.safetensors")[0].means, result.means)


@dataclass(frozen=True)
class Uneven(Diagonal):
    def __post_init__(self):
        object.__setattr__(self, "log_scale", self.log_scale[:1])


@pytest.mark.parametrize(
    ("family", "message"),
    [
        (Diagonal, "needs n_dims, n_context, select and fitted"),
        (None, "needs n_dims, n_context, select and fitted, got None"),
        (Uneven(torch.zeros(2, 1, 1), torch.zeros(2, 1)), r"type Uneven with tensors of lengths \[1, 2\]"),
        (Diagonal(torch.zeros(2, 1, 1), 0.0), "must be a dataclass of tensors"),
    ],
)
def test_incomplete_family_is_refused(family, message):
    with pytest.raises(DistributionError, match=message):
        CustomExperts(family)


def test_settings_that_need_linear_experts_are_refused():
    with pytest.raises(ConfigurationError, match="diagonal covariances are available only for linear experts"):
        EM(covariance="diagonal").fit(pairs(), model(2, 2, 1))
    with pytest.raises(ConfigurationError, match="set n_starts to 1"):
        EM(n_starts=2).fit(pairs(), model(2, 2, 1))
    with pytest.raises(ConfigurationError, match="only with a linear gating and linear experts"):
        EIM(**{"adaptation.add_every": 2}).fit(pairs(), model(2, 2, 1))
