"""`Sampler`: the operations of inverse kinematics on one robot, its constraints and, optionally, a model.

Every row of an answer was verified by forward kinematics against the pose, the limits and the constraints. Only
`Sampler.propose` returns rows that may be invalid, and marks them.
"""

from __future__ import annotations

import contextlib
import inspect
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from numbers import Integral
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from eim_ros.core.arrays import FloatArray
from eim_ros.core.checks import LARGEST, as_number, check_keywords, expect, is_number
from eim_ros.core.deadlines import OutOfTime, with_grace
from eim_ros.core.errors import ConfigurationError, PoseError, RobotError
from eim_ros.ik.batch import BatchTask, answer_batch, answer_blocks
from eim_ros.ik.completeness import Completeness
from eim_ros.ik.constraints import Constraints
from eim_ros.ik.nearest_pose import NearestPose, Priority, checked_priority, nearest_pose
from eim_ros.ik.order import AS_FOUND, Order, Ordering, Posture, distinct_in_time
from eim_ros.ik.path_smoothing import Objective
from eim_ros.ik.paths import JointPath, follow_path, largest_steps
from eim_ros.ik.prior import EVEN_SOLUTIONS, NO_COMPONENTS, UNIFORM_CONFIGURATIONS, IKModel, MixtureEvaluator, Prior
from eim_ros.ik.problem import (
    MAX_SOLUTIONS,
    ONE,
    Aim,
    Covering,
    Density,
    Draws,
    Guarantee,
    Problem,
    Proposals,
    Setup,
    Spread,
    outcome,
)
from eim_ros.ik.revolutions import in_revolution_of
from eim_ros.ik.shortcuts import UNKNOWN, UNKNOWN_ERRORS, Shortcut, shortcut_of
from eim_ros.ik.solutions import Solutions
from eim_ros.ik.strategies import find
from eim_ros.ik.strategies.restarts import DISTINCT_TOLERANCE
from eim_ros.kinematics import CollisionOptions, Obstacle, Robot
from eim_ros.kinematics.collision import collision_model
from eim_ros.kinematics.poses import check_pose, check_poses, is_position, pose_from, unstamped

Near: TypeAlias = npt.ArrayLike | Mapping[str, float] | Posture

N_NEAR = 128  # number of solutions that are compared by cost
LONGEST = 1e6  # [s]; proposals take as long as they need
UNCONSTRAINED = Constraints()
MOST_AIMS = 64  # number of different requests that are prepared
ARRAYS = (list, tuple, np.ndarray)
MOST_TOOLS = 16  # number of tools with a cached sampler; for any other tool the description is read again


