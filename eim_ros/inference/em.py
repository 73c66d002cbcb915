"""Expectation maximisation for mixtures of linear experts (thesis 2.1.3, 5.2).

E-step: responsibilities q(z|x,y). M-step: weighted least squares for the experts, softmax regression for the gating
(a few L-BFGS steps, which makes it generalised EM: the likelihood still never falls).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.cluster.vq import kmeans2
from torch import Tensor

from eim_ros.distributions import GaussianMixture, MixtureOfExperts, SoftmaxGating
from eim_ros.errors import DataError
from eim_ros.inference.run import Checkpoint, FitResult, History, run
from eim_ros.inference.training_data import checked_data, checked_start
from eim_ros.projections.gating import fit_gating
from eim_ros.projections.maximum_likelihood import fit_experts
from eim_ros.settings import Settings, option

__all__ = ["EM", "EMConfig", "EMState", "initial_mixture_of_experts"]


@dataclass(frozen=True)
class EMConfig(Settings):
    """Settings of `EM`."""

    n_components: int = option(50, "number of experts", minimum=1)
    n_iterations: int = option(100, "upper bound on iterations", minimum=0)
    tolerance: float = option(
        1e-4, "stop when the mean log-likelihood rises by less than this", unit="nat", minimum=0.0
    )
    covariance_floor: float = option(1e-6, "floor of variances, relative to the data's", minimum=0.0)
    gating_iterations: int = option(5, "L-BFGS iterations of the gating per M-step", minimum=1)


@dataclass(frozen=True)
class EMState:
    """State of `EM`: the model and the data's log-likelihood under it is all there is."""

    model: MixtureOfExperts
    iteration: int

    @property
    def kept(self) -> MixtureOfExperts:
        return self.model

    def tensors(self) -> dict[str, Tensor]:
        return self.model.tensors()


class EM:
    """Maximum likelihood mixture of linear experts.

    Parameters
    ----------
    config : EMConfig
    """

    def __init__(self, config: EMConfig | None = None) -> None:
        self.config = config or EMConfig()

    def fit(
        self,
        data: Any,
        initial: MixtureOfExperts | GaussianMixture | None = None,
        generator: torch.Generator | None = None,
        *,
        callbacks: Sequence[Callable[[EMState, dict[str, float]], None]] = (),
        checkpoint: Checkpoint | None = None,
        resume: bool = False,
    ) -> FitResult[EMState]:
        """Fit to samples.

        Parameters
        ----------
        data : Tensor or pair of Tensor
            Samples (n_samples, n_dims), or context (n_samples, n_context) and sample (n_samples, n_dims).
        initial : MixtureOfExperts or GaussianMixture, optional
            Start; k-means on the standardised joint otherwise.
        generator : torch.Generator, optional
            Randomness of the start; seed 0 if missing.
        callbacks, checkpoint, resume
            See `run`.

        Returns
        -------
        FitResult

        Raises
        ------
        DataError
            Fewer points than experts, empty, mismatched or non-finite data.
        DistributionError
            A start of other dimensions than the data.
        """
        checked = checked_data(data)
        if initial is None:
            generator = generator or torch.Generator().manual_seed(0)
            initial = initial_mixture_of_experts(checked.context, checked.sample, self.config.n_components, generator)
        start = checked_start(initial, checked)
        fitting = _Fitting(self.config, checked.context.to(start.device), checked.sample.to(start.device))
        return run(
            fitting,
            EMState(start, 0),
            self.config.n_iterations,
            callbacks=callbacks,
            checkpoint=checkpoint,
            resume=resume,
            conditional=checked.conditional,
        )


@dataclass(frozen=True)
class _Fitting:
    """EM on one data set, as an `Algorithm`."""

    config: EMConfig
    context: Tensor
    sample: Tensor

    def step(self, state: EMState) -> tuple[EMState, dict[str, float]]:
        log_joint = state.model.log_joint(self.context, self.sample)
        log_prob = torch.logsumexp(log_joint, -1)
        responsibilities = (log_joint - log_prob.unsqueeze(-1)).exp()
        experts = fit_experts(
            self.context,
            self.sample,
            responsibilities,
            covariance_floor=_floor(self.sample, self.config.covariance_floor),
        )
        gating = fit_gating(
            state.model.gating, self.context, responsibilities, max_iterations=self.config.gating_iterations
        )
        following = EMState(MixtureOfExperts(gating, experts), state.iteration + 1)
        return following, {"log_likelihood": float(log_prob.mean())}

    def restore(self, state: EMState, tensors: dict[str, Tensor], iteration: int) -> EMState:
        return EMState(MixtureOfExperts.from_tensors(tensors).to(device=state.model.device), iteration)

    def finished(self, history: History) -> bool:
        values = history.column("log_likelihood")
        return len(values) > 1 and values[-1] - values[-2] < self.config.tolerance


def initial_mixture_of_experts(
    context: Tensor, sample: Tensor, n_components: int, generator: torch.Generator
) -> MixtureOfExperts:
    """Start from k-means clusters of the standardised joint (context, sample).

    Each expert is the regression of its cluster; the gating is fitted to the cluster labels.
    """
    if n_components > len(sample):
        raise DataError(f"{n_components} experts need at least as many points, got {len(sample)}", len(sample))
    joint = torch.cat([context, sample], -1)
    scale = joint.std(0, correction=0)
    standard = (joint - joint.mean(0)) / torch.where(scale > 0.0, scale, torch.ones_like(scale))
    labels = torch.as_tensor(_cluster(standard.cpu().numpy(), n_components, generator), device=sample.device)
    responsibilities = torch.nn.functional.one_hot(labels.long(), n_components).to(sample.dtype)
    experts = fit_experts(context, sample, responsibilities, covariance_floor=_floor(sample, 1e-6))
    zeros = SoftmaxGating(context.new_zeros(n_components, context.shape[1]), context.new_zeros(n_components))
    softened = 0.99 * responsibilities + 0.01 / n_components
    return MixtureOfExperts(fit_gating(zeros, context, softened, max_iterations=30, l2=1e-4), experts)


def _cluster(points: npt.NDArray[np.float64], n_clusters: int, generator: torch.Generator) -> npt.NDArray[np.int32]:
    """Labels (n_points,) by k-means; k-means++ seeds where their cost is bearable."""
    seed = int(torch.randint(2**31 - 1, (1,), generator=generator, device=generator.device))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an empty cluster is harmless: its expert gets the overall distribution
        start = "++" if n_clusters <= 200 else "points"
        _, labels = kmeans2(points, n_clusters, iter=20, minit=start, seed=seed)
    return np.asarray(labels)


def _floor(sample: Tensor, relative: float) -> Tensor:
    """Absolute floor of variances (n_dims,): relative to the data's variance, positive for constant columns too."""
    variance = sample.var(0, correction=0)
    return relative * torch.where(variance > 0.0, variance, torch.ones_like(variance)) + 1e-12
