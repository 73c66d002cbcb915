"""For any input, the picture is a complete PNG of the documented size. It shows target, arms and joint values."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from eim_ros.core.errors import DataError, PoseError, RobotError
from eim_ros.kinematics import Robot, pose_from, refine
from eim_ros.view import draw_solutions

TARGETS = {"iiwa14": (0.45, 0.25, 0.65), "panda": (0.4, -0.2, 0.5), "ur5": (0.45, 0.25, 0.35)}
SCENE, PANEL = np.s_[120:740, 20:920], np.s_[200:590, 1040:1560]  # rows and columns [pixel]


def solutions(name: str, n: int) -> tuple[Robot, np.ndarray, np.ndarray]:
    """Return a robot, n configurations that reach one position, and a pose with this position."""
    robot, rng = Robot(name), np.random.default_rng(3)
    pose = pose_from(TARGETS.get(name, (1.2, 1.1, 0.0)))
    found = refine(robot, robot.random(4 * n + 20, rng), pose, position_only=True)
    return robot, found.positions[found.converged][:n], pose


def draw(path: Path, *args: object, **options: object) -> np.ndarray:
    """Draw a picture, and return its colours (800, 1600, 3) from 0 to 1."""
    draw_solutions(*args, path, **options)
    return imread(io.BytesIO(path.read_bytes()), format="png")[..., :3]


def colourful(picture: np.ndarray) -> float:
    """Return the fraction of pixels that are not grey."""
    return float(np.mean(np.ptp(picture, axis=-1) > 0.15))


@pytest.mark.parametrize("name", ["iiwa14", "panda", "planar3", "planar5", "planar10", "ur5"])
def test_many_configurations_fill_scene_and_panel_with_colour(name, tmp_path):
    robot, positions, pose = solutions(name, 60)
    assert len(positions) == 60
    picture = draw(tmp_path / "arms.png", robot, positions, pose)
    assert picture.shape == (800, 1600, 3)
    assert colourful(picture[SCENE]) > 0.02
    assert colourful(picture[PANEL]) > 0.05


@pytest.mark.parametrize("name", ["panda", "planar10"])
def test_each_configuration_adds_to_the_picture_and_none_still_shows_the_target(name, tmp_path):
    robot, positions, pose = solutions(name, 1)
    none, one = (draw(tmp_path / f"{n}.png", robot, positions[:n], pose) for n in (0, 1))
    assert (none[SCENE].min(axis=-1) < 0.97).mean() > 0.01  # some pixels are not white
    assert 0.0 < colourful(none[SCENE]) < 0.01  # only the axes of the target
    assert colourful(none[PANEL]) == 0.0
    assert colourful(one[SCENE]) > 0.002
    assert colourful(one[PANEL]) > 0.005


def test_one_configuration_may_be_a_row_and_an_empty_list_is_none(tmp_path):
    robot, positions, pose = solutions("iiwa14", 1)
    one, row = (draw(tmp_path / "one.png", robot, q, pose) for q in (positions, positions[0]))
    none, empty = (draw(tmp_path / "none.png", robot, q, pose) for q in (positions[:0], []))
    assert np.array_equal(one, row)
    assert np.array_equal(none, empty)


def test_title_replaces_the_first_line_and_a_long_one_stays_inside(tmp_path):
    robot, positions, pose = solutions("planar3", 5)
    plain = draw(tmp_path / "plain.png", robot, positions, pose)
    titled = draw(tmp_path / "titled.png", robot, positions, pose, title="A title without end " * 40)
    assert not np.array_equal(plain[:70], titled[:70])
    assert np.array_equal(plain[75:], titled[75:])
    assert titled[:, 1580:].min() >= 0.97


def test_equal_input_gives_the_same_bytes(tmp_path):
    robot, positions, pose = solutions("panda", 30)
    for name in ("a.png", "b.png"):
        draw_solutions(robot, positions, pose, tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


@pytest.mark.parametrize("case", ["out of limits", "all equal", "below the ground", "more than are drawn"])
def test_unusual_configurations_are_drawn(case, tmp_path):
    robot, positions, pose = solutions("iiwa14", 20)
    uniform = robot.random(2000, np.random.default_rng(0))
    positions = {
        "out of limits": 1.5 * positions,
        "all equal": np.repeat(positions[:1], 20, axis=0),
        "below the ground": uniform[robot.skeleton(uniform)[:, 4:, 2].max(axis=1) < 0.3][:20],
        "more than are drawn": uniform,
    }[case]
    assert len(positions) > 0
    assert colourful(draw(tmp_path / "arms.png", robot, positions, pose)[SCENE]) > 0.002


def test_bad_input_is_refused_and_writes_nothing(tmp_path):
    robot, positions, pose = solutions("planar3", 4)
    path = tmp_path / "arms.png"
    with pytest.raises(DataError, match="finite"):
        draw_solutions(robot, np.full((2, 3), np.nan), pose, path)
    with pytest.raises(RobotError, match="shape"):
        draw_solutions(robot, positions[:, :2], pose, path)
    with pytest.raises(PoseError):
        draw_solutions(robot, positions, np.eye(3), path)
    assert list(tmp_path.iterdir()) == []
