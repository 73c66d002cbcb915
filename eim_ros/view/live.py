"""All solutions of a moving target: ghosts in the colours of their self-motion components, and one chosen solution.

A ghost is a translucent arm that shows one solution. If the model has a preference, the ghosts are samples of the
model. Otherwise, they are spread over all components. When the target moves, the chosen solution is refined
numerically. The chosen solution thus stays in its component as long as the component exists. Components keep their
numbers and colours.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from eim_ros.core.arrays import FloatArray, IntArray
from eim_ros.ik import Component, NearestPose, Sampler, component_labels, nearest, self_motion_components
from eim_ros.kinematics import Obstacle, Robot, body_poses, refine
from eim_ros.view.groups import group_arms
from eim_ros.view.style import distinct_colour, linear, rgb

FARTHEST = 0.7  # [rad, m] a component keeps its number between two targets if no joint changes by more than this
# start of the errors in the message of an empty answer; the page shows the nearest pose instead of these errors
BEST_ATTEMPT = "; the best attempt"
TIMEOUT = 0.1  # [s] per target; a later answer would belong to an old target
N_TRIALS = 256  # number of random configurations that determine the possible motions of the tip
N_FIRST = 2048  # number of random configurations; the first target is chosen among their poses
LOWEST = 0.1  # minimum height of the first target, relative to the reach of the arm
POINTS_DOWN = 0.8  # minimum cosine of the angle between the z axis of the first target and the downward direction
MOVES = 1e-9  # the tip can move along or about an axis if its Jacobian entries exceed this fraction of the largest
N_GROUPS = 5  # maximum number of groups of solutions that do not form curves


def component_colour(number: int) -> str:
    """Return the colour of the component with this number."""
    return distinct_colour(number)


def byte_colour(colour: str) -> tuple[int, int, int]:
    """Return red, green and blue from 0 to 255 of a colour such as "#0072B2"."""
    red, green, blue = (round(255 * share) for share in rgb(colour))
    return red, green, blue


def light(colours: Sequence[str]) -> npt.NDArray[np.uint8]:
    """Convert sRGB colours to linear light, (n, 3) from 0 to 255 (IEC 61966-2-1).

    viser expects linear values for the colours of instances and lines.
    """
    shares = np.array([rgb(colour) for colour in colours]).reshape(-1, 3)
    return np.asarray(np.round(255.0 * linear(shares)), dtype=np.uint8)


def kept_numbers(
    robot: Robot, before: Sequence[FloatArray], numbers: Sequence[int], now: Sequence[FloatArray]
) -> list[int]:
    """Return distinct numbers of components. Components keep their numbers from the previous target if possible.

    `before` and `now` are the solutions (n_i, dof) of each component, and `numbers` belong to `before`. A component
    gets the smallest free number if no previous component is near, or if another current component is nearer to the
    previous component.
    """
    found: dict[int, int] = {}
    if before and now:
        owners, own = (
            np.repeat(np.arange(len(rows)), [len(component) for component in rows]) for rows in (before, now)
        )
        distance, index = nearest(robot, np.concatenate(now), np.concatenate(before))
        away = np.full((len(now), len(before)), np.inf)
        np.minimum.at(away, (own, owners[index]), distance)
        for flat in np.argsort(away, axis=None, kind="stable"):
            i, k = divmod(int(flat), len(before))
            if away[i, k] > FARTHEST:
                break
            if i not in found and numbers[k] not in found.values():
                found[i] = numbers[k]
    left = (number for number in itertools.count() if number not in set(found.values()))
    return [found[i] if i in found else next(left) for i in range(len(now))]


@dataclass(frozen=True, eq=False)
class Solutions:
    """Solutions of one target, as shown on the page.

    If more than one direction is free, the components are groups of similar solutions. The numbers of the components
    ascend, and stay the same while the target moves.
    """

    pose: FloatArray  # (4, 4), target in the base frame
    positions: FloatArray  # (n, dof), verified solutions, shown as ghosts [rad] or [m]
    labels: IntArray  # (n,) int, index of the component of each ghost
    components: list[Component]
    numbers: list[int]
    chosen: FloatArray | None  # (dof,), chosen solution, or None
    component: int  # index of the component of the chosen solution, or -1
    along: float  # position in this component, from 0 at the first solution to 1 at the last
    density: Callable[[FloatArray], FloatArray] | None  # model log density given the target; None without a model
    message: str  # number of solutions, or the reason why there is none
    elapsed: float  # solving time [s]
    nearest: FloatArray | None = None  # (dof,), configuration nearest to a target out of reach
    kind: str = "component"  # "component", or "group" of similar solutions

    @functools.cached_property
    def log_prob(self) -> FloatArray:
        """Log densities (n,) of the ghosts under the model [nat]; NaN without a model."""
        return self.log_prob_of(self.positions)

    def log_prob_of(self, rows: FloatArray) -> FloatArray:
        """Return the log densities (m,) of any configurations (m, dof) under the model [nat]; NaN without a model."""
        if self.density is None or not len(rows):
            return np.full(len(rows), np.nan)
        return self.density(rows)

    @property
    def ghost_numbers(self) -> IntArray:
        """Component number (n,) of each ghost."""
        return np.array(self.numbers, dtype=np.int64)[self.labels] if len(self.labels) else self.labels


class LiveSolutions:
    """Solver for a sequence of targets that remembers the components and the chosen solution.

    The `n` ghosts have the same seed for each target. With `position_only`, the orientation is free.
    """

    def __init__(self, sampler: Sampler, n: int = 50, position_only: bool = False, seed: int = 0) -> None:
        self.robot = sampler.robot
        self.n, self.seed = n, seed
        self.chosen: FloatArray | None = None
        self._before: list[FloatArray] = []
        self._numbers: list[int] = []
        self._set(sampler.with_constraints(position_only=position_only))

    def constrain(
        self, position_only: bool, self_collision: bool | None = None, obstacles: Sequence[Obstacle] | None = None
    ) -> None:
        """Use other constraints for the next targets. None keeps the current constraints."""
        changes: dict[str, Any] = {"position_only": position_only}
        if self_collision is not None:
            changes["self_collision"] = self_collision
        if obstacles is not None:
            changes["obstacles"] = tuple(obstacles)
        self._set(self.sampler.with_constraints(**changes))

    def _set(self, sampler: Sampler) -> None:
        self._scene = sampler.constraints.scene(sampler.robot)
        self.sampler = sampler

    @property
    def position_only(self) -> bool:
        """Whether every orientation is accepted."""
        return bool(self.sampler.constraints.position_only)

    def solve(self, pose: FloatArray) -> Solutions:
        """Solve for a target (4, 4)."""
        started = time.perf_counter()
        samples = self.sampler.sample(pose, self.n, order="none", seed=self.seed, timeout=TIMEOUT)
        rows = samples.q
        kept = self._moved(self.chosen, pose)
        kept = kept[self._is_free(kept)]
        found = self_motion_components(self.robot, np.concatenate([kept, rows]), pose, position_only=self.position_only)
        found = self._without_collisions(found)
        grouped = self._grouped(found)
        kind, found = "component" if grouped is found else "group", grouped
        numbers = kept_numbers(self.robot, self._before, self._numbers, [component.positions for component in found])
        order = np.argsort(numbers)
        found, numbers = [found[i] for i in order], sorted(numbers)
        if found:  # keep the last components while the target is out of reach
            self._before, self._numbers = [component.positions for component in found], numbers
        shown = rows[: self.n]
        labels = component_labels(self.robot, found, shown)
        chosen, component, along = self._choice(found, kept if len(kept) else self._most_dexterous(shown))
        model = samples.densities[0] if samples.densities else None
        density = None if model is None else model.log_prob
        told, closest = _told(kind, found, len(shown), samples.message), None
        if not found:
            near = self.sampler.solve_nearest_pose(pose, seed=self.seed, timeout=TIMEOUT)
            if near:
                closest = near.q
                told = f"{told.partition(BEST_ATTEMPT)[0]}; {_missed(near, self.position_only)}"
        elapsed = time.perf_counter() - started
        return Solutions(
            pose, shown, labels, found, numbers, chosen, component, along, density, told, elapsed, closest, kind
        )

    def choose(self, solutions: Solutions, component: int, along: float) -> Solutions:
        """Return the solutions with the chosen solution at position `along`, from 0 to 1, in a component."""
        curve = solutions.components[component]
        moved = self._moved(place_in(curve, along), solutions.pose)
        # If refinement between two distant solutions does not converge, choose the earlier solution.
        chosen = moved[0] if len(moved) else _first_before(curve, along)
        return self._with_choice(solutions, chosen, component, along)

    def choose_ghost(self, solutions: Solutions, index: int) -> Solutions:
        """Return the solutions with the ghost at `index` as the chosen solution."""
        chosen, component, along = self._choice(solutions.components, solutions.positions[index][None])
        assert chosen is not None
        return self._with_choice(solutions, chosen, component, along)

    def _with_choice(self, solutions: Solutions, chosen: FloatArray, component: int, along: float) -> Solutions:
        self.chosen = chosen
        return replace(solutions, chosen=chosen, component=component, along=along)

    def _moved(self, q: FloatArray | None, pose: FloatArray) -> FloatArray:
        """Move a configuration (dof,) onto a target. Return (1, dof), or (0, dof) if this fails or `q` is None."""
        if q is None:
            return np.empty((0, self.robot.dof))
        moved = refine(self.robot, q[None], pose, position_only=self.position_only)
        return moved.positions[moved.converged]

    def _is_free(self, rows: FloatArray) -> npt.NDArray[np.bool_]:
        """Return whether each configuration (n, dof) is free of collisions, as an array (n,)."""
        if self._scene is None or not len(rows):
            return np.ones(len(rows), dtype=bool)
        return ~self._scene.colliding(rows)

    def _without_collisions(self, found: list[Component]) -> list[Component]:
        """Cut curves where the arm would collide. Return the pieces, starting with the longest."""
        if self._scene is None:
            return found
        parts = [part for component in found for part in cut(component, self._is_free(component.positions))]
        return sorted(parts, key=lambda part: -float(part.along[-1]))

    def _most_dexterous(self, rows: FloatArray) -> FloatArray:
        """Return the most dexterous of the configurations (n, dof) as one row, or no row if n is 0."""
        return rows[np.argsort(-dexterity(self.robot, rows, self.position_only), kind="stable")[:1]]

    def _choice(self, found: list[Component], wanted: FloatArray) -> tuple[FloatArray | None, int, float]:
        if not found or not len(wanted):
            return None, -1, 0.0
        label = int(component_labels(self.robot, found, wanted)[0])
        component = found[label]
        place = int(nearest(self.robot, wanted, component.positions)[1][0])
        self.chosen = wanted[0]
        return wanted[0], label, float(component.along[place] / max(component.along[-1], 1e-9))

    def _grouped(self, found: list[Component]) -> list[Component]:
        """Split solutions with more than one free direction into groups that look alike."""
        if (
            len(found) != 1
            or found[0].is_curve
            or len(found[0]) < 2
            or self.robot.dof < (5 if self.position_only else 8)
        ):
            return found
        rows = found[0].positions
        labels = group_arms(self.robot.skeleton(rows), N_GROUPS).labels
        groups = [rows[labels == label] for label in range(int(labels.max()) + 1)]
        return [Component(group, np.arange(float(len(group))), is_curve=False) for group in groups]


@functools.lru_cache(maxsize=16)
def moving_axes(robot: Robot) -> npt.NDArray[np.bool_]:
    """Return whether the tip can move along and about each axis of the base frame, (6,).

    For planar arms, only the entries for x, y and the rotation about z are true.
    """
    rows = robot.random(N_TRIALS, np.random.default_rng(0))
    largest = np.abs(robot.jacobian(rows)).max(axis=(0, 2))
    return np.asarray(largest > MOVES * largest.max())


def dexterity(robot: Robot, rows: FloatArray, position_only: bool) -> FloatArray:
    """Return Yoshikawa's manipulability (n,) of configurations (n, dof).

    Only axes along or about which the tip can move count. With all axes, the result would be 0 for planar arms.
    """
    axes = moving_axes(robot) & (np.arange(6) < (3 if position_only else 6))
    return np.asarray(np.linalg.svd(robot.jacobian(rows)[:, axes], compute_uv=False).prod(axis=-1))


def first_pose(robot: Robot) -> FloatArray:
    """Return the pose (4, 4) of the most dexterous of several natural random configurations.

    From this pose, a user can move the target in every direction. If possible, the arm is above the floor at z = 0, and
    its tip is in front of the base and points down.
    """
    rows = robot.random(N_FIRST, np.random.default_rng(0))
    is_wanted = np.ones(len(rows), dtype=bool)
    if moving_axes(robot)[2]:
        poses, height = robot.fk(rows), robot.skeleton(rows)[..., 2].min(axis=1)
        x, y, z = (poses[:, axis, 3] for axis in range(3))
        is_above = (height > -1e-3 * robot.reach) & (z > LOWEST * robot.reach)
        for mask in (is_above, (x > 0.0) & (np.abs(y) < x), poses[:, 2, 2] < -POINTS_DOWN):
            if (is_wanted & mask).any():
                is_wanted &= mask
    rows = rows[is_wanted]
    return robot.fk(rows[int(np.argmax(dexterity(robot, rows, False)))])


def place_in(component: Component, along: float) -> FloatArray:
    """Return the configuration (dof,) at a fraction, from 0 to 1, of the length of a component.

    Curves are interpolated. In other components, the fraction selects a solution.
    """
    length = along * component.along[-1]
    after = int(np.clip(np.searchsorted(component.along, length), 1, len(component) - 1)) if len(component) > 1 else 0
    if after == 0 or not component.is_curve:
        return np.asarray(component.positions[round(along * (len(component) - 1))])
    start, end = component.along[after - 1], component.along[after]
    share = (length - start) / max(end - start, 1e-12)
    way = component.positions[after] - component.positions[after - 1]
    way = np.where(np.abs(way) > np.pi, way - 2.0 * np.pi * np.round(way / (2.0 * np.pi)), way)  # continuous joints
    return np.asarray(component.positions[after - 1] + share * way)


def nearest_along(
    robot: Robot, component: Component, start: float, body: int, grabbed: FloatArray, pointer: FloatArray
) -> float:
    """Return the position in a component, from 0 to 1, at which a point of a body is nearest to another point.

    The search descends from the position `start`, because the arm must not jump. The point `grabbed` (3,) is in the
    frame of the body, and `pointer` (3,) in the base frame [m].
    """
    poses = body_poses(robot, component.positions)[:, body]
    points = poses[:, :3, :3] @ grabbed + poses[:, :3, 3]
    away = np.linalg.norm(points - pointer, axis=1)
    length = max(float(component.along[-1]), 1e-9)
    place = int(np.argmin(np.abs(component.along - start * length)))
    for step in (-1, 1):
        while 0 <= place + step < len(away) and away[place + step] < away[place]:
            place += step
    return float(component.along[place] / length)


def cut(component: Component, is_free: npt.NDArray[np.bool_]) -> list[Component]:
    """Return the pieces of a component with free configurations (n,). Each piece of a curve is connected."""
    positions, along = component.positions, component.along
    if is_free.all():
        return [component]
    if not component.is_curve:
        rows = positions[is_free]
        return [Component(rows, np.arange(float(len(rows))), is_curve=False)] if len(rows) else []
    order = np.arange(len(positions))
    if component.is_closed:  # start at a collision, to join the first and the last piece
        order = np.roll(order, -int(np.argmin(is_free)))
    runs = np.split(order, np.flatnonzero(np.diff(is_free[order].astype(int))) + 1)
    parts = []
    for run in (run for run in runs if is_free[run[0]]):
        steps = np.diff(along[run])
        if component.is_closed:  # a step may lead from the end to the start of the list
            steps[steps < 0.0] = np.median(np.diff(along))
        parts.append(Component(positions[run], np.concatenate([[0.0], np.cumsum(steps)]), is_curve=True))
    return parts


def _first_before(component: Component, along: float) -> FloatArray:
    index = int(np.searchsorted(component.along, along * component.along[-1], side="right")) - 1
    return np.asarray(component.positions[max(index, 0)])


def _told(kind: str, found: list[Component], n: int, message: str) -> str:
    if not found:
        return message
    names = {"component": ("component", "components"), "group": ("group that looks alike", "groups that look alike")}
    return f"{n} solution{'s' if n > 1 else ''} in {len(found)} {names[kind][len(found) > 1]}"


def _missed(near: NearestPose, position_only: bool) -> str:
    turned = "" if position_only else f" and turned by {np.degrees(near.orientation_error):.0f}°"
    return f"the nearest pose is {near.position_error:.3f} m away{turned}"
