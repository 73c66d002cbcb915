"""Inverse kinematics as sampling: models of all the ways an arm can reach a pose, and the sampler that serves them."""

from eim_ros.ik.error_codes import ErrorCode
from eim_ros.ik.kinematic_inputs import KinematicConfig, KinematicInputs
from eim_ros.ik.model import IKModel
from eim_ros.ik.sampler import Sampler
from eim_ros.ik.samples import NO_EXPERT, Samples

__all__ = ["NO_EXPERT", "ErrorCode", "IKModel", "KinematicConfig", "KinematicInputs", "Sampler", "Samples"]
