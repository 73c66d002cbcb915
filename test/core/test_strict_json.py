"""JSON that every reader takes."""

from __future__ import annotations

import json

import numpy as np
import pytest

from eim_ros.core.files import finite, to_json


def refuse(constant):
    raise ValueError(f"{constant} is no JSON")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (float("nan"), "null"),
        ({"a": [1, (2.5, float("inf"))]}, '{"a": [1, [2.5, null]]}'),
        (np.float64("-inf"), "null"),
        (np.float32(0.5), "0.5"),
        (np.array([[1.0, np.nan]]), "[[1.0, null]]"),
        ({"n": np.int64(3), "is": np.bool_(True), "rows": np.arange(2)}, '{"n": 3, "is": true, "rows": [0, 1]}'),
        (["x", None, True], '["x", null, true]'),
    ],
)
def test_what_json_does_not_know_is_null(value, text):
    assert to_json(value) == text
    assert json.loads(text, parse_constant=refuse) == finite(value)


def test_what_is_no_value_is_refused():
    with pytest.raises(TypeError):
        to_json({"a": object()})


def test_keys_are_sorted_on_request():
    assert to_json({"b": 1, "a": float("nan")}, sort_keys=True) == '{"a": null, "b": 1}'
