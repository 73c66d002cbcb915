"""Mixtures of linear experts over configurations that reach a vertical line, given its position.

The configurations that reach a line are on a thin curved manifold, which a few Gaussians cannot represent. EM covers
the manifold, but many of its samples miss the line. Samples of EIM stay on the line, but omit parts of the manifold.
The density ratio estimator of EIM also has the coordinate of the tip normal to the line as an input (thesis 6.3). All
demonstrations reach their line, so this coordinate alone would separate the classes. Noise is therefore added to the
position of the line in both classes, and decreases with each iteration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from eim_ros.learning import EIM, EM, EIMConfig, EMConfig, FeatureInputs, FitResult, Status
from eim_ros.learning.models import MixtureOfExperts
from eim_ros.planar.arm import PlanarArm

LEARNERS = ("EM", "EIM + tip")
ITERATIONS = 80  # number of iterations of EIM
REFERENCE_FACTORS = (2.0, 3.0, 5.0, 8.0)  # curved manifolds need many components
GATING_ENTROPY_LOSS = 0.002  # bound per iteration; with a larger bound, few experts remain [nat]
SMOOTHING, DECAY, FLOOR = 0.1, 0.95, 0.05  # noise on the position of the line, see `FeatureInputs`


@dataclass(frozen=True)
class LineExperts:
    """Mixture of linear experts, given the x coordinate of a vertical line.

    Attributes
    ----------
    mixture : MixtureOfExperts
        Mixture with the context (x - center) / scale.
    center, scale : float
        Mean and standard deviation of x in the demonstrations [m].
    """

    mixture: MixtureOfExperts
    center: float
    scale: float

    def draw(self, line_x: float, n_samples: int, generator: torch.Generator) -> Tensor:
        """Draw configurations (n_samples, n_links) [rad] for a line at x = `line_x` [m]."""
        context = torch.full((n_samples, 1), (line_x - self.center) / self.scale, dtype=torch.float64)
        return self.mixture.sample(context, generator)


def fit_line_experts(
    learner: str, arm: PlanarArm, line_x: Tensor, q: Tensor, n_components: int, generator: torch.Generator
) -> LineExperts:
    """Fit a mixture to pairs of line and configuration.

    Parameters
    ----------
    learner : str
        One of `LEARNERS`.
    arm : PlanarArm
    line_x : Tensor (n,)
        x coordinate of the line of each pair [m]. At least two values must be different.
    q : Tensor (n, n_links)
        Configurations that reach these lines [rad].
    n_components : int
        Number of experts.
    generator : torch.Generator

    Examples
    --------
    >>> import torch
    >>> from eim_ros.planar import PlanarArm
    >>> from eim_ros.planar.line_experts import fit_line_experts
    >>> arm, generator = PlanarArm(n_links=3), torch.Generator().manual_seed(0)
    >>> q = 0.5 * torch.randn(100, 3, generator=generator, dtype=torch.float64)
    >>> experts = fit_line_experts("EM", arm, arm.tip(q)[:, 0], q, 2, generator)
    >>> experts.draw(2.0, 5, generator).shape
    torch.Size([5, 3])
    """
    center, scale = float(line_x.mean()), float(line_x.std(correction=0))
    context = ((line_x - center) / scale).unsqueeze(-1)
    fitted: FitResult[Any]
    if learner == "EM":
        fitted = EM(EMConfig(n_components=n_components)).fit((context, q), generator=generator)
    else:

        def normal_coordinate(context: Tensor, sample: Tensor) -> Tensor:
            return arm.tip(sample)[..., :1] - (center + scale * context)

        inputs = FeatureInputs.from_data(context, q, normal_coordinate, smoothing=SMOOTHING, decay=DECAY, floor=FLOOR)
        settings = {
            "plateau_window": 0,  # the noise decreases by a fixed schedule
            "start.n_starts": 1,
            "ratio.reference.factors": REFERENCE_FACTORS,
            "m_step.gating.entropy_loss_bound": GATING_ENTROPY_LOSS,
        }
        config = EIMConfig(n_components=n_components, n_iterations=ITERATIONS).replace(**settings)
        fitted = EIM(config, inputs).fit((context, q), generator=generator)
    if fitted.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return LineExperts(fitted.mixture_of_experts, center, scale)
