"""From demonstrated motions to a motion prior, by EM or EIM over the latent coordinates of their weights.

Density of demonstrated motions for the ratio of EIM, and EIM's start: mixtures fitted by EM from starts of ways.

EIM gets as good as its estimate of the data's density. Fits from k-means in whitened coordinates miss ways, see
`start`, whatever their size; so the estimate is made here, of as many components as held-out motions can bear, and
given to EIM as known.

Start of EM that keeps different ways apart: clusters of what the context does not explain, in joint space.

In whitened coordinates two ways around an obstacle are no further apart than two goals, and k-means takes goals for
ways. With their linear dependence on the context taken off, and in the units of the joints, what differs most between
weights are ways.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eim_ros.core.checks import checked_whole, expect
from eim_ros.core.data_set import DataSet
from eim_ros.core.errors import DataError
from eim_ros.core.parallel import torch_threads
from eim_ros.core.settings import Settings, option
from eim_ros.learning import EIM, EIMConfig, EMConfig, FitResult, RatioConfig
from eim_ros.learning.eim.eim import closest_start
from eim_ros.learning.em import EM
from eim_ros.learning.learner import checked_device
from eim_ros.learning.models import MixtureOfExperts
from eim_ros.learning.ratio import StandardisedInputs
from eim_ros.learning.run import RunOptions, Status
from eim_ros.learning.starts import k_means, mixture_of_clusters
from eim_ros.motion.demonstrations import Demonstrations
from eim_ros.motion.prior import Calibration, MotionPrior
from eim_ros.motion.representation import BASES, Basis, LatentSpace, Representation

N_CLUSTERINGS = 5  # k-means from so many seeds, of which the tightest is taken


def start_of_ways(
    context: Tensor,
    weights: Tensor,
    coordinates: Tensor,
    n_components: int,
    covariance_floor: float,
    generator: torch.Generator,
) -> MixtureOfExperts:
    """Experts and gating of clusters.

    Parameters
    ----------
    context : Tensor (n, n_context)
    weights : Tensor (n, n_weights)
        Weights of motions, as many as components at least.
    coordinates : Tensor (n, n_latent)
        What the experts are to model.
    n_components : int
    covariance_floor : float
        Least variance, relative to the data's.
    generator : torch.Generator
    """
    inputs = torch.cat([context, torch.ones_like(weights[:, :1])], -1)
    unexplained = weights - inputs @ torch.linalg.lstsq(inputs, weights, driver="gelsd").solution
    labels = [k_means(unexplained, n_components, generator) for _ in range(N_CLUSTERINGS)]
    best = min(labels, key=lambda each: _scatter(unexplained, each, n_components))
    return mixture_of_clusters(context, coordinates, best, n_components, covariance_floor)


def _scatter(points: Tensor, labels: Tensor, n_clusters: int) -> float:
    """Sum of squared distances to the clusters' means."""
    sums = points.new_zeros(n_clusters, points.shape[1]).index_add_(0, labels, points)
    means = sums / torch.bincount(labels, minlength=n_clusters).clamp_min(1).unsqueeze(-1)
    return float((points - means[labels]).square().sum())


PATIENCE = 2  # sizes in a row without a gain, after which no larger ones are tried
FLOOR = 1e-6  # least variance of a component, relative to the data's


@dataclass(frozen=True)
class Reference:
    """What EIM is given.

    Attributes
    ----------
    density : MixtureOfExperts
        Estimate of the density of the coordinates given the context.
    start : MixtureOfExperts
        Of the size of the model.
    """

    density: MixtureOfExperts
    start: MixtureOfExperts


@dataclass(frozen=True)
class ReferenceInputs:
    """Inputs of a density ratio that know a density; satisfies `eim_ros.learning.ratio.RatioInputs`."""

    standardised: StandardisedInputs
    density: MixtureOfExperts

    @property
    def n_inputs(self) -> int:
        return self.standardised.n_inputs

    def smoothing(self, iteration: int) -> Tensor | None:
        return None

    def known_log_density(self, context: Tensor, sample: Tensor, iteration: int) -> Tensor | None:
        return self.density.log_prob(context, sample)

    def __call__(self, context: Tensor, sample: Tensor, iteration: int) -> Tensor:
        return self.standardised(context, sample, iteration)


