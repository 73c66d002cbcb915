"""Settings of GMMVI, and the seven-letter names of the 432 algorithms of Arenz et al. (2023, table 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eim_ros.core.checks import expect
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
    "LAMTRON": "SAMTRON with gradients by least squares: fewer samples, finer results",
    "LEMBFBX": "the updates of known-density EIM: fixed step sizes, and bounds on the loss of entropy",
    "SAMTRON": "the best algorithm of Arenz et al. 2023",
    "SAMTROX": "SAMTRON with a fixed step size of the weights",
    "SAMTRUX": "SAMTRON with direct updates of the weights",
    "SAMYRON": "SAMTRON with the improved Bayesian learning rule",
    "SEPTRUX": "trust regions for a fixed number of components, samples of the mixture",
    "SEPYRUX": "SEPYFUX with adaptive step sizes",
    "ZAMTRUX": "VIPS (Arenz et al. 2020), without gradients of the target",
    "SEPYFUX": "iBayes-GMM (Lin et al. 2020)",
}


@dataclass(frozen=True)
class ComponentStepConfig(Settings):
    """Settings of the update of the components."""

    update: str = option(
        "trust-region", "kind of update", choices=("direct", "iblr", "trust-region", "entropy-bounded")
    )
    size: str = option("adaptive", "step sizes", choices=("fixed", "decaying", "adaptive"))
    first: float | None = option(
        None,
        "step size of a component's first update: a KL bound [nat] or a factor; none: 0.1 or 0.01, respectively",
        minimum=0.0,
    )
    smallest: float = option(1e-3, "smallest adaptive step size", minimum=0.0)
    largest: float = option(1.0, "largest adaptive step size", minimum=0.0)
    decay_exponent: float = option(0.55, "a of the decaying step sizes b/(1 + n^a)", minimum=0.0)
    entropy_loss_bound: float = option(
        0.05, "entropy-bounded: largest loss of a component's entropy per iteration", unit="nat", minimum=0.0
    )


@dataclass(frozen=True)
class WeightStepConfig(ComponentStepConfig):
    """Settings of the update of the weights."""

    update: str = option("trust-region", "kind of update", choices=("direct", "trust-region", "entropy-bounded"))
    first: float | None = option(
        None, "step size of the first update: a KL bound [nat] or a factor; none: 0.1 or 1, respectively", minimum=0.0
    )
    smallest: float = option(1e-5, "smallest adaptive step size", minimum=0.0)
    largest: float = option(4.0, "largest adaptive step size", minimum=0.0)
    entropy_loss_bound: float = option(
        0.05, "entropy-bounded: largest loss of the weights' entropy per iteration", unit="nat", minimum=0.0
    )


@dataclass(frozen=True)
class RandomStartConfig(Settings):
    """Settings of a random initial mixture, used if none is given and the target suggests none."""

    spread: float = option(1.0, "standard deviation of the means", minimum=0.0)
    scale: float = option(1.0, "standard deviation of each component", minimum=1e-12)


@dataclass(frozen=True)
class ComponentAdaptationConfig(Settings):
    """Settings of the number of components."""

    rule: str = option("adaptive", "number of components", choices=("fixed", "adaptive"))
    add_every: int = option(20, "iterations between additions of a component; 0: never add", minimum=0)
    delete_after: int = option(
        50, "iterations without use or progress after which a component is deleted; 0: never delete", minimum=0
    )
    max_components: int = option(1000, "largest number of components", minimum=1)
    n_refined: int = option(
        1,
        "largest number of components that are split along with an addition, those that fit worst; none without "
        "gradients",
        minimum=0,
    )
    least_refinement: float = option(
        2e-3, "estimated gain of the ELBO that a component must exceed to be split", unit="nat", minimum=0.0
    )
    n_candidates: int = option(20_000, "samples of earlier iterations that an addition chooses from", minimum=0)
    n_prior_candidates: int = option(
        0, "samples of the start that each addition evaluates and chooses from as well", minimum=0
    )
    n_climbing: int = option(
        100,
        "samples of the start that climb the target, with up to 150 evaluations each; early additions, and every "
        "sixth later one, choose from them too. Fewer if max_evaluations is low, and none without gradients",
        minimum=0,
    )

    @property
    def grows(self) -> bool:
        """Whether components are added."""
        return self.rule == "adaptive" and self.add_every > 0


@dataclass(frozen=True)
class GMMVIConfig(Settings):
    """Settings of `GMMVI`; the defaults are SAMTRON. Settings of options that are not chosen have no effect.

    In three respects the defaults go beyond the paper's algorithms: some samples climb the target before a component is
    added, components are split where they fit worst, and a run stops on a plateau. Set `adaptation.n_climbing`,
    `adaptation.n_refined` and `plateau_window` to 0 to do without.

    Examples
    --------
    Settings of an algorithm by its seven-letter name, with other settings by keyword:

    >>> from eim_ros.learning.gmmvi import GMMVIConfig
    >>> config = GMMVIConfig.named("SEPTRUX", n_components=5)
    >>> config.samples, config.component_step.update, config.n_components
    ('mixture', 'trust-region', 5)
    >>> config.replace(natural_gradient="more").word
    'ZEPTRUX'
    """

    natural_gradient: str = option(
        "stein",
        "estimate of the natural gradients: first order by Stein's lemma or by a regression, or zero order",
        choices=("stein", "regression", "more"),
    )
    samples: str = option("component", "distribution that samples are drawn from", choices=("mixture", "component"))
    covariance: str = option(
        "full", "kind of covariance; diagonal is for mixtures without contexts", choices=("full", "diagonal")
    )
    temperature: float = option(1.0, "weight of the entropy relative to the target's log density", minimum=1e-6)
    n_components: int = option(
        0, "number of components if no initial model is given; 0: as the target suggests, or 10", minimum=0
    )

    n_iterations: int = option(1000, "upper bound on iterations", minimum=0)
    max_evaluations: int = option(
        0,
        "maximum number of evaluations of the target; may be exceeded once if samples are reused; 0: no maximum",
        minimum=0,
    )
    plateau_window: int = option(
        100, "stop when the ELBO rises by no more than its noise over this many iterations; 0: never stop", minimum=0
    )

    n_contexts: int = option(0, "contexts that each iteration uses, drawn at random; 0: all", minimum=0)
    n_samples: int = option(100, "desired effective sample size of each component, or of the mixture", minimum=1)
    reuse_ratio: float = option(0.0, "samples of earlier iterations to reuse, per new sample", minimum=0.0)
    self_normalised: bool = option(True, "divide importance weights by their sum instead of the number of samples")
    own_samples: bool = option(False, "estimate the natural gradient of a component from its own new samples only")
    first_ridge: float = option(1e-12, "initial and smallest ridge of the zero-order regression", minimum=0.0)
    largest_ridge: float = option(1e-6, "largest ridge of the zero-order regression", minimum=0.0)
    outside_penalty: float = option(
        OUTSIDE_PENALTY,
        "a log density that is not finite counts as the smallest finite one minus at least this",
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
        letters = expect(word, str, "the word of an algorithm").upper()
        if len(letters) != len(LETTERS):
            raise ConfigurationError(
                f"{word!r} does not name an algorithm: expected {len(LETTERS)} letters such as SAMTRON, one per module",
                word,
            )
        preset: dict[str, Any] = {}
        for place, (letter, (name, papers)) in enumerate(zip(letters, LETTERS, strict=True), 1):
            options = papers | OWN_LETTERS.get(name, {})
            if letter not in options:
                known = ", ".join(f"{key} ({value})" for key, value in options.items())
                raise ConfigurationError(f"letter {place} of {word!r}, for {name}, must be one of {known}", word)
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
