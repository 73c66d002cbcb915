"""A mixture of experts together with the robot whose inverse kinematics it models, as one file.

The mixture of experts for one pose: one evaluation of the model serves any number of samples and densities.

Compiled, on the CPU: a request is small, and an operation of a deep learning library costs more than its arithmetic.
Networks are evaluated by torch, see `network_proposal.py`.

A model given a pose, parts of which may be left open: the contexts over which its mixture is averaged.

A model of positions is given the position of a pose, a model of poses all of it. Where the task leaves some of that
open, by tolerances or since any orientation will do, the mixture is averaged over a few poses that satisfy the task.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from eim_ros.core.checks import checked_path, expect
from eim_ros.core.errors import ModelFileError, RobotError, did_you_mean
from eim_ros.ik.constraints import Constraints
from eim_ros.kinematics import CONTEXT_KINDS, Robot, context_from_pose, share_path
from eim_ros.kinematics.matching import Placement, agreement, namesake
from eim_ros.learning.models import LinearParameters, load_parameters
from eim_ros.solver import Experts, log_gate

if TYPE_CHECKING:
    from eim_ros.learning.models import MixtureOfExperts


SHIPPED_MODELS = ("iiwa14_pose", "iiwa14_position", "panda_pose", "panda_position")
DEFAULT_MODEL = "iiwa14_pose"

UNIFORM_CONFIGURATIONS = "forward kinematics, configurations uniform within limits"
EVEN_SOLUTIONS = "forward kinematics, all solutions of each pose evenly"
"""Sources of data sets that prefer no configuration to another: what a model learnt from them prefers none either."""


@dataclass(frozen=True, eq=False)
class IKModel:
    """q(configuration | context) of one robot.

    Attributes
    ----------
    content : MixtureOfExperts or LinearParameters
        The mixture, or the parameters of one with linear parts, which are all that serving needs. Columns of its
        samples are `robot.joint_names`.
    robot : Robot
    context_kind : str
        "position" or "pose", see `eim_ros.kinematics.context_from_pose`.
    training : dict
        JSON-compatible record of how the model was made.
    placement : Placement
        How the robot stands, and what it carries, beside the one that the model was trained for.
    """

    content: MixtureOfExperts | LinearParameters
    robot: Robot
    context_kind: str
    training: dict[str, Any] = field(default_factory=dict)
    placement: Placement = field(default_factory=Placement.none)

    @functools.cached_property
    def mixture(self) -> MixtureOfExperts:
        """The mixture of experts, for which torch is imported."""
        return self.content.mixture() if isinstance(self.content, LinearParameters) else self.content

    def save(self, path: str | Path) -> None:
        """Write atomically, as safetensors with the description in its header.

        Raises
        ------
        ModelFileError
            If the robot stands elsewhere, or carries another tool, than the one that the model was trained for.
        """
        if not self.placement.is_none:
            raise ModelFileError(
                "the model was trained for a robot with another base or tip; save it as it is loaded without a robot",
                self.robot.name,
            )
        from eim_ros.learning.models import save_mixture_of_experts  # here: it needs torch

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
    ) -> IKModel:
        """Read a model.

        Parameters
        ----------
        path : str or Path
            Or the name of a shipped one, see `SHIPPED_MODELS`.
        robot : Robot, str or Path, optional
            The robot it is to be used with, or the description it is in, see `namesake`; the one described in the file
            if missing. It may have other names, other limits, which hold, another base or tip link, see `agreement`.
        base, tip : str, optional
            Links of the robot where it is no `Robot`; those of the model if missing.

        Raises
        ------
        ModelFileError
            Truncated, a pickle, of another schema, damaged, or trained for a robot of other kinematics.
        """
        path = model_path(path)
        content, document = load_parameters(path)
        kind = document.get("context_kind")
        if not isinstance(kind, str) or kind not in CONTEXT_KINDS:
            raise ModelFileError(f"{path} is no inverse kinematics model: its context kind is {kind!r}", kind)
        stored = robot_from_description(document.get("robot"), path)
        shape = (content.n_dims, content.n_context)
        if shape != (stored.dof, CONTEXT_KINDS[kind]):
            raise ModelFileError(f"{path} has (joints, context) {shape}, its robot needs {stored.dof} joints", shape)
        training = document.get("training") or {}
        if not isinstance(training, dict):
            raise ModelFileError(f"{path} has no valid record of its training: {training!r}", training)
        model = cls(content, stored, kind, training)
        return (
            model
            if robot is None and tip is None and base is None
            else model.for_robot(robot, tip, base=base, source=path)
        )

    def for_robot(
        self,
        robot: Robot | str | Path | None = None,
        tip: str | None = None,
        *,
        base: str | None = None,
        source: str | Path = "the model",
    ) -> IKModel:
        """Return the model for another description of the robot that it was trained for.

        Parameters
        ----------
        robot : Robot, str or Path, optional
            It may have other names, narrower limits, and another base or tip link, see `agreement`. Default: the robot
            of the model.
        tip, base : str, optional
            Links of a robot that is no `Robot`. Default: those of the model.
        source : str or Path
            Name of the model in error messages.

        Raises
        ------
        ModelFileError
            If the robot has other kinematics.
        """
        if robot is not None and not isinstance(robot, (str, Path)):
            expect(robot, Robot, "robot", RobotError)
        for link in (base, tip):
            if link is not None:
                expect(link, str, "the name of a link", RobotError)
        stored = self.robot
        if robot is None and (base is not None or tip is not None):
            robot = stored.urdf
        served = _served(stored, robot, base, tip, source)
        return replace(self, robot=served, placement=_placement(served, stored, source))


def _served(
    stored: Robot, robot: Robot | str | Path | None, base: str | None, tip: str | None, path: str | Path
) -> Robot:
    """The robot that a model is to be used with."""
    if robot is None or isinstance(robot, Robot):
        return robot or stored
    try:
        return namesake(stored, robot, base, tip)
    except RobotError as error:
        raise ModelFileError(
            f"model {path} is for robot '{stored.name}' from '{stored.base_link}' to '{stored.tip_link}', which does "
            f"not fit the robot given: {error}",
            error.value,
        ) from error


def _placement(robot: Robot, stored: Robot, path: str | Path) -> Placement:
    """How a robot lies beside the model's; `ModelFileError` says what differs where it is another."""
    if robot.fingerprint == stored.fingerprint:
        return Placement.none()
    try:
        return agreement(robot, stored)
    except RobotError as error:
        raise ModelFileError(
            f"{path} was trained for robot '{stored.name}' ({stored.base_link} to {stored.tip_link}, joints "
            f"{', '.join(stored.joint_names)}), not for '{robot.name}' ({robot.base_link} to {robot.tip_link}, joints "
            f"{', '.join(robot.joint_names)}): {error}; train a model for this robot",
            robot.name,
        ) from error


