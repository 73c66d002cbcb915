"""Kinematics of serial robots: URDF parsing, compiled forward and inverse kinematics, and collision checks."""

from __future__ import annotations

from eim_ros.kinematics.branches import Branches
from eim_ros.kinematics.catalogue import SHIPPED_ROBOTS, robot_path, share_path
from eim_ros.kinematics.collision_options import CollisionOptions
from eim_ros.kinematics.links import body_links, body_poses, drawable_shapes, tip_links
from eim_ros.kinematics.obstacles import Box, Capsule, Cylinder, Mesh, Obstacle, PointCloud, Shape, Sphere
from eim_ros.kinematics.poses import (
    CONTEXT_KINDS,
    check_pose,
    context_from_pose,
    pose_from,
    pose_from_context,
    quaternion_from_matrix,
)
from eim_ros.kinematics.refinement import Refinement, refine, spread
from eim_ros.kinematics.robot import Robot
from eim_ros.kinematics.urdf import joint_limits

__all__ = [  # same order as in the reference: the most important names first
    "Robot",
    "pose_from",
    "Box",
    "Sphere",
    "Cylinder",
    "Capsule",
    "Mesh",
    "PointCloud",
    "CONTEXT_KINDS",
    "SHIPPED_ROBOTS",
    "Branches",
    "CollisionOptions",
    "Obstacle",
    "Refinement",
    "Shape",
    "body_links",
    "body_poses",
    "check_pose",
    "context_from_pose",
    "drawable_shapes",
    "joint_limits",
    "pose_from_context",
    "quaternion_from_matrix",
    "refine",
    "robot_path",
    "share_path",
    "spread",
    "tip_links",
]
