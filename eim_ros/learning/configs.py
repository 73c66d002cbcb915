"""Settings of `EM`, `TruncatedEM` and `EIM`, in one group for each part of a learner.

Use dotted names to set a field of a group: `EIM(**{"ratio.patience": 5})`, or `eim train --set ratio.patience=5`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from eim_ros.core.checks import with_hints
from eim_ros.core.settings import Settings, field_types, option
from eim_ros.learning.adaptation import AdaptationConfig
from eim_ros.learning.models.evaluator import PreparedMixture
from eim_ros.learning.models.mixture_of_experts import MixtureOfExperts
from eim_ros.learning.projections.neural import FitSettings
from eim_ros.learning.ratio.density_ratio import OBJECTIVES

RATIO_ESTIMATORS = ("residual", "network", "plug-in")  # estimators that need only samples; the first one is the default


@dataclass(frozen=True)
class NetworkConfig(Settings):
    """Settings of neural experts and gatings, and of the optimisation that fits them."""

    layers: tuple[int, ...] = option((50, 50), "widths of the hidden layers", minimum=1)
    iterations: int = option(20, "number of L-BFGS iterations that fit the networks in each update", minimum=1)
    l2: float = option(1e-3, "factor of the penalty on the sum of squared network weights", minimum=0.0)

    @property
    def fit_settings(self) -> FitSettings:
        return FitSettings(self.iterations, self.l2)


@dataclass(frozen=True)
class FamilyConfig(Settings):
    """Settings that select the kinds of experts and gating."""

    expert_kind: str = option(
        "linear",
        "kind of experts; their means are linear functions or neural networks of the context (thesis 4.2.3)",
        choices=("linear", "neural"),
    )
    gating_kind: str = option(
        "linear",
        "kind of gating; it is the softmax of linear functions of the context, or of the outputs of a neural network",
        choices=("linear", "neural"),
    )
    networks: NetworkConfig = NetworkConfig()

    @property
    def is_linear(self) -> bool:
        return self.expert_kind == "linear" and self.gating_kind == "linear"


@dataclass(frozen=True)
class AuxiliaryConfig(Settings):
    """Settings of the auxiliary distribution.

    The bound of EIM needs an auxiliary distribution q~(z|x, y) at samples of the model (thesis 3.2). The best choice is
    the posterior of the model. The bound then depends only on q_old(x|y), which is a sum over all components. If the
    model has many components, the sum is restricted to a set K: the components nearest to the component that drew the
    sample. The auxiliary distribution is then q~ = q(x, z|y)/q_K(x|y). This truncation changes the bound by delta =
    E[-log mass of K] (Luecke 2016, eq. 19 to 21). The history records delta.
    """

    n_states: int = option(
        16, "number of components in a truncated auxiliary distribution; 0: never truncate", minimum=0
    )
    exact_below: int = option(200, "number of components below which a model is never truncated", minimum=0)

    def prepared(self, model: MixtureOfExperts, context: Tensor, sample: Tensor) -> PreparedMixture:
        """Return the model in a form that is fast to evaluate many times.

        If the model has many components, the density at samples of the model is truncated. The computation is
        standardised with contexts (n, n_context) of the data and samples (n, n_dims) of the data or of the model.
        """
        few = model.n_components < self.exact_below
        return PreparedMixture(model, context, sample, 0 if few else self.n_states)


@dataclass(frozen=True)
class ReferenceConfig(Settings):
    """Settings of the reference density, a mixture fitted to the data by EM."""

    factors: tuple[float, ...] = option(
        (1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 12.0),
        "numbers of components to try in sequence while the held-out likelihood rises, relative to the number of the "
        "model",
        minimum=0.0,
    )
    limit: int = option(200, "maximum number of components, unless the model has more components", minimum=1)
    starts: int = option(
        4, "number of EM starts for each number of components; only the best start is continued", minimum=1
    )
    iterations: int = option(100, "number of EM iterations", minimum=1)


@with_hints
@dataclass(frozen=True)
class RatioConfig(Settings):
    """Settings of the density ratio estimator.

    Examples
    --------
    Run EIM without a network. A mixture with as many components as the model estimates the density of the data:

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
        "estimator of the density ratio: a density fitted to the data (plug-in), such a density corrected by a "
        "network (residual), or a network alone (network)",
        choices=("plug-in", "residual", "network"),
    )
    objective: str = option("logistic", "training objective of the network", choices=tuple(OBJECTIVES))
    hidden_layers: tuple[int, ...] = option((128, 128), "widths of the hidden layers", minimum=1)
    quadratic: bool = option(
        False,
        "whether products of two coordinates are also inputs of the network; it has no effect if features are given",
    )
    dropout: float = option(0.1, "dropout probability", minimum=0.0, maximum=0.9)
    learning_rate: float = option(3e-3, "step size of Adam", minimum=0.0)
    batch_size: int = option(500, "number of pairs of each class in a batch", minimum=1)
    initial_epochs: int = option(40, "maximum number of passes over the data in the first iteration", minimum=1)
    n_epochs: int = option(2, "maximum number of passes over the data per iteration", minimum=1)
    patience: int = option(
        10,
        "number of passes without improvement on held-out pairs, counted over all iterations, after which the best "
        "weights are restored",
        minimum=1,
    )
    validation_share: float = option(
        0.1, "share of the pairs that is held out for early stopping; 0: no early stopping", minimum=0.0, maximum=0.5
    )
    evidence: float = option(
        2.0,
        "minimum improvement of the held-out loss, in standard errors, for which the network is used; -1: always use "
        "the network",
        minimum=-1.0,
    )
    reference: ReferenceConfig = ReferenceConfig()
    auxiliary: AuxiliaryConfig = AuxiliaryConfig()

    def n_training(self, n_samples: int) -> int:
        """Return the number of pairs used for training. The first pairs are used for training, and the last ones are
        held out.
        """
        return n_samples - int(self.validation_share * n_samples)

    def held_out(self, n_samples: int) -> slice:
        """Return the slice of the pairs on which estimators are evaluated.

        The slice contains the held-out pairs, or all pairs if none are held out.
        """
        first = self.n_training(n_samples)
        return slice(first if first < n_samples else 0, n_samples)


