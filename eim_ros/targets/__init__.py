"""Targets of variational inference: unnormalised densities, where to start, ground truth, and scores of models."""

from eim_ros.targets.banana import Banana
from eim_ros.targets.data_sets import (
    Split,
    breast_cancer,
    german_credit,
    synthetic_german_credit,
    synthetic_wine,
    wine,
)
from eim_ros.targets.elliptical_mixture import EllipticalMixture
from eim_ros.targets.funnel import Funnel
from eim_ros.targets.humanoid_posterior import HumanoidPosterior, humanoid
from eim_ros.targets.kinematic_start import KinematicStart, kinematic_start, moved_start
from eim_ros.targets.logistic_regression import LogisticRegression
from eim_ros.targets.minibatches import MinibatchTarget
from eim_ros.targets.neural_regression import NeuralRegression
from eim_ros.targets.planar_ground_truth import PlanarTruth, planar_truth
from eim_ros.targets.planar_posterior import PlanarRobot, planar_robot
from eim_ros.targets.pose_posterior import PosePosterior, pose_posterior
from eim_ros.targets.random_mixtures import random_gaussian_mixture, random_student_mixture
from eim_ros.targets.start import MixtureStart
from eim_ros.targets.target import Target

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
