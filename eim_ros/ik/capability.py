"""Poses over a grid: cells of a box of positions, and at each the same orientations.

The tool's z axis points along approaches that are spread over the sphere by a Fibonacci spiral (Swinbank and Purser
2006), and about each it is turned by evenly spaced rolls.

What an arm can do where: for poses of a grid how many solutions and families, how long self-motions, how far from
singular (Zacharias et al. 2007, and beyond it the self-motions).

Computing a capability map: parts of the grid, each a file when it is done, so that a killed run goes on.

Parts are computed in this process on several threads, or by workers. Each pose has a random seed of its own, so the map
does not depend on who computes it, or in how many runs.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import io
import json
import math
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from eim_ros.core.checks import (
    LARGEST,
    as_number,
    checked_path,
    expect,
    expect_mapping,
    names_wrong_keywords,
    number_from_zero,
    numbers_of,
)
from eim_ros.core.errors import ConfigurationError, DataError, PoseError, RobotError
from eim_ros.core.files import ARCHIVE_ERRORS, locked, write_atomically
from eim_ros.core.parallel import ThisProcess, Workers, usable_cores
from eim_ros.kinematics import Robot
from eim_ros.kinematics.robot import MAX_ITERATIONS, RESTART_PATIENCE
from eim_ros.kinematics.tolerances import redundancy
from eim_ros.solver import ContinuationOptions, StepOptions, chart_poses

FloatArray = npt.NDArray[np.float64]

GOLDEN_ANGLE = math.pi * (3.0 - math.sqrt(5.0))
MOST_POSES = 10**9
N_EXTENT = 20000  # random configurations that tell how far the tip gets


@names_wrong_keywords
@dataclass(frozen=True)
class CapabilityGrid:
    """What a capability map is computed of.

    Attributes
    ----------
    lower, upper : tuple of three float
        Corners of the box, in the base frame [m].
    spacing : float
        Edge of a cell [m]; poses are at the centres of the cells.
    n_approaches : int
        Directions of the tool's z axis.
    n_rolls : int
        Turns about each.
    n_seeds : int
        Uniform seeds of a pose: more find more of its families.
    random_seed : int
        At least 0.

    Raises
    ------
    ConfigurationError
        If a value is malformed, or there are more than 1e9 poses.
    """

    lower: tuple[float, float, float]
    upper: tuple[float, float, float]
    spacing: float = 0.1
    n_approaches: int = 20
    n_rolls: int = 4
    n_seeds: int = 32
    random_seed: int = 0

    def __post_init__(self) -> None:
        for name in ("lower", "upper"):
            corner = numbers_of(getattr(self, name), (3,), f"the corner {name!r} of the grid")
            object.__setattr__(self, name, tuple(corner.tolist()))
        if not all(low < high for low, high in zip(self.lower, self.upper, strict=True)):
            raise ConfigurationError(f"the box is empty: from {self.lower} to {self.upper}", (self.lower, self.upper))
        object.__setattr__(self, "spacing", _checked_spacing(self.spacing))
        least = {"n_approaches": 1, "n_rolls": 1, "n_seeds": 1, "random_seed": 0}
        for name, lowest in least.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value < 2**32:
                raise ConfigurationError(f"{name} must be a whole number of at least {lowest}, got {value!r}", value)
        with np.errstate(over="ignore"):  # infinitely many are too many
            n_cells = float(np.ceil(np.subtract(self.upper, self.lower) / self.spacing).clip(min=1.0).prod())
        if not n_cells * self.n_approaches * self.n_rolls <= MOST_POSES:
            raise ConfigurationError("the grid has more than 1e9 poses: take a larger spacing", self.spacing)

    @classmethod
    def around(cls, robot: Robot, spacing: float = 0.1, **asked: Any) -> CapabilityGrid:
        """Around all places where random configurations take the tip of an arm; for keywords see the attributes."""
        expect(robot, Robot, "robot")
        spacing = _checked_spacing(spacing)
        tips = robot.fk(robot.random(N_EXTENT, np.random.default_rng(0)))[:, :3, 3]
        if not float(np.ptp(tips, axis=0).max()) / MOST_POSES <= spacing:
            raise ConfigurationError("the grid has more than 1e9 poses: take a larger spacing", spacing)
        lower, upper = np.floor(tips.min(axis=0) / spacing) * spacing, np.ceil(tips.max(axis=0) / spacing) * spacing
        upper = np.maximum(upper, lower + spacing)
        return cls(tuple(lower.tolist()), tuple(upper.tolist()), float(spacing), **asked)

    @functools.cached_property
    def axes(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Centres of the cells along x, y and z [m]."""
        x, y, z = (
            float(low) + self.spacing * (np.arange(max(1, round((high - low) / self.spacing))) + 0.5)
            for low, high in zip(self.lower, self.upper, strict=True)
        )
        return np.asarray(x), np.asarray(y), np.asarray(z)

    @functools.cached_property
    def approaches(self) -> FloatArray:
        """Directions (n_approaches, 3) of the tool's z axis in the base frame."""
        height = 1.0 - (2.0 * np.arange(self.n_approaches) + 1.0) / self.n_approaches
        turn, level = GOLDEN_ANGLE * np.arange(self.n_approaches), np.sqrt(1.0 - height**2)
        return np.stack([level * np.cos(turn), level * np.sin(turn), height], axis=1)

    @functools.cached_property
    def rotations(self) -> FloatArray:
        """Orientations (n_approaches * n_rolls, 3, 3): all rolls of the first approach, then those of the next."""
        z = np.repeat(self.approaches, self.n_rolls, axis=0)
        aside = np.where(np.abs(z[:, :1]) < 0.9, [[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]])
        x = aside - (aside * z).sum(axis=1, keepdims=True) * z
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        roll = np.tile(2.0 * np.pi * np.arange(self.n_rolls) / self.n_rolls, self.n_approaches)[:, None]
        x = np.cos(roll) * x + np.sin(roll) * np.cross(z, x)
        return np.stack([x, np.cross(z, x), z], axis=2)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Cells along x, y, z, and orientations."""
        x, y, z = (len(axis) for axis in self.axes)
        return x, y, z, self.n_approaches * self.n_rolls

    @property
    def n_poses(self) -> int:
        return math.prod(self.shape)

    def poses(self, first: int, last: int) -> FloatArray:
        """Transforms (last - first, 4, 4) of successive poses, in the order of the `shape`."""
        *cells, orientation = np.unravel_index(np.arange(first, last), self.shape)
        poses = np.zeros((last - first, 4, 4))
        poses[:, :3, :3] = self.rotations[orientation]
        poses[:, :3, 3] = np.stack([axis[cell] for axis, cell in zip(self.axes, cells, strict=True)], axis=1)
        poses[:, 3, 3] = 1.0
        return poses

    def to_mapping(self) -> dict[str, Any]:
        """JSON-compatible."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_mapping(cls, values: dict[str, Any]) -> CapabilityGrid:
        """What `to_mapping` gave."""
        known = {field.name for field in fields(cls)}
        if unknown := [name for name in expect_mapping(values, "a grid") if name not in known]:
            raise ConfigurationError(f"a grid has no {unknown[0]!r}; it has {', '.join(sorted(known))}", unknown)
        if missing := [name for name in ("lower", "upper") if name not in values]:
            raise ConfigurationError(f"a grid needs {missing[0]!r}", values)
        return cls(**values)