@dataclass(frozen=True)
class GatingStepConfig(Settings):
    """Settings of the update of the gating."""

    update: str = option(
        "direct",
        "kind of update (thesis 4.2.1): direct maximises the objective over the parameters of the gating; refit fits "
        "the gating to updated probabilities at each context",
        choices=("direct", "refit"),
    )
    kl_bound: float = option(0.01, "maximum KL of the update, averaged over contexts", unit="nat", minimum=0.0)
    entropy_loss_bound: float = option(
        0.05, "maximum loss of entropy per iteration, averaged over contexts", unit="nat", minimum=0.0
    )
    gradient: str = option(
        "auto",
        "gradient of a linear gating with contexts; the natural gradient lets small weights grow again; auto: natural "
        "if components are added, otherwise plain",
        choices=("auto", "plain", "natural"),
    )
    n_contexts: int = option(
        500,
        "number of contexts at which rewards are evaluated; without contexts, the number of samples of each component",
        minimum=1,
    )
    n_samples: int = option(1, "number of samples per context and expert", minimum=1)
    n_experts: int = option(
        0,
        "maximum mean number of experts per context whose rewards are evaluated, if the update is direct with plain "
        "gradients; 0: all experts, as in the thesis",
        minimum=0,
    )


@dataclass(frozen=True)
class MStepConfig(Settings):
    """Settings of the M-step."""

    kl_bound: float = option(0.1, "maximum KL of the update of an expert", unit="nat", minimum=0.0)
    entropy_loss_bound: float = option(
        0.05, "maximum loss of entropy of an expert per iteration", unit="nat", minimum=0.0
    )
    covariance: str = option(
        "full",
        "covariances of linear experts: unrestricted (full), without correlations (diagonal), or equal for all "
        "experts (tied), where the bounds apply to the mean over the experts",
        choices=("full", "diagonal", "tied"),
    )
    n_samples: int = option(150, "number of samples per linear expert for its surrogate", minimum=2)
    contexts: str = option(
        "resampled",
        "contexts y of a linear expert z (thesis 4.3.2): drawn from p(y) q(z|y) (resampled), or drawn from p(y) and "
        "weighted by q(z|y)/q(z) (weighted)",
        choices=("resampled", "weighted"),
    )
    surrogate: str = option(
        "gradient",
        "quantity of the log ratio to which the quadratic surrogate is fitted: its gradients or its values",
        choices=("gradient", "value"),
    )
    n_contexts: int = option(1000, "number of contexts per neural expert for its update", minimum=1)
    n_context_samples: int = option(10, "number of samples per context and neural expert", minimum=2)
    gating: GatingStepConfig = GatingStepConfig()


