"""Random Gaussian mixtures, sum_k w_k N(x; mu_k, A_k' A_k + I/50): the targets of thesis 6.1.

Means are uniform in [-1, 1]^d, and the entries of A_k are normal with variance 0.0707. The components overlap little in
many dimensions, and strongly in few dimensions.
"""

from __future__ import annotations

import torch

from eim_ros.core.errors import DistributionError
from eim_ros.learning.models import GaussianMixture

FACTOR_VARIANCE = 0.0707
FLOOR = 1.0 / 50.0


def random_mixture(
    n_dims: int, n_components: int, generator: torch.Generator, *, equal_weights: bool = True
) -> GaussianMixture:
    """Draw a random Gaussian mixture.

    Parameters
    ----------
    n_dims, n_components : int
    generator : torch.Generator
        Source of randomness. The mixture is created on the generator's device.
    equal_weights : bool
        If false, weights are uniform on the simplex, so a few components have almost no weight.

    Returns
    -------
    GaussianMixture
        Mixture in float64.

    Raises
    ------
    DistributionError
        If `n_dims` or `n_components` is less than 1.
    """
    if n_dims < 1 or n_components < 1:
        raise DistributionError(
            f"a mixture needs at least one dimension and one component, got {n_dims} and {n_components}",
            (n_dims, n_components),
        )
    device = generator.device
    means = 2.0 * torch.rand(n_components, n_dims, generator=generator, dtype=torch.float64, device=device) - 1.0
    shape = (n_components, n_dims, n_dims)
    factors = torch.randn(shape, generator=generator, dtype=torch.float64, device=device) * FACTOR_VARIANCE**0.5
    covariances = factors.mT @ factors + FLOOR * torch.eye(n_dims, dtype=torch.float64, device=device)
    log_weights = means.new_zeros(n_components)
    if not equal_weights:  # normalised exponentials are uniform on the simplex
        uniform = torch.rand(n_components, generator=generator, dtype=torch.float64, device=device)
        log_weights = (-torch.log1p(-uniform)).log()
    return GaussianMixture(log_weights, means, torch.linalg.cholesky(covariances))
