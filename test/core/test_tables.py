"""Columns are read from a user's file, which is a CSV with a header or an .npz with named arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from eim_ros.core.errors import DataError
from eim_ros.core.tables import load_columns

ROWS = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


@pytest.mark.parametrize(
    "text",
    [
        "x,y,a\n1,2,3\n4,5,6\n",
        "x;y;a\n1;2;3\n4;5;6",
        "x\ty\ta\n1\t2\t3\n4\t5\t6\n",
        '\ufeff"x", y ,"a"\r\n1,2,"3"\r\n4,5,6\r\n',
        "x,y,name,a\n1,2,left,3\n4,5,right,6\n",  # columns that the call does not name may have any content
    ],
)
def test_columns_of_a_table_are_read_in_the_order_of_their_names(tmp_path: Path, text: str) -> None:
    (tmp_path / "own.csv").write_bytes(text.encode())
    contexts, samples = load_columns(tmp_path / "own.csv", ["y", "x"], ["a"])
    assert np.array_equal(contexts, ROWS[:, [1, 0]])
    assert np.array_equal(samples, ROWS[:, [2]])


def test_arrays_of_an_archive_give_one_or_several_columns(tmp_path: Path) -> None:
    np.savez(tmp_path / "own.npz", x=ROWS[:, 0].astype(int), pair=ROWS[:, 1:].astype(np.float32))
    contexts, samples = load_columns(tmp_path / "own.npz", ["x"], ["pair", "x"])
    assert np.array_equal(contexts, ROWS[:, [0]])
    assert np.array_equal(samples, ROWS[:, [1, 2, 0]])
    assert samples.dtype == np.float64


@pytest.mark.parametrize(
    ("content", "names", "reason"),
    [
        ("x,y\n1,2\n", ["z"], r"no column or array 'z'; it has x, y"),
        ("angle,y\n1,2\n", ["angel"], "did you mean angle"),
        ("1,2\n3,4\n", ["x"], "it has 1, 2"),
        ("x,x\n1,2\n", ["x"], "several columns named x"),
        ("x,y\n1,left\n", ["y"], "convert string 'left'"),
        ("x,y\n1,\n", ["y"], "convert string ''"),
        ("x,y\n1\n", ["y"], "own"),
        ("", ["x"], "it has nothing"),
        ("x,y\n\n", ["x"], "no rows below its header"),
        (b"\xff\xfe\x00", ["x"], "cannot read .*own"),
        (b"PK\x03\x04", ["x"], "cannot read .*own"),
        ({"x": np.zeros(3), "y": np.zeros(2)}, ["x", "y"], "same number of rows, got x 3, y 2"),
        ({"x": np.zeros((3, 2, 2))}, ["x"], r"\(n,\) or \(n, k\) of real numbers, got float64 \(3, 2, 2\)"),
        ({"x": np.array(["a"])}, ["x"], "of real numbers"),
        ({"x": np.array([None])}, ["x"], "cannot read"),  # objects are never unpickled
    ],
)
def test_what_cannot_be_read_is_named(
    tmp_path: Path, content: str | bytes | dict[str, np.ndarray], names: list[str], reason: str
) -> None:
    path = tmp_path / "own"
    if isinstance(content, dict):
        np.savez(path, **content)
        path = path.with_suffix(".npz")
    else:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(DataError, match=reason):
        load_columns(path, names)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot read .*none.csv: No such file"):
        load_columns(tmp_path / "none.csv", ["x"])
