"""What an arm can do where: for poses of a grid how many solutions and families, how long self-motions, how far from
singular (Zacharias et al. 2007, and beyond it the self-motions).
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from eim_ros.errors import DataError, PoseError
from eim_ros.ik.capability_grid import CapabilityGrid
from eim_ros.kinematics.arguments import number_from_zero
from eim_ros.numerics.arguments import checked_path, numbers_of
from eim_ros.numerics.atomic_file import write_atomically
from eim_ros.numerics.file_format import ARCHIVE_ERRORS

__all__ = ["Capability", "CapabilityMap"]

FloatArray = npt.NDArray[np.float64]
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
