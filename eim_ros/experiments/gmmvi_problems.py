"""Problems of variational inference by name: a target, the settings it is approached with, the paper's figures for it.

Most are of Arenz et al. 2023, "A unified perspective on natural gradient variational inference with Gaussian mixture
models" (sections 4.1 to 4.3, table 8). Settings are those with which the authors' program was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from eim_ros import targets
from eim_ros.inference.variational import GMMVIConfig
from eim_ros.targets import Target

__all__ = ["FILE_PROBLEMS", "PROBLEMS", "Problem"]

UNBOUNDED = 10**9  # iterations: evaluations are what is bounded


@dataclass(frozen=True)
class Problem:
    """A target and how it is approached.

    Attributes
    ----------
    make : callable
        Makes the target from a generator; the same one of every generator, but for random mixtures.
    n_evaluations : int
        Evaluations of the target that a long run makes.
    settings : mapping
        Of `GMMVIConfig`. Step sizes are bounds of trust regions; where `n_components` is missing, the target tells, and
        `n_samples` is for each component: samples of the mixture are as many for each (paper, section 3.1).
    small_steps : mapping
        Step sizes that are factors, not bounds of trust regions: they must be small from the first. That of the
        components is for all such updates, that of the weights for algorithms whose steps do not adapt.
    published : mapping of str to float
        The paper's -ELBO [nat] by algorithm, where the target is the paper's.
    """

    make: Callable[[torch.Generator], Target]
    n_evaluations: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    small_steps: Mapping[str, Any] = field(default_factory=dict)
    published: Mapping[str, float] = field(default_factory=dict)

    def config(self, word: str, n_evaluations: int, **others: Any) -> GMMVIConfig:
        """Settings for an algorithm.

        Parameters
        ----------
        word : str
            Seven letters, see `GMMVIConfig.named`.
        n_evaluations : int
            Evaluations of the target at most.
        **others
            Replace those of the problem.
        """
        algorithm, values = GMMVIConfig.named(word), dict(self.settings)
        if algorithm.samples == "mixture" and {"n_samples", "n_components"} <= values.keys():
            values["n_samples"] *= values["n_components"]
        if algorithm.weight_update != "trust-region":
            values.pop("first_weight_step", None)
        if algorithm.component_update != "trust-region":
            values["first_component_step"] = self.small_steps.get("first_component_step")
        if algorithm.component_step_size == "fixed":
            values |= self.small_steps
        return GMMVIConfig.named(
            word, **{"n_iterations": UNBOUNDED, **values, **others, "max_evaluations": n_evaluations}
        )


def _table_8(*values: float) -> dict[str, float]:
    """-ELBO [nat] of a row of the paper's table 8."""
    words = ("SAMTRUX", "SAMTROX", "SAMTRON", "SAMYRUX", "SAMYROX", "SAMYRON", "SEPYFUX", "SEPYRUX", "ZAMTRUX")
    return dict(zip(words, values, strict=False))  # STM300 has no ZAMTRUX


PLANAR = {"n_components": 100, "n_samples": 100, "delete_after": 10, "add_every": 1, "first_weight_step": 5.0}
GMM = {"n_components": 5, "n_samples": 300, "add_every": 30}
STM = {"n_components": 45, "n_samples": 200, "add_every": 60, "first_weight_step": 1.0}
REGRESSION = {"n_components": 1, "n_samples": 250, "add_every": 25, "first_component_step": 0.01}
WINE = {"n_components": 1, "n_samples": 400, "add_every": 0, "own_samples": True, "n_candidates": 0}
TALOS = {"n_components": 10, "n_samples": 100, "add_every": 30, "first_component_step": 0.5}
STEPS = {"first_component_step": 0.01, "first_weight_step": 1e-4}
PLANAR_STEPS = {"first_component_step": 0.001, "first_weight_step": 1e-7}  # rewards differ by 1e5 nat at first
SMALL_STEPS = {"first_component_step": 0.001, "first_weight_step": 1e-4}

PROBLEMS: dict[str, Problem] = {
    "planar1": Problem(lambda generator: targets.planar_robot(1), 12_000_000, PLANAR, PLANAR_STEPS),
    "planar4": Problem(
        lambda generator: targets.planar_robot(4),
        12_000_000,
        PLANAR,
        PLANAR_STEPS,
        _table_8(11.47, 11.47, 11.47, 13.16, 12.98, 12.93, 17.26, 16.35, 11.48),
    ),
    "gmm20": Problem(
        lambda generator: targets.random_gaussian_mixture(20, generator),
        6_000_000,
        GMM,
        STEPS,
        _table_8(0.0, 0.0, 0.0, 0.0, 0.01, 0.0, 0.43, 0.28, 0.0),
    ),
    "gmm100": Problem(
        lambda generator: targets.random_gaussian_mixture(100, generator),
        6_000_000,
        GMM,
        STEPS,
        _table_8(0.0, 0.0, 0.01, 0.05, 0.09, 0.16, 4.54, 0.96, 1.21),
    ),
    "stm20": Problem(
        lambda generator: targets.random_student_mixture(20, generator),
        12_000_000,
        STM,
        STEPS,
        _table_8(0.12, 0.02, 0.0, 0.04, 0.05, 0.03, 0.46, 0.46, 0.54),
    ),
    "stm300": Problem(
        lambda generator: targets.random_student_mixture(300, generator),
        12_000_000,
        STM,
        STEPS,
        _table_8(15.0, 15.24, 14.96, 22.41, 22.28, 22.5, 26.69, 26.87),
    ),
    "breast-cancer": Problem(
        lambda generator: targets.breast_cancer(),
        6_000_000,
        REGRESSION,
        SMALL_STEPS,
        _table_8(78.01, 78.05, 78.0, 78.57, 78.63, 78.61, 79.78, 79.91, 78.14),
    ),
    "breast-cancer-mb": Problem(
        lambda generator: targets.MinibatchTarget(targets.breast_cancer(), 64),
        6_000_000,
        REGRESSION,
        SMALL_STEPS,
        _table_8(79.66, 79.71, 78.41, 79.68, 79.94, 79.96, 80.13, 79.38, 83.65),
    ),
    "credit": Problem(lambda generator: targets.synthetic_german_credit(), 2_000_000, REGRESSION, SMALL_STEPS),
    "credit-mb": Problem(
        lambda generator: targets.MinibatchTarget(targets.synthetic_german_credit(), 64),
        2_000_000,
        REGRESSION,
        SMALL_STEPS,
    ),
    "wine": Problem(lambda generator: targets.synthetic_wine().target, 20_000_000, WINE, SMALL_STEPS),
    "funnel": Problem(lambda generator: targets.Funnel(), 1_000_000),
    "banana": Problem(lambda generator: targets.Banana(), 1_000_000),
}


def _talos(urdf: Path) -> Problem:
    """Postures of a humanoid; figures are those of TALOS."""
    target = targets.humanoid(urdf)
    published = {"SAMTRON": -24.43, "SAMYRON": -24.0, "SEPYFUX": -16.64, "ZAMTRUX": -23.69}
    return Problem(lambda generator: target, 20_000_000, TALOS, SMALL_STEPS, published)


# Problems of a file that the user gives.
FILE_PROBLEMS: dict[str, Callable[[Path], Problem]] = {"talos": _talos}
