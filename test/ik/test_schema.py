"""One list defines all columns of an answer. Slicing, joining, pickling and messages preserve these columns."""

from __future__ import annotations

import functools
import json
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ik.arms import arm_of, sampler_of
from rclpy.serialization import deserialize_message, serialize_message

from eim_ros.core.errors import ConfigurationError
from eim_ros.ik import Sampler, Solutions
from eim_ros.ik.solutions import SCHEMA
from eim_ros.nodes.common.interfaces import IKSolutions
from eim_ros.nodes.ik_server.messages import fill

ENOUGH = 60.0  # [s]
LOST = ("messages", "times", "best_attempt_errors")  # a message has one text, one time, and no errors of attempts


@functools.cache
def answer() -> Solutions:
    """Return answers to four poses with log densities. The third pose is out of reach."""
    robot = arm_of("panda")
    poses = robot.fk(robot.random(4, np.random.default_rng(3)))
    poses[2, 0, 3] += 9.0
    found = sampler_of("panda", "pose").sample_batch(poses, 6, timeout=ENOUGH, seed=0)
    assert np.isfinite(found.log_prob).all()
    assert found.n_per_pose.tolist() == [6, 6, 0, 6]
    return found


@functools.cache
def proposed() -> Solutions:
    """Return raw samples of a model; some are not solutions."""
    return sampler_of("panda", "pose").propose(arm_of("panda").fk(np.full(7, 0.4)), 5, seed=0)


@functools.cache
def curves() -> Solutions:
    """Return answers with reports on their components."""
    robot = arm_of("panda")
    sampler, poses = Sampler(robot), robot.fk(robot.random(2, np.random.default_rng(3)))
    return Solutions.concatenate(sampler.stream(poses, sampler.solve_all, timeout=ENOUGH, seed=0))


ANSWERS = [answer, proposed, curves]


def column(solutions: Solutions, name: str) -> Any:
    values = getattr(solutions, name)
    return [str(value) for value in values] if isinstance(values, tuple) else values


def assert_same(one: Solutions, other: Solutions, but: tuple[str, ...] = ()) -> None:
    assert one.joint_names == other.joint_names
    for entry in SCHEMA:
        if entry.name not in but:
            np.testing.assert_array_equal(column(one, entry.name), column(other, entry.name), err_msg=entry.name)


@pytest.mark.parametrize("found", ANSWERS)
def test_each_column_has_an_entry_per_row_or_per_pose(found: Callable[[], Solutions]) -> None:
    for entry in SCHEMA:
        n = len(found()) if entry.per == "row" else found().n_poses
        assert len(getattr(found(), entry.name)) == n, entry.name


@pytest.mark.parametrize("found", ANSWERS)
@pytest.mark.parametrize("rows", [slice(1, 4), slice(None, None, 2), slice(0, 0), [0, 2, 3]])
def test_a_part_of_the_rows_has_a_part_of_every_column(found: Callable[[], Solutions], rows: Any) -> None:
    whole, part = found(), found()[rows]
    for entry in SCHEMA:
        expected = getattr(whole, entry.name)
        if entry.name == "n_per_pose":
            owners = np.repeat(np.arange(whole.n_poses), expected)[rows]
            expected = np.bincount(owners, minlength=whole.n_poses)
        elif entry.per == "row":
            expected = expected[rows]
        if not isinstance(expected, tuple):
            np.testing.assert_array_equal(getattr(part, entry.name), expected, err_msg=entry.name)
        else:
            assert getattr(part, entry.name) == expected


def test_a_mask_chooses_rows() -> None:
    assert_same(proposed()[proposed().valid], proposed()[np.flatnonzero(proposed().valid)])


@pytest.mark.parametrize("found", ANSWERS)
def test_answers_to_single_poses_joined_are_the_answer(found: Callable[[], Solutions]) -> None:
    assert_same(Solutions.concatenate(found().by_pose()), found())


