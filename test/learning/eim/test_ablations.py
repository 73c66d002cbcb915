"""Variants of EIM of thesis 6.1: without the KL term, and by reparameterised gradients."""

import pytest
import torch
from learning.models.random_models import generator_of, random_mixture_of_experts
from learning.toys import kl_between, pairs_from, small_eim_config

from eim_ros.learning.eim import EIM

VARIANTS = {
    "EIM": {},
    "EIM-KL": {"kl_term": False},
    "EIM-US": {"update": "unstructured"},
    "EIM-US-KL": {"update": "unstructured", "kl_term": False},
}


@pytest.mark.parametrize("settings", VARIANTS.values(), ids=VARIANTS.keys())
def test_each_variant_comes_closer_to_the_target(settings):
    target, start = random_mixture_of_experts(1, 2, 1, 1), random_mixture_of_experts(5, 2, 1, 1)
    data = pairs_from(target, 1000)
    config = small_eim_config(
        n_iterations=20, **settings, **{"ratio.estimator": "plug-in", "gradient_steps.step_size": 0.03}
    )
    fitted = EIM(config).fit(data, start, generator=generator_of(0)).mixture_of_experts
    assert kl_between(fitted, target) < 0.5 * kl_between(start, target)


@pytest.mark.parametrize("components", [{}, {"gradient_steps.step_size": 0.5, "gradient_steps.n_steps": 3}])
def test_settings_of_the_gradients_do_not_touch_the_structured_update(components):
    data = pairs_from(random_mixture_of_experts(1, 2, 1, 1), 300)
    start = random_mixture_of_experts(5, 2, 1, 1)
    plain = (
        EIM(small_eim_config(**{"ratio.estimator": "plug-in"}))
        .fit(data, start, generator=generator_of(0))
        .mixture_of_experts
    )
    other = (
        EIM(small_eim_config(**components, **{"ratio.estimator": "plug-in"}))
        .fit(data, start, generator=generator_of(0))
        .mixture_of_experts
    )
    assert all(torch.equal(value, other.tensors()[name]) for name, value in plain.tensors().items())
