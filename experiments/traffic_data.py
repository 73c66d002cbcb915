"""Vehicle tracks from a synthetic intersection or the NGSIM recordings, and windows of them as training data.

`synthetic_intersection` simulates tracks for use without the NGSIM file. A boulevard with two lanes each way and a
median strip crosses a street with one lane each way. Vehicles have individual speeds, stop at red lights and behind
each other, go straight or turn, and change lanes. Drivers stay slow enough to stop behind the vehicle ahead (Gipps
1981). The tracks are not measured traffic.

`read_ngsim` reads the public NGSIM vehicle trajectories (U.S. Department of Transportation), by default of Lankershim
Boulevard, from the CSV file of data.transportation.gov. The file contains one row per vehicle and tenth of a second:
Vehicle_ID, Frame_ID, Total_Frames, Global_Time [ms], Local_X, Local_Y [ft], Global_X, Global_Y, v_Length [ft], ...,
Location. Each recording reuses vehicle numbers. Therefore, the rows of a vehicle are split into tracks at jumps in
time.
"""

from __future__ import annotations

import csv
import math
from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from eim_ros.core.errors import DataError

Array = npt.NDArray[np.float64]

LARGEST_JITTER = 0.25  # largest deviation of a step from a multiple of the period, in periods


@dataclass(frozen=True)
class VehicleTrack:
    """Track of one vehicle without gaps.

    Attributes
    ----------
    vehicle : int
        Number of the vehicle. A vehicle with gaps in its recording has several tracks.
    times : array (n,)
        Times at equal intervals [s].
    positions : array (n, 2)
        x and y on the ground [m].
    """

    vehicle: int
    times: Array
    positions: Array


def track_windows(tracks: Sequence[VehicleTrack], step: float = 2.5, n_steps: int = 5) -> tuple[Array, Array]:
    """Return positions at intervals of `step` seconds along each track, with the positions at the next steps.

    Parameters
    ----------
    tracks : sequence of VehicleTrack
    step : float
        Time step [s], a multiple of the interval of the tracks.
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
        If no track has a duration of `n_steps` steps, or if the interval of a track does not divide the step.
    """
    starts, followings = [], []
    for track in tracks:
        if len(track.times) < 2:
            continue
        period = float(np.median(np.diff(track.times)))
        stride = round(step / period)
        if stride < 1 or abs(stride * period - step) > LARGEST_JITTER * period:
            raise DataError(
                f"positions of vehicle {track.vehicle} are {period:g} s apart; the step of {step:g} s must be a "
                f"multiple of {period:g} s",
                period,
            )
        first = np.arange(0, max(len(track.times) - n_steps * stride, 0), stride)
        later = first[:, None] + stride * np.arange(1, n_steps + 1)
        starts.append(track.positions[first])
        followings.append(track.positions[later].reshape(len(first), 2 * n_steps))
    if not sum(map(len, starts)):
        raise DataError(
            f"none of the {len(tracks)} tracks is as long as {n_steps * step:g} s; provide longer tracks", len(tracks)
        )
    return np.concatenate(starts), np.concatenate(followings)


def split_by_vehicle(
    tracks: Sequence[VehicleTrack], shares: Sequence[float], generator: np.random.Generator
) -> list[list[VehicleTrack]]:
    """Split tracks by vehicle into groups with about these shares of the vehicles.

    Raises
    ------
    DataError
        If there are fewer vehicles than groups.
    """
    vehicles = np.array(sorted({track.vehicle for track in tracks}))
    if len(vehicles) < len(shares):
        raise DataError(
            f"{len(shares)} parts need at least {len(shares)} vehicles, because no vehicle may be in two parts, got "
            f"{len(vehicles)}; give a recording of more vehicles",
            len(vehicles),
        )
    order = generator.permutation(vehicles)
    spare = len(vehicles) - len(shares)  # each group gets at least one vehicle
    ends = np.round(np.cumsum(shares) / sum(shares) * spare).astype(int) + np.arange(1, len(shares) + 1)
    part_of = {int(vehicle): int(np.searchsorted(ends, index, "right")) for index, vehicle in enumerate(order)}
    return [[track for track in tracks if part_of[track.vehicle] == part] for part in range(len(shares))]


