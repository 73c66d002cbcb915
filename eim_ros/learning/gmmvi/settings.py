"""Settings of GMMVI, and the seven-letter names of the 432 algorithms of Arenz et al. (2023, table 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eim_ros.core.checks import expect, with_hints
from eim_ros.core.errors import ConfigurationError
from eim_ros.core.settings import Settings, flattened, option
from eim_ros.learning.target import OUTSIDE_PENALTY

# One letter per module, in the order of table 1 of Arenz et al. 2023, with the corresponding setting.
LETTERS: tuple[tuple[str, dict[str, str]], ...] = (
    ("natural_gradient", {"S": "stein", "Z": "more"}),
    ("adaptation.rule", {"E": "fixed", "A": "adaptive"}),
    ("samples", {"P": "mixture", "M": "component"}),
    ("component_step.update", {"I": "direct", "Y": "iblr", "T": "trust-region"}),
    ("component_step.size", {"F": "fixed", "D": "decaying", "R": "adaptive"}),
    ("weight_step.update", {"U": "direct", "O": "trust-region"}),
    ("weight_step.size", {"X": "fixed", "G": "decaying", "N": "adaptive"}),
)

# Additional letters for options that are not in Arenz et al. 2023.
OWN_LETTERS = {
    "natural_gradient": {"L": "regression"},
    "component_step.update": {"B": "entropy-bounded"},
    "weight_step.update": {"B": "entropy-bounded"},
}

ALGORITHMS = {
    "LAMTRON": "SAMTRON with gradients by least squares, which needs fewer samples and gives more precise results",
    "LEMBFBX": "the updates of EIM for a known density: fixed step sizes, and bounds on the loss of entropy",
    "SAMTRON": "the best algorithm of Arenz et al. 2023",
    "SAMTROX": "SAMTRON with a fixed step size of the weights",
    "SAMTRUX": "SAMTRON with direct updates of the weights",
    "SAMYRON": "SAMTRON with the improved Bayesian learning rule",
    "SEPTRUX": "trust regions with samples of the mixture, for a fixed number of components",
    "SEPYRUX": "SEPYFUX with adaptive step sizes",
    "ZAMTRUX": "VIPS (Arenz et al. 2020), without gradients of the target",
    "SEPYFUX": "iBayes-GMM (Lin et al. 2020)",
}


@dataclass(frozen=True)
class ComponentStepConfig(Settings):
    """Settings of the update of the components."""

    update: str = option(
        "trust-region",
        "kind of update of the components",
        choices=("direct", "iblr", "trust-region", "entropy-bounded"),
    )
    size: str = option("adaptive", "kind of step sizes", choices=("fixed", "decaying", "adaptive"))
    first: float | None = option(
        None,
        "first step size of a component: a KL bound [nat] or a factor; none: 0.1 for a KL bound, 0.01 for a factor",
        minimum=0.0,
    )
    smallest: float = option(1e-3, "minimum of adaptive step sizes", minimum=0.0)
    largest: float = option(1.0, "maximum of adaptive step sizes", minimum=0.0)
    decay_exponent: float = option(0.55, "exponent a of the decaying step sizes b/(1 + n^a)", minimum=0.0)
    entropy_loss_bound: float = option(
        0.05,
        "maximum loss of entropy of a component per iteration, for the update entropy-bounded",
        unit="nat",
        minimum=0.0,
    )


@dataclass(frozen=True)
class WeightStepConfig(ComponentStepConfig):
    """Settings of the update of the weights."""

    update: str = option(
        "trust-region", "kind of update of the weights", choices=("direct", "trust-region", "entropy-bounded")
    )
    first: float | None = option(
        None,
        "first step size: a KL bound [nat] or a factor; none: 0.1 for a KL bound, 1 for a factor",
        minimum=0.0,
    )
    smallest: float = option(1e-5, "minimum of adaptive step sizes", minimum=0.0)
    largest: float = option(4.0, "maximum of adaptive step sizes", minimum=0.0)
    entropy_loss_bound: float = option(
        0.05,
        "maximum loss of entropy of the weights per iteration, for the update entropy-bounded",
        unit="nat",
        minimum=0.0,
    )


@dataclass(frozen=True)
class RandomStartConfig(Settings):
    """Settings of a random initial mixture. This start is used if no start is given and the target does not suggest
    one.
    """

    spread: float = option(1.0, "standard deviation of the means", minimum=0.0)
    scale: float = option(1.0, "standard deviation of each component", minimum=1e-12)


@dataclass(frozen=True)
class ComponentAdaptationConfig(Settings):
    """Settings that control how components are added, split and deleted."""

    rule: str = option(
        "adaptive", "whether the number of components is fixed or adapted", choices=("fixed", "adaptive")
    )
    add_every: int = option(20, "number of iterations between additions of a component; 0: never add", minimum=0)
    delete_after: int = option(
        50,
        "number of iterations without use or progress after which a component is deleted; 0: never delete",
        minimum=0,
    )
    max_components: int = option(1000, "maximum number of components", minimum=1)
    n_refined: int = option(
        1,
        "maximum number of components with the worst fit that each addition splits; without gradients, none are split",
        minimum=0,
    )
    least_refinement: float = option(
        2e-3, "minimum estimated gain of the ELBO for which a component is split", unit="nat", minimum=0.0
    )
    n_candidates: int = option(
        20_000, "number of samples of earlier iterations among which an addition chooses", minimum=0
    )
    n_prior_candidates: int = option(
        0, "number of samples of the start that each addition evaluates as further candidates", minimum=0
    )
    n_climbing: int = option(
        100,
        "number of samples of the start that ascend the target with up to 150 evaluations each. They are candidates "
        "of early additions and of every sixth later addition. If max_evaluations is low, fewer samples ascend; "
        "without gradients, no samples ascend",
        minimum=0,
    )

    @property
    def grows(self) -> bool:
        """Whether components are added."""
        return self.rule == "adaptive" and self.add_every > 0


@with_hints
@dataclass(frozen=True)
class GMMVIConfig(Settings):
    """Settings of `GMMVI`. The defaults select the algorithm SAMTRON. Settings of options that are not selected have no
    effect.

    The defaults go beyond the algorithms of the paper in three respects. Some samples ascend the target before a
    component is added, the components with the worst fit are split, and a run stops on a plateau. Set
    `adaptation.n_climbing`, `adaptation.n_refined` and `plateau_window` to 0 to disable these extensions.

    Examples
    --------
    Select an algorithm by its seven-letter name, with further settings by keyword:

    >>> from eim_ros.learning.gmmvi import GMMVIConfig
    >>> config = GMMVIConfig.named("SEPTRUX", n_components=5)
    >>> config.samples, config.component_step.update, config.n_components
    ('mixture', 'trust-region', 5)
    >>> config.replace(natural_gradient="more").word
    'ZEPTRUX'
    """

    natural_gradient: str = option(
        "stein",
        "estimate of the natural gradients: from gradients of the target by Stein's lemma (stein) or a linear "
        "regression (regression), or from values of the target (more)",
        choices=("stein", "regression", "more"),
    )
    samples: str = option(
        "component",
        "whether samples are drawn from the mixture or from each component",
        choices=("mixture", "component"),
    )
    covariance: str = option(
        "full",
        "kind of covariances; diagonal is available only for mixtures without contexts",
        choices=("full", "diagonal"),
    )
    temperature: float = option(
        1.0, "weight of the model's entropy relative to the log density of the target", minimum=1e-6
    )
    n_components: int = option(
        0, "number of components if no start is given; 0: the number that the target suggests, otherwise 10", minimum=0
    )

    n_iterations: int = option(1000, "maximum number of iterations", minimum=0)
    max_evaluations: int = option(
        0,
        "maximum number of evaluations of the target, which the last iteration may exceed if samples are reused; 0: "
        "no maximum",
        minimum=0,
    )
    plateau_window: int = option(
        100,
        "number of iterations over which the ELBO must rise by more than its noise, otherwise the run stops; 0: "
        "never stop early",
        minimum=0,
    )

    n_contexts: int = option(
        0, "number of contexts that each iteration draws at random; 0: use all contexts", minimum=0
    )
    n_samples: int = option(100, "desired effective sample size of each component, or of the mixture", minimum=1)
    reuse_ratio: float = option(
        0.0, "maximum number of reused samples of earlier iterations, as a multiple of n_samples", minimum=0.0
    )
    self_normalised: bool = option(
        True, "whether importance weights are divided by their sum instead of the number of samples"
    )
    own_samples: bool = option(
        False, "whether the natural gradient of a component is estimated only from its own new samples"
    )
    first_ridge: float = option(1e-12, "initial and minimum ridge of the regression on values", minimum=0.0)
    largest_ridge: float = option(1e-6, "maximum ridge of the regression on values", minimum=0.0)
    outside_penalty: float = option(
        OUTSIDE_PENALTY,
        "log densities that are not finite are set below the smallest finite log density by at least this value",
        unit="nat",
        minimum=0.0,
    )

    component_step: ComponentStepConfig = ComponentStepConfig()
    weight_step: WeightStepConfig = WeightStepConfig()
    start: RandomStartConfig = RandomStartConfig()
    adaptation: ComponentAdaptationConfig = ComponentAdaptationConfig()

    @classmethod
    def named(cls, word: str, **settings: Any) -> GMMVIConfig:
        """Return the settings of an algorithm with a seven-letter name.

        Parameters
        ----------
        word : str
            Seven letters in upper or lower case, such as "SAMTRON"; see `LETTERS` and `OWN_LETTERS`.
        **settings
            Other settings by keyword.

        Raises
        ------
        ConfigurationError
            If the word does not have seven letters, a letter is unknown, or another setting is invalid.
        """
        letters = expect(word, str, "the name of an algorithm").upper()
        if len(letters) != len(LETTERS):
            raise ConfigurationError(
                f"{word!r} is not the name of an algorithm; a name has {len(LETTERS)} letters, one for each module, "
                "such as SAMTRON",
                word,
            )
        preset: dict[str, Any] = {}
        for place, (letter, (name, papers)) in enumerate(zip(letters, LETTERS, strict=True), 1):
            options = papers | OWN_LETTERS.get(name, {})
            if letter not in options:
                known = ", ".join(f"{key} ({value})" for key, value in options.items())
                raise ConfigurationError(f"letter {place} of {word!r} selects {name} and must be one of {known}", word)
            preset[name] = options[letter]
        return cls.from_mapping(preset).replace(**settings)

    @property
    def word(self) -> str:
        """Seven-letter name of the algorithm with these settings."""
        word, values = "", flattened(type(self), self.to_mapping())
        for name, papers in LETTERS:
            options = papers | OWN_LETTERS.get(name, {})
            word += next(letter for letter, value in options.items() if value == values[name])
        return word
