"""Random mixtures have the stated distribution."""

import pytest
import torch

from eim_ros.core.errors import DistributionError
from experiments import random_mixture


def test_means_fill_the_cube_and_covariances_have_the_stated_mean():
    n_dims, n_components = 5, 4000
    mixture = random_mixture(n_dims, n_components, torch.Generator().manual_seed(0))
    assert float(mixture.means.abs().max()) <= 1.0
    assert float(mixture.means.var()) == pytest.approx(1.0 / 3.0, rel=0.05)
    covariance = (mixture.scale_trils @ mixture.scale_trils.mT).mean(0)
    # A'A has the mean n_dims var(A_ij) I; entries of the mean of 4000 covariances have a standard error of 0.004
    expected = (n_dims * 0.0707 + 0.02) * torch.eye(n_dims, dtype=torch.float64)
    torch.testing.assert_close(covariance, expected, atol=0.02, rtol=0.0)


@pytest.mark.parametrize("equal", [True, False])
def test_weights_sum_to_one_and_are_equal_by_default(equal):
    mixture = random_mixture(2, 5, torch.Generator().manual_seed(1), equal_weights=equal)
    weights = mixture.weights
    assert float(weights.sum()) == pytest.approx(1.0, abs=1e-12)
    assert (float(weights.std()) < 1e-12) is equal


@pytest.mark.parametrize("sizes", [(0, 3), (2, 0)])
def test_no_dimension_or_component_is_refused(sizes):
    with pytest.raises(DistributionError):
        random_mixture(*sizes, torch.Generator())
