"""Targets of variational inference: unnormalised densities, initial models, ground truth and scores."""

from __future__ import annotations

from experiments.targets.data_sets import (
    Split,
    breast_cancer,
    german_credit,
    synthetic_german_credit,
    synthetic_wine,
    wine,
)
from experiments.targets.humanoid import HumanoidPosterior, humanoid
from experiments.targets.planar import PlanarRobot, planar_robot
from experiments.targets.planar_truth import PlanarTruth, planar_truth
from experiments.targets.poses import KinematicStart, PosePosterior, kinematic_start, moved_start, pose_posterior
from experiments.targets.regression import LogisticRegression, MinibatchTarget, NeuralRegression
from experiments.targets.shapes import (
    Banana,
    EllipticalMixture,
    Funnel,
    random_gaussian_mixture,
    random_student_mixture,
)
from experiments.targets.target import MixtureStart, Target

__all__ = [
    "Banana",
    "EllipticalMixture",
    "Funnel",
    "HumanoidPosterior",
    "KinematicStart",
    "LogisticRegression",
    "MinibatchTarget",
    "MixtureStart",
    "NeuralRegression",
    "PlanarRobot",
    "PlanarTruth",
    "PosePosterior",
    "Split",
    "Target",
    "breast_cancer",
    "german_credit",
    "humanoid",
    "kinematic_start",
    "moved_start",
    "planar_robot",
    "planar_truth",
    "pose_posterior",
    "random_gaussian_mixture",
    "random_student_mixture",
    "synthetic_german_credit",
    "synthetic_wine",
    "wine",
]