@dataclass(frozen=True)
class GradientStepsConfig(Settings):
    """Settings of the M-step that follows gradients."""

    n_steps: int = option(10, "number of Adam steps per iteration", minimum=1)
    step_size: float = option(0.01, "step size of Adam", minimum=0.0)
    n_contexts: int = option(
        200,
        "number of contexts per step, with one sample of each expert; without contexts, the number of samples of each "
        "expert",
        minimum=1,
    )


@dataclass(frozen=True)
class StartConfig(Settings):
    """Settings of the initial model, which is used if no start is given to `fit`.

    EIM stays near the modes where it starts, so the start is a part of the method. These kinds of start are available,
    from the cheapest to the most expensive:

    - "random": experts at random points of the data, each with the covariance of all data, and equal weights.
    - "k-means": the clusters of k-means (`initial_mixture_of_experts`).
    - "em": the fit with the highest likelihood among several fits by EM from k-means.
    - "closest": either the fit by EM or a subset of the components of the reference density. The start with the smaller
      reverse KL to the reference density is chosen. A subset may be better because the reference has more components
      than the model, each on one mode. This kind of start needs no computation beyond the reference. The start may
      already be the solution. To check this, compare the result with the result of `n_iterations=0`. A single neural
      expert starts at the branch of the data that is closest to a mixture of several branches. If only a network
      estimates the ratio, there is no reference, and linear experts start as with "em". If the density is known, all
      experts start as with "em".
    """

    kind: str = option(
        "closest",
        "kind of start: random points, clusters of k-means, a fit by EM, or the closest model; see `StartConfig`",
        choices=("closest", "em", "k-means", "random"),
    )
    n_starts: int = option(
        8, "number of k-means starts; EM continues the start with the highest held-out likelihood", minimum=1
    )
    em_iterations: int = option(40, "number of EM iterations after the k-means start", minimum=0)


@dataclass(frozen=True)
class ExactConfig(Settings):
    """Settings of the exact ratio to a target whose density is known."""

    temperature: float = option(
        1.0, "weight of the model's entropy relative to the log density of the target", minimum=1e-6
    )
    n_contexts: int = option(
        0, "number of contexts of the data that each iteration draws at random; 0: use all contexts", minimum=0
    )
    n_objective_samples: int = option(1000, "number of samples that estimate the objective for the history", minimum=2)
    tolerance: float = option(
        1e-20, "KL between the models of two iterations below which the run stops", unit="nat", minimum=0.0
    )


