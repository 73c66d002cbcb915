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


def test_loaded_data_can_be_saved_again(tmp_path):
    save_data_set(tmp_path / "a.npz", example())
    save_data_set(tmp_path / "b.npz", load_data_set(tmp_path / "a.npz"))
    assert load_data_set(tmp_path / "b.npz").description == load_data_set(tmp_path / "a.npz").description


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


def test_missing_file_is_refused(tmp_path):
    with pytest.raises(DataError, match="cannot read .*none.npz: No such file"):
        load_data_set(tmp_path / "none.npz")


def test_folder_is_refused(tmp_path):
    with pytest.raises(DataError, match="cannot read"):
        load_data_set(tmp_path)


def test_file_truncated_anywhere_is_refused(tmp_path):
    path = tmp_path / "data.npz"
    save_data_set(path, example())
    content = path.read_bytes()
    for length in range(0, len(content), 97):
        path.write_bytes(content[:length])
        with pytest.raises(DataError, match="truncated or no"):
            load_data_set(path)


def test_damaged_byte_is_refused(tmp_path):
    """Wherever it is, also in dates and attributes of the archive."""
    path = tmp_path / "data.npz"
    save_data_set(path, example())
    content = path.read_bytes()
    for position in range(0, len(content), 13):
        path.write_bytes(content[:position] + bytes([content[position] ^ 0xFF]) + content[position + 1 :])
        with pytest.raises(DataError, match="data.npz"):
            load_data_set(path)


@pytest.mark.parametrize("damage", [b"(", b"'", b"\\", b"\0", b"\xff"])
def test_damaged_header_of_a_column_is_refused(tmp_path, damage):
    """NumPy parses it as Python, and fails as that does."""
    path = tmp_path / "data.npz"
    np.savez(path, context=np.zeros((2, 3)), sample=np.zeros((2, 7)), description=np.array("{}"))
    with zipfile.ZipFile(path) as archive:
        columns = {name: archive.read(name) for name in archive.namelist()}
    columns["sample.npy"] = columns["sample.npy"].replace(b"7)", b"7" + damage)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in columns.items():
            archive.writestr(name, content)
    with pytest.raises(DataError, match="truncated or no"):
        load_data_set(path)


def test_archive_of_another_program_is_refused(tmp_path):
    header = np.array('{"schema_version": 1}')
    np.savez(tmp_path / "data.npz", context=np.zeros((2, 1)), sample=np.zeros((2, 1)), description=header)
    with pytest.raises(DataError, match="data.npz has no checksum: it is damaged, or was written before"):
        load_data_set(tmp_path / "data.npz")


@pytest.mark.parametrize(
    ("name", "told"), [("panda_position", "the file of a mixture of experts"), (__file__, "it is no archive")]
)
def test_other_file_is_told_as_what_it_is(name, told):
    path = model_path(name)
    with pytest.raises(DataError, match=f"no .npz data set.*{told}") as caught:
        load_data_set(path)
    assert "pickle" not in str(caught.value)


def test_pickle_is_refused_unread(tmp_path):
    path = tmp_path / "data.npz"
    path.write_bytes(pickle.dumps(example().context))
    with pytest.raises(DataError, match="no .npz data set"):
        load_data_set(path)


def test_array_of_objects_is_refused_unread(tmp_path):
    content = np.array([[1.0], [None]], dtype=object)
    np.savez(tmp_path / "data.npz", context=content, sample=np.zeros((2, 1)), description=np.array("{}"))
    with pytest.raises(DataError, match="no .npz data set: context holds Python objects, which are never unpickled"):
        load_data_set(tmp_path / "data.npz")


def test_single_array_is_refused(tmp_path):
    np.save(tmp_path / "data.npy", np.zeros((3, 2)))
    with pytest.raises(DataError, match="no .npz data set"):
        load_data_set(tmp_path / "data.npy")


def test_archive_without_the_columns_is_refused_by_name(tmp_path):
    np.savez(tmp_path / "data.npz", sample=np.zeros((3, 2)))
    with pytest.raises(DataError, match="lacks context, description"):
        load_data_set(tmp_path / "data.npz")


def test_columns_of_text_are_refused(tmp_path):
    header = np.array('{"schema_version": 1}')
    np.savez(tmp_path / "data.npz", context=np.array([["a"]]), sample=np.zeros((1, 1)), description=header)
    with pytest.raises(DataError, match="data.npz"):
        load_data_set(tmp_path / "data.npz")


@pytest.mark.parametrize("header", ['{"schema_version": 2}', "{}", "[]", "1"])
def test_other_schema_is_refused(tmp_path, header):
    np.savez(tmp_path / "data.npz", context=np.zeros((1, 1)), sample=np.zeros((1, 1)), description=np.array(header))
    with pytest.raises(DataError, match="another schema version"):
        load_data_set(tmp_path / "data.npz")


def test_bad_rows_of_a_file_are_refused_with_its_name(tmp_path):
    wrong = example()
    wrong.sample[0] = np.nan
    save_data_set(tmp_path / "data.npz", wrong)
    with pytest.raises(DataError, match=r"data.npz: sample has NaN .* first row 0"):
        load_data_set(tmp_path / "data.npz")
