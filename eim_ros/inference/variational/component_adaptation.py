"""The number of components: fixed, or adapted as VIPS does (paper, section 3.6; Arenz et al. 2020)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from eim_ros.distributions import MixtureOfExperts
from eim_ros.inference.variational.component_densities import mixture_log_prob
from eim_ros.inference.variational.component_records import ComponentRecords
from eim_ros.inference.variational.components import Components
from eim_ros.inference.variational.sample_database import Evaluated, Reservoir

__all__ = ["DELTAS", "AdaptiveComponents", "Candidates", "ComponentAdaptation", "FixedComponents", "Mixture"]

DELTAS = (5000.0, 1000.0, 500.0, 200.0, 100.0, 50.0)  # [nat]
FIRST_WEIGHT = 1e-29
LEAST_WEIGHT = 1e-6
LEAST_GAIN = 0.4  # of what it lacks to the best reward, a component has to make up for this share


@dataclass(frozen=True)
class Mixture:
    """A mixture with what is remembered of its components.

    Attributes
    ----------
    log_weights : Tensor (n_components,)
    components : Components
    records : ComponentRecords
    n_additions : int
        Components added so far, those of splits included: where the cycle of Delta stands.
    """

    log_weights: Tensor
    components: Components
    records: ComponentRecords
    n_additions: int = 0

    @property
    def model(self) -> MixtureOfExperts:
        """As a distribution; a mixture without contexts as one with contexts of no columns."""
        return self.components.model(self.log_weights)

    def log_prob(self, sample: Tensor) -> Tensor:
        """Log density [nat], (n_samples,), of rows (n_samples, width), given their contexts."""
        return mixture_log_prob(self.components, self.log_weights, sample)

    def take(self, index: Tensor) -> Mixture:
        """Of some of the components, by their numbers (n,)."""
        log_weights, components = self.components.without(self.log_weights, index)
        return Mixture(log_weights, components, self.records.take(index), self.n_additions)


@dataclass(frozen=True)
class Candidates:
    """Where components may be added.

    Attributes
    ----------
    reservoir : Reservoir
        Samples of all iterations.
    prior : Evaluated or None
        New samples of the start.
    """

    reservoir: Reservoir
    prior: Evaluated | None = None

    def drawn(self, n_samples: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Samples and log targets: at most so many of earlier ones, and all of the start's."""
        sample, log_target = self.reservoir.drawn(n_samples, generator)
        if self.prior is None:
            return sample, log_target
        return torch.cat([sample, self.prior.sample]), torch.cat([log_target, self.prior.log_target])


class ComponentAdaptation(Protocol):
    """A rule for the number of components."""

    @property
    def window(self) -> int:
        """Iterations of rewards and weights that it looks back to."""
        ...

    @property
    def n_candidates(self) -> int:
        """Samples of earlier iterations that it wants to choose from; 0 for none."""
        ...

    def n_prior(self, n_components: int, iteration: int) -> int:
        """Samples of the start that it wants evaluated at the end of an iteration, to choose from, too."""
        ...

    def __call__(
        self,
        mixture: Mixture,
        candidates: Candidates,
        iteration: int,
        first_entropy: float,
        generator: torch.Generator,
    ) -> Mixture:
        """The mixture with components added and deleted.

        Parameters
        ----------
        mixture : Mixture
        candidates : Candidates
        iteration : int
            Iterations so far, this one included.
        first_entropy : float
            Mean entropy of the components of the start [nat].
        generator : torch.Generator
        """
        ...


@dataclass(frozen=True)
class FixedComponents:
    """As many components as the start has (E)."""

    window = 2
    n_candidates = 0

    def n_prior(self, n_components: int, iteration: int) -> int:
        return 0

    def __call__(
        self,
        mixture: Mixture,
        candidates: Candidates,
        iteration: int,
        first_entropy: float,
        generator: torch.Generator,
    ) -> Mixture:
        return mixture


