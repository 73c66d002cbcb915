"""One small example of each kind of target. The tests of the contract cover every class in the list."""

import torch
from kinematics.humanoids import TIPS, humanoid_urdf

from experiments.targets import (
    Banana,
    EllipticalMixture,
    Funnel,
    LogisticRegression,
    MinibatchTarget,
    NeuralRegression,
    humanoid,
    planar_robot,
    random_gaussian_mixture,
    random_student_mixture,
)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normals(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=seeded(seed), dtype=torch.float64)


def small_regression(n_data: int = 37, n_dims: int = 3) -> LogisticRegression:
    labels = (torch.rand(n_data, generator=seeded(2)) < 0.4).double()
    return LogisticRegression(normals(n_data, n_dims, seed=1), labels, prior_scale=2.0)


def small_network(n_data: int = 23) -> NeuralRegression:
    return NeuralRegression(normals(n_data, 3, seed=1), normals(n_data, seed=2), hidden=(4, 2), prior_scale=1.5)


def plane_mixture(degrees_of_freedom: float) -> EllipticalMixture:
    """Return a mixture in the plane with three components of different weights and shapes."""
    made = random_student_mixture(2, seeded(3), 3, degrees_of_freedom)
    weights = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64).log()
    return EllipticalMixture(weights, 0.1 * made.means, made.scale_trils, made.start, degrees_of_freedom)


TARGETS = {
    "planar-4": planar_robot(4),
    "planar-1": planar_robot(1),
    "normal mixture": random_gaussian_mixture(5, seeded(), 3),
    "student mixture": random_student_mixture(5, seeded(), 3),
    "funnel": Funnel(4),
    "banana": Banana(3),
    "humanoid": humanoid(humanoid_urdf(), TIPS, base=None),
    "logistic": small_regression(),
    "network": small_network(),
    "minibatches": MinibatchTarget(small_regression(), 8).minibatch(seeded(3)),
    "minibatches of a network": MinibatchTarget(small_network(), 5).minibatch(seeded(3)),
}
