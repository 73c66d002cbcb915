"""Tests in a real browser: the tab of motions, and the tab of the line of the planar robot."""

import numpy as np
import pytest
from studies.test_line_postures import RESULTS
from view.test_motions import DATA, ROBOT, fitted_prior

from eim_ros.ik import Sampler
from eim_ros.motion import Demonstrations
from eim_ros.view.motion_tab import SHOWN, MotionStudy, MotionTab
from eim_ros.view.page import Page
from experiments.line_reaching_view import LineStudy, LineTab


def opened(browser, page, words):
    browser.open(page.url)
    browser.wait_until(lambda: words in browser.text())


@pytest.fixture(scope="module")
def motions(browser):
    study = MotionStudy(ROBOT, fitted_prior(), Demonstrations.from_data_set(DATA))
    page = Page(Sampler(ROBOT), n=5, port=0, pose=ROBOT.fk([0.0, 1.0, -0.5]), extra_tab="Motions")
    tab = MotionTab(page, study)
    opened(browser, page, "at least that of")
    yield page, tab
    browser.open("about:blank")  # the server waits for open pages
    page.close()


def test_a_click_draws_other_motions(motions, browser):
    before = motions[1].motions.positions
    browser.click("Draw others")
    browser.wait_until(lambda: not np.array_equal(motions[1].motions.positions, before))
    assert motions[1].motions.positions.shape == before.shape


def test_the_arm_goes_along_the_motion_when_it_is_played(motions, browser):
    motions[1].play()
    browser.wait_until(lambda: motions[1].phase > 0.1)


def test_a_demonstration_is_told_with_its_context(motions, browser):
    motions[1].look_at(SHOWN, 5)
    browser.wait_until(lambda: "of held-out demonstrations" in browser.text())
    assert motions[1].contexts[0].value == pytest.approx(DATA.context[4, 0])


def test_motions_end_at_the_chosen_solution_wherever_the_target_is_moved(motions, browser):
    page, tab = motions
    tab.ends.value = True
    for goal in (0.8, 1.2):
        pose = ROBOT.fk([0.0, goal, -0.5 * goal])
        page.move_target(pose)
        browser.wait_until(lambda pose=pose: np.abs(page.solutions.pose - pose).max() < 1e-6)
        tab.choose_likeliest()
        ends = tab.motions.positions[:, -1]
        assert np.abs(ends - page.solutions.chosen).max() < 6e-3  # six standard deviations of a via point
    assert browser.errors == []


def test_the_simulator_goes_to_the_line_at_a_click(motions, browser):
    study = LineStudy.load(RESULTS / "line-reaching")
    page = Page(Sampler(study.robot), n=5, port=0, extra_tab="Line")
    try:
        tab = LineTab(page, study)
        opened(browser, page, "m from the line on average")
        assert "simulation:" not in browser.text()
        browser.click("Simulate the motion there")
        browser.wait_until(lambda: "simulation: line reached" in browser.text())
        assert study.robot.fk(tab.chosen)[0, 3] == pytest.approx(5.0, abs=study.task.tolerance)
        assert browser.errors == []
    finally:
        browser.open("about:blank")
        page.close()
