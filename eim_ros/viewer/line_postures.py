"""Postures of the planar robot on its line: what the experiment drew of the expert and of each mixture."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from eim_ros.errors import ConfigurationError, DataError
from eim_ros.experiments.line_reaching import EXPERIMENT, EXPERT, LineReachingConfig, line_reaching_arm
from eim_ros.experiments.table import ResultTable
from eim_ros.kinematics import Robot
from eim_ros.kinematics.planar import planar_urdf
from eim_ros.planar import Outcome, PlanarArm, PlanarSimulator, PlanarTask, folded
from eim_ros.planar.motions import reaching_motion
from eim_ros.viz.palette import method_label

__all__ = ["Executed", "LinePostures", "LineStudy"]

FloatArray = npt.NDArray[np.float64]

TABLE = "table.csv"  # in the folder of an experiment's results
RATE = 50  # [Hz] of the simulator


@dataclass(frozen=True, eq=False)
class LinePostures:
    """What was drawn of one mixture, or of the expert.

    Attributes
    ----------
    method : str
    q : (n, dof)
        [rad].
    heights : (n,)
        y of the point of the line that is nearest to each tip [m].
    distances : (n,)
        Of each tip to the line [m].
    histogram : (n_bins,)
        Shares of 10000 draws, by default, within .1 m of the line along it; sums to 1, or to 0 where none is.
    distance, near, coverage : float
        Of as many draws: mean distance [m], share within .1 m, overlap with the expert's histogram.
    """

    method: str
    q: FloatArray
    heights: FloatArray
    distances: FloatArray
    histogram: FloatArray
    distance: float
    near: float
    coverage: float

    def nearest(self, height: float) -> npt.NDArray[np.int64]:
        """All of them (n,), first those that reach the line nearest to a place of it [m]."""
        return np.argsort(np.abs(self.heights - height), kind="stable")


@dataclass(frozen=True, eq=False)
class Executed:
    """A posture that the simulator went to from the folded arm.

    Attributes
    ----------
    positions : (n_ticks, dof)
        [rad].
    duration : float
        [s].
    outcome : Outcome
        At the end.
    """

    positions: FloatArray
    duration: float
    outcome: Outcome

    def at(self, phase: float) -> FloatArray:
        """Configuration (dof,) at a share, from 0 to 1, of the time."""
        return np.asarray(self.positions[round(phase * (len(self.positions) - 1))])


class LineStudy:
    """Results of the experiment line-reaching, of the first seed of each mixture.

    Parameters
    ----------
    table : ResultTable

    Raises
    ------
    DataError
        If the table is of another experiment, or empty.
    """

    def __init__(self, table: ResultTable) -> None:
        if table.header.experiment != EXPERIMENT.name:
            raise DataError(
                f"the results are of the experiment {table.header.experiment}, not of {EXPERIMENT.name}",
                table.header.experiment,
            )
        self.arm: PlanarArm
        self.task: PlanarTask
        self.arm, self.task = line_reaching_arm(LineReachingConfig.from_mapping(table.settings))
        self.robot = Robot.from_urdf(planar_urdf(self.arm.n_links, self.arm.link_length))
        self._rows = {
            (method_label(row["method"], row["estimator"]), row["n_components"]): row for row in table.rows[::-1]
        }
        self.methods = tuple(dict.fromkeys(label for label, _ in reversed(self._rows)))
        if not self.methods:
            raise DataError("the table of results has no row: run eim experiment line-reaching to its end", 0)

    @classmethod
    def load(cls, path: str | Path) -> LineStudy:
        """Of a table, or of the folder that `eim experiment line-reaching` writes."""
        path = Path(path)
        inside = (path, path / TABLE, path / EXPERIMENT.name / TABLE)
        found = next((file for file in inside if file.is_file()), None)
        if found is None:
            raise ConfigurationError(
                f"there are no results of the experiment in {path}: eim experiment {EXPERIMENT.name} --output {path} "
                "makes them",
                str(path),
            )
        return cls(ResultTable.read(found))

    def counts(self, method: str) -> list[int]:
        """Numbers of components of which there is a mixture; 0 alone for the expert."""
        return sorted(count for label, count in self._rows if label == method)

    def postures(self, method: str, n_components: int) -> LinePostures:
        """Of a mixture."""
        row = self._rows[method, n_components]
        q = torch.tensor(row["samples"], dtype=torch.float64)
        tip = self.arm.tip(q)
        return LinePostures(
            row["method"],
            q.numpy(),
            self.task.nearest(tip)[:, 1].numpy(),
            self.task.distance(tip).numpy(),
            np.array(row["histogram"]),
            row["distance"],
            row["near"],
            row["coverage"],
        )

    @property
    def expert(self) -> LinePostures | None:
        """What the mixtures were learnt from."""
        label = method_label(EXPERT, "none")
        return self.postures(label, 0) if (label, 0) in self._rows else None

    def execute(self, q: FloatArray) -> Executed:
        """Let the simulator go to a posture (dof,), straight in the joints from the folded arm."""
        start = folded(self.arm)
        motion = reaching_motion(self.arm, torch.from_numpy(start), torch.from_numpy(q))
        simulator = PlanarSimulator(self.arm, self.task, rate=RATE)
        simulator.execute(self.arm.joint_names, motion.times.tolist(), motion.positions.tolist())
        positions = [simulator.q.copy()]
        while simulator.outcome.moving:
            simulator.step()
            positions.append(simulator.q.copy())
        return Executed(np.array(positions), (len(positions) - 1) / RATE, simulator.outcome)
