"""Fixed links of a robot need no tf, prefixes of names are recognised, and unknown frames are reported."""

from __future__ import annotations

import numpy as np
import pytest
from builtin_interfaces.msg import Time
from nodes.ik_server.serving import served
from nodes.ik_server.workcell import request_for, sampler
from sensor_msgs.msg import JointState
from std_msgs.msg import Header

from eim_ros.ik import ErrorCode
from eim_ros.kinematics import pose_from
from eim_ros.kinematics.frames import FrameBuffer, StampedTransform
from eim_ros.kinematics.links import fixed_links
from eim_ros.msg import IKConstraints
from eim_ros.nodes.common.messages import pose_message
from eim_ros.nodes.ik_server.messages import FrameNotKnownYet, RequestContext, RequestError, with_tip_and_tool
from eim_ros.nodes.ik_server.moveit import parse_nearest
from eim_ros.nodes.settings import IkServerSettings

ROBOT = sampler().robot
JOINTS = {name: 0.1 * i for i, name in enumerate(ROBOT.joint_names)}


class Told:
    """Transforms that a test defines."""

    def __init__(self) -> None:
        self.buffer = FrameBuffer()

    def lookup(self, target: str, source: str, stamp: int) -> np.ndarray:
        return self.buffer.lookup(target, source, stamp or None)


def test_frames_that_are_fixed_to_the_base_link_need_no_tf() -> None:
    around = RequestContext(ROBOT, frame_prefix="left/")
    for frame, link in (("", "base"), ("base", "base"), ("world", "world"), ("left/world", "world")):
        expected = fixed_links(ROBOT, "base")[link]
        np.testing.assert_array_equal(around.in_base(Header(frame_id=frame), "a pose"), expected)
    with pytest.raises(
        RequestError, match=r"a pose is in frame 'l4', expected .* \(world\).*this node does not listen to tf"
    ):
        around.in_base(Header(frame_id="l4"), "a pose")


def test_other_frames_are_looked_up_below_the_prefix_at_their_stamp() -> None:
    told = Told()
    around = RequestContext(ROBOT, told, "left/")
    for x in (0, 1):
        told.buffer.put("camera", StampedTransform("left/base", 100 + 10 * x, (x, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0)))
    for stamp, x in ((105, 0.5), (0, 1.0)):
        header = Header(frame_id="camera", stamp=Time(nanosec=stamp))
        np.testing.assert_allclose(around.in_base(header, "a pose"), pose_from([x, 0.0, 0.0]), atol=1e-12)
    with pytest.raises(FrameNotKnownYet, match="'camera' is not known at 0.000000111 s") as caught:
        around.in_base(Header(frame_id="camera", stamp=Time(nanosec=111)), "a pose")
    assert caught.value.code == ErrorCode.FRAME_TRANSFORM_FAILURE
    assert not around.are_known
    told.buffer.put("camera", StampedTransform("left/base", 120, (2.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0)))
    assert around.are_known
    with pytest.raises(RequestError, match="before the earliest") as too_late:
        around.in_base(Header(frame_id="camera", stamp=Time(nanosec=99)), "a pose")
    assert not isinstance(too_late.value, FrameNotKnownYet)


def test_state_of_a_request_counts_before_that_of_the_topic() -> None:
    around = RequestContext(ROBOT, joints=JOINTS)
    given = JointState(name=list(ROBOT.joint_names), position=[0.5] * 7)
    np.testing.assert_array_equal(around.near(given), np.full(7, 0.5))
    np.testing.assert_allclose(around.near(JointState()), list(JOINTS.values()))
    assert RequestContext(ROBOT).near(JointState()) is None


def test_joints_of_which_nothing_was_told_are_named() -> None:
    around = RequestContext(ROBOT, joints={name: value for name, value in JOINTS.items() if name not in ("j2", "j5")})
    with pytest.raises(RequestError, match="near is empty, and no position of j2, j5 has arrived") as caught:
        around.near(JointState())
    assert caught.value.code == ErrorCode.INVALID_ROBOT_STATE
    wanted = parse_nearest(request_for(ROBOT.fk(np.zeros(7))).ik_request, around, IkServerSettings())
    # the request uses the solution that is nearest in the other joints
    assert wanted.remark.endswith("no position of j2, j5 has arrived on the joint_states_topic")
    assert set(wanted.near) == {"j1", "j3", "j4", "j6", "j7"}


@pytest.mark.parametrize(("is_diff", "named"), [(True, {*JOINTS}), (False, {"j1"})])
def test_partial_state_is_completed_where_it_is_told_as_a_difference(is_diff: bool, named: set[str]) -> None:
    request = request_for(ROBOT.fk(np.zeros(7)), j1=0.7).ik_request
    request.robot_state.is_diff = is_diff
    wanted = parse_nearest(request, RequestContext(ROBOT, joints=JOINTS), IkServerSettings())
    assert (set(wanted.near), wanted.near["j1"]) == (named, 0.7)


def test_nearest_solution_is_near_to_where_the_robot_is() -> None:
    q = np.array([*JOINTS.values()])
    context = RequestContext(ROBOT, joints=JOINTS)
    response = served("get_position_ik", request_for(ROBOT.fk(q)), sampler(), context=context)
    np.testing.assert_allclose(response.solution.joint_state.position, q, atol=1e-5)


def test_links_fixed_to_the_tip_and_tools_on_them_reach_poses() -> None:
    offset, pose = pose_from([0.1, 0.2, 0.3], [1.0, 0.0, 0.0, 0.0]), ROBOT.fk(np.full(7, 0.4))
    constraints = IKConstraints(tip_link="tool", tool=pose_message(offset))
    reached = with_tip_and_tool(sampler(), constraints).robot.fk(np.full(7, 0.4))
    np.testing.assert_allclose(reached, pose @ fixed_links(ROBOT, "flange")["tool"] @ offset, atol=1e-9)
    assert with_tip_and_tool(sampler(), IKConstraints(tip_link="flange")) is sampler()
    assert with_tip_and_tool(sampler(), IKConstraints()) is sampler()
    with pytest.raises(RequestError, match="tip_link is 'l4', expected 'flange', a link that is fixed to it .*tool"):
        with_tip_and_tool(sampler(), IKConstraints(tip_link="l4"))
    constraints.tool.orientation.w = 3.0
    with pytest.raises(RequestError, match="tool: the quaternion has length"):
        with_tip_and_tool(sampler(), constraints)
