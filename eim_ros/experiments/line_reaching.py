"""Line reaching with a planar robot: mixtures by EM, EIM, and EIM that is told about the tip (thesis 6.3).

The expert reaches any point of an upright line, with its elbow on either side, so its configurations lie on a thin
curved manifold that few Gaussians cannot follow. EM covers it and misses the line between; EIM stays on the line and
leaves out what it cannot represent. The third learner's density ratio estimator sees the tip's x coordinate as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from eim_ros.distributions import GaussianMixture
from eim_ros.inference import EIM, EM, EIMConfig, EMConfig, FeatureInputs
from eim_ros.planar import Expert, ExpertConfig, PlanarArm, PlanarTask, line_task
from eim_ros.settings import Settings, option

__all__ = ["LEARNERS", "LineFit", "LineReachingConfig", "LineReachingResult", "coverage", "fit_line_reaching"]

LEARNERS = ("EM", "EIM", "EIM + tip")
NEAR = 0.1  # [m] from the line within which a sample covers it
N_BINS = 50  # of the histograms along the line
REFERENCE_FACTORS = (2.0, 3.0, 5.0, 8.0, 12.0, 20.0, 50.0, 100.0)  # a manifold wants many more than the model has


@dataclass(frozen=True)
class LineReachingConfig(Settings):
    """Settings of `fit_line_reaching`."""

    n_components: tuple[int, ...] = option((1, 5, 10, 20, 30, 40, 50), "mixtures of so many components", minimum=1)
    n_samples: int = option(10000, "samples of the expert for training, and as many for testing", minimum=100)
    n_links: int = option(10, "links of the robot, 1 m each", minimum=2)
    line_x: float = option(5.0, "where the line is", unit="m")
    line_height: float = option(7.0, "the line reaches as far up and down", unit="m", minimum=0.1)
    n_iterations: int = option(100, "iterations of EIM", minimum=1)
    em_iterations: int = option(100, "iterations of EM at most", minimum=1)
    learners: tuple[str, ...] = option(LEARNERS, "learners to run", choices=LEARNERS)


@dataclass(frozen=True)
class LineFit:
    """One learner's mixture.

    Attributes
    ----------
    mixture : GaussianMixture
    distance : float
        Mean distance of its samples' tips to the line [m].
    near : float
        Share of its samples within 0.1 m of the line.
    coverage : float
        Overlap of the histograms along the line of its samples within 0.1 m and of the test data, from 0 to 1.
    histogram : Tensor (50,)
        The former; sums to 1.
    """

    mixture: GaussianMixture
    distance: float
    near: float
    coverage: float
    histogram: Tensor


@dataclass(frozen=True)
class LineReachingResult:
    """Outcome of all fits.

    Attributes
    ----------
    arm : PlanarArm
    task : PlanarTask
    test : Tensor (n_samples, n_links)
        Configurations of the expert that no learner has seen.
    histogram : Tensor (50,)
        Of the test data along the line; sums to 1.
    fits : dict
        By learner and number of components.
    """

    arm: PlanarArm
    task: PlanarTask
    test: Tensor
    histogram: Tensor
    fits: dict[tuple[str, int], LineFit]


def fit_line_reaching(
    config: LineReachingConfig,
    seed: int = 0,
    progress: Callable[[str, int, LineFit], None] | None = None,
) -> LineReachingResult:
    """Draw the expert's samples and fit all mixtures.

    Parameters
    ----------
    config : LineReachingConfig
    seed : int
        Of data and learners.
    progress : callable, optional
        Called after each fit with learner, number of components and fit.
    """
    generator = torch.Generator().manual_seed(seed)
    arm = PlanarArm(n_links=config.n_links)
    task = line_task((config.line_x, -config.line_height), (config.line_x, config.line_height), tolerance=NEAR)
    drawn = Expert(arm, task, ExpertConfig()).draw(2 * config.n_samples, generator)
    train, test = drawn[: config.n_samples], drawn[config.n_samples :]
    histogram = _histogram(task, arm.tip(test))
    fits = {}
    for n_components in config.n_components:
        for learner in config.learners:
            generator.manual_seed(1_000_003 * seed + n_components)  # each fit is the same whatever came before it
            mixture = _fit(config, learner, n_components, arm, task, train, generator)
            fit = _judged(mixture, arm, task, histogram, config.n_samples, generator)
            fits[learner, n_components] = fit
            if progress is not None:
                progress(learner, n_components, fit)
    return LineReachingResult(arm, task, test, histogram, fits)


def coverage(histogram: Tensor, other: Tensor) -> float:
    """Overlap of two histograms that sum to 1, from 0 to 1."""
    return float(torch.minimum(histogram, other).sum())


def _fit(
    config: LineReachingConfig,
    learner: str,
    n_components: int,
    arm: PlanarArm,
    task: PlanarTask,
    train: Tensor,
    generator: torch.Generator,
) -> GaussianMixture:
    if learner == "EM":
        em_config = EMConfig(n_components=n_components, n_iterations=config.em_iterations)
        return EM(em_config).fit(train, generator=generator).mixture_of_experts.as_mixture()

    def tip(context: Tensor, sample: Tensor) -> Tensor:
        return task.normal_coordinate(arm.tip(sample)).unsqueeze(-1)

    eim_config = EIMConfig(
        n_components=n_components,
        n_iterations=config.n_iterations,
        initial_starts=1,
        reference_factors=REFERENCE_FACTORS,
    )
    inputs = FeatureInputs.from_data(train[:, :0], train, tip) if learner == "EIM + tip" else None
    return EIM(eim_config, inputs).fit(train, generator=generator).mixture_of_experts.as_mixture()


def _judged(
    mixture: GaussianMixture,
    arm: PlanarArm,
    task: PlanarTask,
    test: Tensor,
    n_samples: int,
    generator: torch.Generator,
) -> LineFit:
    tip = arm.tip(mixture.sample(n_samples, generator))
    distance = task.distance(tip)
    near = distance <= NEAR
    histogram = _histogram(task, tip[near])
    return LineFit(mixture, float(distance.mean()), float(near.double().mean()), coverage(histogram, test), histogram)


def _histogram(task: PlanarTask, tip: Tensor) -> Tensor:
    """Shares of tips (n, 2) along the line, (50,); zeros without any."""
    counts = torch.histc(task.along(tip), N_BINS, 0.0, task.length)
    return counts / counts.sum().clamp_min(1.0)
