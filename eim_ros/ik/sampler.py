"""`Sampler`: the operations of inverse kinematics on one robot, its constraints and, optionally, a model.

Every row of an answer is verified by forward kinematics against the pose, the limits and the constraints. Only
`Sampler.propose` returns rows that may be invalid, and it marks them.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy.typing as npt

from eim_ros.core.checks import check_keywords, expect, with_hints
from eim_ros.core.errors import ConfigurationError, Hinting, PoseError, RobotError
from eim_ros.ik.constraints import Constraints
from eim_ros.ik.engine import Engine, Poses
from eim_ros.ik.joint_path import JointPath, largest_steps
from eim_ros.ik.nearest_pose import NearestPose, Priority, checked_priority, nearest_pose
from eim_ros.ik.order import AS_FOUND, Order, Ordering, Posture
from eim_ros.ik.path_refinement import follow_path
from eim_ros.ik.path_smoothing import Objective
from eim_ros.ik.prior import EVEN_SOLUTIONS, UNIFORM_CONFIGURATIONS, IKModel, MixtureEvaluator, Prior
from eim_ros.ik.problem import Problem
from eim_ros.ik.request import (
    Aim,
    Arguments,
    Density,
    Draws,
    Guarantee,
    Near,
    Proposals,
    Revolutions,
    checked_count,
    checked_seed,
    checked_timeout,
)
from eim_ros.ik.setup import Setup
from eim_ros.ik.solutions import Solutions
from eim_ros.kinematics import CollisionOptions, Obstacle, Robot
from eim_ros.kinematics.collision import collision_model
from eim_ros.kinematics.poses import check_pose, check_poses, is_position, pose_from, unstamped

if TYPE_CHECKING:
    from eim_ros.ik.device import DeviceSampler

LONGEST = 1e6  # time limit of proposals [s]; they take as long as they need
UNCONSTRAINED = Constraints()
MOST_ENGINES = 64  # number of different kinds of requests whose engines are kept
MOST_TOOLS = 16  # number of tools with a cached sampler; other tools need the description to be read again
MOST_CONSTRAINED = 16  # number of constraints with a cached sampler


@with_hints
class Sampler(Hinting):
    """Computes configurations that reach a pose.

    Every row of an answer is checked by forward kinematics, and against the limits and the constraints. Without a
    model, all solutions have equal weight. A model adds a density and an order. Samplers are immutable. The methods
    `with_*` return changed copies, which share prepared collision shapes.

    Parameters
    ----------
    robot : Robot, str or Path, optional
        Robot, or an argument of `Robot`: a name, a file or the text of a description. Default: the robot of the model.
    tip, base : str, optional
        Tip and base link of the arm, if the robot is given by its name or file.
    package_paths : sequence of str or Path
        Folders of ROS packages that the description names, see `Robot`.
    model : IKModel, str or Path, optional
        Model, its file, or the name of an included model.
    constraints : Constraints
        Conditions that every configuration satisfies.

    Raises
    ------
    RobotError, ModelFileError
        If the robot or the model cannot be read, or if the model is not for this robot.
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

    __slots__ = (
        *(
            "__weakref__",
            "_arguments",
            "_constrained",
            "_constraints",
            "_engines",
            "_model",
            "_prior",
            "_robot",
            "_setup",
        ),
        "_with_tools",
    )
    _ELSEWHERE: ClassVar = {
        **dict.fromkeys(
            ("IK", "compute_ik", "get_ik", "ik", "ikine", "ikine_LM", "inverse", "inverse_kinematics"), "solve(pose)"
        ),
        **dict.fromkeys(("all_solutions", "get_all_ik", "solve_ik_all"), "solve_all(pose)"),
        **dict.fromkeys(("fk", "forward", "forward_kinematics", "fkine"), "robot.fk(q)"),
        **{name: f"robot.{name}" for name in ("dof", "jacobian", "joint_names", "limits", "lower", "random", "upper")},
        **dict.fromkeys(("batch", "solve_many"), "solve_batch(poses)"),
        "certify": 'solve_all(pose, guarantee="certified")',
    }
    _KEYWORDS: ClassVar = {
        **{entry.name: f"with_constraints({entry.name}=...)" for entry in fields(Constraints)},
        "degrees": "angles in radians",
        "device": 'on("cuda")',
        "return_all": "solve_all(pose)",
        "tip": "with_tip(link)",
        "tool": "with_tool(pose)",
    }

    def __init__(
        self,
        robot: Robot | str | Path | None = None,
        tip: str | None = None,
        *,
        base: str | None = None,
        model: IKModel | str | Path | None = None,
        constraints: Constraints = UNCONSTRAINED,
        package_paths: Sequence[str | Path] = (),
    ) -> None:
        expect(constraints, Constraints, "constraints")
        if isinstance(model, (str, Path)):
            model = IKModel.load(model, robot, tip, base=base, package_paths=package_paths)
        elif model is not None:
            expect(model, IKModel, "model")
            if robot is not None:
                model = model.for_robot(robot, tip, base=base, package_paths=package_paths)
        if model is not None:
            arm, prior = model.robot, Prior(model.context_kind, MixtureEvaluator(model.content), model.offset)
        elif robot is None:
            raise ConfigurationError("a sampler needs a robot or a model: give one of them")
        else:
            arm = robot if isinstance(robot, Robot) else Robot(robot, tip, base=base, package_paths=package_paths)
            prior = Prior.none(arm.dof)
        self._set(arm, constraints, model, prior)

    def _set(self, robot: Robot, constraints: Constraints, model: IKModel | None, prior: Prior) -> None:
        self._robot, self._constraints, self._model, self._prior = robot, constraints, model, prior
        self._setup = Setup(robot, constraints)  # raises an error if they do not fit each other
        self._arguments = Arguments(self._setup, prior.evaluator.n_experts > 0, self.has_preference)
        self._engines = dict[Hashable, Engine]()
        self._with_tools, self._constrained = OrderedDict[bytes, Sampler](), OrderedDict[int, Sampler]()

    def _replace(
        self, robot: Robot | None = None, constraints: Constraints | None = None, prior: Prior | None = None
    ) -> Sampler:
        """Return a sampler with another robot, constraints or prior, or this sampler if nothing changes."""
        if robot is None and prior is None and (constraints is None or constraints is self._constraints):
            return self
        other = object.__new__(type(self))
        chosen = self._constraints if constraints is None else constraints
        other._set(robot or self._robot, chosen, self._model, prior or self._prior)
        return other

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle only the robot, the constraints and the model. Everything else is derived from them."""
        return _restored, (type(self), self._robot, self._constraints, self._model, self._prior)

    @property
    def robot(self) -> Robot:
        """The arm."""
        return self._robot

    @property
    def constraints(self) -> Constraints:
        """Conditions that every configuration satisfies."""
        return self._constraints

    @property
    def model(self) -> IKModel | None:
        """The model, or None."""
        return self._model

    @property
    def training(self) -> Mapping[str, Any]:
        """Record of the model's training; empty without a model."""
        return {} if self._model is None else self._model.training

    @classmethod
    def load(
        cls,
        model: str | Path,
        robot: Robot | str | Path | None = None,
        tip: str | None = None,
        *,
        base: str | None = None,
        package_paths: Sequence[str | Path] = (),
    ) -> Sampler:
        """Read a model file. Raise `ModelFileError` if it is damaged, has another schema or is for other kinematics.

        Requests are answered on the CPU, because a transfer to a GPU would take longer than a request.

        Parameters
        ----------
        model : str or Path
            Path of a model, or the name of an included model.
        robot : Robot, str or Path, optional
            Robot, which may have other names and limits than the model, see `IKModel.load`. Default: the robot of the
            model.
        tip, base, package_paths
            See `Sampler`.

        Examples
        --------
        >>> from eim_ros import Sampler
        >>> sampler = Sampler.load("panda_pose")
        >>> sampler.robot.name, sampler.context_kind, sampler.n_experts > 0
        ('panda', 'pose', True)
        """
        return cls(robot, tip, base=base, model=model, package_paths=package_paths)

    def save(self, path: str | Path) -> None:
        """Write the model to a file, or raise `ConfigurationError` without a model."""
        if self.model is None:
            raise ConfigurationError(
                "this sampler has no model to save: to save the sampler itself, use pickle",
                str(path),
            )
        self.model.save(path)

    def with_tool(self, tool: npt.ArrayLike) -> Sampler:
        """Return a sampler for a robot with a tool on its tip link. Poses then refer to the tip of the tool.

        Parameters
        ----------
        tool : array_like
            Pose of the tool's tip in the frame of the tip link, in any form of a pose. Three numbers are a position
            [m].

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
            sampler = self._replace(self._robot.with_tool(pose), prior=self._prior.with_tool(pose))
            _keep(self._with_tools, key, sampler, MOST_TOOLS)
        return sampler

    def with_tip(self, link: str) -> Sampler:
        """Return a sampler for another tip link of the same URDF.

        Examples
        --------
        >>> from eim_ros import Sampler
        >>> Sampler("panda").with_tip("panda_link5").robot.dof
        5
        """
        if self.n_experts:
            raise ConfigurationError(
                f"a model works only for its tip link: call Sampler.load with a model for {link!r}", link
            )
        robot = self._robot.with_tip(link)
        return self._replace(robot, prior=Prior.none(robot.dof))

    def with_constraints(self, constraints: Constraints | None = None, **changes: Any) -> Sampler:
        """Return a sampler with other constraints.

        Parameters
        ----------
        constraints : Constraints, optional
            Default: the constraints of this sampler.
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
        base = self._constraints if constraints is None else expect(constraints, Constraints, "constraints")
        if changes:
            check_keywords(changes, [entry.name for entry in fields(Constraints)], "Sampler.with_constraints")
            return self._replace(constraints=replace(base, **changes))
        kept = self._constrained.get(id(base))
        if kept is None or kept._constraints is not base:
            kept = self._replace(constraints=base)
            if not base.obstacles:  # obstacles may need much memory
                _keep(self._constrained, id(base), kept, MOST_CONSTRAINED)
        return kept

    def with_obstacles(self, obstacles: Sequence[Obstacle] | Obstacle) -> Sampler:
        """Return a sampler that avoids other obstacles, given in the base frame, instead of its current obstacles.

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
        return self._replace(self._robot.with_collision_options(options))

    def __repr__(self) -> str:
        """Return the arm, and the number of experts of its model."""
        model = f", {self.n_experts} experts" if self.n_experts else ""
        return f"Sampler({self.robot.name!r}, {self.robot.base_link} to {self.robot.tip_link}{model})"

    @property
    def n_experts(self) -> int:
        """Number of experts; 0 without a model."""
        return int(self._prior.evaluator.n_experts)

    @property
    def context_kind(self) -> str:
        """Kind of the model's contexts, "position" or "pose"; "pose" without a model."""
        return self._prior.kind

    def on(self, device: str) -> DeviceSampler:
        """Return a sampler for many poses on a GPU, or on the processor with the same kernels.

        Obstacles, models and certificates are not supported on a device.

        Parameters
        ----------
        device : str
            "cuda", "cuda:1" and so on for a GPU of NVIDIA, which needs the extra `cuda` of this package. "cpu" runs the
            kernels in one thread, to test programs without a GPU. Without kernels, this sampler is faster on the
            processor.

        Examples
        --------
        >>> from eim_ros import Sampler
        >>> poses = [[0.4, 0.1, z, 1.0, 0.0, 0.0, 0.0] for z in (0.3, 0.4)]
        >>> Sampler("ur5e").on("cpu").solve_all_batch(poses).counts.tolist()
        [8, 8]
        """
        from eim_ros.ik.device import DeviceSampler  # imported here, because few programs need its compiled module

        return DeviceSampler(self, device)

    def prepare(self) -> None:
        """Read collision shapes and prepare obstacles now, so that the first call is as fast as later calls.

        Only the calling thread is prepared. Other threads prepare the tree of the obstacles again.
        """
        with contextlib.suppress(RobotError):  # an unreadable shape only matters if collisions are checked
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
        """Return one solution. The answer is empty if it is proven that there is no solution, or if time is up.

        A call without `near` is the fastest. If `near` is a configuration, the result is the closest solution, with
        continuous joints in the nearest revolution. The distance is the global minimum if solutions are points or
        curves. If `near` is itself a solution, it is returned. If `near` names only some joints, or is a `Posture`, the
        result is the best of 128 solutions after null-space optimisation.

        Parameters
        ----------
        pose : array_like
            Pose of the tip in the base frame, in any of the forms of `pose_from`. Three numbers are a position.
        near : (dof,) array_like, mapping of str to float, or Posture, optional
            Preferred configuration [rad] or [m]. A mapping contains values by joint name.
        seed : int, optional
            Unless the timeout ends the search, the same seed gives bitwise the same answer on every x86 processor. The
            section "Reproducibility" in docs/explanation/sampling.md lists exceptions. Default: a new seed.
        timeout : float
            Time for the complete call [s]. If there is neither a solution nor a proof that there is none, the search
            continues until the timeout. The message names the reason why the search ended. If the timeout is infinite,
            the search ends after a number of restarts without a solution.

        Raises
        ------
        PoseError, JointStateError, ConfigurationError, ConstraintError
            If an argument is malformed. A pose without a solution is not an error, see `Solutions.error_code`.

        Examples
        --------
        >>> from eim_ros import Sampler
        >>> sampler = Sampler("panda")
        >>> solution = sampler.solve([0.4, 0.1, 0.5, 1.0, 0.0, 0.0, 0.0], seed=0)
        >>> bool(solution), solution.q.shape
        (True, (1, 7))
        """
        return self._answer(pose, *self._arguments.one(near), seed, timeout)

    def sample(
        self,
        pose: npt.ArrayLike,
        n: int = 100,
        *,
        near: Near | None = None,
        posture: Posture | Mapping[str, float] | None = None,
        order: Order | None = None,
        diversity: float | None = None,
        revolutions: Revolutions = "all",
        seed: int | None = None,
        timeout: float = 1.0,
    ) -> Solutions:
        """Return up to `n` distinct solutions: any two differ by more than 0.01 rad or m in some joint.

        If `n` is at least 16, the solutions are spread over the set of all solutions. With a model that was learned
        from demonstrations, or with `diversity=0`, they are instead samples of the model that were moved onto the pose.
        `Solutions.expert` is then the component from which a solution was drawn. The answer has fewer than `n`
        solutions if the model supplies too few distinct ones. Any other model only adds `Solutions.log_prob`, because
        its seeds would cover less of the set.

        Parameters
        ----------
        pose : array_like
            See `solve`.
        n : int
            Number of solutions, 1 to 1000000.
        near : (dof,) array_like or mapping of str to float, optional
            Configuration, or values of some joints by name. The nearest solutions come first. The distance is Euclidean
            [rad, m], like the length of a straight path. Continuous joints take the shorter way around.
        posture : Posture, or mapping of str to float, optional
            Preferred values of some joints. Each solution is moved along the null space to a local minimum of the cost
            of the posture.
        order : str or mapping of str to float, optional
            Criterion, or weights of several criteria, see `Ordering`. Default: "posture" or "distance" if a posture or
            `near` is given, "density" if the model has a preference, otherwise "none".
        diversity : float, optional
            From 0 (samples of the model) to 1 (evenly over the set of solutions). Default: 0 if the model has a
            preference, or for the order "density". Otherwise, or with `near`, the default for at least 16 solutions is
            1 for curves and 0.85 for other sets.
        revolutions
            See `solve_all`.
        seed, timeout
            See `solve`.

        Examples
        --------
        Order solutions by their distance from a configuration:

        >>> from eim_ros import Sampler
        >>> sampler, q = Sampler("panda"), [0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785]
        >>> solutions = sampler.sample([0.4, 0.1, 0.5, 1.0, 0.0, 0.0, 0.0], 10, near=q, seed=0)
        >>> distances = abs(solutions.q - q).max(axis=1)
        >>> len(solutions), bool(distances[0] < distances[-1])
        (10, True)
        """
        return self._answer(
            pose, *self._arguments.several(n, near, posture, order, diversity, revolutions), seed, timeout
        )

    def solve_all(
        self,
        pose: npt.ArrayLike,
        max_spacing: float = 0.3,
        guarantee: Guarantee = None,
        *,
        near: Near | None = None,
        order: Order | None = None,
        max_solutions: int = 10_000,
        revolutions: Revolutions = "all",
        seed: int | None = None,
        timeout: float = 1.0,
    ) -> Solutions:
        """Return all solutions. Neighbours along a self-motion are at most `max_spacing` apart.

        `Solutions.completeness` reports the self-motion components. If the set of solutions has two or more dimensions,
        it is covered by restarts, and the answer is not marked as complete.

        Parameters
        ----------
        pose : array_like
            See `solve`.
        max_spacing : float
            Largest distance between neighbours, at least 0.001 [rad, m]. It does not apply to isolated solutions in
            closed form, which are all returned.
        guarantee : Completeness or "certified", optional
            With a `Completeness`, the search continues until its bound is reached, or time is up. With "certified",
            only closed forms are used.
        near, order
            See `sample`.
        max_solutions : int
            Largest number of solutions. An error is raised if curves need more solutions. If the set has two or more
            dimensions, the search stops at this number.
        revolutions : "all" or "one"
            "all" lists every 2π-equivalent solution within the limits, so each joint with limits of ±2π doubles the
            number. "one" lists one solution of each set of 2π-equivalent solutions, in the revolution nearest to
            `near`, or by default to the middle of the limits. One revolution shows in which ways the arm reaches the
            pose, such as elbow up or down. Use "all" to move the arm, because the nearest solution may be in another
            revolution.
        seed, timeout
            See `solve`.

        Raises
        ------
        ConfigurationError
            If an argument is malformed, or if the guarantee is not available for the arm.

        Examples
        --------
        >>> from eim_ros import Sampler
        >>> solutions = Sampler("panda").solve_all([0.4, 0.1, 0.5, 1.0, 0.0, 0.0, 0.0], max_spacing=0.2, seed=0)
        >>> solutions.completeness.n_components, bool(solutions.valid.all())
        (3, True)

        The included UR5e has limits of ±π. In most URDFs of a UR5e they are ±2π, and each joint adds a revolution:

        >>> from eim_ros import Robot
        >>> urdf = Robot("ur5e").urdf.replace('"-3.141592653589793"', '"-6.283185307179586"')
        >>> sampler = Sampler(urdf.replace('"3.141592653589793"', '"6.283185307179586"'))
        >>> pose = [0.4, 0.1, 0.3, 1.0, 0.0, 0.0, 0.0]
        >>> len(sampler.solve_all(pose)), len(sampler.solve_all(pose, revolutions="one"))
        (512, 8)
        """
        request = self._arguments.everything(max_spacing, guarantee, near, order, max_solutions, revolutions)
        return self._answer(pose, *request, seed, timeout)

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
            "position" minimises the position error first and then the orientation error. "orientation" does the
            reverse. Two weights [1/m, 1/rad] minimise the root of the sum of squared weighted errors.
        start : (dof,) or mapping, optional
            Configuration from which the search descends, in joint order or by joint name. The answer is then a local
            minimum near `start` instead of the best minimum. Nearby targets therefore have nearby answers, which
            teleoperation needs.
        seed, timeout
            See `solve`.

        Returns
        -------
        NearestPose
            The best of the local minima found from 256 random configurations. If an exact solution exists, it is
            returned.

        Examples
        --------
        >>> from eim_ros import Sampler
        >>> nearest = Sampler("panda").solve_nearest_pose([0.4, 0.1, 0.5, 1.0, 0.0, 0.0, 0.0], seed=0, timeout=10.0)
        >>> nearest.is_exact
        True
        """
        deadline = time.perf_counter() + checked_timeout(timeout)
        checked_priority(priority)
        origin = None if start is None else self._arguments.configuration(start)
        solutions = None
        if origin is None:
            solutions = self._answer(pose, *self._arguments.one(None), seed, 0.2 * timeout, until_deadline=False)
        if solutions:
            q, no_error = solutions.q[0], (float(solutions.position_error[0]), float(solutions.orientation_error[0]))
            return NearestPose(self.robot.joint_names, q, self.robot.fk(q), *no_error, True, solutions.q[1:])
        pose = unstamped(pose, self.robot.base_link)
        is_point = is_position(pose)
        target = pose_from(pose) if is_point else check_pose(pose)
        position_only = is_point or self._setup.is_position_only(self._prior.kind)
        setup = self._setup.reaching(target[None])
        problem = Problem(setup, target, position_only, seed=checked_seed(seed), deadline=deadline)
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
        """Return independent random draws from the set of solutions. Some draws may be equal.

        `Solutions.log_prob` is the log density of each draw, normalised on the set of solutions.
        `Solutions.effective_sample_size` is the equivalent number of independent draws.

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
            If an argument is malformed, or if more than six directions of the joints are free.

        Examples
        --------
        Prefer solutions with the third joint near the middle of its range:

        >>> from eim_ros import Sampler
        >>> from eim_ros.ik import Posture
        >>> sampler, pose = Sampler("panda"), [0.4, 0.1, 0.5, 1.0, 0.0, 0.0, 0.0]
        >>> uniform = sampler.draw(pose, 200, seed=0)
        >>> centred = sampler.draw(pose, 200, Posture({"panda_joint3": 0.0}), temperature=0.1, seed=0)
        >>> bool(abs(centred.q[:, 2]).mean() < abs(uniform.q[:, 2]).mean())
        True
        """
        return self._answer(pose, *self._arguments.draws(n, density, temperature, guarantee), seed, timeout)

    def propose(self, pose: npt.ArrayLike, n: int = 100, *, seed: int | None = None) -> Solutions:
        """Return raw draws from the model given the pose. `Solutions.valid` marks the draws that are solutions.

        No other call returns configurations that may miss the pose.

        Examples
        --------
        >>> from eim_ros import Sampler
        >>> proposals = Sampler(model="panda_position").propose([0.4, 0.1, 0.5], 100, seed=0)
        >>> len(proposals), bool(proposals.position_error.mean() < 0.1)  # [m]
        (100, True)
        """
        if not self.n_experts:
            raise ConfigurationError(
                "proposals are draws from a model, and this sampler has no model: create it by Sampler.load", None
            )
        return self._answer(pose, Proposals(checked_count(n, "n")), AS_FOUND, seed, LONGEST)

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

        Joint values are continuous along the path. The search continues with more and more solutions of each pose until
        a path is found, until it is proven that there is no path, or until the timeout. The message names the first
        jump, and whether a proof shows that it is unavoidable. If the constraints exclude collisions, straight motions
        between poses are also checked. No joint moves more than 0.02 rad or 0.02 m between two checks.

        Parameters
        ----------
        poses : (n_poses, 4, 4) array_like
            Poses of the tip in the base frame.
        near : (dof,) array_like or mapping of str to float, optional
            Current configuration. The step from `near` to the first pose is limited, too.
        max_step : float, (dof,) array_like, or mapping of str to float, optional
            Largest change of a joint between two poses [rad] or [m]: one number for all joints, one value per joint, or
            values by joint name. Default, also for joints that are not in a mapping: 0.3 rad for revolute joints and
            0.05 m for prismatic joints.
        times : (n_poses,) array_like, optional
            Increasing times of the poses [s]. Each step then also satisfies `Robot.velocity_limits`. If `near` is
            given, the arm is there at time 0.
        objective : {"squares", "length", "largest_step", "time"}, optional
            Cost of a path, which is minimised locally after the search. The cost is the sum of squared changes, the sum
            of absolute changes of all joints, the largest change relative to `max_step`, or the duration at the
            velocity limits. None returns the path of the search, which is the best path for "squares" among the
            solutions found.
        n_candidates : int
            Number of solutions of each pose. It has no effect if solutions are points or curves.
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
        origin = None if near is None else self._arguments.configuration(near)
        n, seed = checked_count(n_candidates, "n_candidates"), checked_seed(seed)
        timeout = checked_timeout(timeout)
        steps = largest_steps(self.robot, len(targets), max_step, times, origin)
        asked = (targets, origin, steps, n)
        return follow_path(self._setup, self._prior, *asked, seed=seed, deadline=began + timeout, objective=objective)

    def solve_batch(
        self,
        poses: npt.ArrayLike,
        near: Near | None = None,
        *,
        n_threads: int | None = None,
        seed: int | None = None,
        timeout: float = 1.0,
    ) -> Solutions:
        """Return at most one solution of each pose, as `solve` does. All poses share one timeout [s].

        The search for a pose ends after 3000 restarts without a solution, so that time is left for other poses. The
        i-th pose uses `seed + i`. By default, there is one thread for each core.

        If the poses are a torch tensor (n_poses, 4, 4) or (n_poses, 7), `Solutions.q` is a tensor with the same dtype
        and device, which can be differentiated once. The gradient belongs to the smallest motion of the joints that
        follows the pose, dq = J^+ dx, where one radian counts as much as one metre. Fixed joints do not move, axes with
        a tolerance do not count, and joint limits are ignored. Singular values of J below 1e-6 of the largest one count
        as zero, so the gradient is finite at a singularity. If `near` is given, a redundant arm also moves along its
        self-motion towards `near`. The gradient does not contain this motion. Poses without solutions have no rows and
        a gradient of zero.

        Examples
        --------
        >>> from eim_ros import Sampler
        >>> poses = [[0.4, 0.1, z, 1.0, 0.0, 0.0, 0.0] for z in (0.3, 0.5, 5.0)]  # the last one is out of reach
        >>> Sampler("panda").solve_batch(poses, seed=0).n_valid.tolist()
        [1, 1, 0]

        Compute the derivative of the first joint of a UR5e with respect to the position [rad/m]:

        >>> import torch
        >>> pose = torch.tensor([[0.4, 0.1, 0.3, 1.0, 0.0, 0.0, 0.0]], dtype=torch.float64, requires_grad=True)
        >>> q = Sampler("ur5e").solve_batch(pose, near=[0.0, -1.5, 1.5, -1.5, -1.5, 0.0], seed=0).q
        >>> torch.autograd.grad(q[0, 0], pose)[0][0, :3].round(decimals=1).abs().tolist()
        [0.2, 2.6, 0.0]
        """
        return self._answers(poses, lambda: self._arguments.one(near), n_threads, seed, timeout)

    def sample_batch(
        self,
        poses: npt.ArrayLike,
        n: int = 100,
        *,
        near: Near | None = None,
        order: Order | None = None,
        diversity: float | None = None,
        revolutions: Revolutions = "all",
        n_threads: int | None = None,
        seed: int | None = None,
        timeout: float = 1.0,
    ) -> Solutions:
        """Return up to `n` distinct solutions of each pose, as `sample` does. All poses share one timeout [s].

        The search for a pose ends after 3000 restarts without a new solution. The i-th pose uses `seed + i`. Poses that
        were not started in time have the code TIMED_OUT and no best attempt. If the poses are a torch tensor, the
        solutions are a tensor with gradient, see `solve_batch`.

        Raises
        ------
        PoseError
            If a pose is not a rigid transform. The message contains its index.

        Examples
        --------
        >>> from eim_ros import Sampler
        >>> poses = [[0.4, 0.1, z, 1.0, 0.0, 0.0, 0.0] for z in (0.3, 0.5)]
        >>> [len(solutions) for solutions in Sampler("panda").sample_batch(poses, 10, seed=0).by_pose()]
        [10, 10]
        """
        asked = functools.partial(self._arguments.several, n, near, None, order, diversity, revolutions)
        return self._answers(poses, asked, n_threads, seed, timeout)

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
        """Apply an operation to many poses and yield blocks of answers. Only one block is in memory at a time.

        Parameters
        ----------
        poses : (n_poses, 4, 4) array_like
        operation : Sampler.sample, Sampler.solve, Sampler.solve_all or Sampler.draw
            Default: `Sampler.sample`.
        block : int, optional
            Number of poses in a block. By default, a block has about 65536 rows.
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
            "solve": self._arguments.one,
            "sample": self._arguments.several,
            "solve_all": self._arguments.everything,
            "draw": self._arguments.draws,
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
        asked = Poses(targets, order, checked_seed(seed), began + checked_timeout(timeout), n_threads)
        return self._engine(aim, order).blocks(asked, block)

    def _answer(
        self,
        pose: npt.ArrayLike,
        aim: Aim,
        order: Ordering,
        seed: int | None,
        timeout: float,
        until_deadline: bool = True,
    ) -> Solutions:
        began = time.perf_counter()
        seed, deadline = checked_seed(seed), began + checked_timeout(timeout)
        pose, position_only = unstamped(pose, self._robot.base_link), None
        if is_position(pose):
            if self._constraints.position_only is False:
                raise PoseError("a position has no orientation, but position_only=False needs one: give a pose", pose)
            checked, position_only = pose_from(pose), True
        else:
            checked = check_pose(pose)
        until_deadline = until_deadline and deadline < math.inf
        return self._engine(aim, order).answer(checked, order, seed, deadline, position_only, until_deadline)

    def _answers(
        self,
        poses: npt.ArrayLike,
        asked: Callable[[], tuple[Aim, Ordering]],
        n_threads: int | None,
        seed: int | None,
        timeout: float,
    ) -> Solutions:
        """Return the answers for several poses. If the poses are a torch tensor, the answers have a gradient."""
        began, tensor = time.perf_counter(), _tensor(poses)
        targets = check_poses(poses if tensor is None else tensor.detach().cpu().numpy(), self._robot.base_link)
        aim, order = asked()
        deadline = began + checked_timeout(timeout)
        found = self._engine(aim, order).answers(Poses(targets, order, checked_seed(seed), deadline, n_threads))
        if tensor is None:
            return found
        from eim_ros.ik.gradients import Linearisation, differentiable  # imports torch

        position_only = self._setup.is_position_only(self._prior.kind)
        derivative = Linearisation(self._setup, position_only, targets, found.q, found.n_per_pose)
        return found._replace(tensor=differentiable(tensor, derivative))

    def _engine(self, aim: Aim, order: Ordering) -> Engine:
        """Return the engine for requests with an aim and an order. Engines for common requests are cached."""
        if order.posture is not None or order.criterion is None or isinstance(aim, Draws):
            return Engine(self._setup, self._prior, aim, order)
        kind = aim, order.criterion, order.reference is None
        engine = self._engines.get(kind)
        if engine is None:
            if len(self._engines) >= MOST_ENGINES:
                self._engines.clear()
            engine = self._engines[kind] = Engine(self._setup, self._prior, aim, order)
        return engine


def _tensor(poses: Any) -> Any:
    """Return the poses if they are a torch tensor, otherwise None, without importing torch."""
    return poses if isinstance(poses, getattr(sys.modules.get("torch"), "Tensor", ())) else None


def _keep(samplers: OrderedDict[Any, Sampler], key: Hashable, sampler: Sampler, most: int) -> None:
    """Add a sampler to a cache, and remove the oldest sampler if there are too many."""
    samplers[key] = sampler
    if len(samplers) > most:
        samplers.popitem(last=False)


def _restored(
    kind: type[Sampler], robot: Robot, constraints: Constraints, model: IKModel | None, prior: Prior
) -> Sampler:
    """Return a sampler from its pickled parts."""
    sampler = object.__new__(kind)
    sampler._set(robot, constraints, model, prior)
    return sampler
