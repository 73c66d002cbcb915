"""Inverse kinematics models, and their density on the configurations for a pose.

`IKModel` is a mixture of experts with its robot, stored in one file. `MixtureEvaluator` evaluates the mixture at
contexts. Mixtures with linear parts are evaluated by compiled code, because requests are small and a call of torch
costs more than the arithmetic. Networks need torch, see `_of_networks`.

`Prior` combines a model with the offset of the robot from the robot that the model was trained for. The context of a
position model is the position of a pose. The context of a pose model is the complete pose. If a request leaves part of
the pose free, the mixture is averaged over a few poses that satisfy the request.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from eim_ros.core.arrays import FloatArray
from eim_ros.core.checks import checked_path, expect, with_hints
from eim_ros.core.errors import ModelFileError, RobotError, did_you_mean
from eim_ros.ik.constraints import Constraints
from eim_ros.kinematics import CONTEXT_KINDS, Robot, context_from_pose, share_path
from eim_ros.kinematics.matching import Offset, kinematics_check, matched_urdf
from eim_ros.learning.models import LinearParameters, load_parameters
from eim_ros.solver import Experts, log_gate

if TYPE_CHECKING:
    from eim_ros.learning.models import MixtureOfExperts


SHIPPED_MODELS = ("iiwa14_pose", "iiwa14_position", "panda_pose", "panda_position", "panda_table")
DEFAULT_MODEL = "iiwa14_pose"

UNIFORM_CONFIGURATIONS = "forward kinematics, configurations uniform within limits"
EVEN_SOLUTIONS = "forward kinematics, all solutions of each pose evenly"
"""Sources of data sets without a preference. Models trained on such data have no preference either."""

TERM = 4e-9  # upper estimate of the time for the density of one configuration under one component [s]
NO_CONTEXT = np.empty((1, 0))
FREE_ORIENTATIONS = 8  # number of poses over which a model is averaged if the request leaves part of the pose free


@with_hints
@dataclass(frozen=True, eq=False)
class IKModel:
    """Conditional density q(configuration | context) for one robot.

    Attributes
    ----------
    content : MixtureOfExperts or LinearParameters
        Mixture of experts, or the parameters of a mixture with linear parts, which are sufficient to answer requests.
        The columns of samples are in the order of `robot.joint_names`.
    robot : Robot
    context_kind : str
        "position" or "pose", see `eim_ros.kinematics.context_from_pose`.
    training : dict
        JSON-compatible record of the training.
    offset : Offset
        Offsets of base and tip between the robot and the robot that the model was trained for.

    Examples
    --------
    >>> from eim_ros import Sampler
    >>> from eim_ros.ik import IKModel
    >>> model = IKModel.load("panda_position")
    >>> model.robot.name, model.context_kind
    ('panda', 'position')
    >>> bool(Sampler(model=model).solve([0.4, 0.1, 0.5], seed=0))
    True
    """

    content: MixtureOfExperts | LinearParameters
    robot: Robot
    context_kind: str
    training: dict[str, Any] = field(default_factory=dict)
    offset: Offset = field(default_factory=Offset.none)

    @functools.cached_property
    def mixture(self) -> MixtureOfExperts:
        """Mixture of experts. The first access imports torch."""
        return self.content.mixture() if isinstance(self.content, LinearParameters) else self.content

    def save(self, path: str | Path) -> None:
        """Write the model atomically as a safetensors file, with its description in the header.

        Raises
        ------
        ModelFileError
            If the robot has another base or tip than the robot that the model was trained for.
        """
        if not self.offset.is_none:
            raise ModelFileError(
                "the model was trained for a robot with another base or tip: load it without a robot to save it",
                self.robot.name,
            )
        from eim_ros.learning.models import save_mixture_of_experts  # imported here, because it needs torch

        document = {
            "robot": describe_robot(self.robot),
            "context_kind": self.context_kind,
            "training": self.training,
        }
        save_mixture_of_experts(path, self.mixture, document)

    @classmethod
    def load(
        cls,
        path: str | Path,
        robot: Robot | str | Path | None = None,
        tip: str | None = None,
        *,
        base: str | None = None,
        package_paths: Sequence[str | Path] = (),
    ) -> IKModel:
        """Read a model from a file.

        Parameters
        ----------
        path : str or Path
            Path of the file, or the name of an included model, see `SHIPPED_MODELS`.
        robot : Robot, str or Path, optional
            Robot, or a description that contains the robot, see `matched_urdf`. Its joint names, limits, base link and
            tip link may differ from those of the model, see `kinematics_check`. Answers satisfy the limits of this
            robot. Default: the robot in the file.
        tip, base : str, optional
            Links of the robot, if `robot` is a description. Default: the links of the model.
        package_paths : sequence of str or Path
            Folders of packages that the description names, see `Robot`.

        Raises
        ------
        ModelFileError
            If the file is damaged or has another schema, or if the model was trained for other kinematics.
        """
        path = model_path(path)
        content, document = load_parameters(path)
        kind = document.get("context_kind")
        if not isinstance(kind, str) or kind not in CONTEXT_KINDS:
            raise ModelFileError(f"{path} is not an inverse kinematics model: its context kind is {kind!r}", kind)
        stored = robot_from_description(document.get("robot"), path)
        shape = (content.n_dims, content.n_context)
        if shape != (stored.dof, CONTEXT_KINDS[kind]):
            raise ModelFileError(
                f"{path} has {shape[0]} joints and {shape[1]} context values, but its robot has {stored.dof} joints "
                f"and a {kind} has {CONTEXT_KINDS[kind]} values",
                shape,
            )
        training = document.get("training") or {}
        if not isinstance(training, dict):
            raise ModelFileError(
                f"{path} has no valid record of its training, but {training!r}: train the model again", training
            )
        model = cls(content, stored, kind, training)
        return (
            model
            if robot is None and tip is None and base is None
            else model.for_robot(robot, tip, base=base, source=path, package_paths=package_paths)
        )

    def for_robot(
        self,
        robot: Robot | str | Path | None = None,
        tip: str | None = None,
        *,
        base: str | None = None,
        source: str | Path = "the model",
        package_paths: Sequence[str | Path] = (),
    ) -> IKModel:
        """Return the model for another description of the robot that it was trained for.

        Parameters
        ----------
        robot : Robot, str or Path, optional
            Robot with other joint names, narrower limits, or other base and tip links, see `kinematics_check`. Default:
            the robot of the model.
        tip, base : str, optional
            Links of the robot, if `robot` is a description. Default: the links of the model.
        source : str or Path
            Name of the model in error messages.
        package_paths : sequence of str or Path
            Folders of packages that the description names, see `Robot`.

        Raises
        ------
        ModelFileError
            If the kinematics of the robot differ from those of the model.
        """
        if robot is not None and not isinstance(robot, (str, Path)):
            expect(robot, Robot, "robot", RobotError)
        for link in (base, tip):
            if link is not None:
                expect(link, str, "the name of a link", RobotError)
        stored = self.robot
        if robot is None and (base is not None or tip is not None):
            robot = stored.urdf
        served = _served(stored, robot, base, tip, source, package_paths)
        return replace(self, robot=served, offset=_offset(served, stored, source))


def _served(
    stored: Robot,
    robot: Robot | str | Path | None,
    base: str | None,
    tip: str | None,
    path: str | Path,
    package_paths: Sequence[str | Path],
) -> Robot:
    """Return the robot that a model is used with."""
    if robot is None or isinstance(robot, Robot):
        return robot or stored
    try:
        return matched_urdf(stored, robot, base, tip, package_paths)
    except RobotError as error:
        raise ModelFileError(
            f"model {path} was trained for robot '{stored.name}' from '{stored.base_link}' to '{stored.tip_link}', "
            f"which the given robot does not match: {error}",
            error.value,
        ) from error


def _offset(robot: Robot, stored: Robot, path: str | Path) -> Offset:
    """Return the offset of a robot from the robot of a model, or raise `ModelFileError` if their kinematics differ."""
    if robot.fingerprint == stored.fingerprint:
        return Offset.none()
    try:
        return kinematics_check(robot, stored)
    except RobotError as error:
        raise ModelFileError(
            f"{path} was trained for robot '{stored.name}' ({stored.base_link} to {stored.tip_link}, joints "
            f"{', '.join(stored.joint_names)}), not for robot '{robot.name}' ({robot.base_link} to {robot.tip_link}, "
            "joints "
            f"{', '.join(robot.joint_names)}): {error}; train a model for this robot",
            robot.name,
        ) from error


def model_path(name_or_path: str | Path) -> Path:
    """Return the path of a model, given by its path or by the name of an included model."""
    name = str(name_or_path)
    if name not in SHIPPED_MODELS:
        path = checked_path(name_or_path, ModelFileError)
        if name.isidentifier() and not os.path.exists(path):
            raise ModelFileError(
                f"there is no included model {name!r}, only {', '.join(SHIPPED_MODELS)}; for other models, give the "
                f"path of the file{did_you_mean(name, SHIPPED_MODELS)}",
                name,
            )
        return path
    try:
        return share_path(f"config/models/{name}.safetensors")
    except FileNotFoundError as error:
        raise ModelFileError(f"the included model is missing: {error}", name) from error


def describe_robot(robot: Robot) -> dict[str, Any]:
    """Return a JSON-compatible description that is sufficient to rebuild the robot."""
    return {
        "name": robot.name,
        "base_link": robot.base_link,
        "tip_link": robot.tip_link,
        "joint_names": list(robot.joint_names),
        "fingerprint": robot.fingerprint,
        "urdf": robot.urdf,
    }


def robot_from_description(description: Any, path: str | Path) -> Robot:
    """Rebuild a robot from the output of `describe_robot`; raise `ModelFileError` if the description is invalid."""
    try:
        urdf, base, tip = (str(description[name]) for name in ("urdf", "base_link", "tip_link"))
        if not urdf.startswith("<"):  # otherwise an untrusted model could make `Robot` read any file
            raise RobotError("its URDF is not XML", urdf)
        robot = Robot.quietly(urdf, tip, base=base)
        fingerprint = description["fingerprint"]
    except (KeyError, TypeError, RobotError) as error:
        raise ModelFileError(f"{path} has no valid robot description: {error}", str(path)) from error
    if robot.fingerprint != fingerprint:
        raise ModelFileError(
            f"{path} is damaged, because its robot description does not match its fingerprint: use "
            "another copy, or train the model again",
            str(path),
        )
    return robot


@dataclass(frozen=True, eq=False)
class ConditionalMixture:
    """Density q(x | y) averaged over contexts y: a Gaussian mixture with one component per context and expert.

    Attributes
    ----------
    log_weights : (n_contexts * n_experts,)
    contexts : (n_contexts, n_context)
    experts : Experts
    """

    log_weights: FloatArray
    contexts: FloatArray
    experts: Experts

    def sample(self, n_samples: int, rng: np.random.Generator) -> tuple[FloatArray, npt.NDArray[np.uint32]]:
        """Draw samples (n_samples, n_dims), and return them with the expert (n_samples,) of each sample."""
        return self.experts.draw(self.log_weights, self.contexts, n_samples, rng.random())

    def log_prob(self, samples: FloatArray) -> FloatArray:
        """Return the log density (n,) [nat] of samples (n, n_dims); NaN if there are no components."""
        if not len(self.log_weights):
            return np.full(len(samples), np.nan)
        return self.experts.log_density(self.log_weights, self.contexts, samples)


NO_COMPONENTS = ConditionalMixture(
    np.empty(0), np.empty((1, 0)), Experts(np.empty((0, 1, 0)), np.empty((0, 1)), np.empty((0, 1, 1)), 1)
)
"""A mixture without components."""


def _of_networks(mixture: MixtureOfExperts) -> Callable[[FloatArray], ConditionalMixture]:
    """Return a function that evaluates a mixture whose gating or experts are networks.

    The function averages the mixture over contexts (n_contexts, n_context) and returns the experts at these contexts.
    """
    import torch  # imported here, because the import takes a second

    prepared = mixture.to(device="cpu", dtype=torch.float64)

    def condition(contexts: FloatArray) -> ConditionalMixture:
        context = torch.from_numpy(np.ascontiguousarray(contexts, dtype=np.float64))
        with torch.no_grad():
            gate, gaussians = prepared.gating(context), prepared.experts(context)
            factors = gaussians.scale_tril.expand(*gaussians.mean.shape, gaussians.n_dims).flatten(0, 1)
        means = gaussians.mean.flatten(0, 1).numpy()
        experts = Experts(np.empty((*means.shape, 0)), means, factors.numpy(), prepared.n_components)
        log_weights = gate.numpy() - math.log(len(contexts))
        return ConditionalMixture(log_weights.reshape(-1), np.empty((1, 0)), experts)

    return condition


class MixtureEvaluator:
    """Evaluation of a mixture of experts at contexts, prepared for many requests.

    Parameters
    ----------
    model : LinearParameters or MixtureOfExperts

    Attributes
    ----------
    condition : callable
        Function that maps contexts (n_contexts, n_context) to the `ConditionalMixture` averaged over them.
    gating : (Experts, (n_context, n_experts), (n_experts,)), optional
        Experts, and weights and biases of the gating, if all parts are linear.
    """

    def __init__(self, model: LinearParameters | MixtureOfExperts) -> None:
        self._model: LinearParameters | MixtureOfExperts | None = model
        self.n_experts, self.n_dims, self.n_context = model.n_components, model.n_dims, model.n_context
        self.condition: Callable[[FloatArray], ConditionalMixture]
        self.gating: tuple[Experts, FloatArray, FloatArray] | None = None
        """The mixture for contexts (n_contexts, n_context), averaged over them with equal weights."""
        if not isinstance(model, LinearParameters):
            if not LinearParameters.fits(model.tensors()):
                self.condition = _of_networks(model)
                return
            model = LinearParameters.of(model)
        experts = Experts(model.weights, model.biases, model.scale_trils, model.n_components)
        weights = np.ascontiguousarray(model.gating_weights.T, dtype=np.float64)
        biases = np.ascontiguousarray(model.gating_biases, dtype=np.float64)

        def condition(contexts: FloatArray) -> ConditionalMixture:  # only the gating needs to be evaluated in advance
            return ConditionalMixture(log_gate(contexts, weights, biases).reshape(-1), contexts, experts)

        self.condition, self.gating = condition, (experts, weights, biases)

    @classmethod
    def none(cls, n_dims: int) -> MixtureEvaluator:
        """Return an evaluator without experts, which cannot draw samples and has NaN as its density."""
        evaluator = cls.__new__(cls)
        evaluator._model = None
        evaluator.n_experts, evaluator.n_dims, evaluator.n_context = 0, n_dims, 0
        experts = Experts(np.empty((0, n_dims, 0)), np.empty((0, n_dims)), np.empty((0, n_dims, n_dims)), 1)
        nothing = ConditionalMixture(np.empty(0), np.empty((1, 0)), experts)
        evaluator.condition = lambda contexts: nothing
        evaluator.gating = experts, np.empty((0, 0)), np.empty(0)
        return evaluator

    def __reduce__(self) -> tuple[Callable[..., MixtureEvaluator], tuple[Any]]:
        """Pickle only the model. The compiled experts are built again when it is unpickled."""
        return (MixtureEvaluator.none, (self.n_dims,)) if self._model is None else (MixtureEvaluator, (self._model,))


@dataclass(frozen=True, eq=False)
class ConditionalDensity:
    """Density of a model given a pose. It is evaluated on demand, because a mixture is too large for an answer.

    Attributes
    ----------
    evaluator : MixtureEvaluator
    contexts : (n_contexts, n_context)
        Contexts over which the density is averaged.
    """

    evaluator: MixtureEvaluator
    contexts: npt.NDArray[np.float64]

    @property
    def conditional(self) -> ConditionalMixture:
        """Mixture given the pose."""
        return self.evaluator.condition(self.contexts)

    def log_prob(self, samples: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the log density (n,) [nat] of configurations (n, dof); NaN without a model."""
        return self.conditional.log_prob(samples)

    def seconds(self, n: int) -> float:
        """Return an upper estimate of the time to evaluate the density of n configurations [s]."""
        return TERM * n * len(self.contexts) * self.evaluator.n_experts


