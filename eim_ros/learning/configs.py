"""Settings of `EM`, `TruncatedEM` and `EIM`, with one group for each part of the learner.

Use dotted names to set a field of a group: `EIM(**{"ratio.patience": 5})`, or `eim train --set ratio.patience=5`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from eim_ros.core.settings import Settings, field_types, option
from eim_ros.learning.adaptation import AdaptationConfig
from eim_ros.learning.models.evaluator import PreparedMixture
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts
from eim_ros.learning.projections.neural import FitSettings
from eim_ros.learning.ratio.density_ratio import OBJECTIVES

RATIO_ESTIMATORS = ("residual", "network", "plug-in")  # estimators from samples; the first one is the default


@dataclass(frozen=True)
class NetworkConfig(Settings):
    """Settings of neural experts and gatings, and of their fits."""

    layers: tuple[int, ...] = option((50, 50), "widths of the hidden layers", minimum=1)
    iterations: int = option(20, "L-BFGS iterations of the networks per update", minimum=1)
    l2: float = option(1e-3, "weight of the sum of squared network weights", minimum=0.0)

    @property
    def fit_settings(self) -> FitSettings:
        return FitSettings(self.iterations, self.l2)


@dataclass(frozen=True)
class FamilyConfig(Settings):
    """Settings that select the kinds of experts and gating."""

    expert_kind: str = option(
        "linear", "experts: linear in the context, or networks of it (thesis 4.2.3)", choices=("linear", "neural")
    )
    gating_kind: str = option(
        "linear", "gating: softmax of linear functions, or of the outputs of a network", choices=("linear", "neural")
    )
    networks: NetworkConfig = NetworkConfig()

    @property
    def is_linear(self) -> bool:
        return self.expert_kind == "linear" and self.gating_kind == "linear"


@dataclass(frozen=True)
class AuxiliaryConfig(Settings):
    """Settings of the auxiliary distribution.

    The bound of EIM needs an auxiliary distribution q~(z|x, y) at samples of the model (thesis 3.2). The best q~ is the
    posterior. The bound then depends only on log q_old(x|y), a sum over all components. If there are many components,
    the sum is restricted to the set K of components nearest to the one that drew the sample, and
    q~ = q(x, z|y)/q_K(x|y). This changes the bound by delta = E[-log mass of K] (Luecke 2016, eq. 19 to 21), which the
    history records.
    """

    n_states: int = option(
        16, "number of components of a truncated auxiliary distribution; 0: never truncate", minimum=0
    )
    exact_below: int = option(200, "number of components below which nothing is truncated", minimum=0)

    def prepared(self, model: MixtureOfExperts, context: Tensor, sample: Tensor) -> PreparedMixture:
        """Return the model, prepared for many evaluations of its density.

        The density at the model's own samples is truncated if the model has many components. Contexts (n, n_context) of
        the data and samples (n, n_dims) of the data or of the model set the units of the computation.
        """
        few = model.n_components < self.exact_below
        return PreparedMixture(model, context, sample, 0 if few else self.n_states)


@dataclass(frozen=True)
class ReferenceConfig(Settings):
    """Settings of the reference density, a mixture fitted to the data by EM."""

    factors: tuple[float, ...] = option(
        (1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 12.0),
        "numbers of components to try, as multiples of the model's, while the held-out likelihood rises",
        minimum=0.0,
    )
    limit: int = option(200, "largest number of components, unless the model has more", minimum=1)
    starts: int = option(4, "starts of EM for each number of components; the best one is continued", minimum=1)
    iterations: int = option(100, "iterations of EM", minimum=1)


@dataclass(frozen=True)
class RatioConfig(Settings):
    """Settings of the density ratio estimator.

    Examples
    --------
    EIM without a network. The density of the data is estimated by a mixture with as many components as the model:

    >>> import torch
    >>> from eim_ros.learning import EIM, RatioConfig
    >>> config = RatioConfig(estimator="plug-in").replace(**{"reference.factors": (1.0,)})
    >>> data = 3.0 + 0.1 * torch.randn(100, 1, generator=torch.Generator().manual_seed(0))
    >>> result = EIM(n_components=1, n_iterations=1, ratio=config, seed=0).fit(data)
    >>> round(float(result.means), 1)
    3.0
    """

    estimator: str = option(
        "residual",
        "estimator of the density ratio: a density fitted to the data (plug-in), that and a network (residual), or a "
        "network alone",
        choices=("plug-in", "residual", "network"),
    )
    objective: str = option("logistic", "training objective of the network", choices=tuple(OBJECTIVES))
    hidden_layers: tuple[int, ...] = option((128, 128), "widths of the hidden layers", minimum=1)
    quadratic: bool = option(False, "show the network the products of two coordinates, too, unless features are given")
    dropout: float = option(0.1, "dropout probability", minimum=0.0, maximum=0.9)
    learning_rate: float = option(3e-3, "step size of Adam", minimum=0.0)
    batch_size: int = option(500, "pairs of each class in a batch", minimum=1)
    initial_epochs: int = option(40, "maximum number of passes over the data in the first iteration", minimum=1)
    n_epochs: int = option(2, "maximum number of passes over the data per iteration", minimum=1)
    patience: int = option(
        10,
        "passes without a gain on held-out pairs, counted over all iterations, before the best weights are restored",
        minimum=1,
    )
    validation_share: float = option(
        0.1, "share of the pairs that is held out; 0: no early stopping", minimum=0.0, maximum=0.5
    )
    evidence: float = option(
        2.0,
        "smallest gain in held-out loss, in standard errors, for which the network is used; -1: it is always used",
        minimum=-1.0,
    )
    reference: ReferenceConfig = ReferenceConfig()
    auxiliary: AuxiliaryConfig = AuxiliaryConfig()

    def n_training(self, n_samples: int) -> int:
        """Return the number of pairs used for training, the first ones of `n_samples`; the others are held out."""
        return n_samples - int(self.validation_share * n_samples)

    def held_out(self, n_samples: int) -> slice:
        """Return the slice of the `n_samples` pairs that estimators are evaluated on.

        It contains the held-out pairs, or all pairs if none are held out.
        """
        first = self.n_training(n_samples)
        return slice(first if first < n_samples else 0, n_samples)


@dataclass(frozen=True)
class GatingStepConfig(Settings):
    """Settings of the update of the gating."""

    update: str = option(
        "direct",
        "maximise the objective over the parameters directly, or refit the gating to the updated probabilities of each "
        "context (thesis 4.2.1); without contexts, both are the same",
        choices=("direct", "refit"),
    )
    kl_bound: float = option(0.01, "largest mean KL of the update", unit="nat", minimum=0.0)
    entropy_loss_bound: float = option(0.05, "largest loss of mean entropy per iteration", unit="nat", minimum=0.0)
    gradient: str = option(
        "auto",
        "gradient for a linear gating with contexts: plain; natural, which lets components of small weight recover; "
        "auto, natural if components are added, else plain",
        choices=("auto", "plain", "natural"),
    )
    n_contexts: int = option(
        500, "contexts at which rewards are evaluated; without contexts, samples of each component", minimum=1
    )
    n_samples: int = option(1, "samples per context and expert", minimum=1)
    n_experts: int = option(
        0,
        "largest mean number of experts per context whose rewards are evaluated, drawn at random; 0: all, as in the "
        "thesis; refits and natural gradients always evaluate all",
        minimum=0,
    )


@dataclass(frozen=True)
class MStepConfig(Settings):
    """Settings of the M-step."""

    kl_bound: float = option(0.1, "largest KL of an expert's update", unit="nat", minimum=0.0)
    entropy_loss_bound: float = option(
        0.05, "largest loss of an expert's entropy per iteration", unit="nat", minimum=0.0
    )
    covariance: str = option(
        "full",
        "covariances of linear experts: full; diagonal; or tied, one covariance of all experts, whose bounds apply to "
        "the mean over the experts",
        choices=("full", "diagonal", "tied"),
    )
    n_samples: int = option(150, "samples per linear expert for its surrogate", minimum=2)
    contexts: str = option(
        "resampled",
        "contexts y of a linear expert z: drawn from p(y) q(z|y), or drawn from p(y) and weighted by q(z|y)/q(z) "
        "(thesis 4.3.2)",
        choices=("resampled", "weighted"),
    )
    surrogate: str = option(
        "gradient", "fit the quadratic surrogate to gradients or values of the ratio", choices=("gradient", "value")
    )
    n_contexts: int = option(1000, "contexts per neural expert for its update", minimum=1)
    n_context_samples: int = option(10, "samples per context and neural expert", minimum=2)
    gating: GatingStepConfig = GatingStepConfig()


@dataclass(frozen=True)
class GradientStepsConfig(Settings):
    """Settings of the M-step by gradients."""

    n_steps: int = option(10, "steps of Adam per iteration", minimum=1)
    step_size: float = option(0.01, "step size of Adam", minimum=0.0)
    n_contexts: int = option(
        200, "contexts per step, with one sample of each expert; without contexts, samples of each expert", minimum=1
    )


@dataclass(frozen=True)
class StartConfig(Settings):
    """Settings of the start, if none is given to `fit`.

    EIM keeps to the modes near its start, so the start is a part of the method. Its kinds, from the cheapest to the
    most expensive:

    - "random": experts at random points of the data, each with the covariance of all data, and equal weights.
    - "k-means": the clusters of k-means (`initial_mixture_of_experts`).
    - "em": the likeliest of several fits by EM from k-means.
    - "closest": the fit by EM, or the subset of the components of the reference density that has the least reverse KL
      to it. It costs nothing beyond the reference, which has more components than the model, each on one mode. The
      start may then be all: compare the result with that of `n_iterations=0`. A single neural expert starts at the
      branch of the data that is closest to a mixture of several. If the estimator is a network alone, there is no
      reference, and linear experts start as with "em". So do all experts if the density is known.
    """

    kind: str = option(
        "closest",
        "start: random; k-means; em, a fit by EM; or closest, see `StartConfig`",
        choices=("closest", "em", "k-means", "random"),
    )
    n_starts: int = option(8, "k-means starts; EM continues the one with the highest held-out likelihood", minimum=1)
    em_iterations: int = option(40, "iterations of EM after the k-means start", minimum=0)


@dataclass(frozen=True)
class ExactConfig(Settings):
    """Settings of the exact ratio to a target whose density is known."""

    temperature: float = option(1.0, "weight of the entropy relative to the target's log density", minimum=1e-6)
    n_contexts: int = option(0, "contexts of the data that each iteration uses, drawn at random; 0: all", minimum=0)
    n_objective_samples: int = option(1000, "samples that estimate the objective for the history", minimum=2)
    tolerance: float = option(
        1e-20, "stop if the model changes by less than this KL per iteration", unit="nat", minimum=0.0
    )


@dataclass(frozen=True)
class EIMConfig(FamilyConfig):
    """Settings of `EIM`.

    Examples
    --------
    Settings of a group have dotted names. Presets can be changed in the same way:

    >>> from eim_ros.learning import EIMConfig, RatioConfig
    >>> config = EIMConfig(n_components=5, ratio=RatioConfig(estimator="plug-in"))
    >>> config.replace(**{"ratio.patience": 5}).ratio.estimator
    'plug-in'
    >>> EIMConfig.known_density(**{"m_step.kl_bound": 0.5}).n_iterations
    1000
    """

    unused: ClassVar[frozenset[str]] = frozenset({"exact"})
    """Groups of settings that have no effect if the ratio is estimated from samples."""
    unused_with_target: ClassVar[frozenset[str]] = frozenset(
        {"n_selection_samples", "adaptation.least_demand", "ratio.reference"}
        | {f"ratio.{name}" for name in field_types(RatioConfig) if "." not in name}
    )
    """Settings that have no effect if the target's density is known."""
    unused_with_estimator: ClassVar[frozenset[str]] = unused | (
        {f"ratio.{name.partition('.')[0]}" for name in field_types(RatioConfig)} - {"ratio.validation_share"}
    )
    """Settings that have no effect if the user gives an estimator of the density ratio."""

    n_components: int = option(50, "number of experts; the initial number if it adapts", minimum=1)
    n_iterations: int = option(40, "iterations", minimum=0)
    update: str = option(
        "structured",
        "M-step: closed form in trust regions, or reparameterised gradients (EIM-US, thesis 6.1)",
        choices=("structured", "unstructured"),
    )
    kl_term: bool = option(True, "include KL(model || last model) in the objective; EIM-KL omits it (thesis 6.1)")
    n_selection_samples: int = option(
        1000,
        "samples that decide whether the new model is better than the best one; 0: return the last model",
        minimum=0,
    )
    plateau_window: int = option(
        5,
        "iterations after which the run stops if the held-out KL(model || data), or the objective for a known density, "
        "has not improved by more than its noise; 0: never stop",
        minimum=0,
    )
    ratio: RatioConfig = RatioConfig()
    m_step: MStepConfig = MStepConfig()
    gradient_steps: GradientStepsConfig = GradientStepsConfig()
    start: StartConfig = StartConfig()
    adaptation: AdaptationConfig = AdaptationConfig()
    exact: ExactConfig = ExactConfig()

    @classmethod
    def known_density(cls, **settings: Any) -> EIMConfig:
        """Return the defaults for a target with a known density; `settings` replace some of them."""
        preset = {"n_iterations": 1000, "start.n_starts": 10, "m_step.gating.gradient": "natural", "plateau_window": 20}
        return cls.from_mapping(preset).replace(**settings)

    @classmethod
    def thesis(cls, **settings: Any) -> EIMConfig:
        """Return the settings of the thesis, where they differ from the defaults; `settings` replace some of them.

        The network alone estimates the ratio and is always used (4.3.1), contexts have importance weights (4.3.2),
        quadratic surrogates are fitted to values of the ratio (4.1.2), the gating is refitted to the updated
        probabilities (4.2.1), the bounds are those of most experiments (table B.1), and the last model is returned.
        """
        preset = {
            "n_iterations": 300,
            "plateau_window": 0,
            "n_selection_samples": 0,
            "ratio.estimator": "network",
            "ratio.evidence": -1.0,
            "m_step.kl_bound": 0.005,
            "m_step.surrogate": "value",
            "m_step.contexts": "weighted",
            "m_step.n_samples": 1000,
            "m_step.gating.update": "refit",
            "m_step.gating.kl_bound": 0.005,
            "start.kind": "em",
            "start.n_starts": 1,
        }
        return cls.from_mapping(preset).replace(**settings)

    @classmethod
    def kinematic(cls, **settings: Any) -> EIMConfig:
        """Return the defaults for a ratio with forward kinematics as inputs; `settings` replace some of them.

        Only the density p(q) of the configurations is unknown, so larger steps and less training are sufficient. The
        gating loses entropy slowly, so that several experts remain for each pose. The run has a fixed length, because
        the KL also rises as the smoothing of the contexts decreases.
        """
        preset = {
            "n_iterations": 80,
            "plateau_window": 0,
            "n_selection_samples": 0,
            "ratio.dropout": 0.0,
            "ratio.initial_epochs": 10,
            "m_step.kl_bound": 0.2,
            "m_step.entropy_loss_bound": 0.2,
            "m_step.gating.kl_bound": 0.02,
            "m_step.gating.entropy_loss_bound": 0.02,
            "m_step.gating.n_contexts": 1000,
            "m_step.gating.n_experts": 20,
            "start.n_starts": 1,
            "start.em_iterations": 5,
        }
        return cls.from_mapping(preset).replace(**settings)

    @classmethod
    def known_kinematics(cls, **settings: Any) -> EIMConfig:
        """Return the defaults for inference with known kinematics; `settings` replace some of them."""
        preset = {
            "n_components": 1000,
            "n_iterations": 100,
            "plateau_window": 0,
            "m_step.kl_bound": 0.3,
            "m_step.entropy_loss_bound": 0.3,
            "m_step.n_samples": 60,
            "m_step.gating.kl_bound": 0.05,
            "m_step.gating.n_contexts": 200,
            "m_step.gating.gradient": "natural",
            "start.em_iterations": 10,
            "exact.n_contexts": 10_000,
            "exact.n_objective_samples": 500,
        }
        return cls.from_mapping(preset).replace(**settings)

    @property
    def resolved_m_step(self) -> MStepConfig:
        """Settings of the M-step, with the choice "auto" of the gating's gradient resolved to "plain" or "natural"."""
        if self.m_step.gating.gradient != "auto":
            return self.m_step
        return self.m_step.replace("gating.gradient", "natural" if self.adaptation.add_every > 0 else "plain")


