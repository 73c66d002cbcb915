"""Data sets are loaded as saved, and other files are refused. Joints are matched; values and poses are interpolated."""

import pickle
import zipfile

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from eim_ros.core.data_set import (
    METHODS,
    DataSet,
    JointMatcher,
    interpolated,
    interpolated_poses,
    load_data_set,
    save_data_set,
)
from eim_ros.core.errors import DataError
from eim_ros.ik.prior import model_path


def example(n: int = 20) -> DataSet:
    rng = np.random.default_rng(0)
    return DataSet(rng.normal(size=(n, 3)), rng.normal(size=(n, 7)), {"robot": "iiwa14", "columns": ["x", "y", "z"]})


def test_name_of_the_file_is_kept_as_given(tmp_path):
    save_data_set(tmp_path / "data", example())
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


@pytest.mark.parametrize(("context", "sample"), [((3, 2), (4, 2)), ((3,), (3, 2)), ((3, 2), (3,)), ((3, 2, 1), (3, 2))])
def test_mismatched_shapes_are_refused(context, sample):
    with pytest.raises(DataError, match="matrices with the same number of rows"):
        DataSet(np.zeros(context), np.zeros(sample))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["context", "sample"])
def test_non_finite_row_is_refused_by_number(name, value):
    columns = {"context": np.zeros((5, 2)), "sample": np.zeros((5, 3))}
    columns[name][3, 1] = columns[name][4, 0] = value
    with pytest.raises(DataError, match=f"{name} has NaN .* in 2 rows, the first of which is row 3") as caught:
        DataSet(**columns)
    assert caught.value.value == 3


def archive(**columns):
    """Return a function that writes an archive of these columns. Missing columns get valid values."""
    good = {"context": np.zeros((2, 1)), "sample": np.zeros((2, 1)), "description": np.array('{"schema_version": 1}')}
    kept = {name: value for name, value in {**good, **columns}.items() if value is not None}
    return lambda path: np.savez(path, **kept)


def single_array(path):
    with path.open("wb") as file:
        np.save(file, np.zeros((3, 2)))


def with_damaged_header(damage):
    """NumPy parses the header of a column as Python code, so damage raises the exceptions of Python's parser."""

    def write(path):
        archive(sample=np.zeros((2, 7)))(path)
        with zipfile.ZipFile(path) as file:
            columns = {name: file.read(name) for name in file.namelist()}
        columns["sample.npy"] = columns["sample.npy"].replace(b"7)", b"7" + damage)
        with zipfile.ZipFile(path, "w") as file:
            for name, content in columns.items():
                file.writestr(name, content)

    return write


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        (lambda path: None, "cannot read .*data.npz: No such file"),
        (lambda path: path.mkdir(), "cannot read"),
        (lambda path: path.write_bytes(pickle.dumps(np.zeros(3))), "not a data set"),
        (
            lambda path: path.write_bytes(model_path("panda_position").read_bytes()),
            "not a data.*file of a mixture of exp",
        ),
        (lambda path: path.write_text("text"), "not a data set.*it is not an .npz archive"),
        (single_array, "not a data set"),
        (archive(), "has no checksum, because it is damaged or was written by"),
        (archive(context=None, description=None), "lacks context, description"),
        (archive(context=np.array([["a"]])), "data.npz"),
        (
            archive(context=np.array([[1.0], [None]], dtype=object)),
            "context contains Python objects, .* never unpickled",
        ),
        *((with_damaged_header(damage), "truncated, or not") for damage in (b"(", b"'", b"\\", b"\0", b"\xff")),
        *(
            (archive(description=np.array(header)), "another schema version than")
            for header in ('{"schema_version": 2}', "{}", "[]", "1")
        ),
    ],
)
def test_what_is_no_data_set_is_refused_by_its_fault(tmp_path, write, reason):
    write(tmp_path / "data.npz")
    with pytest.raises(DataError, match=reason) as caught:
        load_data_set(tmp_path / "data.npz")
    assert "allow_pickle" not in str(caught.value)  # NumPy's message recommends this unsafe option


def test_bad_rows_of_a_file_are_refused_with_its_name(tmp_path):
    wrong = example()
    wrong.sample[0] = np.nan
    save_data_set(tmp_path / "data.npz", wrong)
    with pytest.raises(DataError, match=r"data.npz: sample has NaN .* first of which is row 0"):
        load_data_set(tmp_path / "data.npz")


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
        (["a", "b"], [1.0], "with 2 names but 1 positions"),
        (["a", "b"], [1.0, np.nan], "b is not finite"),
        (["a", "b"], [np.inf, np.nan], "b, a are not finite"),
    ],
)
def test_other_joint_states_are_left_out_with_the_reason(
    names: list[str], positions: list[float], problem: str
) -> None:
    assert JointMatcher(["b", "a"]).match(names, positions) == (None, problem)


def test_both_methods_pass_through_the_values_and_stay_between_them() -> None:
    rng = np.random.default_rng(0)
    times = np.cumsum(rng.uniform(0.001, 0.3, 20))
    values = rng.normal(size=(20, 3))
    moments = np.linspace(times[0], times[-1], 500)
    for method in METHODS:
        assert np.allclose(interpolated(times, values, times, method), values, rtol=0, atol=1e-12)
        between = interpolated(times, values, moments, method)
        right = np.clip(np.searchsorted(times, moments), 1, 19)
        low, high = np.minimum(values[right - 1], values[right]), np.maximum(values[right - 1], values[right])
        assert ((between >= low - 1e-12) & (between <= high + 1e-12)).all()


def test_poses_turn_at_constant_speed_between_two() -> None:
    turn = Rotation.from_rotvec([0.0, 0.0, 1.2])
    poses = np.array([[0.0, 0, 0, 0, 0, 0, 1], [1.0, 0, 0, *-turn.as_quat()]])  # -q is the same rotation
    transforms, known = interpolated_poses(np.array([0.0, 1.0]), poses, np.array([0.25, 0.5, 1.5]), 2.0)
    assert known.tolist() == [True, True, False]
    assert np.allclose(transforms[:2, 0, 3], [0.25, 0.5])
    assert np.allclose(Rotation.from_matrix(transforms[:2, :3, :3]).as_rotvec()[:, 2], [0.3, 0.6])


def test_moments_in_a_gap_or_without_two_poses_are_not_known() -> None:
    poses = np.tile([0.0, 0, 0, 0, 0, 0, 1], (3, 1))
    times = np.array([0.0, 0.1, 1.0])
    _, known = interpolated_poses(times, poses, np.array([0.05, 0.5]), 0.2)
    assert known.tolist() == [True, False]
    assert interpolated_poses(np.array([0.0, 0.25]), poses[:2], np.array([0.1]), 0.25)[1].all()  # maximum gap
    assert not interpolated_poses(times[:1], poses[:1], np.array([0.0]), 0.2)[1].any()
