"""Quality of models and of sets of solutions.

`evaluate` reports the errors of samples of a model before numerical refinement, and the share of samples within the
limits. It also reports the entropies and likelihood of the model (thesis 6.4). `SolutionSet` measures how many
components solutions reach, and how much of each component they cover. The set of all solutions of a redundant arm is
approximated by many exact solutions from uniform seeds, see `exact_solutions`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from eim_ros.core.arrays import FloatArray, IntArray
from eim_ros.core.checks import checked_whole, expect, with_hints
from eim_ros.core.data_set import DataSet
from eim_ros.core.errors import DataError
from eim_ros.ik.data import context_kind_of, robot_of
from eim_ros.ik.order import on_torus
from eim_ros.ik.prior import IKModel
from eim_ros.kinematics import Robot, pose_from_context, refine

QUANTILES = (0.05, 0.25, 0.75, 0.95)
LINKAGE = 0.35  # [rad or m]; solutions closer than this belong to the same component
LEAST_MEMBERS = 10  # minimum size of a component; smaller groups arise by chance, or are thin ends of a component
RADIUS = 0.3  # [rad or m]; a solution covers all solutions within this distance


@with_hints
def evaluate(model: IKModel, data_set: DataSet, seed: int = 0) -> dict[str, float]:
    """Draw one sample of the model for each test context, and measure it by forward kinematics.

    Parameters
    ----------
    model : IKModel
    data_set : DataSet
        Test data of the same robot and kind of context.
    seed : int
        Seed of the samples.

    Returns
    -------
    dict
        Position errors [m]: rmse_position, median_position and quantiles such as quantile_05_position. Contexts of
        poses also give median_orientation [rad]. The entry share_in_limits is the share of samples within the limits.
        The entries entropy_marginal, H(E q(z|y)), and entropy_conditional, E H(q(z|y)), are normalised to [0, 1]. The
        entry mean_log_prob is the mean log density of the test configurations [nat].

    Raises
    ------
    DataError
        If the data set is empty, or belongs to another robot or kind of context.

    Examples
    --------
    >>> from eim_ros.ik import IKModel, collect, evaluate
    >>> model = IKModel.load("panda_position")
    >>> figures = evaluate(model, collect(model.robot, 100, model.context_kind, seed=0))
    >>> figures["median_position"] < 0.05  # [m], before the solver moves samples to the pose
    True
    """
    expect(model, IKModel, "model")
    seed = checked_whole(seed, 0, "seed")
    robot = robot_of(data_set, model.robot)
    if context_kind_of(data_set) != model.context_kind:
        raise DataError(
            f"the data set has contexts of kind '{context_kind_of(data_set)}', but the model needs "
            f"'{model.context_kind}'; collect data with --context {model.context_kind}",
            model.context_kind,
        )
    if not len(data_set):
        raise DataError("the data set is empty; expected at least one pair of pose and configuration", 0)
    context, configurations = torch.from_numpy(data_set.context), torch.from_numpy(data_set.sample)
    generator = torch.Generator().manual_seed(seed)
    mixture = model.mixture.to(dtype=torch.float64)
    drawn = mixture.sample(context, generator).numpy()
    reached = robot.fk(drawn)
    error = np.linalg.norm(reached[:, :3, 3] - data_set.context[:, :3], axis=1)
    figures = {
        "rmse_position": float(np.sqrt(np.mean(error**2))),
        "median_position": float(np.median(error)),
    }
    figures |= {f"quantile_{round(100 * q):02d}_position": float(np.quantile(error, q)) for q in QUANTILES}
    if model.context_kind == "pose":
        wanted = pose_from_context(data_set.context)[:, :3, :3]
        cosine = 0.5 * (np.einsum("nij,nij->n", wanted, reached[:, :3, :3]) - 1.0)
        figures["median_orientation"] = float(np.median(np.arccos(np.clip(cosine, -1.0, 1.0))))
    return figures | {
        "share_in_limits": float(robot.within_limits(drawn).mean()),
        "entropy_marginal": float(mixture.marginal_entropy(context)),
        "entropy_conditional": float(mixture.conditional_entropy(context)),
        "mean_log_prob": float(mixture.log_prob(context, configurations).mean()),
    }


@dataclass(frozen=True, eq=False)
class SolutionSet:
    """Approximation of all solutions of a pose by a finite set.

    Attributes
    ----------
    robot : Robot
    positions : (n, dof)
    component : (n,) of int
        Component of each solution, from 0; -1 for solutions outside all components.
    """

    robot: Robot
    positions: FloatArray
    component: IntArray

    @property
    def n_components(self) -> int:
        """Number of components."""
        return int(self.component.max(initial=-1)) + 1

    def coverage(self, solutions: FloatArray, radius: float = RADIUS) -> float:
        """Return the share of the set within a radius of given solutions (m, dof), averaged over components.

        The result is 1 if the set is empty.
        """
        if not self.n_components:
            return 1.0
        near = self._near(solutions, radius)
        return float(np.mean([near[self.component == number].mean() for number in range(self.n_components)]))

    def share_of_components(self, solutions: FloatArray, radius: float = RADIUS) -> float:
        """Return the share of components with a member within a radius of given solutions (m, dof).

        The result is 1 if the set is empty.
        """
        if not self.n_components:
            return 1.0
        near = self._near(solutions, radius)
        return float(np.mean([near[self.component == number].any() for number in range(self.n_components)]))

    def _near(self, solutions: FloatArray, radius: float) -> npt.NDArray[np.bool_]:
        if not len(solutions):
            return np.zeros(len(self.positions), dtype=bool)
        points, period = on_torus(self.robot, np.concatenate([self.positions, solutions]))
        tree = cKDTree(points[len(self.positions) :], boxsize=period)
        distance, _ = tree.query(points[: len(self.positions)], distance_upper_bound=radius)
        return np.asarray(np.isfinite(distance))


def exact_solutions(
    robot: Robot, pose: FloatArray, n_seeds: int, rng: np.random.Generator, position_only: bool = False
) -> SolutionSet:
    """Approximate all solutions of a pose (4, 4) by refinement of uniform seeds, and label their components."""
    refined = refine(robot, robot.random(n_seeds, rng), pose, position_only=position_only)
    positions = refined.positions[refined.converged]
    return SolutionSet(robot, positions, linked_components(robot, positions))


def linked_components(
    robot: Robot, positions: FloatArray, linkage: float = LINKAGE, least_members: int = LEAST_MEMBERS
) -> IntArray:
    """Return the component (n,) of each configuration (n, dof), by single linkage.

    Components are numbered from 0, the largest first. Members of components smaller than `least_members` get the label
    -1. Distances are Euclidean [rad, m], and continuous joints are compared on the circle.
    """
    if not len(positions):
        return np.empty(0, dtype=np.int64)
    points, period = on_torus(robot, positions)
    pairs = cKDTree(points, boxsize=period).query_pairs(linkage, output_type="ndarray")
    links = coo_matrix((np.ones(len(pairs), dtype=bool), (pairs[:, 0], pairs[:, 1])), shape=2 * (len(points),))
    _, label = connected_components(links, directed=False)
    size = np.bincount(label)
    rank = np.full(len(size), -1, dtype=np.int64)
    order = np.argsort(-size, kind="stable")
    order = order[size[order] >= least_members]
    rank[order] = np.arange(len(order))
    return np.asarray(rank[label])