def _checked_spacing(spacing: float) -> float:
    if not 0.0 < as_number(spacing) <= LARGEST:
        raise ConfigurationError(f"the spacing must be positive, got {spacing}", spacing)
    return float(spacing)


FORMAT = "eim_ros capability map 1"
FIGURES = {"n_solutions": np.uint16, "n_families": np.uint16, "length": np.float32, "manipulability": np.float32}


@dataclass(frozen=True, eq=False)
class Capability:
    """What an arm can do at one cell, with some of the orientations.

    Attributes
    ----------
    position : (3,)
        Centre of the cell [m].
    reached : float
        Share of these orientations that have a solution.
    n_families : int
        Most families found of one orientation.
    length : float
        Longest self-motions found of one orientation, summed over its families [rad, m].
    manipulability : float
        Best found.
    rotation : (3, 3), optional
        Orientation of the best manipulability; None where nothing is reached.
    """

    position: FloatArray
    reached: float
    n_families: int
    length: float
    manipulability: float
    rotation: FloatArray | None


@dataclass(frozen=True, eq=False)
class CapabilityMap:
    """Figures of all poses of a grid, each of shape (n_x, n_y, n_z, n_orientations).

    Attributes
    ----------
    robot : str
    grid : CapabilityGrid
    n_solutions : uint16
        Verified configurations found, at least 0.27 rad from each other along self-motions; of an arm without
        redundancy, all different ones.
    n_families : uint16
        Pieces that they fall into within the limits, found from `n_seeds` uniform seeds: there may be more, small ones.
    length : float32
        Of the self-motions within the limits, summed over the families [rad, m]; 0 where solutions are points.
    manipulability : float32
        Largest of those found, Yoshikawa's measure; 0 without solutions.
    """

    robot: str
    grid: CapabilityGrid
    n_solutions: npt.NDArray[np.uint16]
    n_families: npt.NDArray[np.uint16]
    length: npt.NDArray[np.float32]
    manipulability: npt.NDArray[np.float32]

    @classmethod
    def of(cls, robot: str, grid: CapabilityGrid, figures: npt.NDArray[np.float32]) -> CapabilityMap:
        """Of figures (n_poses, 4), in the order of the attributes."""
        columns = zip(FIGURES.items(), figures.T, strict=True)
        return cls(robot, grid, **{name: column.astype(kind).reshape(grid.shape) for (name, kind), column in columns})

    @property
    def reachability(self) -> FloatArray:
        """Share of the orientations (n_x, n_y, n_z) that have a solution."""
        return np.asarray((self.n_families > 0).mean(axis=3))

    def at(self, position: npt.ArrayLike, approach: npt.ArrayLike | None = None, angle: float = 0.35) -> Capability:
        """The cell around a position, with all orientations or those near an approach.

        Parameters
        ----------
        position : (3,) array_like
            In the base frame [m].
        approach : (3,) array_like, optional
            Direction of the tool's z axis, of any length.
        angle : float
            How far the approach may be off [rad]; the nearest one of the grid counts in any case.

        Raises
        ------
        PoseError
            If the position is outside of the grid, or a vector is none.
        """
        grid = self.grid
        angle = number_from_zero(angle, "the angle")
        place = numbers_of(position, (3,), "a position", PoseError)
        indices = np.floor((place - grid.lower) / grid.spacing)
        if not ((indices >= 0.0) & (indices < grid.shape[:3])).all():
            raise PoseError(
                f"the position {place.tolist()} is outside of the grid, from {grid.lower} to {grid.upper}", position
            )
        cell = tuple(indices.astype(np.int64).tolist())
        chosen = np.ones(grid.shape[3], dtype=np.bool_)
        if approach is not None:
            direction = numbers_of(approach, (3,), "an approach", PoseError)
            if not (size := float(np.linalg.norm(direction))) > 0.0:
                raise PoseError("an approach needs a direction", approach)
            away = np.arccos(np.clip(grid.approaches @ direction / size, -1.0, 1.0))
            chosen = np.repeat(away <= max(angle, float(away.min())), grid.n_rolls)
        families, best = self.n_families[cell][chosen], self.manipulability[cell][chosen]
        reached = families > 0
        return Capability(
            np.array([axis[index] for axis, index in zip(grid.axes, cell, strict=True)]),
            float(reached.mean()),
            int(families.max()),
            float(self.length[cell][chosen].max()),
            float(best.max()),
            grid.rotations[chosen][int(best.argmax())] if reached.any() else None,
        )

    def save(self, path: str | Path) -> None:
        """Write an npz file, whole or not at all."""
        path = checked_path(path, DataError)
        buffer = io.BytesIO()
        header = json.dumps({"format": FORMAT, "robot": self.robot, "grid": self.grid.to_mapping()})
        arrays = {name: getattr(self, name) for name in FIGURES}
        np.savez_compressed(buffer, header=np.array(header), allow_pickle=False, **arrays)
        write_atomically(path, buffer.getvalue())

    @classmethod
    def load(cls, path: str | Path) -> CapabilityMap:
        """Read a file; `DataError` if it is damaged, or no capability map."""
        path = checked_path(path, DataError)
        wrong = f"{path} is no capability map, or damaged; make one with `eim map`"
        try:
            with path.open("rb") as content, np.load(content, allow_pickle=False) as file:
                header = json.loads(str(file["header"]))
                if header["format"] != FORMAT:
                    raise DataError(f"{path} has the format {header['format']!r}, expected {FORMAT!r}", str(path))
                grid = CapabilityGrid.from_mapping(header["grid"])
                arrays = {name: file[name] for name in FIGURES}
        except OSError as error:
            reason = error.strerror or "it is no npz file"
            raise DataError(f"cannot read the capability map {path}: {reason}", str(path)) from error
        except ARCHIVE_ERRORS as error:
            raise DataError(wrong, str(path)) from error
        for name, kind in FIGURES.items():
            if not isinstance(arrays[name], np.ndarray):  # a member of the archive that is no array
                raise DataError(wrong, str(path))
            if arrays[name].shape != grid.shape or arrays[name].dtype != kind:
                raise DataError(wrong, str(path))
        return cls(str(header["robot"]), grid, **arrays)


