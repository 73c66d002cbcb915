import socket
import time
import urllib.request

import numpy as np
import pytest
from view.chromium import PATIENCE

from eim_ros.core.errors import ConfigurationError
from eim_ros.ik import Sampler
from eim_ros.kinematics import Robot, pose_from
from eim_ros.view.page import TARGET_SIZE, Page

REACHED = pose_from([0.4, 0.1, 0.5], [1.0, 0.0, 0.0, 0.0])  # the hand points down
DRAGGED = 40.0  # length of a drag [pixel]
TOLERANCE = 1e-6  # default tolerance of a solution


@pytest.fixture(scope="module")
def sampler():
    return Sampler(Robot("panda"))


@pytest.fixture(scope="module")
def page(sampler):
    page = Page(sampler, pose=REACHED, n=12, port=0)
    yield page
    page.close()


@pytest.fixture(scope="module")
def opened(page, browser):
    """Open the page, wait until it shows solutions, and return the browser."""
    browser.open(page.url)
    browser.wait_until(lambda: "solutions in" in browser.text())
    return browser


def pixel(point, page, browser):
    """Return the pixel at which the window of the browser shows a point (3,)."""
    left, top, *size = browser.value(
        "(r => [r.left, r.top, r.width, r.height])(document.querySelector('canvas').getBoundingClientRect())"
    )
    (client,) = page.clients
    eye, aim = client.camera.position, client.camera.look_at
    ahead = (aim - eye) / np.linalg.norm(aim - eye)
    right = np.cross(ahead, [0.0, 0.0, 1.0])
    right /= np.linalg.norm(right)
    seen = np.array([right, np.cross(right, ahead), ahead]) @ (np.asarray(point) - eye)
    scale = 0.5 * size[1] / np.tan(0.5 * client.camera.fov)
    return left + 0.5 * size[0] + scale * seen[0] / seen[2], top + 0.5 * size[1] - scale * seen[1] / seen[2]


def shows_chosen(page, browser):
    return f"{np.degrees(page.solutions.chosen[0]):.1f}°" in browser.text()


def drag_along_x(page, browser, distance):
    """Drag the arrow of the target's x axis until the target has moved. A slow page may need several drags."""
    first, end = page.solutions.pose, time.monotonic() + PATIENCE
    while np.linalg.norm(page.solutions.pose[:3, 3] - first[:3, 3]) < distance:
        assert time.monotonic() < end, (browser.text(), browser.console)
        browser.wait_until(lambda: shows_chosen(page, browser))  # until then, the arrow may be at its old place
        pose = page.solutions.pose
        arrow = pose[:3, 3] + 0.8 * TARGET_SIZE * page.robot.reach * pose[:3, 0]
        start = np.array(pixel(arrow, page, browser))
        way = np.array(pixel(arrow + 0.1 * pose[:3, 0], page, browser)) - start
        browser.drag(tuple(start), tuple(start + DRAGGED * way / np.linalg.norm(way)))
        time.sleep(1.0)


def test_dragging_the_target_changes_the_solutions(opened, page):
    before, shown = page.solutions, opened.text()
    drag_along_x(page, opened, 0.02)
    opened.wait_until(lambda: opened.text() != shown)
    opened.wait_until(lambda: shows_chosen(page, opened))
    after = page.solutions
    moved = after.pose[:3, 3] - before.pose[:3, 3]
    assert moved[0] > 0.02
    assert np.abs(moved[1:]).max() < 1e-6  # only along x, in single precision
    assert len(after.positions) == 12
    assert np.abs(after.positions[:, None] - before.positions).max(axis=2).min() > 1e-6  # every row has changed
    errors, is_valid = page.robot.verify(after.positions, after.pose)
    assert is_valid.all()
    assert errors.max() <= TOLERANCE


def test_what_the_slider_chooses_is_a_solution_of_the_same_component(opened, page):
    components = page.solutions.components
    longest = int(np.argmax([len(component) for component in components]))
    page.choose(longest, 0.3)
    first = page.solutions.chosen
    page.choose(longest, 0.6)
    assert np.abs(page.solutions.chosen - first).max() > 0.05
    assert page.robot.verify(page.solutions.chosen, page.solutions.pose)[1].all()
    opened.wait_until(lambda: f"{np.degrees(page.solutions.chosen[1]):.1f}°" in opened.text())


def test_a_target_out_of_reach_is_told_and_the_way_back_found(opened, page):
    page.move_target(pose_from([3.0, 0.0, 0.5]))
    opened.wait_until(lambda: "0 solutions" in opened.text() or "no " in opened.text().lower())
    opened.wait_until(lambda: page.solutions.chosen is None)
    page.move_target(REACHED)
    opened.wait_until(lambda: "12 solutions in" in opened.text())
    assert page.robot.verify(page.solutions.chosen, REACHED)[1].all()


def test_the_console_has_no_error(opened):
    assert opened.errors == []


def test_a_port_in_use_is_refused(sampler):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(ConfigurationError, match=r"cannot serve the page on .*--port"):
            Page(sampler, port=other.getsockname()[1])


def test_the_page_is_served_without_a_browser(page):
    with urllib.request.urlopen(page.url, timeout=PATIENCE) as answer:
        assert answer.status == 200


def test_the_page_sends_a_dragged_target_in_each_frame(opened):
    """viser delays the messages of a drag by a timer of 50 ms. Our page ends that timer even before one of 30 ms."""
    first = "new Promise(end => { setTimeout(() => end(30), 30); setTimeout(() => end(50), 50); })"
    assert opened.value(first) == 50


def test_on_a_phone_the_panel_is_folded_and_leaves_arm_and_target_in_view(page, browser):
    try:
        browser.resize((400, 800))
        browser.open(page.url)
        browser.wait_until(lambda: "▴▾" in browser.text())
        browser.wait_until(lambda: "Component" not in browser.text())
        browser.wait_until(lambda: page.clients and page.clients[0].camera.aspect == 0.5)
        browser.value("document.querySelectorAll('.mantine-Notification-closeButton').forEach(b => b.click())")

        def is_seen(point):
            x, y = pixel(point, page, browser)
            return browser.value(f"document.elementFromPoint({x}, {y})?.tagName") == "CANVAS"

        points = [np.zeros(3), page.solutions.pose[:3, 3], *page.robot.skeleton(page.solutions.chosen).reshape(-1, 3)]
        browser.wait_until(lambda: all(map(is_seen, points)))
    finally:
        browser.resize((760, 460))


def test_the_first_view_contains_a_target_out_of_reach_and_the_faded_arm(sampler, browser):
    far = Page(sampler, pose=pose_from([1.2, 0.1, 0.4]), n=5, port=0)
    try:
        browser.open(far.url)
        browser.wait_until(lambda: "the nearest pose is" in browser.text())
        left, top, width, height = browser.value(
            "(r => [r.left, r.top, r.width, r.height])(document.querySelector('canvas').getBoundingClientRect())"
        )
        points = [[1.2, 0.1, 0.4], *far.robot.skeleton(far.solutions.nearest).reshape(-1, 3)]

        def are_seen():
            places = [pixel(point, far, browser) for point in points] if far.clients else [(-1.0, -1.0)]
            return all(0.0 < x - left < width and 0.0 < y - top < height for x, y in places)

        browser.wait_until(are_seen)
    finally:
        browser.open("about:blank")
        far.close()
