"""Neural experts: new networks change nothing, each network gets its own contexts, far contexts give finite values."""

import pytest
import torch
from learning.models.random_models import (
    generator_of,
    normal,
    random_experts,
    random_network,
    random_neural_experts,
    random_neural_mixture_of_experts,
)

from eim_ros.core.errors import DistributionError
from eim_ros.learning.models import Gaussian, MixtureOfExperts, NeuralExperts
from eim_ros.learning.models import neural as module
from eim_ros.learning.models.neural import BatchedNetwork


def test_fresh_networks_are_the_linear_experts():
    base, context, sample = random_experts(0, 4, 3, 2), normal(generator_of(1), 6, 2), normal(generator_of(2), 6, 3)
    fresh = NeuralExperts.around(base, context, (8, 8), generator_of(3))
    torch.testing.assert_close(fresh.log_prob(context, sample), base.log_prob(context, sample), rtol=1e-12, atol=1e-12)


def test_each_expert_is_its_own_network_alone():
    experts, context = random_neural_experts(4, 3, 2, 2), normal(generator_of(5), 6, 2)
    together = experts(context)
    for index in range(3):
        tensors = {
            name: value if name in ("center", "scale") else value[index : index + 1]
            for name, value in experts.tensors().items()
        }
        alone = NeuralExperts.from_tensors(tensors)(context)
        torch.testing.assert_close(together.mean[:, index], alone.mean[:, 0], rtol=1e-13, atol=1e-13)
        torch.testing.assert_close(together.scale_tril[:, index], alone.scale_tril[:, 0], rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("component", [[0, 3, 1, 1, 2, 0], [2, 2, 2, 2, 2, 2], [3, 2, 1, 0, 1, 2]])
def test_selected_experts_are_rows_of_all_experts(component):
    experts, context, index = random_neural_experts(7, 4, 3, 2), normal(generator_of(8), 6, 2), torch.tensor(component)
    everything, selected = experts(context), experts.select(index, context)
    rows = torch.arange(6)
    torch.testing.assert_close(selected.mean, everything.mean[rows, index], rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(selected.scale_tril, everything.scale_tril[rows, index], rtol=1e-13, atol=1e-13)


def test_local_contexts_belong_to_their_expert():
    experts, context = random_neural_experts(9, 3, 2, 1), normal(generator_of(10), 3, 5, 1)
    local = experts.local(context)
    for index in range(3):
        torch.testing.assert_close(local.mean[index], experts(context[index]).mean[:, index], rtol=1e-13, atol=1e-13)


def test_result_does_not_depend_on_the_size_of_the_chunks(monkeypatch):
    model, generator = random_neural_mixture_of_experts(11, 4, 3, 2), generator_of(12)
    context, sample = normal(generator, 11, 2), normal(generator, 11, 3)
    whole = model.log_prob(context, sample), model.score(context, sample)
    for elements in (1, 4 * 9 * 3):
        monkeypatch.setattr(module, "CHUNK_ELEMENTS", elements)
        torch.testing.assert_close(model.log_prob(context, sample), whole[0], rtol=1e-13, atol=1e-13)
        torch.testing.assert_close(model.score(context, sample), whole[1], rtol=1e-13, atol=1e-13)


def test_contexts_far_from_the_data_give_finite_distributions():
    """Hidden units and outputs are bounded. Therefore only the linear expert changes far from the data."""
    experts = random_neural_experts(13, 3, 2, 1)
    near, far = experts(torch.tensor([[1e3], [1e6]]).double()).scale_tril
    torch.testing.assert_close(near, far, rtol=1e-12, atol=0.0)


def test_networks_that_do_not_fit_are_refused():
    with pytest.raises(DistributionError, match=r"do not match .* \(3, 1, 5\)"):
        NeuralExperts(random_experts(0, 3, 2, 1), random_network(0, 3, 1, 4))
    with pytest.raises(DistributionError, match="the networks do not match, got"):
        BatchedNetwork(torch.zeros(1), torch.ones(1), (torch.zeros(2, 3, 2),), (torch.zeros(2, 3),))
    with pytest.raises(DistributionError, match="finite"):
        BatchedNetwork(torch.zeros(1), torch.zeros(1), (torch.zeros(2, 3, 1),), (torch.zeros(2, 3),))
    with pytest.raises(DistributionError, match="must be finite"):
        BatchedNetwork(torch.zeros(1), torch.ones(1), (torch.full((2, 3, 1), torch.nan),), (torch.zeros(2, 3),))


def test_missing_tensors_are_named():
    tensors = random_neural_mixture_of_experts(16, 3, 2, 1).tensors()
    del tensors["experts.layers.1.bias"]
    with pytest.raises(DistributionError, match=r"network lacks layers.1.bias"):
        MixtureOfExperts.from_tensors(tensors)
    del tensors["experts.base.biases"]
    with pytest.raises(DistributionError, match=r"neural experts lack base.biases"):
        MixtureOfExperts.from_tensors(tensors)


def test_expert_evaluated_by_hand():
    """Evaluate the equations of the docstring for one expert with one hidden unit in two dimensions."""
    base = random_experts(17, 1, 2, 1)
    center, scale = torch.tensor([1.0], dtype=torch.float64), torch.tensor([2.0], dtype=torch.float64)
    weights = [torch.tensor(rows, dtype=torch.float64).reshape(1, -1, 1) for rows in ([0.5], [0.1, 0.2, 0.3, 0.4, 0.5])]
    biases = [torch.tensor([row], dtype=torch.float64) for row in ([0.25], [0.0, 0.1, 0.2, 0.3, 0.4])]
    experts = NeuralExperts(base, BatchedNetwork(center, scale, tuple(weights), tuple(biases)))
    hidden = torch.tanh(torch.tensor(0.5 * (3.0 - 1.0) / 2.0 + 0.25).double())
    m = torch.stack([0.1 * hidden, 0.2 * hidden + 0.1])
    zero = torch.zeros(()).double()
    factor = torch.stack(
        [torch.stack([(0.3 * hidden + 0.2).exp(), zero]), torch.stack([0.5 * hidden + 0.4, (0.4 * hidden + 0.3).exp()])]
    )
    expected = Gaussian(
        3.0 * base.weights[0, :, 0] + base.biases[0] + base.scale_trils[0] @ m, base.scale_trils[0] @ factor
    )
    found = experts(torch.tensor([[3.0]]).double())
    torch.testing.assert_close(found.mean[0, 0], expected.mean, rtol=1e-14, atol=1e-14)
    torch.testing.assert_close(found.scale_tril[0, 0], expected.scale_tril, rtol=1e-14, atol=1e-14)
