"""Data sets: what was saved is loaded; anything else is refused with the file's name and the reason."""

import pickle
import zipfile

import numpy as np
import pytest

from eim_ros.core.data_set import DataSet, load_data_set, save_data_set
from eim_ros.core.errors import DataError
from eim_ros.ik.prior import model_path


def example(n: int = 20) -> DataSet:
    rng = np.random.default_rng(0)
    return DataSet(rng.normal(size=(n, 3)), rng.normal(size=(n, 7)), {"robot": "iiwa14", "columns": ["x", "y", "z"]})


def test_data_and_description_come_back(tmp_path):
    save_data_set(tmp_path / "data.npz", example())
    loaded = load_data_set(tmp_path / "data.npz")
    assert np.array_equal(loaded.context, example().context)
    assert np.array_equal(loaded.sample, example().sample)
    assert loaded.description.items() >= example().description.items()
    assert len(loaded) == 20


def test_name_of_the_file_is_kept_as_given(tmp_path):
    save_data_set(tmp_path / "data", example())
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_context_may_have_no_columns(tmp_path):
    save_data_set(tmp_path / "data.npz", DataSet(np.zeros((4, 0)), np.ones((4, 2))))
    assert load_data_set(tmp_path / "data.npz").context.shape == (4, 0)


@pytest.mark.parametrize(("context", "sample"), [((3, 2), (4, 2)), ((3,), (3, 2)), ((3, 2), (3,)), ((3, 2, 1), (3, 2))])
def test_mismatched_shapes_are_refused(context, sample):
    with pytest.raises(DataError, match="matrices of equal length"):
        DataSet(np.zeros(context), np.zeros(sample))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["context", "sample"])
def test_non_finite_row_is_refused_by_number(name, value):
    columns = {"context": np.zeros((5, 2)), "sample": np.zeros((5, 3))}
    columns[name][3, 1] = columns[name][4, 0] = value
    with pytest.raises(DataError, match=f"{name} has NaN or infinite entries in 2 rows, first row 3") as caught:
        DataSet(**columns)
    assert caught.value.value == 3


def archive(**columns):
    """A function that writes an archive of these columns, and of good ones where none is given."""
    good = {"context": np.zeros((2, 1)), "sample": np.zeros((2, 1)), "description": np.array('{"schema_version": 1}')}
    kept = {name: value for name, value in {**good, **columns}.items() if value is not None}
    return lambda path: np.savez(path, **kept)


def single_array(path):
    with path.open("wb") as file:
        np.save(file, np.zeros((3, 2)))


def with_damaged_header(damage):
    """NumPy parses the header of a column as Python, and fails as that does."""

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
        (lambda path: path.write_bytes(pickle.dumps(np.zeros(3))), "no .npz data set"),
        (lambda path: path.write_bytes(model_path("panda_position").read_bytes()), "no .npz.*file of a mixture of exp"),
        (lambda path: path.write_text("text"), "no .npz data set.*it is no archive"),
        (single_array, "no .npz data set"),
        (archive(), "has no checksum: it is damaged, or was written before"),
        (archive(context=None, description=None), "lacks context, description"),
        (archive(context=np.array([["a"]])), "data.npz"),
        (archive(context=np.array([[1.0], [None]], dtype=object)), "context holds Python objects, .* never unpickled"),
        *((with_damaged_header(damage), "truncated or no") for damage in (b"(", b"'", b"\\", b"\0", b"\xff")),
        *(
            (archive(description=np.array(header)), "another schema version")
            for header in ('{"schema_version": 2}', "{}", "[]", "1")
        ),
    ],
)
def test_what_is_no_data_set_is_refused_by_its_fault(tmp_path, write, reason):
    write(tmp_path / "data.npz")
    with pytest.raises(DataError, match=reason) as caught:
        load_data_set(tmp_path / "data.npz")
    assert "allow_pickle" not in str(caught.value)  # NumPy's advice


def test_bad_rows_of_a_file_are_refused_with_its_name(tmp_path):
    wrong = example()
    wrong.sample[0] = np.nan
    save_data_set(tmp_path / "data.npz", wrong)
    with pytest.raises(DataError, match=r"data.npz: sample has NaN .* first row 0"):
        load_data_set(tmp_path / "data.npz")
