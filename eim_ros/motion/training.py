"""Training of a motion prior from demonstrations, by EM or EIM on the latent coordinates of their weights.

Different ways around an obstacle should become different experts. In whitened coordinates, two ways are no farther
apart than two goals, so k-means would separate goals instead. `start_of_ways` therefore clusters the weights in joint
units, after removing their linear dependence on the context.

EIM can only be as good as its estimate of the data's density. An estimate that starts from k-means in whitened
coordinates misses ways, however many components it has. `fit_reference` starts from clusters of ways, and uses as many
components as the held-out motions support. EIM takes the result as a known density.

The means of ways that have nothing in common need about one latent coordinate per way. An expert with less than three
demonstrations per coordinate then overfits. For so few, `with_all_coordinates` shrinks covariances, all demonstrations
are fitted, and cross-validation calibrates the scores.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
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
from eim_ros.motion.shrinkage import Shrinkage, marginal, with_all_coordinates, with_marginal

N_CLUSTERINGS = 5  # number of k-means runs; the one with the smallest scatter is used


def start_of_ways(
    context: Tensor,
    weights: Tensor,
    coordinates: Tensor,
    n_components: int,
    covariance_floor: float,
    generator: torch.Generator,
) -> MixtureOfExperts:
    """Create an initial mixture of experts of the coordinates (n, n_latent), whose components separate different ways.

    The weights (n, n_weights) are of at least as many motions as components. The floor is the minimum variance,
    relative to the data's variance.
    """
    inputs = torch.cat([context, torch.ones_like(weights[:, :1])], -1)
    unexplained = weights - inputs @ torch.linalg.lstsq(inputs, weights, driver="gelsd").solution
    labels = [k_means(unexplained, n_components, generator) for _ in range(N_CLUSTERINGS)]
    best = min(labels, key=lambda each: _scatter(unexplained, each, n_components))
    return mixture_of_clusters(context, coordinates, best, n_components, covariance_floor)


def _scatter(points: Tensor, labels: Tensor, n_clusters: int) -> float:
    """Return the sum of squared distances to the means of the clusters."""
    sums = points.new_zeros(n_clusters, points.shape[1]).index_add_(0, labels, points)
    means = sums / torch.bincount(labels, minlength=n_clusters).clamp_min(1).unsqueeze(-1)
    return float((points - means[labels]).square().sum())


PATIENCE = 2  # number of consecutive sizes without a gain after which the search stops
FLOOR = 1e-6  # minimum variance of a component, relative to the data's variance


@dataclass(frozen=True)
class Reference:
    """Density estimate and start for EIM."""

    density: MixtureOfExperts  # estimated density of the coordinates given the context
    start: MixtureOfExperts  # initial model, with as many components as the final one


@dataclass(frozen=True)
class ReferenceInputs(StandardisedInputs):
    """Standardised inputs of a density ratio with a known density."""

    density: MixtureOfExperts

    def known_log_density(self, context: Tensor, sample: Tensor, iteration: int) -> Tensor | None:
        return self.density.log_prob(context, sample)


def fit_reference(
    config: RatioConfig,
    n_components: int,
    context: Tensor,
    weights: Tensor,
    coordinates: Tensor,
    generator: torch.Generator,
) -> Reference:
    """Fit the reference density and the initial model of EIM, with `n_components` components.

    The model describes the latent coordinates (n, n_latent) of motions. Their weights (n, n_weights) distinguish ways.
    """
    order = torch.randperm(len(weights), generator=generator, device=generator.device)
    context, weights, coordinates = (part[order] for part in (context, weights, coordinates))
    n = config.n_training(len(weights))
    held_out = config.held_out(len(weights))
    fits: dict[int, tuple[float, MixtureOfExperts]] = {}
    best, misses = n_components, 0
    for size in _sizes(config, n_components, n):
        candidates = []
        for _ in range(config.reference.starts):
            start = start_of_ways(context[:n], weights[:n], coordinates[:n], size, FLOOR, generator)
            candidates.append(_refined(start, context[:n], coordinates[:n], config.reference.iterations))
        judged = [
            (float(model.log_prob(context[held_out], coordinates[held_out]).mean()), model) for model in candidates
        ]
        fits[size] = max(judged, key=lambda pair: pair[0])
        if size == n_components or fits[size][0] > fits[best][0]:
            best, misses = size, 0
        else:
            misses += 1
            if misses == PATIENCE:
                break
    sizes = (best, n_components)
    density, fitted = (_refined(fits[size][1], context, coordinates, config.reference.iterations) for size in sizes)
    return Reference(density, closest_start(fitted, density, context, generator))


def _sizes(config: RatioConfig, n_components: int, n_samples: int) -> list[int]:
    """Return the numbers of components to try: first the model's, then larger ones with at least two motions each."""
    most = max(n_components, min(n_samples // 2, config.reference.limit + n_components))
    larger = {min(most, round(factor * n_components)) for factor in config.reference.factors if factor > 1.0}
    return [n_components, *sorted(larger - {n_components})]


def _refined(start: MixtureOfExperts, context: Tensor, coordinates: Tensor, n_iterations: int) -> MixtureOfExperts:
    settings = EMConfig(n_components=start.n_components, n_iterations=n_iterations, covariance_floor=FLOOR)
    return _finished(EM(settings).fit((context, coordinates), start))


def _finished(result: FitResult[Any]) -> MixtureOfExperts:
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return result.mixture_of_experts


MOTIONS_PER_COORDINATE = 3  # demonstrations per expert and latent coordinate; fewer do not determine a covariance
N_FOLDS = 10  # least number of folds in the cross-validation of few demonstrations
STRENGTHS = tuple((mean, identity) for mean in (1.0, 0.25, 4.0) for identity in (1.0, 0.1, 0.01, 0.001))
"""Candidates for `Shrinkage.to_mean` and `Shrinkage.to_identity`."""

N_COMPONENTS = 10  # default number of experts
UNKNOWN_DURATION = 1.0  # [s] if the data set contains no durations


@dataclass(frozen=True)
class MotionConfig(Settings):
    """Settings of the representation of motions.

    Examples
    --------
    >>> from eim_ros.motion import MotionConfig
    >>> MotionConfig(n_functions=5).replace("basis_width", 1.0).basis_width
    1.0
    """

    basis: str = option("gaussian", "basis functions of the phase", choices=BASES)
    n_functions: int = option(10, "number of basis functions, or of via points, per joint", minimum=1, maximum=1000)
    basis_width: float = option(
        0.7, "standard deviation of Gaussian basis functions, in units of the distance between them", minimum=1e-3
    )
    ridge: float = option(1e-10, "penalty of the squared weights, relative to the mean square error", minimum=0.0)
    explained: float = option(
        0.999, "share of the variance of the weights that the latent coordinates explain", minimum=0.0, maximum=1.0
    )
    n_latent: int = option(
        0,
        "maximum number of latent coordinates; 0: a third of the demonstrations per expert, at least one per expert",
        minimum=0,
    )
    noise_floor: float = option(
        1e-3, "minimum standard deviation of the weights in any direction", unit="rad or m", minimum=1e-9
    )
    calibration_share: float = option(
        0.2, "share of the demonstrations that calibrate the scores", minimum=0.01, maximum=0.5
    )


@dataclass(frozen=True)
class MotionTrainingRun:
    """Result of a training: the prior, the status of the run, and its records."""

    model: MotionPrior
    result: FitResult[Any]

    @property
    def status(self) -> Status:
        return self.result.status


@dataclass(frozen=True)
class MotionTraining:
    """Training of a motion prior.

    Attributes
    ----------
    motion : MotionConfig
        Settings of the representation.
    learner : EIMConfig or EMConfig
        Settings of the learner. Their type selects EM or EIM.
    seed : int
        Seed of the training and of the choice of held-out demonstrations.
    device : str
        Torch device, such as "cpu" or "cuda".

    Examples
    --------
    >>> import numpy as np
    >>> from eim_ros.core.data_set import DataSet
    >>> from eim_ros.learning import EMConfig
    >>> from eim_ros.motion import MotionTraining
    >>> about = {"task": "motion", "joint_names": ["elbow"], "n_points": 20}
    >>> motions = np.random.default_rng(0).normal(1.0, 0.1, (40, 1)) * np.linspace(0.0, 1.0, 20)
    >>> run = MotionTraining(learner=EMConfig(n_components=1)).run(DataSet(np.zeros((40, 0)), motions, about))
    >>> run.status.name, run.model.joint_names
    ('CONVERGED', ('elbow',))
    """

    motion: MotionConfig = MotionConfig()
    learner: EMConfig | EIMConfig = EIMConfig(n_components=N_COMPONENTS)
    seed: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        expect(self.motion, MotionConfig, "motion")
        expect(self.learner, Settings, "learner")
        checked_whole(self.seed, 0, "the seed")
        checked_device(self.device)

    @torch_threads()
    def run(self, data_set: DataSet, *, run: RunOptions = RunOptions()) -> MotionTrainingRun:
        """Train a motion prior.

        Parameters
        ----------
        data_set : DataSet
            Motions, see `Demonstrations.from_data_set`.
        run : RunOptions
            Callbacks and checkpoints.

        Raises
        ------
        DataError
            If the data set has another task, or too few motions.
        """
        everything = Demonstrations.from_data_set(data_set)
        n, n_experts = len(everything), self.learner.n_components
        if n < 2:
            raise DataError(f"a motion prior needs at least 2 demonstrations, got {n}", n)
        order = np.random.default_rng(self.seed).permutation(n)
        n_held_out = min(n - 1, max(1, round(self.motion.calibration_share * n)))
        problem = self._problem(everything, order[n_held_out:])
        n_fitted = n - n_held_out
        if n_fitted < MOTIONS_PER_COORDINATE * n_experts * problem.latent.n_latent:
            if self.learner.is_linear and n_fitted >= n_experts:
                return self._run_few(everything, order, n_held_out, run)
            problem = replace(problem, latent=problem.latent.with_unbiased_rest(n_fitted))
        prior, result = self._fit(problem, run)
        held_out = everything[np.sort(order[:n_held_out])]
        return MotionTrainingRun(_calibrated(prior, _log_prob(prior, held_out), held_out), result)

    def _run_few(
        self, everything: Demonstrations, order: npt.NDArray[np.int64], most: int, run: RunOptions
    ) -> MotionTrainingRun:
        """Fit all of few motions. Cross-validation with folds of at most `most` motions chooses the shrinkage."""
        size = max(1, min(most, len(order) // N_FOLDS))
        folds = [order[first : first + size] for first in range(0, len(order), size)]
        rests = [self._problem(everything, np.setdiff1d(order, fold)) for fold in folds]
        models = [self._latent_model(rest) for rest in rests]
        scores = []
        for strengths in STRENGTHS:
            priors = [
                rest.prior(self._completed(rest, model, strengths), {})
                for rest, model in zip(rests, models, strict=True)
            ]
            parts = [_log_prob(prior, everything[fold]) for prior, fold in zip(priors, folds, strict=True)]
            scores.append(torch.cat(parts))
        best = int(torch.stack(scores).mean(1).argmax())
        prior, result = self._fit(self._problem(everything, order), run, STRENGTHS[best])
        return MotionTrainingRun(_calibrated(prior, scores[best], everything), result)

    def _problem(self, everything: Demonstrations, rows: npt.NDArray[np.int64]) -> _Problem:
        """Return the problem of fitting some of the motions."""
        motions, config, n_experts = everything[np.sort(rows)], self.motion, self.learner.n_components
        basis = Basis(config.basis, config.n_functions, config.basis_width)
        representation = Representation(basis, motions.joint_names, motions.positions.shape[1], config.ridge)
        weights = torch.from_numpy(representation.weights(motions.positions))
        most = config.n_latent or max(n_experts, len(motions) // (MOTIONS_PER_COORDINATE * n_experts))
        latent = LatentSpace.from_weights(weights, config.explained, most, config.noise_floor)
        center, scale = _standardisation(torch.from_numpy(motions.context))
        context = (torch.from_numpy(motions.context) - center) / scale
        return _Problem(everything, representation, latent, center, scale, context, weights)

    def _fit(
        self, problem: _Problem, run: RunOptions, strengths: tuple[float, float] | None = None
    ) -> tuple[MotionPrior, FitResult[Any]]:
        """Run the learner; `strengths` of the shrinkage are for few motions."""
        context, weights = problem.context.to(self.device), problem.weights.to(self.device)
        coordinates = problem.coordinates[:, : problem.latent.n_latent].to(self.device)
        density = None
        if strengths and isinstance(self.learner, EIMConfig):
            density = self._completed(problem, self._latent_model(problem), strengths)
        inputs, start = self._inputs_and_start(context, weights, coordinates, density)
        learner: EM | EIM = EM(self.learner) if isinstance(self.learner, EMConfig) else EIM(self.learner, inputs)
        generator = torch.Generator(coordinates.device).manual_seed(self.seed)
        result: FitResult[Any] = learner.fit((context, coordinates), start, generator=generator, run=run)
        mixture = result.mixture_of_experts.to(device="cpu", dtype=torch.float64)
        if strengths:
            completed = self._completed(problem, mixture, strengths)
            mixture = completed if inputs is None else with_marginal(completed, mixture)
        return problem.prior(mixture, {**result.record(), "motion": self.motion.to_mapping()}), result

    def _latent_model(self, problem: _Problem) -> MixtureOfExperts:
        """Return the model of the first coordinates of few motions by EM, which EIM also starts from."""
        coordinates, config = problem.coordinates[:, : problem.latent.n_latent], self.learner
        floor = config.covariance_floor if isinstance(config, EMConfig) else FLOOR
        generator = torch.Generator().manual_seed(self.seed)
        parts = (problem.context, problem.weights, coordinates)
        start = start_of_ways(*parts, config.n_components, floor, generator)
        if isinstance(config, EIMConfig):
            return _refined(start, problem.context, coordinates, config.ratio.reference.iterations)
        return _finished(EM(config).fit((problem.context, coordinates), start, generator=generator))

    def _completed(
        self, problem: _Problem, model: MixtureOfExperts, strengths: tuple[float, float]
    ) -> MixtureOfExperts:
        shrinkage = Shrinkage(problem.latent.scales, self.motion.noise_floor, *strengths)
        return with_all_coordinates(model, problem.context, problem.coordinates, shrinkage)

    def _inputs_and_start(
        self, context: Tensor, weights: Tensor, coordinates: Tensor, density: MixtureOfExperts | None
    ) -> tuple[ReferenceInputs | None, MixtureOfExperts | None]:
        """Return the inputs of EIM's density ratio and the initial model; None leaves the choice to the learner.

        A known `density` of few motions, in all coordinates, is the reference of EIM and its start.
        """
        config, n_components = self.learner, self.learner.n_components
        if not config.is_linear or len(weights) < n_components:
            return None, None
        generator = torch.Generator(context.device).manual_seed(self.seed)
        if isinstance(config, EMConfig):
            floor = config.covariance_floor
            return None, start_of_ways(context, weights, coordinates, n_components, floor, generator)
        if density is not None:
            first = marginal(density, coordinates.shape[1]).to(device=coordinates.device)
            reference = Reference(first, first)
        else:
            reference = fit_reference(config.ratio, n_components, context, weights, coordinates, generator)
        if config.ratio.estimator == "network":
            return None, reference.start
        inputs = StandardisedInputs.from_data(context, coordinates)
        return ReferenceInputs(inputs.center, inputs.scale, reference.density), reference.start


@dataclass(frozen=True)
class _Problem:
    """Motions to fit, in the form that learners need."""

    everything: Demonstrations  # also contains held-out motions
    representation: Representation
    latent: LatentSpace
    context_center: Tensor
    context_scale: Tensor
    context: Tensor  # (n, n_context), standardised
    weights: Tensor  # (n, n_weights)

    @property
    def coordinates(self) -> Tensor:
        """All coordinates (n, n_weights) of the weights."""
        return self.latent.coordinates(self.weights)

    def prior(self, mixture: MixtureOfExperts, training: dict[str, Any]) -> MotionPrior:
        """Return the prior with a mixture of the first or of all coordinates, without a calibration."""
        durations = self.everything.durations[np.isfinite(self.everything.durations)]
        return MotionPrior(
            representation=self.representation,
            latent=replace(self.latent, n_latent=mixture.n_dims),
            mixture=mixture,
            context_names=self.everything.context_names,
            context_center=self.context_center,
            context_scale=self.context_scale,
            lower=self.everything.lower,
            upper=self.everything.upper,
            mean_duration=float(durations.mean()) if len(durations) else UNKNOWN_DURATION,
            calibration=Calibration(torch.zeros(1), torch.zeros(1)),
            training=training,
        )


def _log_prob(prior: MotionPrior, motions: Demonstrations) -> Tensor:
    """Return the log densities (n,) [nat] of motions."""
    weights = torch.from_numpy(prior.representation.weights(motions.positions))
    context = (torch.from_numpy(motions.context) - prior.context_center) / prior.context_scale
    return prior.latent.log_prob(prior.mixture, context, weights)


def _calibrated(prior: MotionPrior, log_prob: Tensor, held_out: Demonstrations) -> MotionPrior:
    """Return the prior calibrated by the log densities (n,) of held-out motions, with the means in its record."""
    residual = torch.from_numpy(prior.representation.residual(held_out.positions))
    record = {
        **prior.training,
        "n_held_out": len(held_out),
        "n_latent": prior.latent.n_latent,
        "held_out_log_prob": float(log_prob.mean()),
        "held_out_residual": float(residual.mean()),
    }
    return replace(prior, calibration=Calibration.from_scores(log_prob, residual), training=record)


def _standardisation(context: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean and the standard deviation of each column; the scale of a constant column is 1."""
    center = context.mean(0)
    scale = (context - center).square().mean(0).sqrt()
    if not context.shape[1]:
        return center, scale
    constant = (context.amin(0) == context.amax(0)) | (scale == 0.0)
    return center, torch.where(constant, torch.ones_like(scale), scale)
