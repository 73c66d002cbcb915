"""Each order of solutions is correct, mixed orders are weighted, and only "density" needs densities."""

from __future__ import annotations

import numpy as np
import pytest
from ik.arms import arm_of

from eim_ros.core.errors import ConfigurationError
from eim_ros.ik import Posture
from eim_ros.ik.order import ORDERS, Ordering, limit_margin


def configurations(name: str = "panda", n: int = 50) -> np.ndarray:
    return arm_of(name).random(n, np.random.default_rng(0))


def test_manipulability_is_the_root_of_the_determinant() -> None:
    robot, q = arm_of("panda"), configurations()
    jacobian = robot.jacobian(q)
    for rows, position_only in ((jacobian, False), (jacobian[:, :3], True)):
        expected = np.sqrt(np.linalg.det(rows @ np.swapaxes(rows, 1, 2)))
        np.testing.assert_allclose(robot.manipulability(q, position_only), expected, rtol=1e-8)


def test_stretched_arm_is_singular() -> None:
    assert arm_of("planar3").manipulability(np.zeros((1, 3)), position_only=True) == pytest.approx(0.0, abs=1e-12)


def test_margin_is_one_amid_the_ranges_and_zero_at_a_limit() -> None:
    robot = arm_of("panda")
    middle = 0.5 * (robot.lower + robot.upper)
    at_limit = middle.copy()
    at_limit[3] = robot.upper[3]
    halfway = middle.copy()
    halfway[1] = 0.5 * (middle[1] + robot.lower[1])
    np.testing.assert_allclose(limit_margin(robot, np.array([middle, at_limit, halfway])), [1.0, 0.0, 0.5], atol=1e-12)


def test_continuous_joints_have_no_margin() -> None:
    robot = arm_of("all_types")
    q = 0.5 * (robot.lower + robot.upper)
    turned = np.where(robot.continuous, robot.upper - 1e-9, q)
    assert robot.continuous.any()
    np.testing.assert_allclose(limit_margin(robot, turned[None]), limit_margin(robot, q[None]))


@pytest.mark.parametrize("order", ["distance", "manipulability", "limits", "none"])
def test_only_the_density_asks_for_densities(order: str) -> None:
    robot, q = arm_of("panda"), configurations()
    ranking = Ordering(order, q[7])
    assert not ranking.needs_density
    costs = ranking.costs(robot, q)
    assert costs.shape == (50,)
    if order == "distance":
        assert costs.argmin() == 7


def test_weights_mix_what_each_order_says() -> None:
    robot, q = arm_of("panda"), configurations()
    density = np.linspace(0.0, -5.0, 50)
    alone = Ordering({"limits": 1.0}).costs(robot, q)
    np.testing.assert_array_equal(alone.argsort(), Ordering("limits").costs(robot, q).argsort())
    mixed = Ordering({"limits": 1.0, "density": 3.0}).costs(robot, q, density)
    scaled = (alone - alone.min()) / np.ptp(alone)
    np.testing.assert_allclose(mixed, scaled + 3.0 * np.linspace(0.0, 1.0, 50), atol=1e-12)
    np.testing.assert_array_equal(Ordering({"density": 0.0, "limits": 2.0}).costs(robot, q).argsort(), alone.argsort())


@pytest.mark.parametrize("order", [*ORDERS, {"limits": 1, "distance": 1}])
def test_no_configurations_have_no_costs(order: object) -> None:
    robot = arm_of("panda")
    empty, liked = np.empty((0, robot.dof)), Posture({robot.joint_names[0]: 0.0})
    assert Ordering(order, np.zeros(robot.dof), posture=liked).costs(robot, empty, np.empty(0)).shape == (0,)


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        ("beauty", "unknown order 'beauty'; the orders are density, distance, posture, manipulability, limits, none"),
        ({"limits": -1.0}, "the weight of order 'limits' must be finite and at least 0, got -1"),
        ({"limits": float("nan")}, "must be finite"),
        ("distance", "needs a reference configuration: give near"),
        ("posture", "needs a preferred posture"),
    ],
)
def test_bad_orders_are_refused(order: object, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        Ordering(order)