def fit_reference(
    config: RatioConfig,
    n_components: int,
    context: Tensor,
    weights: Tensor,
    coordinates: Tensor,
    generator: torch.Generator,
) -> Reference:
    """Reference density and start.

    Parameters
    ----------
    config : RatioConfig
        Its settings of the reference density.
    n_components : int
        Of the model.
    context : Tensor (n, n_context)
    weights : Tensor (n, n_weights)
        In whose units ways are told apart.
    coordinates : Tensor (n, n_latent)
        What the model is to be of.
    generator : torch.Generator
    """
    order = torch.randperm(len(weights), generator=generator, device=generator.device)
    context, weights, coordinates = (part[order] for part in (context, weights, coordinates))
    n = config.n_training(len(weights))
    held_out = config.held_out(len(weights))
    fits: dict[int, tuple[float, MixtureOfExperts]] = {}
    best, misses = n_components, 0
    for size in _sizes(config, n_components, n):
        candidates = []
        for _ in range(config.reference_starts):
            start = start_of_ways(context[:n], weights[:n], coordinates[:n], size, FLOOR, generator)
            candidates.append(_refined(start, context[:n], coordinates[:n], config.reference_iterations))
        judged = [(_likelihood(model, context[held_out], coordinates[held_out]), model) for model in candidates]
        fits[size] = max(judged, key=lambda pair: pair[0])
        if size == n_components or fits[size][0] > fits[best][0]:
            best, misses = size, 0
        else:
            misses += 1
            if misses == PATIENCE:
                break
    density, fitted = (_refined(fits[size][1], context, coordinates, config.reference_iterations)
                       for size in (best, n_components))  # fmt: skip
    return Reference(density, closest_start(fitted, density, context, generator))


