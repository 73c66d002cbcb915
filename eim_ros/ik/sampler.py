"""Sampled, verified inverse kinematics: propose from the mixture, refine, verify, select.

Every configuration returned as valid was checked by forward kinematics against the requested pose and against the
limits. The mixture proposes first; where its proposals fail, uniform seeds are blended in, so that no pose is lost
that uniform restarts would solve.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from eim_ros.core.checks import check_keywords, expect, names_wrong_keywords
from eim_ros.core.deadlines import OutOfTime, is_past, with_grace
from eim_ros.core.errors import ConfigurationError, JointStateError, RobotError
from eim_ros.ik.batch import answer_batch, answer_blocks
from eim_ros.ik.candidates import Pool
from eim_ros.ik.completeness import Completeness
from eim_ros.ik.constraints import Constraints
from eim_ros.ik.order import UNORDERED, Order, Posture, Ranking, distinct_in_time
from eim_ros.ik.paths import JointPath, follow_path
from eim_ros.ik.prior import EVEN_SOLUTIONS, UNIFORM_CONFIGURATIONS, ConditionalMixture, Conditioning, IKModel, Proposal
from eim_ros.ik.problem import Finding, Goal, outcome_of
from eim_ros.ik.request import SampleRequest
from eim_ros.ik.solutions import BatchSamples, Samples
from eim_ros.ik.strategies import Finder
from eim_ros.ik.strategies.restarts import DISTINCT_TOLERANCE
from eim_ros.kinematics import CollisionOptions, Obstacle, Robot
from eim_ros.kinematics.collision import collision_model
from eim_ros.kinematics.poses import check_pose, check_poses, is_position, pose_from

if TYPE_CHECKING:
    pass


FloatArray = npt.NDArray[np.float64]

RAW_AT_ONCE = 8192  # samples between two looks at the clock
LONGEST = 1e6  # [s]; raw draws take as long as they take
N_NEAR = 128  # solutions among which the one of least cost is searched for
UNCONSTRAINED = Constraints()
Near: TypeAlias = npt.ArrayLike | Mapping[str, float] | Posture
Guarantee: TypeAlias = Completeness | Literal["certified"] | None
Density: TypeAlias = Literal["uniform", "model"] | Posture | Callable[[FloatArray], npt.ArrayLike]
MOST_TOOLS = 16  # that are kept; one more costs reading the description again


class Sampler:
    """Draws configurations that reach a pose.

    Without a model all solutions count equally, and densities are NaN. A model adds a density and an order.

    Parameters
    ----------
    robot : Robot, str or Path, optional
        A robot, or whatever `Robot` is made of. Default: the robot of the model.
    tip, base : str, optional
        Links between which the arm lies, for a robot that is given by its name or file.
    model : IKModel, str or Path, optional
        A model, its file, or the name of an included one.
    constraints : Constraints
        What every configuration must satisfy.

    Attributes
    ----------
    robot : Robot
    constraints : Constraints
    training : mapping
        Record of the model's training; empty without a model.
    """

    def __init__(
        self,
        robot: Robot | str | Path | None = None,
        tip: str | None = None,
        *,
        base: str | None = None,
        model: IKModel | str | Path | None = None,
        constraints: Constraints = UNCONSTRAINED,
    ) -> None:
        self.constraints = expect(constraints, Constraints, "constraints")
        if isinstance(model, (str, Path)):
            model = IKModel.load(model, robot, tip, base=base)
        elif model is not None:
            expect(model, IKModel, "model")
            if robot is not None:
                model = model.for_robot(robot, tip, base=base)
        if model is None:
            if robot is None:
                raise ConfigurationError("a sampler needs a robot or a model")
            arm = robot if isinstance(robot, Robot) else Robot(robot, tip, base=base)
            self.training: Mapping[str, Any] = {}
            self._serve(arm, Conditioning.none(arm.dof))
        else:
            self.training = model.training
            self._serve(model.robot, Conditioning(model.context_kind, Proposal(model.content), model.placement))

    def _serve(self, robot: Robot, conditioning: Conditioning) -> None:
        self.robot, self.conditioning = robot, conditioning
        self._with_tools = OrderedDict[bytes, Sampler]()

    @classmethod
    def load(
        cls,
        model: str | Path,
        robot: Robot | str | Path | None = None,
        tip: str | None = None,
        *,
        base: str | None = None,
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
        return cls(robot, tip, base=base, model=model)

    def with_tool(self, tool: npt.ArrayLike) -> Sampler:
        """The same with a tool on the tip link, whose tip reaches the poses.

        Parameters
        ----------
        tool : (4, 4) array_like
            Pose of the tool's tip in the frame of the tip link [m].
        """
        pose = pose_from(tool) if is_position(tool) else check_pose(tool)
        key = pose.tobytes()
        sampler = self._with_tools.get(key)
        if sampler is None:
            sampler = self._with_tools[key] = copy.copy(self)
            sampler._serve(self.robot.with_tool(pose), self.conditioning.carrying(pose))
            if len(self._with_tools) > MOST_TOOLS:
                self._with_tools.popitem(last=False)
        return sampler

    def with_tip(self, link: str) -> Sampler:
        """Return a sampler for another tip link of the same URDF."""
        sampler = self._changed()
        if self.n_experts:
            raise ConfigurationError("a model is for one tip link: give Sampler.load another one", link)
        robot = self.robot.with_tip(link)
        sampler._serve(robot, Conditioning.none(robot.dof))
        return sampler

    def with_constraints(self, constraints: Constraints | None = None, **changes: Any) -> Sampler:
        """Return a sampler with other constraints.

        Parameters
        ----------
        constraints : Constraints, optional
            Default: those of this sampler.
        **changes
            Fields of `Constraints` to be replaced, such as `clearance=0.02`.
        """
        base = self.constraints if constraints is None else expect(constraints, Constraints, "constraints")
        check_keywords(changes, {entry.name: entry for entry in fields(Constraints)}, "Sampler.with_constraints")
        sampler = self._changed()
        sampler.constraints = replace(base, **changes) if changes else base
        return sampler

    def with_obstacles(self, obstacles: Sequence[Obstacle]) -> Sampler:
        """Return a sampler that avoids these obstacles (base frame) instead of its present ones.

        Parameters
        ----------
        obstacles : sequence of Box, Sphere, Cylinder, Capsule, Mesh or PointCloud
        """
        return self.with_constraints(obstacles=obstacles)

    def with_collision_options(self, options: CollisionOptions) -> Sampler:
        """Return a sampler of a robot whose collision shapes are read in another way."""
        sampler = self._changed()
        sampler.robot = self.robot.with_collision_options(options)
        return sampler

    def _changed(self) -> Sampler:
        sampler = copy.copy(self)
        sampler._with_tools = OrderedDict()
        return sampler

    def resolved(self, request: SampleRequest) -> SampleRequest:
        """Return a request that was checked for the robot, and also avoids the obstacles of the sampler."""
        resolved = request.resolved(self.robot, self.context_kind)
        ours = self.constraints.obstacles
        if not ours or resolved.constraints is self.constraints:
            return resolved
        constraints = resolved.constraints or UNCONSTRAINED
        known = set(map(id, constraints.obstacles))
        more = [obstacle for obstacle in ours if id(obstacle) not in known]
        if not more:
            return resolved
        return replace(resolved, constraints=replace(constraints, obstacles=(*constraints.obstacles, *more)))

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
            if self.constraints.obstacles:
                self.constraints.scene(self.robot)

    @property
    def has_preference(self) -> bool:
        """Whether there is a model that prefers some configurations to others, by the data it was trained on."""
        indifferent = self.training.get("data_source") in (UNIFORM_CONFIGURATIONS, EVEN_SOLUTIONS)
        return self.n_experts > 0 and not indifferent

    @names_wrong_keywords
    def solve(
        self,
        pose: npt.ArrayLike,
        near: Near | None = None,
        *,
        seed: int | None = None,
        timeout: float = 1.0,
    ) -> Samples:
        """Return one solution, or none.

        Without `near` this is the fastest call. With a configuration `near` it is the closest solution: the global
        minimum if solutions are points or curves. With some joints, or a `Posture`, it is the best of 128 solutions
        after null-space optimisation.

        Parameters
        ----------
        pose : array_like
            Pose of the tip in the base frame, in any of the forms of `pose_from`. Three numbers are a position.
        near : (dof,) array_like, mapping of str to float, or Posture, optional
            [rad] or [m]; a mapping by joint names.
        seed : int, optional
            The same seed gives the same answer, unless the timeout ends the search. Default: a fresh one.
        timeout : float
            Of the complete call [s].

        Raises
        ------
        PoseError, JointStateError, ConfigurationError, ConstraintError
            If an argument is malformed. A pose without a solution is no error, see `Samples.error_code`.

        Examples
        --------
        >>> from eim_ros import Sampler
        >>> sampler = Sampler("panda")
        >>> solution = sampler.solve([0.4, 0.1, 0.5, 1.0, 0.0, 0.0, 0.0], seed=0)
        >>> bool(solution), solution.q.shape
        (True, (1, 7))
        """
        return self._nearest(self.answer(self._one(pose, near, seed, timeout)), near)

    @names_wrong_keywords
    def sample(
        self,
        pose: npt.ArrayLike,
        n: int = 100,
        *,
        near: Near | None = None,
        posture: Posture | Mapping[str, float] | None = None,
        order: Order | None = None,
        diversity: float | None = None,
        seed: int | None = None,
        timeout: float = 1.0,
    ) -> Samples:
        """Return up to `n` distinct solutions: any two differ by more than 0.01 rad or m in some joint.

        Parameters
        ----------
        pose : array_like
            See `solve`.
        n : int
            Number of solutions, 1 to 1000000.
        near : (dof,) array_like or mapping of str to float, optional
            Configuration; the nearest solutions come first. A mapping names every joint.
        posture : Posture, or mapping of str to float, optional
            Preferred values of some joints. Each solution is moved along the null space to a local minimum of its cost.
        order : str or mapping of str to float, optional
            Criterion, or weights of several, see `Ranking`. Default: "posture" or "distance" if one is given, "density"
            if the model has a preference, else "none".
        diversity : float, optional
            From 0 (as the model prefers) to 1 (evenly over the set of solutions). Default: from n = 16 on, if nothing
            is preferred, 1 for curves, else 0.85; otherwise 0.
        seed, timeout
            See `solve`.
        """
        return self.answer(
            self._many(
                pose, n, near=near, posture=posture, order=order, diversity=diversity, seed=seed, timeout=timeout
            )
        )

    @names_wrong_keywords
    def solve_all(
        self,
        pose: npt.ArrayLike,
        max_spacing: float = 0.3,
        guarantee: Guarantee = None,
        *,
        near: Near | None = None,
        order: Order | None = None,
        max_solutions: int = 10_000,
        seed: int | None = None,
        timeout: float = 1.0,
    ) -> Samples:
        """Return all solutions, so that neighbours along a self-motion are at most `max_spacing` apart.

        `Samples.completeness` reports the self-motion components. A set of two or more dimensions is covered by
        restarts; the answer then claims nothing about completeness.

        Parameters
        ----------
        pose : array_like
            See `solve`.
        max_spacing : float
            At least 0.001 [rad, m]. Points in closed form, as of six joints, are returned all.
        guarantee : Completeness or "certified", optional
            With a `Completeness` the search continues until its bound holds, or time is up. "certified" uses closed
            forms alone.
        near, order
            See `sample`.
        max_solutions : int
            More are refused for curves, and not searched for on larger sets.
        seed, timeout
            See `solve`.

        Raises
        ------
        ConfigurationError
            Also if no such guarantee can be given for the arm.
        """
        return self.answer(
            self._all(
                pose,
                max_spacing,
                guarantee,
                near=near,
                order=order,
                max_solutions=max_solutions,
                seed=seed,
                timeout=timeout,
            )
        )

    @names_wrong_keywords
    def draw(
        self,
        pose: npt.ArrayLike,
        n: int = 100,
        density: Density = "uniform",
        *,
        temperature: float = 1.0,
        guarantee: Guarantee = None,
        seed: int | None = None,
        timeout: float = 1.0,
    ) -> Samples:
        """Return independent random draws from the set of solutions; equal draws may occur.

        `Samples.log_prob` is the log density of each, normalised on the set, and `Samples.effective_size` as many
        independent draws as these are equivalent to.

        Parameters
        ----------
        pose : array_like
            See `solve`.
        n : int
            Number of draws.
        density : "uniform", "model", Posture or callable
            Uniform by length, area or volume, with joints scaled by their ranges; the density of the model on the set;
            or exp(-cost / temperature) for the cost of a posture, or of a function of configurations (n, dof) to (n,).
            An infinite cost excludes a configuration.
        temperature : float
            In units of the cost.
        guarantee
            See `solve_all`.
        seed, timeout
            See `solve`.

        Raises
        ------
        ConfigurationError
            Also if more than six directions of the joints are free.
        """
        return self.answer(
            self._draws(pose, n, density, temperature=temperature, guarantee=guarantee, seed=seed, timeout=timeout)
        )

    @names_wrong_keywords
    def propose(self, pose: npt.ArrayLike, n: int = 100, *, seed: int | None = None) -> Samples:
        """Return raw draws of the model given the pose. They are not solved: `Samples.valid` marks the solutions.

        This is the only call that returns configurations which may miss the pose.
        """
        if not self.n_experts:
            raise ConfigurationError("raw samples need a model", None)
        return self.answer(self._asked(pose, n, seed, LONGEST, refine=False))

    @names_wrong_keywords
    def follow(
        self,
        poses: npt.ArrayLike,
        near: Near | None = None,
        *,
        max_step: float = 0.3,
        n_candidates: int = 48,
        seed: int | None = None,
        timeout: float = 5.0,
    ) -> JointPath:
        """Return one configuration per pose, so that no joint jumps where a path without jumps exists.

        Joint values are continuous along the path. The message names the first jump, and whether it was proven to be
        unavoidable.

        Parameters
        ----------
        poses : (n_poses, 4, 4) array_like
            Poses of the tip in the base frame.
        near : (dof,) array_like or mapping of str to float, optional
            Present configuration; the step to the first pose counts, too.
        max_step : float
            Largest change of a joint between two poses [rad] or [m].
        n_candidates : int
            Solutions of a pose, if solutions are neither points nor curves.
        seed, timeout
            See `solve`.
        """
        began = time.perf_counter()
        wanted = check_poses(poses)
        request = self._asked(wanted[0], n_candidates, seed, timeout, near=self._whole(near))
        return follow_path(self, wanted, request, max_step, began)

    @names_wrong_keywords
    def solve_batch(
        self,
        poses: npt.ArrayLike,
        near: Near | None = None,
        *,
        n_threads: int | None = None,
        seed: int | None = None,
        timeout: float = 1.0,
    ) -> BatchSamples:
        """Return one solution, or none, of each pose, as `solve`; the timeout is for all poses together [s].

        The i-th pose uses `seed + i`. Default of `n_threads`: one for each core.
        """
        began, wanted = time.perf_counter(), check_poses(poses)
        request = self._asked(wanted[0], 1, seed, timeout, near=self._whole(near))
        return answer_batch(self, wanted, request, n_threads, began)

    @names_wrong_keywords
    def sample_batch(
        self,
        poses: npt.ArrayLike,
        n: int = 100,
        *,
        near: Near | None = None,
        order: Order | None = None,
        diversity: float | None = None,
        n_threads: int | None = None,
        seed: int | None = None,
        timeout: float = 1.0,
    ) -> BatchSamples:
        """Return up to `n` distinct solutions of each pose, as `sample`; the timeout is for all poses together [s].

        The i-th pose uses `seed + i`. Poses that were not begun in time have the code TIMED_OUT and no best attempt.

        Raises
        ------
        PoseError
            Also if one of the poses is no rigid transform; the message names its index.
        """
        began, wanted = time.perf_counter(), check_poses(poses)
        request = self._many(
            wanted[0], n, near=near, posture=None, order=order, diversity=diversity, seed=seed, timeout=timeout
        )
        return answer_batch(self, wanted, request, n_threads, began)

    def stream(
        self,
        poses: npt.ArrayLike,
        operation: Callable[..., Samples] | None = None,
        *,
        block: int | None = None,
        n_threads: int | None = None,
        seed: int | None = None,
        timeout: float = 1.0,
        **arguments: Any,
    ) -> Iterator[BatchSamples]:
        """Apply an operation to many poses, and yield blocks as they are found: memory is that of one block.

        Parameters
        ----------
        poses : (n_poses, 4, 4) array_like
        operation : Sampler.sample, Sampler.solve, Sampler.solve_all or Sampler.draw
            Default: `Sampler.sample`.
        block : int, optional
            Poses of a block. Default: so many that a block has about 65536 rows.
        n_threads, seed, timeout
            See `sample_batch`.
        **arguments
            Further arguments of the operation.
        """
        began, wanted = time.perf_counter(), check_poses(poses)
        name = "sample" if operation is None else getattr(operation, "__name__", "")
        builders: dict[str, Callable[..., SampleRequest]] = {
            "solve": self._one,
            "sample": self._many,
            "solve_all": self._all,
            "draw": self._draws,
        }
        if name not in builders:
            raise ConfigurationError(
                f"operation must be Sampler.{', Sampler.'.join(builders)}, got {operation!r}", operation
            )
        signature = inspect.signature(getattr(Sampler, name))
        known = dict.fromkeys(signature.parameters.keys() - {"self", "pose", "seed", "timeout"})
        named = ("poses", "block", "n_threads", "seed", "timeout")
        check_keywords(arguments, known, f"Sampler.stream of {name}", named)
        if name == "solve":
            arguments["near"] = self._whole(arguments.get("near"))
        bound = signature.bind(self, wanted[0], **arguments, seed=seed, timeout=timeout)
        bound.apply_defaults()
        del bound.arguments["self"]
        request = builders[name](**bound.arguments)
        return answer_blocks(self, wanted, request, block, n_threads, began)

    def _asked(self, pose: npt.ArrayLike, n: int, seed: int | None, timeout: float, **options: Any) -> SampleRequest:
        constraints = self.constraints
        return SampleRequest(
            pose,
            n,
            seed,
            timeout=timeout,
            position_only=constraints.position_only,
            position_tolerance=constraints.position_tolerance,
            orientation_tolerance=constraints.orientation_tolerance,
            constraints=constraints,
            **options,
        )

    # Requests of the operations. Defaults stand in the operations alone.

    def _one(self, pose: npt.ArrayLike, near: Near | None, seed: int | None, timeout: float) -> SampleRequest:
        if isinstance(near, (Posture, Mapping)) and not self._names_all(near):
            return self._asked(pose, N_NEAR, seed, timeout, posture=near, explore=1.0)
        return self._asked(pose, 1, seed, timeout, near=self._whole(near))

    def _many(
        self,
        pose: npt.ArrayLike,
        n: int,
        *,
        near: Near | None,
        diversity: float | None,
        seed: int | None,
        timeout: float,
        **options: Any,
    ) -> SampleRequest:
        return self._asked(pose, n, seed, timeout, near=self._whole(near), explore=diversity, **options)

    def _all(
        self,
        pose: npt.ArrayLike,
        max_spacing: float,
        guarantee: Guarantee,
        *,
        near: Near | None,
        seed: int | None,
        timeout: float,
        **options: Any,
    ) -> SampleRequest:
        options |= _guaranteed(guarantee)
        return self._asked(pose, 1, seed, timeout, separation=max_spacing, near=self._whole(near), **options)

    def _draws(
        self,
        pose: npt.ArrayLike,
        n: int,
        density: Density,
        *,
        temperature: float,
        guarantee: Guarantee,
        seed: int | None,
        timeout: float,
    ) -> SampleRequest:
        options = _guaranteed(guarantee)
        if isinstance(density, Posture):
            options |= {"distribution": "posture", "posture": density}
        elif isinstance(density, str) and density not in ("uniform", "model"):
            raise ConfigurationError(
                f"density must be 'uniform', 'model', a Posture or a function of configurations, got {density!r}",
                density,
            )
        else:
            options["distribution"] = density
        return self._asked(pose, n, seed, timeout, temperature=temperature, **options)

    def _names_all(self, near: Posture | Mapping[str, float]) -> bool:
        return not isinstance(near, Posture) and set(near) == set(self.robot.joint_names)

    def _whole(self, near: Near | None) -> npt.ArrayLike | None:
        """Return `near` as one value per joint; a mapping is sorted by the robot's joints."""
        if near is None or not isinstance(near, (Posture, Mapping)):
            return near
        if isinstance(near, Posture) or not self._names_all(near):
            raise JointStateError(
                f"near must name every joint here ({', '.join(self.robot.joint_names)}); give posture, or call solve, "
                "to prefer values of some",
                near,
            )
        return [near[name] for name in self.robot.joint_names]

    @staticmethod
    def _nearest(samples: Samples, near: Near | None) -> Samples:
        if len(samples) <= 1 or not isinstance(near, (Posture, Mapping)):
            return samples
        message = f"the best of {len(samples)} solutions after null-space optimisation"
        return replace(samples.first(1), message=message)

    def answer(self, request: SampleRequest) -> Samples:
        """Answer a request in the form that the service and the command line use; its timeout counts from here."""
        started = time.perf_counter()
        expect(request, SampleRequest, "request")
        wanted = self.resolved(request)
        deadline = started + wanted.timeout
        ranking = Ranking.of(wanted, self.has_preference)
        if ranking.needs_density and not self.n_experts:
            raise ConfigurationError("ordering by density needs a model; without one there is none", ranking.order)
        try:
            goal = Goal.of(self.robot, wanted, deadline)
        except OutOfTime as error:
            return Samples.not_begun(self.robot.joint_names, f"timed out: {error}", time.perf_counter() - started)
        density = self.conditioning.density(self.conditioning.contexts(goal, wanted.random_seed))
        conditional = density.conditional
        finder = Finder(wanted, goal, conditional, deadline, ranking, self.n_experts > 0, self.has_preference)
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


def _guaranteed(guarantee: Guarantee) -> dict[str, Any]:
    if guarantee is None:
        return {}
    if isinstance(guarantee, Completeness):
        return {"until": guarantee}
    if isinstance(guarantee, str) and guarantee == "certified":
        return {"certified": True}
    raise ConfigurationError(f"guarantee must be a Completeness, 'certified' or None, got {guarantee!r}", guarantee)
