"""Planar arm that reaches a line or a point and avoids discs: tasks, an expert with its motions, and a simulator."""

from __future__ import annotations

from eim_ros.planar.arm import PlanarArm, elbow_side, passing_side
from eim_ros.planar.expert import Expert, ExpertConfig
from eim_ros.planar.motions import Trajectory, TrajectoryError, checked_trajectory
from eim_ros.planar.simulator import Outcome, PlanarSimulator, folded
from eim_ros.planar.task import PlanarTask, line_task, point_task

__all__ = [
    "Expert",
    "ExpertConfig",
    "Outcome",
    "PlanarArm",
    "PlanarSimulator",
    "PlanarTask",
    "Trajectory",
    "TrajectoryError",
    "checked_trajectory",
    "elbow_side",
    "folded",
    "line_task",
    "passing_side",
    "point_task",
]