@dataclass(frozen=True)
class EMConfig(FamilyConfig):
    """Settings of `EM`.

    Examples
    --------
    >>> from eim_ros.learning import EM, EMConfig
    >>> config = EMConfig(n_components=20, n_starts=3)
    >>> EM(config, n_components=5).config.n_components, config.n_components
    (5, 20)
    """

    n_components: int = option(50, "number of experts", minimum=1)
    n_iterations: int = option(100, "upper bound on iterations", minimum=0)
    tolerance: float = option(
        1e-4, "stop when the mean log-likelihood rises by less than this", unit="nat", minimum=0.0
    )
    covariance_floor: float = option(
        1e-6,
        "smallest variance of an expert in any direction, relative to that of the data without outliers",
        minimum=0.0,
    )
    covariance: str = option(
        "full",
        "covariances of linear experts: full; diagonal; tied, one covariance of all experts; or spherical",
        choices=("full", "diagonal", "tied", "spherical"),
    )
    gating_iterations: int = option(
        5,
        "L-BFGS iterations of the gating per M-step; 1: a single step, which uses the curvature of the steps before",
        minimum=1,
    )
    n_starts: int = option(1, "runs from different starts; the best is kept", minimum=1)
    n_candidates: int = option(
        2, "k-means clusterings of which a start of linear experts is the most likely one", minimum=1
    )
    patience: int = option(
        10, "iterations without a rise of the likelihood of the validation data that end a fit", minimum=1
    )
    hard: bool = option(False, "assign each point to its most probable expert only")


