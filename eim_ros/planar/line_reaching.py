"""Line reaching with a planar robot: mixtures by EM, EIM, and EIM with a feature of the tip (thesis 6.3).

The expert reaches any point of a vertical line, with its elbow on either side. Its configurations lie on a thin curved
manifold that a few Gaussians cannot follow. EM covers the manifold, but many of its samples miss the line. EIM stays on
the line and omits what it cannot represent. In "EIM + tip", the density ratio estimator also sees the tip's coordinate
normal to the line.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from eim_ros.core.settings import Settings, option
from eim_ros.learning import EIMConfig, EMConfig
from eim_ros.learning.configs import RATIO_ESTIMATORS
from eim_ros.learning.eim import EIM
from eim_ros.learning.em import EM
from eim_ros.learning.models import GaussianMixture
from eim_ros.learning.ratio import FeatureInputs
from eim_ros.learning.run import completed, timed
from eim_ros.planar.arm import PlanarArm
from eim_ros.planar.expert import Expert, ExpertConfig
from eim_ros.planar.task import PlanarTask, line_task

LEARNERS = ("EM", "EIM", "EIM + tip")
EXPERT = "expert"  # name of the row with the test data
NEAR = 0.1  # [m] distance to the line within which a sample counts as near
N_BINS = 50  # number of histogram bins along the line
REFERENCE_FACTORS = (2.0, 3.0, 5.0, 8.0, 12.0, 20.0, 50.0, 100.0)  # curved manifolds need many components


@dataclass(frozen=True)
class LineReachingConfig(Settings):
    """Settings of `fit_line_reaching`."""

    n_components: tuple[int, ...] = option((1, 5, 10, 20, 30, 40, 50), "numbers of mixture components", minimum=1)
    n_samples: int = option(
        10000, "number of expert samples for training, and the same number for testing", minimum=100
    )
    n_links: int = option(10, "number of 1 m links of the robot", minimum=2)
    line_x: float = option(5.0, "x coordinate of the line", unit="m")
    line_height: float = option(7.0, "the line reaches from -line_height to line_height", unit="m", minimum=0.1)
    n_iterations: int = option(100, "number of EIM iterations", minimum=1)
    em_iterations: int = option(100, "iterations of EM at most", minimum=1)
    learners: tuple[str, ...] = option(LEARNERS, "learners to run", choices=LEARNERS)
    ratios: tuple[str, ...] = option(RATIO_ESTIMATORS, "density ratio estimators of EIM", choices=RATIO_ESTIMATORS)


@dataclass(frozen=True)
class LineFit:
    """Mixture of one learner, with its quality."""

    mixture: GaussianMixture
    distance: float  # mean distance of its samples' tips to the line [m]
    near: float  # share of its samples within 0.1 m of the line
    coverage: float  # overlap of `histogram` and the test data's histogram, from 0 to 1
    histogram: Tensor  # (50,), shares along the line of its samples within 0.1 m; they sum to 1


@dataclass(frozen=True)
class LineReachingData:
    """Arm, task and samples of the expert.

    Attributes
    ----------
    train, test : Tensor (n_samples, n_links)
        Configurations of the expert; no learner sees the test data.
    """

    arm: PlanarArm
    task: PlanarTask
    train: Tensor
    test: Tensor
    histogram: Tensor  # (50,), shares of the test data along the line; they sum to 1


@dataclass(frozen=True)
class LineReachingResult(LineReachingData):
    """Data and fits of `fit_line_reaching`; `fits` has the key (learner, number of components)."""

    fits: dict[tuple[str, int], LineFit]


def line_reaching_arm(config: LineReachingConfig) -> tuple[PlanarArm, PlanarTask]:
    """Return the robot and its task."""
    ends = (config.line_x, -config.line_height), (config.line_x, config.line_height)
    return PlanarArm(n_links=config.n_links), line_task(*ends, tolerance=NEAR)


def fit_line_reaching(config: LineReachingConfig, seed: int = 0) -> LineReachingResult:
    """Draw the expert's samples and fit all mixtures, with the first density ratio estimator in `config.ratios`."""
    data = line_reaching_data(config, seed)
    fits = {
        (learner, count): fit_mixture(config, data, learner, config.ratios[0], count, seed)[0]
        for count in config.n_components
        for learner in config.learners
    }
    return LineReachingResult(**vars(data), fits=fits)


def coverage(histogram: Tensor, other: Tensor) -> float:
    """Return the overlap, from 0 to 1, of two histograms that sum to 1."""
    return float(torch.minimum(histogram, other).sum())


@lru_cache(maxsize=1)  # all fits with the same seed share the data
def line_reaching_data(config: LineReachingConfig, seed: int) -> LineReachingData:
    """Draw the expert's samples for training and testing; the last result is cached."""
    arm, task = line_reaching_arm(config)
    drawn = Expert(arm, task, ExpertConfig()).draw(2 * config.n_samples, torch.Generator().manual_seed(seed))
    train, test = drawn[: config.n_samples], drawn[config.n_samples :]
    return LineReachingData(arm, task, train, test, _histogram(task, arm.tip(test)))


def fit_mixture(
    config: LineReachingConfig, data: LineReachingData, learner: str, ratio: str, n_components: int, seed: int
) -> tuple[LineFit, float]:
    """Fit one mixture, independent of earlier fits, and return it with its CPU time [s]."""
    generator = torch.Generator().manual_seed(1_000_003 * seed + n_components)
    mixture, seconds = timed(lambda: _mixture(config, data, learner, ratio, n_components, generator))
    return _judged(mixture, data, config.n_samples, generator), seconds


def _mixture(
    config: LineReachingConfig,
    data: LineReachingData,
    learner: str,
    ratio: str,
    n_components: int,
    generator: torch.Generator,
) -> GaussianMixture:
    train = data.train
    if learner == "EM":
        em_config = EMConfig(n_components=n_components, n_iterations=config.em_iterations)
        model = completed(EM(em_config).fit(train, generator=generator))
        assert isinstance(model, GaussianMixture)
        return model

    def tip(context: Tensor, sample: Tensor) -> Tensor:
        return data.task.normal_coordinate(data.arm.tip(sample)).unsqueeze(-1)

    eim_config = EIMConfig.from_mapping(
        {
            "n_components": n_components,
            "n_iterations": config.n_iterations,
            "start.n_starts": 1,
            "ratio.estimator": ratio,
            "ratio.reference.factors": REFERENCE_FACTORS,
        }
    )
    inputs = FeatureInputs.from_data(train[:, :0], train, tip) if learner == "EIM + tip" else None
    model = completed(EIM(eim_config, inputs).fit(train, generator=generator))
    assert isinstance(model, GaussianMixture)
    return model


def _judged(mixture: GaussianMixture, data: LineReachingData, n_samples: int, generator: torch.Generator) -> LineFit:
    tip = data.arm.tip(mixture.sample(n_samples, generator))
    distance = data.task.distance(tip)
    near = distance <= NEAR
    histogram = _histogram(data.task, tip[near])
    overlap = coverage(histogram, data.histogram)
    return LineFit(mixture, float(distance.mean()), float(near.double().mean()), overlap, histogram)


def _histogram(task: PlanarTask, tip: Tensor) -> Tensor:
    """Return the shares of tips (n, 2) along the line, (50,); zeros if there are no tips."""
    counts = torch.histc(task.along(tip), N_BINS, 0.0, task.length)
    return counts / counts.sum().clamp_min(1.0)
