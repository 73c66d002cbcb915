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

from eim_ros.core.checks import check_keywords, expect
from eim_ros.core.deadlines import OutOfTime, is_past, with_grace
from eim_ros.core.errors import ConfigurationError, RobotError
from eim_ros.ik.candidates import ErrorCode, Pool
from eim_ros.ik.constraints import Constraints
from eim_ros.ik.order import UNORDERED, Ranking, distinct_in_time
from eim_ros.ik.prior import EVEN_SOLUTIONS, UNIFORM_CONFIGURATIONS, ConditionalMixture, Conditioning, IKModel, Proposal
from eim_ros.ik.problem import Finding, Goal, outcome_of
from eim_ros.ik.request import SampleOptions, SampleRequest
from eim_ros.ik.solutions import Samples
from eim_ros.ik.strategies import Finder
from eim_ros.ik.strategies.restarts import DISTINCT_TOLERANCE
from eim_ros.kinematics import CollisionOptions, Obstacle, Robot
from eim_ros.kinematics.collision import collision_model
from eim_ros.kinematics.obstacles import checked_obstacles
from eim_ros.kinematics.poses import check_pose
from eim_ros.kinematics.robot import with_tool

if TYPE_CHECKING:
    from typing_extensions import Unpack


FloatArray = npt.NDArray[np.float64]

RAW_AT_ONCE = 8192  # samples between two looks at the clock
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
        expect(options, CollisionOptions, "options")
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
        sampler._obstacles = checked_obstacles(obstacles)
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
        """Do now what the first request would have to wait for: read shapes for collisions, and prepare obstacles.

        What is prepared is used by the thread that calls this; others prepare the tree of the obstacles again.
        """
        with contextlib.suppress(RobotError):  # of a shape that cannot be read: told to those who ask for collisions
            collision_model(self.robot).prepare()
            if self._obstacles:
                Constraints(obstacles=self._obstacles).scene(self.robot)

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
            Up to n solutions; empty and false if there is none, and `Samples.best_attempt` is what came closest. With
            `refine=False` n raw samples, marked valid or not.

        Raises
        ------
        PoseError, JointStateError, ConfigurationError, ConstraintError
            If an argument is malformed. Not finding a solution is no exception, see `Samples.error_code`.
        """
        check_keywords(options, SampleOptions.__annotations__, "Sampler.sample", ("pose", "n", "random_seed"))
        return self.answer(SampleRequest(pose, n, random_seed, **options))

    def answer(self, request: SampleRequest) -> Samples:
        """As `sample`, of a request; its timeout counts from here."""
        started = time.perf_counter()
        expect(request, SampleRequest, "request")
        wanted = self.fitted(request)
        deadline = started + wanted.timeout
        ranking = Ranking.of(wanted, self.prefers)
        if ranking.needs_density and not self.n_experts:
            raise ConfigurationError("ordering by density needs a model; without one there is none", ranking.order)
        try:
            goal = Goal.of(self.robot, wanted, deadline)
        except OutOfTime as error:
            return not_begun(self.robot, f"timed out: {error}", time.perf_counter() - started)
        density = self.conditioning.density(self.conditioning.contexts(goal, wanted.random_seed))
        conditional = density.conditional
        finder = Finder(wanted, goal, conditional, deadline, ranking, self.n_experts > 0, self.prefers)
        log_prob: FloatArray | None = None
        if wanted.distribution is not None:
            found, log_prob = finder.draw()
            ranking = Ranking(UNORDERED)
        elif wanted.refine:
            found = finder.find()
        elif not self.n_experts:
            raise ConfigurationError("raw samples need a model; without one every sample is refined", wanted.refine)
        else:
            found = self._raw(wanted, goal, conditional)
        pool = found.pool
        if wanted.distinct and (wanted.posture is not None or not wanted.refine):
            kept, is_whole = distinct_in_time(self.robot, pool.positions, DISTINCT_TOLERANCE, with_grace(deadline))
            pool, found = pool.pick(kept), replace(found, out_of_time=found.out_of_time or not is_whole)
        code, message = outcome_of(found, pool, wanted, goal)
        best = pool.pick(slice(0)) if pool.valid.any() else pool.best()
        if wanted.refine and not pool.valid.all():  # a caller may execute whatever is returned
            log_prob = None if log_prob is None else log_prob[pool.valid]
            pool = pool.chosen()
        if ranking.is_fair and len(pool) > wanted.n:
            pool = pool.pick(slice(wanted.n))
        if len(pool) <= 1:
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
            found.worth,
            best.positions[0] if len(best) else None,
            (float(best.position_error[0]), float(best.orientation_error[0])) if len(best) else None,
        )

    @staticmethod
    def _raw(wanted: SampleRequest, goal: Goal, conditional: ConditionalMixture) -> Finding:
        """Samples of the model as they are, as many as there is time for, at least some."""
        rng, parts = np.random.default_rng(wanted.random_seed), list[Pool]()
        for first in range(0, wanted.n, RAW_AT_ONCE):
            if first and is_past(goal.deadline):
                break
            parts.append(goal.verified(*conditional.sample(min(RAW_AT_ONCE, wanted.n - first), rng)))
        pool = Pool.all_of(parts)
        return Finding(pool, len(pool) < wanted.n)


def not_begun(robot: Robot, message: str, elapsed: float = 0.0) -> Samples:
    """The answer to a pose for which no time was left."""
    nothing, no_rows = np.empty(0), np.empty((0, robot.dof))
    none, nobody = np.empty(0, dtype=np.bool_), np.empty(0, dtype=np.uint32)
    return Samples(robot.joint_names, no_rows, nothing, nothing, none, nobody, ErrorCode.TIMED_OUT, message, elapsed)


def check_sampler(sampler: Sampler) -> None:
    """`ConfigurationError` for what cannot answer a request."""
    if not callable(getattr(sampler, "answer", None)):
        raise ConfigurationError(f"the sampler must be a Sampler, got {sampler!r}", sampler)