class Sampler:
    """Computes configurations that reach a pose.

    Every row of an answer was checked by forward kinematics, against the limits and against the constraints. Without a
    model all solutions have equal weight; a model adds a density and an order. Samplers are immutable: `with_*` returns
    changed copies, which share prepared shapes.

    Parameters
    ----------
    robot : Robot, str or Path, optional
        A robot, or an argument of `Robot`: a name, a file or the text of a description. Default: the robot of the
        model.
    tip, base : str, optional
        Tip and base link of the arm, if the robot is given by its name or file.
    model : IKModel, str or Path, optional
        A model, its file, or the name of an included one.
    constraints : Constraints
        Conditions that every configuration satisfies.

    Attributes
    ----------
    robot : Robot
    constraints : Constraints
    model : IKModel or None
    training : mapping
        Record of the model's training; empty without a model.

    Raises
    ------
    RobotError, ModelFileError
        If the robot or the model cannot be read, or they do not fit each other.
    ConstraintError
        If the constraints do not fit the robot.

    Examples
    --------
    >>> from eim_ros import Sampler
    >>> sampler = Sampler("panda")
    >>> pose = [0.4, 0.1, 0.5, 1.0, 0.0, 0.0, 0.0]
    >>> len(sampler.sample(pose, 20, seed=0))
    20
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
        self.model: IKModel | None
        self.training: Mapping[str, Any]
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
            self.model, self.training = None, {}
            self._serve(arm, Prior.none(arm.dof))
        else:
            self.model, self.training = model, model.training
            self._serve(model.robot, Prior(model.context_kind, MixtureEvaluator(model.content), model.offset))

    def _serve(self, robot: Robot, prior: Prior) -> None:
        self.robot, self.prior = robot, prior
        self._no_attempt = np.full((1, robot.dof), np.nan)
        self._with_tools = OrderedDict[bytes, Sampler]()
        self._resolve()

    def _resolve(self) -> None:
        """Check the robot and the constraints against each other."""
        self._setup = Setup(self.robot, self.constraints)
        self._shortcuts = dict[Aim, Shortcut | None]()

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the parts that are derived from the robot and the constraints."""
        derived = ("_setup", "_shortcuts", "_with_tools")
        return {name: value for name, value in self.__dict__.items() if name not in derived}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._with_tools = OrderedDict()
        self._resolve()

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

        Requests are served on the CPU, because a request takes less time than a transfer to a GPU.

        Parameters
        ----------
        model : str or Path
            Path of a model, or the name of an included model.
        robot : Robot, str or Path, optional
            Robot, which may have other names and limits. Default: the robot of the model. See `IKModel.load`.

        Examples
        --------
        >>> from eim_ros import Sampler
        >>> sampler = Sampler.load("panda_pose")
        >>> sampler.robot.name, sampler.context_kind, sampler.n_experts > 0
        ('panda', 'pose', True)
        """
        return cls(robot, tip, base=base, model=model)

    def save(self, path: str | Path) -> None:
        """Write the model to a file; raise `ConfigurationError` without a model."""
        if self.model is None:
            raise ConfigurationError(
                "this sampler has no model to save; pickle saves the sampler itself",
                str(path),
            )
        self.model.save(path)

    def with_tool(self, tool: npt.ArrayLike) -> Sampler:
        """Return a sampler for a robot with a tool on its tip link, so that the tip of the tool reaches the poses.

        Parameters
        ----------
        tool : array_like
            Pose of the tool's tip in the frame of the tip link, in any form; three numbers are a position [m].

        Examples
        --------
        >>> from eim_ros import Sampler
        >>> sampler = Sampler("panda").with_tool([0.0, 0.0, 0.1])
        >>> solution = sampler.solve([0.4, 0.1, 0.5, 1.0, 0.0, 0.0, 0.0], seed=0)
        >>> sampler.robot.fk(solution.q)[0, :3, 3].round(3).tolist()
        [0.4, 0.1, 0.5]
        """
        pose = pose_from(tool) if is_position(tool) else check_pose(tool)
        key = pose.tobytes()
        sampler = self._with_tools.get(key)
        if sampler is None:
            sampler = self._with_tools[key] = self._changed()
            sampler._serve(self.robot.with_tool(pose), self.prior.with_tool(pose))
            if len(self._with_tools) > MOST_TOOLS:
                self._with_tools.popitem(last=False)
        return sampler

    def with_tip(self, link: str) -> Sampler:
        """Return a sampler for another tip link of the same URDF.

        Examples
        --------
        >>> from eim_ros import Sampler
        >>> Sampler("panda").with_tip("panda_link5").robot.dof
        5
        """
        sampler = self._changed()
        if self.n_experts:
            raise ConfigurationError("a model is for one tip link: give Sampler.load another one", link)
        robot = self.robot.with_tip(link)
        sampler._serve(robot, Prior.none(robot.dof))
        return sampler

    def with_constraints(self, constraints: Constraints | None = None, **changes: Any) -> Sampler:
        """Return a sampler with other constraints.

        Parameters
        ----------
        constraints : Constraints, optional
            Default: those of this sampler.
        **changes
            Fields of `Constraints` to be replaced, such as `clearance=0.02`.

        Examples
        --------
        >>> from eim_ros import Sampler
        >>> sampler = Sampler("panda").with_constraints(limits={"panda_joint1": (0.0, 1.0)})
        >>> solutions = sampler.sample([0.4, 0.1, 0.5, 1.0, 0.0, 0.0, 0.0], 10, seed=0)
        >>> bool((solutions.q[:, 0] >= 0.0).all())
        True
        """
        base = self.constraints if constraints is None else expect(constraints, Constraints, "constraints")
        check_keywords(changes, [entry.name for entry in fields(Constraints)], "Sampler.with_constraints")
        sampler = self._changed()
        sampler.constraints = replace(base, **changes) if changes else base
        sampler._resolve()
        return sampler

    def with_obstacles(self, obstacles: Sequence[Obstacle] | Obstacle) -> Sampler:
        """Return a sampler that avoids these obstacles (base frame) instead of its present ones.

        Parameters
        ----------
        obstacles : sequence of Box, Sphere, Cylinder, Capsule, Mesh or PointCloud

        Examples
        --------
        >>> from eim_ros import Box, Sampler
        >>> table = Box((1.0, 1.0, 0.05), at=(0.6, 0.0, 0.2))
        >>> sampler = Sampler("panda").with_obstacles([table])
        >>> bool(sampler.solve([0.4, 0.1, 0.5, 1.0, 0.0, 0.0, 0.0], seed=0))
        True
        """
        return self.with_constraints(obstacles=obstacles)

    def with_collision_options(self, options: CollisionOptions) -> Sampler:
        """Return a sampler that reads the collision shapes of the robot with other options."""
        sampler = self._changed()
        sampler._serve(self.robot.with_collision_options(options), self.prior)
        return sampler

    def __repr__(self) -> str:
        """Return the arm, and the number of experts of its model."""
        model = f", {self.n_experts} experts" if self.n_experts else ""
        return f"Sampler({self.robot.name!r}, {self.robot.base_link} to {self.robot.tip_link}{model})"

    def _changed(self) -> Sampler:
        sampler = object.__new__(type(self))  # not `copy.copy`, which would resolve the present constraints again
        sampler.__dict__.update(self.__dict__, _with_tools=OrderedDict())
        return sampler

    @property
    def n_experts(self) -> int:
        """Number of experts; 0 without a model."""
        return int(self.prior.evaluator.n_experts)

    @property
    def context_kind(self) -> str:
        """Kind of the model's contexts, "position" or "pose"; "pose" without a model."""
        return self.prior.kind

    def prepare(self) -> None:
        """Read collision shapes and prepare obstacles now, so that the first call does not have to.

        The result serves the calling thread. Other threads prepare the tree of the obstacles again.
        """
        with contextlib.suppress(RobotError):  # a shape that cannot be read is an error only for collision checks
            collision_model(self.robot).prepare()
            if self.constraints.obstacles:
                self.constraints.scene(self.robot)

    @property
    def has_preference(self) -> bool:
        """Whether there is a model that was trained on data with preferences for some configurations."""
        if not self.n_experts:
            return False
        indifferent = self.training.get("data_source") in (UNIFORM_CONFIGURATIONS, EVEN_SOLUTIONS)
        return not indifferent

    def solve(
        self,
        pose: npt.ArrayLike,
        near: Near | None = None,
        *,
        seed: int | None = None,
        timeout: float = 1.0,
    ) -> Solutions:
        """Return one solution, or none if it is proven that there is none, or if time is up.

        Without `near` this is the fastest call. With a configuration `near` it is the closest solution: the global
        minimum if solutions are points or curves, and `near` itself if that is a solution. Continuous joints are then
        in the revolution nearest to `near`. If `near` names only some joints, or is a `Posture`, the result is the best
        of 128 solutions after null-space optimisation.

        Parameters
        ----------
        pose : array_like
            Pose of the tip in the base frame, in any of the forms of `pose_from`. Three numbers are a position.
        near : (dof,) array_like, mapping of str to float, or Posture, optional
            Preferred configuration [rad] or [m]. A mapping contains values by joint name.
        seed : int, optional
            The same seed gives the same answer on every x86 processor, bit for bit, unless the timeout ends the search.
            Exceptions are listed in docs/explanation/sampling.md, "Reproducibility". Default: a fresh one.
        timeout : float
            Time for the complete call [s]. While there is no solution, and no proof that there is none, the search
            continues until it has passed. The message says which of them ended it.

        Raises
        ------
        PoseError, JointStateError, ConfigurationError, ConstraintError
            If an argument is malformed. A pose without a solution is no error, see `Solutions.error_code`.

        Examples
        --------
        >>> from eim_ros import Sampler
        >>> sampler = Sampler("panda")
        >>> solution = sampler.solve([0.4, 0.1, 0.5, 1.0, 0.0, 0.0, 0.0], seed=0)
        >>> bool(solution), solution.q.shape
        (True, (1, 7))
        """
        return self._answer(pose, *self._one(near), seed, timeout)

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
    ) -> Solutions:
        """Return up to `n` distinct solutions: any two differ by more than 0.01 rad or m in some joint.

        With a model these are samples of the model that were moved onto the pose, and `Solutions.expert` is the
        component that each of them came from. If the model cannot supply `n` of them, the answer has fewer. Without a
        model, from n = 16 on, they are spread over the set of solutions.

        Parameters
        ----------
        pose : array_like
            See `solve`.
        n : int
            Number of solutions, 1 to 1000000.
        near : (dof,) array_like or mapping of str to float, optional
            Configuration, or values of some joints by name; the nearest solutions come first. The distance is Euclidean
            [rad, m], as the length of a straight path. Continuous joints take the short way around.
        posture : Posture, or mapping of str to float, optional
            Preferred values of some joints. Each solution is moved along the null space to a local minimum of its cost.
        order : str or mapping of str to float, optional
            Criterion, or weights of several, see `Ranking`. Default: "posture" or "distance" if one is given, "density"
            if the model has a preference, else "none".
        diversity : float, optional
            From 0 (samples of the model) to 1 (evenly over the set of solutions). Default: 0 with a model. Without
            one, or with `near`, from n = 16 on: 1 for curves, else 0.85.
        seed, timeout
            See `solve`.

        Examples
        --------
        Solutions in the order of their distance from a configuration:

        >>> from eim_ros import Sampler
        >>> sampler, q = Sampler("panda"), [0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785]
        >>> solutions = sampler.sample([0.4, 0.1, 0.5, 1.0, 0.0, 0.0, 0.0], 10, near=q, seed=0)
        >>> distances = abs(solutions.q - q).max(axis=1)
        >>> len(solutions), bool(distances[0] < distances[-1])
        (10, True)
        """
        return self._answer(pose, *self._several(n, near, posture, order, diversity), seed, timeout)

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
    ) -> Solutions:
        """Return all solutions, so that neighbours along a self-motion are at most `max_spacing` apart.

        `Solutions.completeness` reports the self-motion components. A set of two or more dimensions is covered by
        restarts; the answer then claims nothing about completeness.

        Parameters
        ----------
        pose : array_like
            See `solve`.
        max_spacing : float
            At least 0.001 [rad, m]. All isolated solutions in closed form are returned.
        guarantee : Completeness or "certified", optional
            With a `Completeness` the search continues until its bound holds, or time is up. "certified" uses only
            closed forms.
        near, order
            See `sample`.
        max_solutions : int
            Largest number of solutions. If curves need more, an error is raised. On sets of more dimensions the search
            stops at this number.
        seed, timeout
            See `solve`.

        Raises
        ------
        ConfigurationError
            Also if the guarantee is not available for the arm.

        Examples
        --------
        >>> from eim_ros import Sampler
        >>> solutions = Sampler("panda").solve_all([0.4, 0.1, 0.5, 1.0, 0.0, 0.0, 0.0], max_spacing=0.2, seed=0)
        >>> solutions.completeness.n_components, bool(solutions.valid.all())
        (3, True)
        """
        return self._answer(pose, *self._all(max_spacing, guarantee, near, order, max_solutions), seed, timeout)

    def solve_nearest_pose(
        self,
        pose: npt.ArrayLike,
        priority: Priority = "position",
        *,
        start: Near | None = None,
        seed: int | None = None,
        timeout: float = 5.0,
    ) -> NearestPose:
        """Return the configuration whose pose is nearest to a target that the arm may not reach.

        Parameters
        ----------
        pose : array_like
            See `solve`.
        priority : "position", "orientation", or (float, float)
            "position" minimises the position error, and among equal ones the orientation error. "orientation" does the
            reverse. Two weights [1/m, 1/rad] minimise the root of the sum of squared weighted errors.
        start : (dof,) or mapping, optional
            Configuration to descend from, in the joint order or by joint names. The answer is then the local minimum
            there instead of the best of all. Nearby targets thus get nearby answers, as teleoperation needs.
        seed, timeout
            See `solve`.

        Returns
        -------
        NearestPose
            The best of the local minima that 256 random configurations lead to. An exact solution, if there is one.

        Examples
        --------
        >>> from eim_ros import Sampler
        >>> nearest = Sampler("panda").solve_nearest_pose([0.4, 0.1, 0.5, 1.0, 0.0, 0.0, 0.0], seed=0, timeout=10.0)
        >>> nearest.is_exact
        True
        """
        deadline = time.perf_counter() + _timeout(timeout)
        checked_priority(priority)
        origin = None if start is None else self._configuration(start)
        solutions = None
        if origin is None:
            solutions = self._answer(pose, *self._one(None), seed, 0.2 * timeout, until_deadline=False)
        if solutions:
            q, no_error = solutions.q[0], (float(solutions.position_error[0]), float(solutions.orientation_error[0]))
            return NearestPose(self.robot.joint_names, q, self.robot.fk(q), *no_error, True, solutions.q[1:])
        pose = unstamped(pose, self.robot.base_link)
        is_point = is_position(pose)
        target = pose_from(pose) if is_point else check_pose(pose)
        position_only = is_point or self._setup.is_position_only(self.prior.kind)
        setup = self._setup.reaching(target[None])
        problem = Problem(setup, target, position_only, Spread(1), seed=_seed(seed), deadline=deadline)
        return nearest_pose(problem, priority, origin)

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
    ) -> Solutions:
        """Return independent random draws from the set of solutions; equal draws may occur.

        `Solutions.log_prob` is the log density of each, normalised on the set, and `Solutions.effective_sample_size` is
        the equivalent number of independent draws.

        Parameters
        ----------
        pose : array_like
            See `solve`.
        n : int
            Number of draws.
        density : "uniform", "model", Posture or callable
            "uniform" is uniform by length, area or volume, with joints scaled by their ranges. "model" is the density
            of the model on the set. A posture or a function is a cost, with the density exp(-cost / temperature). The
            function maps configurations (n, dof) to costs (n,). An infinite cost excludes a configuration.
        temperature : float
            Temperature in units of the cost.
        guarantee
            See `solve_all`.
        seed, timeout
            See `solve`.

        Raises
        ------
        ConfigurationError
            Also if more than six directions of the joints are free.

        Examples
        --------
        Draws that prefer an elbow in the middle:

        >>> from eim_ros import Sampler
        >>> from eim_ros.ik import Posture
        >>> sampler, pose = Sampler("panda"), [0.4, 0.1, 0.5, 1.0, 0.0, 0.0, 0.0]
        >>> uniform = sampler.draw(pose, 200, seed=0)
        >>> centred = sampler.draw(pose, 200, Posture({"panda_joint3": 0.0}), temperature=0.1, seed=0)
        >>> bool(abs(centred.q[:, 2]).mean() < abs(uniform.q[:, 2]).mean())
        True
        """
        return self._answer(pose, *self._draws(n, density, temperature, guarantee), seed, timeout)

    def propose(self, pose: npt.ArrayLike, n: int = 100, *, seed: int | None = None) -> Solutions:
        """Return raw draws of the model given the pose. They are not solved: `Solutions.valid` marks the solutions.

        This is the only call that returns configurations which may miss the pose.

        Examples
        --------
        >>> from eim_ros import Sampler
        >>> proposals = Sampler(model="panda_position").propose([0.4, 0.1, 0.5], 100, seed=0)
        >>> len(proposals), bool(proposals.position_error.mean() < 0.1)  # [m]
        (100, True)
        """
        if not self.n_experts:
            raise ConfigurationError(
                "proposals are draws from a model, and this sampler has none: give one by Sampler.load", None
            )
        return self._answer(pose, Proposals(_count(n, "n")), AS_FOUND, seed, LONGEST)

    def follow(
        self,
        poses: npt.ArrayLike,
        near: Near | None = None,
        *,
        max_step: float | npt.ArrayLike | Mapping[str, float] | None = None,
        times: npt.ArrayLike | None = None,
        objective: Objective | None = "squares",
        n_candidates: int = 48,
        seed: int | None = None,
        timeout: float = 5.0,
    ) -> JointPath:
        """Return one configuration for each pose, without jumps of joints if a path without jumps is found.

        Joint values are continuous along the path. The search continues with more and more solutions of each pose,
        until there is a path, or a proof that there is none, or the timeout has passed. The message names the first
        jump, and whether it was proven to be unavoidable. If the constraints exclude collisions, the straight motions
        between poses are checked too. No joint moves more than 0.02 rad or 0.02 m between two checks.

        Parameters
        ----------
        poses : (n_poses, 4, 4) array_like
            Poses of the tip in the base frame.
        near : (dof,) array_like or mapping of str to float, optional
            Current configuration. The step from it to the first pose counts, too.
        max_step : float, (dof,) array_like, or mapping of str to float, optional
            Largest change of a joint between two poses [rad] or [m]: a number for all joints, one value for each, or
            values by joint name. Default, also for joints that a mapping leaves out: 0.3 rad for revolute joints and
            0.05 m for prismatic joints.
        times : (n_poses,) array_like, optional
            Time of each pose [s], increasing. Each step then also keeps `Robot.velocity_limits`. With `near`, time 0 is
            at that configuration.
        objective : {"squares", "length", "largest_step", "time"}, optional
            Cost of a path, which is reduced after the search until it stops falling: the sum of squared changes, the
            sum of absolute changes of all joints, the largest change relative to `max_step`, or the duration with
            joints at their velocity limits. None returns the path of the search, which is the best one for "squares"
            among the solutions found.
        n_candidates : int
            Solutions of a pose, if solutions are neither points nor curves.
        seed, timeout
            See `solve`.

        Examples
        --------
        >>> import numpy as np
        >>> from eim_ros import Sampler
        >>> line = [[0.4, y, 0.5, 1.0, 0.0, 0.0, 0.0] for y in np.linspace(-0.1, 0.1, 11)]
        >>> path = Sampler("panda").follow(line, seed=0)
        >>> bool(path), len(path)
        (True, 11)
        """
        began, targets = time.perf_counter(), check_poses(poses, self.robot.base_link)
        origin = None if near is None else self._configuration(near)
        n, seed, timeout = _count(n_candidates, "n_candidates"), _seed(seed), _timeout(timeout)
        steps = largest_steps(self.robot, len(targets), max_step, times, origin)
        return follow_path(self, targets, origin, steps, n, seed=seed, deadline=began + timeout, objective=objective)

    def solve_batch(
        self,
        poses: npt.ArrayLike,
        near: Near | None = None,
        *,
        n_threads: int | None = None,
        seed: int | None = None,
        timeout: float = 1.0,
    ) -> Solutions:
        """Return one solution of each pose, or none, as `solve` does; one timeout [s] is for all poses.

        A pose is given up after 3000 restarts without a solution, so that it does not take the time of the others. The
        i-th pose uses `seed + i`. Default of `n_threads`: one for each core.

        Examples
        --------
        >>> from eim_ros import Sampler
        >>> poses = [[0.4, 0.1, z, 1.0, 0.0, 0.0, 0.0] for z in (0.3, 0.5, 5.0)]  # the last one is out of reach
        >>> Sampler("panda").solve_batch(poses, seed=0).n_valid.tolist()
        [1, 1, 0]
        """
        began, targets = time.perf_counter(), check_poses(poses, self.robot.base_link)
        task = BatchTask(*self._one(near), _seed(seed), began + _timeout(timeout), n_threads)
        return answer_batch(self, targets, task)

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
    ) -> Solutions:
        """Return up to `n` distinct solutions of each pose, as `sample` does; one timeout [s] is for all poses.

        A pose is given up after 3000 restarts without a new solution. The i-th pose uses `seed + i`. Poses that were
        not started in time have the code TIMED_OUT and no best attempt.

        Raises
        ------
        PoseError
            If a pose is no rigid transform; the message names its index.

        Examples
        --------
        >>> from eim_ros import Sampler
        >>> poses = [[0.4, 0.1, z, 1.0, 0.0, 0.0, 0.0] for z in (0.3, 0.5)]
        >>> [len(solutions) for solutions in Sampler("panda").sample_batch(poses, 10, seed=0).by_pose()]
        [10, 10]
        """
        began, targets = time.perf_counter(), check_poses(poses, self.robot.base_link)
        aim, ordering = self._several(n, near, None, order, diversity)
        return answer_batch(self, targets, BatchTask(aim, ordering, _seed(seed), began + _timeout(timeout), n_threads))

    def stream(
        self,
        poses: npt.ArrayLike,
        operation: Callable[..., Solutions] | None = None,
        *,
        block: int | None = None,
        n_threads: int | None = None,
        seed: int | None = None,
        timeout: float = 1.0,
        **arguments: Any,
    ) -> Iterator[Solutions]:
        """Apply an operation to many poses and yield blocks of answers, so that only one block is in memory.

        Parameters
        ----------
        poses : (n_poses, 4, 4) array_like
        operation : Sampler.sample, Sampler.solve, Sampler.solve_all or Sampler.draw
            Default: `Sampler.sample`.
        block : int, optional
            Number of poses in a block. By default a block has about 65536 rows.
        n_threads, seed, timeout
            See `sample_batch`.
        **arguments
            Further arguments of the operation.

        Examples
        --------
        >>> from eim_ros import Sampler
        >>> poses = [[0.4, 0.1, z, 1.0, 0.0, 0.0, 0.0] for z in (0.3, 0.4, 0.5)]
        >>> [block.n_poses for block in Sampler("panda").stream(poses, Sampler.solve, block=2, seed=0)]
        [2, 1]
        """
        began, targets = time.perf_counter(), check_poses(poses, self.robot.base_link)
        name = "sample" if operation is None else getattr(operation, "__name__", "")
        builders: dict[str, Callable[..., tuple[Aim, Ordering]]] = {
            "solve": self._one,
            "sample": self._several,
            "solve_all": self._all,
            "draw": self._draws,
        }
        if name not in builders:
            raise ConfigurationError(
                f"operation must be Sampler.{', Sampler.'.join(builders)}, got {operation!r}", operation
            )
        signature = inspect.signature(getattr(Sampler, name))
        defaults = {
            each.name: each.default
            for each in signature.parameters.values()
            if each.name not in ("self", "pose", "seed", "timeout")
        }
        check_keywords(arguments, [*defaults, "block", "n_threads", "seed", "timeout"], f"Sampler.stream of {name}")
        aim, order = builders[name](**{**defaults, **arguments})
        task = BatchTask(aim, order, _seed(seed), began + _timeout(timeout), n_threads)
        return answer_blocks(self, targets, task, block)

    # Checks of the arguments of the operations. Only the operations have defaults.

    def _one(self, near: Near | None) -> tuple[Spread, Ordering]:
        if near is None or not self._is_partial(near):
            return ONE, self._ordering(None, near, None)
        return Spread(1, 1.0, N_NEAR), self._ordering("posture", None, near)

    def _several(
        self,
        n: int,
        near: Near | None,
        posture: Posture | Mapping[str, float] | None,
        order: Order | None,
        diversity: float | None,
    ) -> tuple[Spread, Ordering]:
        n = _count(n, "n")
        if diversity is not None:
            if not 0.0 <= as_number(diversity) <= 1.0:
                raise ConfigurationError(f"diversity must be a number from 0 to 1, got {diversity!r}", diversity)
            diversity = float(diversity)
        elif self.n_experts and near is None:
            diversity = 0.0
        if near is None or not self._is_partial(near):
            return Spread(n, diversity), self._ordering(order, near, posture)
        if posture is not None:
            raise ConfigurationError("give near for all joints, or posture, but not both for some joints", near)
        return Spread(n, diversity, max(n, N_NEAR)), replace(self._ordering(order, None, near), moves=False)

    def _all(
        self,
        max_spacing: float,
        guarantee: Guarantee,
        near: Near | None,
        order: Order | None,
        max_solutions: int,
    ) -> tuple[Covering, Ordering]:
        if not 1e-3 <= as_number(max_spacing) <= LARGEST:
            raise ConfigurationError(f"max_spacing must be finite and at least 0.001, got {max_spacing!r}", max_spacing)
        max_solutions, guarantee = _count(max_solutions, "max_solutions"), _guarantee(guarantee)
        aim = Covering(float(max_spacing), max_solutions, guarantee)
        if near is None or not self._is_partial(near):
            return aim, self._ordering(order, near, None)
        return aim, replace(self._ordering(order, None, near), moves=False)

    def _draws(self, n: int, density: Density, temperature: float, guarantee: Guarantee) -> tuple[Draws, Ordering]:
        if isinstance(density, Posture):
            density.of(self.robot)
        elif not callable(density) and not (isinstance(density, str) and density in ("uniform", "model")):
            raise ConfigurationError(
                f"density must be 'uniform', 'model', a Posture or a function of configurations, got {density!r}",
                density,
            )
        if not 0.0 < as_number(temperature) <= LARGEST:
            raise ConfigurationError(f"temperature must be positive and finite, got {temperature!r}", temperature)
        if temperature != 1.0 and isinstance(density, str):
            raise ConfigurationError("a temperature needs a cost: density= a Posture or a function", temperature)
        return Draws(_count(n, "n"), density, float(temperature), _guarantee(guarantee)), AS_FOUND

    def _ordering(
        self, order: Order | None, near: Near | None, posture: Posture | Mapping[str, float] | npt.ArrayLike | None
    ) -> Ordering:
        """Return the requested order, or the default."""
        if near is None and posture is None and order is None:
            return Ordering("density") if self.has_preference else AS_FOUND
        if posture is not None and not isinstance(posture, Posture):
            if not isinstance(posture, Mapping):
                raise ConfigurationError(f"posture must map joint names to values, got {posture!r}", posture)
            posture = Posture(dict(posture))
        reference = None if near is None else self._configuration(near)
        if posture is not None:
            posture.of(self.robot)
        if order is None:
            order = "posture" if posture is not None else "distance"
        ordering = Ordering(order, reference, posture)
        if ordering.needs_density and not self.n_experts:
            raise ConfigurationError(
                "ordering by density needs a model: give one by Sampler.load, or choose another order", order
            )
        return ordering

    def _is_partial(self, near: Near) -> bool:
        """Return whether `near` is a posture, or names only some of the joints."""
        if isinstance(near, Mapping):
            return set(near) != set(self.robot.joint_names)
        return isinstance(near, Posture)

    def _configuration(self, near: Near) -> FloatArray:
        """Return `near` as a configuration (dof,); a mapping is sorted by the robot's joints."""
        if isinstance(near, (Posture, Mapping)):
            if self._is_partial(near):
                names = ", ".join(self.robot.joint_names)
                raise ConfigurationError(f"near must name every joint here: {names}", near)
            near = [near[name] for name in self.robot.joint_names]  # type: ignore[index]  # a mapping of all joints
        return self._setup.configuration(near)

    def _answer(
        self,
        pose: npt.ArrayLike,
        aim: Aim,
        order: Ordering,
        seed: int | None,
        timeout: float,
        until_deadline: bool = True,
    ) -> Solutions:
        started = time.perf_counter()
        seed, timeout = _seed(seed), _timeout(timeout)
        constraints, pose = self.constraints, unstamped(pose, self.robot.base_link)
        if is_position(pose):
            if constraints.position_only is False:
                raise PoseError("a position has no orientation, which position_only=False asks for", pose)
            return self._solved(pose_from(pose), True, aim, order, seed, started + timeout, until_deadline)
        checked, deadline = check_pose(pose), started + timeout
        answer = self._short(checked, aim, order, seed, deadline)
        return self._solved(checked, None, aim, order, seed, deadline, until_deadline) if answer is None else answer

    def _short(
        self, pose: FloatArray, aim: Aim, order: Ordering, seed: int | None, deadline: float
    ) -> Solutions | None:
        """Return the answer of a shortcut, or None if there is none, or if it leaves the answer open."""
        if not isinstance(aim, (Spread, Covering)):
            return None
        is_nearest = order.criterion == "distance" and order.posture is None and aim.n_searched == 1
        if order is not AS_FOUND and not is_nearest:
            return None
        try:
            shortcut = self._shortcuts[aim]
        except KeyError:
            if len(self._shortcuts) >= MOST_AIMS:
                self._shortcuts.clear()
            shortcut = self._shortcuts[aim] = shortcut_of(self, aim)
        return None if shortcut is None else shortcut.answer(pose, order.reference, seed, deadline)

    def _solved(
        self,
        pose: FloatArray,
        position_only: bool | None,
        aim: Aim,
        order: Ordering,
        seed: int | None,
        deadline: float,
        until_deadline: bool = False,
    ) -> Solutions:
        """Return the answer for a checked pose (4, 4); the deadline is a time of `perf_counter` [s].

        An empty answer comes after a number of restarts, or only at the deadline if `until_deadline` is true; or as
        soon as it is proven.
        """
        started, constraints = time.perf_counter(), self.constraints
        if position_only is None:
            position_only = self._setup.is_position_only(self.prior.kind)
        density, conditional = None, NO_COMPONENTS
        if self.n_experts:
            density = self.prior.density(self.prior.contexts(pose, position_only, self.robot, constraints, seed))
            conditional = density.conditional
        try:
            problem = Problem(
                self._setup.reaching(pose[None]),
                pose,
                position_only,
                aim,
                order,
                conditional=conditional,
                seed=seed,
                deadline=deadline,
                until_deadline=until_deadline,
            )
        except OutOfTime as error:
            elapsed = time.perf_counter() - started
            return Solutions.empty(self.robot.joint_names, 1, f"timed out: {error}", elapsed)
        found, reference = find(problem), order.reference
        kept, is_cut_short = found.candidates, False
        if isinstance(aim, Draws):
            order = AS_FOUND
        elif order.posture is not None and order.moves and found.n_total is None:
            kept, is_cut_short = problem.optimized(kept, order.posture, deadline)
            rows, is_compared = distinct_in_time(self.robot, kept.q, DISTINCT_TOLERANCE, with_grace(deadline))
            kept, is_cut_short = kept.pick(rows), is_cut_short or not is_compared
        code, message = outcome(problem, found, kept, is_cut_short)
        n_valid, log_prob = kept.n_valid, found.log_prob
        best_attempt, best_errors = self._no_attempt, UNKNOWN_ERRORS
        if not n_valid and len(kept):
            best = kept.best()
            best_attempt = best.q
            best_errors = np.stack([best.position_error, best.orientation_error], axis=1)
        if not isinstance(aim, Proposals) and n_valid < len(kept):  # a caller may execute any returned row
            log_prob = None if log_prob is None else log_prob[kept.valid]
            kept = kept.chosen()
        if order.is_fair and len(kept) > aim.n:
            kept = kept.pick(slice(aim.n))
        if len(kept) <= 1:
            order = AS_FOUND
        if density is not None and order.needs_density:
            if time.perf_counter() + density.seconds(len(kept)) < deadline:
                log_prob = conditional.log_prob(kept.q)
            else:
                order, message = AS_FOUND, message + "; there was no time to order them by density"
        if reference is not None:
            kept = replace(kept, q=in_revolution_of(reference, kept.q, problem.bounds[2] > 0.0))
        if order is not AS_FOUND or isinstance(aim, Proposals):
            chosen = order.rows(self.robot, kept, aim.n, log_prob, position_only)
            kept, log_prob = kept.pick(chosen), None if log_prob is None else log_prob[chosen]
        size = found.effective_sample_size
        return Solutions(
            self.robot.joint_names,
            kept.q,
            kept.position_error,
            kept.orientation_error,
            kept.valid,
            kept.expert,
            np.array([len(kept)]),
            np.array([int(code)]),
            (message,),
            np.array([time.perf_counter() - started]),
            UNKNOWN if found.n_total is None else np.array([found.n_total]),
            (found.report,),
            UNKNOWN if size is None else np.array([size]),
            best_attempt,
            best_errors,
            log_prob,
            None if density is None else (density,),
            self.robot,
        )


