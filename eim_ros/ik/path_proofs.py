"""Bounds that prove that some step of a path is impossible, whatever the solutions are.

A joint that turns by an angle a moves the tip along an arc, so by at most a L, where L is the largest distance of the
tip from the joint. It turns the tip by at most a. A slide moves the tip by its travel s. Hence a step in which no joint
moves farther than allowed moves and turns the tip by at most

    sum over the joints of a_j L_j + sum over the slides of s_j,    sum over the joints of a_j.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from eim_ros.core.arrays import FloatArray
from eim_ros.ik.problem import Problem
from eim_ros.kinematics import Robot
from eim_ros.kinematics.urdf import MULTIPLIER, OFFSET, PRISMATIC, SOURCE, TRANSLATION

MARGIN = 1e-9  # [m, rad]


def impossible_steps(
    problem: Problem, poses: FloatArray, max_steps: FloatArray, origin: FloatArray | None
) -> npt.NDArray[np.int64]:
    """Return the poses that no configuration of the pose before leads to, because they are too far away.

    Parameters
    ----------
    problem : Problem
        Robot, tolerances, and whether any orientation is accepted.
    poses : (n_poses, 4, 4)
    max_steps : (n_poses, dof)
        Largest change of each joint from the previous pose to each [rad] or [m].
    origin : (dof,), optional
        Configuration before the first pose.
    """
    constraints, setup = problem.setup.constraints, problem.setup
    first = 1 if origin is None else 0
    path = poses if origin is None else np.concatenate([problem.robot.fk(origin[None]), poses])
    distances, angles = longest_motions(problem.robot, max_steps[first:])
    moved = np.linalg.norm(np.diff(path[:, :3, 3], axis=0), axis=1)
    is_too_far = moved > distances + 2.0 * (constraints.position_tolerance + setup.slack) + MARGIN
    if not problem.position_only and problem.tolerances is None:
        between = np.einsum("nji,nji->n", path[1:, :3, :3], path[:-1, :3, :3])  # trace of the rotation between poses
        turned = np.arccos(np.clip(0.5 * (between - 1.0), -1.0, 1.0))
        rounding = 1e-7  # of the arccosine, near an angle of 0
        is_too_far |= turned > angles + 2.0 * constraints.orientation_tolerance + rounding
    return np.flatnonzero(is_too_far) + first


def longest_motions(robot: Robot, max_steps: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return bounds of the motion (n,) [m] and the rotation (n,) [rad] of the tip in steps (n, dof) of the joints."""
    joints = robot.links[:-1]
    sources = joints[:, SOURCE].astype(np.int64)
    slides = joints[:, PRISMATIC] != 0.0
    ends = np.abs([joints[:, MULTIPLIER] * limit[sources] + joints[:, OFFSET] for limit in (robot.lower, robot.upper)])
    lengths = np.linalg.norm(robot.links[1:, TRANSLATION], axis=1)  # from each joint to the next one, or to the tip
    travel = np.where(slides, ends.max(axis=0), 0.0)
    away = np.cumsum((lengths + travel)[::-1])[::-1]  # from each joint to the tip
    motions = np.abs(joints[:, MULTIPLIER]) * max_steps[:, sources]
    turns = np.where(slides, 0.0, motions)
    return (turns * away + np.where(slides, motions, 0.0)).sum(axis=1), turns.sum(axis=1)
