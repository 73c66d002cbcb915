"""EM with weights, restricted covariances, validation data and candidates of starts."""

import numpy as np
import pytest
import torch
from learning.models.random_models import generator_of, normal

from eim_ros.core.errors import ConfigurationError, DataError
from eim_ros.learning import EM
from eim_ros.learning.data import weighted
from eim_ros.learning.em.em import EMIteration, expect, maximised
from eim_ros.learning.starts import initial_mixture_of_experts, likeliest_start


def pairs(n: int = 120) -> tuple[torch.Tensor, torch.Tensor]:
    """Return contexts (n, 1) and samples (n, 2) on two branches."""
    context = normal(generator_of(0), n, 1)
    side = torch.where(torch.arange(n)[:, None] % 2 == 0, 1.0, -1.0)
    return context, torch.cat([side * context + 2.0 * side, context.sin()], -1) + 0.3 * normal(generator_of(1), n, 2)


@pytest.mark.parametrize("weights", [None, np.linspace(0.5, 2.0, 120)], ids=["equal", "weighted"])
@pytest.mark.parametrize("kind", ["full", "diagonal", "tied", "spherical"])
@pytest.mark.parametrize("singular", [False, True])
def test_compact_iteration_equals_the_complete_one(weights, kind, singular):
    sample = pairs()[1]
    if singular:  # the floor raises the variance across the plane
        sample = torch.cat([sample, sample.sum(-1, keepdim=True)], -1)
    data = weighted(sample, np.ones(120) if weights is None else weights)
    config = EM(n_components=3, covariance=kind).config
    fitting = EMIteration.from_data(config, data, None, generator_of(2))
    model = fitting.start(0)
    assert fitting.compact is not None
    quick, log_likelihood = fitting.compact(model)
    standard = fitting.units.standard(model)
    expectation = expect(standard, fitting.joint, weight=data.weight)
    complete, offset = maximised(config, fitting.units, fitting.joint, standard, expectation, data.weight)
    # whitening across the plane multiplies errors of rounding by the inverse of the floor's root, 1000
    assert log_likelihood == pytest.approx(expectation.log_likelihood - offset, abs=1e-9 if singular else 1e-12)
    for name, value in complete.tensors().items():
        torch.testing.assert_close(quick.tensors()[name], value, atol=1e-9, rtol=1e-7 if singular else 1e-9)


@pytest.mark.parametrize("kind", ["diagonal", "tied", "spherical"])
@pytest.mark.parametrize("conditional", [False, True])
def test_restricted_covariances_are_kept_and_never_lower_the_likelihood(kind, conditional):
    data = pairs() if conditional else pairs()[1]
    fit = EM(n_components=3, covariance=kind, tolerance=0.0, n_iterations=30, seed=0).fit(data)
    likelihood = np.array(fit.history.column("log_likelihood"))
    assert np.diff(likelihood).min() > -1e-9  # rounding
    factors = fit.mixture_of_experts.experts.scale_trils
    if kind == "tied":
        torch.testing.assert_close(factors, factors[:1].expand_as(factors))
    else:
        diagonal = torch.diagonal(factors, dim1=-2, dim2=-1)
        assert torch.equal(factors, torch.diag_embed(diagonal))
        assert (float((diagonal - diagonal[:, :1]).abs().max()) < 1e-12) == (kind == "spherical")


def test_weights_count_like_repeated_pairs():
    context, sample = pairs()
    counts = torch.arange(len(sample)) % 3
    start = EM(n_components=2, n_iterations=3, seed=0).fit((context, sample)).model
    learner = EM(tolerance=0.0, n_iterations=30, gating_iterations=50)
    one = learner.fit((context, sample), start, sample_weight=counts)
    other = learner.fit((context.repeat_interleave(counts, 0), sample.repeat_interleave(counts, 0)), start)
    # the iterations of the gating end at different distances from the optimum
    assert one.score((context, sample)) == pytest.approx(other.score((context, sample)), abs=1e-5)


@pytest.mark.parametrize("weights", [np.ones(3), -np.ones(120), np.zeros(120), np.full(120, np.nan)])
def test_wrong_weights_are_refused(weights):
    with pytest.raises(DataError, match="sample_weight"):
        EM(n_components=2).fit(pairs()[1], sample_weight=weights)


def test_networks_with_restricted_covariances_are_refused():
    with pytest.raises(ConfigurationError, match="need linear experts"):
        EM(n_components=2, covariance="tied", expert_kind="neural", n_iterations=1).fit(pairs())


def test_validation_data_of_other_dimensions_are_refused():
    with pytest.raises(DataError, match="columns of the data"):
        EM(n_components=2).fit(pairs()[1], validation_data=pairs()[0])


def test_start_is_the_likeliest_candidate():
    data = weighted(pairs()[1], np.ones(120))
    starts = [likeliest_start(data, 4, n, generator_of(5)) for n in (1, 2, 4)]
    reached = [float(start.log_prob(data.context, data.sample).mean()) for start in starts]
    assert reached == sorted(reached)
    single = initial_mixture_of_experts(data.context, data.sample, 4, generator_of(5))
    torch.testing.assert_close(starts[0].experts.biases, single.experts.biases)
