"""`revolutions="one"` gives one of each set of 2π-equivalent solutions. The oracle groups all solutions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from eim_ros import Sampler, Solutions, Sphere
from eim_ros.core.errors import ConfigurationError
from eim_ros.ik import Posture
from eim_ros.kinematics import Robot

TURN = 2.0 * math.pi
UR5E = Robot("ur5e").urdf
WIDE = UR5E.replace(f'"{-math.pi}"', f'"{-TURN}"').replace(f'"{math.pi}"', f'"{TURN}"')  # limits only
Q = np.array([0.3, -1.2, 1.4, -0.6, 1.1, 0.4])
POSES = Robot("ur5e").fk([Q, Q + 0.2, Q - 0.25])


@pytest.fixture(scope="module")
def wide() -> Sampler:
    return Sampler(WIDE)


def classes(q: np.ndarray) -> np.ndarray:
    """Return cosines and sines of one configuration of each 2π-equivalent set, in a fixed order."""
    circles = np.round(np.exp(1j * q), 6) + (0.0 + 0.0j)
    return np.unique(np.concatenate([circles.real, circles.imag], axis=1) + 0.0, axis=0)


def is_within(sampler: Sampler, solutions: Solutions, pose: np.ndarray) -> bool:
    return bool(sampler.robot.within_limits(solutions.q).all() and sampler.robot.verify(solutions.q, pose)[1].all())


@pytest.mark.parametrize("pose", POSES)
def test_one_of_each_set_is_listed(wide: Sampler, pose: np.ndarray) -> None:
    everything, one = wide.solve_all(pose), wide.solve_all(pose, revolutions="one")
    assert len(everything) == 64 * len(one)
    assert np.array_equal(classes(everything.q), classes(one.q))
    assert is_within(wide, one, pose)
    assert (np.abs(one.q) <= math.pi).all()  # solutions nearest to the middle of the limits
    assert one.n_total == len(one) == one.completeness.n_components
    assert one.completeness.certified
    assert everything.message.endswith(f"all that exist; {len(one)} up to full revolutions")
    assert one.message == f"{len(one)} solutions up to full revolutions, all that exist"


def test_included_arm_and_that_of_a_user_have_the_same_solutions_apart_from_revolutions(wide: Sampler) -> None:
    included, own = Sampler("ur5e").solve_all(POSES[0]), wide.solve_all(POSES[0], revolutions="one")
    assert np.array_equal(classes(included.q), classes(own.q))


@pytest.mark.parametrize("near", [Q, Q + 3.0, np.full(6, 6.2), np.full(6, -6.2)])
def test_each_is_the_nearest_of_its_set_and_the_nearest_comes_first(wide: Sampler, near: np.ndarray) -> None:
    everything, one = wide.solve_all(POSES[0]), wide.solve_all(POSES[0], revolutions="one", near=near)
    assert is_within(wide, one, POSES[0])
    distances = np.linalg.norm(one.q - near, axis=1)
    assert (np.diff(distances) >= -1e-12).all()
    for q, distance in zip(one.q, distances, strict=True):
        same = (np.abs(np.exp(1j * everything.q) - np.exp(1j * q)) < 1e-6).all(axis=1)
        assert distance <= np.linalg.norm(everything.q[same] - near, axis=1).min() + 1e-9


def test_preferred_values_of_some_joints_choose_their_revolution(wide: Sampler) -> None:
    name = wide.robot.joint_names[0]
    for near in ({name: 5.0}, Posture({name: 5.0})):
        one = wide.solve_all(POSES[0], revolutions="one", near=near)
        equivalents = one.q[:, :1] + TURN * np.arange(-2, 3)
        equivalents = np.where(np.abs(equivalents) <= TURN, equivalents, np.inf)
        nearest = np.abs(equivalents - 5.0).min(axis=1)
        assert np.allclose(np.abs(one.q[:, 0] - 5.0), nearest, rtol=0.0, atol=1e-9)
        assert (np.abs(one.q[:, 1:]) <= math.pi).all()
        assert (np.diff(np.abs(one.q[:, 0] - 5.0)) >= -1e-9).all()


def test_both_ends_of_a_revolution_are_one_solution() -> None:
    sampler = Sampler("ur5e")  # its limits allow exactly one revolution
    q = Q.copy()
    q[0] = math.pi
    pose = sampler.robot.fk(q)
    everything, one = sampler.solve_all(pose), sampler.solve_all(pose, revolutions="one")
    assert np.array_equal(classes(everything.q), classes(one.q))
    assert len(classes(one.q)) == len(one) < len(everything)
    assert is_within(sampler, one, pose)


def test_batches_and_streams_answer_as_single_requests_do(wide: Sampler) -> None:
    (block,) = wide.stream(POSES, Sampler.solve_all, revolutions="one", seed=0)
    for pose, answer in zip(POSES, block.by_pose(), strict=True):
        assert np.array_equal(answer.q, wide.solve_all(pose, revolutions="one").q)
    batch = wide.sample_batch(POSES, 100, revolutions="one", seed=0)
    for pose, answer in zip(POSES, batch.by_pose(), strict=True):
        assert np.array_equal(classes(answer.q), classes(wide.sample(pose, 100, revolutions="one").q))
        assert answer.messages[0].endswith("distinct solutions up to full revolutions, all that exist")
    assert batch.robot is wide.robot


def test_narrower_limits_and_fixed_joints_are_kept(wide: Sampler) -> None:
    first, last = wide.robot.joint_names[0], wide.robot.joint_names[-1]
    for limits in ({first: (-1.0, 1.0)}, {first: (-1.0, 6.0)}, {first: (-4.0, 4.0), last: (-6.0, 0.5)}):
        sampler = wide.with_constraints(limits=limits)
        everything, one = sampler.solve_all(POSES[0]), sampler.solve_all(POSES[0], revolutions="one")
        assert np.array_equal(classes(everything.q), classes(one.q))
        assert len(one) == len(classes(one.q))
        for name, (lower, upper) in limits.items():
            column = one.q[:, wide.robot.joint_names.index(name)]
            assert ((column >= lower) & (column <= upper)).all()


def test_collisions_are_checked(wide: Sampler) -> None:
    elbow = wide.robot.skeleton(wide.solve_all(POSES[0], revolutions="one").q[0])[3]
    sampler = wide.with_constraints(obstacles=[Sphere(0.05, at=elbow)], self_collision=True)
    everything, one = sampler.solve_all(POSES[0]), sampler.solve_all(POSES[0], revolutions="one")
    assert 0 < len(one) < len(wide.solve_all(POSES[0], revolutions="one"))
    assert np.array_equal(classes(everything.q), classes(one.q))


def test_curves_of_seven_joints_are_not_repeated() -> None:
    narrow = Sampler("iiwa14")
    urdf = narrow.robot.urdf
    for value in sorted({*narrow.robot.upper.tolist()}):
        urdf = urdf.replace(f'"{value!r}"', f'"{TURN!r}"').replace(f'"{-value!r}"', f'"{-TURN!r}"')
    wide = Sampler(urdf)
    assert (wide.robot.upper == TURN).all()
    pose = wide.robot.fk([0.2, 0.6, -0.3, -1.2, 0.4, 0.8, 0.1])
    one = wide.solve_all(pose, revolutions="one", seed=0, timeout=60.0)
    assert is_within(wide, one, pose)
    assert one.completeness.closed.all()  # no limit cuts the self-motions, so all are closed curves
    assert one.completeness.n_components <= 8
    with pytest.raises(ConfigurationError, match="revolutions='one'"):  # 36952 components with all revolutions
        wide.solve_all(pose, seed=0, timeout=60.0)


def test_arms_without_equivalent_solutions_answer_as_before() -> None:
    sampler = Sampler("panda")
    pose = [0.4, 0.1, 0.5, 1.0, 0.0, 0.0, 0.0]
    assert np.array_equal(sampler.solve_all(pose, seed=0).q, sampler.solve_all(pose, revolutions="one", seed=0).q)


def test_order_of_other_criteria_sees_the_listed_revolution(wide: Sampler) -> None:
    one = wide.solve_all(POSES[0], revolutions="one", order="limits")
    margins = np.minimum(one.q + TURN, TURN - one.q).min(axis=1) / TURN
    assert (np.diff(margins) <= 1e-9).all()


@pytest.mark.parametrize("value", ["some", None, True, 1])
def test_other_values_are_refused(wide: Sampler, value: object) -> None:
    for call in (wide.solve_all, wide.sample):
        with pytest.raises(ConfigurationError, match="revolutions must be 'all' or 'one'"):
            call(POSES[0], revolutions=value)  # type: ignore[operator]
