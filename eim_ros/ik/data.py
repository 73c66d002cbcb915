"""Data sets of poses and configurations, from random configurations or from recorded joint states."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from eim_ros.core.arrays import FloatArray
from eim_ros.core.checks import checked_whole, expect, with_hints
from eim_ros.core.data_set import DataSet, JointMatcher
from eim_ros.core.errors import DataError, ModelFileError
from eim_ros.core.parallel import tell
from eim_ros.ik.order import distance_to
from eim_ros.ik.prior import EVEN_SOLUTIONS, UNIFORM_CONFIGURATIONS, describe_robot, robot_from_description
from eim_ros.kinematics import CONTEXT_KINDS, Robot, context_from_pose, refine, spread
from eim_ros.solver import SPACING

SEEDS_PER_POSE = 100  # number of seeds of the search for solutions of a pose
APART = 0.3  # smallest distance between solutions of a pose [rad, m]
MOST_SOLUTIONS = 1000
LIMIT_TOLERANCE = 1e-6  # [rad] or [m]


@with_hints
def collect(robot: Robot, n_samples: int, context_kind: str, seed: int, solutions_per_pose: int = 0) -> DataSet:
    """Draw configurations and compute the contexts that they reach.

    With uniform configurations, a pose that few configurations reach is rare in the data. Some solutions of a pose are
    also more frequent than others. `solutions_per_pose` keeps the same poses, but draws the solutions of each pose
    evenly. The solver computes these solutions from uniform seeds and by continuation along the self-motions. Any two
    of them are at least 0.3 rad apart.

    Parameters
    ----------
    robot : Robot
    n_samples : int
        Number of pairs, at least 1.
    context_kind : str
        "position" (3 numbers [m]) or "pose" (9 numbers: position and the first two columns of the rotation).
    seed : int
        Seed of all randomness, at least 0.
    solutions_per_pose : int
        Number of solutions drawn for each pose. With 0, the data contain the uniform configurations, one for each pose.

    Returns
    -------
    DataSet
        Context (n_samples, 3 or 9), sample (n_samples, dof), and a description of the robot.

    Raises
    ------
    DataError
        If an argument is malformed.

    Examples
    --------
    >>> from eim_ros import Robot
    >>> from eim_ros.ik import collect
    >>> data_set = collect(Robot("panda"), 100, "position", seed=0)
    >>> data_set.context.shape, data_set.sample.shape
    ((100, 3), (100, 7))
    """
    expect(robot, Robot, "robot", DataError)
    n_samples = checked_whole(n_samples, 1, "the number of samples", DataError)
    solutions_per_pose = checked_whole(solutions_per_pose, 0, "the number of solutions", DataError)
    seed = checked_whole(seed, 0, "seed", DataError)
    rng = np.random.default_rng(seed)
    n_poses = math.ceil(n_samples / max(solutions_per_pose, 1))
    configurations = robot.random(n_poses, rng)
    poses = robot.fk(configurations)
    if solutions_per_pose:
        drawn = []
        for number, pair in enumerate(zip(poses, configurations, strict=True)):
            tell("solutions of poses", number, n_poses)
            drawn.append(_even_solutions(robot, *pair, context_kind == "position", solutions_per_pose, rng))
        order = rng.permutation(n_poses * solutions_per_pose)[:n_samples]
        configurations = np.concatenate(drawn)[order]
        poses = np.repeat(poses, solutions_per_pose, axis=0)[order]
    about = {"source": EVEN_SOLUTIONS if solutions_per_pose else UNIFORM_CONFIGURATIONS, "seed": seed}
    return pair_data_set(robot, configurations, poses, context_kind, about)


def _even_solutions(
    robot: Robot, pose: FloatArray, known: FloatArray, position_only: bool, n: int, rng: np.random.Generator
) -> FloatArray:
    """Draw solutions (n, dof) of a pose (4, 4) evenly, given one known solution (dof,).

    Solutions are repeated if the search finds fewer than n. Their errors are at most 1e-6 m and rad.
    """
    seeds = np.concatenate([known[None], robot.random(SEEDS_PER_POSE, rng)])
    refined = refine(robot, seeds, pose, position_only=position_only, patience=3)
    found = refined.positions[refined.converged]
    apart: list[FloatArray] = []
    while len(found):
        apart.append(found[:1])
        found = found[distance_to(robot, found, found[0]) >= APART]
    roots = np.concatenate(apart)
    continued = spread(robot, roots, pose, MOST_SOLUTIONS, rng, position_only=position_only, step=APART / SPACING)
    solutions = np.concatenate([roots, continued])
    return np.asarray(solutions[rng.choice(len(solutions), n, replace=len(solutions) < n)])


def robot_of(data_set: DataSet, robot: Robot | None = None) -> Robot:
    """Return the robot of a data set, or raise `DataError` if it differs from the given robot."""
    description = expect(data_set, DataSet, "the data set", DataError).description.get("robot")
    if robot is not None:
        expect(robot, Robot, "robot", DataError)
    try:
        stored = robot_from_description(description, "the data set")
    except ModelFileError as error:
        raise DataError(str(error), description) from error
    if robot is not None and robot.fingerprint != stored.fingerprint:
        raise DataError(
            f"the data set was collected for robot '{stored.name}' ({stored.base_link} to {stored.tip_link}), which "
            f"differs from robot '{robot.name}' ({robot.base_link} to {robot.tip_link}): collect data for this robot",
            stored.name,
        )
    if data_set.sample.shape[1] != stored.dof:
        raise DataError(
            f"samples of the data set have {data_set.sample.shape[1]} joints, but its robot '{stored.name}' has "
            f"{stored.dof}: collect the data again",
            data_set.sample.shape,
        )
    return robot or stored


def context_kind_of(data_set: DataSet) -> str:
    """Return the kind of the contexts of a data set, or raise `DataError` if it does not match the columns."""
    kind, n_columns = data_set.description.get("context_kind"), data_set.context.shape[1]
    if not isinstance(kind, str) or CONTEXT_KINDS.get(kind) != n_columns:
        expected = ", ".join(f"'{name}' ({n} columns)" for name, n in CONTEXT_KINDS.items())
        raise DataError(
            f"the data set has context kind {kind!r} with {n_columns} columns, expected one of {expected}", kind
        )
    return kind


def pair_data_set(
    robot: Robot, configurations: FloatArray, poses: FloatArray, context_kind: str, about: dict[str, Any]
) -> DataSet:
    """Return a data set of configurations (n, dof) [rad] or [m] and their tip poses (n, 4, 4) for `eim train`.

    The context kind is "position" or "pose". `about` contains further entries of the description, such as "source".
    """
    description = {**about, "robot": describe_robot(robot), "context_kind": context_kind}
    return DataSet(context_from_pose(poses, context_kind), configurations, description)


class PairCollector:
    """Collection of configurations from joint states.

    Joint states are dropped if they lack a joint, are not finite, exceed the limits, or are too close to the previous
    joint state.

    Pairs have the context kind "position" or "pose". The collection is full at `n_wanted` pairs. `min_distance` is the
    change [rad] or [m] that at least one joint must make between successive joint states.

    Attributes
    ----------
    n_dropped : int
        Number of dropped joint states.
    problem : str
        Reason why the last joint state was dropped; empty if it was added.
    """

    def __init__(self, robot: Robot, context_kind: str, n_wanted: int, min_distance: float) -> None:
        self.robot, self.n_wanted = robot, n_wanted
        self._context_kind, self._min_distance = context_kind, min_distance
        self._matcher = JointMatcher(robot.joint_names)
        self._rows: list[FloatArray] = []
        self.n_dropped, self.problem = 0, ""

    def __len__(self) -> int:
        """Return the number of configurations."""
        return len(self._rows)

    @property
    def is_full(self) -> bool:
        """Whether the collection has `n_wanted` pairs."""
        return len(self._rows) >= self.n_wanted

    def add_state(self, names: Sequence[str], positions: npt.ArrayLike) -> bool:
        """Add a joint state. If it is dropped, return False and store the reason in `problem`."""
        values, problem = self._matcher.match(names, positions)
        if values is None:
            return self._drop(f"joint state: {problem}")
        robot = self.robot
        values = np.where(robot.continuous, (values + np.pi) % (2.0 * np.pi) - np.pi, values)
        if not robot.within_limits(values, LIMIT_TOLERANCE)[0]:
            outside = np.maximum(robot.lower - values, values - robot.upper)
            worst = int(np.argmax(outside))
            return self._drop(f"{robot.joint_names[worst]} exceeds its limits by {outside[worst]:.3g}")
        if self._rows and np.abs(values - self._rows[-1]).max() < self._min_distance:
            return self._drop("the joint state is closer than min_distance to the previous one")
        self._add(values)
        return True

    def sample(self, n: int, rng: np.random.Generator) -> None:
        """Add n configurations drawn uniformly within the limits, or fewer if the collection becomes full."""
        for values in self.robot.random(min(n, self.n_wanted - len(self)), rng):
            self._add(values)

    def data_set(self, about: dict[str, Any]) -> DataSet:
        """Return the collected pairs as a data set, or raise `DataError` if there are none."""
        if not self._rows:
            raise DataError("there are no pairs to write: every joint state was dropped, or none arrived", 0)
        configurations = np.array(self._rows)
        return pair_data_set(self.robot, configurations, self.robot.fk(configurations), self._context_kind, about)

    def _add(self, values: FloatArray) -> None:
        self._rows.append(values)
        self.problem = ""

    def _drop(self, reason: str) -> bool:
        self.n_dropped += 1
        self.problem = reason
        return False
