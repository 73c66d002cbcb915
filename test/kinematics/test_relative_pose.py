"""Poses of one hand relative to the other hand, through two branches of a tree, agree with pinocchio."""

from __future__ import annotations

import re

import numpy as np
import pinocchio as pin
import pytest
from kinematics.descriptions import LIMIT, chain_urdf, joint
from kinematics.oracle import Oracle

from eim_ros.core.errors import RobotError
from eim_ros.ik import Constraints, Sampler
from eim_ros.kinematics import Robot
from eim_ros.kinematics.collision import collisions
from eim_ros.kinematics.urdf import parse_urdf

HINGE = '<axis xyz="0 0 1"/>' + LIMIT


def side(name: str, arm: str, xyz: str) -> str:
    """Return the links and joints of an arm with a prefix; the arm is fixed to the world."""
    robot = Robot(arm)
    body = re.sub(r'\b(name|link|joint)="', rf'\1="{name}_', robot.urdf)
    mount = f'<parent link="world"/><child link="{name}_{robot.base_link}"/><origin xyz="{xyz}" rpy="0 1.5707963 0.2"/>'
    return body[body.index(">") + 1 : body.rindex("</robot>")] + f'<joint name="{name}" type="fixed">{mount}</joint>'


PAIR = (
    f'<robot name="pair"><link name="world"/>{side("left", "panda", "0 0.3 0")}'
    f"{side('right', 'iiwa14', '0.1 -0.3 0')}</robot>"
)


@pytest.fixture(scope="module")
def pair() -> Robot:
    return Robot(PAIR, "right_" + Robot("iiwa14").tip_link, base="left_panda_link8")


def test_chain_goes_up_one_arm_and_down_the_other(pair: Robot) -> None:
    assert pair.dof == 14
    assert pair.joint_names[:2] == ("left_panda_joint7", "left_panda_joint6")
    assert pair.joint_names[-1].startswith("right_")
    assert pair.lower[:7].tolist() == Robot("panda").lower[::-1].tolist()


def test_relative_pose_and_jacobian_are_those_of_pinocchio(pair: Robot) -> None:
    oracle = Oracle(PAIR, pair)
    for q in pair.random(20, 0):
        np.testing.assert_allclose(pair.fk(q), oracle.forward(q), atol=1e-14)
    q = pair.random(1, 1)[0]
    steps = 1e-6 * np.eye(pair.dof)
    moved = pair.fk(q + steps) - pair.fk(q - steps)
    np.testing.assert_allclose(pair.jacobian(q)[:3].T, moved[:, :3, 3] / 2e-6, atol=1e-8)


def test_reversed_joints_of_all_kinds_agree_with_pinocchio() -> None:
    origin = '<origin xyz="0.1 -0.2 0.3" rpy="{} {} {}"/>'
    text = chain_urdf(
        joint(
            "a",
            "prismatic",
            "l0",
            "l1",
            '<axis xyz="0.6 0 0.8"/>' + origin.format(0.4, 1.5707963267948966, -2.0) + LIMIT,
        ),
        joint("b", "continuous", "l1", "l2", '<axis xyz="0 1 0"/>' + origin.format(3.0, -1.5707963267948966, 0.1)),
        joint("c", "fixed", "l2", "l3", origin.format(-0.4, 0.7, 3.1)),
        joint("d", "revolute", "l0", "l4", '<axis xyz="1 0 0"/>' + origin.format(0.1, 0.2, 0.3) + LIMIT),
    )
    robot = Robot(text, "l4", base="l3")
    assert robot.joint_names == ("b", "a", "d")
    assert robot.continuous.tolist() == [True, False, False]
    oracle = Oracle(text, robot)
    for q in robot.random(20, 0):
        np.testing.assert_allclose(robot.fk(q), oracle.forward(q), atol=1e-14)


def test_text_of_the_robot_defines_it(pair: Robot) -> None:
    again = Robot(pair.urdf, pair.tip_link, base=pair.base_link)
    assert again.fingerprint == pair.fingerprint
    assert pair.with_tip("right_" + Robot("iiwa14").base_link).dof == 7


def test_solutions_keep_the_arms_apart(pair: Robot) -> None:
    free = Constraints(self_collision=True)
    q = next(q for q in pair.random(100, 0) if not collisions(pair, q))
    found = Sampler(pair, constraints=free).sample(pair.fk(q), 20, seed=0, timeout=20.0)
    assert len(found) == 20
    assert not any(collisions(pair, row) for row in found.q)


def test_collisions_between_the_arms_are_those_of_pinocchio(pair: Robot) -> None:
    model = pin.buildModelFromXML(PAIR)
    shapes = pin.buildGeomFromUrdfString(model, PAIR, pin.GeometryType.COLLISION)
    links = [shape.name.rpartition("_")[0] for shape in shapes.geometryObjects]
    for i, j in np.argwhere(np.triu(np.ones((len(links), len(links))), 1)):
        if links[i][0] != links[j][0]:
            shapes.addCollisionPair(pin.CollisionPair(int(i), int(j)))
    data, results, oracle, n_colliding = model.createData(), shapes.createData(), Oracle(PAIR, pair), 0
    for q in pair.random(60, 1):
        pin.computeCollisions(model, data, shapes, results, oracle.configuration(q), False)
        theirs = {
            frozenset((links[of.first], links[of.second]))
            for of, result in zip(shapes.collisionPairs, results.collisionResults, strict=True)
            if result.isCollision()
        }
        ours = {frozenset(names) for names in collisions(pair, q) if names[0][0] != names[1][0]}
        assert ours == theirs
        n_colliding += bool(theirs)
    assert n_colliding >= 3


def test_tree_itself_refuses_links_of_two_branches() -> None:
    text = chain_urdf(joint("a", "revolute", "l0", "l1", HINGE), joint("b", "revolute", "l0", "l2", HINGE))
    with pytest.raises(RobotError, match="'l1' is not an ancestor of 'l2'.*different branches"):
        parse_urdf(text).chain("l1", "l2")
    assert Robot(text, "l2", base="l1").joint_names == ("a", "b")
    with pytest.raises(RobotError, match="exchange them"):
        Robot(text, "l0", base="l1")


def test_joints_that_form_no_tree_are_refused() -> None:
    loop = chain_urdf(joint("a", "revolute", "l1", "l2", HINGE), joint("b", "revolute", "l2", "l1", HINGE), n_links=4)
    with pytest.raises(RobotError):
        Robot(loop, "l3", base="l1")
