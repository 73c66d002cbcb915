"""Initial mixtures of experts from k-means clusters.

Clusters are found by k-means++ seeding (Arthur and Vassilvitskii 2007) and Lloyd's iterations, on the CPU.

A linear expert describes the data near one point. Pairs of contexts and samples are standardised and clustered, and
each expert starts as the linear regression of one cluster.

A neural expert can instead follow one branch of the data over all contexts, for example one branch of the inverse of a
function. To separate the branches, a single expert is fitted to all data. Its residuals are whitened with the predicted
covariance, and clustered by k-means. Each cluster is the start of one branch.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.core.errors import DataError
from eim_ros.learning.configs import FamilyConfig
from eim_ros.learning.data import Pairs, random_rows
from eim_ros.learning.models import native
from eim_ros.learning.models.evaluator import PreparedMixture
from eim_ros.learning.models.linear import LinearExperts, SoftmaxGating
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts
from eim_ros.learning.models.neural import NeuralExperts, NeuralGating
from eim_ros.learning.models.quadratic_form import products_of_coordinates, symmetric_from_products
from eim_ros.learning.models.standardisation import Standardisation
from eim_ros.learning.projections.likelihood import experts_from_moments, fit_gating_to_moments
from eim_ros.learning.projections.neural import FitSettings, fit_neural_experts, fit_neural_gating

START_ITERATIONS = 50  # L-BFGS iterations of the fit of a neural gating to a linear gating
# Minimum variance relative to the variance of the data. A cluster may consist of one point, which has no variance.
LEAST_FLOOR = 1e-6
# Outliers are moved to this distance before the clustering. The unit is sqrt(n) times the standard deviation of the
# other n points.
FAR_OUT = 3.0
SOFTENING = 0.01  # share of each label that is divided among all components before the fit of the gating
GATING_ITERATIONS, GATING_L2 = 30, 1e-4
FEW_POINTS = 5000  # minimum number of points in the random subset on which candidates are compared
POINTS_PER_COMPONENT = 50  # minimum number of points per component in this subset
MOST_POINTS = 2000  # maximum number of points to which the single expert is fitted
FIT = FitSettings(60, 1e-4)


def k_means(
    points: Tensor, n_clusters: int, generator: torch.Generator, n_iterations: int = 20, weight: Tensor | None = None
) -> Tensor:
    """Cluster points (n_points, n_dims) by k-means; return the cluster of each point, (n_points,) of int64.

    There must be at least `n_clusters` points, and their columns must have comparable scales. Clusters may be empty if
    points are duplicated. The generator may be on another device than the points. `n_iterations` is the maximum number
    of Lloyd's iterations. `weight` (n_points,) contains the weights of the points. By default, they are equal.
    """
    uniform = torch.rand(n_clusters, generator=generator, dtype=torch.float64, device=generator.device)
    columns = points.detach().T.to("cpu", torch.float64)
    weights = None if weight is None else weight.detach().to("cpu", torch.float64).numpy()
    labels = native.k_means(columns.numpy(), weights, uniform.cpu().numpy(), n_iterations)
    return torch.from_numpy(labels).to(points.device)


def initial_mixture_of_experts(
    context: Tensor, sample: Tensor, n_components: int, generator: torch.Generator, covariance_floor: float = 0.0
) -> MixtureOfExperts:
    """Return linear experts and a softmax gating that are fitted to k-means clusters of the data.

    The data are contexts (n_samples, n_context) and samples (n_samples, n_dims). `covariance_floor` is the minimum
    variance in any direction, relative to the variances of the data. Values below 1e-6 are raised to 1e-6. `DataError`
    is raised if there are fewer samples than components.
    """
    return likeliest_start(Pairs(context, sample), n_components, 1, generator, covariance_floor)


def likeliest_start(
    data: Pairs, n_components: int, n_candidates: int, generator: torch.Generator, covariance_floor: float = 0.0
) -> MixtureOfExperts:
    """Return the most likely of several initial mixtures. Each one has its own k-means clustering.

    Without contexts, every second clustering uses distances in the units of the data, and all others use standardised
    distances. Neither kind of distance is better for all data. Use standardised distances for columns with different
    units. Distances in the units of the data are better for principal components, because their variances show their
    importance. If there are many data, only a random subset is clustered. `DataError` is raised if there are fewer
    samples than components.
    """
    if n_components > len(data):
        raise DataError(f"{n_components} experts need at least {n_components} points, got {len(data)}", len(data))
    if n_candidates > 1:
        data = random_rows(data, max(FEW_POINTS, POINTS_PER_COMPONENT * n_components), generator)
    context, sample, weight = data.context, data.sample, data.weight
    clustered = _Clustered.from_data(context, sample, weight)
    relative = clustered.units.sample_scale / clustered.units.sample_scale.max()
    best, highest = None, -torch.inf
    for number in range(n_candidates):
        own_units = number % 2 == 1 and context.shape[1] == 0
        points = clustered.points * relative if own_units else clustered.points
        labels = k_means(points, n_components, generator, weight=weight)
        model = clustered.mixture(labels, n_components, covariance_floor)
        if n_candidates == 1:
            return model
        values = PreparedMixture(model, context, sample).log_prob(context, sample)
        reached = float((values if weight is None else values * weight).mean())
        if best is None or reached > highest:
            best, highest = model, reached
    assert best is not None, "there is at least one candidate"
    return best


def mixture_of_clusters(
    context: Tensor, sample: Tensor, labels: Tensor, n_components: int, covariance_floor: float = 0.0
) -> MixtureOfExperts:
    """Return linear experts and a softmax gating that are fitted to the given clusters.

    The labels (n_samples,) of int64 are the clusters of the points. The expert of an empty cluster is fitted to all
    data. The other arguments are those of `initial_mixture_of_experts`.
    """
    return _Clustered.from_data(context, sample, None).mixture(labels, n_components, covariance_floor)


@dataclass(frozen=True)
class _Clustered:
    """Standardised data for clustering. Each cluster becomes an expert.

    `products` (n_samples, n_products) contains the weighted products of the coordinates `joint`.
    """

    units: Standardisation
    joint: Tensor
    products: Tensor
    weight: Tensor | None

    @classmethod
    def from_data(cls, context: Tensor, sample: Tensor, weight: Tensor | None) -> _Clustered:
        units = Standardisation.resistant(context, sample)
        joint = units.joint(context, sample)
        products = products_of_coordinates(joint)
        return cls(units, joint, products if weight is None else products * weight.unsqueeze(-1), weight)

    @property
    def points(self) -> Tensor:
        """Points for the clustering. Outliers are moved nearer, but outweigh all other points together.

        Therefore, each outlier tends to get its own cluster, while the other columns still affect the clustering.
        """
        farthest = FAR_OUT * len(self.joint) ** 0.5
        return self.joint.clamp(-farthest, farthest)

    def mixture(self, labels: Tensor, n_components: int, covariance_floor: float) -> MixtureOfExperts:
        """Return the model of the clusters that `mixture_of_clusters` describes."""
        n_dims, products = self.units.n_dims, self.products
        sums = products.new_zeros(n_components, products.shape[1]).index_add_(0, labels, products)
        overall = products.sum(0) / n_components
        soft = (1.0 - SOFTENING) * sums + SOFTENING * overall
        empty = sums[:, -1:] == 0.0  # clusters can be empty if points are duplicated
        width = self.joint.shape[1] + 1
        experts, _ = experts_from_moments(
            symmetric_from_products(torch.where(empty, overall, sums), width),
            n_dims,
            max(covariance_floor, LEAST_FLOOR),
        )
        context = self.joint[:, n_dims:]
        blank = SoftmaxGating(context.new_zeros(n_components, context.shape[1]), context.new_zeros(n_components))
        moments = symmetric_from_products(soft, width)[:, n_dims:, n_dims:]
        gating, _ = fit_gating_to_moments(
            blank, context, moments, max_iterations=GATING_ITERATIONS, l2=GATING_L2, weight=self.weight
        )
        return self.units.original(MixtureOfExperts(gating, experts))


def random_start(context: Tensor, sample: Tensor, n_components: int, generator: torch.Generator) -> MixtureOfExperts:
    """Return linear experts that are centred at random samples.

    The experts have equal weights, no slopes, and the covariance of all samples. The data are contexts
    (n_samples, n_context) and samples (n_samples, n_dims).
    """
    data = random_rows(Pairs(context, sample), n_components, generator)
    if len(data) < n_components:
        raise DataError(f"{n_components} experts need at least {n_components} points, got {len(sample)}", len(sample))
    whole = initial_mixture_of_experts(context[:, :0], sample, 1, generator).experts
    assert isinstance(whole, LinearExperts)
    blank = context.new_zeros(n_components, context.shape[1])
    experts = LinearExperts(
        blank.unsqueeze(1).expand(-1, sample.shape[1], -1).contiguous(),
        data.sample,
        whole.scale_trils.expand(n_components, -1, -1).contiguous(),
    )
    return MixtureOfExperts(SoftmaxGating(blank, blank.new_zeros(n_components)), experts)


def branching_start(
    config: FamilyConfig,
    context: Tensor,
    sample: Tensor,
    n_components: int,
    generator: torch.Generator,
    covariance_floor: float = 0.0,
) -> MixtureOfExperts:
    """Return neural experts. Each expert starts as a linear regression of one branch of the data.

    `config` selects the kinds of experts and gating. The other arguments are those of `initial_mixture_of_experts`.
    """
    if n_components > len(sample):
        raise DataError(f"{n_components} experts need at least {n_components} points, got {len(sample)}", len(sample))
    linear = initial_mixture_of_experts(context, sample, 1, generator, covariance_floor)
    if n_components > 1:
        single = with_networks(linear, config, context, generator).experts
        assert isinstance(single, NeuralExperts)
        rows = torch.randperm(len(sample), generator=generator, device=generator.device)[:MOST_POINTS].to(sample.device)
        weights = sample.new_ones(1, len(rows), 1)
        single = fit_neural_experts(single, context[rows].unsqueeze(0), sample[rows][None, :, None], weights, FIT)
        residual = single(context).whiten(sample.unsqueeze(1)).squeeze(1)
        labels = k_means(residual, n_components, generator)
        linear = mixture_of_clusters(context, sample, labels, n_components, covariance_floor)
    return with_networks(linear, config, context, generator)


def closest_component(model: MixtureOfExperts, context: Tensor, generator: torch.Generator) -> MixtureOfExperts:
    """Return the expert with the smallest mean KL to the complete model, as a model with one component.

    The closest expert covers one of the main modes. The KL is averaged over contexts (n_samples, n_context), with one
    sample per context and expert.
    """
    experts = model.experts(context)
    sample = experts.sample(generator=generator)
    own = experts.log_prob(sample)
    repeated = context.unsqueeze(1).expand(*own.shape, -1).flatten(0, 1)
    whole = model.log_prob(repeated, sample.flatten(0, 1)).reshape(own.shape)
    best = (own - whole).mean(0).argmin().reshape(1)
    nobody = torch.zeros(1, model.n_context, dtype=model.dtype, device=model.device)
    return MixtureOfExperts(SoftmaxGating(nobody, nobody.new_zeros(1)), model.experts.take(best))


def with_networks(
    model: MixtureOfExperts, config: FamilyConfig, context: Tensor, generator: torch.Generator
) -> MixtureOfExperts:
    """Convert a linear model to the kinds of experts and gating in the settings.

    Neural experts equal the linear experts exactly. A neural gating approximates the linear gating at the contexts of
    the data (n_samples, n_context). These contexts also determine the standardisation of the networks' inputs.
    """
    gating, experts = model.gating, model.experts
    if config.expert_kind == "neural" and isinstance(experts, LinearExperts):
        experts = NeuralExperts.around(experts, context, config.networks.layers, generator)
    if config.gating_kind == "neural" and isinstance(gating, SoftmaxGating):
        fresh = NeuralGating.uniform(context, model.n_components, config.networks.layers, generator)
        gating = fit_neural_gating(fresh, context, gating(context).exp(), FitSettings(START_ITERATIONS, 1e-6))
    return MixtureOfExperts(gating, experts)
