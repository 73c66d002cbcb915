"""Windows of tracks and parts by vehicle."""

import numpy as np
import pytest

from eim_ros.core.errors import DataError
from experiments.traffic_data import VehicleTrack, split_by_vehicle, track_windows


def track(vehicle: int, n: int, period: float = 0.1) -> VehicleTrack:
    """x is the number of the vehicle, y the time."""
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
    with pytest.raises(DataError, match="0.7 s apart, which does not divide 2.5 s"):
        track_windows([track(1, 100, 0.7)])


@pytest.mark.parametrize("tracks", [[], [track(1, 1)], [track(1, 125)]])
def test_tracks_that_are_too_short_are_refused(tracks):
    with pytest.raises(DataError, match=r"tracks lasts 12.5 s"):
        track_windows(tracks)


def test_parts_share_no_vehicle_and_have_about_their_shares():
    tracks = [track(vehicle % 50, 10 + vehicle) for vehicle in range(100)]  # two tracks of each
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
    with pytest.raises(DataError, match="3 parts need as many vehicles, got 1"):
        split_by_vehicle([track(7, 5), track(7, 9)], (1.0, 1.0, 1.0), np.random.default_rng(0))
