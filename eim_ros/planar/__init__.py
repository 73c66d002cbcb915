"""Planar arm that reaches a line or a point around discs: tasks, an expert, its motions, and a simulator."""

from eim_ros.planar.arm import PlanarArm, elbow_side, passing_side
from eim_ros.planar.expert import Expert, ExpertConfig
from eim_ros.planar.task import PlanarTask, line_task, point_task

__all__ = [
    "Expert",
    "ExpertConfig",
    "PlanarArm",
    "PlanarTask",
    "elbow_side",
    "line_task",
    "passing_side",
    "point_task",
]
