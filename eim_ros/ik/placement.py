"""Base placement: where the base of an arm must stand so that poses in the world can be reached.

Each candidate base is rated by the solution sets of all poses, see `Sampler.solve_all`. The numbers of solutions are
therefore proven for an arm with closed forms. For other arms, the sets are traced from random restarts. A compass
search (Kolda, Lewis and Torczon 2003) then refines the best candidates. This method needs no gradient. Reachability has
no useful gradient, because it is a step function of the base. Vahrenkamp, Asfour and Dillmann (2013) invert a
capability map instead, but the cells of the map limit the accuracy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from eim_ros.core.arrays import FloatArray, IntArray
from eim_ros.core.checks import checked_whole, expect, numbers_of, with_hints
from eim_ros.core.errors import ConfigurationError
from eim_ros.ik.rating import AT_ONCE, AT_ONCE_ON_DEVICE, n_free, rate, rate_on
from eim_ros.ik.request import Progress, checked_progress
from eim_ros.ik.sampler import Sampler
from eim_ros.kinematics import Obstacle, Sphere
from eim_ros.kinematics.obstacles import checked_obstacles
from eim_ros.kinematics.poses import check_poses

if TYPE_CHECKING:
    from eim_ros.ik.device import DeviceSampler

Criterion = Literal["manipulability", "components", "length"]

MOST_BASES = 10**6
N_HALVINGS, MOST_ROUNDS = 5, 30  # number of times that the compass search halves its step, and maximum number of rounds


@with_hints
@dataclass(frozen=True, eq=False)
class BasePlacements:
    """Bases, best first, and the solutions that an arm has from each base.

    Attributes
    ----------
    bases : (n, 4)
        Position x, y, z [m] and yaw [rad] of the base link in the world.
    n_solutions : (n, n_poses) of int
        Number of verified solutions found for each pose. Solutions on self-motions are samples.
    n_components : (n, n_poses) of int
        Number of connected components of the solutions within the limits: isolated solutions, or self-motions.
        Obstacles remove solutions, but do not divide self-motions. The number is 1 if more than one direction of the
        joints is free.
    length : (n, n_poses)
        Total length of the self-motions of each pose [rad, m]; 0 for isolated solutions.
    manipulability : (n, n_poses)
        Largest manipulability of the solutions of each pose, by Yoshikawa's measure; 0 without solutions.
    q : (n, n_poses, dof)
        Solution with the largest manipulability [rad] or [m], verified by forward kinematics; NaN without solutions.

    Examples
    --------
    >>> from eim_ros import Sampler
    >>> from eim_ros.ik import base_grid, place_base
    >>> pose = [0.5, 0.0, 0.3, 1.0, 0.0, 0.0, 0.0]
    >>> found = place_base(Sampler("ur5e"), [pose], base_grid((0.0, 4.0), (0.0, 0.0), 2.0), n_refined=0)
    >>> found.bases[:, 0].tolist(), found.n_reached.tolist()
    ([0.0, 2.0, 4.0], [1, 0, 0])
    """

    bases: FloatArray
    n_solutions: IntArray
    n_components: IntArray
    length: FloatArray
    manipulability: FloatArray
    q: FloatArray

    def __len__(self) -> int:
        """Return the number of bases."""
        return len(self.bases)

    @property
    def reached(self) -> npt.NDArray[np.bool_]:
        """Whether each pose has a solution, (n, n_poses)."""
        return self.n_solutions > 0

    @property
    def n_reached(self) -> IntArray:
        """Number of poses (n,) that are reached from each base."""
        return np.asarray(self.reached.sum(axis=1))

    @property
    def transforms(self) -> FloatArray:
        """Poses (n, 4, 4) of the base link in the world."""
        return _transforms(self.bases)

    def worst(self, criterion: Criterion = "manipulability") -> FloatArray:
        """Return the smallest value (n,) of a criterion over the poses that are reached; 0 if none is."""
        values = getattr(self, f"n_{criterion}" if criterion == "components" else criterion)
        least = np.where(self.reached, values, np.inf).min(axis=1)
        return np.where(np.isfinite(least), least, 0.0)

    def rows(self, indices: npt.ArrayLike) -> BasePlacements:
        """Return the bases with these indices, in this order."""
        index = np.asarray(indices, dtype=np.int64)
        return BasePlacements(*(getattr(self, field.name)[index] for field in fields(self)))

    @classmethod
    def concatenate(cls, parts: Sequence[BasePlacements]) -> BasePlacements:
        """Return the bases of several answers in sequence."""
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))

    def best_first(self, criterion: Criterion) -> BasePlacements:
        """Return the same bases, best first. Equally good bases keep their order."""
        return self.rows(np.lexsort(tuple(-column for column in reversed(self.keys(criterion)))))

    def keys(self, criterion: Criterion) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the values (n,) that decide the order: poses reached, smallest criterion, smallest manipulability."""
        return self.n_reached.astype(np.float64), self.worst(criterion), self.worst("manipulability")


