"""From the settings of a node to a compiled sampler: model file, robot, base and tip link must fit each other."""

from __future__ import annotations

from eim_ros.errors import ModelFileError, RobotError
from eim_ros.ik import Sampler
from eim_ros.ik.model import DEFAULT_MODEL
from eim_ros.kinematics import Robot
from eim_ros.nodes.settings import IkServerSettings

__all__ = ["load_replacement", "load_sampler"]


def load_sampler(settings: IkServerSettings, description: str = "") -> Sampler:
    """Load the model, check it against the robot where one is given, and compile every kernel.

    Parameters
    ----------
    settings : IkServerSettings
        Model file, robot, links and device.
    description : str
        URDF text, from the parameter or the topic; empty: `settings.robot`, else the robot stored in the model.

    Raises
    ------
    EimError
        With the reason: model file missing, truncated, of another schema or format, or for another robot.
    """
    path = settings.model or DEFAULT_MODEL
    sampler = Sampler.load(path, device=settings.device)
    if settings.robot or description or settings.base_link or settings.tip_link:
        robot = _given_robot(settings, description, sampler.robot, path)
        sampler = Sampler.load(path, robot=robot, device=settings.device)
    sampler.prepare()
    return sampler


def load_replacement(path: str, present: Sampler, device: str = "cpu") -> Sampler:
    """Another model of the same robot, compiled.

    Raises
    ------
    EimError
        As `load_sampler`; a model of another robot is refused: clients know the joints and frames of this one.
    """
    if not path:
        raise ModelFileError("the path of the model is empty", path)
    sampler = Sampler.load(path, robot=present.robot, device=device)
    sampler.prepare()
    return sampler


def _given_robot(settings: IkServerSettings, description: str, stored: Robot, path: str) -> Robot:
    """The robot of the settings, between the links of the settings or, where they are empty, those of the model."""
    base, tip = settings.base_link or stored.base_link, settings.tip_link or stored.tip_link
    try:
        if settings.robot:
            return Robot.load(settings.robot, base, tip)
        return Robot.from_urdf(description or stored.urdf, base, tip)
    except RobotError as error:
        raise ModelFileError(
            f"model {path} is for robot '{stored.name}' from '{stored.base_link}' to '{stored.tip_link}', "
            f"which does not fit the robot given: {error}",
            path,
        ) from error
