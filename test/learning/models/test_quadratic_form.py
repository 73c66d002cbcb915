"""Log densities from quadratic forms equal log densities from whitened residuals, also for narrow experts."""

import pytest
import torch
from learning.models.random_models import generator_of, normal, random_experts, random_mixture_of_experts

from eim_ros.learning.models import LinearExperts
from eim_ros.learning.models.quadratic_form import QuadraticForms, products_of_coordinates, symmetric_from_products


def joint_of(seed: int, n_dims: int, n_context: int) -> torch.Tensor:
    return normal(generator_of(seed), 200, n_dims + n_context)


@pytest.mark.parametrize("size", [(5, 3, 2), (1, 1, 0), (4, 2, 0), (3, 7, 3)])
def test_values_are_log_joints_up_to_the_gatings_normaliser(size):
    model, joint = random_mixture_of_experts(0, *size), joint_of(1, *size[1:])
    found = QuadraticForms.from_model(model)(joint, products_of_coordinates(joint))
    context, sample = joint[:, size[1] :], joint[:, : size[1]]
    normaliser = torch.logsumexp(context @ model.gating.weights.T + model.gating.biases, -1)
    expected = model.log_joint(context, sample) + normaliser.unsqueeze(-1)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-11)


def narrowed(experts: LinearExperts, factor: float) -> LinearExperts:
    """Return a copy of the experts in which every second expert is narrower by a factor."""
    shrink = torch.where(torch.arange(experts.n_components) % 2 == 0, factor, 1.0)
    return LinearExperts(experts.weights, experts.biases, shrink[:, None, None] * experts.scale_trils)


@pytest.mark.parametrize("factor", [1e-3, 1e-6, 1e-12])
def test_narrow_experts_keep_their_digits(factor):
    experts = narrowed(random_experts(2, 6, 3, 2), factor)
    generator = generator_of(3)
    context = normal(generator, 120, 2)
    sample = experts.select(torch.arange(120) % 6, context).sample(generator=generator)
    joint = torch.cat([sample, context], -1)
    forms = QuadraticForms.from_experts(experts)
    assert (len(forms.narrow) == 0) == (factor == 1e-3)
    found, expected = forms(joint, products_of_coordinates(joint)), experts.log_prob(context, sample)
    own = torch.arange(120), torch.arange(120) % 6
    # each expert at its own samples: residuals have the rounding error of a sample, divided by the width of the expert
    torch.testing.assert_close(found[own], expected[own], rtol=0.0, atol=1e-7 + 1e-14 / factor)
    torch.testing.assert_close(found, expected, rtol=1e-7, atol=1e-7 + 1e-14 / factor)


def test_components_far_away_have_no_density_rather_than_none_at_all():
    experts = random_experts(4, 2, 2, 0)
    far = LinearExperts(
        experts.weights, experts.biases * torch.tensor([[1.0], [1e200]], dtype=torch.float64), experts.scale_trils
    )
    joint = joint_of(5, 2, 0)
    found = QuadraticForms.from_experts(far)(joint, products_of_coordinates(joint))
    torch.testing.assert_close(found[:, :1], experts.log_prob(joint[:, :0], joint)[:, :1], rtol=1e-12, atol=1e-12)
    assert (found[:, 1] == -torch.inf).all()


def test_symmetric_matrices_come_back_from_their_products():
    joint = joint_of(6, 2, 1)
    extended = torch.cat([joint, torch.ones(200, 1)], -1)
    expected = extended.unsqueeze(-1) * extended.unsqueeze(-2)
    assert torch.equal(symmetric_from_products(products_of_coordinates(joint), 4), expected)
