"""Steps of networks are cut where the new parameters exceed a bound, each expert on its own, and only there."""

import math

import pytest
import torch
from learning.models.random_models import generator_of, normal, random_network, random_neural_experts

from eim_ros.learning.models import NeuralExperts
from eim_ros.learning.projections import shorten_step


def problem() -> tuple[NeuralExperts, NeuralExperts, torch.Tensor]:
    old = random_neural_experts(0, 3, 2, 1)
    other = random_network(7, 3, 1, 5)
    moved = NeuralExperts(old.base, type(other)(old.network.center, old.network.scale, other.weights, other.biases))
    return old, moved, normal(generator_of(1), 3, 25, 1)


def divergences(new: NeuralExperts, old: NeuralExperts, context: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    first, second = new.local(context), old.local(context)
    return first.kl(second).mean(-1), (first.entropy() - second.entropy()).mean(-1)


@pytest.mark.parametrize(("kl_bound", "entropy_loss_bound"), [(0.01, 10.0), (10.0, 0.01), (1e-6, 1e-6), (0.05, 0.05)])
def test_bounds_hold_for_the_new_parameters(kl_bound, entropy_loss_bound):
    old, new, context = problem()
    step = shorten_step(old, new, context, kl_bound, entropy_loss_bound)
    kl, change = divergences(step.experts, old, context)
    torch.testing.assert_close(step.kl, kl, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(step.entropy_change, change, rtol=1e-9, atol=1e-12)
    assert (kl <= kl_bound).all()
    assert (change >= -entropy_loss_bound).all()
    assert (step.fraction > 0.0).all()


def test_most_of_the_kl_bound_is_used():
    step = shorten_step(*problem(), 0.01, math.inf)
    assert (step.fraction < 1.0).all()
    assert (step.kl > 0.003).all()


def test_step_within_the_bounds_is_taken_as_it_is():
    old, new, context = problem()
    step = shorten_step(old, new, context, math.inf, math.inf)
    assert (step.fraction == 1.0).all()
    assert all(torch.equal(value, new.tensors()[name]) for name, value in step.experts.tensors().items())


def test_each_expert_has_a_fraction_of_its_own():
    old, new, context = problem()
    together = shorten_step(old, new, context, 0.01, 0.05)
    assert len(set(together.fraction.tolist())) == 3
    weights = [torch.cat([old.network.weights[i][:1], new.network.weights[i][1:]]) for i in range(3)]
    biases = [torch.cat([old.network.biases[i][:1], new.network.biases[i][1:]]) for i in range(3)]
    network = type(new.network)(new.network.center, new.network.scale, tuple(weights), tuple(biases))
    step = shorten_step(old, NeuralExperts(old.base, network), context, 0.01, 0.05)
    torch.testing.assert_close(step.fraction[1:], together.fraction[1:], rtol=1e-12, atol=0.0)
    assert float(step.fraction[0]) == 1.0  # no step at all needs no cut


def test_step_to_absurd_parameters_is_refused():
    """Deviations of exp(1e4) are not finite: the expert stays, and the others go on."""
    old, new, context = problem()
    biases = [value.clone() for value in new.network.biases]
    biases[-1][1] = 1e6
    network = type(new.network)(new.network.center, new.network.scale, new.network.weights, tuple(biases))
    step = shorten_step(old, NeuralExperts(old.base, network), context, 0.01, 0.05, max_cuts=3)
    assert float(step.fraction[1]) == 0.0
    assert abs(float(step.kl[1])) < 1e-14  # rounding
    for name, value in old.network.tensors().items():
        if name.startswith("layers."):
            assert torch.equal(step.experts.network.tensors()[name][1], value[1])
    assert all(bool(torch.isfinite(value).all()) for value in step.experts.tensors().values())
