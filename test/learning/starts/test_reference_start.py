"""Start of EIM among the components of the reference density."""

import torch
from learning.models.random_models import generator_of, normal, random_mixture_of_experts

from eim_ros.learning.eim.eim import closest_start
from eim_ros.learning.models import GaussianMixture, MixtureOfExperts

NOTHING = torch.zeros(100, 0).double()


def mixture(*means: float, deviation: float = 0.5) -> MixtureOfExperts:
    """Equal components on the first axis of the plane."""
    positions = torch.zeros(len(means), 2).double()
    positions[:, 0] = torch.tensor(means)
    factors = deviation * torch.eye(2).double().expand(len(means), 2, 2)
    return MixtureOfExperts.from_mixture(GaussianMixture(torch.zeros(len(means)).double(), positions, factors))


def test_start_lies_on_modes_where_a_fit_averages_over_them():
    reference, average = mixture(-4.0, 0.0, 4.0), mixture(0.0, deviation=3.0)
    start = closest_start(average, reference, NOTHING, generator_of(0))
    assert start.n_components == 1
    means = reference.experts.biases
    assert any(torch.equal(start.experts.biases[0], mean) for mean in means)
    assert float(start.experts.scale_trils[0, 0, 0]) == 0.5


def test_fit_is_kept_where_it_is_closer_than_some_of_the_components():
    """Two modes of two components each: one component is half a mode, log 2 away from both."""
    reference, fitted = mixture(-3.5, -2.5, 2.5, 3.5), mixture(-3.0, 3.0, deviation=0.6)
    start = closest_start(fitted, reference, NOTHING, generator_of(1))
    assert start is fitted


def test_reference_of_no_more_components_leaves_no_choice():
    reference, fitted = mixture(-3.0, 3.0), mixture(-2.0, 2.0)
    assert closest_start(fitted, reference, NOTHING, generator_of(2)) is fitted


def test_gating_of_the_start_is_the_references_among_its_own():
    """With contexts: q(z|y) of the chosen experts, renormalised."""
    reference = random_mixture_of_experts(3, 6, 2, 1)
    far = random_mixture_of_experts(4, 3, 2, 1).tensors()
    far["experts.biases"] = far["experts.biases"] + 50.0
    context = normal(generator_of(5), 200, 1)
    start = closest_start(MixtureOfExperts.from_tensors(far), reference, context, generator_of(6))
    index = [int((reference.experts.biases == bias).all(-1).nonzero()) for bias in start.experts.biases]
    assert len(set(index)) == 3
    expected = torch.log_softmax(reference.gating(context)[:, index], -1)
    torch.testing.assert_close(start.gating(context), expected, rtol=1e-12, atol=1e-12)


def test_component_of_no_weight_may_be_drawn():
    log_weights = torch.tensor([0.0, 0.0, -700.0, -700.0]).double()
    means = torch.tensor([[-3.0], [3.0], [0.0], [1.0]]).double()
    reference = GaussianMixture(log_weights, means, 0.5 * torch.ones(4, 1, 1).double())
    fitted = mixture(0.0, 0.1, 0.2)
    flat = GaussianMixture(torch.zeros(3).double(), torch.full((3, 1), 9.0).double(), torch.ones(3, 1, 1).double())
    start = closest_start(
        MixtureOfExperts.from_mixture(flat), MixtureOfExperts.from_mixture(reference), NOTHING, generator_of(7)
    )
    assert start.n_components == fitted.n_components == 3