PERIOD = 0.5  # time between successive positions of a track [s]
REACH = 120.0  # distance from the centre at which vehicles enter and leave [m]
# offset to the right of the centre line [m]; the median strip ends at 2.2
LANES = {"boulevard": (4.0, 7.6), "street": (2.2,)}
CROSSING = {"boulevard": 9.0, "street": 14.0}  # distance from the centre to the stop line of each road [m]
# share of vehicles on the boulevard; minimum gap on a lane, and mean of the additional gap [s]
BOULEVARD_SHARE, LEAST_GAP, MEAN_GAP = 0.7, 2.5, 6.0
CYCLE, GREEN, CLEARANCE = 60.0, {"boulevard": 32.0, "street": 20.0}, 4.0  # [s]
SPEED, SPEED_SPREAD, TURN_SPEED = 13.0, 2.0, 6.0  # [m/s]
ACCELERATION, BRAKING, HARD_BRAKING = 2.0, 3.0, 4.5  # [m/s^2]; the last value applies when a light turns red
HEADWAY, STOP_AHEAD = 7.0, 1.0  # distances [m] between fronts in a queue, and from the first front to the stop line
RADIUS = {"right": 5.0, "left": 9.0}  # radius of the turns [m]
TURN_SHARE = 0.3  # share of drivers on the boulevard who turn; on the street, a quarter turns each way
WANDER, ERROR = 0.25, 0.2  # standard deviations of the offset from the middle of the lane, and of the measurement [m]
# share of straight drivers on the boulevard who change lanes, and length of the change [m]
LANE_CHANGE_SHARE, LANE_CHANGE_LENGTH = 0.25, 40.0
DIRECTIONS = {"boulevard": ((0.0, 1.0), (0.0, -1.0)), "street": ((1.0, 0.0), (-1.0, 0.0))}
LONGEST = 240.0  # maximum duration of a track [s]


_Lane: TypeAlias = tuple[str, int, int]  # road, direction, lane number counted from the centre


@dataclass(frozen=True)
class _Drive:
    """Distance travelled along a route [m] at each time step, starting at step `begin`."""

    begin: int
    way: list[float]

    def ahead(self, step: int, stop: float) -> tuple[float, float] | None:
        """Return distance [m] and speed [m/s] at a time step, or None after the vehicle has left the lane.

        The lane ends at the crossing.
        """
        index = step - self.begin
        if index + 1 >= len(self.way) or self.way[index] > stop + HEADWAY:
            return None
        return self.way[index], (self.way[index + 1] - self.way[index]) / PERIOD


@dataclass(frozen=True)
class _Route:
    """Path of a vehicle through the intersection.

    `path` contains points (n, 2) [m], and `way` the distance along the path at each point (n,) [m]. `stop` is the
    distance of the stop line, and `turn` contains the distances of the start and end of the turn [m].
    """

    path: Array
    way: Array
    stop: float
    turn: tuple[float, float] | None
    road: str


def synthetic_intersection(n_vehicles: int, generator: np.random.Generator) -> list[VehicleTrack]:
    """Simulate the tracks of `n_vehicles` vehicles, with a position every half second.

    Parameters
    ----------
    n_vehicles : int
    generator : numpy.random.Generator

    Returns
    -------
    list of VehicleTrack
    """
    tracks = []
    arrivals: dict[_Lane, int] = defaultdict(int)
    leaders: dict[_Lane, _Drive] = {}
    for vehicle in range(n_vehicles):
        road = "boulevard" if generator.random() < BOULEVARD_SHARE else "street"
        lane = (road, int(generator.integers(2)), int(generator.integers(len(LANES[road]))))
        arrivals[lane] += math.ceil((LEAST_GAP + generator.exponential(MEAN_GAP)) / PERIOD)
        route = _route(*lane, generator)
        speed = SPEED + SPEED_SPREAD * float(generator.standard_normal())
        drive = _drive(route, arrivals[lane], max(speed, TURN_SPEED), leaders.get(lane))
        leaders[lane] = drive
        times = PERIOD * np.arange(drive.begin, drive.begin + len(drive.way), dtype=np.float64)
        exact = _positions(route, np.array(drive.way), WANDER * float(generator.standard_normal()))
        tracks.append(VehicleTrack(vehicle, times, exact + ERROR * generator.standard_normal(exact.shape)))
    return tracks


