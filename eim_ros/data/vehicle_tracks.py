"""Tracks of vehicles, and the pairs that are learnt from them: a position, and the positions at the next time steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eim_ros.errors import DataError

__all__ = ["VehicleTrack", "split_by_vehicle", "track_windows"]

Array = npt.NDArray[np.float64]

LARGEST_JITTER = 0.25  # of a period, by which times may miss a regular grid


@dataclass(frozen=True)
class VehicleTrack:
    """One vehicle without a gap.

    Attributes
    ----------
    vehicle : int
        Number of the vehicle; a vehicle that was lost from view has several tracks.
    times : array (n,)
        At equal intervals [s].
    positions : array (n, 2)
        x and y on the ground [m].
    """

    vehicle: int
    times: Array
    positions: Array


def track_windows(tracks: Sequence[VehicleTrack], step: float = 2.5, n_steps: int = 5) -> tuple[Array, Array]:
    """A position every `step` seconds along each track, and the positions at the next steps.

    Parameters
    ----------
    tracks : sequence of VehicleTrack
    step : float
        [s]; a multiple of the interval of the tracks.
    n_steps : int

    Returns
    -------
    start : array (n, 2)
        [m]
    following : array (n, 2 n_steps)
        x and y of the first step, of the second, ... [m]

    Raises
    ------
    DataError
        No track lasts n_steps steps, or the interval of one does not divide the step.
    """
    starts, followings = [], []
    for track in tracks:
        if len(track.times) < 2:
            continue
        period = float(np.median(np.diff(track.times)))
        stride = round(step / period)
        if stride < 1 or abs(stride * period - step) > LARGEST_JITTER * period:
            raise DataError(
                f"positions of vehicle {track.vehicle} are {period:g} s apart, which does not divide {step:g} s", period
            )
        first = np.arange(0, max(len(track.times) - n_steps * stride, 0), stride)
        later = first[:, None] + stride * np.arange(1, n_steps + 1)
        starts.append(track.positions[first])
        followings.append(track.positions[later].reshape(len(first), 2 * n_steps))
    if not sum(map(len, starts)):
        raise DataError(f"none of {len(tracks)} tracks lasts {n_steps * step:g} s", len(tracks))
    return np.concatenate(starts), np.concatenate(followings)


def split_by_vehicle(
    tracks: Sequence[VehicleTrack], shares: Sequence[float], generator: np.random.Generator
) -> list[list[VehicleTrack]]:
    """Tracks in parts of about these shares of the vehicles, no vehicle in two of them; `DataError` for too few."""
    vehicles = np.array(sorted({track.vehicle for track in tracks}))
    if len(vehicles) < len(shares):
        raise DataError(
            f"{len(shares)} parts need as many vehicles, got {len(vehicles)}: no vehicle may be in two of them, give a "
            "recording of more",
            len(vehicles),
        )
    order = generator.permutation(vehicles)
    spare = len(vehicles) - len(shares)  # each part has one
    ends = np.round(np.cumsum(shares) / sum(shares) * spare).astype(int) + np.arange(1, len(shares) + 1)
    part_of = {int(vehicle): int(np.searchsorted(ends, index, "right")) for index, vehicle in enumerate(order)}
    return [[track for track in tracks if part_of[track.vehicle] == part] for part in range(len(shares))]
