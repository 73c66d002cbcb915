"""The state of the page can be written as a link, a program and a request."""

import numpy as np
import pytest
import yaml

from eim_ros.core.errors import EimError
from eim_ros.kinematics import Box, Robot, Sphere, pose_from
from eim_ros.view.state import ViewState

POSE = pose_from([0.4, 0.1, 0.5], [1.0, 0.0, 0.0, 0.0])
BOX = Box(pose_from([0.6, 0.0, 0.1], rpy=[0.0, 0.0, 0.3]), [0.2, 0.4, 0.2])
BALL = Sphere([0.1, -0.5, 0.4], 0.15)
Q = np.array([0.1, -0.2, 0.3, -1.5, 0.2, 1.6, 0.7])
STATE = ViewState("panda", "panda_link8", POSE, Q, False, True, (BOX, BALL))


@pytest.mark.parametrize("before", ["", "?", "http://127.0.0.1:8080/?", "http://[::1]:80/?websocket=x&"])
def test_a_link_restores_the_state(before):
    again = ViewState.from_link(before + STATE.query)
    assert (again.robot, again.tip) == ("panda", "panda_link8")
    assert (again.position_only, again.self_collision) == (False, True)
    np.testing.assert_allclose(again.pose, POSE, atol=1e-6)
    np.testing.assert_allclose(again.q, Q, atol=1e-6)
    box, ball = again.obstacles
    np.testing.assert_allclose(box.pose, BOX.pose, atol=1e-5)  # quaternions in links have six decimals
    np.testing.assert_allclose(box.size, BOX.size)
    np.testing.assert_allclose([*ball.centre, ball.radius], [*BALL.centre, BALL.radius])
    assert again.query == STATE.query


@pytest.mark.parametrize(
    "query",
    [
        "pose=1,2",
        "pose=a,b,c",
        "pose=0,0,0,0,0,0,0",
        "q=nan",
        "box=1,2,3",
        "box=0,0,0,1,-1,1",
        "sphere=0,0,0,0",
        "&".join(["sphere=0,0,0,1"] * 30),
    ],
)
def test_a_malformed_link_is_refused(query):
    with pytest.raises(EimError):
        ViewState.from_link("?" + query)


def test_a_link_without_a_state_changes_nothing():
    state = ViewState.from_link("http://127.0.0.1:8080/")
    assert (state.robot, state.tip, state.pose, state.q, tuple(state.obstacles)) == ("", "", None, None, ())


def test_the_program_finds_the_solution_again():
    robot = Robot("panda")
    free = ViewState("panda", "panda_link8", robot.fk(Q), Q, False, False, (BALL,))
    names: dict = {}
    exec(free.python(robot), names)
    np.testing.assert_allclose(names["solution"].q[0], Q, atol=1e-4)
    assert len(names["solutions"]) == 50
    assert names["sampler"].constraints.obstacles[0].radius == BALL.radius


def test_the_program_of_a_position_accepts_any_orientation():
    robot = Robot("panda")
    names: dict = {}
    exec(ViewState("panda", "panda_link8", robot.fk(Q), Q, True, True, ()).python(robot), names)
    assert names["sampler"].constraints.position_only and names["sampler"].constraints.self_collision
    assert names["solutions"].orientation_error.max() == 0.0


def test_the_yaml_has_the_fields_of_the_request():
    request = yaml.safe_load(STATE.yaml(Robot("panda")))
    assert request["near"]["position"] == Q.tolist()
    assert request["poses"][0]["position"] == {"x": 0.4, "y": 0.1, "z": 0.5}
    assert request["constraints"]["avoid_self_collision"] is True
    primitives = request["constraints"]["scene"]["primitives"]
    assert [primitive["dimensions"] for primitive in primitives] == [[0.2, 0.4, 0.2], [0.15]]