@with_hints
def base_grid(
    x: tuple[float, float], y: tuple[float, float], spacing: float = 0.1, *, n_yaws: int = 1, z: float = 0.0
) -> FloatArray:
    """Return a grid of bases (n, 4): x, y, z [m] and yaw [rad].

    Parameters
    ----------
    x, y : (float, float)
        Smallest and largest coordinates in the world [m]. Equal coordinates give one column or row.
    spacing : float
        Largest distance between neighbours [m].
    n_yaws : int
        Number of yaw angles, which divide a revolution about the vertical axis evenly.
    z : float
        Height of the base link [m].

    Raises
    ------
    ConfigurationError
        If an argument is malformed, or if there are more than 1e6 bases.

    Examples
    --------
    >>> from eim_ros.ik import base_grid
    >>> base_grid((-0.5, 0.5), (0.0, 0.2), 0.1, n_yaws=4).shape
    (132, 4)
    """
    step = float(numbers_of(spacing, (), "the spacing", least=1e-6))
    n_yaws = checked_whole(n_yaws, 1, "n_yaws")
    level = float(numbers_of(z, (), "the height z"))
    ranges, n_bases = [], float(n_yaws)
    for name, given in (("x", x), ("y", y)):
        low, high = numbers_of(given, (2,), f"the range of {name}").tolist()
        if low > high:
            raise ConfigurationError(
                f"the start of the range of {name} must not exceed its end, got {low} to {high}", given
            )
        steps = (high - low) / step
        n_bases *= steps + 1.0
        ranges.append((low, high, steps))
    if not n_bases <= MOST_BASES:
        raise ConfigurationError("the grid has more than 1e6 bases: choose a larger spacing", spacing)
    axes = [np.linspace(low, high, math.ceil(steps - 1e-9) + 1) for low, high, steps in ranges]
    yaws = 2.0 * np.pi * np.arange(n_yaws) / n_yaws
    return np.stack(np.meshgrid(*axes, [level], yaws, indexing="ij"), axis=-1).reshape(-1, 4)


@with_hints
def place_base(
    sampler: Sampler,
    poses: npt.ArrayLike,
    bases: npt.ArrayLike,
    *,
    obstacles: Sequence[Obstacle] | Obstacle = (),
    criterion: Criterion = "manipulability",
    n_refined: int = 3,
    seed: int = 0,
    progress: Progress | None = None,
    device: str | None = None,
) -> BasePlacements:
    """Rate candidate bases by the poses that the arm reaches from them, and refine the best candidates.

    A base that reaches more poses is better. Among bases that reach equally many, the criterion at the worst pose
    decides.

    Parameters
    ----------
    sampler : Sampler
        The arm and its constraints. Obstacles of the sampler move with the base.
    poses : (n_poses, 4, 4) array_like
        Poses of the tip in the world, in any of the forms of `Sampler.follow`.
    bases : (n, 4) array_like
        Candidates: x, y, z [m] and yaw [rad] of the base link in the world, such as those of `base_grid`.
    obstacles : sequence of Box, Sphere, Cylinder, Capsule, Mesh or PointCloud
        Obstacles that stand still in the world.
    criterion : "manipulability", "components" or "length"
        Largest manipulability of the solutions, number of components, or total length of the self-motions.
    n_refined : int
        Number of candidates to refine. Neighbours of a refined base are skipped. Coordinates in which all candidates
        agree stay fixed.
    seed : int
        Seed of the restarts.
    progress : callable, optional
        Function that is called with the numbers of finished candidates and of all candidates. The refinement does not
        count.
    device : str, optional
        Device that solves the poses, "cuda" or "cpu"; `Sampler.on` lists what it does not support. Arms with a closed
        form of six joints get the same numbers on every device. Devices do not trace self-motions, so redundant arms
        need the criterion "manipulability". A device rates up to 16 of their solutions, and reports 1 component and the
        length NaN. Default: the sampler itself.

    Returns
    -------
    BasePlacements
        All candidates, best first. A refined base replaces its candidate.

    Raises
    ------
    PoseError, ConfigurationError, ConstraintError
        If an argument is malformed.

    Examples
    --------
    >>> from eim_ros import Sampler
    >>> from eim_ros.ik import base_grid, place_base
    >>> poses = [[x, 0.0, 0.3, 1.0, 0.0, 0.0, 0.0] for x in (1.0, 1.4)]
    >>> found = place_base(Sampler("ur5e"), poses, base_grid((0.6, 1.8), (-0.6, 0.6), 0.2))
    >>> len(found), found.n_reached[0].item(), found.n_components[0].tolist()
    (49, 2, [4, 4])
    """
    expect(sampler, Sampler, "sampler")
    if not isinstance(criterion, str) or criterion not in get_args(Criterion):
        raise ConfigurationError(
            f"criterion must be one of {', '.join(get_args(Criterion))}, got {criterion!r}", criterion
        )
    candidates = numbers_of(bases, (None, 4), "the bases")
    if not 1 <= len(candidates) <= MOST_BASES:
        raise ConfigurationError(f"the number of bases must be from 1 to 1e6, got {len(candidates)}", len(candidates))
    n_refined = checked_whole(n_refined, 0, "n_refined")
    report = checked_progress(progress)
    obstacles, seed = checked_obstacles(obstacles), checked_whole(seed, 0, "seed")
    kernels = None
    if device is not None:
        kernels = (sampler.with_obstacles(obstacles) if obstacles else sampler).on(device)  # fails with obstacles
        if criterion != "manipulability" and n_free(sampler) > 0:
            raise ConfigurationError(
                f"a device does not trace self-motions, which the criterion {criterion!r} needs: use 'manipulability'",
                criterion,
            )
    rater = _Rater(sampler, check_poses(poses), obstacles, seed, kernels)
    found = rater(candidates, report).best_first(criterion)
    varied = np.ptp(candidates, axis=0)
    n_per_axis = len(candidates) ** (1.0 / max(1, int(np.count_nonzero(varied))))
    steps = 0.5 * varied / max(1.0, n_per_axis - 1.0)
    is_left, best = np.ones(len(found), dtype=np.bool_), list[BasePlacements]()
    for row in range(len(found)):
        if len(best) == n_refined:
            break
        if all((np.abs(found.bases[row] - other.bases[0]) > 2.0 * steps).any() for other in best):
            best.append(_refined(rater, found.rows([row]), steps, criterion))
            is_left[row] = False
    return BasePlacements.concatenate([*best, found.rows(np.flatnonzero(is_left))]).best_first(criterion)


