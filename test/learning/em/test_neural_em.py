"""EM with neural experts or gating fits data that a linear model cannot follow, and the likelihood rises."""

import math

import pytest
import torch
from learning.models.random_models import generator_of, normal

from eim_ros.core.errors import DataError
from eim_ros.learning import EMConfig
from eim_ros.learning.configs import FamilyConfig
from eim_ros.learning.em import EM
from eim_ros.learning.models import (
    GaussianMixture,
    LinearExperts,
    MixtureOfExperts,
    NeuralExperts,
    NeuralGating,
    SoftmaxGating,
)
from eim_ros.learning.run import Status
from eim_ros.learning.starts import with_networks

NEURAL = {"expert_kind": "neural", "gating_kind": "neural", "networks.layers": (12, 12)}


def uniform(seed: int, n: int) -> torch.Tensor:
    return 2.0 * torch.rand(n, 1, generator=generator_of(seed), dtype=torch.float64) - 1.0


def sine(n: int = 800) -> tuple[torch.Tensor, torch.Tensor]:
    context = uniform(0, n)
    return context, torch.sin(4.0 * context) + 0.1 * normal(generator_of(1), n, 1)


def test_one_neural_expert_follows_a_sine():
    context, sample = sine()
    settings = {"n_components": 1, "n_iterations": 10, "networks.iterations": 40, "networks.l2": 1e-5}
    neural, linear = (
        EM(EMConfig.from_mapping({**settings, **family})).fit((context, sample)) for family in (NEURAL, {})
    )
    assert isinstance(neural.model.experts, NeuralExperts)
    assert isinstance(linear.model.experts, LinearExperts)
    true = -math.log(0.1) - 0.5 * math.log(2.0 * math.pi * math.e)
    assert neural.history.column("log_likelihood")[-1] > true - 0.05
    assert linear.history.column("log_likelihood")[-1] < true - 1.0
    residual = neural.model.experts(context).mean[:, 0] - torch.sin(4.0 * context)
    assert float(residual.square().mean().sqrt()) < 0.03


@pytest.mark.parametrize("family", [{"expert_kind": "neural"}, {"gating_kind": "neural"}, NEURAL])
def test_likelihood_rises_for_every_family(family):
    context, sample = sine(300)
    family = {"networks.layers": (12, 12)} | family
    config = EMConfig.from_mapping(
        {"n_components": 3, "n_iterations": 8, "tolerance": 0.0, "networks.l2": 1e-6, **family}
    )
    result = EM(config).fit((context, sample), generator=generator_of(2))
    values = result.history.column("log_likelihood")
    # the ridge of linear experts and the penalty of networks may lower the likelihood slightly
    assert all(later > earlier - 1e-3 for earlier, later in zip(values, values[1:], strict=False))
    assert values[-1] > values[0] + 0.01
    expected = SoftmaxGating if "gating_kind" not in family else NeuralGating
    assert isinstance(result.model.gating, expected)


def test_two_crossing_curves_get_an_expert_each():
    context = uniform(3, 1500)
    upper = torch.rand(1500, 1, generator=generator_of(4)) < 0.5
    sample = torch.where(upper, 1.0, -1.0) * (1.0 + context**2) + 0.1 * normal(generator_of(5), 1500, 1)
    config = EMConfig.from_mapping(
        {
            "n_components": 2,
            "n_iterations": 15,
            "expert_kind": "neural",
            "networks.layers": (12, 12),
            "networks.l2": 1e-5,
        }
    )
    model = EM(config).fit((context, sample), generator=generator_of(6)).model
    means = model.experts(context).mean[:, :, 0].sort(-1).values
    curve = (1.0 + context**2)[:, 0]
    assert float((means - torch.stack([-curve, curve], -1)).abs().max()) < 0.15


