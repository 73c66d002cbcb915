"""Reader of the public NGSIM vehicle trajectories (U.S. Department of Transportation), Lankershim Boulevard by default.

The file is the CSV of data.transportation.gov, with a row per vehicle and tenth of a second: Vehicle_ID, Frame_ID,
Total_Frames, Global_Time [ms], Local_X, Local_Y [ft], Global_X, Global_Y, v_Length [ft], ..., Location. Vehicle numbers
begin anew in each recording, so a vehicle's rows are cut into tracks where time jumps.
"""

from __future__ import annotations

import csv
from array import array
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from eim_ros.data.vehicle_tracks import VehicleTrack
from eim_ros.errors import DataError

__all__ = ["read_ngsim"]

METRES_PER_FOOT = 0.3048
COLUMNS = ("Vehicle_ID", "Global_Time", "Local_X", "Local_Y", "v_Length")  # those that are read
PERIOD = 0.1  # [s]
PLAUSIBLE_LENGTH = (8.0, 60.0)  # of the median vehicle [ft]; in metres it would be about 4.5


def read_ngsim(path: str | Path, location: str = "lankershim") -> list[VehicleTrack]:
    """Tracks of all vehicles at a place.

    Parameters
    ----------
    path : str or Path
        CSV file; names of columns in any case and order.
    location : str
        Rows of other places are left out, where there is a column Location.

    Returns
    -------
    list of VehicleTrack
        In metres: x across Lankershim Boulevard, y along it.

    Raises
    ------
    DataError
        Missing, empty or no such file; missing columns; no rows of the place (which others there are is told); entries
        that are no numbers; lengths not in feet or times not in milliseconds; a vehicle in two places at once.
    """
    values = _read(Path(path), location)
    vehicle, time = values[:, 0].astype(np.int64), values[:, 1]
    order = np.lexsort((time, vehicle))
    values, vehicle, time = values[order], vehicle[order], time[order] / 1000.0
    same = (np.diff(vehicle) == 0) & (np.diff(time) == 0.0)
    moved = same & (np.diff(values[:, 2:4], axis=0) != 0.0).any(-1)
    if moved.any():
        row = int(moved.argmax())
        raise DataError(
            f"{path}: vehicle {vehicle[row]} is in two places at {1000.0 * time[row]:.0f} ms; is the file of one "
            "place?",
            int(vehicle[row]),
        )
    kept = np.concatenate([[True], ~same])
    values, vehicle, time = values[kept], vehicle[kept], time[kept]
    _check_units(path, values[:, 4], vehicle, time)
    positions = METRES_PER_FOOT * values[:, 2:4]
    jumps = (np.diff(vehicle) != 0) | (np.diff(time) > 1.5 * PERIOD)
    cuts = np.flatnonzero(jumps) + 1
    return [
        VehicleTrack(int(ids[0]), times, places)
        for ids, times, places in zip(
            np.split(vehicle, cuts), np.split(time, cuts), np.split(positions, cuts), strict=True
        )
    ]


def _read(path: Path, location: str) -> npt.NDArray[np.float64]:
    """Values (n, n_columns) of a place."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            content, others = array("d"), set[str]()
            for values in _rows(path, csv.reader(file), location, others):
                content.extend(values)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"cannot read vehicle trajectories {path}: {error}", str(path)) from error
    if not content:
        there = f"it has rows of {', '.join(sorted(others))}" if others else "it has none of any place"
        raise DataError(f"{path} has no rows of the location {location!r}; {there}", location)
    return np.array(content).reshape(-1, len(COLUMNS))


def _rows(path: Path, reader: Iterator[list[str]], location: str, others: set[str]) -> Iterator[list[float]]:
    """Values of each row of a place; names of the other places go to `others`."""
    header = [name.strip().lower() for name in next(reader, [])]
    if not header:
        raise DataError(f"{path} is empty; expected the NGSIM vehicle trajectories as CSV", str(path))
    missing = [name for name in COLUMNS if name.lower() not in header]
    if missing:
        raise DataError(
            f"{path} lacks the columns {', '.join(missing)} of the NGSIM vehicle trajectories; it has "
            f"{', '.join(header)}",
            missing,
        )
    indices = [header.index(name.lower()) for name in COLUMNS]
    place = header.index("location") if "location" in header else None
    for number, row in enumerate(reader, 2):
        if not row:
            continue
        if place is not None and len(row) > place and row[place].strip().lower() != location.lower():
            others.add(row[place].strip())
            continue
        try:
            values = [float(row[index].replace(",", "")) for index in indices]  # some exports write 6,452,000.1
        except (ValueError, IndexError) as error:
            raise DataError(f"{path}, line {number}: {error}; expected numbers in {', '.join(COLUMNS)}", row) from error
        if not np.isfinite(values).all():
            raise DataError(f"{path}, line {number} has entries that are not finite", row)
        yield values


def _check_units(
    path: str | Path, lengths: npt.NDArray[np.float64], vehicle: npt.NDArray[np.int64], time: npt.NDArray[np.float64]
) -> None:
    length = float(np.median(lengths))
    if not PLAUSIBLE_LENGTH[0] <= length <= PLAUSIBLE_LENGTH[1]:
        raise DataError(
            f"{path}: the median vehicle is {length:g} long; NGSIM's lengths and positions are in feet, about 15",
            length,
        )
    steps = np.diff(time)[np.diff(vehicle) == 0]
    period = float(np.median(steps)) if len(steps) else PERIOD
    if abs(period - PERIOD) > 0.1 * PERIOD:
        raise DataError(
            f"{path}: Global_Time goes in steps of {1000.0 * period:.3g}; NGSIM's is in milliseconds, 100 a row", period
        )
