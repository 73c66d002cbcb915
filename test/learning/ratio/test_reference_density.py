"""The reference density has as many components as held-out data support, and comes from the best start."""

import math

import pytest
import torch
from learning.models.random_models import generator_of, normal, random_mixture
from learning.toys import bimodal_pairs

from eim_ros.core.parallel import torch_threads
from eim_ros.learning import Pairs
from eim_ros.learning.configs import ReferenceConfig
from eim_ros.learning.data import checked_data
from eim_ros.learning.models import GaussianMixture, MixtureOfExperts
from eim_ros.learning.ratio.choice import best_fit, fit_reference, likelihood, refined


def ring(n: int, seed: int = 0) -> torch.Tensor:
    """Return points with a deviation of 0.1 from a circle of radius 1. No mixture of few components fits them."""
    generator = generator_of(seed)
    angle = 2.0 * math.pi * torch.rand(n, generator=generator, dtype=torch.float64)
    radius = 1.0 + 0.1 * normal(generator, n)
    return torch.stack([radius * angle.cos(), radius * angle.sin()], -1)


def halves(sample: torch.Tensor) -> tuple[Pairs, Pairs]:
    data = checked_data(sample)
    n = 4 * len(data) // 5
    return data[:n], data[n:]


def config(**settings) -> ReferenceConfig:
    return ReferenceConfig.from_mapping({"starts": 2, "iterations": 40, **settings})


def test_number_of_components_grows_where_the_model_has_too_few():
    training, held_out = halves(ring(2000))
    reference = fit_reference(config(), 2, training, held_out, generator_of(1))
    assert reference.n_components >= 6
    few = best_fit(training, held_out, n_components=2, n_starts=2, n_iterations=40, generator=generator_of(1))
    assert likelihood(reference, held_out) > likelihood(few, held_out) + 0.3


def test_number_of_components_stays_where_the_model_has_enough():
    target = GaussianMixture(
        torch.zeros(3).double(), 4.0 * normal(generator_of(2), 3, 2), 0.5 * torch.eye(2).double().expand(3, 2, 2)
    )
    training, held_out = halves(target.sample(3000, generator_of(3)))
    reference = fit_reference(config(factors=(1.0, 2.0, 4.0, 8.0)), 3, training, held_out, generator_of(4))
    assert reference.n_components == 3


def test_candidate_is_kept_where_nothing_is_better():
    target = random_mixture(5, 2, 2)
    training, held_out = halves(target.sample(1000, generator_of(6)))
    candidate = MixtureOfExperts.from_mixture(target)
    found = fit_reference(config(factors=(0.5, 1.0)), 2, training, held_out, generator_of(7), candidate)
    assert likelihood(found, held_out) >= likelihood(candidate, held_out)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_data_bear_few_components(n):
    data = checked_data(ring(n))
    reference = fit_reference(config(), 5, data, data, generator_of(8))
    assert reference.n_components == max(1, n // 2)
    assert math.isfinite(likelihood(reference, data))


def test_limit_holds_beyond_the_models_own_number():
    training, held_out = halves(ring(2000))
    assert fit_reference(config(limit=4), 2, training, held_out, generator_of(9)).n_components <= 4
    assert fit_reference(config(limit=1), 2, training, held_out, generator_of(9)).n_components == 2


def test_several_starts_find_what_one_misses():
    """The likelihood has optima at -2.485 and about -2.44. Half of all single starts end in the lower optimum."""
    training, held_out = halves(random_mixture(31, 5, 2).sample(1000, generator_of(23)))

    def reached(n_starts: int, seed: int) -> float:
        fit = best_fit(
            training, held_out, n_components=5, n_starts=n_starts, n_iterations=100, generator=generator_of(seed)
        )
        return likelihood(fit, training)

    single = [reached(1, seed) for seed in range(6)]
    assert max(single) - min(single) > 0.04
    assert min(reached(6, seed) for seed in range(3)) > max(single) - 0.02


def test_conditional_data_have_a_conditional_reference():
    """The data x = +-2 + y/2 need two experts, although the model has only one."""
    training, held_out = halves(bimodal_pairs(1000))
    reference = fit_reference(config(), 1, training, held_out, generator_of(10))
    assert reference.n_components >= 2
    assert reference.n_context == 1
    # the true density reaches -0.91 nat, from log 2 and the entropy for a deviation of 0.3
    assert likelihood(reference, held_out) > -1.1


def test_number_of_threads_does_not_change_the_reference():
    training, held_out = halves(ring(600))

    def fitted(n: int) -> MixtureOfExperts:
        with torch_threads(n):
            return fit_reference(config(), 3, training, held_out, generator_of(1))

    one, three = fitted(1).tensors(), fitted(3).tensors()
    assert all(torch.equal(one[name], three[name]) for name in one)


def test_refinement_raises_the_likelihood_of_its_data():
    data = checked_data(ring(500))
    few = best_fit(data, data, n_components=5, n_starts=1, n_iterations=2, generator=generator_of(11))
    assert likelihood(refined(few, data, 20), data) > likelihood(few, data)
    assert refined(few, data, 0) is few


def test_model_of_more_components_than_data_can_tell_gets_a_smaller_reference():
    training, held_out = halves(ring(500))
    settings = config(limit=20, starts=1)
    reference = fit_reference(settings, 160, training, held_out, generator_of(9))
    assert reference.n_components <= 40
    large = best_fit(training, held_out, n_components=160, n_starts=1, n_iterations=40, generator=generator_of(9))
    assert likelihood(reference, held_out) > likelihood(large, held_out) + 0.3


def test_many_components_are_fitted_by_truncated_em():
    training, held_out = halves(ring(1500))
    fitted = best_fit(training, held_out, n_components=200, n_starts=1, n_iterations=5, generator=generator_of(10))
    assert fitted.n_components == 200
    assert likelihood(refined(fitted, training, 5), training) > likelihood(fitted, training)
