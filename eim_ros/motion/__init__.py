"""Motion priors: distributions of demonstrated motions, conditioned on contexts and via points."""

from __future__ import annotations

from eim_ros.motion.blend import ProductTarget, WeighedConfigurations, blended, weigh
from eim_ros.motion.demonstrations import Demonstrations
from eim_ros.motion.distribution import MotionDistribution, MotionSamples, TaskPoint, ViaPoint
from eim_ros.motion.prior import MotionPrior, MotionScores
from eim_ros.motion.representation import Basis, Representation
from eim_ros.motion.tip_goal import TipGoal
from eim_ros.motion.training import MotionConfig, MotionTraining, MotionTrainingRun
from eim_ros.motion.trajectories import joint_trajectory, write_trajectories

__all__ = [  # order of the reference: the most important names come first
    "MotionPrior",
    "MotionConfig",
    "Demonstrations",
    "MotionSamples",
    "Basis",
    "MotionDistribution",
    "MotionScores",
    "MotionTraining",
    "MotionTrainingRun",
    "ProductTarget",
    "Representation",
    "TaskPoint",
    "TipGoal",
    "ViaPoint",
    "WeighedConfigurations",
    "blended",
    "joint_trajectory",
    "weigh",
    "write_trajectories",
]
