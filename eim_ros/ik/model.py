"""A mixture of experts together with the robot whose inverse kinematics it models, as one file."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eim_ros.distributions import LinearParameters, load_parameters
from eim_ros.errors import ModelFileError, RobotError, did_you_mean
from eim_ros.kinematics import CONTEXT_KINDS, Robot, share_path
from eim_ros.kinematics.agreement import Placement, agreement
from eim_ros.kinematics.namesake import namesake
from eim_ros.numerics.arguments import checked_path, expect

if TYPE_CHECKING:
    from eim_ros.distributions import MixtureOfExperts

__all__ = [
    "DEFAULT_MODEL",
    "EVEN_SOLUTIONS",
    "SHIPPED_MODELS",
    "UNIFORM_CONFIGURATIONS",
    "IKModel",
    "describe_robot",
    "model_path",
    "robot_from_description",
]

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
        from eim_ros.distributions import save_mixture_of_experts  # here: it needs torch

        document = {
            "robot": describe_robot(self.robot),
            "context_kind": self.context_kind,
            "training": self.training,
        }
        save_mixture_of_experts(path, self.mixture, document)

    @classmethod
    def load(
        cls, path: str | Path, robot: Robot | str | Path | None = None, base: str | None = None, tip: str | None = None
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
        if robot is not None and not isinstance(robot, (str, Path)):
            expect(robot, Robot, "robot", RobotError)
        for link in (base, tip):
            if link is not None:
                expect(link, str, "the name of a link", RobotError)
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
        if robot is None and (base or tip):
            robot = stored.urdf
        served = _served(stored, robot, base, tip, path)
        return cls(content, served, kind, training, _placement(served, stored, path))


def _served(stored: Robot, robot: Robot | str | Path | None, base: str | None, tip: str | None, path: Path) -> Robot:
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


def _placement(robot: Robot, stored: Robot, path: Path) -> Placement:
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
        robot = Robot.from_urdf(urdf, base, tip)
        fingerprint = description["fingerprint"]
    except (KeyError, TypeError, RobotError) as error:
        raise ModelFileError(f"{path} has no valid robot description: {error}", str(path)) from error
    if robot.fingerprint != fingerprint:
        raise ModelFileError(f"{path} is damaged: its robot description does not match its fingerprint", str(path))
    return robot