@dataclass(frozen=True, eq=False)
class Prior:
    """Model of a sampler, with the offset of the robot from the robot that the model was trained for.

    Attributes
    ----------
    kind : str
        Kind of the model's contexts: "position" or "pose".
    evaluator : MixtureEvaluator
    offset : Offset
    """

    kind: str
    evaluator: MixtureEvaluator
    offset: Offset

    @classmethod
    def none(cls, dof: int) -> Prior:
        """Return the prior of a sampler without a model, for an arm with `dof` joints."""
        return cls("pose", MixtureEvaluator.none(dof), Offset.none())

    def without_model(self) -> Prior:
        """Return the prior without experts, with the same kind of contexts."""
        return replace(self, evaluator=MixtureEvaluator.none(self.evaluator.n_dims))

    def with_tool(self, tool: FloatArray) -> Prior:
        """Return the prior for the robot with a tool (4, 4) on its tip."""
        return replace(self, offset=self.offset.with_tool(tool))

    def contexts(
        self,
        pose: FloatArray,
        position_only: bool,
        robot: Robot,
        constraints: Constraints,
        seed: int | None,
    ) -> FloatArray:
        """Return the contexts (n_contexts, n_context) over which the mixture is averaged.

        Without a model, the result has the shape (1, 0). If the request leaves part of the pose free, `seed` determines
        which poses are drawn.
        """
        if not self.evaluator.n_experts:
            return NO_CONTEXT
        poses = pose[None]
        is_turned = position_only and (self.kind == "pose" or self.offset.is_off_tip)
        if constraints.tolerances is None and not is_turned:
            return self.contexts_of(poses)
        rng = np.random.default_rng(None if seed is None else (seed, FREE_ORIENTATIONS))
        if constraints.tolerances is not None:
            poses = constraints.wanted(pose, robot, FREE_ORIENTATIONS, rng)
        if is_turned:
            poses = np.repeat(poses, FREE_ORIENTATIONS // len(poses), axis=0)
            poses[:, :3, :3] = _random_rotations(FREE_ORIENTATIONS, rng)
        return self.contexts_of(poses)

    def contexts_of(self, poses: FloatArray) -> FloatArray:
        """Return the contexts (n, n_context) of tip poses (n, 4, 4), converted to the tip of the model."""
        known = poses if self.offset.is_none else self.offset.poses_of_other(poses)
        return context_from_pose(known, self.kind)

    def is_prepared(self, constraints: Constraints, position_only: bool) -> bool:
        """Return whether `conditionals` supports a request. It needs linear parts and one context for each pose."""
        is_turned = position_only and (self.kind == "pose" or self.offset.is_off_tip)
        is_plain = constraints.tolerances is None and not is_turned
        return not self.evaluator.n_experts or (self.evaluator.gating is not None and is_plain)

    def conditionals(self, poses: FloatArray) -> tuple[Experts, FloatArray, FloatArray]:
        """Return experts, log weights (m, n_experts) and contexts (m, 1, n_context) of m poses."""
        gating, m = self.evaluator.gating, len(poses)
        assert gating is not None
        experts, weights, biases = gating
        if not self.evaluator.n_experts:
            return experts, np.empty((m, 0)), np.empty((m, 1, 0))
        contexts = self.contexts_of(poses)
        return experts, log_gate(contexts, weights, biases, True), contexts[:, None]

    def density(self, contexts: FloatArray) -> ConditionalDensity:
        """Return the density of configurations, averaged over contexts (n_contexts, n_context)."""
        return ConditionalDensity(self.evaluator, contexts)


class Densities(Sequence[ConditionalDensity]):
    """Densities of a prior given poses (m, 4, 4) of the tip [m]. Each density is created when it is read."""

    def __init__(self, prior: Prior, poses: FloatArray) -> None:
        self.prior, self.poses = prior, poses

    def __len__(self) -> int:
        return len(self.poses)

    def __getitem__(self, index: Any) -> Any:
        """Return the density of one pose for an integer index, otherwise the densities of several poses."""
        poses = self.poses[index]
        if poses.ndim == 3:
            return Densities(self.prior, poses)
        return self.prior.density(self.prior.contexts_of(poses[None]))


def _random_rotations(n: int, rng: np.random.Generator) -> FloatArray:
    """Draw uniform rotations (n, 3, 3), by QR decomposition of Gaussian matrices (Stewart 1980)."""
    orthogonal, triangular = np.linalg.qr(rng.standard_normal((n, 3, 3)))
    orthogonal = orthogonal * np.sign(np.diagonal(triangular, axis1=1, axis2=2))[:, None, :]
    flip = np.linalg.det(orthogonal) < 0.0
    orthogonal[flip, :, 0] *= -1.0
    return np.asarray(orthogonal)
