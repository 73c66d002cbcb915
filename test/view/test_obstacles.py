"""Solutions among obstacles: none collides, and curves are cut where the arm would."""

import numpy as np
import pytest

from eim_ros.ik import Sampler
from eim_ros.ik.components import Component
from eim_ros.kinematics import Robot, Sphere, pose_from
from eim_ros.kinematics.links import body_poses
from eim_ros.view.live import LiveSolutions, cut, first_pose, nearest_along
from eim_ros.view.scene import fitted_camera

POSE = pose_from([0.45, 0.1, 0.5], [1.0, 0.0, 0.0, 0.0])


@pytest.fixture(scope="module")
def sampler() -> Sampler:
    return Sampler("panda")


def curve(n: int, is_closed: bool = False) -> Component:
    return Component(np.arange(n, dtype=float)[:, None], np.arange(n, dtype=float), True, is_closed)


def test_a_curve_is_cut_at_collisions():
    parts = cut(curve(6), np.array([True, True, False, True, True, True]))
    assert [part.positions[:, 0].tolist() for part in parts] == [[0.0, 1.0], [3.0, 4.0, 5.0]]
    assert [part.along.tolist() for part in parts] == [[0.0, 1.0], [0.0, 1.0, 2.0]]


def test_a_closed_curve_is_not_cut_at_its_first_solution():
    parts = cut(curve(6, is_closed=True), np.array([True, True, False, True, True, True]))
    assert [part.positions[:, 0].tolist() for part in parts] == [[3.0, 4.0, 5.0, 0.0, 1.0]]
    assert not parts[0].is_closed
    assert np.all(np.diff(parts[0].along) > 0.0)


def test_a_curve_in_collision_vanishes():
    assert cut(curve(3), np.zeros(3, dtype=bool)) == []


def test_no_shown_solution_collides_with_an_obstacle(sampler):
    live = LiveSolutions(sampler, n=20)
    before = live.solve(POSE)
    elbow = sampler.robot.skeleton(before.chosen[None])[0, 4]
    live.constrain(False, False, [Sphere(elbow, 0.1)])
    after = live.solve(POSE)
    scene = live.sampler.constraints.scene(sampler.robot)
    assert len(after.positions) == 20
    for component in after.components:
        assert not scene.colliding(component.positions).any()
    assert not scene.colliding(after.chosen[None]).any()
    assert scene.colliding(before.chosen[None]).all()


def test_any_orientation_gives_more_freedom_at_once(sampler):
    live = LiveSolutions(sampler, n=20)
    live.constrain(True)
    rows = live.solve(POSE).positions
    turned = sampler.robot.fk(rows)[:, :3, :3]
    assert np.abs(turned - POSE[:3, :3]).max() > 0.5


def test_a_dragged_link_goes_to_the_nearest_place_of_its_component(sampler):
    robot, solutions = sampler.robot, LiveSolutions(sampler, n=20).solve(POSE)
    component = max(solutions.components, key=len)
    grabbed, place = np.array([0.05, 0.0, 0.1]), len(component) // 3
    body = body_poses(robot, component.positions[place])[0, 4]
    start = component.along[place + 5] / component.along[-1]
    along = nearest_along(robot, component, start, 4, grabbed, body[:3, :3] @ grabbed + body[:3, 3])
    assert along == pytest.approx(component.along[place] / component.along[-1])


@pytest.mark.parametrize("name", ["panda", "ur5", "ur5e", "iiwa14", "gen3", "sawyer", "xarm7", "fetch"])
def test_the_first_target_is_above_the_floor_in_front_and_points_down(name):
    robot = Robot(name)
    pose = first_pose(robot)
    assert pose[2, 3] > 0.1 * robot.reach
    assert pose[0, 3] > abs(pose[1, 3])
    assert pose[2, 2] < -0.8


@pytest.mark.parametrize("aspect", [0.5, 1.0, 2.0])
def test_the_camera_sees_all_points_and_touches_two_edges(aspect):
    points = np.random.default_rng(0).uniform(-1.0, 1.0, (50, 3))
    eye, aim = fitted_camera(points, 0.0, np.array([1.0, -1.0, 0.5]), 0.8, aspect)
    ahead = (aim - eye) / np.linalg.norm(aim - eye)
    right = np.cross(ahead, [0.0, 0.0, 1.0])
    right /= np.linalg.norm(right)
    x, y, z = np.stack([right, np.cross(right, ahead), ahead]) @ (points - eye).T
    across, up = np.abs(x / z) / (aspect * np.tan(0.4)), np.abs(y / z) / np.tan(0.4)
    assert (z > 0.0).all()
    assert max(across.max(), up.max()) == pytest.approx(1.0)
