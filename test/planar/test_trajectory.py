"""Trajectories are interpolated between points, and refused if the arm cannot follow them."""

import math

import numpy as np
import pytest

from eim_ros.planar import PlanarArm, TrajectoryError, checked_trajectory

ARM = PlanarArm(n_links=2, velocity_limit=2.0)
NAMES = ("joint_1", "joint_2")


def test_positions_are_on_the_line_between_points():
    trajectory = checked_trajectory(ARM, NAMES, (0.5, 1.0, 2.0), ((0.0, 0.0), (0.5, -0.2), (0.5, 1.0)))
    assert trajectory.at(0.75).tolist() == [0.25, -0.1]
    assert trajectory.at(1.0).tolist() == [0.5, -0.2]
    np.testing.assert_allclose(trajectory.at(1.5), [0.5, 0.4], atol=1e-15)
    assert trajectory.at(0.0).tolist() == [0.0, 0.0]
    assert trajectory.at(9.0).tolist() == [0.5, 1.0]
    assert trajectory.duration == 2.0


def test_velocities_make_a_cubic():
    """A point-to-point motion is x = t^2 (3 - 2 t) / 2. Points of x = t^3 are interpolated exactly."""
    rest = checked_trajectory(ARM, NAMES, (0.0, 1.0), ((0.0, 0.0), (0.5, 0.5)), ((0.0, 0.0), (0.0, 0.0)))
    assert rest.at(0.25)[0] == pytest.approx(0.0625 * 2.5 / 2.0)
    times = (0.0, 0.3, 0.7)
    cubic = checked_trajectory(
        ARM, NAMES, times, [(t**3, -(t**3)) for t in times], [(3.0 * t * t, -3.0 * t * t) for t in times]
    )
    for time in (0.1, 0.3, 0.5, 0.65):
        np.testing.assert_allclose(cubic.at(time), [time**3, -(time**3)], atol=1e-15)


def test_columns_are_matched_by_name():
    trajectory = checked_trajectory(ARM, NAMES[::-1], (1.0,), ((0.1, 0.2),))
    assert trajectory.at(1.0).tolist() == [0.2, 0.1]


def test_late_first_point_is_reached_from_where_the_arm_is():
    trajectory = checked_trajectory(ARM, NAMES, (1.0, 2.0), ((0.5, 0.5), (1.0, 0.0)))
    whole = trajectory.starting_from(np.array([0.1, 0.9]))
    np.testing.assert_allclose(whole.at(0.5), [0.3, 0.7], atol=1e-15)
    assert whole.at(2.0).tolist() == [1.0, 0.0]


NAN = math.nan


@pytest.mark.parametrize(
    ("names", "times", "positions", "velocities", "reason"),
    [
        (("joint_1",), (1.0,), ((0.1,),), (), "lacks joint_2"),
        (("joint_1", "elbow"), (1.0,), ((0.1, 0.1),), (), "names unknown elbow"),
        (("joint_1", "joint_2", "joint_2"), (1.0,), ((0.1, 0.1, 0.1),), (), "more than once"),
        (NAMES, (), (), (), "needs points"),
        (NAMES, (1.0, 2.0), ((0.1, 0.1),), (), "a time for each"),
        (NAMES, (1.0,), ((0.1,),), (), "has 1 positions for 2 joints"),
        (NAMES, (1.0, 1.0), ((0.0, 0.0), (0.1, 0.1)), (), "at least 0 and increasing"),
        (NAMES, (-1.0,), ((0.0, 0.0),), (), "at least 0 and increasing"),
        (NAMES, (NAN,), ((0.0, 0.0),), (), "at least 0 and increasing"),
        (NAMES, (1.0,), ((NAN, 0.0),), (), "finite"),
        (NAMES, (1.0,), ((0.0, 3.2),), (), "joint_2 would be at 3.2 rad"),
        (NAMES, (1.0, 2.0), ((0.0, 0.0), (-2.5, 0.0)), (), "joint_1 would move at 2.5 rad/s after 1 s"),
        (NAMES, (1.0, 2.0), ((0.0, 0.0), (0.1, 0.1)), ((0.0, 0.0),), "all points"),
        (NAMES, (1.0, 2.0), ((0.0, 0.0), (0.1, 0.1)), ((0.0, 0.0), (3.0, 0.0)), "rad/s"),
        (NAMES, (0.0, 4.0), ((3.1, 0.0), (3.1, 0.0)), ((1.9, 0.0), (0.0, 0.0)), "would be at"),
    ],
)
def test_what_the_arm_cannot_do_is_refused_with_a_reason(names, times, positions, velocities, reason):
    with pytest.raises(TrajectoryError, match=reason):
        checked_trajectory(ARM, names, times, positions, velocities)