def _route(road: str, direction: int, lane: int, generator: np.random.Generator) -> _Route:
    """Return the route of a vehicle from a lane. The route goes straight on, or turns into the other road."""
    ahead = np.array(DIRECTIONS[road][direction])
    right = np.array([ahead[1], -ahead[0]])
    line = LANES[road][lane] * right
    turn = _turn(road, lane, generator)
    if turn is None:
        along = np.arange(-REACH, REACH + 1.0)
        path = line + along[:, None] * ahead
        if road == "boulevard" and generator.random() < LANE_CHANGE_SHARE:
            begin = generator.uniform(CROSSING[road], REACH - LANE_CHANGE_LENGTH)
            share = np.clip((along - begin) / LANE_CHANGE_LENGTH, 0.0, 1.0)
            other = LANES[road][1 - lane] - LANES[road][lane]
            path = path + (0.5 - 0.5 * np.cos(np.pi * share))[:, None] * other * right
        return _Route(path, along + REACH, REACH - CROSSING[road], None, road)
    side, radius = (1.0 if turn == "right" else -1.0), RADIUS[turn]
    into = LANES["street" if road == "boulevard" else "boulevard"][-1 if turn == "right" else 0]
    corner = line - side * into * ahead
    angle = np.linspace(0.0, 0.5 * np.pi, 10)[:, None]
    arc = corner - radius * ahead + side * radius * right * (1.0 - np.cos(angle)) + radius * ahead * np.sin(angle)
    before = float((corner - radius * ahead) @ ahead)
    entry = line + np.arange(-REACH, before)[:, None] * ahead
    leaving = arc[-1] + np.arange(1.0, REACH - radius)[:, None] * side * right
    path = np.concatenate([entry, arc, leaving])
    way = np.concatenate([[0.0], np.linalg.norm(np.diff(path, axis=0), axis=-1).cumsum()])
    return _Route(path, way, REACH - CROSSING[road], (before + REACH, before + REACH + 0.5 * np.pi * radius), road)


def _turn(road: str, lane: int, generator: np.random.Generator) -> str | None:
    """Draw the turn of a vehicle, or None for straight on.

    On the boulevard, drivers turn left from the inner lane, and right from the outer lane. On the street, they turn
    either way.
    """
    number = generator.random()
    if road == "street":
        return "right" if number < 0.25 else "left" if number < 0.5 else None
    return ("left" if lane == 0 else "right") if number < TURN_SHARE else None


def _drive(route: _Route, begin: int, speed: float, leader: _Drive | None) -> _Drive:
    """Simulate a vehicle at the highest speed that the driver, the turn, the light and the vehicle ahead allow."""
    way, velocity, path = 0.0, speed, []
    for step in range(begin, begin + round(LONGEST / PERIOD)):
        path.append(way)
        wished = min(velocity + ACCELERATION * PERIOD, speed)
        if route.turn is not None and way < route.turn[1]:
            wished = min(wished, _safe_speed(max(route.turn[0] - way, 0.0), TURN_SPEED))
        to_line = route.stop - way
        if not _is_green(route.road, step * PERIOD) and to_line > velocity**2 / (2.0 * HARD_BRAKING):
            wished = min(wished, _safe_speed(max(to_line - STOP_AHEAD, 0.0), 0.0))
        if leader is not None and (ahead := leader.ahead(step, route.stop)) is not None:
            wished = min(wished, _safe_speed(max(ahead[0] - way - HEADWAY, 0.0), ahead[1]))
        velocity = max(wished, 0.0)
        way += velocity * PERIOD
        if way > route.way[-1]:
            break
    return _Drive(begin, path)


def _safe_speed(gap: float, speed_there: float) -> float:
    """Return the highest speed that lets a driver slow down to `speed_there` within `gap` (Gipps 1981).

    The driver reacts after one period. Speeds are in [m/s], and the gap is in [m].
    """
    late = BRAKING * PERIOD
    return math.sqrt(late**2 + 2.0 * BRAKING * gap + speed_there**2) - late


