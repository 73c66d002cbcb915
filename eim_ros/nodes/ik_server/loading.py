"""From the settings of a node to a sampler: model file, robot, base and tip link must fit each other.

A robot without a model is served as well: all its solutions, none of them preferred.
"""

from __future__ import annotations

from eim_ros.errors import ConfigurationError, ModelFileError
from eim_ros.ik import Sampler
from eim_ros.ik.model import DEFAULT_MODEL, SHIPPED_MODELS
from eim_ros.nodes.common.data_directory import DataDirectory
from eim_ros.nodes.common.robot_source import check_description, load_robot
from eim_ros.nodes.ik_server.settings import IkServerSettings

__all__ = ["NO_MODEL", "load_replacement", "load_sampler", "name_of_model"]

NO_MODEL = "none"  # value of the parameter model


def load_sampler(settings: IkServerSettings, description: str = "") -> Sampler:
    """Load the model and check it against the robot where one is given; without a model the robot alone.

    Parameters
    ----------
    settings : IkServerSettings
        Model file, robot and links.
    description : str
        URDF text, from the parameter or the topic; empty: `settings.robot`, else the robot stored in the model.

    Raises
    ------
    EimError
        With the reason: model file missing, truncated, of another schema or format, or for another robot; robot that
        cannot be read, or none where there is no model.
    """
    source = settings.robot or description
    base, tip = settings.base_link or None, settings.tip_link or None
    if settings.model == NO_MODEL or (source and not settings.model):
        if not source:
            raise ConfigurationError(
                "without a model a robot is needed: robot, robot_description, or its topic", settings.model
            )
        sampler = Sampler.of(load_robot(settings, description))
    else:
        check_description(description)
        sampler = Sampler.load(settings.model or DEFAULT_MODEL, source or None, base, tip)
    sampler = sampler.with_collision(settings.collision)
    if settings.tool:
        sampler = sampler.with_tool(settings.tool_pose)
    sampler.prepare()
    return sampler


def name_of_model(settings: IkServerSettings, sampler: Sampler) -> str:
    """What people are told of the model that `load_sampler` loaded: as the parameter model names it."""
    return (settings.model or DEFAULT_MODEL) if sampler.n_experts else NO_MODEL


def load_replacement(path: str, present: Sampler, data: DataDirectory) -> tuple[Sampler, str]:
    """Another model of the same robot, a shipped one or one of the data directory, and what it is called.

    Raises
    ------
    EimError
        As `load_sampler`; a model of another robot is refused: clients know the joints and frames of this one.
    """
    if not path:
        raise ModelFileError("the path of the model is empty", path)
    name = path if path in SHIPPED_MODELS else str(data.readable(path))
    sampler = Sampler.load(name, robot=present.robot)
    sampler.prepare()
    return sampler, name