def _guarantee(guarantee: Guarantee) -> Guarantee:
    if guarantee is None or isinstance(guarantee, Completeness):
        return guarantee
    if isinstance(guarantee, str) and guarantee == "certified":
        return "certified"
    raise ConfigurationError(f"guarantee must be a Completeness, 'certified' or None, got {guarantee!r}", guarantee)


def _count(value: Any, name: str) -> int:
    if type(value) is not int and (isinstance(value, bool) or not isinstance(value, Integral)):
        is_orientation = isinstance(value, ARRAYS) or hasattr(type(value), "as_quat")
        hint = "; pose is (position, orientation)" if is_orientation else ""
        told = " ".join(repr(value).split())
        raise ConfigurationError(f"{name} must be a whole number, got {told}{hint}", value)
    if not 1 <= int(value) <= MAX_SOLUTIONS:
        raise ConfigurationError(f"{name} must be at least 1 and at most {MAX_SOLUTIONS}, got {value}", value)
    return int(value)


def _seed(value: Any) -> int | None:
    if value is None:
        return None
    if type(value) is not int and (isinstance(value, bool) or not isinstance(value, Integral)):
        hint = "; near=q starts from a configuration" if isinstance(value, ARRAYS) else ""
        raise ConfigurationError(f"seed must be a whole number or None, got {value!r}{hint}", value)
    if int(value) < 0:
        raise ConfigurationError(f"seed must be at least 0, got {value}", value)
    return int(value)


def _timeout(value: Any) -> float:
    if not is_number(value):
        raise ConfigurationError(f"timeout must be a number [s], got {value!r}", value)
    if not value >= 0.0:  # also refuses NaN
        raise ConfigurationError(f"timeout must not be negative, got {value}", value)
    return float(value)