def _sizes(config: RatioConfig, n_components: int, n_samples: int) -> list[int]:
    """Numbers of components, that of the model first; two motions for each at least."""
    most = max(n_components, min(n_samples // 2, config.reference_limit + n_components))
    larger = {min(most, round(factor * n_components)) for factor in config.reference_factors if factor > 1.0}
    return [n_components, *sorted(larger - {n_components})]


def _refined(start: MixtureOfExperts, context: Tensor, coordinates: Tensor, n_iterations: int) -> MixtureOfExperts:
    settings = EMConfig(n_components=start.n_components, n_iterations=n_iterations, covariance_floor=FLOOR)
    result = EM(settings).fit((context, coordinates), start)
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return result.mixture_of_experts


def _likelihood(model: MixtureOfExperts, context: Tensor, coordinates: Tensor) -> float:
    return float(model.log_prob(context, coordinates).mean())


UNKNOWN_DURATION = 1.0  # [s], where the data set tells none


@dataclass(frozen=True)
class MotionConfig(Settings):
    """Settings of the representation of motions."""

    basis: str = option("gaussian", "basis functions of the phase", choices=BASES)
    n_functions: int = option(10, "basis functions, or via points, of each joint", minimum=1, maximum=1000)
    basis_width: float = option(
        0.7, "standard deviation of Gaussian basis functions, in units of their distance", minimum=1e-3
    )
    ridge: float = option(1e-10, "penalty of the squared weights, relative to the mean square error", minimum=0.0)
    explained: float = option(
        0.999, "share of the weights' variance for which there are latent coordinates", minimum=0.0, maximum=1.0
    )
    n_latent: int = option(0, "most latent coordinates; 0: a third of the demonstrations per expert", minimum=0)
    noise_floor: float = option(
        1e-3, "least standard deviation of the weights in any direction", unit="rad or m", minimum=1e-9
    )
    calibration_share: float = option(
        0.2, "share of the demonstrations by which scores are calibrated", minimum=0.01, maximum=0.5
    )


@dataclass(frozen=True)
class MotionEMConfig(EMConfig, MotionConfig):
    """Settings of a motion prior by EM."""

    n_components: int = option(10, "number of experts", minimum=1)


@dataclass(frozen=True)
class MotionEIMConfig(EIMConfig, MotionConfig):
    """Settings of a motion prior by EIM."""

    n_components: int = option(10, "number of experts", minimum=1)


@dataclass(frozen=True)
class MotionTrainingRun:
    """Outcome of a training: the prior, how the run ended, and its records."""

    model: MotionPrior
    result: FitResult[Any]

    @property
    def status(self) -> Status:
        return self.result.status


@dataclass(frozen=True)
class MotionTraining:
    """What is to be trained.

    Attributes
    ----------
    config : MotionEMConfig or MotionEIMConfig
        Decides the learner.
    random_seed : int
        Of all randomness, and of which demonstrations are held out.
    device : str
        Where it runs: "cpu", "cuda".
    """

    config: MotionEMConfig | MotionEIMConfig
    random_seed: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        expect(self.config, Settings, "config")
        checked_whole(self.random_seed, 0, "the random seed")
        checked_device(self.device)

    @torch_threads()
    def run(
        self,
        data_set: DataSet,
        *,
        run: RunOptions = RunOptions(),
    ) -> MotionTrainingRun:
        """Train.

        Parameters
        ----------
        data_set : DataSet
            Motions, see `Demonstrations.from_data_set`.
        run : RunOptions
            Callbacks and checkpoints.

        Raises
        ------
        DataError
            The data set is of another task, or has too few motions.
        """
        everything = Demonstrations.from_data_set(data_set)
        fitted, held_out = self._split(everything)
        config = self.config
        basis = Basis(config.basis, config.n_functions, config.basis_width)
        n_points = everything.positions.shape[1]
        representation = Representation(basis, everything.joint_names, n_points, config.ridge)
        weights = torch.from_numpy(representation.weights(fitted.positions))
        most = config.n_latent or max(1, len(fitted) // (3 * config.n_components))
        latent = LatentSpace.from_weights(weights, config.explained, most, config.noise_floor)
        center, scale = _standardisation(torch.from_numpy(fitted.context))
        context = ((torch.from_numpy(fitted.context) - center) / scale).to(self.device)
        coordinates = latent.coordinates(weights)[:, : latent.n_latent].to(self.device)
        inputs, start = self._inputs_and_start(context, weights.to(context), coordinates)
        learner: EM | EIM = EM(config) if isinstance(config, MotionEMConfig) else EIM(config, inputs)
        generator = torch.Generator(coordinates.device).manual_seed(self.random_seed)
        result: FitResult[Any] = learner.fit((context, coordinates), start, generator=generator, run=run)
        durations = everything.durations[np.isfinite(everything.durations)]
        prior = MotionPrior(
            representation=representation,
            latent=latent,
            mixture=result.mixture_of_experts.to(device="cpu", dtype=torch.float64),
            context_names=everything.context_names,
            context_center=center,
            context_scale=scale,
            lower=everything.lower,
            upper=everything.upper,
            mean_duration=float(durations.mean()) if len(durations) else UNKNOWN_DURATION,
            calibration=Calibration(torch.zeros(1), torch.zeros(1)),
            training=result.record(),
        )
        return MotionTrainingRun(_calibrated(prior, held_out), result)

    def _inputs_and_start(
        self, context: Tensor, weights: Tensor, coordinates: Tensor
    ) -> tuple[ReferenceInputs | None, MixtureOfExperts | None]:
        """Inputs of EIM's ratio, and the first start; None where the learner is to find its own."""
        config, n_components = self.config, self.config.n_components
        if not config.is_linear or len(weights) < n_components:
            return None, None
        generator = torch.Generator(context.device).manual_seed(self.random_seed)
        if isinstance(config, MotionEMConfig):
            floor = config.covariance_floor
            return None, start_of_ways(context, weights, coordinates, n_components, floor, generator)
        reference = fit_reference(config, n_components, context, weights, coordinates, generator)
        if config.ratio == "network":
            return None, reference.start
        standardised = StandardisedInputs.from_data(context, coordinates)
        return ReferenceInputs(standardised, reference.density), reference.start

    def _split(self, everything: Demonstrations) -> tuple[Demonstrations, Demonstrations]:
        """Demonstrations to fit to, and those held out for the calibration; at least one of each."""
        n = len(everything)
        if n < 2:
            raise DataError(f"a motion prior needs at least 2 demonstrations, got {n}", n)
        order = np.random.default_rng(self.random_seed).permutation(n)
        n_held_out = min(n - 1, max(1, round(self.config.calibration_share * n)))
        return everything[np.sort(order[n_held_out:])], everything[np.sort(order[:n_held_out])]


def _calibrated(prior: MotionPrior, held_out: Demonstrations) -> MotionPrior:
    """With the scores of held-out demonstrations, and these in the record."""
    weights = torch.from_numpy(prior.representation.weights(held_out.positions))
    residual = torch.from_numpy(prior.representation.residual(held_out.positions))
    context = (torch.from_numpy(held_out.context) - prior.context_center) / prior.context_scale
    log_prob = prior.latent.log_prob(prior.mixture, context, weights)
    record = {
        **prior.training,
        "n_held_out": len(held_out),
        "n_latent": prior.latent.n_latent,
        "held_out_log_prob": float(log_prob.mean()),
        "held_out_residual": float(residual.mean()),
    }
    return replace(prior, calibration=Calibration.from_scores(log_prob, residual), training=record)


def _standardisation(context: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each column; the scale of a constant column is 1."""
    center = context.mean(0)
    scale = (context - center).square().mean(0).sqrt()
    if not context.shape[1]:
        return center, scale
    constant = (context.amin(0) == context.amax(0)) | (scale == 0.0)
    return center, torch.where(constant, torch.ones_like(scale), scale)
