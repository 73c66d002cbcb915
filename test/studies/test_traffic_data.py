"""The reader of NGSIM's public CSV converts units and rejects bad files. Tracks are cut and assigned correctly."""

import numpy as np
import pytest

from eim_ros.core.errors import DataError
from experiments.traffic_data import VehicleTrack, read_ngsim, split_by_vehicle, track_windows

HEADER = (
    "Vehicle_ID,Frame_ID,Total_Frames,Global_Time,Local_X,Local_Y,Global_X,Global_Y,v_Length,v_Width,v_Class,v_Vel,v_Acc,"
    "Lane_ID,O_Zone,D_Zone,Int_ID,Section_ID,Direction,Movement,Preceding,Following,Space_Headway,Time_Headway,Location"
)
START = 1118935680000  # time of the recording [ms]


def line(
    vehicle: int, frame: int, x: float, y: float, *, length: float = 15.0, place: str = "lankershim", start=START
) -> str:
    """Return a row of the public format, with x, y and length in feet."""
    where = f"{x:.3f},{y:.3f},{6452000.0 + x:.3f},{1872000.0 + y:.3f}"
    rest = f"{length},6.5,2,{10.0},0.0,1,101,203,1,2,2,1,0,0,0.0,0.0,{place}"
    return f"{vehicle},{frame},100,{start + 100 * frame},{where},{rest}"


def write(path, lines, header: str = HEADER):
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return path


def drive(vehicle: int, n: int = 30, **options) -> list[str]:
    """Return the rows of a vehicle that moves along the boulevard by three feet per row."""
    return [line(vehicle, frame, 10.0 * vehicle, 3.0 * frame, **options) for frame in range(n)]


def test_positions_come_in_metres_and_times_in_seconds(tmp_path):
    tracks = read_ngsim(write(tmp_path / "a.csv", drive(1) + drive(2, 20)))
    assert [(track.vehicle, len(track.times)) for track in tracks] == [(1, 30), (2, 20)]
    np.testing.assert_allclose(tracks[1].positions[:, 0], 20.0 * 0.3048, rtol=1e-12)
    np.testing.assert_allclose(tracks[1].positions[:, 1], 3.0 * 0.3048 * np.arange(20), rtol=0.0, atol=1e-12)
    np.testing.assert_allclose(tracks[0].times - START / 1000.0, 0.1 * np.arange(30), rtol=0.0, atol=1e-6)


def test_order_of_rows_and_columns_and_case_of_names_do_not_matter(tmp_path):
    names = HEADER.split(",")
    order = np.random.default_rng(0).permutation(len(names))
    lines = [",".join(np.array(row.split(","))[order]) for row in drive(1) + drive(2)]
    header = ",".join(np.array(names)[order]).upper()
    mixed = read_ngsim(write(tmp_path / "b.csv", lines[::-1], header))
    plain = read_ngsim(write(tmp_path / "a.csv", drive(1) + drive(2)))
    assert all(np.array_equal(one.positions, other.positions) for one, other in zip(mixed, plain, strict=True))


def test_rows_of_other_places_and_repeated_rows_are_left_out(tmp_path):
    lines = drive(1) + drive(1, place="i-80", start=START + 7) + drive(1)[:5] + [""]
    (track,) = read_ngsim(write(tmp_path / "a.csv", lines))
    assert len(track.times) == 30
    (other,) = read_ngsim(tmp_path / "a.csv", location="I-80")
    assert other.times[0] == pytest.approx((START + 7) / 1000.0)


def test_vehicle_number_of_two_recordings_gives_two_tracks(tmp_path):
    tracks = read_ngsim(write(tmp_path / "a.csv", drive(5) + drive(5, 10, start=START + 1000000)))
    assert [(track.vehicle, len(track.times)) for track in tracks] == [(5, 30), (5, 10)]


def test_numbers_with_separators_of_thousands_are_read(tmp_path):
    row = line(1, 0, 0.0, 0.0).replace(",0.000,0.000,", ',0.000,"1,500.5",', 1)
    (track,) = read_ngsim(write(tmp_path / "a.csv", [row]))
    assert track.positions[0, 1] == pytest.approx(1500.5 * 0.3048)


