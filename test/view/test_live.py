"""Solutions for a moving target, with and without obstacles, are valid. Their components keep their numbers."""

import numpy as np
import pytest

from eim_ros.ik import Sampler
from eim_ros.ik.components import Component
from eim_ros.kinematics import Robot, Sphere, pose_from
from eim_ros.kinematics.links import body_poses
from eim_ros.view.live import (
    LiveSolutions,
    component_colour,
    cut,
    dexterity,
    first_pose,
    kept_numbers,
    moving_axes,
    nearest_along,
    place_in,
)
from eim_ros.view.scene import fitted_camera
from eim_ros.view.style import oklab, rgb

DOWN = [1.0, 0.0, 0.0, 0.0]
FAR = pose_from([3.0, 0.0, 0.0])
POSE = pose_from([0.45, 0.1, 0.5], DOWN)


def target(x: float) -> np.ndarray:
    return pose_from([x, 0.1, 0.5], DOWN)


@pytest.fixture(scope="module")
def sampler() -> Sampler:
    return Sampler("panda")


def test_the_choice_stays_in_its_component_while_the_target_moves(sampler):
    live = LiveSolutions(sampler, n=20)
    solutions = live.choose(live.solve(target(0.4)), 1, 0.5)
    number = solutions.numbers[solutions.component]
    for x in np.linspace(0.4, 0.46, 13)[1:]:
        before, solutions = solutions, live.solve(target(x))
        assert np.abs(solutions.chosen - before.chosen).max() < 0.15  # for 5 mm of the tip; jumps are larger
        assert solutions.numbers[solutions.component] == number
        assert sampler.robot.verify(solutions.chosen, target(x))[1].all()
        assert sampler.robot.verify(solutions.positions, target(x))[1].all()
        assert len(solutions.ghost_numbers) == len(solutions.positions) == 20


def test_the_first_choice_is_the_most_dexterous_of_those_shown(sampler):
    solutions = LiveSolutions(sampler, n=20).solve(target(0.4))
    measure = sampler.robot.manipulability
    assert measure(solutions.chosen) == measure(solutions.positions).max()


def test_a_planar_arm_is_measured_by_the_directions_that_it_moves_in():
    """The measure is the determinant of the rows for x, y and rotation. With all six rows, it would be 0."""
    robot = Robot("planar3")
    assert moving_axes(robot).tolist() == [True, True, False, False, False, True]
    q = np.array([[0.3, 0.7, -0.2], [0.3, 0.0, 0.0]])
    x, y, turned = (robot.jacobian(q)[:, row] for row in (0, 1, 5))
    expected = [abs(np.linalg.det(np.stack(rows))) for rows in zip(x, y, turned, strict=True)]
    np.testing.assert_allclose(dexterity(robot, q, False), expected, atol=1e-12)
    assert expected[0] > 0.1 > 1e-9 > expected[1]


def test_out_of_reach_nothing_is_shown_and_components_are_known_again_afterwards(sampler):
    live = LiveSolutions(sampler, n=20)
    before = live.solve(target(0.4))
    gone = live.solve(FAR)
    assert gone.chosen is None
    assert len(gone.positions) == len(gone.components) == 0
    assert gone.message.startswith("there is no solution")
    assert gone.nearest is not None
    assert "m away and turned by" in gone.message
    assert "best attempt" not in gone.message  # its errors have other units
    after = live.solve(target(0.4))
    assert after.numbers == before.numbers
    np.testing.assert_allclose(after.chosen, before.chosen, atol=1e-6)


@pytest.mark.parametrize("along", [0.0, 0.31, 0.77, 1.0])
def test_every_place_along_a_component_is_a_solution(sampler, along):
    live = LiveSolutions(sampler, n=20)
    solutions = live.solve(target(0.45))
    for component in range(len(solutions.components)):
        chosen = live.choose(solutions, component, along)
        assert sampler.robot.verify(chosen.chosen, target(0.45))[1].all()
        assert (chosen.component, chosen.along) == (component, along)


def test_a_clicked_ghost_is_chosen(sampler):
    live = LiveSolutions(sampler, n=20)
    solutions = live.solve(target(0.45))
    chosen = live.choose_ghost(solutions, 7)
    np.testing.assert_array_equal(chosen.chosen, solutions.positions[7])
    assert chosen.component == solutions.labels[7]


def test_single_solutions_are_chosen_one_by_one():
    component = Component(np.array([[0.0], [1.0], [2.0]]), np.arange(3.0), is_curve=False)
    assert [place_in(component, along)[0] for along in (0.0, 0.5, 1.0)] == [0.0, 1.0, 2.0]


def test_between_two_places_of_a_curve_the_shorter_way_is_taken():
    component = Component(np.array([[3.0], [-3.0]]), np.array([0.0, 2.0 * np.pi - 6.0]), is_curve=True)
    np.testing.assert_allclose(place_in(component, 0.5), [np.pi])


def test_solutions_without_curves_are_grouped_by_their_looks():
    live = LiveSolutions(Sampler(Robot("planar5")), n=30, position_only=True)
    solutions = live.solve(live.robot.fk(np.full(5, 0.4)))
    assert 1 < len(solutions.components) <= 5
    assert solutions.message == f"30 solutions in {len(solutions.components)} groups that look alike"
    assert len(solutions.positions) == 30
    assert set(solutions.labels) == set(range(len(solutions.components)))


def test_samples_of_a_model_are_the_ghosts():
    sampler = Sampler.load("panda_pose")
    solutions = LiveSolutions(sampler, n=10).solve(target(0.45))
    expected = sampler.sample(target(0.45), 10, order="none", seed=0)
    np.testing.assert_array_equal(solutions.positions, expected.q)
    np.testing.assert_allclose(solutions.log_prob, expected.log_prob)
    np.testing.assert_allclose(solutions.log_prob_of(solutions.positions[3:4]), expected.log_prob[3:4])


def test_the_first_target_is_away_from_singularities_and_limits(sampler):
    robot = sampler.robot
    samples = sampler.sample(first_pose(robot), 20, seed=0)
    assert len(samples) == 20
    assert robot.manipulability(samples.q).max() > np.median(
        robot.manipulability(robot.random(200, np.random.default_rng(1)))
    )


def test_without_a_model_there_is_no_density(sampler):
    assert np.isnan(LiveSolutions(sampler, n=5).solve(target(0.45)).log_prob).all()


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


ROBOT = Robot("planar3")
A, B, C = (np.array([[angle, 0.0, 0.0], [angle, 0.1, 0.0]]) for angle in (-2.0, 0.0, 2.0))


def test_a_component_keeps_its_number_wherever_it_comes_in_the_list():
    assert kept_numbers(ROBOT, [A, B], [4, 7], [B + 0.05, A - 0.05]) == [7, 4]


def test_a_new_component_gets_the_least_number_that_is_left():
    assert kept_numbers(ROBOT, [A, B], [1, 0], [C, A, B]) == [2, 1, 0]


def test_of_two_parts_the_nearer_one_keeps_the_number():
    assert kept_numbers(ROBOT, [A], [3], [A + 0.3, A + 0.1]) == [0, 3]


def test_sixty_colours_differ_visibly():
    places = oklab(np.array([rgb(component_colour(number)) for number in range(60)]))
    away = np.linalg.norm(places[:, None] - places, axis=2) + np.eye(60)
    assert away.min() > 0.04  # twice the just noticeable difference in Oklab
