"""In EIM with neural experts, one expert starts on one branch and stays there. Several experts keep all branches."""

import pytest
import torch
from learning.models.random_models import generator_of, normal, random_mixture_of_experts

from eim_ros.learning import EIMConfig, Pairs
from eim_ros.learning.configs import FamilyConfig
from eim_ros.learning.data import checked_data
from eim_ros.learning.eim import EIM
from eim_ros.learning.eim import eim as module
from eim_ros.learning.eim.eim import closest_start, neural_start
from eim_ros.learning.models import (
    GaussianMixture,
    LinearExperts,
    MixtureOfExperts,
    NeuralExperts,
    NeuralGating,
    SoftmaxGating,
)
from eim_ros.learning.run import Status
from eim_ros.learning.starts import branching_start, closest_component

NEURAL = FamilyConfig.from_mapping({"expert_kind": "neural", "networks.layers": (8, 8)})
SMALL = {
    "expert_kind": "neural",
    "networks.layers": (8, 8),
    "m_step.n_contexts": 300,
    "start.em_iterations": 3,
    "ratio.estimator": "plug-in",
    "ratio.reference.factors": (1.0,),
    "ratio.reference.starts": 1,
    "ratio.reference.iterations": 3,
}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Shorten the fits of starts. For smooth curves, they are still accurate enough."""
    monkeypatch.setattr(module, "MIN_NETWORK_ITERATIONS", 25)
    monkeypatch.setattr(module, "MOST_POINTS", 400)
    monkeypatch.setattr(module, "MORE_ITERATIONS", 1)


def curve(context: torch.Tensor) -> torch.Tensor:
    return 1.0 + 0.5 * torch.cos(3.0 * context)


def branches(seed: int, n: int = 700, share: float = 0.5) -> Pairs:
    """Return data from two branches, +curve(y) and -curve(y), with a noise deviation of 0.1."""
    generator = generator_of(seed)
    context = 2.0 * torch.rand(n, 1, generator=generator, dtype=torch.float64) - 1.0
    sign = torch.where(torch.rand(n, 1, generator=generator) < share, 1.0, -1.0)
    return checked_data((context, sign * curve(context) + 0.1 * normal(generator, n, 1)))


def share_near_a_branch(model: MixtureOfExperts, context: torch.Tensor) -> float:
    sample = model.sample(context, generator_of(99))
    return float(((sample.abs() - curve(context)).abs() < 0.3).double().mean())


def test_branches_are_told_apart():
    data = branches(0)
    model = branching_start(NEURAL, data.context, data.sample, 2, generator_of(1))
    means = model.experts(data.context).mean[..., 0]
    assert float(means.min(-1).values.max()) < -0.5
    assert float(means.max(-1).values.min()) > 0.5


def test_closest_component_is_the_heavier_of_two_equal_ones():
    zero = torch.zeros(2, 1).double()
    experts = LinearExperts(
        torch.zeros(2, 1, 1).double(), torch.tensor([[-3.0], [3.0]]).double(), torch.ones(2, 1, 1).double()
    )
    model = MixtureOfExperts(SoftmaxGating(zero, torch.tensor([0.3, 0.7]).double().log()), experts)
    chosen = closest_component(model, torch.zeros(200, 1).double(), generator_of(2))
    assert (chosen.n_components, float(chosen.experts.biases)) == (1, 3.0)


def test_single_expert_starts_on_one_of_the_branches():
    data = branches(3)
    mixture, start = neural_start(NEURAL, 1, 3, data[:600], data[600:], generator_of(4))
    assert mixture.n_components >= 2
    assert start.n_components == 1
    assert share_near_a_branch(start, data.context) > 0.95


def test_unimodal_data_need_one_expert_only():
    data = branches(5, share=1.0)
    mixture, start = neural_start(NEURAL, 1, 3, data[:600], data[600:], generator_of(6))
    assert mixture is start
    assert start.n_components == 1


def test_eim_stays_on_one_branch_where_em_averages():
    seed = 8
    data = branches(seed)
    model = EIM(EIMConfig.from_mapping({"n_components": 1, "n_iterations": 4, **SMALL})).fit(
        (data.context, data.sample), generator=generator_of(seed)
    ).model  # fmt: skip
    assert isinstance(model.experts, NeuralExperts)
    assert share_near_a_branch(model, data.context) > 0.95
    means = model.experts(data.context).mean[..., 0]
    assert float(means.min()) > 0.0 or float(means.max()) < 0.0


def test_several_experts_with_a_neural_gating_keep_both_branches():
    data = branches(9)
    config = EIMConfig.from_mapping({"n_components": 2, "n_iterations": 4, "gating_kind": "neural", **SMALL})
    result = EIM(config).fit((data.context, data.sample), generator=generator_of(10))
    assert result.status is Status.MAX_ITERATIONS
    assert isinstance(result.model.gating, NeuralGating)
    assert share_near_a_branch(result.model, data.context) > 0.95
    sample = result.model.sample(data.context, generator_of(11))
    assert 0.35 < float((sample > 0.0).double().mean()) < 0.65


def test_start_is_of_the_family_that_was_asked_for():
    """Linear experts would describe these few points better, but the settings request neural experts."""
    data = branches(15, n=60)
    model = (
        EIM(EIMConfig.from_mapping({"n_components": 1, "n_iterations": 0, **SMALL}))
        .fit((data.context, data.sample))
        .model
    )
    assert isinstance(model.experts, NeuralExperts)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_one_neural_expert_asks_for_no_more_than_one_pair(n):
    data = branches(16, n=n)
    result = EIM(EIMConfig.from_mapping({"n_components": 1, "n_iterations": 1, **SMALL})).fit(
        (data.context, data.sample)
    )
    assert result.mixture_of_experts.n_components == 1
    assert torch.isfinite(result.model.log_prob(data.context, data.sample)).all()


NOTHING = torch.zeros(100, 0).double()


def mixture(*means: float, deviation: float = 0.5) -> MixtureOfExperts:
    """Return equally likely components on the first axis of the plane."""
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
    """Two components form each of the two modes, so a single component is only half of a mode."""
    reference, fitted = mixture(-3.5, -2.5, 2.5, 3.5), mixture(-3.0, 3.0, deviation=0.6)
    start = closest_start(fitted, reference, NOTHING, generator_of(1))
    assert start is fitted


def test_reference_of_no_more_components_leaves_no_choice():
    reference, fitted = mixture(-3.0, 3.0), mixture(-2.0, 2.0)
    assert closest_start(fitted, reference, NOTHING, generator_of(2)) is fitted


def test_gating_of_the_start_is_the_references_among_its_own():
    """With contexts, the gating is the renormalised q(z|y) of the chosen experts."""
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
