"""Sampled, verified inverse kinematics: propose from the mixture, refine, verify, select.

Every configuration returned as valid was checked by forward kinematics against the requested pose and against the
limits. The mixture proposes first; where its proposals fail, uniform seeds are blended in, so that no pose is lost
that uniform restarts would solve.
"""

from __future__ import annotations

import contextlib
import copy
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from eim_ros.errors import ConfigurationError, RobotError
from eim_ros.ik.all_solutions import MOST_RANKED, all_solutions
from eim_ros.ik.completeness import Completeness, FoundFamilies
from eim_ros.ik.conditioning import Conditioning
from eim_ros.ik.constraints import Constraints
from eim_ros.ik.distribution import draw_on_set, n_pieces, points_of
from eim_ros.ik.goal import Goal
from eim_ros.ik.model import EVEN_SOLUTIONS, UNIFORM_CONFIGURATIONS, IKModel
from eim_ros.ik.outcome import Finding, outcome_of
from eim_ros.ik.pool import Pool
from eim_ros.ik.proposal import ConditionalMixture, Proposal
from eim_ros.ik.ranking import UNORDERED, Ranking
from eim_ros.ik.request import MOST_SAMPLES, SampleOptions, SampleRequest
from eim_ros.ik.samples import Samples
from eim_ros.ik.search import DISTINCT_TOLERANCE, OUT_OF_REACH_SEEDS, Search
from eim_ros.ik.selection import distinct_rows, farthest_rows
from eim_ros.ik.traced_solutions import TracedSolutions, is_curve, nearby
from eim_ros.kinematics import CollisionOptions, Obstacle, Robot
from eim_ros.kinematics.collision import collision_model
from eim_ros.kinematics.pose import check_pose
from eim_ros.kinematics.tool import with_tool
from eim_ros.numerics.random import seed_fraction

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Sampler", "check_sampler"]

FloatArray = npt.NDArray[np.float64]

EXPLORE, FEWEST_TO_EXPLORE = 0.85, 16  # where so many are asked of a model that prefers none
SPREAD_FROM = 4.0  # more solutions for each wanted at explore = 1, from which those that are spread out are chosen
MOST_SPREAD = 2000  # wanted, at most: the choice takes time of their square
POSE_DIMENSIONS = 6
MOST_TOOLS = 16  # that are kept; one more costs reading the description again


