"""Capability maps: what an arm can reach on a grid of poses, and how well.

A grid combines the centres of cubic cells with a set of orientations. The z axis of the tool points along approach
directions from a Fibonacci spiral on the sphere (Swinbank and Purser 2006). For each approach direction, the tool is
rolled about its z axis in equal steps. For each pose, the map contains the number of solutions, the number and length
of self-motion components, and the largest manipulability. The capability map of Zacharias et al. (2007) has no
self-motions.

`survey` computes a map in parts and writes each finished part to a file, so that an interrupted run can be resumed.
Parts are computed by threads of this process or by workers. Every pose has its own seed, so the map does not depend on
the number of workers or runs.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import io
import json
import math
import shutil
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from eim_ros.core.arrays import FloatArray
from eim_ros.core.checks import (
    LARGEST,
    as_number,
    checked_path,
    expect,
    expect_mapping,
    number_from_zero,
    numbers_of,
    with_hints,
)
from eim_ros.core.errors import ConfigurationError, DataError, PoseError, RobotError
from eim_ros.core.files import ARCHIVE_ERRORS, locked, write_atomically
from eim_ros.core.parallel import ThisProcess, Workers, usable_cores
from eim_ros.ik.constraints import Constraints
from eim_ros.ik.rating import AT_ONCE_ON_DEVICE, rate_on
from eim_ros.ik.request import Progress, checked_progress
from eim_ros.ik.sampler import Sampler
from eim_ros.ik.setup import PATIENCE
from eim_ros.kinematics import Robot
from eim_ros.kinematics.refinement import MAX_ITERATIONS
from eim_ros.kinematics.tolerances import redundancy
from eim_ros.solver import ContinuationOptions, StepOptions, chart_poses

GOLDEN_ANGLE = math.pi * (3.0 - math.sqrt(5.0))
MOST_POSES = 10**9
N_EXTENT = 20000  # number of random configurations for an estimate of the workspace
FORMAT = "eim_ros capability map 2"
FIGURES = {"n_solutions": np.uint16, "n_components": np.uint16, "length": np.float32, "manipulability": np.float32}
PART = 8192  # number of poses in a part
STEP = 0.45  # step length of continuation [rad, m]
ISOLATED = 0.01  # smallest Euclidean distance between distinct isolated solutions [rad]
TOLERANCE = 1e-5  # largest position error [m] and orientation error [rad]
HEADER = "survey.json"


@with_hints
@dataclass(frozen=True)
class CapabilityGrid:
    """Poses of a capability map, and the number of random seeds for each pose.

    Attributes
    ----------
    lower, upper : tuple of three float
        Opposite corners of the box in the base frame [m].
    spacing : float
        Edge length of a cell [m]. Positions are the centres of the cells.
    n_approaches : int
        Number of directions of the tool's z axis.
    n_rolls : int
        Number of rotations about each direction.
    n_seeds : int
        Number of random seeds for each pose. More seeds find more self-motion components.
    seed : int
        Seed of all randomness, at least 0.

    Raises
    ------
    ConfigurationError
        If a value is malformed, or if there are more than 1e9 poses.

    Examples
    --------
    >>> from eim_ros import Robot
    >>> from eim_ros.ik import CapabilityGrid
    >>> grid = CapabilityGrid.around(Robot("panda"), spacing=0.2, n_approaches=10, n_rolls=2)
    >>> grid.shape[3], grid.poses(0, 5).shape
    (20, (5, 4, 4))
    """

    lower: tuple[float, float, float]
    upper: tuple[float, float, float]
    spacing: float = 0.1
    n_approaches: int = 20
    n_rolls: int = 4
    n_seeds: int = 32
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("lower", "upper"):
            corner = numbers_of(getattr(self, name), (3,), f"the corner {name!r} of the grid")
            object.__setattr__(self, name, tuple(corner.tolist()))
        if not all(low < high for low, high in zip(self.lower, self.upper, strict=True)):
            raise ConfigurationError(
                f"the lower corner of the box must be below its upper corner, got {self.lower} and {self.upper}",
                (self.lower, self.upper),
            )
        object.__setattr__(self, "spacing", _checked_spacing(self.spacing))
        least = {"n_approaches": 1, "n_rolls": 1, "n_seeds": 1, "seed": 0}
        for name, lowest in least.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value < 2**32:
                raise ConfigurationError(f"{name} must be a whole number of at least {lowest}, got {value!r}", value)
        with np.errstate(over="ignore"):  # an infinite number of cells is rejected below
            n_cells = float(np.ceil(np.subtract(self.upper, self.lower) / self.spacing).clip(min=1.0).prod())
        if not n_cells * self.n_approaches * self.n_rolls <= MOST_POSES:
            raise ConfigurationError("the grid has more than 1e9 poses: choose a larger spacing", self.spacing)

    @classmethod
    def around(cls, robot: Robot, spacing: float = 0.1, **asked: Any) -> CapabilityGrid:
        """Return a grid around the positions that random configurations reach; `asked` contains other attributes."""
        expect(robot, Robot, "robot")
        spacing = _checked_spacing(spacing)
        tips = robot.fk(robot.random(N_EXTENT, np.random.default_rng(0)))[:, :3, 3]
        if not float(np.ptp(tips, axis=0).max()) / MOST_POSES <= spacing:
            raise ConfigurationError("the grid has more than 1e9 poses: choose a larger spacing", spacing)
        lower, upper = np.floor(tips.min(axis=0) / spacing) * spacing, np.ceil(tips.max(axis=0) / spacing) * spacing
        upper = np.maximum(upper, lower + spacing)
        return cls(tuple(lower.tolist()), tuple(upper.tolist()), float(spacing), **asked)

    @functools.cached_property
    def axes(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Centres of the cells along x, y and z [m]."""
        x, y, z = (
            low + self.spacing * (np.arange(max(1, round((high - low) / self.spacing)), dtype=np.float64) + 0.5)
            for low, high in zip(self.lower, self.upper, strict=True)
        )
        return x, y, z

    @functools.cached_property
    def approaches(self) -> FloatArray:
        """Directions (n_approaches, 3) of the tool's z axis in the base frame."""
        height = 1.0 - (2.0 * np.arange(self.n_approaches) + 1.0) / self.n_approaches
        turn, level = GOLDEN_ANGLE * np.arange(self.n_approaches), np.sqrt(1.0 - height**2)
        return np.stack([level * np.cos(turn), level * np.sin(turn), height], axis=1)

    @functools.cached_property
    def rotations(self) -> FloatArray:
        """Orientations (n_approaches * n_rolls, 3, 3). The rolls of one approach are consecutive."""
        z = np.repeat(self.approaches, self.n_rolls, axis=0)
        aside = np.where(np.abs(z[:, :1]) < 0.9, [[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]])
        x = aside - (aside * z).sum(axis=1, keepdims=True) * z
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        roll = np.tile(2.0 * np.pi * np.arange(self.n_rolls) / self.n_rolls, self.n_approaches)[:, None]
        x = np.cos(roll) * x + np.sin(roll) * np.cross(z, x)
        return np.stack([x, np.cross(z, x), z], axis=2)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Numbers of cells along x, y and z, and number of orientations."""
        x, y, z = (len(axis) for axis in self.axes)
        return x, y, z, self.n_approaches * self.n_rolls

    @property
    def n_poses(self) -> int:
        """Number of poses."""
        return math.prod(self.shape)

    def poses(self, first: int, last: int) -> FloatArray:
        """Return the poses (last - first, 4, 4) with indices from `first` to `last - 1`, in the order of `shape`."""
        *cells, orientation = np.unravel_index(np.arange(first, last), self.shape)
        poses = np.zeros((last - first, 4, 4))
        poses[:, :3, :3] = self.rotations[orientation]
        poses[:, :3, 3] = np.stack([axis[cell] for axis, cell in zip(self.axes, cells, strict=True)], axis=1)
        poses[:, 3, 3] = 1.0
        return poses

    def to_mapping(self) -> dict[str, Any]:
        """Return the attributes as a mapping that can be written as JSON."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_mapping(cls, values: dict[str, Any]) -> CapabilityGrid:
        """Return the grid of a mapping from `to_mapping`; raise `ConfigurationError` if the mapping is malformed."""
        known = {field.name for field in fields(cls)}
        if unknown := [name for name in expect_mapping(values, "a grid") if name not in known]:
            raise ConfigurationError(
                f"a grid has no field {unknown[0]!r}; its fields are {', '.join(sorted(known))}", unknown
            )
        if missing := [name for name in ("lower", "upper") if name not in values]:
            raise ConfigurationError(f"a grid needs the fields lower and upper, but {missing[0]!r} is missing", values)
        return cls(**values)


