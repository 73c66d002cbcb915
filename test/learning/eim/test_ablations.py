"""Variants of EIM: those of thesis 6.1, the refitted gating, and restricted covariances."""

import pytest
import torch
from learning.models.random_models import generator_of, random_mixture_of_experts
from learning.toys import kl_between, pairs_from, small_eim_config

from eim_ros.core.errors import ConfigurationError
from eim_ros.learning.eim import EIM
from eim_ros.learning.models import GaussianMixture

VARIANTS = {
    "EIM": {},
    "EIM-KL": {"kl_term": False},
    "EIM-US": {"update": "unstructured"},
    "EIM-US-KL": {"update": "unstructured", "kl_term": False},
    "refitted gating": {"m_step.gating.update": "refit"},
    "diagonal covariances": {"m_step.covariance": "diagonal"},
    "tied covariances": {"m_step.covariance": "tied"},
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


@pytest.mark.parametrize("growth", [{}, {"adaptation.add_every": 4, "adaptation.n_candidates": 200}])
@pytest.mark.parametrize("covariance", ["diagonal", "tied"])
def test_restricted_covariances_recover_a_known_density_of_their_family(covariance, growth):
    """The start has full covariances; added components get the restricted ones too."""
    generator = generator_of(0)
    factors = torch.tensor([[[1.0, 0.0], [0.0, 0.5]], [[0.4, 0.0], [0.0, 1.5]]]).double()
    if covariance == "tied":
        factors = torch.tensor([[1.0, 0.0], [0.8, 0.5]]).double().expand(2, 2, 2)
    weights = torch.tensor([0.3, 0.7]).double().log()
    target = GaussianMixture(weights, torch.tensor([[-3.0, 0.0], [3.0, 1.0]]).double(), factors)
    data = target.sample(500, generator)
    algorithm = EIM(target=target, n_components=2, n_iterations=30, **growth, **{"m_step.covariance": covariance})
    fitted = algorithm.fit(data, generator=generator_of(1)).mixture_of_experts
    covariances = fitted.experts.scale_trils @ fitted.experts.scale_trils.mT
    if covariance == "diagonal":
        assert float(covariances[:, 0, 1].abs().max()) == 0.0
    else:
        assert float((covariances - covariances[:1]).abs().max()) == 0.0
    sample = fitted.sample(torch.zeros(2000, 0).double(), generator_of(2))
    kl = fitted.log_prob(torch.zeros(2000, 0).double(), sample) - target.log_prob(sample)
    assert abs(float(kl.mean())) < 0.02  # one component too many may still share a mode


@pytest.mark.parametrize("other", [{"update": "unstructured"}, {"expert_kind": "neural"}])
def test_restricted_covariances_are_refused_if_the_m_step_cannot_keep_them(other):
    data = pairs_from(random_mixture_of_experts(1, 2, 1, 1), 100)
    config = small_eim_config(**other, **{"m_step.covariance": "diagonal", "start.em_iterations": 1})
    with pytest.raises(ConfigurationError, match="diagonal covariances"):
        EIM(config).fit(data, generator=generator_of(0))
