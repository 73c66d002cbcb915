"""Training of a motion prior from demonstrations, by EM or EIM.

Different ways around an obstacle should become different experts. In whitened coordinates, two ways are not farther
apart than two goals, so k-means would separate goals instead. Therefore, `start_of_ways` clusters the weights in joint
units, after it has removed their linear dependence on the context.

The learner is fitted only to a few latent coordinates of the weights, because these are enough to distinguish ways.
Linear experts with shrunk covariances are then fitted to all weights (`Regressions`). Cross-validation determines the
shrinkage and calibrates the scores. Therefore, no demonstrations are held out of the fit. EIM uses the result of EM as
the known density of the demonstrations, because the quality of a density ratio depends on the estimate of this density.

Covariances of neural experts are not shrunk, because they depend on the context. Neural experts describe only the
latent coordinates. Some demonstrations are held out to calibrate their scores.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eim_ros.core.checks import checked_whole, expect, with_hints
from eim_ros.core.data_set import DataSet
from eim_ros.core.errors import DataError
from eim_ros.core.parallel import torch_threads
from eim_ros.core.settings import Settings, option
from eim_ros.learning import EIM, EIMConfig, EMConfig, FitResult
from eim_ros.learning.eim.eim import closest_start
from eim_ros.learning.em import EM
from eim_ros.learning.learner import checked_device
from eim_ros.learning.models import MixtureOfExperts
from eim_ros.learning.ratio import StandardisedInputs
from eim_ros.learning.run import RunOptions, Status
from eim_ros.learning.starts import k_means, mixture_of_clusters
from eim_ros.motion.demonstrations import Demonstrations
from eim_ros.motion.distribution import RECORDING
from eim_ros.motion.prior import Calibration, MotionPrior
from eim_ros.motion.representation import BASES, Basis, LatentSpace, Representation
from eim_ros.motion.shrinkage import Regressions, marginal, with_marginal

N_CLUSTERINGS = 5  # number of k-means runs; the run with the smallest scatter is used
FLOOR = 1e-6  # minimum variance of a component, relative to the variance of the data
MOTIONS_PER_COORDINATE = 3  # number of demonstrations per expert and latent coordinate that is enough for a covariance
N_FOLDS = 10  # minimum number of folds in the cross-validation
MOST_ITERATIONS = 100  # iterations of EM on each fold; more iterations hardly change the shrinkage
STRENGTHS = tuple((mean, 10.0**-exponent) for mean in (1.0, 0.25, 4.0) for exponent in range(7))
"""Candidates for `to_mean` and `to_identity` of `Regressions.shrunk`."""
N_COMPONENTS = 10  # default number of experts
MOTIONS_PER_EXPERT = 10  # minimum number of demonstrations per expert of the known density for EIM
RANGE_MARGIN = 5.0  # margin around the range of a recording, in units of the noise floor
UNKNOWN_DURATION = 1.0  # [s] if the data set contains no durations


def start_of_ways(
    context: Tensor,
    weights: Tensor,
    coordinates: Tensor,
    n_components: int,
    covariance_floor: float,
    generator: torch.Generator,
) -> MixtureOfExperts:
    """Create an initial mixture of experts of the coordinates (n, n_latent) that separates different ways.

    The weights (n, n_weights) must contain at least `n_components` motions. `covariance_floor` is the minimum variance,
    relative to the variance of the data.
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


@dataclass(frozen=True)
class ReferenceInputs(StandardisedInputs):
    """Standardised inputs of a density ratio with a known density."""

    density: MixtureOfExperts

    def known_log_density(self, context: Tensor, sample: Tensor, iteration: int) -> Tensor | None:
        return self.density.log_prob(context, sample)


def _finished(result: FitResult[Any]) -> MixtureOfExperts:
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return result.mixture_of_experts


@with_hints
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
    ridge: float = option(1e-12, "penalty on the squared weights, relative to the mean square error", minimum=0.0)
    explained: float = option(
        0.999, "share of the variance of the weights that the latent coordinates explain", minimum=0.0, maximum=1.0
    )
    n_latent: int = option(
        0,
        "maximum number of latent coordinates; 0: a third of the demonstrations per expert, but at least the number "
        "of experts",
        minimum=0,
    )
    noise_floor: float = option(
        1e-3, "minimum standard deviation of the weights in any direction", unit="rad or m", minimum=1e-9
    )
    calibration_share: float = option(
        0.2,
        "maximum share of the demonstrations that are held out at a time to calibrate the scores",
        minimum=0.01,
        maximum=0.5,
    )


@dataclass(frozen=True)
class MotionTrainingRun:
    """Result of a training: the prior, the status of the run, and its records."""

    model: MotionPrior
    result: FitResult[Any]

    @property
    def status(self) -> Status:
        return self.result.status

    @property
    def message(self) -> str:
        """Explanation of the status; see `LoopResult.message`."""
        return self.result.message


