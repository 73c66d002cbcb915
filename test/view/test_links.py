"""Tests in a real browser: links to the page, the menu of robots, and dragging an arm."""

import numpy as np
import pytest
from view.test_page import pixel

from eim_ros.core.errors import ConfigurationError
from eim_ros.ik import Sampler
from eim_ros.kinematics.links import body_poses
from eim_ros.view.page import Page
from eim_ros.view.state import ViewState

HARMLESS = "Unable to preventDefault inside passive event listener"  # from viser when a drag begins
QUERY = "?robot=panda&pose=0.45,0.1,0.4,1,0,0,0&self_collision=1&sphere=0.1,0.5,0.3,0.1"
WATCH = (  # records whether the page is ever covered
    "new MutationObserver(all => all.forEach(one => one.addedNodes.forEach(node => {"
    " if ((node.textContent || '').startsWith('Opening the link')) window.wasCovered = true; })))"
    ".observe(document, {childList: true, subtree: true})"
)


@pytest.fixture(scope="module")
def opened(browser):
    page = Page(Sampler("ur5e"), n=8, port=0)
    browser.run_first(WATCH)
    browser.open(f"{page.url}/{QUERY}")
    browser.wait_until(lambda: page.clients)  # separate waits, because each has a timeout
    browser.wait_until(lambda: page.robot.name == "panda")
    browser.wait_until(lambda: page.solutions is not None and page.state.obstacles)
    browser.wait_until(lambda: "8 solutions in" in browser.text())
    yield page, browser
    browser.open("about:blank")
    page.close()


def test_a_link_restores_robot_target_and_obstacles(opened):
    page, _ = opened
    np.testing.assert_allclose(page.solutions.pose[:3, 3], [0.45, 0.1, 0.4], atol=1e-6)
    (ball,) = page.state.obstacles
    assert ball.radius == pytest.approx(0.1)
    assert page.live.sampler.constraints.self_collision


def test_the_page_is_covered_until_the_link_is_shown(opened):
    page, browser = opened
    browser.wait_until(lambda: "Opening the link" not in browser.text())
    assert browser.value("window.wasCovered")
    assert page.robot.name == "panda"


def test_a_dragged_link_moves_the_arm_but_not_its_tip(opened):
    page, browser = opened
    page.choose(int(np.argmax([len(component) for component in page.solutions.components])), 0.5)
    browser.value("document.querySelectorAll('.mantine-Notification-closeButton').forEach(b => b.click())")
    before = page.solutions
    upper_arm = page.surfaces[3].vertices.mean(axis=0)

    def has_moved():  # a slow page may miss a part of a drag, or apply the drag after this check
        placed = body_poses(page.robot, page.solutions.chosen)[0, 3]
        start = np.array(pixel(placed[:3, :3] @ upper_arm + placed[:3, 3], page, browser))
        browser.drag(tuple(start), tuple(start + [60.0, 30.0]))
        moved = page.solutions.chosen
        assert page.robot.verify(moved, before.pose)[1].all()
        return np.abs(moved - before.chosen).max() > 0.01

    browser.wait_until(has_moved)


def test_the_copied_link_is_in_the_address(opened):
    page, browser = opened
    browser.click("Copy")
    browser.wait_until(lambda: "Copy link" in browser.text())
    browser.wait_until(lambda: page.state.query in browser.value("document.querySelector('textarea').value"))
    browser.click("Copy link")
    browser.wait_until(lambda: "q=" in browser.value("location.search"))
    again = ViewState.from_link(browser.value("location.href"))
    np.testing.assert_allclose(again.q, page.solutions.chosen, atol=1e-5)


def test_another_robot_keeps_the_obstacles(opened):
    page, browser = opened
    page.show_robot("xarm7", "link7")
    browser.wait_until(lambda: page.solutions is not None and "joint7" in browser.text())
    assert page.robot.tip_link == "link7"
    assert len(page.live.sampler.constraints.obstacles) == 1
    with pytest.raises(ConfigurationError, match="start eim view with 'nothing'"):
        page.show_robot("nothing")
    assert [told for told in browser.errors if HARMLESS not in told] == []
