"""Choice among 2π-equivalent joint values, so that a path does not jump.

A revolute joint without limits has infinitely many 2π-equivalent values. A joint whose limits allow more than one
revolution has several equivalent values. The search for a path treats both kinds of joints as circles, on which
equivalent values are the same point. The path is then unrolled, which is always possible without limits. If limits
prevent this, the graph of all equivalent values is searched.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from eim_ros import solver
from eim_ros.core.arrays import BoolArray, FloatArray, IntArray
from eim_ros.ik.order import Ordering
from eim_ros.ik.setup import Setup
from eim_ros.kinematics import Robot

TURN = 2.0 * math.pi
MORE_THAN_A_TURN = TURN + 1e-9  # [rad]
PENALTY = 1e4  # cost of a jump [rad^2], larger than any sum of allowed steps
TOWARDS_MIDDLE = (
    1e-6  # weight of the first row's distance from the middle of the limits, which decides between equal paths
)
MOST_STATES = 200_000  # largest number of states of one pose; this many states need about 20 MB
BLOCK = 256  # number of rows that are compared with the next pose at once


def in_revolution_of(reference: FloatArray, q: FloatArray, wraps: BoolArray) -> FloatArray:
    """Return configurations (n, dof) with wrapping joints in the revolution nearest to a reference (dof,).

    A controller that moves from the reference to the answer then takes the shorter way.
    """
    return solver.in_revolution_of(reference, q, wraps)


@dataclass(frozen=True, eq=False)
class OneRevolution:
    """Search that lists one solution of each set of 2π-equivalent solutions.

    The search treats joints that have 2π-equivalent values as continuous. Its results are then moved back into the
    limits, which contain every angle of such a joint at least once.
    """

    setup: Setup  # setup of the search
    repeating: BoolArray  # (dof,), whether the limits of a joint allow at least one revolution
    lower: FloatArray  # (dof,) [rad] or [m]
    upper: FloatArray

    @classmethod
    def of(cls, setup: Setup) -> OneRevolution:
        """Return the search for the solutions within the limits of a setup."""
        robot, constraints, lower, upper = setup.robot, setup.constraints, setup.lower, setup.upper
        repeating = robot.revolves & ~robot.continuous & (upper - lower >= TURN)
        if not repeating.any():
            return cls(setup, repeating, lower, upper)
        names = {name for name, repeats in zip(robot.joint_names, repeating, strict=True) if repeats}
        limits = {name: ends for name, ends in constraints.limits.items() if name not in names}
        return cls(
            Setup(robot.with_continuous(repeating), replace(constraints, limits=limits)), repeating, lower, upper
        )

    def within_limits(self, q: FloatArray, order: Ordering) -> FloatArray:
        """Return configurations (n, dof) in the revolution nearest to the preferred values, or to the middle."""
        if not self.repeating.any():
            return q
        preferred = 0.5 * (self.lower + self.upper)
        if order.reference is not None:
            preferred = order.reference
        elif order.posture is not None:
            values, weights = order.posture.of(self.setup.robot)
            preferred = np.where(weights > 0.0, values, preferred)
        turned = q + TURN * np.round((preferred - q) / TURN)
        turned += TURN * np.ceil((self.lower - turned) / TURN).clip(min=0.0)
        turned -= TURN * np.ceil((turned - self.upper) / TURN).clip(min=0.0)
        # if the limits allow exactly one revolution, rounding may leave a value outside
        return np.where(self.repeating, np.clip(turned, self.lower, self.upper), q)


class Reach(NamedTuple):
    """Number of poses that a path reaches from the first pose on without steps that are too large."""

    n_poses: int  # number of poses reached
    # smallest step to a solution of the next pose [rad] or [m]; infinite if the next pose has no solution
    nearest_miss: float = 0.0
    # (n_poses, dof), path with the smallest sum of squared steps, if all poses are reached
    rows: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class _States:
    """States of one pose that a path can reach. A state is a solution with a choice of its 2π-equivalent values."""

    solution: IntArray  # (n,), index of the solution in the layer
    turned: FloatArray  # (n, n_repeating), values of the joints with equivalent values [rad]
    costs: FloatArray  # (n,), smallest sum of squared steps to the state
    parents: IntArray  # (n,), index of the previous state


@dataclass(frozen=True, eq=False)
class Revolutions:
    """Joints that have 2π-equivalent values within the limits."""

    lower: FloatArray  # (dof,) [rad] or [m]
    upper: FloatArray
    unlimited: BoolArray  # (dof,), whether a joint is continuous and its limits were not narrowed
    repeating: BoolArray  # (dof,), whether the limits of a revolute joint allow more than one revolution

    @classmethod
    def of(cls, robot: Robot, bounds: FloatArray) -> Revolutions:
        """Return the revolutions of a robot with the bounds (3, dof) of a request, see `Setup.bounds`."""
        lower, upper, unlimited = bounds[0], bounds[1], bounds[2] > 0.0
        return cls(lower, upper, unlimited, robot.revolves & ~unlimited & (upper - lower > MORE_THAN_A_TURN))

    @property
    def circles(self) -> BoolArray:
        """Joints (dof,) that the search treats as circles."""
        return self.unlimited | self.repeating

    def bounds(self, bounds: FloatArray) -> FloatArray:
        """Return bounds (3, dof) for which the solver treats joints with 2π-equivalent values as continuous."""
        circles = np.array([[-math.pi], [math.pi], [1.0]])
        return np.where(self.repeating, circles, bounds)

    def on_circles(self, rows: FloatArray, of_limited: bool = True) -> FloatArray:
        """Move values of joints with 2π-equivalent values to [-π, π), in configurations (n, dof).

        If `of_limited` is false, only joints without limits are changed.
        """
        which = self.circles if of_limited else self.unlimited
        turned = (rows + math.pi) % TURN - math.pi
        return np.where(which & (np.abs(rows) > math.pi), turned, rows)

    def steps(self, rows: FloatArray, scale: FloatArray) -> FloatArray:
        """Return the largest scaled motion (n - 1,) between successive configurations. Circles take the shorter way."""
        return np.asarray((scale * np.abs(self.differences(rows[1:], rows[:-1]))).max(axis=1, initial=0.0))

    def unrolled(self, rows: FloatArray, max_steps: FloatArray, origin: FloatArray | None) -> FloatArray:
        """Return configurations (n, dof) with equivalent values that have the fewest jumps and, next, the least motion.

        A step is a jump if it is larger than the row of `max_steps` (n, dof) for its target. If `origin` (dof,) is
        given, the path starts at this configuration.
        """
        if not len(rows) or not self.circles.any():
            return rows
        before = rows[:0] if origin is None else origin[None]
        result = np.array(rows)
        free = self.unlimited
        result[:, free] = np.unwrap(np.concatenate([before, rows])[:, free], axis=0)[len(before) :]
        for joint in np.flatnonzero(self.repeating):
            start = None if origin is None else float(origin[joint])
            result[:, joint] = self._least_moving(rows[:, joint], int(joint), max_steps[:, joint], start)
        return result

    def search(
        self,
        layers: Sequence[FloatArray],
        max_steps: FloatArray,
        origin: FloatArray | None,
        out_of_time: Callable[[], bool],
    ) -> Reach | None:
        """Return the shortest path without jumps among all equivalent values of the solutions (n_k, dof) of each pose.

        `max_steps` (n_poses, dof) contains the largest step to each pose. The result is None if time is up, or if there
        are too many equivalent values.
        """
        states, all_states = self._first(layers[0], origin), list[_States]()
        if states is not None and not len(states.solution):
            return Reach(0, math.inf)
        before = layers[0] if origin is None else origin[None]
        first = 0 if origin is not None else 1
        for layer, largest in zip(layers[first:], max_steps[first:], strict=True):
            if out_of_time() or states is None:
                return None
            following = self._following(states, before, layer, largest)
            if not len(following.solution):
                return Reach(len(all_states) + (origin is None), self._nearest(states, before, layer))
            all_states.append(states)
            states, before = following, layer
        if states is None:
            return None
        return Reach(len(layers), 0.0, self._traced_back([*all_states, states], layers, max_steps, origin))

    def differences(self, to: FloatArray, of: FloatArray) -> FloatArray:
        """Return `to` minus `of`. Joints that are circles take the shorter way."""
        difference = to - of
        return np.where(self.circles, difference - TURN * np.round(difference / TURN), difference)

    def _candidates(self, values: FloatArray, joint: int) -> FloatArray:
        """Return the equivalent values (n, k) of a joint within its limits, padded with infinity."""
        low, high = self.lower[joint], self.upper[joint]
        first = values - TURN * np.floor((values - low) / TURN)
        first = np.where(first < low, first + TURN, first)  # rounding
        every = first[:, None] + TURN * np.arange(int((high - low) / TURN) + 1)
        return np.where(every <= high, every, np.inf)

    def _least_moving(self, values: FloatArray, joint: int, largest: FloatArray, start: float | None) -> FloatArray:
        """Return the equivalent values (n,) of one joint with the fewest jumps and the least motion.

        The values are found by dynamic programming.
        """
        choices = self._candidates(values, joint)
        is_there = np.isfinite(choices)
        places = np.where(is_there, choices, 0.0)

        def cost(away: FloatArray, row: int) -> FloatArray:
            return np.asarray(away**2 + PENALTY * (np.abs(away) > largest[row]))

        middle = 0.5 * (self.lower[joint] + self.upper[joint])
        costs = TOWARDS_MIDDLE * (places[0] - middle) ** 2 if start is None else cost(places[0] - start, 0)
        costs = np.where(is_there[0], costs, np.inf)
        previous = np.zeros(choices.shape, dtype=np.int64)
        for row in range(1, len(values)):
            every = costs[:, None] + cost(places[row] - places[row - 1][:, None], row)
            previous[row] = every.argmin(axis=0)
            costs = np.where(is_there[row], every.min(axis=0), np.inf)
        chosen = np.empty(len(values))
        at = int(costs.argmin())
        for row in range(len(values) - 1, -1, -1):
            chosen[row], at = choices[row, at], int(previous[row, at])
        return chosen

    def _first(self, layer: FloatArray, origin: FloatArray | None) -> _States | None:
        """Return the states of the first pose, or of the origin if there is one; None if there are too many states."""
        joints = np.flatnonzero(self.repeating)
        if origin is not None:
            return _States(np.zeros(1, np.int64), origin[None, joints], np.zeros(1), np.full(1, -1))
        most = [int((self.upper[joint] - self.lower[joint]) / TURN) + 1 for joint in joints]
        if len(layer) * math.prod(most) > MOST_STATES:
            return None
        choices = [self._candidates(layer[:, joint], int(joint)) for joint in joints]
        turned = np.stack(
            [
                np.stack([choice[:, number] for choice, number in zip(choices, numbers, strict=True)], axis=-1)
                for numbers in itertools.product(*map(range, most))
            ],
            axis=1,
        )
        solution, which = np.nonzero(np.isfinite(turned).all(axis=2))
        turned = turned[solution, which]
        middle = 0.5 * (self.lower + self.upper)[joints]
        costs = TOWARDS_MIDDLE * ((turned - middle) ** 2).sum(axis=1)
        return _States(solution, turned, costs, np.full(len(solution), -1))

    def _following(self, states: _States, before: FloatArray, layer: FloatArray, max_steps: FloatArray) -> _States:
        """Return the states of the next pose that are reached without large steps, and the smallest cost of each."""
        joints = np.flatnonzero(self.repeating)
        numbers = np.unique(states.solution)
        nothing = np.empty(0, dtype=np.int64)
        starts, ends, steps = [nothing], [nothing], [np.empty((0, len(self.lower)))]
        for number in range(0, len(numbers), BLOCK):
            some = numbers[number : number + BLOCK]
            away = self.differences(layer[None], before[some][:, None])
            start, end = np.nonzero((np.abs(away) <= max_steps).all(axis=2))
            starts.append(some[start])
            ends.append(end)
            steps.append(away[start, end])
        start, end, step = np.concatenate(starts), np.concatenate(ends), np.concatenate(steps)
        # each state has all steps of its solution, which are adjacent because `start` is sorted
        first, last = np.searchsorted(start, states.solution), np.searchsorted(start, states.solution, side="right")
        n_steps = last - first
        state = np.repeat(np.arange(len(n_steps)), n_steps)
        taken = np.arange(len(state)) - np.repeat(np.cumsum(n_steps) - n_steps, n_steps) + np.repeat(first, n_steps)
        end, step = end[taken], step[taken]
        roots = layer[end][:, joints]
        turns = np.round((states.turned[state] + step[:, joints] - roots) / TURN)
        turned = roots + TURN * turns
        fits = ((turned >= self.lower[joints]) & (turned <= self.upper[joints])).all(axis=1)
        costs = states.costs[state] + (step**2).sum(axis=1)
        state, end, turned, turns, costs = state[fits], end[fits], turned[fits], turns[fits], costs[fits]
        keys = np.column_stack([end, turns.astype(np.int64)])
        order = np.lexsort((costs, *keys.T[::-1]))
        is_first = np.ones(len(order), dtype=np.bool_)
        is_first[1:] = (np.diff(keys[order], axis=0) != 0).any(axis=1)
        kept = order[is_first]
        return _States(end[kept], turned[kept], costs[kept], state[kept])

    def _nearest(self, states: _States, before: FloatArray, layer: FloatArray) -> float:
        """Return the smallest step from any state to any equivalent value of a solution of the next pose."""
        joints, least = np.flatnonzero(self.repeating), math.inf
        for solution, turned in zip(states.solution, states.turned, strict=True):
            away = np.abs(self.differences(layer, before[solution]))
            for value, joint in zip(turned, joints, strict=True):
                away[:, joint] = np.abs(self._candidates(layer[:, joint], int(joint)) - value).min(axis=1)
            least = min(least, float(away.max(axis=1).min(initial=math.inf)))
        return least

    def _traced_back(
        self, all_states: list[_States], layers: Sequence[FloatArray], max_steps: FloatArray, origin: FloatArray | None
    ) -> FloatArray:
        """Return the path (n_poses, dof) to the final state with the smallest cost."""
        at, rows = int(all_states[-1].costs.argmin()), list[FloatArray]()
        for layer, states in zip(reversed(layers), reversed(all_states), strict=False):
            row = layer[states.solution[at]].copy()
            row[self.repeating] = states.turned[at]
            rows.append(row)
            at = int(states.parents[at])
        path = np.array(rows[::-1])
        others = Revolutions(self.lower, self.upper, self.unlimited, np.zeros_like(self.repeating))
        return others.unrolled(path, max_steps, origin)