@pytest.mark.parametrize(
    ("lines", "header", "words"),
    [
        (drive(1), HEADER.replace("Local_Y", "Y").replace("v_Length", "Length"), "lacks the columns Local_Y, v_Length"),
        ([], HEADER, "no rows of the location 'lankershim'; the file has no rows at all"),
        (
            drive(1, place="us-101") + drive(1, place="i-80") + drive(2, place="us-101"),
            HEADER,
            "no rows of the location 'lankershim'; the file has rows of i-80, us-101",
        ),
        (drive(1, length=4.6), HEADER, "median length of vehicles is 4.6; expected about 15, because NGSIM uses feet"),
        ([drive(1)[0].replace("10.000", "ten", 1)], HEADER, "line 2: could not convert string to float: 'ten'"),
        (["1,2,3"], HEADER, "line 2: list index out of range"),
        ([drive(1)[0].replace("10.000", "nan", 1)], HEADER, "line 2 has entries that are not finite"),
        ([line(1, 0, 5.0, 0.0), line(1, 0, 9.0, 0.0)], HEADER, "vehicle 1 is in two places at 1118935680000 ms"),
        (
            [drive(1)[0], line(1, 0, 0.0, 9.0, start=START + 1)],
            HEADER,
            "Global_Time has steps of 1; expected 100, because NGSIM uses milliseconds",
        ),
    ],
)
def test_file_that_is_none_is_refused_by_its_fault(tmp_path, lines, header, words):
    with pytest.raises(DataError, match=words):
        read_ngsim(write(tmp_path / "a.csv", lines, header))


def test_empty_and_missing_files_are_refused(tmp_path):
    (tmp_path / "empty.csv").touch()
    with pytest.raises(DataError, match=r"empty.csv is empty; expected the NGSIM"):
        read_ngsim(tmp_path / "empty.csv")
    with pytest.raises(DataError, match="cannot read vehicle trajectories"):
        read_ngsim(tmp_path / "missing.csv")
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(DataError, match="cannot read vehicle trajectories"):
        read_ngsim(tmp_path / "binary.csv")


def track(vehicle: int, n: int, period: float = 0.1) -> VehicleTrack:
    """Return a track in which x is the number of the vehicle, and y is the time."""
    times = period * np.arange(n)
    return VehicleTrack(vehicle, 100.0 + times, np.stack([np.full(n, float(vehicle)), times], -1))


@pytest.mark.parametrize("period", [0.1, 0.5, 2.5])
def test_window_is_a_position_and_those_at_the_next_steps(period):
    tracks = [
        track(1, round(20.0 / period) + 1, period),
        track(2, 3, period),
        track(3, round(12.5 / period) + 1, period),
    ]
    start, following = track_windows(tracks)
    np.testing.assert_allclose(start, [[1.0, 0.0], [1.0, 2.5], [1.0, 5.0], [1.0, 7.5], [3.0, 0.0]], atol=1e-9)
    expected = start[:, 1:] + 2.5 * np.arange(1, 6)
    np.testing.assert_allclose(following.reshape(-1, 5, 2)[..., 1], expected, atol=1e-9)
    np.testing.assert_allclose(following.reshape(-1, 5, 2)[..., 0], np.broadcast_to(start[:, :1], (5, 5)))


def test_step_that_the_interval_does_not_divide_is_refused():
    with pytest.raises(DataError, match="0.7 s apart; the step of 2.5 s must be a multiple of 0.7 s"):
        track_windows([track(1, 100, 0.7)])


@pytest.mark.parametrize("tracks", [[], [track(1, 1)], [track(1, 125)]])
def test_tracks_that_are_too_short_are_refused(tracks):
    with pytest.raises(DataError, match=r"tracks is as long as 12.5 s"):
        track_windows(tracks)


def test_parts_share_no_vehicle_and_have_about_their_shares():
    tracks = [track(vehicle % 50, 10 + vehicle) for vehicle in range(100)]  # two tracks per vehicle
    parts = split_by_vehicle(tracks, (3.0, 1.0, 1.0), np.random.default_rng(0))
    vehicles = [{one.vehicle for one in part} for part in parts]
    assert [len(part) for part in vehicles] == [30, 10, 10] or sum(
        abs(np.array([30, 10, 10]) - list(map(len, vehicles)))
    ) <= 2
    assert len(set.union(*vehicles)) == 50
    assert sorted(len(one.times) for part in parts for one in part) == sorted(len(one.times) for one in tracks)


def test_each_part_has_a_vehicle_and_one_vehicle_is_refused():
    parts = split_by_vehicle([track(vehicle, 5) for vehicle in range(3)], (100.0, 1.0, 1.0), np.random.default_rng(0))
    assert list(map(len, parts)) == [1, 1, 1]
    with pytest.raises(DataError, match="3 parts need at least 3 vehicles, .*, got 1"):
        split_by_vehicle([track(7, 5), track(7, 9)], (1.0, 1.0, 1.0), np.random.default_rng(0))