@dataclass(frozen=True)
class TruncatedEMConfig(Settings):
    """Settings of `TruncatedEM`.

    Examples
    --------
    >>> from eim_ros.learning import TruncatedEM, TruncatedEMConfig
    >>> config = TruncatedEMConfig(n_components=1000, n_states=8)
    >>> TruncatedEM(config, tolerance=1e-3).config.n_states
    8
    """

    n_components: int = option(1000, "number of experts", minimum=1)
    n_iterations: int = option(100, "upper bound on iterations", minimum=0)
    tolerance: float = option(1e-4, "stop when the mean free energy rises by less than this", unit="nat", minimum=0.0)
    covariance_floor: float = option(
        1e-6,
        "smallest variance of an expert in any direction, relative to that of the data without outliers",
        minimum=0.0,
    )
    gating_iterations: int = option(2, "L-BFGS iterations of the gating per M-step", minimum=1)
    search: str = option(
        "auto",
        "search for the components of a point: full, among all components; partial, among neighbours; selection, among "
        "those with near means; auto, partial search, or exact EM below dense_below components",
        choices=("auto", "full", "partial", "selection"),
    )
    dense_below: int = option(200, "number of components from which auto truncates", minimum=0)
    n_states: int = option(5, "number C' of components that share a point", minimum=1)
    n_neighbours: int = option(16, "length G of the list of components near a component, including itself", minimum=1)
    n_random: int = option(1, "random candidates per point", minimum=0)
    patience: int = option(
        10, "iterations without a rise of the likelihood of the validation data that end a fit", minimum=1
    )
    n_selected: int = option(16, "components per point that the selection function suggests", minimum=1)
