"""The list of columns drives slices, joined answers, pickles, tables, messages and JSON: none of them forgets one."""

from __future__ import annotations

import json
import pickle
from dataclasses import fields

import numpy as np
import pytest

from eim_ros.ik import Sampler, Solutions
from eim_ros.ik.solutions import SCHEMA, Column

ROWS = [column for column in SCHEMA if column.per == "row"]
POSES = [column for column in SCHEMA if column.per == "pose"]
NOT_COLUMNS = {"joint_names", "known_log_prob", "densities"}  # log_prob is a property of the last two


@pytest.fixture(scope="module")
def answer() -> Solutions:
    """Answers to three poses, the second out of reach."""
    sampler = Sampler.load("panda_pose")
    poses = sampler.robot.fk(0.7 * sampler.robot.random(3, np.random.default_rng(0)))
    poses[1, 0, 3] = 9.0
    return sampler.sample_batch(poses, 4, seed=0, timeout=60.0)


def assert_equal(found: object, expected: object, column: Column) -> None:
    if isinstance(expected, tuple):
        assert isinstance(found, tuple) and len(found) == len(expected), column.name
        if column.name == "messages":
            assert found == expected
    else:
        np.testing.assert_array_equal(found, expected, err_msg=column.name)  # type: ignore[call-overload]  # an array


def test_every_field_is_a_column() -> None:
    assert {field.name for field in fields(Solutions)} - NOT_COLUMNS == {column.name for column in SCHEMA} - {
        "log_prob"
    }


def test_columns_have_a_row_for_each_configuration_or_pose(answer: Solutions) -> None:
    assert all(len(getattr(answer, column.name)) == len(answer) == 8 for column in ROWS)
    assert all(len(getattr(answer, column.name)) == answer.n_poses == 3 for column in POSES)


@pytest.mark.parametrize(
    "rows", [slice(1, 6), np.array([0, 5, 7]), np.arange(8) % 2 == 0], ids=["slice", "rows", "mask"]
)
def test_chosen_rows_are_those_of_every_column(answer: Solutions, rows: object) -> None:
    chosen = answer[rows]
    for column in ROWS:
        assert_equal(getattr(chosen, column.name), getattr(answer, column.name)[rows], column)
    assert chosen.n_per_pose.sum() == len(chosen) and chosen.n_poses == 3


def test_answers_to_single_poses_join_to_the_batch(answer: Solutions) -> None:
    joined = Solutions.concatenate(answer.by_pose())
    for column in SCHEMA:
        assert_equal(getattr(joined, column.name), getattr(answer, column.name), column)


def test_pickle_keeps_every_column(answer: Solutions) -> None:
    assert np.isfinite(answer.log_prob).all()  # read before, so it is kept
    copied = pickle.loads(pickle.dumps(answer))
    for column in SCHEMA:
        assert_equal(getattr(copied, column.name), getattr(answer, column.name), column)


def test_table_has_every_column_of_rows(answer: Solutions) -> None:
    table = answer.to_dict()
    assert set(table) == {*answer.joint_names, "pose", *(column.name for column in ROWS if column.name != "q")}
    np.testing.assert_array_equal(np.transpose([table[name] for name in answer.joint_names]), answer.q)
    assert table["pose"] == [0] * 4 + [2] * 4


def test_message_and_json_have_every_column_with_a_name_there(answer: Solutions) -> None:
    message, parsed = answer.to_message(), json.loads(answer.to_json())
    assert set(message) == set(parsed)
    for column in SCHEMA:
        if column.ros_name and column.name != "best_attempts":  # only of poses that have one
            np.testing.assert_array_equal(message[column.ros_name], np.ravel(getattr(answer, column.name)))
    np.testing.assert_array_equal(message["best_attempt"], answer.best_attempts[1])
    np.testing.assert_array_equal(parsed["positions"], answer.q)
    assert parsed["n"] == 8 and parsed["n_per_pose"] == [4, 0, 4]
