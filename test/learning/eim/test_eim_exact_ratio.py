"""EIM with the exact density ratio: what remains when the classifier's error is taken away."""

import pytest
import torch
from learning.models.random_models import generator_of, random_mixture, random_mixture_of_experts
from learning.toys import KnownInputs, kl_between, known_ratio_config, pairs_from

from eim_ros.learning import RunOptions
from eim_ros.learning.eim import EIM
from eim_ros.learning.models import LinearExperts, MixtureOfExperts, SoftmaxGating


def fit(target, start, n_iterations, callbacks=(), **settings):
    config = known_ratio_config(n_components=start.n_components, n_iterations=n_iterations, **settings)
    return EIM(config, KnownInputs(target)).fit(
        pairs_from(target, 1000), start, generator=generator_of(0), run=RunOptions(callbacks=callbacks)
    )


def test_start_at_the_target_is_recognised_and_left_alone():
    target = random_mixture_of_experts(1, 3, 2, 1)
    result = fit(target, target, 3)
    assert result.history.column("skipped") == [1.0, 1.0, 1.0]
    assert all(
        torch.equal(value, target.tensors()[name]) for name, value in result.mixture_of_experts.tensors().items()
    )


def separated_target() -> MixtureOfExperts:
    """Two experts in two dimensions, apart from each other, and a gating that mixes them everywhere."""
    experts = random_mixture_of_experts(2, 2, 2, 1).experts
    biases = torch.tensor([[2.0, 0.0], [-2.0, 1.0]]).double()
    gating = SoftmaxGating(torch.tensor([[0.7], [-0.7]]).double(), torch.tensor([0.2, -0.2]).double())
    return MixtureOfExperts(gating, LinearExperts(0.5 * experts.weights, biases, experts.scale_trils))


def displaced(model: MixtureOfExperts) -> MixtureOfExperts:
    tensors = model.tensors()
    tensors["experts.biases"] = tensors["experts.biases"] + torch.tensor([[0.5, -0.7], [-0.3, 0.6]]).double()
    tensors["experts.scale_trils"] = 1.5 * tensors["experts.scale_trils"]
    tensors["gating.weights"] = torch.zeros_like(tensors["gating.weights"])
    return MixtureOfExperts.from_tensors(tensors)


@pytest.mark.parametrize("surrogate", ["gradient", "value"])
def test_two_experts_in_two_dimensions_reach_their_target(surrogate):
    target = separated_target()
    settings = {"m_step.n_samples": 150, "m_step.gating.n_contexts": 300, "m_step.surrogate": surrogate}
    bounds = {
        "m_step.kl_bound": 1.0,
        "m_step.entropy_loss_bound": 1.0,
        "m_step.gating.kl_bound": 0.5,
        "m_step.gating.entropy_loss_bound": 0.5,
    }
    start = displaced(target)
    result = fit(target, start, 60, **settings, **bounds)
    assert kl_between(start, target) > 0.5
    # the l2 of 1e-6 of the gating's regression is all that holds it off
    assert kl_between(result.mixture_of_experts, target) < 1e-6


def test_mixture_without_context_reaches_its_target_and_descends_all_the_way():
    mixture = random_mixture(3, 2, 1)
    biases = torch.tensor([[-2.0], [1.5]]).double()

    def as_model(biases, factors, logits):
        experts = LinearExperts(torch.zeros(2, 1, 0).double(), biases, factors)
        return MixtureOfExperts(SoftmaxGating(torch.zeros(2, 0).double(), logits), experts)

    target = as_model(biases, mixture.scale_trils, torch.tensor([0.4, -0.4]).double())
    start = as_model(biases + 0.8, 1.5 * mixture.scale_trils, torch.tensor([-0.5, 0.5]).double())
    axis = torch.linspace(-15.0, 15.0, 601).double().unsqueeze(-1)
    nothing = torch.zeros(len(axis), 0).double()

    def distance(model):  # KL(model || target) by quadrature
        log_model, log_target = model.log_prob(nothing, axis), target.log_prob(nothing, axis)
        return float((log_model.exp() * (log_model - log_target)).sum() * (axis[1] - axis[0]))

    distances = [distance(start)]
    settings = {"m_step.n_samples": 1000, "m_step.gating.n_contexts": 20, "m_step.gating.n_samples": 10}
    bounds = {
        "m_step.kl_bound": 0.05,
        "m_step.gating.kl_bound": 0.05,
        "m_step.entropy_loss_bound": 0.5,
        "m_step.gating.entropy_loss_bound": 0.5,
    }
    fit(target, start, 30, [lambda state, record: distances.append(distance(state.model))], **settings, **bounds)
    # surrogate and rewards are means over samples: a step may miss its aim by their noise, which vanishes with phi
    assert all(after < 1.01 * before + 1e-5 for before, after in zip(distances, distances[1:], strict=False))
    assert distances[0] > 0.3
    assert distances[-1] < 1e-6


def test_recorded_updates_obey_their_bounds():
    target = separated_target()
    bounds = {
        "m_step.kl_bound": 0.02,
        "m_step.entropy_loss_bound": 0.01,
        "m_step.gating.kl_bound": 0.005,
        "m_step.gating.entropy_loss_bound": 0.01,
    }
    models = [displaced(target)]
    result = fit(target, models[0], 10, [lambda state, record: models.append(state.model)], **bounds)
    assert max(result.history.column("expert_kl")) <= 0.02 * (1.0 + 1e-9)
    assert max(result.history.column("expert_kl")) > 0.01  # it is the bound that stops them
    assert max(result.history.column("gating_kl")) <= 0.005
    for before, after in zip(models, models[1:], strict=False):
        change = (after.experts.scale_trils.diagonal(dim1=-2, dim2=-1).log()
                  - before.experts.scale_trils.diagonal(dim1=-2, dim2=-1).log()).sum(-1)  # fmt: skip
        assert change.min() >= -0.01 - 1e-9  # entropy of an expert = sum of the logs of its factor's diagonal
