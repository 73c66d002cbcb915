"""Joint values are matched by name, and mismatches are reported."""

from __future__ import annotations

import numpy as np
import pytest

from eim_ros.core.data_set import JointMatcher


def test_wanted_joints_come_in_the_wanted_order_whatever_the_order_of_the_message() -> None:
    matcher = JointMatcher(["b", "a"])
    for names, positions in ((["a", "b"], [1.0, 2.0]), (["x", "b", "a"], [9.0, 2.0, 1.0]), (["a", "b"], [1.0, 2.0])):
        values, problem = matcher.match(names, positions)
        assert problem == ""
        assert values is not None
        assert values.tolist() == [2.0, 1.0]


@pytest.mark.parametrize(
    ("names", "positions", "problem"),
    [
        (["x"], [1.0], "other joints"),
        ([], [], "other joints"),
        (["a"], [1.0], "without b"),
        (["a", "b", "a"], [1.0, 2.0, 3.0], "a given twice"),
        (["a", "b"], [1.0], "2 names but 1 positions"),
        (["a", "b"], [1.0, np.nan], "b is not finite"),
        (["a", "b"], [np.inf, np.nan], "b, a are not finite"),
    ],
)
def test_other_joint_states_are_left_out_with_the_reason(
    names: list[str], positions: list[float], problem: str
) -> None:
    assert JointMatcher(["b", "a"]).match(names, positions) == (None, problem)