def _checked_spacing(spacing: float) -> float:
    """Return a positive spacing [m], or raise `ConfigurationError`."""
    if not 0.0 < as_number(spacing) <= LARGEST:
        raise ConfigurationError(f"the spacing must be positive, got {spacing}", spacing)
    return float(spacing)


@dataclass(frozen=True, eq=False)
class Capability:
    """Capability of an arm at one cell of a map, for some of the orientations.

    Attributes
    ----------
    position : (3,)
        Centre of the cell [m].
    reached : float
        Share of the orientations that have a solution.
    n_components : int
        Largest number of self-motion components found for one orientation.
    length : float
        Largest total length of the self-motions found for one orientation [rad, m].
    manipulability : float
        Largest manipulability found.
    rotation : (3, 3), optional
        Orientation with the largest manipulability; None if no orientation is reached.
    """

    position: FloatArray
    reached: float
    n_components: int
    length: float
    manipulability: float
    rotation: FloatArray | None


@with_hints
@dataclass(frozen=True, eq=False)
class CapabilityMap:
    """Results for all poses of a grid. Each array has the shape (n_x, n_y, n_z, n_orientations).

    Attributes
    ----------
    robot : str
        Name of the robot.
    grid : CapabilityGrid
    n_solutions : uint16
        Number of verified configurations found. Configurations on a self-motion are at least 0.27 rad apart. For an arm
        without redundancy, all distinct solutions are counted.
    n_components : uint16
        Number of connected components of the solutions within the limits. The search starts from `n_seeds` random
        seeds, so it may miss small components.
    length : float32
        Total length of the self-motions within the limits [rad, m]; 0 if the solutions are isolated points.
    manipulability : float32
        Largest manipulability of the solutions found, by Yoshikawa's measure; 0 without solutions.

    Examples
    --------
    >>> from eim_ros import Robot
    >>> from eim_ros.ik.capability import CapabilityGrid, survey
    >>> grid = CapabilityGrid((0.2, -0.2, 0.3), (0.6, 0.2, 0.7), spacing=0.2, n_approaches=4, n_rolls=1, n_seeds=8)
    >>> chart = survey(Robot("panda"), grid, "panda.npz")
    >>> chart.reachability.shape
    (2, 2, 2)
    >>> from_above = chart.at([0.5, 0.1, 0.4], approach=[0.0, 0.0, -1.0])
    >>> from_above.reached, from_above.n_components > 0
    (1.0, True)
    """

    robot: str
    grid: CapabilityGrid
    n_solutions: npt.NDArray[np.uint16]
    n_components: npt.NDArray[np.uint16]
    length: npt.NDArray[np.float32]
    manipulability: npt.NDArray[np.float32]

    @classmethod
    def of(cls, robot: str, grid: CapabilityGrid, figures: npt.NDArray[np.float32]) -> CapabilityMap:
        """Return the map with these results (n_poses, 4). The columns are in the order of the attributes."""
        columns = zip(FIGURES.items(), figures.T, strict=True)
        return cls(robot, grid, **{name: column.astype(kind).reshape(grid.shape) for (name, kind), column in columns})

    @property
    def reachability(self) -> FloatArray:
        """Share of the orientations (n_x, n_y, n_z) that have a solution."""
        return np.asarray((self.n_components > 0).mean(axis=3))

    def at(self, position: npt.ArrayLike, approach: npt.ArrayLike | None = None, angle: float = 0.35) -> Capability:
        """Return the capability at a position, for all orientations or for orientations near an approach direction.

        Parameters
        ----------
        position : (3,) array_like
            Position in the base frame [m].
        approach : (3,) array_like, optional
            Direction of the tool's z axis in the base frame, of any length. Default: all orientations.
        angle : float
            Approach directions of the grid count if their angle to `approach` is at most this value [rad]. The nearest
            direction always counts.

        Raises
        ------
        PoseError
            If the position is outside the grid, or if an argument is not a vector.
        """
        grid = self.grid
        angle = number_from_zero(angle, "the angle")
        place = numbers_of(position, (3,), "a position", PoseError)
        indices = np.floor((place - grid.lower) / grid.spacing)
        if not ((indices >= 0.0) & (indices < grid.shape[:3])).all():
            raise PoseError(
                f"the position {place.tolist()} is outside the grid, which extends from {grid.lower} to {grid.upper}",
                position,
            )
        cell = tuple(indices.astype(np.int64).tolist())
        chosen = np.ones(grid.shape[3], dtype=np.bool_)
        if approach is not None:
            direction = numbers_of(approach, (3,), "an approach", PoseError)
            if not (size := float(np.linalg.norm(direction))) > 0.0:
                raise PoseError("an approach must be a vector other than 0", approach)
            away = np.arccos(np.clip(grid.approaches @ direction / size, -1.0, 1.0))
            chosen = np.repeat(away <= max(angle, float(away.min())), grid.n_rolls)
        components, best = self.n_components[cell][chosen], self.manipulability[cell][chosen]
        reached = components > 0
        return Capability(
            np.array([axis[index] for axis, index in zip(grid.axes, cell, strict=True)]),
            float(reached.mean()),
            int(components.max()),
            float(self.length[cell][chosen].max()),
            float(best.max()),
            grid.rotations[chosen][int(best.argmax())] if reached.any() else None,
        )

    def save(self, path: str | Path) -> None:
        """Write an npz file. If writing is interrupted, no partial file remains."""
        path = checked_path(path, DataError)
        buffer = io.BytesIO()
        header = json.dumps({"format": FORMAT, "robot": self.robot, "grid": self.grid.to_mapping()})
        arrays = {name: getattr(self, name) for name in FIGURES}
        np.savez_compressed(buffer, header=np.array(header), allow_pickle=False, **arrays)
        write_atomically(path, buffer.getvalue())

    @classmethod
    def load(cls, path: str | Path) -> CapabilityMap:
        """Read a file; raise `DataError` if it is damaged or is not a capability map."""
        path = checked_path(path, DataError)
        wrong = f"{path} is damaged or not a capability map; create one with `eim map`"
        try:
            with path.open("rb") as content, np.load(content, allow_pickle=False) as file:
                header = json.loads(str(file["header"]))
                if header["format"] != FORMAT:
                    raise DataError(f"{path} has the format {header['format']!r}, expected {FORMAT!r}", str(path))
                grid = CapabilityGrid.from_mapping(header["grid"])
                arrays = {name: file[name] for name in FIGURES}
        except OSError as error:
            reason = error.strerror or "it is not an .npz archive"
            raise DataError(f"cannot read the capability map {path}: {reason}", str(path)) from error
        except ARCHIVE_ERRORS as error:
            raise DataError(wrong, str(path)) from error
        for name, kind in FIGURES.items():
            array = arrays[name]  # NumPy returns bytes for an entry that is not an npy file
            if not isinstance(array, np.ndarray) or array.shape != grid.shape or array.dtype != kind:
                raise DataError(wrong, str(path))
        return cls(str(header["robot"]), grid, **arrays)


