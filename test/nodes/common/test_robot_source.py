"""A node gets its robot from exactly one source, which must be readable."""

from __future__ import annotations

from pathlib import Path

import pytest

from eim_ros.core.errors import ConfigurationError, RobotError
from eim_ros.kinematics import Robot
from eim_ros.nodes.common.robot_source import chain_of, load_robot
from eim_ros.nodes.settings import RobotSettings

PANDA = Robot("panda")


@pytest.mark.parametrize("source", ["name", "path", "text"])
def test_robot_is_found_by_each_source(tmp_path: Path, source: str) -> None:
    path = tmp_path / "arm.urdf"
    path.write_text(PANDA.urdf, encoding="utf-8")
    given = {"name": "panda", "path": str(path)}.get(source, "")
    settings = RobotSettings(robot=given, base_link=PANDA.base_link, tip_link=PANDA.tip_link)
    robot = load_robot(settings, f"\n {PANDA.urdf}" if source == "text" else "")
    assert robot.fingerprint == PANDA.fingerprint


@pytest.mark.parametrize(
    ("given", "description", "error", "reason"),
    [
        ({}, "", ConfigurationError, "no robot is given: set the parameter robot, robot_description"),
        ({}, "panda.urdf", ConfigurationError, "must be the text of a URDF"),
        ({"robot": "no_such_robot"}, "", RobotError, "no_such_robot"),
        ({"robot": "panda", "tip_link": "no_such_link"}, "", RobotError, "no_such_link"),
    ],
)
def test_robot_that_is_not_there_is_refused(
    given: dict[str, str], description: str, error: type[Exception], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        load_robot(RobotSettings(**given), description)


def test_log_names_the_default_tip_and_the_other_ends() -> None:
    links = "".join(f'<link name="{name}"/>' for name in ("base", "arm", "tool0", "camera"))
    limit = '<limit lower="-1" upper="1"/>'
    text = (
        f'<robot name="r">{links}'
        f'<joint name="a" type="revolute"><parent link="base"/><child link="arm"/>{limit}</joint>'
        '<joint name="b" type="fixed"><parent link="arm"/><child link="tool0"/></joint>'
        '<joint name="c" type="fixed"><parent link="arm"/><child link="camera"/></joint></robot>'
    )
    robot = load_robot(RobotSettings(), text)
    assert chain_of(robot, is_default=False) == "'r' from 'base' to 'tool0'"
    told = chain_of(robot, is_default=True)
    assert "to 'tool0' (chosen automatically; branches end in 'tool0', 'camera'" in told
    assert "tip_link" in told
    assert chain_of(PANDA, is_default=True) == chain_of(PANDA, is_default=False)  # the panda has one leaf link