def _refined(rater: _Rater, best: BasePlacements, steps: FloatArray, criterion: Criterion) -> BasePlacements:
    """Move a base to its best neighbour until no neighbour is better, with smaller and smaller steps (4,)."""
    n_halvings = 0
    for _ in range(MOST_ROUNDS):
        moves = np.diag(steps)[steps > 0.0]
        if n_halvings > N_HALVINGS or not len(moves):
            break
        nearby = rater(best.bases + np.concatenate([moves, -moves])).best_first(criterion).rows([0])
        if np.array(nearby.keys(criterion)).T.tolist() > np.array(best.keys(criterion)).T.tolist():
            best = nearby
        else:
            steps, n_halvings = 0.5 * steps, n_halvings + 1
    return best


@dataclass(frozen=True, eq=False)
class _Rater:
    """Function that rates bases (n, 4) by the solutions of poses (n_poses, 4, 4) in the world."""

    sampler: Sampler
    poses: FloatArray
    obstacles: tuple[Obstacle, ...]
    seed: int
    kernels: DeviceSampler | None

    def __call__(self, bases: FloatArray, progress: Progress = lambda done, total: None) -> BasePlacements:
        at_once = AT_ONCE if self.kernels is None else AT_ONCE_ON_DEVICE
        size = 1 if self.obstacles else max(1, at_once // len(self.poses))
        parts = []
        progress(0, len(bases))
        for first in range(0, len(bases), size):
            some = bases[first : first + size]
            inverse = _inverse(_transforms(some))
            parts.append(self._rated(some, inverse, self._sampler(inverse)))
            progress(first + len(some), len(bases))
        return BasePlacements.concatenate(parts)

    def _sampler(self, inverse: FloatArray) -> Sampler:
        """Return the sampler with the obstacles of the world, given the transforms from the world to one base."""
        if not self.obstacles:
            return self.sampler
        moved = [_moved(each, inverse[0]) for each in self.obstacles]
        return self.sampler.with_constraints(obstacles=(*self.sampler.constraints.obstacles, *moved))

    def _rated(self, bases: FloatArray, inverse: FloatArray, sampler: Sampler) -> BasePlacements:
        targets = (inverse[:, None] @ self.poses).reshape(-1, 4, 4)
        if self.kernels is None:
            ratings = rate(sampler, targets, self.seed)
        else:
            ratings = rate_on(self.kernels, sampler, targets, self.seed)
        columns: tuple[npt.NDArray[Any], ...] = ratings
        shape = len(bases), len(self.poses)
        return BasePlacements(bases, *(column.reshape(*shape, *column.shape[1:]) for column in columns))


def _transforms(bases: FloatArray) -> FloatArray:
    """Return the poses (n, 4, 4) of bases (n, 4)."""
    cosine, sine = np.cos(bases[:, 3]), np.sin(bases[:, 3])
    poses = np.tile(np.eye(4), (len(bases), 1, 1))
    poses[:, 0, 0], poses[:, 0, 1], poses[:, 1, 0], poses[:, 1, 1] = cosine, -sine, sine, cosine
    poses[:, :3, 3] = bases[:, :3]
    return poses


def _inverse(poses: FloatArray) -> FloatArray:
    """Return the inverses (n, 4, 4) of rigid transforms."""
    found = np.tile(np.eye(4), (len(poses), 1, 1))
    found[:, :3, :3] = poses[:, :3, :3].transpose(0, 2, 1)
    found[:, :3, 3] = -(found[:, :3, :3] @ poses[:, :3, 3:])[:, :, 0]
    return found


def _moved(obstacle: Obstacle, transform: FloatArray) -> Obstacle:
    """Return an obstacle moved by a transform."""
    pose = transform @ np.asarray(obstacle.pose)
    return replace(obstacle, centre=pose[:3, 3]) if isinstance(obstacle, Sphere) else replace(obstacle, pose=pose)
