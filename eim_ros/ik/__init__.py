"""Inverse kinematics as sampling: models of the ways an arm can reach a pose, and the sampler that serves them.

What serves a model is imported at once; what learns one needs torch, and is imported when it is first used.
"""

from typing import TYPE_CHECKING

from eim_ros.deferred import deferred_names
from eim_ros.ik.batch import sample_batch, stream_batch
from eim_ros.ik.batch_samples import BatchSamples
from eim_ros.ik.capability_grid import CapabilityGrid
from eim_ros.ik.capability_map import Capability, CapabilityMap
from eim_ros.ik.completeness import Completeness, FoundFamilies
from eim_ros.ik.constraints import Constraints
from eim_ros.ik.error_codes import ErrorCode
from eim_ros.ik.link_constraints import LinkOrientation, LinkPosition
from eim_ros.ik.model import IKModel
from eim_ros.ik.path import JointPath, sample_path
from eim_ros.ik.posture import Posture
from eim_ros.ik.request import SampleRequest
from eim_ros.ik.sampler import Sampler
from eim_ros.ik.samples import NO_EXPERT, Samples

if TYPE_CHECKING:
    from eim_ros.ik.training.collect import collect
    from eim_ros.ik.training.evaluate import evaluate
    from eim_ros.ik.training.inputs import KinematicEIMConfig, KinematicInputs, SmoothingConfig
    from eim_ros.ik.training.target import KinematicTarget, KnownKinematicsConfig
    from eim_ros.ik.training.train import Training, TrainingRun

__all__ = [
    "NO_EXPERT",
    "BatchSamples",
    "Capability",
    "CapabilityGrid",
    "CapabilityMap",
    "Completeness",
    "Constraints",
    "ErrorCode",
    "FoundFamilies",
    "IKModel",
    "JointPath",
    "KinematicEIMConfig",
    "KinematicInputs",
    "KinematicTarget",
    "KnownKinematicsConfig",
    "LinkOrientation",
    "LinkPosition",
    "Posture",
    "SampleRequest",
    "Sampler",
    "Samples",
    "SmoothingConfig",
    "Training",
    "TrainingRun",
    "collect",
    "evaluate",
    "sample_batch",
    "sample_path",
    "stream_batch",
]

__getattr__, __dir__ = deferred_names(
    __name__,
    {
        "KinematicEIMConfig": "training.inputs",
        "KinematicInputs": "training.inputs",
        "KinematicTarget": "training.target",
        "KnownKinematicsConfig": "training.target",
        "SmoothingConfig": "training.inputs",
        "Training": "training.train",
        "TrainingRun": "training.train",
        "collect": "training.collect",
        "evaluate": "training.evaluate",
    },
)
