"""Task of a planar arm: bring the tip to a line or a point without touching disc obstacles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from eim_ros.core.checks import with_hints
from eim_ros.core.errors import ConfigurationError


@with_hints
@dataclass(frozen=True, eq=False)
class PlanarTask:
    """Goal and obstacles in the plane of the arm.

    `line_task` and `point_task` create a task from plain numbers.

    Attributes
    ----------
    start, end : Tensor (2,)
        Ends of the goal line [m]; equal if the goal is a point.
    obstacles : Tensor (n_obstacles, 3)
        Discs: x, y, radius [m].
    tolerance : float
        Distance within which the goal counts as reached [m].

    Examples
    --------
    >>> import torch
    >>> from eim_ros.planar import line_task
    >>> task = line_task((2.0, -1.0), (2.0, 1.0), obstacles=(1.0, 0.0, 0.2))
    >>> task.distance(torch.tensor([[1.5, 0.0], [2.0, 2.0]], dtype=torch.float64)).tolist()
    [0.5, 1.0]
    """

    start: Tensor
    end: Tensor
    obstacles: Tensor
    tolerance: float = 0.1

    def __post_init__(self) -> None:
        shapes = (tuple(self.start.shape), tuple(self.end.shape), tuple(self.obstacles.shape[1:]))
        if shapes != ((2,), (2,), (3,)):
            raise ConfigurationError(
                f"a task needs points of x, y and discs of x, y, radius, got shapes {shapes}", shapes
            )
        values = torch.cat([self.start, self.end, self.obstacles.flatten()])
        if not bool(torch.isfinite(values).all()):
            raise ConfigurationError(
                f"the goal and the obstacles of a task must be finite, got {values.tolist()}", values.tolist()
            )
        if bool((self.obstacles[:, 2] <= 0.0).any()):
            raise ConfigurationError(
                f"the radius of each obstacle must be positive, got {self.obstacles[:, 2].tolist()}",
                self.obstacles[:, 2].tolist(),
            )
        if not 0.0 < self.tolerance < float("inf"):
            raise ConfigurationError(f"the tolerance must be positive and finite, got {self.tolerance}", self.tolerance)

    @property
    def is_line(self) -> bool:
        """Whether the goal is a line."""
        return self.length > 0.0

    @cached_property
    def length(self) -> float:
        """Length of the goal line [m]; 0 for a point."""
        return float((self.end - self.start).norm())

    @cached_property
    def direction(self) -> Tensor:
        """Unit vector (2,) from start to end of the goal line; zero for a point."""
        direction: Tensor = (self.end - self.start) / (self.length or 1.0)
        return direction

    def along(self, tip: Tensor) -> Tensor:
        """Project tips (..., 2) onto the goal line, and return the distances from its start, (...) [m]."""
        coordinate: Tensor = (tip - self.start) @ self.direction
        return coordinate.clamp(0.0, self.length)

    def nearest(self, tip: Tensor) -> Tensor:
        """Return the point of the goal that is nearest to each tip, (..., 2) [m]."""
        return self.start + self.along(tip).unsqueeze(-1) * self.direction

    def distance(self, tip: Tensor) -> Tensor:
        """Return the distance of tips (..., 2) to the goal, (...) [m]."""
        away = tip - self.nearest(tip)
        return away.square().sum(-1).sqrt()

    def normal_coordinate(self, tip: Tensor) -> Tensor:
        """Return the signed distance of tips (..., 2) to the infinite line through the goal's ends, (...) [m].

        For a vertical line, this is the x coordinate of the tip up to a shift, which is the feature of thesis 6.3.
        """
        if not self.is_line:
            raise ConfigurationError("a point has no normal coordinate: give a line", self.start.tolist())
        away, direction = tip - self.start, self.direction
        return away[..., 0] * direction[1] - away[..., 1] * direction[0]

    def clearance(self, points: Tensor) -> Tensor:
        """Return the smallest distance between the links and the obstacles, (...) [m].

        The distance is negative inside an obstacle, and infinite without obstacles. The points (..., n_links + 1, 2)
        are the base, the joints and the tip [m].
        """
        if len(self.obstacles) == 0:
            return torch.full_like(points[..., 0, 0], torch.inf)
        begin, link = points[..., :-1, None, :], (points[..., 1:, :] - points[..., :-1, :]).unsqueeze(-2)
        away = self.obstacles[:, :2] - begin  # (..., n_links, n_obstacles, 2)
        share = ((away * link).sum(-1) / link.square().sum(-1)).clamp(0.0, 1.0)
        gap = (away - share.unsqueeze(-1) * link).square().sum(-1).sqrt() - self.obstacles[:, 2]
        return gap.flatten(-2).amin(-1)

    def to_mapping(self) -> dict[str, object]:
        """Return goal, obstacles and tolerance as a JSON-compatible mapping."""
        return {
            "goal": [self.start.tolist(), self.end.tolist()],
            "obstacles": self.obstacles.tolist(),
            "tolerance": self.tolerance,
        }


@with_hints
def line_task(
    start: Sequence[float], end: Sequence[float], obstacles: Sequence[float] = (), tolerance: float = 0.1
) -> PlanarTask:
    """Create the task of reaching any point of a line between two points x, y [m].

    The obstacles are discs, given as one flat sequence with x, y and radius [m] of each. The goal counts as reached
    within the tolerance [m].

    Examples
    --------
    Create a vertical line with a disc of radius 0.2 m in front of it:

    >>> from eim_ros.planar import line_task
    >>> line_task((2.0, -1.0), (2.0, 1.0), obstacles=(1.0, 0.0, 0.2)).length
    2.0
    """
    task = PlanarTask(_numbers(start), _numbers(end), _discs(obstacles), float(tolerance))
    if not task.is_line:
        raise ConfigurationError(f"the ends of a line must differ, but both are {list(start)}", list(start))
    return task


@with_hints
def point_task(goal: Sequence[float], obstacles: Sequence[float] = (), tolerance: float = 0.1) -> PlanarTask:
    """Create the task of reaching a point; see `line_task` for the arguments.

    Examples
    --------
    >>> from eim_ros.planar import point_task
    >>> point_task((2.0, 0.0)).is_line
    False
    """
    return PlanarTask(_numbers(goal), _numbers(goal), _discs(obstacles), float(tolerance))


def _discs(numbers: Sequence[float]) -> Tensor:
    if len(numbers) % 3:
        raise ConfigurationError(f"each obstacle needs x, y and radius, got {len(numbers)} numbers", list(numbers))
    return _numbers(numbers).reshape(-1, 3)


def _numbers(values: Sequence[float]) -> Tensor:
    return torch.from_numpy(np.array(values, dtype=np.float64))