@dataclass(frozen=True)
class PartWork:
    """Task of a worker: return the number of a part of the grid together with the results (n, 4) of its poses."""

    robot: Robot
    grid: CapabilityGrid
    n_threads: int
    device: str | None = None

    @property
    def size(self) -> int:
        """Number of poses in each part except the last."""
        return PART if self.device is None else AT_ONCE_ON_DEVICE

    def n_poses(self, part: int) -> int:
        """Return the number of poses of a part."""
        return min(self.size, self.grid.n_poses - part * self.size)

    def __call__(self, part: int) -> tuple[int, npt.NDArray[np.float32]]:
        grid, robot = self.grid, self.robot
        first = part * self.size
        last = first + self.n_poses(part)
        if self.device is not None:
            sampler, seed = map_sampler(robot), grid.seed * 2**32 + first
            ratings = rate_on(sampler.on(self.device), sampler, grid.poses(first, last), seed)
            return part, np.stack(ratings[:4], axis=1).astype(np.float32)
        free = redundancy(robot.bounds, False)
        effort = StepOptions(TOLERANCE, TOLERANCE, MAX_ITERATIONS, PATIENCE)
        spread = ContinuationOptions(STEP, ISOLATED if free < 1 else -1.0, free, np.inf)
        task = robot.task(np.eye(4), position_tolerance=TOLERANCE, orientation_tolerance=TOLERANCE)
        seeds = np.array([grid.seed], dtype=np.uint64) * np.uint64(2**32) + np.arange(first, last, dtype=np.uint64)
        poses = grid.poses(first, last)
        figures = chart_poses(robot.chain, task, effort, spread, poses, seeds, grid.n_seeds, self.n_threads)
        return part, figures.astype(np.float32)


