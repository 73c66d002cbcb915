"""Computing a capability map: parts of the grid, each a file when it is done, so that a killed run goes on.

Parts are computed in this process on several threads, or by workers. Each pose has a random seed of its own, so the map
does not depend on who computes it, or in how many runs.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from eim_ros.errors import ConfigurationError, RobotError
from eim_ros.ik.capability_grid import CapabilityGrid
from eim_ros.ik.capability_map import CapabilityMap
from eim_ros.kinematics import Robot
from eim_ros.kinematics.robot import MAX_ITERATIONS, RESTART_PATIENCE
from eim_ros.kinematics.task import redundancy
from eim_ros.numerics.arguments import checked_path, expect
from eim_ros.numerics.atomic_file import write_atomically
from eim_ros.numerics.cores import usable_cores
from eim_ros.numerics.locked_folder import locked
from eim_ros.numerics.workers import ThisProcess, Workers
from eim_ros.solver import Effort, Spread, chart_poses

__all__ = ["survey"]

FloatArray = npt.NDArray[np.float64]

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
        effort = Effort(TOLERANCE, TOLERANCE, MAX_ITERATIONS, RESTART_PATIENCE)
        spread = Spread(STEP, ISOLATED if free < 1 else -1.0, free, np.inf)
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
    work = PartWork(replace(robot), grid, usable_cores() if workers is None else 1)
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