@with_hints
@dataclass(frozen=True)
class EIMConfig(FamilyConfig):
    """Settings of `EIM`.

    Examples
    --------
    Change a setting of a group by its dotted name. Presets accept dotted names too:

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

    n_components: int = option(
        50, "number of experts; if components are added or deleted, the initial number", minimum=1
    )
    n_iterations: int = option(40, "maximum number of iterations", minimum=0)
    update: str = option(
        "structured",
        "kind of M-step: closed-form updates in trust regions (structured), or reparameterised gradients "
        "(unstructured; EIM-US, thesis 6.1)",
        choices=("structured", "unstructured"),
    )
    kl_term: bool = option(
        True, "whether the objective includes KL(model || last model); the variant EIM-KL omits it (thesis 6.1)"
    )
    n_selection_samples: int = option(
        1000,
        "number of samples that decide whether the new model is better than the best one; 0: return the last model",
        minimum=0,
    )
    plateau_window: int = option(
        5,
        "number of iterations without an improvement of the held-out KL(model || data), or of the ELBO, by more than "
        "its noise, after which the run stops; 0: never stop early",
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
        """Return the defaults for a target with a known density, with `settings` replaced by name."""
        preset = {"n_iterations": 1000, "start.n_starts": 10, "m_step.gating.gradient": "natural", "plateau_window": 20}
        return cls.from_mapping(preset).replace(**settings)

    @classmethod
    def thesis(cls, **settings: Any) -> EIMConfig:
        """Return the defaults with the settings that the thesis uses, with `settings` replaced by name.

        Only a network estimates the ratio, and it is always used (4.3.1). Contexts have importance weights (4.3.2).
        Quadratic surrogates are fitted to values of the ratio (4.1.2), and the gating is refitted to the updated
        probabilities (4.2.1). The bounds are those of most experiments (table B.1). The run returns the last model.
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
        """Return the defaults for a density ratio that uses forward kinematics, with `settings` replaced by name.

        Only the density p(q) of the configurations is unknown. Therefore, EIM can take larger steps and train the ratio
        less. A small bound on the gating's loss of entropy keeps several experts for each pose. The number of
        iterations is fixed because a rising KL does not mean that progress has ended. The KL also rises while the
        smoothing of the contexts decreases.
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
        """Return the defaults for inference with known kinematics, with `settings` replaced by name."""
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
        """Settings of the M-step, with "plain" or "natural" instead of the gating's gradient "auto"."""
        if self.m_step.gating.gradient != "auto":
            return self.m_step
        return self.m_step.replace("gating.gradient", "natural" if self.adaptation.add_every > 0 else "plain")


@with_hints
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
    n_iterations: int = option(100, "maximum number of iterations", minimum=0)
    tolerance: float = option(
        1e-4, "rise of the mean log-likelihood in an iteration below which the fit ends", unit="nat", minimum=0.0
    )
    covariance_floor: float = option(
        1e-6,
        "minimum variance of an expert in any direction, relative to the variance of the data without outliers",
        minimum=0.0,
    )
    covariance: str = option(
        "full",
        "covariances of linear experts: unrestricted (full), without correlations (diagonal), equal for all experts "
        "(tied), or with equal variances in all directions (spherical)",
        choices=("full", "diagonal", "tied", "spherical"),
    )
    gating_iterations: int = option(
        5,
        "number of L-BFGS iterations of the gating per M-step; 1: a single step, which uses the curvature of earlier "
        "steps",
        minimum=1,
    )
    n_starts: int = option(1, "number of runs from different starts; only the best result is kept", minimum=1)
    n_candidates: int = option(
        2, "number of k-means clusterings; linear experts start from the most likely one", minimum=1
    )
    patience: int = option(
        10, "number of iterations without a rise of the validation likelihood after which a fit ends", minimum=1
    )
    hard: bool = option(False, "whether each point is assigned to its most probable expert only")


@with_hints
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
    n_iterations: int = option(100, "maximum number of iterations", minimum=0)
    tolerance: float = option(
        1e-4, "rise of the mean free energy in an iteration below which the fit ends", unit="nat", minimum=0.0
    )
    covariance_floor: float = option(
        1e-6,
        "minimum variance of an expert in any direction, relative to the variance of the data without outliers",
        minimum=0.0,
    )
    gating_iterations: int = option(2, "number of L-BFGS iterations of the gating per M-step", minimum=1)
    search: str = option(
        "auto",
        "candidates for the components of a point: all components (full), neighbours of its last components "
        "(partial), or near means (selection); auto: exact EM below dense_below components, otherwise partial",
        choices=("auto", "full", "partial", "selection"),
    )
    dense_below: int = option(200, "number of components from which search auto truncates the posteriors", minimum=0)
    n_states: int = option(5, "number C' of components in the truncated posterior of a point", minimum=1)
    n_neighbours: int = option(16, "number G of neighbours of each component, including itself", minimum=1)
    n_random: int = option(1, "number of random candidates per point", minimum=0)
    patience: int = option(
        10, "number of iterations without a rise of the validation likelihood after which a fit ends", minimum=1
    )
    n_selected: int = option(16, "number of components per point that the selection function suggests", minimum=1)
