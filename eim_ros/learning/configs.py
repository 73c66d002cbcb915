"""Settings of `EIM` and `EM`, and of their parts.

The auxiliary distribution. The bound of EIM needs q~(z|x, y) at samples of the model (thesis 3.2); the best one is the
posterior, and then only log q_old(x|y) is left of it, a sum over all components. With q~ = q(x, z|y)/q_K(x|y), K the
components nearest to the one that drew the sample, log q_K takes its place: the bound is wrong by
delta = E[-log mass of K] (Luecke 2016, eq. 19 to 21). This is used for many components, and delta is recorded.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from eim_ros.core.settings import Settings, option
from eim_ros.learning.adaptation import AdaptationConfig
from eim_ros.learning.families import FamilyConfig, NetworkFitConfig
from eim_ros.learning.models.evaluator import PreparedMixture
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts
from eim_ros.learning.ratio.objectives import OBJECTIVES


@dataclass(frozen=True)
class AuxiliaryConfig(Settings):
    """Settings of the auxiliary distribution."""

    n_auxiliary_states: int = option(
        16, "components of the auxiliary distribution, if it is truncated; 0: it never is", minimum=0
    )
    exact_auxiliary_below: int = option(
        200, "number of the model's components from which on the auxiliary distribution is truncated", minimum=0
    )

    def prepared(self, model: MixtureOfExperts, context: Tensor, sample: Tensor) -> PreparedMixture:
        """A model whose density at its own samples is truncated where it has many components.

        Parameters
        ----------
        model : MixtureOfExperts
        context : Tensor (n, n_context)
            Contexts of the data.
        sample : Tensor (n, n_dims)
            Samples of the data, or of the model.
        """
        few = model.n_components < self.exact_auxiliary_below
        return PreparedMixture(model, context, sample, 0 if few else self.n_auxiliary_states)


@dataclass(frozen=True)
class ReferenceConfig(Settings):
    """Settings of a reference density."""

    reference_factors: tuple[float, ...] = option(
        (1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 12.0),
        "components of the reference density, as multiples of the model's: tried in turn while held-out data gain",
        minimum=0.0,
    )
    reference_limit: int = option(200, "most components of the reference density beyond the model's own", minimum=1)
    reference_starts: int = option(
        4, "starts of EM for each number of components; the best one is continued", minimum=1
    )
    reference_iterations: int = option(100, "iterations of EM for the reference density", minimum=1)


@dataclass(frozen=True)
class RatioConfig(ReferenceConfig, AuxiliaryConfig):
    """Settings of the density ratio estimator."""

    ratio: str = option(
        "residual",
        "estimator of the density ratio: a density fitted to the data, that and a network, or a network alone",
        choices=("plug-in", "residual", "network"),
    )
    objective: str = option("logistic", "what the network is trained with", choices=tuple(OBJECTIVES))
    hidden_layers: tuple[int, ...] = option((128, 128), "widths of the hidden layers", minimum=1)
    dropout: float = option(0.1, "dropout probability", minimum=0.0, maximum=0.9)
    learning_rate: float = option(3e-3, "step size of Adam", minimum=0.0)
    batch_size: int = option(500, "pairs of each class in a batch", minimum=1)
    initial_epochs: int = option(40, "most passes over the data in the first iteration", minimum=1)
    n_epochs: int = option(2, "most passes over the data per iteration", minimum=1)
    patience: int = option(
        10,
        "passes without a gain on held-out pairs, over all iterations, after which the best weights return",
        minimum=1,
    )
    validation_share: float = option(0.1, "share of the pairs held out; 0: no early stopping", minimum=0.0, maximum=0.5)
    evidence: float = option(
        2.0,
        "a network is used where it lowers the held-out loss by so many standard errors",
        minimum=0.0,
    )

    def n_training(self, n_samples: int) -> int:
        """How many of n_samples pairs, the first ones, are trained on; the rest is held out."""
        return n_samples - int(self.validation_share * n_samples)

    def held_out(self, n_samples: int) -> slice:
        """The pairs that estimators are judged by: those held out, all where nothing is."""
        first = self.n_training(n_samples)
        return slice(first if first < n_samples else 0, n_samples)


@dataclass(frozen=True)
class MStepConfig(NetworkFitConfig):
    """Settings of the M-step."""

    kl_bound: float = option(0.1, "largest KL of an expert's update", unit="nat", minimum=0.0)
    entropy_loss_bound: float = option(
        0.05, "largest loss of an expert's entropy per iteration", unit="nat", minimum=0.0
    )
    gating_kl_bound: float = option(0.01, "largest mean KL of the gating's update", unit="nat", minimum=0.0)
    gating_entropy_loss_bound: float = option(
        0.05, "largest loss of the gating's mean entropy", unit="nat", minimum=0.0
    )
    gating_gradient: str = option(
        "plain",
        "gradient that a linear gating of contexts follows: plain; natural, by which components that have lost their "
        "weight come back, if rewards can be trusted there",
        choices=("plain", "natural"),
    )
    n_gating_contexts: int = option(
        500, "contexts at which the gating's rewards are taken; samples of each component without contexts", minimum=1
    )
    n_gating_samples: int = option(1, "samples per context and expert for the gating's rewards", minimum=1)
    n_expert_samples: int = option(150, "samples per expert for its surrogate", minimum=2)
    surrogate: str = option("gradient", "what the quadratic surrogate is fitted to", choices=("gradient", "value"))
    n_expert_contexts: int = option(1000, "contexts per neural expert for its update", minimum=1)
    n_context_samples: int = option(10, "samples per context and neural expert", minimum=2)


@dataclass(frozen=True)
class GradientConfig(Settings):
    """Settings of the M-step by gradients."""

    n_gradient_steps: int = option(10, "steps of Adam per iteration", minimum=1)
    gradient_step_size: float = option(0.01, "step size of Adam", minimum=0.0)
    n_gradient_contexts: int = option(
        200, "contexts per step, with one sample of each expert; samples of each component without contexts", minimum=1
    )


@dataclass(frozen=True)
class ExactConfig(Settings):
    """Settings of the exact ratio to a known density."""

    temperature: float = option(1.0, "weight of the entropy against the target's log density", minimum=1e-6)
    n_contexts: int = option(0, "contexts of the data that an iteration looks at, drawn anew; 0: all", minimum=0)
    n_objective_samples: int = option(1000, "samples for the record of the objective", minimum=2)
    tolerance: float = option(
        1e-20, "stop when the model changes by less than this KL per iteration", unit="nat", minimum=0.0
    )


def _names(*kinds: type[Settings]) -> frozenset[str]:
    return frozenset(field.name for kind in kinds for field in dataclasses.fields(kind))


@dataclass(frozen=True)
class EIMConfig(RatioConfig, ExactConfig, MStepConfig, GradientConfig, FamilyConfig, AdaptationConfig):
    """Settings of `EIM`.

    Those of the density ratio, estimated or exact, the M-step, the family of models and the number of components are
    inherited.
    """

    unused: ClassVar[frozenset[str]] = _names(ExactConfig)
    """Settings that have no effect if the ratio is estimated from samples."""
    unused_with_target: ClassVar[frozenset[str]] = _names(RatioConfig) - _names(AuxiliaryConfig) | {
        "n_selection_samples",
        "least_demand",
    }
    """Settings that have no effect if the target's density is known."""

    n_components: int = option(50, "number of experts, at the start if it adapts", minimum=1)
    n_iterations: int = option(40, "iterations", minimum=0)
    initial_starts: int = option(
        8, "k-means starts, of which EM continues the one with the highest held-out likelihood", minimum=1
    )
    initial_em_iterations: int = option(40, "iterations of EM after the k-means start", minimum=0)
    update: str = option(
        "structured",
        "M-step: closed form in trust regions, or reparameterised gradients (EIM-US, thesis 6.1)",
        choices=("structured", "unstructured"),
    )
    kl_term: bool = option(True, "KL(model || last model) in the objective; without it EIM-KL (thesis 6.1)")
    gating_gradient: str = option(
        "auto",
        "gradient that a linear gating of contexts follows: plain; natural, by which components of little weight come "
        "back; auto: natural where components are added, whose first weight is little, else plain",
        choices=("auto", "plain", "natural"),
    )
    least_demand: float = option(
        2.0, "log p/q of data, at least, for a component to be added there", unit="nat", minimum=0.0
    )
    n_selection_samples: int = option(
        1000, "samples by which the best model is told from the last; 0: the last model is returned", minimum=0
    )
    plateau_window: int = option(
        0,
        "stop when the held-out estimate of KL(model || data), or the objective with a known density, improves by no "
        "more than its noise from so many iterations to the next; 0: never",
        minimum=0,
    )

    @classmethod
    def known_density(cls, **settings: Any) -> EIMConfig:
        """Return the defaults for a target whose density is known, with other values of some settings."""
        defaults = {"n_iterations": 1000, "initial_starts": 10, "gating_gradient": "natural", "plateau_window": 20}
        return cls(**{**defaults, **settings})

    @property
    def m_step(self) -> MStepConfig:
        """Settings of the M-step, with its gradient chosen."""
        if self.gating_gradient != "auto":
            return self
        return dataclasses.replace(self, gating_gradient="natural" if self.add_every > 0 else "plain")


@dataclass(frozen=True)
class EMConfig(FamilyConfig):
    """Settings of `EM`."""

    n_components: int = option(50, "number of experts", minimum=1)
    n_iterations: int = option(100, "upper bound on iterations", minimum=0)
    tolerance: float = option(
        1e-4, "stop when the mean log-likelihood rises by less than this", unit="nat", minimum=0.0
    )
    covariance_floor: float = option(
        1e-6, "least variance of an expert in any direction, relative to the data's variances", minimum=0.0
    )
    gating_iterations: int = option(5, "L-BFGS iterations of the gating per M-step", minimum=1)
    n_starts: int = option(1, "runs from different starts, of which the best is kept", minimum=1)
    hard: bool = option(False, "give each point to its most probable expert alone")


RATIO_ESTIMATORS = ("residual", "network", "plug-in")  # EIM's estimators from samples, its default first