def test_hard_em_raises_its_free_energy():
    context, sample = sine(300)
    config = EMConfig.from_mapping(
        {"n_components": 3, "n_iterations": 6, "tolerance": 0.0, "hard": True, "networks.l2": 1e-6, **NEURAL}
    )
    values = EM(config).fit((context, sample)).history.column("free_energy")
    assert all(later > earlier - 1e-3 for earlier, later in zip(values, values[1:], strict=False))


def test_given_neural_model_is_continued():
    context, sample = sine(300)
    first = EM(EMConfig.from_mapping({"n_components": 1, "n_iterations": 2, "tolerance": 0.0, **NEURAL})).fit(
        (context, sample)
    )
    again = EM(EMConfig(n_iterations=2, tolerance=0.0)).fit((context, sample), first.model)
    assert isinstance(again.model.experts, NeuralExperts)
    assert again.history.column("log_likelihood")[0] > first.history.column("log_likelihood")[0]


def test_duplicated_points_end_at_the_floor_of_variances():
    context = torch.linspace(-1.0, 1.0, 10, dtype=torch.float64).repeat(20).unsqueeze(-1)
    sample = 2.0 * context
    config = EMConfig.from_mapping(
        {"n_components": 1, "n_iterations": 30, "covariance_floor": 1e-4, "networks.l2": 0.0, **NEURAL}
    )
    result = EM(config).fit((context, sample))
    assert result.status in (Status.CONVERGED, Status.MAX_ITERATIONS)
    deviation = result.model.experts(context).scale_tril[:, 0, 0, 0]
    assert float(deviation.min()) > 0.9 * 1e-2 * float(sample.std(correction=0))


def test_networks_start_as_the_linear_model():
    context, sample = sine(300)
    linear = EM(EMConfig(n_components=3, n_iterations=5)).fit((context, sample)).model
    assert isinstance(linear, MixtureOfExperts)
    neural = with_networks(linear, FamilyConfig.from_mapping(NEURAL), context, generator_of(7))
    before, after = linear.experts(context), neural.experts(context)
    torch.testing.assert_close(after.mean, before.mean, rtol=1e-12, atol=1e-12)
    difference = (neural.gating(context).exp() - linear.gating(context).exp()).abs()
    assert float(difference.mean()) < 0.02


def test_more_experts_than_points_are_refused():
    with pytest.raises(DataError, match="5 experts need at least 5 points, got 3"):
        EM(EMConfig.from_mapping({"n_components": 5, **NEURAL})).fit(
            (torch.zeros(3, 1).double(), torch.zeros(3, 1).double())
        )


@pytest.mark.parametrize(
    ("context", "sample"),
    [
        (normal(generator_of(8), 40, 1), torch.ones(40, 2).double()),
        (torch.ones(40, 1).double(), normal(generator_of(9), 40, 2)),
        (torch.zeros(40, 1).double(), torch.zeros(40, 1).double()),
        (torch.zeros(2, 1).double(), torch.zeros(2, 1).double()),
    ],
    ids=["constant samples", "constant contexts", "one point forty times", "two equal points"],
)
def test_degenerate_data_give_finite_parameters(context, sample):
    model = EM(EMConfig.from_mapping({"n_components": 2, "n_iterations": 3, **NEURAL})).fit((context, sample)).model
    assert all(bool(torch.isfinite(value).all()) for value in model.tensors().values())
    assert torch.isfinite(model.log_prob(context, sample)).all()


def test_samples_without_contexts_give_a_gaussian_mixture():
    sample = torch.cat([normal(generator_of(10), 100, 2) - 3.0, normal(generator_of(11), 100, 2) + 3.0])
    model = (
        EM(EMConfig.from_mapping({"n_components": 2, "n_iterations": 5, "networks.l2": 0.0, **NEURAL}))
        .fit(sample)
        .model
    )
    assert isinstance(model, GaussianMixture)
    torch.testing.assert_close(
        model.means.sort(0).values, torch.tensor([[-3.0] * 2, [3.0] * 2]).double(), rtol=0.0, atol=0.4
    )  # four standard errors of a mean of 100 samples
