"""All targets have correct shapes, double precision, gradients that agree with autograd, and a suitable start."""

import pytest
import torch
from studies.targets.examples import TARGETS, normals, seeded

from eim_ros.core.errors import DistributionError


@pytest.fixture(params=sorted(TARGETS))
def target(request):
    return TARGETS[request.param]


def points(target, n: int = 13) -> torch.Tensor:
    return 0.7 * normals(n, target.n_dims, seed=5)


def test_log_prob_is_one_double_per_sample_even_of_single_precision(target):
    x = points(target)
    assert target.log_prob(x).shape == (13,)
    assert target.log_prob(x.float()).dtype == torch.float64
    assert target.log_prob(x[:0]).shape == (0,)


def test_score_is_the_gradient_of_log_prob(target):
    leaf = points(target).requires_grad_(True)
    (gradient,) = torch.autograd.grad(target.log_prob(leaf).sum(), leaf)
    torch.testing.assert_close(target.score(leaf.detach()), gradient, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", [name for name in TARGETS if hasattr(TARGETS[name], "log_prob_and_score")])
def test_both_together_are_log_prob_and_score(name):
    target = TARGETS[name]
    x = points(target)
    log_prob, score = target.log_prob_and_score(x)
    torch.testing.assert_close(log_prob, target.log_prob(x), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(score, target.score(x), rtol=1e-12, atol=1e-12)


def test_a_row_does_not_depend_on_the_rows_beside_it(target):
    """Minibatches are an exception, because the index of a sample determines its data."""
    x = points(target)
    rows = x[:3] if hasattr(target, "batches") else x[[7, 2, 4]]
    expected = target.log_prob(x)[: len(rows)] if hasattr(target, "batches") else target.log_prob(x)[[7, 2, 4]]
    torch.testing.assert_close(target.log_prob(rows), expected, rtol=1e-11, atol=1e-11)


def test_start_has_the_dimensions_of_the_target_and_follows_its_generator(target):
    first, second = (target.start.mixture(seeded(1), 4) for _ in range(2))
    assert first.n_dims == target.n_dims
    assert first.n_components == 4
    assert torch.equal(first.means, second.means)
    assert torch.equal(target.start.mixture(seeded(1), 1).means, torch.zeros(1, target.n_dims, dtype=torch.float64))


def test_another_shape_is_refused(target):
    for wrong in (torch.zeros(3, target.n_dims + 1), torch.zeros(target.n_dims)):
        with pytest.raises(DistributionError, match="samples must have shape"):
            target.log_prob(wrong)