PART = 8192  # poses
STEP = 0.45  # [rad, m] of continuation
ISOLATED = 0.01  # [rad]: Euclidean distance of different solutions that are points
TOLERANCE = 1e-5  # [m], [rad]
HEADER = "survey.json"

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class PartWork:
    """What a worker does: charts the poses of one part."""

    robot: Robot
    grid: CapabilityGrid
    n_threads: int

    def __call__(self, part: int) -> tuple[int, npt.NDArray[np.float32]]:
        grid, robot = self.grid, self.robot
        first, last = part * PART, min((part + 1) * PART, grid.n_poses)
        free = redundancy(robot.bounds, False)
        effort = StepOptions(TOLERANCE, TOLERANCE, MAX_ITERATIONS, RESTART_PATIENCE)
        spread = ContinuationOptions(STEP, ISOLATED if free < 1 else -1.0, free, np.inf)
        task = robot.task(np.eye(4), position_tolerance=TOLERANCE, orientation_tolerance=TOLERANCE)
        seeds = np.array([grid.random_seed], dtype=np.uint64) * np.uint64(2**32) + np.arange(
            first, last, dtype=np.uint64
        )
        figures = chart_poses(
            robot.chain, task, effort, spread, grid.poses(first, last), seeds, grid.n_seeds, self.n_threads
        )
        return part, figures.astype(np.float32)