def model_path(name_or_path: str | Path) -> Path:
    """Path of a model, given as such or by the name of a shipped one."""
    name = str(name_or_path)
    if name not in SHIPPED_MODELS:
        path = checked_path(name_or_path, ModelFileError)
        if name.isidentifier() and not os.path.exists(path):
            raise ModelFileError(
                f"no shipped model {name!r}: there are {', '.join(SHIPPED_MODELS)}; any other by the path of its file"
                f"{did_you_mean(name, SHIPPED_MODELS)}",
                name,
            )
        return path
    try:
        return share_path(f"config/models/{name}.safetensors")
    except FileNotFoundError as error:
        raise ModelFileError(f"the shipped model is missing: {error}", name) from error


def describe_robot(robot: Robot) -> dict[str, Any]:
    """JSON-compatible description from which the robot can be rebuilt."""
    return {
        "name": robot.name,
        "base_link": robot.base_link,
        "tip_link": robot.tip_link,
        "joint_names": list(robot.joint_names),
        "fingerprint": robot.fingerprint,
        "urdf": robot.urdf,
    }


def robot_from_description(description: Any, path: str | Path) -> Robot:
    """The robot that `describe_robot` described."""
    try:
        urdf, base, tip = (str(description[name]) for name in ("urdf", "base_link", "tip_link"))
        if not urdf.startswith("<"):  # else it would be taken for the name of a file, here a stranger's choice
            raise RobotError("its URDF is no XML", urdf)
        robot = Robot(urdf, tip, base=base)
        fingerprint = description["fingerprint"]
    except (KeyError, TypeError, RobotError) as error:
        raise ModelFileError(f"{path} has no valid robot description: {error}", str(path)) from error
    if robot.fingerprint != fingerprint:
        raise ModelFileError(f"{path} is damaged: its robot description does not match its fingerprint", str(path))
    return robot


FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ConditionalMixture:
    """q(x | y) averaged over the given contexts, a Gaussian mixture with a component for each context and expert.

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
        """Samples (n_samples, n_dims) and the expert (n_samples,) each came from."""
        return self.experts.draw(self.log_weights, self.contexts, n_samples, rng.random())

    def log_prob(self, samples: FloatArray) -> FloatArray:
        """Log density (n_samples,) [nat]; NaN where there are no components."""
        if not len(self.log_weights):
            return np.full(len(samples), np.nan)
        return self.experts.log_density(self.log_weights, self.contexts, samples)


NO_MODEL = ConditionalMixture(
    np.empty(0), np.empty((1, 0)), Experts(np.empty((0, 1, 0)), np.empty((0, 1)), np.empty((0, 1, 1)), 1)
)
"""A mixture without components."""


class Proposal:
    """A mixture of experts prepared for requests.

    Parameters
    ----------
    model : LinearParameters or MixtureOfExperts
    """

    def __init__(self, model: LinearParameters | MixtureOfExperts) -> None:
        self.n_experts, self.n_dims, self.n_context = model.n_components, model.n_dims, model.n_context
        self.condition: Callable[[FloatArray], ConditionalMixture]
        """The mixture for contexts (n_contexts, n_context), averaged over them with equal weights."""
        if not isinstance(model, LinearParameters):
            if not LinearParameters.fits(model.tensors()):
                from eim_ros.ik.network_prior import by_networks  # here: it needs torch

                networks = by_networks(model)
                self.condition = lambda contexts: ConditionalMixture(*networks(contexts))
                return
            model = LinearParameters.of(model)
        self.condition = _linear(model)

    @classmethod
    def none(cls, n_dims: int) -> Proposal:
        """Without any expert: it proposes nothing, and says NaN of densities."""
        proposal = cls.__new__(cls)
        proposal.n_experts, proposal.n_dims, proposal.n_context = 0, n_dims, 0
        experts = Experts(np.empty((0, n_dims, 0)), np.empty((0, n_dims)), np.empty((0, n_dims, n_dims)), 1)
        nothing = ConditionalMixture(np.empty(0), np.empty((1, 0)), experts)
        proposal.condition = lambda contexts: nothing
        return proposal


def _linear(model: LinearParameters) -> Callable[[FloatArray], ConditionalMixture]:
    """Of linear parts: only the gate has to be evaluated, experts where they are drawn."""
    gating_weights = np.ascontiguousarray(model.gating_weights.T, dtype=np.float64)
    gating_biases = np.ascontiguousarray(model.gating_biases, dtype=np.float64)
    experts = Experts(model.weights, model.biases, model.scale_trils, model.n_components)

    def condition(contexts: FloatArray) -> ConditionalMixture:
        log_weights = log_gate(contexts, gating_weights, gating_biases)
        return ConditionalMixture(log_weights.reshape(-1), contexts, experts)

    return condition


TERM = 4e-9  # [s] that one component takes at most for the density of one configuration


@dataclass(frozen=True, eq=False)
class GivenDensity:
    """A model's density given a pose, evaluated anew each time: answers are kept, mixtures are large.

    Attributes
    ----------
    proposal : Proposal
    contexts : (n_contexts, n_context)
        Over which it is averaged.
    """

    proposal: Proposal
    contexts: npt.NDArray[np.float64]

    @property
    def conditional(self) -> ConditionalMixture:
        """The mixture given the pose."""
        return self.proposal.condition(self.contexts)

    def log_prob(self, samples: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Log density (n,) [nat] of configurations (n, dof); NaN without a model."""
        return self.conditional.log_prob(samples)

    def seconds(self, n: int) -> float:
        """About how long the densities of n configurations take at most [s]."""
        return TERM * n * len(self.contexts) * self.proposal.n_experts


NO_CONTEXT = np.empty((1, 0))
FREE_ORIENTATIONS = 8  # poses over which a model is averaged where the task leaves some of it free


@dataclass(frozen=True, eq=False)
class Conditioning:
    """A model, and how the robot that it serves lies beside the one that it was trained for.

    Attributes
    ----------
    kind : str
        Of the model's contexts: "position" or "pose".
    proposal : Proposal
    placement : Placement
    """

    kind: str
    proposal: Proposal
    placement: Placement

    @classmethod
    def none(cls, dof: int) -> Conditioning:
        """Without a model, of an arm of so many joints."""
        return cls("pose", Proposal.none(dof), Placement.none())

    def carrying(self, tool: FloatArray) -> Conditioning:
        """The same with a tool (4, 4) on the tip of the robot that is served."""
        return replace(self, placement=self.placement.carrying(tool))

    def contexts(
        self,
        pose: FloatArray,
        position_only: bool,
        robot: Robot,
        constraints: Constraints,
        seed: int | None,
    ) -> FloatArray:
        """Return the contexts (n_contexts, n_context) over which the mixture is averaged; one without columns if none.

        The seed decides the poses that are taken if the task leaves some of the pose open.
        """
        if not self.proposal.n_experts:
            return NO_CONTEXT
        poses = pose[None]
        is_turned = position_only and (self.kind == "pose" or self.placement.is_off_tip)
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
        """Contexts (n, n_context) of poses (n, 4, 4) of the robot's tip: those of the tip that the model knows."""
        known = poses if self.placement.is_none else self.placement.poses_of_other(poses)
        return context_from_pose(known, self.kind)

    def density(self, contexts: FloatArray) -> GivenDensity:
        """Of configurations, averaged over contexts (n_contexts, n_context)."""
        return GivenDensity(self.proposal, contexts)


def _random_rotations(n: int, rng: np.random.Generator) -> FloatArray:
    """Rotations (n, 3, 3), uniform: QR of Gaussian matrices (Stewart 1980)."""
    orthogonal, triangular = np.linalg.qr(rng.standard_normal((n, 3, 3)))
    orthogonal = orthogonal * np.sign(np.diagonal(triangular, axis1=1, axis2=2))[:, None, :]
    flip = np.linalg.det(orthogonal) < 0.0
    orthogonal[flip, :, 0] *= -1.0
    return np.asarray(orthogonal)