def map_sampler(robot: Robot) -> Sampler:
    """Return a sampler with the tolerances that capability maps use."""
    return Sampler(robot, constraints=Constraints(position_tolerance=TOLERANCE, orientation_tolerance=TOLERANCE))


def survey(
    robot: Robot,
    grid: CapabilityGrid,
    output: str | Path,
    workers: Workers | None = None,
    progress: Progress | None = None,
    device: str | None = None,
) -> CapabilityMap:
    """Compute a capability map and write it to an npz file.

    Finished parts are kept in the folder OUTPUT.parts until the map is complete, so that an interrupted run can be
    resumed.

    Parameters
    ----------
    robot : Robot
    grid : CapabilityGrid
    output : str or Path
    workers : Workers, optional
        Workers that compute the parts, with one thread for each part. Default: this process with all cores.
    progress : callable, optional
        Function that is called with the numbers of finished poses and of all poses, at the start and after each part.
    device : str, optional
        Device that solves the poses, "cuda" or "cpu", see `Sampler.on`. For arms with a closed form of six joints, a
        device proves the numbers of solutions and does not use `n_seeds`. For other arms, a device rates up to 16
        solutions per pose. Devices do not trace self-motions, so a redundant arm gets 1 component and the length NaN.

    Raises
    ------
    ConfigurationError
        If OUTPUT.parts contains parts of another robot, grid or device, if another process is writing there, if the
        folder cannot be written, or if the device is missing.
    RobotError
        If the arm has at least two joints more than a pose needs.

    Examples
    --------
    >>> from eim_ros import Robot
    >>> from eim_ros.ik import CapabilityGrid
    >>> from eim_ros.ik.capability import survey
    >>> grid = CapabilityGrid((0.2, -0.2, 0.3), (0.6, 0.2, 0.7), spacing=0.4, n_approaches=4, n_rolls=1, n_seeds=8)
    >>> chart = survey(Robot("panda"), grid, "survey.npz", progress=lambda done, total: print(done, "of", total))
    0 of 4
    4 of 4
    """
    expect(robot, Robot, "robot", RobotError)
    expect(grid, CapabilityGrid, "grid")
    path = checked_path(output, ConfigurationError)
    if workers is not None and not callable(workers):
        raise ConfigurationError(f"workers must be callable, got {workers!r}", workers)
    report = checked_progress(progress)
    if redundancy(robot.bounds, False) > 1:
        raise RobotError(
            f"robot {robot.name!r} has {robot.dof} joints, but a capability map supports at most 7, one more than a "
            "pose needs",
            robot.dof,
        )
    work = PartWork(copy.copy(robot), grid, usable_cores() if workers is None else 1, device)
    if device is not None:
        map_sampler(robot).on(device)  # raises an error if the device cannot be used
    n_parts = -(-grid.n_poses // work.size)
    if not path.name:
        raise ConfigurationError(f"the output {str(path)!r} has no file name: give the path of a file", str(path))
    folder = path.with_name(path.name + ".parts")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"cannot create the folder {folder}: {error.strerror}", str(folder)) from error
    with locked(folder):
        _check_header(folder / HEADER, work)
        missing = [part for part in range(n_parts) if _read(folder, part, work) is None]
        n_done = grid.n_poses - sum(work.n_poses(part) for part in missing)
        report(n_done, grid.n_poses)
        for part, figures in (workers or ThisProcess())(work, missing):
            buffer = io.BytesIO()
            np.save(buffer, figures, allow_pickle=False)
            write_atomically(_file(folder, part), buffer.getvalue())
            n_done += len(figures)
            report(n_done, grid.n_poses)
        parts = [_read(folder, part, work) for part in range(n_parts)]
        found = CapabilityMap.of(robot.name, grid, np.concatenate([part for part in parts if part is not None]))
        found.save(path)
        shutil.rmtree(folder)
    return found


