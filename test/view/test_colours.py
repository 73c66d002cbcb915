"""Numbers of components stay the same while the target moves."""

import numpy as np

from eim_ros.kinematics import Robot
from eim_ros.view.live import component_colour, kept_numbers
from eim_ros.view.style import oklab, rgb

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
    assert away.min() > 0.04  # twice a just noticeable difference in Oklab