@dataclass(frozen=True)
class AdaptiveComponents:
    """Components are added where the target exceeds the model, and deleted where they are of no use (A).

    Every `add_every` iterations one is added at the candidate x with the greatest

        log p~(x)/T - max{log q(x), max_candidates log q - Delta}

    where Delta takes the values of `DELTAS` in turn. Its covariance is isotropic, of an entropy drawn between the
    components' mean, by their weights, and that of the start. Candidates are samples of earlier iterations and, if
    `n_prior_candidates` are wanted, new ones of the start: where no component has ever been there are no others.

    A component is deleted when over the last `delete_after` iterations, and those over which its reward is smoothed
    before, neither its weight nor the weight that its reward deserves was above 1e-6, and its reward, smoothed by a
    Gaussian, has made up for no more than .4 of what it lacked to the best one.

    Attributes
    ----------
    add_every : int
        0 for none.
    delete_after : int
        0 for never.
    max_components : int
        From so many on none is added.
    n_candidates : int
        Samples of earlier iterations to choose from.
    temperature : float
    first_step, first_ridge : float
        Of a new component.
    n_prior_candidates : int
        Samples of the start to choose from, evaluated for each addition.
    """

    add_every: int
    delete_after: int
    max_components: int
    n_candidates: int
    temperature: float
    first_step: float
    first_ridge: float
    n_prior_candidates: int = 0

    def n_prior(self, n_components: int, iteration: int) -> int:
        return self.n_prior_candidates if self._due(n_components, iteration) else 0

    def _due(self, n_components: int, iteration: int) -> bool:
        regular = self.add_every > 0 and iteration > 1 and iteration % self.add_every == 0
        return regular and n_components < self.max_components

    @property
    def window(self) -> int:
        return max(2, self.delete_after + len(smoothing_kernel(self.delete_after)))

    def __call__(
        self,
        mixture: Mixture,
        candidates: Candidates,
        iteration: int,
        first_entropy: float,
        generator: torch.Generator,
    ) -> Mixture:
        if self.delete_after > 0:
            useless = self.useless(mixture.records)
            if bool(useless.any()):
                mixture = mixture.take((~useless).nonzero().flatten())
        if self._due(mixture.components.n_components, iteration):
            return self._with_addition(mixture, candidates, first_entropy, generator)
        return mixture

    def useless(self, records: ComponentRecords) -> Tensor:
        """Which components are useless, (n_components,) of bool; never all."""
        kernel = smoothing_kernel(self.delete_after).to(records.rewards)
        width, known = len(kernel), torch.isfinite(records.rewards).all(0)
        if not bool(known.any()):
            return known
        now = (records.rewards[-width:] * kernel.unsqueeze(-1)).sum(0)
        before = (records.rewards[: -self.delete_after][-width:] * kernel.unsqueeze(-1)).sum(0)
        best = now.nan_to_num(-torch.inf).max()
        gain = (now - before) / (before - best).abs()
        deserved = torch.log_softmax(records.rewards.nan_to_num(-torch.inf), -1)
        greatest = torch.maximum(records.log_weights.nan_to_num(-torch.inf), deserved).amax(0)
        return known & (greatest < math.log(LEAST_WEIGHT)) & (gain <= LEAST_GAIN)

    def _with_addition(
        self, mixture: Mixture, candidates: Candidates, first_entropy: float, generator: torch.Generator
    ) -> Mixture:
        components = mixture.components
        sample, log_target = candidates.drawn(self.n_candidates, generator)
        good = torch.isfinite(log_target)
        sample, log_target = sample[good], log_target[good]
        if not len(sample):
            return mixture
        log_model = mixture.log_prob(sample)
        floor = log_model.max() - DELTAS[mixture.n_additions % len(DELTAS)]
        mean = sample[(log_target / self.temperature - torch.maximum(log_model, floor)).argmax()]
        share = torch.rand((), generator=generator, dtype=mean.dtype, device=mean.device)
        mean_entropy = mixture.log_weights.exp() @ components.entropy()
        entropy = share * mean_entropy + (1.0 - share) * first_entropy
        variance = (2.0 * entropy / components.n_dims - 1.0 - math.log(2.0 * math.pi)).exp()
        return Mixture(
            *components.with_addition(mixture.log_weights, mean, variance, math.log(FIRST_WEIGHT)),
            mixture.records.added(self.first_step, self.first_ridge),
            mixture.n_additions + 1,
        )


def smoothing_kernel(delete_after: int) -> Tensor:
    """Weights of the iterations over which a reward is smoothed: a Gaussian of standard deviation delete_after/8."""
    half = max(1, delete_after // 3)
    place = torch.arange(-half, half, dtype=torch.float64)
    kernel = (-0.5 * (8.0 * place / max(1, delete_after)).square()).exp()
    return kernel / kernel.sum()
