"""Inverse kinematics as sampling: models of all the ways an arm can reach a pose, and the sampler that serves them."""

from eim_ros.ik.batch import sample_batch
from eim_ros.ik.collection import collect
from eim_ros.ik.constraints import Constraints
from eim_ros.ik.error_codes import ErrorCode
from eim_ros.ik.evaluation import evaluate
from eim_ros.ik.kinematic_inputs import KinematicEIMConfig, KinematicInputs, SmoothingConfig
from eim_ros.ik.kinematic_target import KinematicTarget, KnownKinematicsConfig
from eim_ros.ik.model import IKModel
from eim_ros.ik.path import JointPath, sample_path
from eim_ros.ik.posture import Posture
from eim_ros.ik.sampler import Sampler
from eim_ros.ik.samples import NO_EXPERT, Samples
from eim_ros.ik.training import Training, TrainingRun

__all__ = [
    "NO_EXPERT",
    "Constraints",
    "ErrorCode",
    "IKModel",
    "JointPath",
    "KinematicEIMConfig",
    "KinematicInputs",
    "KinematicTarget",
    "KnownKinematicsConfig",
    "Posture",
    "Sampler",
    "Samples",
    "SmoothingConfig",
    "Training",
    "TrainingRun",
    "collect",
    "evaluate",
    "sample_batch",
    "sample_path",
]
