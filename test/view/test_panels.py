"""The panels describe the chosen solution."""

import re

import numpy as np
from kinematics.descriptions import chain_urdf, joint

from eim_ros.ik import Sampler
from eim_ros.ik.components import self_motion_components
from eim_ros.kinematics import Robot
from eim_ros.view.controls import component_names
from eim_ros.view.panels import WARNING, density_panel, joint_panel, legend_panel, manipulability_panel

LIMIT = '<limit lower="-1" upper="1" effort="1" velocity="1"/>'
ROBOT = Robot(
    chain_urdf(
        joint("turn&amp;", "continuous", "l0", "l1"),
        joint("hinge", "revolute", "l1", "l2", LIMIT),
        joint("slide", "prismatic", "l2", "l3", LIMIT),
    )
)


def test_each_joint_is_told_in_its_unit():
    told = joint_panel(ROBOT, np.array([np.pi / 2, 0.5, -0.25]), "#123456")
    assert "90.0°" in told
    assert "28.6°" in told
    assert "-0.250 m" in told
    assert "turn&amp;" in told
    assert told.count("#123456") == 3


def test_a_joint_beside_its_limit_is_marked_but_not_one_that_turns_on():
    assert WARNING in joint_panel(ROBOT, np.array([0.0, 0.95, 0.0]), "#123456")
    assert WARNING not in joint_panel(ROBOT, np.array([3.14, 0.0, 0.0]), "#123456")


def test_without_a_solution_the_joints_alone_are_told():
    told = joint_panel(ROBOT, None, "#123456")
    assert "hinge" in told
    assert "°</div>" not in told


def test_manipulability_is_told_as_a_share_of_the_most_in_the_component():
    told = manipulability_panel(np.array([0.0, 1.0, 2.0]), np.array([0.1, 0.4, 0.2]), 2.0, 0.2, "#123456")
    assert "<b>0.2</b>, 50 %" in told
    assert told.count("polyline") == 1
    unordered = manipulability_panel(np.array([0.0, 1.0]), np.array([0.1, 0.4]), 0.0, 0.1, "#123456", is_curve=False)
    assert "25 %" in unordered
    assert "svg" not in unordered
    alone = manipulability_panel(np.zeros(1), np.zeros(1), 0.0, 0.0, "#123456")
    assert "<b>0</b></div>" in alone


def test_the_density_of_the_chosen_solution_is_told_beside_those_of_the_others():
    told = density_panel(np.array([-4.0, -1.0]), ["#111111", "#222222"], -2.5, "#123456")
    assert "<b>-2.50 nat</b>, 1.50 nat below" in told
    assert told.count("<circle") == 2
    assert told.index('cx="6.0"') < told.index('cx="254.0"')  # the smallest value is on the left


def test_names_are_escaped():
    assert "<b>" not in legend_panel(["<b>"], ["#123456"])


def test_legend_has_the_branch_of_a_component():
    sampler = Sampler("ur5e")
    pose = sampler.robot.fk(sampler.robot.random(seed=0))
    found = self_motion_components(sampler.robot, sampler.solve_all(pose).q, pose)
    labels = set(component_names([0] * len(found), found, sampler.robot))
    assert len(labels) == len(found)
    assert all(re.fullmatch("1: (left|right), (up|down), (no-)?flip", label) for label in labels)


def test_a_very_low_density_is_said_in_words():
    told = density_panel(np.array([-4.0, -2e7]), ["#111111", "#222222"], -1.9144368e7, "#123456")
    assert "below -1000 nat, far from all data" in told
    assert "≤ -104.0" in told  # the axis ends 100 nat below the maximum
    assert "19144368" not in told and "e+07" not in told
