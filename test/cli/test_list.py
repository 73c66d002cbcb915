"""`eim list`: every shipped robot and model, with what a user needs to choose."""

from __future__ import annotations

from cli.command import Command

from eim_ros.ik.prior import SHIPPED_MODELS
from eim_ros.kinematics import SHIPPED_ROBOTS


def test_every_robot_and_model_is_listed(eim: Command) -> None:
    listed = eim("list", "--json").json
    assert [robot["name"] for robot in listed["robots"]] == list(SHIPPED_ROBOTS)
    assert [model["name"] for model in listed["models"]] == list(SHIPPED_MODELS)
    panda = next(robot for robot in listed["robots"] if robot["name"] == "panda")
    assert panda == {"name": "panda", "joints": 7, "base": "panda_link0", "tip": "panda_link8"}


def test_one_kind_may_be_asked_for(eim: Command) -> None:
    robots, models = eim("list", "robots").out, eim("list", "models").out
    assert robots.count("\n") == 1 + len(SHIPPED_ROBOTS) and "models" not in robots
    assert "panda_pose       panda, given a pose: 1000 experts by eim-kinematics" in models