def _check_header(path: Path, work: PartWork) -> None:
    """Write a description of the parts, or raise `ConfigurationError` if the folder contains parts of another map."""
    robot = work.robot
    kinematics = hashlib.blake2b(robot.links.tobytes() + robot.bounds.tobytes(), digest_size=16).hexdigest()
    header = {"robot": robot.name, "kinematics": kinematics, "part": work.size, "grid": work.grid.to_mapping()}
    if work.device is not None:
        header["device"] = True  # not its name, because devices give the same numbers up to rounding
    if not path.exists():
        write_atomically(path, json.dumps(header, indent=1).encode())
        return
    try:
        found = json.loads(path.read_text())
    except ValueError:
        found = None
    if found != header:
        raise ConfigurationError(
            f"{path.parent} has parts of another robot, grid or device: delete the folder, or give another --output",
            str(path.parent),
        )


def _file(folder: Path, part: int) -> Path:
    return folder / f"part_{part:06d}.npy"


def _read(folder: Path, part: int, work: PartWork) -> npt.NDArray[np.float32] | None:
    """Return the results of a part; None if the file is missing or incomplete."""
    try:
        figures = np.load(_file(folder, part), allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return figures if figures.shape == (work.n_poses(part), 4) and figures.dtype == np.float32 else None