@with_hints
@dataclass(frozen=True)
class MotionTraining:
    """Training of a motion prior.

    Attributes
    ----------
    motion : MotionConfig
        Settings of the representation.
    learner : EIMConfig or EMConfig
        Settings of the learner. Their type selects EM or EIM. The final covariances of linear experts are always full.
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
            Motions; see `Demonstrations.from_data_set`.
        run : RunOptions
            Callbacks and checkpoints.

        Raises
        ------
        DataError
            If the data set has another task or too few motions.
        """
        everything = Demonstrations.from_data_set(data_set)
        n = len(everything)
        if n < 2:
            raise DataError(f"a motion prior needs at least 2 demonstrations, got {n}", n)
        order = np.random.default_rng(self.seed).permutation(n)
        n_held_out = min(n - 1, max(1, round(self.motion.calibration_share * n)))
        n_fitted, n_experts = n - n_held_out, self.learner.n_components
        if n_fitted < n_experts:
            raise DataError(f"{n_experts} experts need at least {n_experts} demonstrations, got {n_fitted}", n_fitted)
        if self.learner.is_linear:
            return self._run_linear(everything, order, n_held_out, run)
        problem = self._problem(everything, order[n_held_out:])
        mixture, result = self._learned(problem, None, None, run)
        prior = problem.prior(mixture, self._record(result))
        held_out = everything[np.sort(order[:n_held_out])]
        return MotionTrainingRun(_calibrated(prior, problem.log_prob([mixture], held_out)[0], held_out), result)

    def _run_linear(
        self, everything: Demonstrations, order: npt.NDArray[np.int64], most: int, run: RunOptions
    ) -> MotionTrainingRun:
        """Fit all motions. Cross-validation with folds of at most `most` motions chooses the shrinkage."""
        size = max(1, min(most, len(order) // N_FOLDS))
        folds = [order[first : first + size] for first in range(0, len(order), size)]
        scores = torch.cat([self._fold_scores(everything, np.setdiff1d(order, fold), fold) for fold in folds], 1)
        best = int(scores.mean(1).argmax())
        shrinkage = (*STRENGTHS[best], self.motion.noise_floor)
        problem = self._problem(everything, order)
        mixture, result = self._fit_linear(problem, shrinkage, run)
        prior = problem.prior(mixture, self._record(result))
        return MotionTrainingRun(_calibrated(prior, scores[best], everything[np.concatenate(folds)]), result)

    def _fold_scores(
        self, everything: Demonstrations, rest: npt.NDArray[np.int64], fold: npt.NDArray[np.int64]
    ) -> Tensor:
        """Return the log densities (n_strengths, n) [nat] of a fold's motions under models of the other motions."""
        problem, held_out = self._problem(everything, rest), everything[fold]
        regressions = problem.regressions(self._latent_model(problem, self._n_known(problem)))
        shrunk = (regressions.shrunk(*strengths, self.motion.noise_floor) for strengths in STRENGTHS)
        return problem.log_prob(shrunk, held_out)

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
        return _Problem(everything, representation, latent, center, scale, context, weights, config.noise_floor)

    def _fit_linear(
        self, problem: _Problem, shrinkage: tuple[float, float, float], run: RunOptions
    ) -> tuple[MixtureOfExperts, FitResult[Any]]:
        """Run the learner, and extend its model to all coordinates."""
        if isinstance(self.learner, EMConfig):
            mixture, result = self._learned(problem, None, self._start(problem, self.learner.n_components), run)
            return problem.regressions(mixture).shrunk(*shrinkage), result
        known = start = self._density(problem, self._n_known(problem), shrinkage)
        if known.n_components > self.learner.n_components:
            own = self._density(problem, self.learner.n_components, shrinkage)
            start = closest_start(own, known, problem.context, torch.Generator().manual_seed(self.seed))
        mixture, result = self._learned(problem, known, start, run)
        return with_marginal(problem.regressions(mixture).shrunk(*shrinkage), mixture), result

    def _learned(
        self, problem: _Problem, known: MixtureOfExperts | None, start: MixtureOfExperts | None, run: RunOptions
    ) -> tuple[MixtureOfExperts, FitResult[Any]]:
        """Run the learner on the latent coordinates. EIM uses the known density and the start if they are given."""
        context, coordinates = problem.context.to(self.device), problem.latent_coordinates.to(self.device)
        start = None if start is None else start.to(device=self.device)
        inputs = None
        if known is not None and isinstance(self.learner, EIMConfig) and self.learner.ratio.estimator != "network":
            units = StandardisedInputs.from_data(context, coordinates)
            inputs = ReferenceInputs(units.center, units.scale, known.to(device=self.device))
        learner: EM | EIM = EM(self.learner) if isinstance(self.learner, EMConfig) else EIM(self.learner, inputs)
        generator = torch.Generator(self.device).manual_seed(self.seed)
        result: FitResult[Any] = learner.fit((context, coordinates), start, generator=generator, run=run)
        return result.mixture_of_experts.to(device="cpu", dtype=torch.float64), result

    def _density(self, problem: _Problem, n_experts: int, shrinkage: tuple[float, float, float]) -> MixtureOfExperts:
        """Fit the latent coordinates by EM, and shrink the covariances."""
        shrunk = problem.regressions(self._latent_model(problem, n_experts)).shrunk(*shrinkage)
        return marginal(shrunk, problem.latent.n_latent)

    def _n_known(self, problem: _Problem) -> int:
        """Return the number of experts of the known density for EIM.

        Fewer than `N_COMPONENTS` experts may average over ways. EIM would then approach this average.
        """
        if isinstance(self.learner, EMConfig):
            return self.learner.n_components
        return max(self.learner.n_components, min(N_COMPONENTS, len(problem.weights) // MOTIONS_PER_EXPERT))

    def _latent_model(self, problem: _Problem, n_experts: int) -> MixtureOfExperts:
        """Fit a model of the latent coordinates by a few iterations of EM from one start."""
        config = self.learner
        if isinstance(config, EIMConfig):
            n_iterations = config.ratio.reference.iterations
            config = EMConfig(n_iterations=n_iterations, covariance_floor=FLOOR)
        config = replace(
            config, n_components=n_experts, n_starts=1, n_iterations=min(config.n_iterations, MOST_ITERATIONS)
        )
        generator = torch.Generator().manual_seed(self.seed)
        pairs = (problem.context, problem.latent_coordinates)
        return _finished(EM(config).fit(pairs, self._start(problem, n_experts), generator=generator))

    def _start(self, problem: _Problem, n_experts: int) -> MixtureOfExperts:
        config = self.learner
        floor = config.covariance_floor if isinstance(config, EMConfig) else FLOOR
        generator = torch.Generator().manual_seed(self.seed)
        parts = (problem.context, problem.weights, problem.latent_coordinates)
        return start_of_ways(*parts, n_experts, floor, generator)

    def _record(self, result: FitResult[Any]) -> dict[str, Any]:
        return {**result.record(), "motion": self.motion.to_mapping()}


@dataclass(frozen=True)
class _Problem:
    """Motions of a fit, in the form that learners need."""

    everything: Demonstrations  # all motions, including those that are held out
    representation: Representation
    latent: LatentSpace
    context_center: Tensor
    context_scale: Tensor
    context: Tensor  # (n, n_context), standardised
    weights: Tensor  # (n, n_weights)
    noise_floor: float  # [rad or m]

    @property
    def latent_coordinates(self) -> Tensor:
        """Coordinates (n, n_latent) to which the learner is fitted."""
        return self.latent.coordinates(self.weights)[:, : self.latent.n_latent]

    def regressions(self, model: MixtureOfExperts) -> Regressions:
        """Return the regressions of all coordinates, for a model of the latent coordinates."""
        return Regressions.from_model(model, self.context, self.latent.coordinates(self.weights), self.latent.scales)

    def log_prob(self, mixtures: Iterable[MixtureOfExperts], motions: Demonstrations) -> Tensor:
        """Return the log densities (n_mixtures, n) [nat] of motions under mixtures of the first or all coordinates."""
        weights = torch.from_numpy(self.representation.weights(motions.positions))
        context = (torch.from_numpy(motions.context) - self.context_center) / self.context_scale
        spaces = ((replace(self.latent, n_latent=mixture.n_dims), mixture) for mixture in mixtures)
        return torch.stack([space.log_prob(mixture, context, weights) for space, mixture in spaces])

    def prior(self, mixture: MixtureOfExperts, training: dict[str, Any]) -> MotionPrior:
        """Return the prior with a mixture of the first or of all coordinates, without a calibration."""
        # Motions often start or end at a limit of the range, with noise of this size.
        margin = RANGE_MARGIN * self.noise_floor if self.everything.limits_source == RECORDING else 0.0
        durations = self.everything.durations[np.isfinite(self.everything.durations)]
        return MotionPrior(
            representation=self.representation,
            latent=replace(self.latent, n_latent=mixture.n_dims),
            mixture=mixture,
            context_names=self.everything.context_names,
            context_center=self.context_center,
            context_scale=self.context_scale,
            lower=self.everything.lower - margin,
            upper=self.everything.upper + margin,
            limits_source=self.everything.limits_source,
            mean_duration=float(durations.mean()) if len(durations) else UNKNOWN_DURATION,
            calibration=Calibration(torch.zeros(1), torch.zeros(1)),
            training=training,
        )


def _calibrated(prior: MotionPrior, log_prob: Tensor, held_out: Demonstrations) -> MotionPrior:
    """Return the prior with a calibration by log densities (n,) of held-out motions. Add their means to its record."""
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
    """Return the mean and the scale of each column: its standard deviation, or 1 if the column is constant."""
    center = context.mean(0)
    scale = (context - center).square().mean(0).sqrt()
    if not context.shape[1]:
        return center, scale
    constant = (context.amin(0) == context.amax(0)) | (scale == 0.0)
    return center, torch.where(constant, torch.ones_like(scale), scale)