def test_poses_are_chosen_in_any_order() -> None:
    turned = answer().poses([3, 0])
    assert_same(turned.pose(0), answer().pose(3))
    assert_same(turned.pose(1), answer().pose(0))
    assert_same(answer().pose(-1), answer().pose(3))
    with pytest.raises(ConfigurationError, match="these are the answers to 2 poses"):
        _ = turned.n_total


def test_nothing_joined_is_refused() -> None:
    with pytest.raises(ConfigurationError):
        Solutions.concatenate([])


@pytest.mark.parametrize("found", ANSWERS)
def test_a_pickled_answer_is_the_same_without_the_model(found: Callable[[], Solutions]) -> None:
    _ = found().log_prob  # computes the densities, because missing values would be pickled as NaN
    again = pickle.loads(pickle.dumps(found()))
    assert_same(again, found())
    assert again.densities is None


@pytest.mark.parametrize("found", ANSWERS)
def test_a_table_has_the_joints_and_every_column_of_rows(found: Callable[[], Solutions]) -> None:
    solutions, table = found(), found().to_dict()
    rows = {entry.name for entry in SCHEMA if entry.per == "row"} - {"q"}
    poses = {"pose"} if solutions.n_poses > 1 else set()
    assert set(table) == {*solutions.joint_names, *rows, *poses}
    np.testing.assert_array_equal(np.stack([table[name] for name in solutions.joint_names], axis=1), solutions.q)
    for name in rows:
        np.testing.assert_array_equal(table[name], getattr(solutions, name), err_msg=name)
    if poses:
        np.testing.assert_array_equal(np.bincount(table["pose"], minlength=solutions.n_poses), solutions.n_per_pose)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # packages that read message definitions raise this error
@pytest.mark.parametrize("found", ANSWERS)
def test_a_message_that_was_sent_is_the_same_answer(found: Callable[[], Solutions]) -> None:
    message = IKSolutions()
    fill(message, found(), math.inf, True)
    arrived = Solutions.from_message(deserialize_message(serialize_message(message), IKSolutions))
    assert_same(arrived, found(), LOST)
    assert arrived.message == found().message or found().n_poses > 1
    assert arrived.elapsed == pytest.approx(found().elapsed)


def test_a_message_without_densities_has_none() -> None:
    sampler = sampler_of("panda", "pose")
    message = IKSolutions()
    fill(message, sampler.sample(sampler.robot.fk(np.full(7, 0.4)), 5, order="none", seed=0), math.inf, False)
    assert np.isnan(Solutions.from_message(message).log_prob).all()
    assert not len(message.log_prob)


@pytest.mark.parametrize("found", ANSWERS)
def test_fields_of_a_message_have_the_types_of_the_columns(found: Callable[[], Solutions]) -> None:
    fields = found().to_message()
    every = set(IKSolutions.get_fields_and_field_types())
    only_with_reports = {"component_lengths", "component_closed", "component_traced", "confidence"}
    assert set(fields) == (every if any(found().reports) else every - only_with_reports)
    for entry in SCHEMA:
        if entry.ros_name:
            assert fields[entry.ros_name].dtype == np.dtype(entry.dtype), entry.name
            assert fields[entry.ros_name].ndim == 1


@pytest.mark.parametrize("found", ANSWERS)
def test_json_has_the_fields_of_a_message_with_rows_as_lists(found: Callable[[], Solutions]) -> None:
    text = json.loads(found().to_json(), parse_constant=pytest.fail)  # NaN is not valid JSON
    assert set(text) == set(found().to_message())
    np.testing.assert_array_equal(np.reshape(text["positions"], found().q.shape), found().q)
    assert text["joint_names"] == list(found().joint_names)
    assert text["n_per_pose"] == found().n_per_pose.tolist()
    known = [None if np.isnan(value) else value for value in found().log_prob.tolist()]
    assert text["log_prob"] == known
