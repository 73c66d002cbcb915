"""The simulator keeps exact time, moves within velocity limits, ignores refused trajectories, and reports success."""

import numpy as np
import pytest
import torch

from eim_ros.core.errors import ConfigurationError
from eim_ros.planar import PlanarArm, PlanarSimulator, TrajectoryError, folded, line_task, point_task

ARM = PlanarArm(n_links=3)
LINE = line_task((2.0, -1.0), (2.0, 1.0))


def simulator(**arguments) -> PlanarSimulator:
    return PlanarSimulator(**{"arm": ARM, "task": LINE, "rate": 200, "start": np.zeros(3), **arguments})


def run(robot: PlanarSimulator, seconds: float) -> np.ndarray:
    rows = []
    for _ in range(round(seconds * robot.rate)):
        robot.step()
        rows.append(robot.q)
    return np.array(rows)


def test_trajectory_is_followed_exactly_at_each_tick():
    robot = simulator()
    robot.execute(ARM.joint_names, (0.0, 1.0, 3.0), np.array([[0, 0, 0], [1.0, 0, -1.0], [1.0, 0.5, 0.0]]))
    rows = run(robot, 3.5)
    ticks = np.arange(1, 701) / 200
    expected = np.stack([np.interp(ticks, [0, 1, 3], column) for column in ([0, 1, 1], [0, 0, 0.5], [0, -1, 0])], 1)
    np.testing.assert_allclose(rows, expected, atol=1e-12)
    assert not robot.outcome.moving


def test_an_hour_of_ticks_ends_on_the_hour():
    robot = simulator(rate=300)
    robot.tick = 300 * 3600
    assert robot.time == 3600.0
    robot.execute(ARM.joint_names, (1.0,), np.ones((1, 3)))
    run(robot, 1.0)
    np.testing.assert_array_equal(robot.q, np.ones(3))


@pytest.mark.parametrize("delay", [0.0, 0.1, 1.0 / 3.0])
def test_end_is_exact_whenever_the_trajectory_is_told(delay):
    goal = np.array([0.05, 0.03, -0.04])
    for tick in range(0, 4000, 29):
        robot = simulator()
        robot.tick = tick
        robot.execute(ARM.joint_names, (0.0, 0.1), np.stack([np.zeros(3), goal]), delay=delay)
        run(robot, 0.1 + delay + 0.01)
        assert not robot.outcome.moving
        np.testing.assert_array_equal(robot.q, goal)


def test_arm_catches_up_within_its_velocity_limit():
    robot = simulator()
    robot.execute(ARM.joint_names, (0.0, 0.1), np.array([[1.0, 0, 0], [1.0, 0, 0]]))
    rows = run(robot, 0.5)
    steps = np.diff(np.vstack([np.zeros(3), rows]), axis=0)[:, 0]
    assert steps.max() <= ARM.velocity_limit / 200 + 1e-12
    assert rows[63, 0] == 1.0  # 1 rad takes 63.7 ticks at 3.14 rad/s
    assert rows[62, 0] < 1.0
    assert not robot.outcome.moving


def test_velocity_is_that_of_the_last_tick():
    robot = simulator()
    robot.execute(ARM.joint_names, (2.0,), np.array([[1.0, -2.0, 0.0]]))
    run(robot, 1.0)
    np.testing.assert_allclose(robot.velocity, [0.5, -1.0, 0.0], atol=1e-9)
    run(robot, 2.0)
    assert not robot.velocity.any()


@pytest.mark.parametrize("bad", [{"joint_names": ("a", "b", "c")}, {"positions": ((0.0, 0.0, 3.5),)}, {"delay": -2.0}])
def test_refused_trajectory_changes_nothing(bad):
    robot, same = simulator(), simulator()
    good = {"joint_names": ARM.joint_names, "times": (1.0,), "positions": ((0.5, 0.5, 0.5),)}
    for one in (robot, same):
        one.execute(**good)
        run(one, 0.4)
    with pytest.raises(TrajectoryError):
        robot.execute(**{**good, **bad})
    assert robot.outcome == same.outcome
    np.testing.assert_array_equal(run(robot, 0.8), run(same, 0.8))


def test_empty_trajectory_stops_the_robot():
    robot = simulator()
    robot.execute(ARM.joint_names, (1.0,), ((0.5, 0.5, 0.5),))
    run(robot, 0.5)
    robot.execute((), (), ())
    assert not robot.outcome.moving
    assert (run(robot, 0.5) == robot.q).all()


def test_delayed_trajectory_waits():
    robot = simulator()
    robot.execute(ARM.joint_names, (1.0,), ((0.5, 0.5, 0.5),), delay=0.5)
    assert not run(robot, 0.5).any()
    assert robot.outcome.moving
    np.testing.assert_allclose(run(robot, 0.5)[-1], 0.25, atol=1e-12)


def test_success_is_to_reach_the_goal_without_having_touched_anything():
    robot = simulator()
    turn = np.arccos(2.0 / 3.0)  # the tip of the stretched arm is on the line x = 2, but above the end of the goal
    robot.execute(ARM.joint_names, (1.0,), ((turn, 0.0, 0.0),))
    run(robot, 1.0)
    assert not robot.outcome.reached
    assert robot.outcome.distance == pytest.approx(3.0 * np.sin(turn) - 1.0)
    bent = (0.3, 1.2, -1.5)
    arrived = ARM.tip(torch.tensor(bent).double())
    robot.set_task(point_task(arrived.tolist()))
    robot.execute(ARM.joint_names, (1.0,), (bent,))
    run(robot, 1.0)
    assert robot.outcome.reached
    assert robot.outcome.success
    through = (float(ARM.points(torch.tensor(bent).double() / 2.0)[2, 0]), 0.9, 0.2)
    robot.reset()
    robot.set_task(point_task(arrived.tolist(), through))
    robot.execute(ARM.joint_names, (1.0,), (bent,))
    seen = []
    for _ in range(200):
        robot.step()
        seen.append(robot.outcome.collision)
    assert any(seen)
    assert robot.outcome.reached
    assert not robot.outcome.collision
    assert not robot.outcome.success
    robot.execute(ARM.joint_names, (0.1,), (bent,))
    assert robot.outcome.success  # earlier collisions do not count for a new trajectory


def test_reset_goes_back_to_the_start_and_keeps_the_time():
    robot = simulator(start=np.full(3, 0.2))
    robot.execute(ARM.joint_names, (1.0,), ((0.5, 0.5, 0.5),))
    run(robot, 0.5)
    robot.reset()
    assert robot.q.tolist() == [0.2] * 3
    assert robot.time == 0.5
    assert not robot.outcome.moving


def test_folded_arm_is_short():
    arm = PlanarArm()
    points = arm.points(torch.from_numpy(folded(arm)))
    assert points.norm(dim=-1).max() < 2.0
    assert arm.within_limits(torch.from_numpy(folded(arm)))


def test_start_out_of_limits_is_refused():
    with pytest.raises(ConfigurationError, match="the start must be 3 angles"):
        simulator(start=np.full(3, 4.0))
    with pytest.raises(ConfigurationError, match="the start must be 3 angles"):
        simulator(start=np.zeros(2))
