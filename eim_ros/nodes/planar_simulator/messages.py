"""Conversion between messages and the planar robot: trajectories, states, tasks and markers. All functions are pure."""

from __future__ import annotations

import math
from array import array
from typing import Any

import numpy as np
from geometry_msgs.msg import Point, PoseStamped
from sensor_msgs.msg import JointState
from std_msgs.msg import ColorRGBA, Float64MultiArray, Header
from trajectory_msgs.msg import JointTrajectory
from visualization_msgs.msg import Marker, MarkerArray

from eim_ros.core.errors import ConfigurationError
from eim_ros.nodes.common.interfaces import SetTask, TaskStatus
from eim_ros.nodes.common.messages import seconds, trajectory_points
from eim_ros.planar import Outcome, PlanarTask, line_task, point_task

BASE = "base_link"
LINK_WIDTH = 0.1  # [m]


def trajectory_parts(message: JointTrajectory) -> dict[str, Any]:
    """Return the arguments of `PlanarSimulator.execute`, except the delay."""
    return {
        "joint_names": list(message.joint_names),
        "times": [seconds(point.time_from_start) for point in message.points],
        "positions": [list(point.positions) for point in message.points],
        "velocities": [list(point.velocities) for point in message.points],
    }


def trajectory_message(joint_names: tuple[str, ...], times: np.ndarray, positions: np.ndarray) -> JointTrajectory:
    """Return a trajectory message that starts on arrival.

    The times (n_points,) [s] begin at the start. The positions have the shape (n_points, n_joints) [rad].
    """
    return JointTrajectory(joint_names=list(joint_names), points=trajectory_points(times.tolist(), positions))


def task_of(request: SetTask.Request, default_tolerance: float) -> PlanarTask:
    """Return the task of a request. Raise `ConfigurationError` if the request is invalid."""
    tolerance = request.tolerance if request.tolerance != 0.0 else default_tolerance
    start, end = ((point.x, point.y) for point in (request.goal_start, request.goal_end))
    if request.goal == SetTask.Request.LINE:
        return line_task(start, end, list(request.obstacles), tolerance)
    if request.goal == SetTask.Request.POINT:
        return point_task(start, list(request.obstacles), tolerance)
    raise ConfigurationError(f"goal must be LINE (0) or POINT (1), got {request.goal}", request.goal)


def task_request(task: PlanarTask) -> SetTask.Request:
    """Return a request that sets a task."""
    request = SetTask.Request(goal=SetTask.Request.LINE if task.is_line else SetTask.Request.POINT)
    for point, place in ((request.goal_start, task.start), (request.goal_end, task.end)):
        point.x, point.y = place.tolist()
    request.tolerance = task.tolerance
    request.obstacles = array("d", task.obstacles.flatten().tolist())
    return request


def goal_message(task: PlanarTask) -> Float64MultiArray:
    """Return a message with the ends of the goal line: x and y of the start, then x and y of the end [m]."""
    return Float64MultiArray(data=array("d", [*task.start.tolist(), *task.end.tolist()]))


def joint_state_message(joint_names: tuple[str, ...], q: np.ndarray, velocity: np.ndarray, stamp: Any) -> JointState:
    """Return a message of joint positions [rad] and velocities [rad/s]."""
    return JointState(header=_header(stamp), name=list(joint_names), position=q.tolist(), velocity=velocity.tolist())


def tip_message(tip: np.ndarray, angle: float, stamp: Any) -> PoseStamped:
    """Return the pose message of the tip, given its position (2,) [m] and the direction of the last link [rad]."""
    message = PoseStamped(header=_header(stamp))
    message.pose.position.x, message.pose.position.y = map(float, tip)
    message.pose.orientation.z, message.pose.orientation.w = math.sin(0.5 * angle), math.cos(0.5 * angle)
    return message


def status_message(outcome: Outcome, stamp: Any) -> TaskStatus:
    """Return the state of the robot relative to its task as a message."""
    return TaskStatus(
        header=_header(stamp),
        distance=outcome.distance,
        reached=outcome.reached,
        clearance=outcome.clearance,
        collision=outcome.collision,
        success=outcome.success,
        moving=outcome.moving,
    )


def markers_message(points: np.ndarray, outcome: Outcome, task: PlanarTask, stamp: Any) -> MarkerArray:
    """Return markers of robot, goal and obstacles. These markers replace all earlier ones."""
    robot = _marker("robot", 0, Marker.LINE_STRIP, (0.9, 0.2, 0.1) if outcome.collision else (0.0, 0.45, 0.7))
    robot.scale.x = LINK_WIDTH
    robot.points = [_point(*place) for place in points.tolist()]
    joints = _marker("joints", 0, Marker.SPHERE_LIST, (0.1, 0.12, 0.15))
    joints.scale.x = joints.scale.y = joints.scale.z = 1.6 * LINK_WIDTH
    joints.points = robot.points
    goal_colour = (0.0, 0.62, 0.45)
    if task.is_line:
        goal = _marker("goal", 0, Marker.LINE_STRIP, goal_colour)
        goal.scale.x = LINK_WIDTH
        goal.points = [_point(*task.start.tolist()), _point(*task.end.tolist())]
    else:
        goal = _marker("goal", 0, Marker.SPHERE, goal_colour)
        goal.pose.position = _point(*task.start.tolist())
        goal.scale.x = goal.scale.y = goal.scale.z = 2.0 * task.tolerance
    markers = [robot, joints, goal]
    for number, (x, y, radius) in enumerate(task.obstacles.tolist()):
        disc = _marker("obstacles", number, Marker.CYLINDER, (0.84, 0.37, 0.0))
        disc.pose.position = _point(x, y)
        disc.scale.x = disc.scale.y = 2.0 * radius
        disc.scale.z = LINK_WIDTH
        markers.append(disc)
    for marker in markers:
        marker.header = _header(stamp)
    return MarkerArray(markers=[Marker(action=Marker.DELETEALL), *markers])


def _marker(namespace: str, number: int, kind: int, colour: tuple[float, float, float]) -> Marker:
    marker = Marker(ns=namespace, id=number, type=kind, action=Marker.ADD)
    marker.pose.orientation.w = 1.0
    marker.color = ColorRGBA(r=colour[0], g=colour[1], b=colour[2], a=1.0)
    return marker


def _header(stamp: Any) -> Header:
    return Header(stamp=stamp, frame_id=BASE)


def _point(x: float, y: float) -> Point:
    return Point(x=x, y=y, z=0.0)
