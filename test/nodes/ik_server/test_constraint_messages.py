"""Constraints as fields of a request: conversion in both directions, and invalid fields."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from geometry_msgs.msg import Pose
from sensor_msgs.msg import JointState
from shape_msgs.msg import SolidPrimitive

from eim_ros.core.errors import EimError
from eim_ros.ik import Constraints, ErrorCode, LinkPosition
from eim_ros.kinematics import Box, Capsule, Cylinder, Robot, Sphere, pose_from
from eim_ros.msg import IKConstraints, SceneObstacles
from eim_ros.nodes.ik_server.constraints import constraints_of, fill_constraints
from eim_ros.nodes.ik_server.handlers import parse_sample
from eim_ros.nodes.ik_server.messages import RequestContext, RequestError
from eim_ros.nodes.settings import IkServerSettings
from eim_ros.srv import SampleIK

TURNED = pose_from((0.1, -0.2, 0.3), (0.0, 0.6, 0.0, 0.8))


def request_of(**fields: object) -> SampleIK.Request:
    return SampleIK.Request(n_samples=5, poses=[Pose()], constraints=IKConstraints(**fields))


def test_fields_left_empty_ask_for_nothing() -> None:
    constraints = constraints_of(IKConstraints(), Robot("iiwa14"), IkServerSettings())
    assert constraints.limits == constraints.fixed == {}
    assert constraints.tolerances is None
    assert constraints.scene(Robot("iiwa14")) is None


def test_constraints_go_through_a_message_unchanged() -> None:
    wanted = Constraints(
        limits={"a": (-1.0, np.inf), "b": (0.5, 0.75)},
        fixed={"c": 0.25},
        self_collision=True,
        obstacles=(Box(TURNED, (1.0, 2.0, 3.0)), Sphere((1.0, 2.0, 3.0), 0.5), Cylinder(TURNED, 0.25, 2.0)),
        tolerances=(0.0, 0.1, np.inf, 0.0, 0.0, 1.0),
        allowed_collisions=(("hand", "obstacle 1"), ("hand", "arm")),
        branch={"wrist": "no-flip", "elbow": "up"},
    )
    message = IKConstraints()
    fill_constraints(message, wanted)
    read = constraints_of(message, Robot("iiwa14"), IkServerSettings())
    assert (read.limits, read.fixed, read.self_collision) == (wanted.limits, wanted.fixed, True)
    np.testing.assert_array_equal(read.tolerances, wanted.tolerances)
    assert read.allowed_collisions == wanted.allowed_collisions
    assert read.branch == wanted.branch
    box, sphere, cylinder = read.obstacles
    assert isinstance(box, Box)
    assert isinstance(sphere, Sphere)
    assert isinstance(cylinder, Cylinder)
    assert list(box.size) == [1.0, 2.0, 3.0]
    assert sphere.radius == 0.5
    assert (cylinder.radius, cylinder.length) == (0.25, 2.0)
    for obstacle, original in zip(read.obstacles, wanted.obstacles, strict=True):
        np.testing.assert_allclose(obstacle.pose, original.pose, rtol=0, atol=1e-15)


EXAMPLES = {
    "limits": {"a": (-1.0, 0.5)},
    "fixed": {"c": 0.25},
    "self_collision": True,
    "obstacles": (Sphere((1.0, 2.0, 3.0), 0.5),),
    "tolerances": (0.0, 0.1, np.inf, 0.0, 0.0, 1.0),
    "links": (LinkPosition("elbow", [Sphere((0.0, 0.0, 0.5), 0.1)]),),
    "clearance": 0.05,
    "position_only": True,
    "position_tolerance": 1e-3,
    "orientation_tolerance": 1e-2,
    "allowed_collisions": (("hand", "arm"),),
    "branch": {"elbow": "up"},
}


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Constraints)])
def test_each_field_is_sent_or_refused(name: str) -> None:
    message, without = IKConstraints(), IKConstraints()
    fill_constraints(without, Constraints())
    try:
        fill_constraints(message, Constraints(**{name: EXAMPLES[name]}))
    except EimError as error:
        assert name == "links", error
    else:
        assert message != without


def test_capsule_has_no_message() -> None:
    with pytest.raises(EimError, match="capsule"):
        fill_constraints(IKConstraints(), Constraints(obstacles=(Capsule(np.eye(4), 0.1, 1.0),)))


BALL = SolidPrimitive(type=SolidPrimitive.SPHERE, dimensions=[0.1])


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"limited_joints": ["joint_a1"]}, "1 limited_joints and 0 lower_limits"),
        (
            {"limited_joints": ["joint_a1"] * 2, "lower_limits": [0.0] * 2, "upper_limits": [1.0] * 2},
            "limited_joints contains joint_a1 more than once",
        ),
        ({"limited_joints": ["joint_a1"], "lower_limits": [1.0], "upper_limits": [0.0]}, "exceeds its upper limit"),
        ({"limited_joints": ["joint_a1"], "lower_limits": [-9.0], "upper_limits": [0.0]}, "exceed the robot's"),
        ({"fixed_joints": JointState(name=["elbow"], position=[0.0])}, "no joint 'elbow'"),
        ({"fixed_joints": JointState(name=["joint_a1"], position=[])}, "1 names in fixed_joints and 0 positions"),
        ({"fixed_joints": JointState(name=["joint_a1"], position=[9.0])}, "cannot be fixed at 9"),
        ({"tolerances": [0.1]}, "six numbers"),
        ({"branch_names": ["elbow"]}, "1 branch_names and 0 branch_labels"),
        ({"branch_names": ["elbow"], "branch_labels": ["left"]}, "'down' or 'up'"),
        ({"allowed_links": ["link_7"]}, "1 allowed_links and 0 allowed_others"),
        ({"allowed_links": ["hand"], "allowed_others": ["cup"], "avoid_self_collision": True}, "is a link"),
        ({"tolerances": [np.nan] * 6}, "six numbers"),
        ({"scene": SceneObstacles(primitives=[BALL])}, "1 primitives and 0 primitive_poses"),
        ({"scene": SceneObstacles(primitives=[SolidPrimitive()], primitive_poses=[Pose()])}, "type 0"),
        ({"scene": SceneObstacles(primitives=[SolidPrimitive(type=SolidPrimitive.BOX, dimensions=[1.0])],
                                   primitive_poses=[Pose()])}, "1 dimensions"),
        ({"scene": SceneObstacles(primitives=[SolidPrimitive(type=SolidPrimitive.SPHERE, dimensions=[-1.0])],
                                   primitive_poses=[Pose()])}, "must be positive"),
    ],
)  # fmt: skip
def test_what_cannot_be_met_is_refused_with_its_cause(fields: dict, reason: str) -> None:
    with pytest.raises(RequestError, match=reason) as caught:
        parse_sample(request_of(**fields), SampleIK.Response(), RequestContext(Robot("iiwa14")), IkServerSettings())
    assert caught.value.code == ErrorCode.INVALID_GOAL_CONSTRAINTS


def test_branch_that_the_arm_does_not_have_is_refused() -> None:
    request = request_of(branch_names=["elbow"], branch_labels=["up"])
    with pytest.raises(RequestError, match="'elbow' is not defined for robot 'panda'") as caught:
        parse_sample(request, SampleIK.Response(), RequestContext(Robot("panda")), IkServerSettings())
    assert caught.value.code == ErrorCode.INVALID_GOAL_CONSTRAINTS