def survey(
    robot: Robot,
    grid: CapabilityGrid,
    output: str | Path,
    workers: Workers | None = None,
    progress: Progress | None = None,
) -> CapabilityMap:
    """Compute a capability map and write it.

    Parameters
    ----------
    robot : Robot
    grid : CapabilityGrid
    output : str or Path
        An npz file. Beside it, until the map is whole, is the folder OUTPUT.parts, from which a killed run goes on.
    workers : Workers, optional
        This process on all cores if missing; others are given one thread for each part.
    progress : callable, optional
        Called first, and after each part, with how many of how many poses are done.

    Raises
    ------
    ConfigurationError
        If the parts beside the output are of another robot or grid, another process is writing there, or the folder
        cannot be written.
    RobotError
        If the arm has more than one joint more than a pose takes.
    """
    expect(robot, Robot, "robot", RobotError)
    expect(grid, CapabilityGrid, "grid")
    path = checked_path(output, ConfigurationError)
    for name, given in {"workers": workers, "progress": progress}.items():
        if given is not None and not callable(given):
            raise ConfigurationError(f"{name} must be callable, got {given!r}", given)
    if redundancy(robot.bounds, False) > 1:
        raise RobotError(
            f"robot {robot.name!r} has {robot.dof} joints: a capability map is of an arm with at most one more than a "
            "pose takes, 7",
            robot.dof,
        )
    n_parts = -(-grid.n_poses // PART)
    if not path.name:
        raise ConfigurationError(f"the output {str(path)!r} is no name of a file", str(path))
    folder = path.with_name(path.name + ".parts")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"cannot create the folder {folder}: {error.strerror}", str(folder)) from error
    work = PartWork(copy.copy(robot), grid, usable_cores() if workers is None else 1)
    with locked(folder):
        _check_header(folder / HEADER, robot, grid)
        missing = [part for part in range(n_parts) if _read(folder, part, grid) is None]
        n_done = grid.n_poses - sum(_size(part, grid) for part in missing)
        if progress is not None:
            progress(n_done, grid.n_poses)
        for part, figures in (workers or ThisProcess())(work, missing):
            buffer = io.BytesIO()
            np.save(buffer, figures, allow_pickle=False)
            write_atomically(_file(folder, part), buffer.getvalue())
            n_done += len(figures)
            if progress is not None:
                progress(n_done, grid.n_poses)
        parts = [_read(folder, part, grid) for part in range(n_parts)]
        found = CapabilityMap.of(robot.name, grid, np.concatenate([part for part in parts if part is not None]))
        found.save(path)
        shutil.rmtree(folder)
    return found


def _check_header(path: Path, robot: Robot, grid: CapabilityGrid) -> None:
    """Write what the parts are of, or refuse to mix them with those of something else."""
    kinematics = hashlib.blake2b(robot.links.tobytes() + robot.bounds.tobytes(), digest_size=16).hexdigest()
    header = {"robot": robot.name, "kinematics": kinematics, "part": PART, "grid": grid.to_mapping()}
    if not path.exists():
        write_atomically(path, json.dumps(header, indent=1).encode())
        return
    try:
        found = json.loads(path.read_text())
    except ValueError:
        found = None
    if found != header:
        raise ConfigurationError(
            f"{path.parent} has parts of another robot or grid: delete the folder, or give another --output",
            str(path.parent),
        )


def _file(folder: Path, part: int) -> Path:
    return folder / f"part_{part:06d}.npy"


def _size(part: int, grid: CapabilityGrid) -> int:
    return min((part + 1) * PART, grid.n_poses) - part * PART


def _read(folder: Path, part: int, grid: CapabilityGrid) -> npt.NDArray[np.float32] | None:
    """The figures of a part, None if it is not there or not whole."""
    try:
        figures = np.load(_file(folder, part), allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return figures if figures.shape == (_size(part, grid), 4) and figures.dtype == np.float32 else None
