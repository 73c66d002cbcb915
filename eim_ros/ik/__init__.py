"""Inverse kinematics as sampling: models of the configurations that reach a pose, and the sampler that uses them.

`Sampler` and the classes of its answers are imported immediately. Names that need torch (for training) or scipy (for
components) are imported on first use.
"""

from typing import TYPE_CHECKING

from eim_ros.core.lazy import deferred_names
from eim_ros.ik.candidates import ErrorCode
from eim_ros.ik.capability import Capability, CapabilityGrid, CapabilityMap
from eim_ros.ik.completeness import Completeness, CompletenessReport
from eim_ros.ik.constraints import Constraints, LinkOrientation, LinkPosition
from eim_ros.ik.joint_path import JointPath
from eim_ros.ik.nearest_pose import NearestPose
from eim_ros.ik.order import Posture, nearest
from eim_ros.ik.placement import BasePlacements, base_grid, place_base
from eim_ros.ik.prior import IKModel
from eim_ros.ik.sampler import Sampler
from eim_ros.ik.solutions import Solutions
from eim_ros.solver import NO_EXPERT

if TYPE_CHECKING:
    from eim_ros.ik.components import Component, component_labels, self_motion_components
    from eim_ros.ik.data import collect
    from eim_ros.ik.device import DeviceSampler, DeviceSolutions
    from eim_ros.ik.evaluation import evaluate
    from eim_ros.ik.training import (
        KinematicInputs,
        KinematicTarget,
        SmoothingConfig,
        Training,
        TrainingRun,
    )

__all__ = [  # in the order of the reference, the most important first
    "Sampler",
    "Solutions",
    "Constraints",
    "Completeness",
    "CompletenessReport",
    "JointPath",
    "Posture",
    "IKModel",
    "BasePlacements",
    "Capability",
    "CapabilityGrid",
    "CapabilityMap",
    "Component",
    "DeviceSampler",
    "DeviceSolutions",
    "ErrorCode",
    "KinematicInputs",
    "KinematicTarget",
    "LinkOrientation",
    "LinkPosition",
    "NO_EXPERT",
    "NearestPose",
    "SmoothingConfig",
    "Training",
    "TrainingRun",
    "base_grid",
    "collect",
    "component_labels",
    "self_motion_components",
    "evaluate",
    "nearest",
    "place_base",
]

__getattr__, __dir__ = deferred_names(__name__, __file__)