def _is_green(road: str, time: float) -> bool:
    """Return whether a road has a green light. The street follows the boulevard after a clearance time."""
    within = time % CYCLE
    if road == "boulevard":
        return within < GREEN[road]
    begin = GREEN["boulevard"] + CLEARANCE
    return begin <= within < begin + GREEN[road]


def _positions(route: _Route, way: Array, offset: float) -> Array:
    """Return the points at given distances along a route, shifted to the right by an offset [m]."""
    ahead = np.gradient(route.path, route.way, axis=0)
    ahead /= np.linalg.norm(ahead, axis=-1, keepdims=True)
    right = np.stack([ahead[:, 1], -ahead[:, 0]], -1)
    path = route.path + offset * right
    return np.stack([np.interp(way, route.way, column) for column in path.T], -1)


METRES_PER_FOOT = 0.3048
COLUMNS = ("Vehicle_ID", "Global_Time", "Local_X", "Local_Y", "v_Length")  # the columns that are read
NGSIM_PERIOD = 0.1  # [s]
PLAUSIBLE_LENGTH = (8.0, 60.0)  # range for the median length of vehicles [ft]; a length in metres would be about 4.5


def read_ngsim(path: str | Path, location: str = "lankershim") -> list[VehicleTrack]:
    """Read the tracks of all vehicles at a location.

    Parameters
    ----------
    path : str or Path
        CSV file. Column names may be in any case and order.
    location : str
        Rows of other locations are skipped if the file has a column Location.

    Returns
    -------
    list of VehicleTrack
        Tracks in metres: x across Lankershim Boulevard, y along it.

    Raises
    ------
    DataError
        If the file cannot be read, is empty, lacks columns, or contains entries that are not finite numbers. If it has
        no rows of the location; the message then lists other locations. If lengths are not in feet, or times are not in
        milliseconds. If a vehicle is in two places at once.
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
            f"{path}: vehicle {vehicle[row]} is in two places at {1000.0 * time[row]:.0f} ms; give a file of one "
            "location",
            int(vehicle[row]),
        )
    kept = np.concatenate([[True], ~same])
    values, vehicle, time = values[kept], vehicle[kept], time[kept]
    _check_units(path, values[:, 4], vehicle, time)
    positions = METRES_PER_FOOT * values[:, 2:4]
    jumps = (np.diff(vehicle) != 0) | (np.diff(time) > 1.5 * NGSIM_PERIOD)
    cuts = np.flatnonzero(jumps) + 1
    return [
        VehicleTrack(int(ids[0]), times, places)
        for ids, times, places in zip(
            np.split(vehicle, cuts), np.split(time, cuts), np.split(positions, cuts), strict=True
        )
    ]


def _read(path: Path, location: str) -> npt.NDArray[np.float64]:
    """Return the values (n, n_columns) of a location."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            content, others = array("d"), set[str]()
            for values in _rows(path, csv.reader(file), location, others):
                content.extend(values)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"cannot read vehicle trajectories {path}: {error}", str(path)) from error
    if not content:
        there = f"the file has rows of {', '.join(sorted(others))}" if others else "the file has no rows at all"
        raise DataError(f"{path} has no rows of the location {location!r}; {there}", location)
    return np.array(content).reshape(-1, len(COLUMNS))


def _rows(path: Path, reader: Iterator[list[str]], location: str, others: set[str]) -> Iterator[list[float]]:
    """Yield the values of each row of a location, and add the names of other locations to `others`."""
    header = [name.strip().lower() for name in next(reader, [])]
    if not header:
        raise DataError(f"{path} is empty; expected the NGSIM vehicle trajectories as CSV", str(path))
    missing = [name for name in COLUMNS if name.lower() not in header]
    if missing:
        raise DataError(
            f"{path} lacks the columns {', '.join(missing)} of the NGSIM vehicle trajectories; its columns are "
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
            f"{path}: the median length of vehicles is {length:g}; expected about 15, because NGSIM uses feet",
            length,
        )
    steps = np.diff(time)[np.diff(vehicle) == 0]
    period = float(np.median(steps)) if len(steps) else NGSIM_PERIOD
    if abs(period - NGSIM_PERIOD) > 0.1 * NGSIM_PERIOD:
        raise DataError(
            f"{path}: Global_Time has steps of {1000.0 * period:.3g}; expected 100, because NGSIM uses milliseconds",
            period,
        )