class Sampler:
    """Draws configurations that reach a pose.

    Parameters
    ----------
    model : IKModel
    """

    _obstacles: Sequence[Obstacle] = ()

    def __init__(self, model: IKModel) -> None:
        if not isinstance(model, IKModel):
            raise ConfigurationError(
                f"a sampler is made of an IKModel, or by Sampler.load and Sampler.of, got {model!r}", model
            )
        self.training = model.training
        self._serve(model.robot, Conditioning(model.context_kind, Proposal(model.content), model.placement))

    def _serve(self, robot: Robot, conditioning: Conditioning) -> None:
        self.robot, self.conditioning = robot, conditioning
        self._with_tools = OrderedDict[bytes, Sampler]()

    @classmethod
    def of(cls, robot: Robot | str | Path, base: str | None = None, tip: str | None = None) -> Sampler:
        """All solutions of an arm, without a model: seeds are uniform, nothing is preferred, densities are NaN.

        Parameters
        ----------
        robot : Robot, str or Path
            Or what `Robot.load` takes, with its base and tip link.
        """
        given = robot if isinstance(robot, Robot) else Robot.load(robot, base, tip)
        sampler = cls.__new__(cls)
        sampler.training = {}
        sampler._serve(given, Conditioning.none(given.dof))
        return sampler

    @classmethod
    def load(
        cls, model: str | Path, robot: Robot | str | Path | None = None, base: str | None = None, tip: str | None = None
    ) -> Sampler:
        """Read a model file; `ModelFileError` if it is damaged, of another schema, or for other kinematics.

        Requests are served on the CPU, where one takes a fraction of a transfer to a GPU.

        Parameters
        ----------
        model : str or Path
            Or the name of a shipped one.
        robot : Robot, str or Path, optional
            The robot that is served, with names and limits of its own; that of the model if missing. See
            `IKModel.load`, also for base and tip link.
        """
        return cls(IKModel.load(model, robot, base, tip))

    def with_tool(self, tool: npt.ArrayLike) -> Sampler:
        """The same with a tool on the tip link, whose tip reaches the poses.

        Parameters
        ----------
        tool : (4, 4) array_like
            Pose of the tool's tip in the frame of the tip link [m].
        """
        pose = check_pose(tool)
        key = pose.tobytes()
        sampler = self._with_tools.get(key)
        if sampler is None:
            sampler = self._with_tools[key] = copy.copy(self)
            sampler._serve(with_tool(self.robot, pose), self.conditioning.carrying(pose))
            if len(self._with_tools) > MOST_TOOLS:
                self._with_tools.popitem(last=False)
        return sampler

    def with_collision(self, options: CollisionOptions) -> Sampler:
        """The same of a robot whose collision shapes are read in another way."""
        sampler = copy.copy(self)
        sampler.robot = replace(self.robot, collision=options)
        sampler._with_tools = OrderedDict()
        return sampler

    def among(self, obstacles: Sequence[Obstacle]) -> Sampler:
        """The same among obstacles, which every request is to avoid beside its own.

        Parameters
        ----------
        obstacles : sequence of Box, Sphere, Cylinder, Capsule, Mesh or PointCloud
            In the base frame; in place of those that there were.
        """
        sampler = copy.copy(self)
        sampler._obstacles = Constraints(obstacles=tuple(obstacles)).obstacles
        sampler._with_tools = OrderedDict()
        return sampler

    def fitted(self, request: SampleRequest) -> SampleRequest:
        """A request that was checked for the robot, with the obstacles that it is among."""
        fitted = request.fitted(self.robot, self.context_kind)
        if not self._obstacles:
            return fitted
        constraints = fitted.constraints or Constraints()
        beside = replace(constraints, obstacles=(*constraints.obstacles, *self._obstacles))
        return replace(fitted, constraints=beside)

    @property
    def n_experts(self) -> int:
        """Of the model; 0 without one."""
        return int(self.conditioning.proposal.n_experts)

    @property
    def context_kind(self) -> str:
        """Of the model: "position" or "pose"; the latter without one."""
        return self.conditioning.kind

    def prepare(self) -> None:
        """Do now what the first request would have to wait for: shapes for collisions are read."""
        with contextlib.suppress(RobotError):  # of a shape that cannot be read: told to those who ask for collisions
            collision_model(self.robot)

    @property
    def prefers(self) -> bool:
        """Whether there is a model that prefers some configurations to others, by the data it was trained on."""
        indifferent = self.training.get("data_source") in (UNIFORM_CONFIGURATIONS, EVEN_SOLUTIONS)
        return self.n_experts > 0 and not indifferent

    def sample(
        self,
        pose: npt.ArrayLike,
        n: int = 100,
        random_seed: int | None = None,
        **options: Unpack[SampleOptions],
    ) -> Samples:
        """Sample configurations for one pose.

        Parameters
        ----------
        pose : (4, 4) array_like
            Wanted pose of the tip in the base frame.
        n : int
            Number of configurations, >= 1.
        random_seed : int, optional
            At least 0. Fresh if missing.
        **options
            See `SampleRequest`.

        Returns
        -------
        Samples
            With `refine`: up to n valid configurations; if there is none, the best attempt, marked not valid.

        Raises
        ------
        PoseError, JointStateError, ConfigurationError, ConstraintError
            If an argument is malformed. Not finding a solution is no exception, see `Samples.error_code`.
        """
        return self.answer(SampleRequest(pose, n, random_seed, **options))

    def answer(self, request: SampleRequest) -> Samples:
        """As `sample`, of a request; its timeout counts from here."""
        started = time.perf_counter()
        wanted = self.fitted(request)
        ranking = Ranking.of(wanted, self.prefers)
        if ranking.needs_density and not self.n_experts:
            raise ConfigurationError("ordering by density needs a model; without one there is none", ranking.order)
        goal = Goal.of(self.robot, wanted)
        density = self.conditioning.density(self.conditioning.contexts(goal, wanted.random_seed))
        conditional, deadline = density.conditional, started + wanted.timeout
        log_prob: FloatArray | None = None
        if wanted.distribution is not None:
            found, log_prob = self._drawn_on_set(wanted, goal, conditional, deadline)
            ranking = Ranking(UNORDERED)
        elif wanted.refine:
            found = self._found(wanted, goal, conditional, deadline, ranking)
        elif not self.n_experts:
            raise ConfigurationError("raw samples need a model; without one every sample is refined", wanted.refine)
        else:
            found = Finding(goal.verified(*conditional.sample(wanted.n, np.random.default_rng(wanted.random_seed))))
        pool = found.pool
        if wanted.distinct and (wanted.posture is not None or not wanted.refine):
            pool = pool.pick(distinct_rows(self.robot, pool.positions, DISTINCT_TOLERANCE))
        code, message = outcome_of(found, pool, wanted, goal)
        if ranking.is_fair and len(pool) > wanted.n:
            pool = pool.pick(slice(wanted.n))
        if len(pool) == 1:
            ranking = Ranking(UNORDERED)
        if ranking.needs_density:
            if time.perf_counter() + density.seconds(len(pool)) < deadline:
                log_prob = conditional.log_prob(pool.positions)
            else:
                ranking, message = Ranking(UNORDERED), message + "; no time was left to order them by density"
        rows = ranking.rows(self.robot, pool, wanted.n, log_prob)
        picked = pool.pick(rows)
        return Samples(
            self.robot.joint_names,
            picked.positions,
            picked.position_error,
            picked.orientation_error,
            picked.valid,
            picked.expert,
            code,
            message,
            time.perf_counter() - started,
            density,
            None if log_prob is None else log_prob[rows],
            found.n_all,
            found.families,
        )

    def _found(
        self, wanted: SampleRequest, goal: Goal, conditional: ConditionalMixture, deadline: float, ranking: Ranking
    ) -> Finding:
        """Configurations in closed form where the arm has one, else spread over curves, else searched for."""
        known = all_solutions(goal, wanted, ranking)
        is_certain = known is not None and known.is_whole and not known.is_singular
        if known is not None and is_certain and len(known.pool):
            pool = known.pool
            if ranking.is_fair and ranking.needs_density and len(pool) > wanted.n:
                pool = _drawn(pool, conditional.log_prob(pool.positions), wanted)
            return Finding(pool, n_all=known.n_all, families=_points(known.n_all, wanted.until))
        if known is None and is_curve(goal) and goal.is_within_reach and self._traces(wanted, ranking):
            return self._traced(wanted, goal, conditional, deadline, ranking)
        if known is None and (wanted.until is not None or wanted.separation is not None) and not is_curve(goal):
            raise ConfigurationError(
                "until and separation are for solutions that are curves, or points in closed form: of an arm with one "
                "joint more than the pose takes, without tolerances, or of six joints; leave them out",
                wanted.until or wanted.separation,
            )
        pool, out_of_time = self._searched(wanted, goal, conditional, deadline, is_certain)
        n_all = 0.0 if is_certain and not pool.valid.any() else None
        if known is not None and len(known.pool):
            pool = known.pool.joined(pool.chosen())
            pool = pool.pick(distinct_rows(self.robot, pool.positions, DISTINCT_TOLERANCE))
        is_cut_short = False
        if wanted.preference is not None:
            pool, is_cut_short = goal.descended(pool, wanted.preference, deadline)
        is_singular = known is not None and known.is_singular
        families = _points(0.0, wanted.until) if n_all == 0.0 else None
        return Finding(pool, out_of_time and n_all is None, is_cut_short, n_all, is_singular, families)

    def _drawn_on_set(
        self, wanted: SampleRequest, goal: Goal, conditional: ConditionalMixture, deadline: float
    ) -> tuple[Finding, FloatArray | None]:
        """Draws from a distribution on the set of solutions; without any solution what the search comes to."""
        if wanted.distribution == "model" and not self.n_experts:
            raise ConfigurationError("distribution 'model' needs a model; 'uniform' needs none", wanted.distribution)
        families, piece, is_late = None, 1.0, False
        if is_curve(goal):
            traced = TracedSolutions.of(goal, seed_fraction(wanted.random_seed), wanted.until, deadline)
            families, is_late = traced.families, not traced.in_time
            pool, piece = traced.pieces(n_pieces(wanted.n))
        else:
            everything = replace(wanted, distribution=None, distinct=True, n=max(wanted.n, MOST_RANKED))
            pool = points_of(all_solutions(goal, everything, Ranking(UNORDERED)))
        if not len(pool):
            nothing = replace(wanted, distribution=None, until=None)
            return self._found(nothing, goal, conditional, deadline, Ranking(UNORDERED)), None
        drawn, log_prob = draw_on_set(pool, piece, str(wanted.distribution), conditional, wanted.n, wanted.random_seed)
        return Finding(drawn, is_late, families=families), log_prob

    def _searched(
        self, wanted: SampleRequest, goal: Goal, conditional: ConditionalMixture, deadline: float, is_hopeless: bool
    ) -> tuple[Pool, bool]:
        """What the search finds, and whether time was up; where there is known to be nothing, the best attempt."""
        share = self._explore(wanted.explore, wanted.n, goal.position_only)
        seed = seed_fraction(wanted.random_seed)
        search = Search(goal, conditional, seed, bool(wanted.distinct), wanted.reference, share)
        if is_hopeless:
            search.patience = OUT_OF_REACH_SEEDS
        is_surface = goal.redundancy > 1 or goal.constraints.tolerances is not None
        has_wish = wanted.reference is not None or wanted.preference is not None
        if not (share and is_surface and wanted.n <= MOST_SPREAD) or has_wish:
            return search.run(wanted.n, deadline)
        search.distinct = False  # near-duplicates are not far from each other
        pool, is_late = search.run(int(wanted.n * (1.0 + SPREAD_FROM * share)), deadline)
        pool = pool.pick(farthest_rows(self.robot, pool.positions, wanted.n))
        if wanted.distinct:
            pool = pool.pick(distinct_rows(self.robot, pool.positions, DISTINCT_TOLERANCE))
        return pool, is_late and len(pool) < wanted.n

    def _traces(self, wanted: SampleRequest, ranking: Ranking) -> bool:
        """Whether a request, whose solutions are curves, asks for all of them, or for the nearest one."""
        if wanted.until is not None or wanted.separation is not None or ranking.criterion == "distance":
            return True
        if wanted.explore is not None:
            return wanted.explore == 1.0
        return not self.prefers and wanted.n >= FEWEST_TO_EXPLORE

    def _traced(
        self, wanted: SampleRequest, goal: Goal, conditional: ConditionalMixture, deadline: float, ranking: Ranking
    ) -> Finding:
        """Of curves, traced from end to end; where some could not be, the search adds to them."""
        near = wanted.reference if ranking.criterion == "distance" and wanted.preference is None else None
        if near is not None and wanted.n == 1 and wanted.until is None and (pool := nearby(goal, near)) is not None:
            return Finding(pool)
        traced = TracedSolutions.of(goal, seed_fraction(wanted.random_seed), wanted.until, deadline)
        if near is None or wanted.separation is not None:
            pool = traced.even(wanted, deadline)
        else:
            pool = traced.nearest(near, wanted.n, deadline)
        out_of_time = wanted.until is not None and not traced.in_time and time.perf_counter() >= deadline
        if not traced.is_traced or not len(pool):
            is_empty = traced.in_time and not len(traced.families.traced)
            asked = wanted if wanted.separation is None else wanted.with_n(max(len(pool), 1))
            more, was_late = self._searched(asked, goal, conditional, deadline, is_empty)
            out_of_time = out_of_time or was_late
            if len(pool):
                pool = more.chosen().joined(pool)
                pool = pool.pick(distinct_rows(self.robot, pool.positions, DISTINCT_TOLERANCE))
            else:
                pool = more
        is_cut_short = False
        if wanted.preference is not None:
            pool, is_cut_short = goal.descended(pool, wanted.preference, deadline)
        return Finding(pool, out_of_time, is_cut_short, families=traced.families)

    def _explore(self, explore: float | None, n: int, position_only: bool) -> float:
        if explore is not None:
            return float(explore)
        curves = not position_only and self.robot.dof <= POSE_DIMENSIONS + 1
        is_even = self.n_experts == 0 or (curves and not self.prefers)
        return EXPLORE if is_even and n >= FEWEST_TO_EXPLORE else 0.0


def check_sampler(sampler: Sampler) -> None:
    """`ConfigurationError` for what cannot answer a request."""
    if not callable(getattr(sampler, "answer", None)):
        raise ConfigurationError(f"the sampler must be a Sampler, got {sampler!r}", sampler)


def _points(n_all: float, until: Completeness | None) -> FoundFamilies | None:
    """Solutions that are points, all of them known, unless they are too many to be told one by one."""
    if n_all > MOST_SAMPLES:
        return None
    n = int(n_all)
    return FoundFamilies.of(np.zeros(n), np.zeros(n, np.bool_), np.ones(n, np.bool_), 0.0, until or Completeness())


def _drawn(pool: Pool, log_prob: FloatArray, wanted: SampleRequest) -> Pool:
    """n rows of a pool drawn by their densities without replacement (Gumbel: the largest of log density plus noise)."""
    noise = np.random.default_rng(wanted.random_seed).gumbel(size=len(pool))
    return pool.pick(np.argsort(-(log_prob + noise), kind="stable")[: wanted.n])
